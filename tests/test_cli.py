"""The command line as a user calls it: what it prints, what it writes, its exit codes and its one-sentence errors."""

import csv
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import pyvista as pv
import yaml
from conftest import strip

from meshop.cli import main
from meshop.data import Arrays
from meshop.io import read_mesh, write_mesh

MODEL = ["--model.hidden_channels", "8", "--model.num_layers", "1", "--model.heads", "2", "--model.num_clusters", "3"]
SMALL = [*MODEL, "--epochs", "2", "--batch_size", "2", "--device", "cpu"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cases")
    for i in range(8):
        write_mesh(path / f"case_{i}.vtu", strip(3 + i % 3, 4, seed=i))
    rows = "".join(f"case_{i},{0.1 * i}\n" for i in range(8))
    (path.parent / "parameters.csv").write_text("case,mach\n" + rows)
    return path


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "a"
    split = ["--split", "0.5/0.25/0.25"]
    assert main(["train", str(folder), "--target", "p", "u", "--input", "load", *split, *SMALL, "--out", str(out)]) == 0
    return out


def sentence(capsys: pytest.CaptureFixture[str]) -> str:
    """The error that was printed: one line, no traceback."""
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("meshop: ")]
    assert len(lines) == 1
    assert "Traceback" not in lines[0]
    return lines[0]


def test_train_writes_the_whole_run(run: Path) -> None:
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["model"]["class_path"] == "meshop.models.CANO"
    assert config["model"]["init_args"]["num_clusters"] == 3
    assert config["epochs"] == 2
    splits = json.loads((run / "splits.json").read_text())
    assert sorted(name for part in splits.values() for name in part) == [f"case_{i}" for i in range(8)]
    assert [len(splits[k]) for k in ("train", "val", "test")] == [4, 2, 2]
    with (run / "metrics.csv").open(newline="") as file:
        assert [r["epoch"] for r in csv.DictReader(file)] == ["1", "2"]
    with (run / "evaluation.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(r["name"], r["field"]) for r in rows} == {(n, f) for n in splits["test"] for f in ("p", "u")}
    assert {p.name for p in (run / "checkpoints").iterdir()} == {"last.ckpt", "best.ckpt"}
    assert "torch 2" in (run / "environment.txt").read_text()
    assert "data own files" in (run / "environment.txt").read_text()


def test_evaluate_repeats_the_number_of_the_run(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "again.csv"
    assert main(["evaluate", str(run / "checkpoints" / "best.ckpt"), "--out", str(out), "--device", "cpu"]) == 0
    assert capsys.readouterr().out.startswith("origin     own files\n")
    with out.open(newline="") as a, (run / "evaluation.csv").open(newline="") as b:
        for again, first in zip(csv.DictReader(a), csv.DictReader(b), strict=True):
            assert again["name"] == first["name"]
            assert float(again["relative_l2"]) == pytest.approx(float(first["relative_l2"]), rel=1e-5)


def test_training_on_some_of_the_nodes(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["train", str(folder), "--target", "p", *SMALL, "--out", str(tmp_path / "run")]
    assert main([*call, "--subsample", "0"]) == 1
    assert "at least one node (got 0)" in sentence(capsys)
    assert main([*call, "--subsample", "5"]) == 0
    with (tmp_path / "run" / "evaluation.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 1
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["subsample"] == 5


def test_evaluate_draws_errors_and_the_worst(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["evaluate", str(run / "checkpoints" / "best.ckpt"), "--pictures", str(tmp_path / "p"), "--device", "cpu"]
    assert main([*call, "--worst", "0"]) == 1
    assert "--worst of at least 1 (got 0)" in sentence(capsys)
    assert main([*call, "--worst", "1"]) == 0
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == ["errors.png", "worst_p.png", "worst_u.png"]


def test_evaluate_on_other_data(run: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for i in range(3):
        shutil.copy(folder / f"case_{i}.vtu", other)
    out = tmp_path / "other.csv"
    call = ["evaluate", str(run / "checkpoints" / "last.ckpt"), str(other), "--part", "all", "--device", "cpu"]
    assert main([*call, "--target", "p"]) == 1
    assert "trained on position, load:point -> p:point, u:point; " in sentence(capsys)
    assert main([*call, "--out", str(out)]) == 0
    assert len(out.read_text().splitlines()) == 1 + 3 * 2


def test_predict_writes_the_same_cells_with_two_more_fields(run: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.vtu"
    write_mesh(new, strip(6, 5, seed=77))
    before = new.read_bytes()
    out = tmp_path / "out"
    assert (
        main(["predict", str(run / "checkpoints" / "best.ckpt"), str(new), "--out", str(out), "--device", "cpu"]) == 0
    )
    assert new.read_bytes() == before
    source, result = pv.read(new), pv.read(out / "new.vtu")
    assert result.points.tolist() == source.points.tolist()
    assert result.cells.tolist() == source.cells.tolist()
    for name in source.point_data:
        assert result.point_data[name].tolist() == source.point_data[name].tolist()
    assert set(result.point_data.keys()) - set(source.point_data.keys()) == {"p_pred", "p_error", "u_pred", "u_error"}
    assert result.point_data["u_pred"].shape == (42, 3)
    error = result.point_data["p_pred"] - source.point_data["p"]
    assert abs(result.point_data["p_error"] - error).max() < 1e-6
    assert {p.name for p in out.iterdir()} == {"new.vtu", "new_p.png", "new_u.png"}


def test_train_on_cells_with_parameters_resumes(folder: Path, tmp_path: Path) -> None:
    call = ["train", str(folder), "--target", "q:cell", "--params", str(folder.parent / "parameters.csv"), *SMALL]
    out = tmp_path / "q"
    assert main([*call, "--out", str(out)]) == 0
    assert main([*call, "--out", str(out), "--resume"]) == 0
    predicted = tmp_path / "predicted"
    checkpoint = str(out / "checkpoints" / "best.ckpt")
    files = [str(folder / "case_3.vtu"), "--params", str(folder.parent / "parameters.csv"), "--out", str(predicted)]
    assert main(["predict", checkpoint, *files, "--device", "cpu"]) == 0
    assert len(read_mesh(predicted / "case_3.vtu").cell_data["q_pred"]) == 12


def test_dry_run_writes_nothing(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "dry"
    assert main(["train", str(folder), "--target", "p", *SMALL, "--out", str(out), "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "CANO, 2 -> 1 channels" in printed
    assert "GB activations" in printed
    assert not out.exists()


def test_config_file_and_flags(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text("target: [p]\nepochs: 7\nmodel:\n  class_path: Transolver\n")
    with pytest.raises(SystemExit) as stop:
        main(["train", str(folder), "--config", str(tmp_path / "a.yaml"), "--lr", "0.5", "--print_config"])
    assert stop.value.code == 0
    config = yaml.safe_load(capsys.readouterr().out)
    assert (config["epochs"], config["lr"], config["target"]) == (7, 0.5, ["p"])
    assert config["model"]["class_path"] == "meshop.models.Transolver"


def test_a_model_of_pyg_by_name(folder: Path, tmp_path: Path) -> None:
    call = ["train", str(folder), "--target", "p", "--model", "GraphSAGE", "--model.hidden_channels", "8"]
    assert (
        main([*call, "--model.num_layers", "2", "--epochs", "1", "--device", "cpu", "--out", str(tmp_path / "s")]) == 0
    )


def test_info(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(folder / "case_0.vtu"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["points"], report["cells"]) == (20, {"quad": 12})
    fields = {f"{f['name']}:{f['location']}": f for f in report["fields"]}
    assert set(fields) == {"p:point", "u:point", "load:point", "q:cell"}
    assert fields["u:point"]["shape"] == [20, 3]
    assert main(["info", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(
        "file        points  cells    fields         times  remarks\ncase_0.vtu      20  12 quad  "
    )
    assert "8 files" in printed
    assert main(["info", str(folder), "--json"]) == 0
    *reports, together = json.loads(capsys.readouterr().out)
    assert reports[0]["points"] == 20
    assert (len(reports), together["meshes"], together["directory"]) == (8, 8, str(folder))
    assert main(["info", "elastic_block"]) == 0
    card = capsys.readouterr().out
    assert card.startswith("# Elastic block")
    assert "meshop train elastic_block --config" in card


def test_info_of_raw_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw, bad = tmp_path / "raw", tmp_path / "raw" / "bad.npz"
    raw.mkdir()
    np.save(raw / "a.npy", np.array([[1.5, np.nan], [2, -1]], dtype=np.float32))
    digest = hashlib.sha256((raw / "a.npy").read_bytes()).hexdigest()
    assert main(["info", str(raw / "a.npy")]) == 0
    one = f"{raw}/a.npy\n  144 bytes   SHA-256 {digest}\n  a   [2, 2] float32   -1 to 2   1 not finite\n"
    assert capsys.readouterr().out == one
    bad.write_text("no archive")
    assert main(["info", str(bad)]) == 1
    assert "bad.npz' is not an archive of arrays of numpy, or is damaged" in sentence(capsys)
    assert main(["info", str(raw)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(one + f"not read: '{bad}' is not an archive")
    assert printed.endswith("\n1 files, 1 arrays, 144 bytes, 1 not read\n")
    assert main(["info", str(raw), "--json"]) == 0
    good, other = json.loads(capsys.readouterr().out)
    assert (good["bytes"], good["sha256"]) == (144, digest)
    assert good["arrays"] == [{"name": "a", "shape": [2, 2], "dtype": "float32", "min": -1, "max": 2, "not_finite": 1}]
    assert set(other) == {"file", "error"}
    (tmp_path / "a.docx").write_text("")
    assert main(["info", str(tmp_path / "a.docx")]) == 1
    assert "Expected a file with one of the extensions" in sentence(capsys)
    (raw / "a.npy").unlink()
    assert main(["info", str(raw)]) == 1
    assert "Expected files that meshop reads in" in sentence(capsys)


def test_convert_and_render(folder: Path, tmp_path: Path) -> None:
    legacy = tmp_path / "case.vtk"
    assert main(["convert", str(folder / "case_1.vtu"), str(legacy)]) == 0
    assert read_mesh(legacy).point_data["p"].tolist() == read_mesh(folder / "case_1.vtu").point_data["p"].tolist()
    assert main(["render", str(legacy), "--field", "u", "--component", "x"]) == 0
    assert (tmp_path / "case_u.png").stat().st_size > 3000
    looks = ["--clip", "y=0.5", "--arrows", "u=0.1", "--view", "xy", "--out", str(tmp_path / "a.png")]
    assert main(["render", str(legacy), "--field", "u", *looks]) == 0
    camera = ["--camera", *map(str, (0.5, 0.5, 3, 0.5, 0.5, 0, 0, 1, 0)), "--out", str(tmp_path / "s.png")]
    assert main(["render", *(str(folder / f"case_{i}.vtu") for i in range(2)), "--field", "p", *camera]) == 0
    assert (tmp_path / "s.png").stat().st_size > 3000


@pytest.fixture(scope="module")
def transolver(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("transolver") / "run"
    size = ["--model.hidden_channels", "8", "--model.num_layers", "2", "--model.heads", "2", "--model.num_slices", "5"]
    call = ["train", str(folder), "--target", "q:cell", "--model", "Transolver", *size, "--epochs", "1"]
    params = ["--params", str(folder.parent / "parameters.csv")]
    assert main([*call, *params, "--device", "cpu", "--out", str(out)]) == 0
    return str(out / "checkpoints" / "last.ckpt")


def test_render_what_a_model_does_inside(run: Path, transolver: str, folder: Path, tmp_path: Path) -> None:
    cano, case = str(run / "checkpoints" / "last.ckpt"), tmp_path / "case_0.vtu"
    shutil.copy(folder / "case_0.vtu", case)
    params = ["--params", str(folder.parent / "parameters.csv")]
    assert main(["render", "--assignment", cano, str(case)]) == 0
    first = matplotlib.image.imread(tmp_path / "case_0_assignment.png")
    both = ["--assignment", cano, "--assignment", transolver, "--out", str(tmp_path / "both.png")]
    assert main(["render", *both, str(case), *params]) == 0
    second = matplotlib.image.imread(tmp_path / "both.png")
    assert (second[: len(first), : first.shape[1]] == first).all()
    assert second.shape[1] > 1.5 * first.shape[1]
    assert main(["render", "--assignment", cano, str(case), "--out", str(tmp_path / "u.png"), "--field", "u"]) == 0
    assert (matplotlib.image.imread(tmp_path / "u.png") != first).any()

    assert main(["render", "--attention", transolver, str(case), *params, "--head", "1"]) == 0
    assert main(["render", "--similarity", transolver, "--similarity", cano, str(case), *params]) == 0
    for view, panels in (("attention", 2), ("similarity", 2)):
        assert matplotlib.image.imread(tmp_path / f"case_0_{view}.png").shape[1] == 24 + panels * 504


def test_errors_of_looking_inside(
    run: Path, transolver: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cano, case, out = (
        str(run / "checkpoints" / "last.ckpt"),
        str(folder / "case_0.vtu"),
        ["--out", str(tmp_path / "p.png")],
    )
    assert main(["train", str(folder), "--target", "p", "--model", "torch_geometric.nn.GraphSAGE",
                 "--model.hidden_channels", "8", "--model.num_layers", "1", "--epochs", "1", "--device", "cpu",
                 "--out", str(tmp_path / "sage")]) == 0  # fmt: skip
    sage = str(tmp_path / "sage" / "checkpoints" / "last.ckpt")
    for arguments, says in (
        (
            [],
            "Name a --field to draw, or --regions, --html, or one of --assignment, --attention, --similarity with a "
            "checkpoint",
        ),
        (["--assignment", cano, "--similarity", cano], "or one of --assignment"),
        (["--assignment", sage], "GraphSAGE has no slices or clusters to draw; the layers with them are ClusterAtt"),
        (["--attention", cano], "CANO has no attention between slices to draw; Transolver, "),
        (["--similarity", sage], "a list called blocks"),
        (["--assignment", cano, "--layer", "1"], "Expected a --layer from 0 to 0 of CANO (got 1)"),
        (["--assignment", cano, "--head", "2"], "Expected a --head from 0 to 1 of CANO (got 2)"),
        (["--assignment", cano, "--top", "0"], "one slice at least"),
        (["--assignment", cano, "--field", "pp"], "'pp_pred:point' is not in the mesh"),
        (["--assignment", transolver], "Expected the parameters mach"),
    ):
        assert main(["render", case, *arguments, *out]) == 1
        assert says in sentence(capsys)
    assert not (tmp_path / "p.png").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "{cases}", "--model", "Transolvre", "--target", "p"], "Transolvre"),
        (["train", "{cases}", "--model.num_slices", "3", "--target", "p"], "num_slices"),
        (["train", "{cases}", "--epoch", "many"], "many"),
        (["train"], "data"),
        (["fly"], "fly"),
    ],
)
def test_wrong_calls_exit_with_2(
    folder: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([a.format(cases=folder) for a in arguments]) == 2
    assert says in sentence(capsys)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "{cases}", "--out", "{out}"], "Name the fields to predict"),
        (["train", "{cases}", "--target", "pp", "--out", "{out}"], "Field 'pp' is not in"),
        (["train", "{cases}", "--target", "p:cell", "--out", "{out}"], "'p:cell' is not in"),
        (["train", "elastic_blok", "--out", "{out}"], "did you mean 'elastic_block'"),
        (["train", "{cases}", "--target", "p", "q", "--out", "{out}"], "one location"),
        (["info", "{out}/nothing.vtu"], "nothing.vtu"),
        (["predict", "{out}/no.ckpt", "{cases}/case_0.vtu", "--out", "{out}"], "no.ckpt does not exist"),
        (["convert", "{cases}/case_0.vtu", "{cases}/case_0.vtu"], "both source and target"),
        (["render", "{cases}/case_0.vtu", "--field", "x"], "'x'"),
        (["render", "{cases}/case_0.vtu", "--field", "p", "--slice", "x=7"], "leaves nothing to draw"),
        (
            ["render", "{cases}/case_0.vtu", "--field", "p", "--warp", "u=much"],
            "Expected --warp as u=10 (got 'u=much')",
        ),
        (["render", "{cases}/case_0.vtu", "--regions"], "that number regions"),
        (["render", "{cases}/case_0.vtu", "{cases}/case_1.vtu", "--regions"], "Expected one mesh file (got 2)"),
    ],
)
def test_errors_are_one_sentence_and_exit_with_1(
    folder: Path, tmp_path: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([a.format(cases=folder, out=tmp_path / "out") for a in arguments]) == 1
    assert says in sentence(capsys)


def test_bad_files_for_prediction(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint, out = str(run / "checkpoints" / "best.ckpt"), ["--out", str(tmp_path / "out")]
    write_mesh(tmp_path / "solid.vtu", read_mesh_3d())
    assert main(["predict", checkpoint, str(tmp_path / "solid.vtu"), *out]) == 1
    assert "2-D" in (said := sentence(capsys))
    assert "solid.vtu" in said

    write_mesh(tmp_path / "whole.vtu", strip(5, 5))
    whole = (tmp_path / "whole.vtu").read_bytes()
    (tmp_path / "cut.vtu").write_bytes(whole[: len(whole) // 2])
    assert main(["predict", checkpoint, str(tmp_path / "cut.vtu"), *out]) == 1
    assert "cut.vtu" in sentence(capsys)

    bare = strip(4, 4)
    bare.point_data = Arrays()
    write_mesh(tmp_path / "bare.vtu", bare)
    assert main(["predict", checkpoint, str(tmp_path / "bare.vtu"), *out]) == 1
    assert "Field 'load:point' is not in" in sentence(capsys)
    assert not (tmp_path / "out").exists()

    assert main(["predict", checkpoint, str(tmp_path / "whole.vtu"), "--out", str(tmp_path)]) == 1
    assert "over" in sentence(capsys)
    assert (tmp_path / "whole.vtu").read_bytes() == whole


def read_mesh_3d():  # type: ignore[no-untyped-def]
    mesh = strip(3, 3, dim=3)
    mesh.points[:, 2] = mesh.points[:, 0] ** 2
    return mesh


def test_a_second_run_does_not_overwrite_the_first(run: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    assert main(["train", str(folder), "--target", "p", *SMALL, "--out", str(run)]) == 1
    assert "holds a run already" in sentence(capsys)
    assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == before


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
from meshop.cli import main
sys.exit(main(sys.argv[2:]))
"""


def run_limited(size: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command that cannot write a file larger than ``size`` bytes, as on a disk that is full."""
    command = [sys.executable, "-W", "ignore", "-c", LIMITED, str(size), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_full_disk_is_one_sentence_and_leaves_no_half_file(run: Path, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "full"
    fields = ["--target", "p", "u", "--input", "load", "--split", "0.5/0.25/0.25"]  # those of the cache
    trained = run_limited(10_000, "train", str(folder), *fields, *SMALL, "--out", str(out))
    assert trained.returncode == 1
    assert "Traceback" not in trained.stderr
    assert f"Cannot write the run in {out}: File too large" in trained.stderr
    assert [p.name for p in (out / "checkpoints").iterdir()] == []

    checkpoint = str(run / "checkpoints" / "best.ckpt")
    predicted = run_limited(500, "predict", checkpoint, str(folder / "case_0.vtu"), "--out", str(tmp_path / "vtu"))
    assert predicted.returncode == 1
    assert "case_0.vtu" in predicted.stderr.splitlines()[-1]
    assert list((tmp_path / "vtu").iterdir()) == []


def test_version_and_no_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("meshop 0.")
    assert main([]) == 2


@pytest.mark.slow
def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["demo", "--out", str(tmp_path / "demo"), "--samples", "20", "--epochs", "2", "--device", "cpu"]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    assert "displacement" in first
    assert len(list((tmp_path / "demo" / "figures").glob("*.png"))) == 6
    assert main(arguments) == 0  # continues, and finds nothing left to train
    table = [line for line in first.splitlines() if line.startswith(("displacement", "von_mises"))]
    assert len(table) == 2
    again = capsys.readouterr().out
    assert all(line in again for line in table)


def test_generate(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["generate", "darcy", "--samples", "2", "--options.resolution", "9"]) == 0
    out = capsys.readouterr().out
    assert (
        "files      data/darcy/raw: piececonst_r9_N1024_smooth1.mat, piececonst_r9_N1024_smooth2.mat; how they" in out
    )
    assert "deviation" in out
    assert main(["generate", "darci"]) == 1
    assert "did you mean 'darcy'" in capsys.readouterr().err
