"""A directory with bad files, named sets and features, from training to a prediction on a new file."""

import csv
import json
from pathlib import Path

import pytest
import yaml
from conftest import strip

from meshop.cli import main
from meshop.data import MeshData
from meshop.io import read_mesh, write_mesh
from meshop.train import Surrogate

MODEL = ["--model.hidden_channels", "8", "--model.num_layers", "1", "--model.heads", "2", "--model.num_clusters", "3"]
SMALL = [*MODEL, "--epochs", "1", "--batch_size", "2", "--device", "cpu"]


def case(seed: int, inlet: bool = True) -> MeshData:
    mesh = strip(2 + seed % 3, 4, seed=seed)
    mesh.point_data["wall"] = mesh.points[:, 1] == 0
    if inlet:
        mesh.point_data["inlet"] = mesh.points[:, 0] == 0
    return mesh


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cases")
    for i in range(8):
        write_mesh(path / f"case_{i}.vtu", case(i, inlet=i != 2))
    (path / "case_3.vtu").write_text("broken")
    words = ["train", "train", "train", "train", "val", "test", "test", ""]
    (path / "cases.csv").write_text("case,split\n" + "".join(f"case_{i},{word}\n" for i, word in enumerate(words)))
    return path


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "a"
    call = ["train", str(folder), "--target", "p", "--input", "inlet", "--features", "distance=wall", "normals"]
    assert main([*call, "--on-error", "skip", "--lazy", *SMALL, "--out", str(out)]) == 0
    return out


def test_the_run_says_what_was_skipped(run: Path, folder: Path) -> None:
    with (run / "skipped.csv").open(newline="") as file:
        [row] = csv.DictReader(file)
    assert (row["case"], row["file"]) == ("case_3", str(folder / "case_3.vtu"))
    assert row["reason"].startswith("Cannot read")
    assert json.loads((run / "splits.json").read_text()) == {
        "train": ["case_0", "case_1", "case_2"], "val": ["case_4"], "test": ["case_5", "case_6"],
    }  # fmt: skip
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert (config["on_error"], config["lazy"], config["split"]) == ("skip", True, None)
    assert config["features"] == ["distance=wall", "normals"]


def test_the_command_line_says_it_too(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["train", str(folder), "--target", "p", "--input", "inlet", *SMALL, "--out", str(tmp_path / "b")]
    assert main([*call, "--dry-run"]) == 1
    assert capsys.readouterr().err.strip().endswith("--on-error skip (on_error) leaves bad cases out")
    assert main([*call, "--dry-run", "--on-error", "skip"]) == 0
    captured = capsys.readouterr()
    assert f"skipped    1 of 8 cases, see {folder}/processed/skipped.csv\n" in captured.out
    assert "'inlet' is in 6 of 7 meshes; it marks nothing in the others" in captured.err
    assert not (tmp_path / "b").exists()


def test_evaluate_opens_the_data_as_they_were(
    run: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = str(run / "checkpoints" / "best.ckpt")
    assert main(["evaluate", checkpoint, "--out", str(tmp_path / "e.csv"), "--device", "cpu"]) == 0
    assert f"skipped    1 of 8 cases, see {folder}/processed/skipped.csv\n" in capsys.readouterr().out
    with (tmp_path / "e.csv").open(newline="") as a, (run / "evaluation.csv").open(newline="") as b:
        for again, first in zip(csv.DictReader(a), csv.DictReader(b), strict=True):
            assert again["name"] == first["name"]
            assert float(again["relative_l2"]) == pytest.approx(float(first["relative_l2"]), rel=1e-5)


def test_evaluate_on_other_files_makes_the_same_inputs(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    for i in (5, 6):
        write_mesh(tmp_path / "other" / f"case_{i}.vtu", case(i))
    call = ["evaluate", str(run / "checkpoints" / "best.ckpt"), str(tmp_path / "other"), "--device", "cpu"]
    assert main([*call, "--part", "all", "--split", "0.5/0.5", "--out", str(tmp_path / "e.csv")]) == 0
    with (tmp_path / "e.csv").open(newline="") as a, (run / "evaluation.csv").open(newline="") as b:
        for again, first in zip(csv.DictReader(a), csv.DictReader(b), strict=True):
            assert float(again["relative_l2"]) == pytest.approx(float(first["relative_l2"]), rel=1e-5)


def test_predict_makes_the_inputs_of_a_new_file(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = str(run / "checkpoints" / "best.ckpt")
    write_mesh(tmp_path / "new.vtu", case(9))
    write_mesh(tmp_path / "bare.vtu", case(9, inlet=False))
    call = ["predict", checkpoint, str(tmp_path / "new.vtu"), str(tmp_path / "bare.vtu"), "--pictures", "false"]
    assert main([*call, "--out", str(tmp_path / "out"), "--device", "cpu"]) == 0
    assert capsys.readouterr().err == f"'inlet' is not in {tmp_path}/bare.vtu; it marks nothing there\n"
    new, bare = (read_mesh(tmp_path / "out" / f"{name}.vtu") for name in ("new", "bare"))
    assert {"p_pred", "wall_distance", "normal", "inlet"} <= set(new.point_data)
    assert int(new.point_data["inlet"].sum()) > int(bare.point_data["inlet"].sum()) == 0
    surrogate = Surrogate.load(checkpoint)
    mesh = surrogate.prepare(read_mesh(tmp_path / "new.vtu", dim=2))
    assert mesh.x.shape[1] == 2 + 1 + 1 + 2
    predicted = surrogate.predict(mesh).point_data["p_pred"]
    assert new.point_data["p_pred"].tolist() == pytest.approx(predicted.tolist(), rel=1e-5)


def test_predict_needs_the_marker_that_a_distance_is_from(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_mesh(tmp_path / "new.vtu", strip(3, 3))
    call = [
        "predict",
        str(run / "checkpoints" / "best.ckpt"),
        str(tmp_path / "new.vtu"),
        "--out",
        str(tmp_path / "out"),
    ]
    assert main([*call, "--device", "cpu"]) == 1
    assert "Expected points marked 'wall' to measure the distance from (got none)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--on-error", "skip"], "darcy is a benchmark; only directories of mesh files take --on-error"),
        (["--lazy", "--features", "normals"], "take --features and --lazy"),
    ],
)
def test_benchmarks_have_no_policy(more: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "darcy", *SMALL, *more, "--dry-run"]) == 1
    assert message in capsys.readouterr().err
