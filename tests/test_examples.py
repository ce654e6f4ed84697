"""Each example runs as a user would run it, and gives the number that its documentation promises."""

import csv
import importlib
from pathlib import Path

import numpy as np
import pytest
import skfem
import torch
from skfem.models.poisson import laplace, unit_load

from meshop.datasets import NavierStokes
from meshop.datasets.generators import GENERATORS, generate
from meshop.rollout import Rollout
from meshop.train import Recipe, Surrogate

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)  # PyG's Sequential imports the module that built it by name


def test_every_example_is_short() -> None:
    for path in EXAMPLES.glob("*.py"):
        assert len(path.read_text().splitlines()) < 110, path


def test_read_and_render(tmp_path: Path) -> None:
    assert importlib.import_module("read_and_render").main(out=str(tmp_path)) == pytest.approx(
        5.0
    )  # a beam of 1 x 1 x 5
    assert (tmp_path / "steps.png").stat().st_size > 5_000


def test_gallery(tmp_path: Path) -> None:
    example = importlib.import_module("pictures")
    assert 2_000 < example.main(str(tmp_path), ["streamlines", "compare"]) < 80_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["compare.png", "streamlines.png"]


def test_pyg_stack(tmp_path: Path) -> None:
    assert importlib.import_module("pyg_stack").main(root=str(tmp_path)) > 1.5


def test_own_meshes(tmp_path: Path) -> None:
    assert importlib.import_module("own_meshes").main(str(tmp_path)) < 0.1
    assert (tmp_path / "new_pred.png").stat().st_size > 10_000


def test_refinement(tmp_path: Path) -> None:
    example = importlib.import_module("refinement")
    corners = [np.array([a, b]) for a in np.linspace(0.1, 0.6, 5) for b in np.linspace(0.1, 0.6, 5)]
    meshes = [example.grid(corner, 200, "moved") for corner in corners]
    solutions = []
    for mesh in meshes:
        basis = skfem.Basis(mesh, skfem.ElementTriP1())
        system = 0.1 * laplace.assemble(basis), unit_load.assemble(basis)
        solutions.append(skfem.solve(*skfem.condense(*system, D=mesh.boundary_nodes())))
    x, y = torch.tensor(np.stack([mesh.p for mesh in meshes], axis=2)).float()
    u, mu = torch.tensor(np.stack(solutions, axis=1)).float(), torch.tensor(np.stack(corners)).float()
    file = {"x": x, "y": y, "u": u, "mu": mu, "triang": torch.from_numpy(meshes[0].t.T.astype(np.int64))}
    torch.save(file, tmp_path / "holed_poisson.pt")

    # Linear elements of this size are 4 % off the truth that the example takes.
    holes = example.HoledPoisson(tmp_path / "data", path=tmp_path / "holed_poisson.pt")
    tests = list(example.remeshed(holes.split("test"), (0.25, 1, 4)))
    for own, (name, same) in zip(holes.split("test"), tests[::11], strict=True):
        assert name == "file"
        assert torch.equal(own.point_data["boundary"].bool(), same.point_data["boundary"])
        assert 0.01 < (own.point_data["u"] - same.point_data["u"]).norm() / same.point_data["u"].norm() < 0.06
    for _, mesh in tests:
        assert float(mesh.measure.sum()) == pytest.approx(1 - 0.3**2, rel=1e-6)
        assert torch.equal(mesh.point_data["boundary"], mesh.point_data["distance"] < 1e-6)

    worst = example.main(str(tmp_path / "holed_poisson.pt"), str(tmp_path), steps=250)
    with (tmp_path / "refinement.csv").open(newline="") as table:
        rows = list(csv.DictReader(table))
    ratio = {(row["measure"], row["mesh"]): float(row["ratio"]) for row in rows}
    assert len(ratio) == 22
    assert ratio["0", "moved x 1"] == ratio["1", "moved x 1"] == 1  # here the file's meshes are these
    with_measure = {mesh: r for (measure, mesh), r in ratio.items() if measure == "1"}
    assert worst == pytest.approx(max(with_measure.values()), abs=0.01)
    assert max(r for mesh, r in with_measure.items() if "x 4" in mesh) < 1.25


def test_mix_operators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = importlib.import_module("mix_operators")
    gain = example.main(str(tmp_path), width=24, epochs=1, num_samples=8)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0].strip() for line in lines] == ["all four", *example.MIXERS]
    sizes = [int(line.split(":")[1].split()[0].replace(",", "")) for line in lines]
    mixed, *alone = (float(line.split()[-1]) for line in lines)
    assert gain == pytest.approx(min(alone) / mixed, abs=0.01)
    assert max(sizes) < 1.2 * min(sizes)  # equal parameters, as far as widths in steps of four allow


def test_generate_and_train(tmp_path: Path) -> None:
    places = {"root": str(tmp_path / "data"), "out": str(tmp_path / "run")}
    assert importlib.import_module("generate_and_train").main(**places, samples=36, epochs=5) < 0.4
    assert (tmp_path / "run" / "worst.png").stat().st_size > 10_000


def test_rollout_spectra(tmp_path: Path) -> None:
    generate(GENERATORS["navier_stokes"], tmp_path / "data" / "raw", 6, resolution=16, refine=1)
    data = NavierStokes(tmp_path / "data", T_out=1)
    for name, increment in (("Still", True), ("Zero", False)):  # the last frame for ever, and no flow at all
        model = torch.nn.Linear(data.spec.in_channels, 1)
        torch.nn.init.zeros_(model.weight)
        torch.nn.init.zeros_(model.bias)
        rollout = Rollout(T_in=10, increment=increment)
        surrogate = Surrogate(model, data.spec, data.pre_transform, Recipe(), rollout=rollout)
        path = tmp_path / "runs" / f"{name}-viscosity=1e-05" / "0" / "checkpoints" / "last.ckpt"
        path.parent.mkdir(parents=True)
        state = {"state_dict": surrogate.state_dict()}
        surrogate.on_save_checkpoint(state)
        torch.save(state, path)
    places = {"runs": str(tmp_path / "runs"), "root": str(tmp_path / "data"), "out": str(tmp_path)}
    errors = importlib.import_module("rollout_spectra").main(**places)
    assert errors["Zero"] == pytest.approx([-1.0] * 3)
    assert abs(errors["Still"][0]) < 0.9  # the forced, large eddies change little
    assert (tmp_path / "navier_stokes-viscosity=1e-05_spectra.png").stat().st_size > 10_000
