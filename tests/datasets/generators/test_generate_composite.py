"""The solver on a manufactured solution, the law of the temperature, and the files read as a benchmark."""

import numpy as np
import pytest
from skfem import LinearForm, MeshHex
from skfem.helpers import ddot, grad

from meshop.datasets import Composite
from meshop.datasets.generators import GENERATORS, generate
from meshop.datasets.generators.composite import (
    ANGLE,
    EXPANSION,
    POISSON,
    RADIUS,
    THICKNESS,
    WIDTH,
    YOUNG,
    Thermoelastic,
    body,
    panel,
    random_temperature,
    sample,
)


def test_the_error_is_of_second_order():
    """In a curved block, of a displacement that is zero where it is held, at x = 0, beside a temperature."""

    def displacement(x, y, z):
        return 1e-3 * np.stack([np.sin(2 * x) * y, x * np.cos(y + z), x * z**2])

    def temperature(x, y, z):
        return 80 * np.cos(x) * (1 + y * z)

    def stress(x, y, z):
        zero = 0 * x
        gradient = 1e-3 * np.stack([
            np.stack([2 * np.cos(2 * x) * y, np.sin(2 * x), zero]),
            np.stack([np.cos(y + z), -x * np.sin(y + z), -x * np.sin(y + z)]),
            np.stack([z**2, zero, 2 * x * z]),
        ])  # fmt: skip
        strain = (gradient + gradient.swapaxes(0, 1)) / 2 - EXPANSION * temperature(x, y, z) * np.eye(3)[
            ..., None, None
        ]
        return YOUNG / (1 + POISSON) * (
            strain + POISSON / (1 - 2 * POISSON) * np.einsum("kk...,ij->ij...", strain, np.eye(3))
        )  # fmt: skip

    errors = []
    for n in (2, 4, 8):
        cube = MeshHex.init_tensor(*[np.linspace(0, 1, n + 1)] * 3)
        mesh = MeshHex(cube.p + 0.2 * cube.p[0] * np.sin(cube.p[[1, 2, 0]]), cube.t)
        solver = Thermoelastic(mesh, np.flatnonzero(mesh.p[0] < 1e-9))
        load = LinearForm(lambda v, w: ddot(stress(*w.x), grad(v))).assemble(solver.basis)
        error = solver(temperature(*mesh.p), load) - displacement(*mesh.p).T
        errors.append(np.sqrt((error**2).mean()))
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert orders == pytest.approx(2, abs=0.15)


def test_the_panel():
    mesh = panel((13, 5, 3))
    volume = ANGLE / 2 * ((RADIUS + THICKNESS) ** 2 - RADIUS**2) * WIDTH
    basis = body((13, 5, 3)).basis
    assert (basis.dx > 0).all()
    assert basis.dx.sum() == pytest.approx(volume, rel=2e-3)
    assert np.array_equal(np.flatnonzero(mesh.p[0] < 1e-9), np.arange(15))
    assert np.prod(GENERATORS["composite"].options["shape"]) == 8232


def test_heat_moves_all_but_the_held_face():
    u = body((13, 5, 3))(np.full(13 * 5 * 3, 100.0))
    assert not u[:15].any()
    assert (np.abs(u[15:]).max(axis=1) > 0).all()
    turned = u.reshape(13, 5, 3, 3)
    np.testing.assert_allclose(
        turned[:, ::-1, :, 1], -turned[..., 1], atol=1e-12
    )  # the middle plane is one of symmetry
    free = EXPANSION * 100 * (RADIUS + THICKNESS / 2) * 2 * np.sin(ANGLE / 2)  # growth of the chord without the face
    assert np.linalg.norm(turned[-1, 2, 1]) == pytest.approx(free, rel=0.15)


def test_the_temperature_has_its_mean_and_deviation():
    fields = np.stack([random_temperature(np.random.default_rng(i), (32, 32, 32)) for i in range(300)])
    assert fields.mean() == pytest.approx(100, rel=0.01)
    assert fields.std() == pytest.approx(20, rel=0.06)
    along = np.abs(np.diff(fields.reshape(300, 32, 32, 32), axis=1))
    assert along.mean() * 31 < 4 * 20  # smooth: a few deviations from end to end


def test_the_layout(tmp_path):
    generate(GENERATORS["composite"], tmp_path / "raw", samples=5, shape=[7, 5, 3])
    parts, mesh = Composite(tmp_path), panel((7, 5, 3))
    assert [len(parts.split(name)) for name in ("train", "test")] == [4, 1]
    case, made = parts[4], sample(np.random.default_rng([0, 4]), (7, 5, 3))
    assert case.validate()
    assert case.cell_type.tolist() == [12] * 6 * 4 * 2
    np.testing.assert_allclose(case.points, mesh.p.T)
    assert float(case.measure.sum()) == pytest.approx(body((7, 5, 3)).basis.dx.sum(), rel=1e-4)
    np.testing.assert_allclose(case.point_data["T"], made["T_field"], rtol=1e-6)
    np.testing.assert_allclose(case.y[:, 0], made["D_field"], rtol=1e-6)
