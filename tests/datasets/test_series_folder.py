"""A user's own trajectories: cases, windows, splits, parameters, what is read, and training on them from the shell."""

import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import meshio
import numpy as np
import pytest
import torch
from conftest import strip
from torch_geometric.loader import DataLoader

from meshop.cli import main
from meshop.data import InputError, MeshData
from meshop.datasets import SeriesFolder, holds_series, statistics
from meshop.datasets.series_folder import series_files
from meshop.io import read_series, to_meshio, to_pyvista, write_mesh, write_series
from meshop.train import Surrogate, evaluate
from meshop.transforms import KNNGraph

FRAMES = 6


def time_of(case: int, frame: int) -> float:
    return 0.1 * case + 0.25 * frame**2


def save_case(folder: Path, case: int, frames: int = FRAMES) -> None:
    """``u`` = 100 case + 10 frame + node on points, ``v`` = (u, -u, 0), ``q`` on cells; ``wall`` in all frames."""
    mesh = strip(2, 1 + case)
    folder.mkdir(parents=True, exist_ok=True)
    for frame in range(frames):
        out = to_pyvista(mesh)
        out.clear_data()
        u = 100.0 * case + 10 * frame + np.arange(out.n_points)
        out.point_data["u"] = u
        out.point_data["v"] = np.stack([u, -u, 0 * u], 1)
        out.point_data["wall"] = np.arange(out.n_points) % 2
        out.cell_data["q"] = 10.0 * frame + np.arange(out.n_cells)
        out.field_data["TimeValue"] = [time_of(case, frame)]
        out.save(folder / f"f_{frame}.vtu")


def save_pvd(root: Path, case: int, frames: int = FRAMES) -> None:
    save_case(root / f"run_{case}", case, frames)
    sets = [f'<DataSet timestep="{time_of(case, i)!r}" file="run_{case}/f_{i}.vtu"/>' for i in range(frames)]
    (root / f"run_{case}.pvd").write_text(
        f'<VTKFile type="Collection"><Collection>{"".join(sets)}</Collection></VTKFile>'
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Five cases on meshes of their own, run_1 to run_10, and a CSV of their numbers."""
    folder = tmp_path / "runs"
    for case in (1, 2, 3, 4, 10):
        save_pvd(folder, case)
    return folder


SPLIT = {"train": ["run_1", "run_2.pvd"], "val": ["run_3"], "test": ["run_4", "run_10"]}


def names(data: Any) -> list[str]:
    return [mesh.name for mesh in data]


# ---------------------------------------------------------------------------------------------------------------------
# windows


def test_an_item_is_a_packed_window_on_the_mesh_of_its_case(root: Path) -> None:
    data = SeriesFolder(root, ["u", "v"], "wall", split=SPLIT, T_in=2, T_out=3, units={"u": "K"})
    assert names(data) == [f"run_{case}_000{start}" for case in (1, 2, 3, 4, 10) for start in range(2)]
    assert data.splits == {"train": [0, 1, 2, 3], "val": [4, 5], "test": [6, 7, 8, 9]}
    assert [str(f) for f in data.spec.inputs] == ["wall:point", "u_in:point", "v_in:point"]
    assert [(f.name, f.components, f.unit) for f in data.spec.targets] == [("u_out", 3, "K"), ("v_out", 6, "")]
    assert (data.T_in, data.T_out, data.spec.dim, data.spec.in_channels) == (2, 3, 2, 2 + 1 + 2 + 4)
    mesh = data.split("test")[3]
    assert mesh.validate()
    assert mesh.name == "run_10_0001"
    assert mesh.num_nodes == 3 * 12
    u = 1000.0 + torch.arange(36)[:, None] + 10 * torch.arange(1, 6)
    wall = torch.arange(36)[:, None] % 2
    v = torch.stack([u, -u], 2)
    assert torch.equal(mesh.x, torch.cat([mesh.pos, wall, u[:, :2], v[:, :2].flatten(1)], 1))
    assert torch.equal(mesh.y, torch.cat([u[:, 2:], v[:, 2:].flatten(1)], 1))
    assert mesh.times.tolist() == [[time_of(10, frame) for frame in range(1, 6)]]
    assert float(mesh.measure.sum()) == pytest.approx(float(strip(2, 11).points[:, 0].max()), rel=0.1)
    batch = next(iter(DataLoader(data, batch_size=10)))
    assert batch.times.shape == (10, 5)
    assert batch.num_nodes == sum(m.num_nodes for m in data)
    assert torch.equal(pickle.loads(pickle.dumps(data))[9].x, mesh.x)
    assert statistics(data.split("val"))["u_in[0]"]["min"] == 300


def test_starts_and_strides(root: Path) -> None:
    def starts(**options: Any) -> dict[str, list[list[int]]]:
        data = SeriesFolder(root, "u", split=SPLIT, **options)
        return {part: [list(data.windows[i][1]) for i in ids] for part, ids in data.splits.items()}

    assert starts(T_out=3, train_starts="random", test_starts="first") == {
        "train": [[0, 1, 2], [0, 1, 2]],
        "val": [[0]],
        "test": [[0], [0]],
    }
    assert starts(T_out=2, stride=3, test_starts=[1]) == {
        "train": [[0], [3], [0], [3]],
        "val": [[1]],
        "test": [[1], [1]],
    }
    assert starts(train_starts="random", stride=2, frames_step=2, test_starts="first")["train"] == [[0, 2], [0, 2]]
    data = SeriesFolder(root, "u", split=SPLIT, T_out=2, frames_step=2, train_starts="random")
    drawn = {mesh.name: mesh for mesh in (data[0] for _ in range(12))}
    assert sorted(drawn) == ["run_1_0000", "run_1_0001"]
    assert drawn["run_1_0001"].times.tolist() == [[time_of(1, frame) for frame in (1, 3, 5)]]
    assert drawn["run_1_0001"].y[0].tolist() == [130, 150]


def test_fields_on_cells_and_graphs_of_ones_own(root: Path) -> None:
    data = SeriesFolder(root, "q", split=SPLIT, T_out=2)
    assert data[0].x.shape == (2 * 2, 3)  # the cells are the nodes
    data = SeriesFolder(root, "u:point", split=SPLIT, dim=3, pre_transform=KNNGraph(k=2))
    assert data.spec.dim == 3
    assert data[0].edge_index.size(1) >= 2 * data[0].num_nodes
    assert "measure" not in data[0]


def test_only_the_frames_of_the_window_and_the_first_are_read(root: Path) -> None:
    data = SeriesFolder(root, "u", split=SPLIT, T_out=2)
    assert names(data[:4]) == [f"run_1_000{start}" for start in range(4)]
    for frame in (1, 2):
        (root / "run_1" / f"f_{frame}.vtu").write_text("damaged")
    assert data[3].y[0].tolist() == [140, 150]
    with pytest.raises(InputError, match=r"run_1.f_2\.vtu"):
        data[2]
    (root / "run_1" / "f_0.vtu").unlink()
    with pytest.raises(InputError, match=r"run_1.f_0\.vtu': there is no such file"):
        data[3]


def test_nodes_that_move_are_learnt_by_their_displacement(tmp_path: Path) -> None:
    for case in range(3):
        for frame in range(3):
            mesh = strip(1, 2 + case)
            mesh.points[:, 0] += frame * (mesh.points[:, 1] if frame == 2 else 0)
            path = tmp_path / f"run_{case}" / f"f_{frame}.vtu"
            path.parent.mkdir(exist_ok=True)
            to_pyvista(mesh).save(path)
    data = SeriesFolder(tmp_path, "displacement", split="0.4/0.3/0.3")
    assert data.spec.out_channels == 2
    still, moved = data[0], data[1]
    assert torch.equal(still.pos, moved.pos)
    assert not still.y.any()
    assert torch.equal(moved.y, torch.stack([2 * moved.pos[:, 1], 0 * moved.pos[:, 1]], 1))


# ---------------------------------------------------------------------------------------------------------------------
# cases and their parameters


def test_parameters_of_a_csv_and_of_the_times(root: Path) -> None:
    (root / "cases.csv").write_text("case,load\n" + "".join(f"run_{i}.pvd,{i / 2}\n" for i in (1, 2, 3, 4, 10)))
    assert SeriesFolder(root, "u", split=SPLIT)[0].params.tolist() == [[0.5]]
    data = SeriesFolder(root, "u", params="dt,time", split=SPLIT, T_in=2)
    assert data.spec.params == ("load", "time", "dt")
    times = [time_of(2, frame) for frame in range(FRAMES)]
    mesh = data[5]  # frames 1 to 3 of run_2
    assert mesh.params[0].tolist() == pytest.approx([1.0, times[2], times[3] - times[2]])
    table = root.parent / "other.csv"
    table.write_text("dt;name\n" + "".join(f"9;run_{i}\n" for i in (1, 2, 3, 4, 10)))
    data = SeriesFolder(root, "u", params=f"{table},time", split=SPLIT, T_in=2)
    assert data.spec.params == ("dt", "time")
    assert data[5].params[0].tolist() == pytest.approx([times[3] - times[2], times[2]])
    with pytest.raises(InputError, match=r"Expected one CSV of parameters \(got a.csv, b.csv\)"):
        SeriesFolder(root, "u", params="a.csv,b.csv")
    with pytest.raises(InputError, match=r"there is no file 'Time'"):
        SeriesFolder(root, "u", params="Time")


def test_any_time_is_predicted_in_one_call(root: Path) -> None:
    """With ``initial`` and ``dt``: from the first frame and the time since to the frame then, in a random order."""
    data = SeriesFolder(root, "u", params="time,dt", split=SPLIT, initial=True)
    assert names(data.split("test")) == [f"run_{case}_000{start}" for case in (4, 10) for start in range(5)]
    for item, (case, start) in zip(data.split("test"), itertools.product((4, 10), range(5)), strict=True):
        now, then = time_of(case, 0), time_of(case, start + 1)
        node = torch.arange(float(item.num_nodes))
        assert item.times.tolist() == [[now, then]]
        assert item.params[0].tolist() == pytest.approx([now, then - now])
        assert torch.equal(item.x, torch.cat([item.pos, 100 * case + node[:, None]], 1))
        assert torch.equal(item.y, 100 * case + 10 * (start + 1) + node[:, None])

    class Linear(torch.nn.Linear):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return super().forward(x)

    surrogate = Surrogate(Linear(data.spec.in_channels, 1), data.spec, data.pre_transform)
    surrogate.log = lambda *args, **kwargs: None  # type: ignore[method-assign]  # there is no trainer
    surrogate.fit_normalizers(data.split("train"))
    batch = next(iter(DataLoader(data.split("train"), batch_size=10, shuffle=True)))
    times = batch.params[:, 1].tolist()
    assert times != sorted(times)
    assert sorted(times) == pytest.approx(sorted(time_of(0, frame) for frame in range(1, 6) for _ in range(2)))
    surrogate.training_step(batch, 0).backward()
    assert surrogate.model.calls == 1
    assert float(surrogate.model.weight.grad[0, -1].abs()) > 0
    rows = evaluate(surrogate, data.split("test"), batch_size=10)
    assert [row["name"] for row in rows] == names(data.split("test"))
    assert surrogate.model.calls == 2


def test_series_are_files_or_directories_of_numbered_files(tmp_path: Path) -> None:
    for case in (2, 10):
        save_case(tmp_path / f"Re_0.{case}", case)
    save_case(tmp_path / ".hidden", 1)
    assert list(series_files(tmp_path)) == ["Re_0.2", "Re_0.10"]
    data = SeriesFolder(tmp_path, "u", split={"train": ["Re_0.2"], "test": ["Re_0.10"]})
    assert data[0].times.tolist() == [[time_of(2, 0), time_of(2, 1)]]
    files = [{"name": f"../Re_0.2/f_{i}.vtu", "time": i} for i in range(3)]
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a.vtu.series").write_text(json.dumps({"files": files}))
    assert list(series_files(tmp_path)) == ["below/a"]
    save_pvd(tmp_path, 3)
    assert list(series_files(tmp_path)) == ["run_3"]
    mesh = to_meshio(strip(1, 1))
    for name in ("run_4.xdmf", "run_3.xdmf"):
        with meshio.xdmf.TimeSeriesWriter(tmp_path / name, data_format="XML") as writer:
            writer.write_points_cells(mesh.points, mesh.cells)
            for time in range(3):
                writer.write_data(float(time), {"u": np.full(4, 5.0 * time)})
        if name == "run_4.xdmf":
            mixed = SeriesFolder(tmp_path, "u", split={"train": ["run_3"], "test": ["run_4.xdmf"]})
            assert mixed.split("test")[1].y.tolist() == [[10]] * 4
    with pytest.raises(InputError, match=r"Expected one series for the case 'run_3' \(got '.*run_3.\w+' and '.*run_3"):
        series_files(tmp_path)


def test_what_is_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Expected a directory of series \(there is no directory 'nowhere'\)"):
        SeriesFolder("nowhere", "u")
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        InputError, match=r"Expected series in '.*empty': files of .pvd, .*, or directories of numbered"
    ):
        SeriesFolder(tmp_path / "empty", "u")
    with pytest.raises(
        InputError, match=r"Expected at least 8 frames in '.*run_\d+.pvd' for windows of 1 \+ 7 \(got 6\)"
    ):
        SeriesFolder(root, "u", T_out=7)
    with pytest.raises(InputError, match=r"field 'uu' is not in it"):
        SeriesFolder(root, "uu")
    with pytest.raises(InputError, match=r"Expected the input 'v' not to change in '.*pvd'; make it a target, too"):
        SeriesFolder(root, "u", "v", split=SPLIT)
    with pytest.raises(InputError, match=r"Expected one of the splits train, val, test \(got 'tets'\)"):
        SeriesFolder(root, "u", split=SPLIT).split("tets")
    with pytest.raises(InputError, match="Expected T_in, T_out, stride and frames_step of at least 1"):
        SeriesFolder(root, "u", T_in=0)


# ---------------------------------------------------------------------------------------------------------------------
# the command line


def test_train_and_evaluate_from_the_shell(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["train", str(root), "--target", "u", "v", "--input", "wall", "--params", "dt", "--split", "0.6/0.2/0.2"]
    call += [
        "--data_args",
        '{"T_in": 1, "T_out": 2, "train_starts": "first"}',
        "--rollout.frames",
        "1",
        "--epochs",
        "1",
        "--model",
        "CANO",
    ]
    call += ["--model.hidden_channels", "8", "--model.num_layers", "1", "--model.heads", "2", "--device", "cpu"]
    assert main([*call, "--out", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    assert "fields     position, wall:point, u_in:point, v_in:point, dt -> u_out:point, v_out:point" in out
    checkpoint = str(tmp_path / "run" / "checkpoints" / "best.ckpt")
    assert main(["evaluate", checkpoint, "--device", "cpu"]) == 0
    again = capsys.readouterr().out
    assert again.splitlines()[-2:] == [line for line in out.splitlines() if line.startswith(("u_out", "v_out"))]
    out = tmp_path / "out"
    assert main(["rollout", checkpoint, str(root / "run_4.pvd"), "--out", str(out), "--pictures", "false"]) == 0
    assert read_series(out / "run_4.pvd").times.tolist() == [[time_of(4, frame) for frame in range(1, FRAMES)]]
    capsys.readouterr()
    assert main(["evaluate", checkpoint, str(root), "--params", "dt", "--part", "all", "--device", "cpu"]) == 0
    assert "u_out" in capsys.readouterr().out


def test_a_directory_is_one_of_series_where_it_holds_some_or_windows_are_asked_for(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["--target", "u", "--model", "GraphSAGE", "--model.hidden_channels", "4", "--model.num_layers", "1"]
    call += ["--dry-run"]
    assert main(["train", str(root), *call]) == 0
    assert "position, u_in:point -> u_out:point" in capsys.readouterr().out
    for path in list(root.glob("*.pvd")):
        path.unlink()
    assert main(["train", str(root), *call]) == 0
    assert f"{5 * FRAMES * 8 // 10} train" in (out := capsys.readouterr().out)
    assert "position -> u:point" in out
    assert main(["train", str(root), *call, "--data_args.T_out", "2"]) == 0
    assert "position, u_in:point -> u_out:point" in capsys.readouterr().out


def test_files_of_one_time_are_no_series(tmp_path: Path) -> None:
    folder = tmp_path / "still"
    folder.mkdir()
    mesh = MeshData.from_cells([[0.0, 0], [1, 0], [0, 1]], [5], [[0, 1, 2]])
    write_mesh(folder / "a.xdmf", mesh)
    assert not holds_series(folder)
    write_series(folder / "b.pvd", mesh_with_times(mesh))
    assert holds_series(folder)


def mesh_with_times(mesh: MeshData) -> MeshData:
    mesh.point_data["u"] = torch.zeros(3, 2)
    mesh.times = torch.tensor([[0.0, 1.0]])
    return mesh
