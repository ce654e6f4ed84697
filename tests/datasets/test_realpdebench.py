"""RealPDEBench's sets: tiny Arrow and HDF5 files in the published layout, whose values tell where they stood."""

import json
import pickle
import sys

import numpy as np
import pytest
import torch

from meshop.data import InputError
from meshop.datasets import FSI, Combustion, ControlledCylinder, Foil

pa = pytest.importorskip("pyarrow")
h5py = pytest.importorskip("h5py")

SIMS = ("1781_0.5.h5", "2625_1.h5", "9843_1.4.h5")
SHAPE = (9, 3, 4)  # T, H, W


def values(sim, column, shape=SHAPE):
    """A trajectory whose values tell it, its column and the place."""
    code = 1000 * SIMS.index(sim) + 10000 * ("u", "v", "p", "observed", "numerical").index(column)
    array = code + np.arange(np.prod(shape)).reshape(shape)
    return array.astype(np.float32)


def write_index(root, kind="real", **parts):
    parts = parts or {"train": [(0, 0), (0, 3), (1, 5)], "val": [(1, 0)], "test": [(2, 1), (1, 4), (0, 6)]}
    (root / "raw" / "hf_dataset").mkdir(parents=True, exist_ok=True)
    for part, entries in parts.items():
        rows = [{"sim_id": SIMS[i], "time_id": start} for i, start in entries]
        (root / "raw" / "hf_dataset" / f"{part}_index_{kind}.json").write_text(json.dumps(rows))


def write_arrow(root, kind="real", columns=("u", "v"), change=lambda rows: rows):
    write_index(root, kind)
    directory = root / "raw" / "hf_dataset" / kind
    directory.mkdir(exist_ok=True)
    size = {"shape_t": SHAPE[0], "shape_h": SHAPE[1], "shape_w": SHAPE[2]}
    rows = []
    for sim in SIMS:
        arrays = {c: values(sim, c, (*SHAPE, 15) if c == "numerical" else SHAPE).tobytes() for c in columns}
        rows.append({"sim_id": sim} | arrays | size)
    rows = change(rows)
    table = pa.Table.from_pylist(rows)
    for shard, part in enumerate((table[:2], table[2:])):  # the first file has two batches of one row
        path = directory / f"data-{shard:05d}-of-00002.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(part, max_chunksize=1)


def write_hdf5(root, kind="real"):
    write_index(root, kind)
    (root / "raw" / kind).mkdir()
    for sim in SIMS:
        with h5py.File(root / "raw" / kind / sim, "w") as file:
            for column in ("u", "v") if kind == "real" else ("u", "v", "p"):
                file[f"measured_data/{column}"] = values(sim, column)


def channels(*frames):
    return torch.from_numpy(np.stack([f.reshape(-1) for f in frames], 1))


def uv(sim, frames, part=np.s_[:, :]):
    return channels(*(values(SIMS[sim], c)[t][part] for t in frames for c in ("u", "v")))


def test_arrow(tmp_path):
    write_arrow(tmp_path)
    flows = ControlledCylinder(tmp_path, T_in=2, T_out=1)
    assert flows.splits == {"train": [0, 1, 2], "val": [3], "test": [4, 5, 6]}
    assert flows.spec.params == ("reynolds", "frequency")
    assert [str(f) for f in flows.spec.targets] == ["velocity_out:point"]
    mesh = flows.split("test")[0]
    assert (mesh.name, mesh.shape) == ("9843_1.4_0001", (3, 4))
    assert mesh.params.tolist() == [pytest.approx([9843, 1.4])]
    assert torch.equal(mesh.x[:, 2:], uv(2, (1, 2)))
    assert torch.equal(mesh.y, uv(2, (3,)))
    assert torch.equal(mesh.pos, torch.tensor([[j / 4, i / 4] for i in range(3) for j in range(4)]))
    assert mesh.num_cells == 2 * 3
    assert float(mesh.measure.sum()) == pytest.approx(0.75 * 0.5)
    assert [m.name for m in flows.split("train")] == ["1781_0.5_0000", "1781_0.5_0003", "2625_1_0005"]
    assert torch.equal(pickle.loads(pickle.dumps(flows))[4].x, mesh.x)
    assert np.array_equal(flows.frames("2625_1", 8, 9)["velocity"][..., 1], values(SIMS[1], "v")[8:])


def test_windows_without_room_are_left_out(tmp_path):
    write_arrow(tmp_path)
    flows = ControlledCylinder(tmp_path, T_in=3, T_out=2)
    assert [m.name for m in flows] == ["1781_0.5_0000", "1781_0.5_0003", "2625_1_0000", "9843_1.4_0001", "2625_1_0004"]
    write_index(tmp_path, train=[(0, 1)], val=[], test=[(0, 1)])
    with pytest.raises(InputError, match=r"^Expected windows of 9 frames in '.*train_index_real.json' \(no trajectory"):
        FSI(tmp_path, T_in=5, T_out=4)
    (tmp_path / "raw" / "hf_dataset" / "test_index_real.json").unlink()
    assert FSI(tmp_path, T_in=1, T_out=1).splits == {"train": [0]}


def test_what_was_not_measured(tmp_path):
    write_arrow(tmp_path)
    write_arrow(tmp_path, "numerical", ("u", "v", "p"))
    real, numerical = (FSI(tmp_path, kind, 1, 1, unmeasured=True) for kind in ("real", "numerical"))
    assert real.spec == numerical.spec
    assert [f.name for f in real.spec.inputs] == ["velocity_in", "p_in"]
    assert torch.equal(numerical[1].y, torch.cat([uv(0, (4,)), channels(values(SIMS[0], "p")[4])], 1))
    assert torch.equal(real[1].y, torch.cat([uv(0, (4,)), torch.zeros(12, 1)], 1))
    assert real.spec.params == ()


def test_parts_of_the_test_split(tmp_path):
    write_arrow(tmp_path)
    write = {"in_dist_test_params": {SIMS[2]: [1]}, "remain_params": {SIMS[1]: [2], "0_0.h5": []}}
    for name, content in write.items():
        (tmp_path / "raw" / f"{name}_real.json").write_text(json.dumps(content))
    flows = Foil(tmp_path, T_in=1, T_out=1)
    assert flows.splits["test_in_dist"] == [4]
    assert flows.splits["test_seen"] == [5]
    assert "test_unseen" not in flows.splits
    (tmp_path / "raw" / "out_dist_test_params_real.json").write_text(json.dumps({SIMS[0]: 1}))
    flows = Foil(tmp_path, T_in=1, T_out=1)
    assert flows.splits["test_unseen"] == [4, 6]
    assert [m.name for m in flows.split("test_out_dist")] == ["1781_0.5_0006"]


def test_hdf5_is_thinned_as_the_authors_do(tmp_path):
    write_hdf5(tmp_path)
    write_hdf5(tmp_path, "numerical")
    thin = np.s_[::2, ::2]
    for kind, shape, part in (("real", (3, 4), np.s_[:, :]), ("numerical", (2, 2), thin)):
        mesh = ControlledCylinder(tmp_path, kind, 2, 1)[1]
        assert mesh.shape == shape
        assert torch.equal(torch.cat([mesh.x[:, 2:], mesh.y], 1), uv(0, (3, 4, 5), part))
        assert mesh.pos[1].tolist() == [1 / shape[1], 0]
    assert Foil(tmp_path, "real", 1, 1)[0].shape == (2, 2)
    whole = FSI(tmp_path, "numerical", 1, 1, unmeasured=True, space_stride=1)[0]
    assert whole.shape == (3, 4)
    assert torch.equal(whole.y[:, 2:], channels(values(SIMS[0], "p")[1]))


def test_arrow_goes_before_hdf5(tmp_path):
    write_hdf5(tmp_path)
    write_arrow(tmp_path)
    assert Foil(tmp_path, T_in=1, T_out=1)[0].shape == (3, 4)


def test_combustion(tmp_path):
    write_arrow(tmp_path, "real", ("observed",))
    write_arrow(tmp_path, "numerical", ("observed", "numerical"))
    real = Combustion(tmp_path, T_in=2, T_out=1)
    seen = values(SIMS[0], "observed")
    assert torch.equal(torch.cat([real[1].x[:, 2:], real[1].y], 1), channels(*seen[3:6]))
    numerical = Combustion(tmp_path, "numerical", 1, 1, unmeasured=True)
    state = values(SIMS[0], "numerical", (*SHAPE, 15))
    assert torch.equal(numerical[1].y, channels(seen[4], *np.moveaxis(state[4], -1, 0)))
    zero = Combustion(tmp_path, "real", 1, 1, unmeasured=True)[1]
    assert torch.equal(zero.y, torch.cat([channels(seen[4]), torch.zeros(12, 15)], 1))


def test_combustion_of_hdf5(tmp_path):
    for kind in ("real", "numerical"):
        write_index(tmp_path, kind)
    for directory, key, column in (
        ("real", "trajectory", "observed"), ("numerical", "measured_data", "numerical"),
        ("surrogate", "measured_data", "observed"),
    ):  # fmt: skip
        (tmp_path / "raw" / directory).mkdir()
        for sim in SIMS:
            with h5py.File(tmp_path / "raw" / directory / sim, "w") as file:
                sign = -1 if directory == "surrogate" else 1
                file[key] = sign * values(sim, column, (*SHAPE, 15) if column == "numerical" else SHAPE)
    seen, state = values(SIMS[0], "observed")[4, ::2, ::2], values(SIMS[0], "numerical", (*SHAPE, 15))[4, ::2, ::2]
    assert torch.equal(Combustion(tmp_path, "real", 1, 1)[1].y, channels(seen))
    numerical = Combustion(tmp_path, "numerical", 1, 1, unmeasured=True)[1]
    assert torch.equal(numerical.y, channels(-seen, *np.moveaxis(state, -1, 0)))


def test_the_authors_windows_are_the_default(tmp_path):
    write_arrow(tmp_path)
    for kind, steps in ((ControlledCylinder, 10), (FSI, 20), (Foil, 20), (Combustion, 20)):
        assert kind.steps == steps
        with pytest.raises(InputError, match=rf"Expected windows of {2 * steps} frames"):
            kind(tmp_path)


# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ControlledCylinder, FSI, Foil, Combustion])
def test_absent_files_are_asked_for(tmp_path, kind):
    message = rf"^{kind.__name__} needs hf_dataset/\{{train,val,test\}}_index.* GB.* in '.*raw'; get .*RealPDEBench$"
    with pytest.raises(InputError, match=message):
        kind(tmp_path)


def test_arguments_that_do_not_fit(tmp_path):
    with pytest.raises(InputError, match=r"Expected the kind real or numerical \(got 'measured'\)"):
        FSI(tmp_path, "measured")
    with pytest.raises(InputError, match=r"Expected a space_stride of 1 or more \(got 0\)"):
        FSI(tmp_path, space_stride=0)


def test_a_name_without_parameters(tmp_path):
    write_arrow(tmp_path, change=lambda rows: [row | {"sim_id": f"{i}.h5"} for i, row in enumerate(rows)])
    rows = [{"sim_id": "1.h5", "time_id": 0}]
    for part in ("train", "val", "test"):
        (tmp_path / "raw" / "hf_dataset" / f"{part}_index_real.json").write_text(json.dumps(rows))
    assert FSI(tmp_path, T_in=1, T_out=1)[0].name == "1_0000"
    with pytest.raises(
        InputError, match=r"trajectory called by Reynolds number and frequency, 1781_0.5 say \(got '1'\)"
    ):
        ControlledCylinder(tmp_path, T_in=1, T_out=1)[0]


def test_broken_index_files(tmp_path):
    write_arrow(tmp_path)
    index = tmp_path / "raw" / "hf_dataset" / "train_index_real.json"
    index.write_text('[{"sim_id": "a"')
    with pytest.raises(InputError, match=r"train_index_real.json' is not a JSON file, or is damaged \("):
        FSI(tmp_path)
    index.write_text('[{"sim_id": "a"}]')
    with pytest.raises(InputError, match=r"Expected a list of windows with sim_id and time_id in '.*train_index_real"):
        FSI(tmp_path)
    index.write_text('[{"sim_id": "a", "time_id": 0}]')
    with pytest.raises(
        InputError, match=r"Expected the trajectory 'a' of the index files in '.*hf_dataset/real' \(it has 3 others\)"
    ):
        FSI(tmp_path)


def test_broken_arrow_files(tmp_path):
    write_arrow(tmp_path)
    flows = Combustion(tmp_path, "real", 1, 1)
    with pytest.raises(InputError, match=r"Expected observed in '.*arrow' \(it has sim_id, u, v, shape_t, shape_h"):
        flows[0]
    write_arrow(tmp_path, change=lambda rows: [row | {"v": row["v"][:100]} for row in rows])
    with pytest.raises(InputError, match=r"Expected v of \[9, 3, 4\] float32 in '.*arrow' \(got 100 bytes\)"):
        FSI(tmp_path, "real", 1, 1)[0]
    write_arrow(tmp_path, change=lambda rows: [{"sim_id": row["sim_id"], "time_id": 0, "u": row["u"]} for row in rows])
    with pytest.raises(InputError, match=r"Expected shape_t, shape_h, shape_w in .* before version 2, with one row a"):
        FSI(tmp_path)
    path = tmp_path / "raw" / "hf_dataset" / "real" / "data-00000-of-00002.arrow"
    path.write_bytes(b"no arrow, but something else")
    with pytest.raises(InputError, match=r"data-00000-of-00002.arrow' is not a stream of Arrow, or is damaged \("):
        FSI(tmp_path)


def test_broken_hdf5_files(tmp_path):
    write_hdf5(tmp_path)
    path = tmp_path / "raw" / "real" / SIMS[0]
    with h5py.File(path, "w") as file:
        file["measured_data/v"] = np.zeros(SHAPE)
    with pytest.raises(InputError, match=r"Expected measured_data/u in '.*1781_0.5.h5' \(it has measured_data\)"):
        FSI(tmp_path)
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"1781_0.5.h5' is not an HDF5 file, or is damaged \("):
        FSI(tmp_path)


def test_without_the_packages_that_read_them(tmp_path, monkeypatch):
    write_hdf5(tmp_path)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "h5py", None)
        with pytest.raises(InputError, match=r"h5' needs h5py; pip install \"meshop\[data\]\""):
            FSI(tmp_path)
    write_arrow(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"arrow' needs pyarrow; pip install \"meshop\[data\]\""):
        FSI(tmp_path)
