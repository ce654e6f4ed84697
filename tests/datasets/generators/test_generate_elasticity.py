"""The material against its energy and a closed form, the solver on a manufactured solution, the files' layout."""

import numpy as np
import pytest
import torch

from meshop.datasets import Elasticity
from meshop.datasets.generators import GENERATORS, generate
from meshop.datasets.generators.elasticity import (
    C1,
    C2,
    block,
    displacements,
    mises,
    radius,
    sample,
    solve,
    stress,
    stress_change,
    traction,
)


def energy(f):
    """The energy from the right Cauchy-Green tensor in space."""
    c = torch.block_diag(f.T @ f, torch.linalg.det(f)[None, None] ** -2)
    first = torch.trace(c)
    return C1 * (first - 3) + C2 * ((first**2 - torch.trace(c @ c)) / 2 - 3)


def test_stress_is_the_derivative_of_the_energy():
    rng = np.random.default_rng(0)
    f, change = np.eye(2) + 0.3 * rng.standard_normal((2, 2)), rng.standard_normal((2, 2))
    first = torch.func.grad(energy)
    one, two = torch.func.jvp(first, (torch.from_numpy(f),), (torch.from_numpy(change),))
    np.testing.assert_allclose(stress(f), one, rtol=1e-10)
    np.testing.assert_allclose(stress_change(f, change), two, rtol=1e-10)


def test_a_strip_has_the_stress_of_the_closed_form():
    for stretch in (0.7, 1.5):
        f = np.diag([stretch**-0.5, stretch])
        closed = 2 * (stretch**2 - 1 / stretch) * (C1 + C2 / stretch)
        assert mises(f) == pytest.approx(abs(closed), rel=1e-12)
        assert abs(stress(f)[0, 0]) < 1e-9 * abs(closed)


def test_the_error_of_strain_is_of_second_order():
    def exact(x, y):
        """A deformation gradient that is held at y = 0."""
        u_x = 0.03 * np.stack([y * np.pi * np.cos(np.pi * x), np.sin(np.pi * x)])
        v_x = 0.06 * np.stack([y**2 * np.cos(x), 2 * y * np.sin(x)])
        return np.eye(2)[:, :, None, None] + np.stack([u_x, v_x])

    coefficients, errors = np.random.default_rng(1).standard_normal(10), []
    for around, across in ((20, 2), (60, 6)):
        basis = displacements(block(coefficients, around, across))
        f = exact(*basis.global_coordinates())
        gradients = np.stack([field[0].grad for field in basis.basis], axis=2)
        forces = np.einsum("abeq,abieq,eq->ie", stress(f), gradients, basis.dx)
        load = np.bincount(basis.element_dofs.ravel(), forces.ravel(), basis.N)
        errors.append(np.sqrt((((solve(basis, load) - f) ** 2).sum((0, 1)) * basis.dx).sum()))
    assert np.log(errors[0] / errors[1]) / np.log(3) == pytest.approx(2, abs=0.1)


def test_stresses_balance_the_traction():
    """By the virtual work of the displacements (0, y) and (y, 0)."""
    coefficients = np.random.default_rng(2).standard_normal(10)
    mesh = block(coefficients)
    basis = displacements(mesh)
    void = np.pi * np.mean(radius(coefficients, np.arange(360) * np.pi / 180) ** 2)
    assert basis.dx.sum() == pytest.approx(1 - void, rel=1e-3)
    f = solve(basis, 100 * traction(mesh))
    assert (stress(f)[1, 1] * basis.dx).sum() == pytest.approx(100, rel=1e-8)
    assert (stress(f)[0, 1] * basis.dx).sum() == pytest.approx(0, abs=1e-6)
    assert np.abs(f - np.eye(2)[:, :, None, None]).max() < 0.005


def test_a_load_beyond_all_stiffness_is_refused():
    mesh = block(np.zeros(10), 4, 1)
    with pytest.raises(ArithmeticError, match="too large"):
        solve(displacements(mesh), -1e6 * traction(mesh))


def test_the_void_has_its_law():
    """The Gaussian function behind the radius has the variance of its waves at every angle."""
    draws = np.random.default_rng(0).standard_normal((4000, 10))
    r = np.stack([radius(c, np.array([0.3, 4.0])) for c in draws])
    variance = np.log(0.2 / (r - 0.2) - 1).var(axis=0)
    assert variance == pytest.approx(np.sum(16 / (np.arange(1, 6) ** 2 + 9)) / np.pi, rel=0.1)


def test_a_sample():
    made = sample(np.random.default_rng(1))
    assert {name: array.shape for name, array in made.items()} == {
        "XY": (972, 2), "sigma": (972,), "rr": (42,), "theta": (10,)
    }  # fmt: skip
    assert made["rr"][0] == pytest.approx(made["rr"][41])
    assert made["sigma"].min() > 0
    x, y = (made["XY"] - 0.5).T
    assert np.abs(made["XY"] - 0.5).max() < 0.5
    assert (np.hypot(x, y) > radius(made["theta"], np.arctan2(y, x))).all()


def test_the_layout(tmp_path):
    generate(GENERATORS["elasticity"], tmp_path / "raw", samples=6)
    files = {
        name: np.load(tmp_path / "raw" / f"Random_UnitCell_{name}_10.npy") for name in ("XY", "sigma", "rr", "theta")
    }
    shapes = {"XY": (972, 2, 6), "sigma": (972, 6), "rr": (42, 6), "theta": (6, 10)}
    assert {name: array.shape for name, array in files.items()} == shapes
    assert {array.dtype for array in files.values()} == {np.dtype(float)}
    made = sample(np.random.default_rng([0, 5]))
    assert np.array_equal(files["XY"][:, :, 5], made["XY"])
    assert np.array_equal(files["theta"][5], made["theta"])
    mesh = Elasticity(tmp_path).split("test")[-1]
    np.testing.assert_allclose(mesh.y[:, 0], made["sigma"], rtol=1e-6)
    np.testing.assert_allclose(mesh.pos, made["XY"], rtol=1e-6)


@pytest.mark.slow
def test_published_statistics(tmp_path):
    found = generate(GENERATORS["elasticity"], tmp_path, samples=300)
    for name, statistics in GENERATORS["elasticity"].published.items():
        assert found[name] == pytest.approx(statistics, rel=0.04)
