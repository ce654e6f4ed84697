"""What all data sets larger than memory share: windows of trajectories, one graph, no cache."""

import pickle
import struct
import zipfile

import numpy as np
import pytest
import torch
from torch_geometric.loader import DataLoader

import meshop.bench as bench
from meshop.data import Field, InputError
from meshop.datasets import BENCHMARKS, KF2D, LazyDataset, statistics
from meshop.datasets.lazy import place_windows
from meshop.datasets.official import grid_mesh
from meshop.io.arrays import read_npz
from meshop.models import FNO
from meshop.train import Recipe, Surrogate, evaluate, fit
from meshop.transforms import KNNGraph


class Waves(LazyDataset):
    """Trajectories of 6 frames on 2 x 3 points: value = 100 trajectory + 10 frame + node; a vector of it and -it."""

    needs, source, params = "nothing", "nothing", ("number",)
    opened = 0

    def __init__(self, root, T_in=2, T_out=1, starts="all", **kwargs):
        self.starts = starts
        super().__init__(root, T_in, T_out, **kwargs)

    @property
    def raw_file_names(self):
        return ["waves"]

    def download(self):
        (self.root_path / "raw" / "waves").write_text("")

    @property
    def root_path(self):
        from pathlib import Path

        return Path(self.root)

    def open(self):
        type(self).opened += 1
        axes = np.meshgrid(np.arange(2.0), np.arange(3.0), indexing="ij")
        place = {name: place_windows(ids, 6, self.T_in + self.T_out, self.starts) for name, ids in self.parts.items()}
        return grid_mesh(np.stack(axes, -1)), (Field("h", "point", unit="m"), Field("v", "point", 2)), place

    parts = {"train": ["w0", "w1"], "test": ["w2"]}  # noqa: RUF012

    def frames(self, trajectory, start, stop):
        h = 100 * int(trajectory[1:]) + 10 * np.arange(start, stop)[:, None] + np.arange(6)
        h = h.reshape(-1, 2, 3)
        return {"h": h, "v": np.stack([h, -h], -1)}

    def condition(self, trajectory):
        return [float(trajectory[1:])]


def test_items_are_packed_windows_frame_after_frame(tmp_path):
    waves = Waves(tmp_path)
    assert len(waves) == 3 * 4
    assert waves.splits == {"train": list(range(8)), "test": list(range(8, 12))}
    assert [str(f) for f in waves.spec.inputs] == ["h_in:point", "v_in:point"]
    assert [(f.name, f.components, f.unit) for f in waves.spec.targets] == [("h_out", 1, "m"), ("v_out", 2, "")]
    assert (waves.spec.params, waves.spec.dim, waves.spec.in_channels) == (("number",), 2, 2 + 2 + 4 + 1)
    mesh = waves.split("test")[1]
    assert mesh.validate()
    assert mesh.name == "w2_0001"
    assert mesh.shape == (2, 3)
    assert mesh.params.tolist() == [[2.0]]
    node = torch.arange(6.0)
    now, then, last = 210 + node, 220 + node, 230 + node
    assert torch.equal(mesh.x, torch.stack([*mesh.pos.T, now, then, now, -now, then, -then], 1))
    assert torch.equal(mesh.y, torch.stack([last, last, -last], 1))
    assert torch.equal(mesh.point_data["v_in"], mesh.x[:, 4:])
    assert mesh.edge_index.size(1) == 2 * 7
    assert float(mesh.measure.sum()) == 2


def test_the_graph_is_built_once_and_shared(tmp_path):
    calls = []

    def graph(mesh):
        calls.append(mesh)
        return KNNGraph(k=2)(mesh)

    waves = Waves(tmp_path, pre_transform=graph)
    assert waves.pre_transform is graph
    assert waves[0].edge_index is waves[5].edge_index is waves.mesh.edge_index
    assert len(calls) == 1
    assert "measure" not in waves[0]
    assert Waves(tmp_path, position=False)[0].x.size(1) == 6


def test_what_a_caller_adds_to_an_item_stays_out_of_the_data_set(tmp_path):
    waves = Waves(tmp_path)
    for _ in range(2):
        mesh = waves[0]
        for key in ("point_data", "cell_data", "field_data"):
            assert "new" not in mesh[key]
            mesh[key]["new"] = torch.zeros(6)


def test_subsets_transforms_and_loaders_are_those_of_any_data_set(tmp_path):
    waves = Waves(tmp_path, transform=lambda mesh: mesh.update({"seen": True}))
    assert waves[3].seen
    part = waves.split("train")[1::3]
    assert [mesh.name for mesh in part] == ["w0_0001", "w1_0000", "w1_0003"]
    with pytest.raises(InputError, match=r"one of the splits train, test \(got 'tets'\) \(did you mean 'test'\?\)"):
        waves.split("tets")
    again = pickle.loads(pickle.dumps(Waves(tmp_path)))
    assert torch.equal(again[4].x, waves[4].x)
    for workers in (0, 1):
        names = [name for batch in DataLoader(Waves(tmp_path), 5, num_workers=workers) for name in batch.name]
        assert names == [f"w{i}_{s:04d}" for i in range(3) for s in range(4)]


def test_a_random_window_is_another_each_time_and_follows_the_seed(tmp_path):
    waves = Waves(tmp_path, starts="random")
    assert len(waves) == 3

    def draw():
        torch.manual_seed(3)
        return [waves[1].name for _ in range(60)]

    names = draw()
    assert set(names) == {f"w1_{s:04d}" for s in range(4)}
    assert names == draw()


def test_windows_at_given_starts(tmp_path):
    assert [m.name for m in Waves(tmp_path, starts=(0, 3)).split("train")] == [
        "w0_0000", "w0_0003", "w1_0000", "w1_0003",
    ]  # fmt: skip
    for starts in ((4,), (-1,), (), "none"):
        with pytest.raises(InputError, match=r"^Expected starts from 0 to 3 for windows of 3 frames, all or random"):
            Waves(tmp_path, starts=starts)
    with pytest.raises(InputError, match=r"^Expected T_in \+ T_out of at most the 6 frames of a trajectory \(got 7\)"):
        Waves(tmp_path, T_in=5, T_out=2)
    with pytest.raises(InputError, match=r"^Expected T_in and T_out of 1 or more \(got 0 and 1\)"):
        Waves(tmp_path, T_in=0)


def test_a_trajectory_that_is_shorter_or_has_another_grid_is_named(tmp_path):
    class Short(Waves):
        def frames(self, trajectory, start, stop):
            h = super().frames(trajectory, start, min(stop, 4))["h"]
            return {"h": h, "v": np.stack([h, h], -1)}

    short = Short(tmp_path)
    assert short[0].num_nodes == 6
    with pytest.raises(
        InputError,
        match=r"Expected 3 frames of h on a grid of \[2, 3\] from frame 3 of 'w1' in '.*raw' on \(got \[1, 2, 3\]\)",
    ):
        short[7]


def test_values_that_are_not_finite_name_the_window(tmp_path):
    class Broken(Waves):
        def frames(self, trajectory, start, stop):
            fields = super().frames(trajectory, start, stop)
            return fields | {"h": np.where(fields["h"] == 23, np.nan, fields["h"])}

    with pytest.raises(InputError, match=r"w0_0000 holds 1 values that are not finite"):
        Broken(tmp_path)[0]


def test_statistics_are_those_of_all_windows(tmp_path):
    rows = statistics(Waves(tmp_path))
    assert list(rows)[:4] == ["nodes", "cells", "edges", "number"]
    h = np.stack([Waves.frames(None, f"w{i}", 2, 6)["h"] for i in range(3)])
    v = rows["v_out[1]"]
    assert v == pytest.approx({"min": -h.max(), "mean": -h.mean(), "max": -h.min(), "std": h.std()})
    assert rows["number"] == pytest.approx({"min": 0, "mean": 1, "max": 2, "std": (2 / 3) ** 0.5})


def test_training_and_evaluation(tmp_path):
    waves = Waves(tmp_path / "data")
    surrogate = Surrogate(
        FNO(waves.spec.in_channels, 4, 1, waves.spec.out_channels, modes=(2, 2)),
        waves.spec, waves.pre_transform, Recipe(epochs=2, batch_size=3),
    )  # fmt: skip
    fit(surrogate, waves.split("train"), waves.split("test"), tmp_path / "run", device="cpu", workers=0)
    assert torch.allclose(surrogate.y_norm.mean[0], torch.tensor(50 + 35 + 2.5))
    rows = evaluate(surrogate, waves.split("test"))
    assert [(r["name"], r["field"]) for r in rows[:2]] == [("w2_0000", "h_out"), ("w2_0000", "v_out")]
    assert len(rows) == 8


def test_the_bench_runs_on_it(tmp_path, monkeypatch):
    monkeypatch.setitem(BENCHMARKS, "waves", Waves)
    choice = {
        "class_path": "meshop.models.FNO",
        "init_args": {"hidden_channels": 4, "num_layers": 1, "modes": [2, 2]},
    }
    trial = bench.Trial("waves", "FNO", 0, 1e-9, choice, {"batch_size": 4}, {"starts": "random"})
    row = bench.run_trial(trial, 1.0, tmp_path, tmp_path / "out", "cpu")
    assert row["epochs"] == "1"
    assert float(row["relative_l2:h_out"]) > 0


def test_absent_files_are_asked_for(tmp_path):
    message = (
        r"^KF2D needs kf_2d_re1000_256_120seed.npy \(10,066.3 MB\) in '.*raw'; get Kmflow 2D of FactFormer \(github.com"
    )
    with pytest.raises(InputError, match=message):
        KF2D(tmp_path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_of_arrays(tmp_path, save):
    path = tmp_path / "a.npz"
    a, b = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4), np.asfortranarray(np.arange(6).reshape(2, 3))
    save(path, a=a, b=b, names=np.array(["x", "longer"]))
    for array, truth in zip(read_npz(path, "b", "a", "names"), (b, a, np.array(["x", "longer"])), strict=True):
        assert array.dtype == truth.dtype
        assert np.array_equal(array, truth)
        assert isinstance(array, np.memmap) == (save is np.savez)
    with pytest.raises(InputError, match=r"^Expected c in '.*a.npz' \(it has a, b, names\)$"):
        read_npz(path, "a", "c")
    damage = r"a.npz' is not an archive of arrays of numpy, or is damaged \("
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=damage):
        read_npz(path, "a")
    broken = bytearray(content)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a.npy", "no array")
    with pytest.raises(InputError, match=damage.replace("a.npz", "other.zip")):
        read_npz(tmp_path / "other.zip", "a")
    start = 30 + sum(struct.unpack("<HH", broken[26:30]))
    broken[start + 40 : start + 90] = bytes(50)
    path.write_bytes(broken)
    with pytest.raises(InputError, match=damage):
        read_npz(path, "a")
