"""``meshop rollout``: from a checkpoint and a series to a series that plays, its errors and an animation."""

import csv
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv
import torch
from PIL import Image
from torch import nn

from meshop.cli import main
from meshop.data import Field, FieldSpec, MeshData
from meshop.io import SeriesWriter
from meshop.rollout import Rollout
from meshop.train import Recipe, Surrogate
from meshop.transforms import CellsToEdges


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write the checkpoint of a model that multiplies the last frame."""

    def write(value: float = 2.0, components: int = 1, position: bool = False, **rollout: object) -> str:
        inputs = (Field("wall", "point"), Field("u_in", "point", components))
        spec = FieldSpec((Field("u_out", "point", components),), inputs, dim=2, position=position)
        rest = 1 + 2 * position
        model = nn.Linear(rest + components, components, bias=False)
        with torch.no_grad():
            model.weight.copy_(torch.cat([torch.zeros(components, rest), value * torch.eye(components)], dim=1))
        made = Surrogate(model, spec, CellsToEdges(), Recipe(), None, Rollout(**rollout))  # type: ignore[arg-type]
        state: dict[str, object] = {"state_dict": made.state_dict()}
        made.on_save_checkpoint(state)
        path = tmp_path / "model.ckpt"
        torch.save(state, path)
        return str(path)

    return write


def series(path: Path, values: list[list[float]], times: list[float]) -> str:
    mesh = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], [9], [range(4)])
    with SeriesWriter(path) as writer:
        for value, time in zip(values, times, strict=True):
            u = np.array(value, dtype=np.float32)
            writer.write(mesh, time, point_data={"u": u, "wall": np.float32([1, 0, 0, 0])})
    return str(path)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_series_with_prediction_truth_and_error(tmp_path: Path, checkpoint) -> None:
    times = [0.0, 0.1, 0.3, 0.35]
    run = series(tmp_path / "run.pvd", [[1.0, 1, 1, 1], [2.0, 2, 2, 3], [4.0, 4, 4, 4], [7.0, 8, 8, 8]], times)
    assert main(["rollout", checkpoint(), run, "--steps", "5", "--out", str(tmp_path / "out")]) == 0
    reader = pv.get_reader(tmp_path / "out" / "run.pvd")
    assert reader.time_values == pytest.approx([*times[1:], 0.40, 0.45])
    reader.set_active_time_point(0)
    first = reader.read()[0]
    assert first["u_pred"].tolist() == [2, 2, 2, 2]
    assert first["u"].tolist() == [2, 2, 2, 3]
    assert first["u_error"].tolist() == [0, 0, 0, -1]
    assert first["wall"].tolist() == [1, 0, 0, 0]
    reader.set_active_time_point(4)
    last = reader.read()[0]
    assert last["u_pred"].tolist() == [32] * 4
    assert "u" not in last.point_data
    errors = rows(tmp_path / "out" / "run.csv")
    assert [(r["step"], r["field"]) for r in errors] == [("1", "u"), ("2", "u"), ("3", "u")]
    assert float(errors[0]["relative_l2"]) == pytest.approx(1 / 21**0.5, rel=1e-5)
    assert float(errors[0]["persistence"]) == pytest.approx((7 / 21) ** 0.5, rel=1e-5)
    with Image.open(tmp_path / "out" / "run_u.gif") as picture:
        assert picture.n_frames == 5


def test_what_is_not_finite_leaves_the_frames_before(tmp_path: Path, checkpoint, capsys) -> None:
    run = series(tmp_path / "run.pvd", [[1.0] * 4], [0.0])
    assert main(["rollout", checkpoint(1e15), run, "--steps", "9", "--out", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert "Step 3 of the rollout is not finite: u at 4 of 4 nodes; the frames before are in " in error
    assert len(pv.get_reader(tmp_path / "out" / "run.pvd").time_values) == 2


def test_vectors_and_forced_nodes(tmp_path: Path, checkpoint) -> None:
    frames = [[[k, 0.0, 0]] * 4 for k in (1.0, 3.0, 5.0)]
    run = series(tmp_path / "run.pvd", frames, [0.0, 1.0, 2.0])
    model = checkpoint(components=2, forced="wall")
    assert main(["rollout", model, run, "--out", str(tmp_path / "out"), "--pictures", "false"]) == 0
    reader = pv.get_reader(tmp_path / "out" / "run.pvd")
    assert len(reader.time_values) == 2
    reader.set_active_time_point(1)
    mesh = reader.read()[0]
    assert mesh["u_pred"].tolist() == [[5, 0, 0], [4, 0, 0], [4, 0, 0], [4, 0, 0]]
    assert mesh["u_error"][1].tolist() == [-1, 0, 0]
    assert not list((tmp_path / "out").glob("*.gif"))


def test_what_a_rollout_needs(tmp_path: Path, checkpoint, capsys) -> None:
    run = series(tmp_path / "run.pvd", [[1.0] * 4], [0.0])
    calls = [
        ([checkpoint(), run], "has no frames after the history; say how many to predict with --steps"),
        ([checkpoint(), run, "--steps", "0"], "at least one step"),
        ([checkpoint(), run, "--start", "1"], "frames"),
        ([checkpoint()], "has no config.yaml"),
        ([checkpoint(), str(tmp_path / "none.pvd")], "there is no such file"),
    ]
    for call, message in calls:
        assert main(["rollout", *call, "--out", str(tmp_path / "out")]) == 1
        assert message in capsys.readouterr().err
    spec = FieldSpec((Field("u", "point"),), (Field("wall", "point"),), dim=2)
    state: dict[str, object] = {}
    plain = Surrogate(nn.Linear(3, 1), spec, None, Recipe())
    state["state_dict"] = plain.state_dict()
    plain.on_save_checkpoint(state)
    torch.save(state, tmp_path / "plain.ckpt")
    assert main(["rollout", str(tmp_path / "plain.ckpt"), run, "--out", str(tmp_path / "out")]) == 1
    assert "was trained without --rollout" in capsys.readouterr().err


@pytest.mark.skipif(find_spec("smithers") is None, reason="needs the package smithers (meshop[data])")
def test_train_and_roll_out_the_test_cases_of_the_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    model = ["--model", "CANO", "--model.hidden_channels", "8", "--model.num_layers", "1", "--model.heads", "2"]
    more = ["--epochs", "1", "--rollout.frames", "2", "--rollout.increment", "true", "--batch_size", "40"]
    place = ["--root", str(tmp_path / "heat"), "--data_args", '{"T_in": 3, "T_out": 4}']
    assert main(["train", "unsteady_heat", *model, *more, *place, "--out", str(run)]) == 0
    call = ["rollout", str(run / "checkpoints" / "last.ckpt"), "--cases", "2", "--steps", "3", "--pictures", "false"]
    assert main([*call, "--out", str(tmp_path / "out")]) == 0
    assert len(list((tmp_path / "out").glob("*.pvd"))) == 2
    assert len(rows(next((tmp_path / "out").glob("*.csv")))) == 3


def test_evaluate_on_longer_windows(tmp_path: Path, checkpoint, capsys) -> None:
    (tmp_path / "runs").mkdir()
    for name in "abc":
        series(tmp_path / "runs" / f"{name}.pvd", [[1.0] * 4, [2.0] * 4, [4.0] * 4, [16.0] * 4], [0.0, 1.0, 2.0, 3.0])
    out = tmp_path / "errors.csv"
    call = ["evaluate", checkpoint(position=True), str(tmp_path / "runs"), "--part", "all", "--out", str(out)]
    assert main([*call, "--data_args", '{"T_out": 3}']) == 0
    (row, *_) = rows(out)
    assert float(row["last_frame"]) == pytest.approx(0.5)
    assert float(row["frame_mean"]) == pytest.approx(0.5 / 3)
    assert main([*call, "--data_args", '{"T_in": 2}']) == 1
    assert "Expected 1 frames in u_in" in capsys.readouterr().err
