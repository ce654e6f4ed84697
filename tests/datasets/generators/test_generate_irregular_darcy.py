"""The mesh, its modes, the solver on a manufactured solution, and the files read as a benchmark."""

import numpy as np
import pytest
from skfem import Basis, ElementTriP1, MeshTri
from skfem.models.poisson import laplace, mass

from meshop.datasets import IrregularDarcy
from meshop.datasets.generators import GENERATORS, generate
from meshop.datasets.generators.irregular_darcy import ARC, CENTRE, CORNERS, border, domain, modes, sample, solve


def test_the_domain():
    mesh = domain(0.01595)
    assert mesh.p.shape[1] == pytest.approx(2290, rel=0.01)
    assert mesh.p.shape[1] - mesh.facets.shape[1] + mesh.t.shape[1] == 1  # simply connected, no node without a triangle
    x, y = np.transpose(CORNERS)
    polygon = (x * np.roll(y, -1) - np.roll(x, -1) * y).sum() / 2
    one, two = np.subtract(CORNERS[ARC : ARC + 2], CENTRE)
    radius, turn = np.hypot(*one), np.arccos(one @ two / (one @ one))
    assert np.hypot(*two) == pytest.approx(radius)
    sides = Basis(mesh, ElementTriP1()).dx.sum(axis=1)
    assert (sides > 0).all()
    assert sides.sum() == pytest.approx(polygon - radius**2 / 2 * (turn - np.sin(turn)), rel=1e-4)
    again = domain.__wrapped__(0.01595)
    assert np.array_equal(again.p, mesh.p)
    assert np.array_equal(again.t, mesh.t)


def test_water_leaves_over_the_border_but_not_into_the_slot():
    mesh = domain(0.05)
    made = sample(np.random.default_rng(0), 0.05)
    assert set(made["c_field"]) == {3, 12}
    x, y = mesh.p
    top = (y == 0.4) & (np.abs(x - 0.504) < 0.011)
    assert top.sum() == 2
    assert (made["u_field"][top] > 1e-4).all()
    zero = np.flatnonzero(np.abs(made["u_field"]) < 1e-15)
    assert np.array_equal(zero, border(mesh))
    assert {(0.494, 0.0), (0.514, 0.0), (0.3, 0.6), (1.0, 0.0)} <= set(map(tuple, mesh.p[:, zero].T))
    basis = Basis(mesh, ElementTriP1())
    assert made["u_field"] @ (laplace.assemble(basis) @ made["u_field"]) > 0
    outer = np.setdiff1d(mesh.boundary_nodes(), border(mesh))
    assert (np.abs(x[outer] - 0.504) < 0.0101).all()


def test_the_error_is_of_second_order():
    """Zero on three sides of a square, no flow over the fourth."""
    errors = []
    for level in (3, 4, 5):
        mesh = MeshTri().refined(level)

        def coefficient(x, y):
            return 2 + np.sin(3 * x) * np.cos(2 * y)

        def load(at):
            x, y = at[0] * np.pi, at[1] * np.pi
            u_x, u_y = np.pi * np.cos(x) * np.sin(y / 2), np.pi / 2 * np.sin(x) * np.cos(y / 2)
            a_x, a_y = 3 * np.cos(3 * at[0]) * np.cos(2 * at[1]), -2 * np.sin(3 * at[0]) * np.sin(2 * at[1])
            return 1.25 * np.pi**2 * coefficient(*at) * np.sin(x) * np.sin(y / 2) - a_x * u_x - a_y * u_y

        fixed = np.flatnonzero((mesh.p[0] == 0) | (mesh.p[0] == 1) | (mesh.p[1] == 0))
        u = solve(mesh, fixed, coefficient(*mesh.p), load)
        errors.append(np.abs(u - np.sin(np.pi * mesh.p[0]) * np.sin(np.pi / 2 * mesh.p[1])).max())
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert orders == pytest.approx(2, abs=0.06)


def test_modes_are_orthonormal_eigenvectors():
    values, vectors = modes(0.05, 20)
    basis = Basis(domain(0.05), ElementTriP1())
    stiffness, weight = laplace.assemble(basis), mass.assemble(basis)
    assert values.min() > 1
    np.testing.assert_allclose(vectors.T @ (weight @ vectors), np.eye(20), atol=1e-10)
    np.testing.assert_allclose(vectors.T @ (stiffness @ vectors), np.diag(values), atol=1e-8 * values.max())
    np.testing.assert_allclose(weight.sum(0) @ vectors, 0, atol=1e-10)
    again = modes.__wrapped__(0.05, 20)
    assert np.array_equal(again[1], vectors)


def test_both_materials_are_as_frequent():
    shares = [(sample(np.random.default_rng(i), 0.05)["c_field"] == 12).mean() for i in range(200)]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.04)


def test_the_layout(tmp_path):
    generate(GENERATORS["irregular_darcy"], tmp_path / "raw", samples=6, size=0.05)
    flows, mesh = IrregularDarcy(tmp_path), domain(0.05)
    assert [len(flows.split(name)) for name in ("train", "test")] == [5, 1]
    case, made = flows[5], sample(np.random.default_rng([0, 5]), 0.05)
    assert np.array_equal(case.points[:, :2], mesh.p.T)
    assert np.array_equal(case.cell_index.view(-1, 3), mesh.t.T)
    np.testing.assert_allclose(case.point_data["a"], made["c_field"])
    np.testing.assert_allclose(case.y[:, 0], made["u_field"], rtol=1e-6)
