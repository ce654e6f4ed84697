"""The page about a run: its numbers and pictures are those of the run, and what is absent is said."""

import base64
import csv
import io
import re
import shutil
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
import torch
import yaml
from conftest import strip
from torch import nn

import meshop.report
from meshop.cli import main
from meshop.data import Field, FieldSpec, InputError, MeshData
from meshop.io import write_mesh
from meshop.report import chosen_checkpoint, write_pictures, write_report
from meshop.rollout import Rollout
from meshop.train import Recipe, Surrogate, evaluate
from meshop.transforms import CellsToEdges

METRICS = "epoch,step,lr,train_loss,val_loss,seconds,memory_gb\n1,2,0.001,0.5,0.6,1.5,0.25\n2,4,0.001,0.4,0.5,3.0,0.5\n"


class Drawn(list[tuple[str, MeshData]]):
    """The names and meshes that were to be drawn."""

    def draw(self, mesh: MeshData, name: str, **look: Any) -> Any:
        self.append((name, mesh))
        return np.zeros((2, 2, 3), np.uint8)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    record = Drawn()
    monkeypatch.setattr(meshop.report, "compare", record.draw)
    monkeypatch.setattr(meshop.report, "field", record.draw)
    return record


def saved(run: Path, spec: FieldSpec, weight: Any, rollout: Rollout | None = None) -> Surrogate:
    """A run of a linear model."""
    model = nn.Linear(spec.in_channels, len(weight), bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor(weight))
    surrogate = Surrogate(model, spec, CellsToEdges(), Recipe(epochs=4), None, rollout)
    state: dict[str, Any] = {"state_dict": surrogate.state_dict(), "epoch": 1}
    surrogate.on_save_checkpoint(state)
    (run / "checkpoints").mkdir(parents=True)
    torch.save(state, run / "checkpoints" / "last.ckpt")
    (run / "metrics.csv").write_text(METRICS)
    return surrogate


def own_cases(surrogate: Surrogate, *shapes: tuple[int, int]) -> list[MeshData]:
    cases = []
    for i, (rows, columns) in enumerate(shapes):
        cases.append(surrogate.prepare(strip(rows, columns, seed=i), targets=True))
        cases[-1].name = f"case <{i}>"
    return cases


PLANE = FieldSpec((Field("p", "point", 1, "Pa"), Field("u", "point", 3)), dim=2)
SHARES = [[0.0, 1.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]  # p = y, u = (y, 0, 0)


def test_a_run_with_all_its_parts(tmp_path: Path, drawn: Drawn) -> None:
    surrogate = saved(tmp_path / "run", PLANE, SHARES)
    test = own_cases(surrogate, (3, 4), (3, 4), (3, 4), (3, 4), (3, 4))
    rows = evaluate(surrogate, test)
    with (tmp_path / "run" / "evaluation.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    write_report(tmp_path / "run", tmp_path / "page.html", surrogate, test, {"data": "strips & more"})
    page = (tmp_path / "page.html").read_text()
    pictures = [base64.b64decode(text) for text in re.findall(r'src="data:image/png;base64,([^"]+)"', page)]
    assert len(pictures) == page.count("<img") == 2 + 3 * 2 + 2
    shapes = [matplotlib.image.imread(io.BytesIO(picture)).shape[:2] for picture in pictures]
    assert shapes == [(420, 1000), (620, 1100), *[(2, 2)] * 8]
    assert "default-src 'none'" in page
    assert not re.search(r"<script|<link|url\(|src=\"[^d]", page)
    for text in ("strips &amp; more", "2 of 4 epochs in 3 s, 0.5 GB", "last.ckpt, after epoch 2", "<td>8</td>"):
        assert text in page
    assert "lr=0.001" in page
    assert "evaluated for this page" not in page

    mean = np.mean([row["relative_l2"] for row in rows if row["field"] == "p"])
    assert f'<th>p</th><td class="number">5</td><td class="number">{mean:.4g}</td>' in page
    totals = {row["name"]: 0.0 for row in rows}
    for row in rows:
        totals[row["name"]] += row["relative_l2"]
    ranked = sorted(totals, key=totals.__getitem__)
    titles = re.findall("<h3>(.*?)</h3>", page)
    assert titles == [
        f"{which}: case &lt;{ranked[i][6]}&gt;" for which, i in (("best", 0), ("median", 2), ("worst", 4))
    ]
    assert [name for name, _ in drawn[:2]] == ["p", "u"]
    assert drawn[0][1].name == ranked[0]

    name, mesh = drawn[-2]
    assert name == "mean |p_pred − p|"
    expected = np.mean([np.abs(case.pos[:, 1].numpy() - case.y[:, 0].numpy()) for case in test], axis=0)
    np.testing.assert_allclose(mesh.point_data[name], expected, rtol=1e-5, atol=1e-7)
    assert "share their cells but not the places of their points" in page
    np.testing.assert_allclose(
        drawn[-1][1].point_data["mean |u_pred − u|"],
        np.mean([np.linalg.norm((surrogate(c) - c.y).detach()[:, 1:], axis=1) for c in test], axis=0),
        rtol=1e-4,
        atol=1e-6,
    )


def test_meshes_that_differ_and_no_evaluation(tmp_path: Path, drawn: Drawn) -> None:
    surrogate = saved(tmp_path / "run", PLANE, SHARES)
    test = own_cases(surrogate, (3, 4), (4, 4))
    (tmp_path / "run" / "metrics.csv").unlink()
    write_report(tmp_path / "run", tmp_path / "page.html", surrogate, test)
    page = (tmp_path / "page.html").read_text()
    assert "The test cases have different meshes" in page
    assert "evaluation.csv is absent, so the checkpoint was evaluated for this page." in page
    assert "The run has no metrics.csv." in page
    assert len(drawn) == 6
    (tmp_path / "run" / "evaluation.csv").write_text("name,field,relative_l2\nother,p,0.5\nother,u,0.25\n")
    write_report(tmp_path / "run", tmp_path / "page.html", surrogate, test)
    assert "evaluation.csv is of other cases than the test split" in (tmp_path / "page.html").read_text()


def test_without_the_test_cases(tmp_path: Path, drawn: Drawn) -> None:
    surrogate = saved(tmp_path / "run", PLANE, SHARES)
    write_report(tmp_path / "run", tmp_path / "page.html", surrogate, None, absent="a <disk> is full")
    page = (tmp_path / "page.html").read_text()
    assert "There are no pictures, for the test cases are not at hand: a &lt;disk&gt; is full." in page
    assert "The run has no evaluation.csv." in page
    assert page.count("<img") == 1
    (tmp_path / "run" / "evaluation.csv").write_text("name,field,relative_l2\na,p,0.5\na,u,0.25\nb,p,0.7\nb,u,0.1\n")
    write_report(tmp_path / "run", tmp_path / "page.html", surrogate, None, absent="so")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<img") == 2
    assert '<th>p</th><td class="number">2</td><td class="number">0.6</td><td class="number">0.5</td>' in page
    assert not drawn


def test_rollouts_are_drawn_at_their_last_frame(tmp_path: Path, drawn: Drawn) -> None:
    """The model doubles the frame before; the truth of three frames is 2, 4, 9."""
    spec = FieldSpec((Field("u_out", "point", 3),), (Field("u_in", "point"),), dim=2, position=False)
    surrogate = saved(tmp_path / "run", spec, [[2.0]], Rollout())
    test = []
    for name in "ab":
        window = MeshData.from_cells([[0.0, 0], [1, 0], [0, 1]], [5], [[0, 1, 2]])
        window.point_data["u_in"] = np.ones((3, 1), np.float32)
        window.point_data["u_out"] = np.tile(np.float32([2, 4, 9]), (3, 1))
        test.append(surrogate.prepare(window, targets=True))
        test[-1].name = name
    write_report(tmp_path / "run", tmp_path / "page.html", surrogate, test)
    page = (tmp_path / "page.html").read_text()
    assert [name for name, _ in drawn] == ["u", "u", "u", "mean |u_pred − u|"]
    seen = drawn[0][1].point_data
    assert [np.asarray(seen[name]).tolist() for name in ("u", "u_pred", "u_error")] == [
        [9.0] * 3,
        [8.0] * 3,
        [-1.0] * 3,
    ]
    np.testing.assert_allclose(drawn[-1][1].point_data["mean |u_pred − u|"], 1)
    assert "which share their cells and points" in page
    for text in ("mean last_frame", "frames=1", "T_in=1"):
        assert text in page
    assert page.count('alt="histogram"') == 2


def test_the_worst_of_each_field_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    surrogate = saved(tmp_path / "run", PLANE, SHARES)
    cases = own_cases(surrogate, *[(3, 4)] * 4)
    errors = {"p": [0.1, 0.4, float("nan"), 0.2], "u": [0.9, 0.1, 0.2, 0.3]}
    rows = [{"name": f"c{i}", "field": f, "relative_l2": errors[f][i]} for i in range(4) for f in errors]
    sheets: list[Any] = []
    monkeypatch.setattr(meshop.report, "gallery", lambda meshes, *args, **look: sheets.append((meshes, args, look)))
    paths = write_pictures(tmp_path / "out", rows, surrogate, cases, worst=3)
    assert [path.name for path in paths] == ["errors.png", "worst_p.png", "worst_u.png"]
    assert matplotlib.image.imread(paths[0]).shape[:2] == (620, 1100)
    (p, (name, _), look), (_, _, other) = sheets
    assert (name, look["titles"]) == ("p", ["c2: nan", "c1: 0.4", "c3: 0.2"])
    assert other["titles"] == ["c0: 0.9", "c3: 0.3", "c2: 0.2"]
    assert torch.equal(torch.as_tensor(p[1].point_data["p"]), torch.as_tensor(cases[1].point_data["p"]))
    assert "p_pred" in p[1].point_data


def test_a_picture_that_cannot_be_drawn(tmp_path: Path, drawn: Drawn, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **look: Any) -> None:
        raise InputError("VTK cannot draw on this machine")

    monkeypatch.setattr(meshop.report, "compare", refuse)
    surrogate = saved(tmp_path / "run", PLANE, SHARES)
    write_report(tmp_path / "run", tmp_path / "page.html", surrogate, own_cases(surrogate, (2, 2), (2, 2)))
    assert "There is no picture of p: VTK cannot draw on this machine." in (tmp_path / "page.html").read_text()


def test_which_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"with checkpoints/last\.ckpt in .*before the first epoch ends"):
        chosen_checkpoint(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    for name in ("last.ckpt", "best.ckpt"):
        (tmp_path / "checkpoints" / name).touch()
        assert chosen_checkpoint(tmp_path).name == name


def test_damaged_files(tmp_path: Path) -> None:
    surrogate = saved(tmp_path / "run", PLANE, SHARES)
    (tmp_path / "run" / "metrics.csv").write_bytes(b"epoch,\xff\n1,2\n")
    with pytest.raises(InputError, match=r"metrics\.csv is damaged"):
        write_report(tmp_path / "run", tmp_path / "page.html", surrogate, None)
    assert not (tmp_path / "page.html").exists()


def test_a_run_of_meshop_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its own data at hand, and where they are gone."""
    (tmp_path / "cases").mkdir()
    for i in range(4):
        write_mesh(tmp_path / "cases" / f"case_{i}.vtu", strip(3, 3, seed=i))
    model = ["--model.hidden_channels", "8", "--model.num_layers", "1", "--model.heads", "2"]
    options = [*model, "--target", "p", "--split", "0.5/0/0.5", "--epochs", "1", "--device", "cpu"]
    run = tmp_path / "run"
    assert main(["train", str(tmp_path / "cases"), *options, "--out", str(run)]) == 0
    capsys.readouterr()
    assert main(["report", str(run), "--device", "cpu"]) == 0
    assert capsys.readouterr().out == f"{run}/report.html\n"
    page = (run / "report.html").read_text()
    for text in ("cases: 2 train, 2 test", "own files", "1 of 1 epochs", "last.ckpt, after epoch 1"):
        assert text in page
    assert page.count("<img") == 2 + 3 + 1
    shutil.move(tmp_path / "cases", tmp_path / "elsewhere")
    assert main(["report", str(run), "--out", str(tmp_path / "bare.html")]) == 0
    assert "no test cases: " in capsys.readouterr().err
    assert (tmp_path / "bare.html").read_text().count("<img") == 2
    about = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump(about | {"data": str(tmp_path / "elsewhere"), "target": ["q"]}))
    assert main(["report", str(run), "--out", str(tmp_path / "bare.html")]) == 0
    assert "the checkpoint predicts other fields: " in (tmp_path / "bare.html").read_text()
