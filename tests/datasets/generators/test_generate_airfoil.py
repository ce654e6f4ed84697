"""The solver on exact flows and under refinement, the grid and its cut, and the published layout."""

import numpy as np
import pytest

from meshop.data import InputError
from meshop.datasets import Airfoil
from meshop.datasets.generators import GENERATORS, generate
from meshop.datasets.generators.airfoil import (
    GAMMA,
    WAKE,
    Flow,
    _slope_of_flux,
    cells_of,
    conserved,
    fly,
    grid,
    primitive,
    roe_flux,
    sample,
    solve,
)


def vortex(places):
    """Supersonic flow around the origin, of Mach 2.25 at radius 1; density, velocity and pressure [4, ...]."""
    x, y = np.moveaxis(places, -1, 0)
    r = np.hypot(x, y)
    rho = (1 + 0.2 * 2.25**2 * (1 - 1 / r**2)) ** 2.5
    return np.stack([rho, 2.25 * y / r**2, -2.25 * x / r**2, rho**GAMMA / GAMMA])


def test_errors_of_a_vortex_are_of_second_order():
    """Its wall is a circle, and its entropy is the same everywhere."""
    errors = []
    for n in (8, 16, 32):
        angle, r = np.meshgrid(np.linspace(np.pi / 2, 0, 2 * n + 1), np.linspace(1, 1.384, n + 1), indexing="ij")
        cells = cells_of(np.stack([r * np.cos(angle), r * np.sin(angle)], axis=-1), wake=0)
        exact = vortex(cells.centre)
        count = len(cells.area)
        w = solve(Flow(cells, exact[:, count:]), conserved(vortex(cells.centre[:count])), steps=200)
        q = primitive(w)
        entropy = q[3] / q[0] ** GAMMA * GAMMA - 1
        errors.append([np.abs(q[0] - exact[0, :count]).mean(), np.abs(entropy).mean()])
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (orders[-1] > 1.8).all(), (orders, errors)
    assert errors[-1][0] < 1e-3


def test_a_shock_has_its_angle_and_strength():
    """Flow of Mach 2 that meets a wall at 10 degrees: the shock of a wedge, at 39.31 degrees to it."""
    x, y = np.meshgrid(np.linspace(0, 1, 41), np.linspace(0, 1, 41), indexing="ij")
    cells = cells_of(np.stack([x, y], axis=-1), wake=0)
    speed, angle = 2 * np.sqrt(GAMMA), np.radians(10)
    far = np.array([1, speed * np.cos(angle), -speed * np.sin(angle), 1])
    flow = Flow(cells, np.repeat(far[:, None], len(cells.centre) - len(cells.area), axis=1))
    w = solve(flow, np.repeat(conserved(far)[:, None], len(cells.area), axis=1), steps=150)
    rho, u, v, p = primitive(w).reshape(4, 40, 40)
    assert p[20:38, :4] == pytest.approx(1.7066, rel=0.01)
    mach = np.hypot(u, v) / np.sqrt(GAMMA * p / rho)
    assert mach[20:38, :4] == pytest.approx(1.6405, rel=0.01)
    assert p[30:, 30:] == pytest.approx(1, abs=1e-3)
    height = np.interp(-1.35, -p[30], (np.arange(40) + 0.5) / 40)
    assert np.degrees(np.arctan2(height, 30.5 / 40)) == pytest.approx(39.31 - 10, abs=0.6)


def test_the_flux_and_how_it_changes():
    rng = np.random.default_rng(0)
    q = np.abs(rng.standard_normal((4, 5))) + 0.5
    normal = rng.standard_normal((2, 5))
    rho, u, v, p = q
    across = u * normal[0] + v * normal[1]
    energy = conserved(q)[3]
    wanted = np.stack(
        [rho * across, rho * u * across + p * normal[0], rho * v * across + p * normal[1], (energy + p) * across]
    )
    np.testing.assert_allclose(roe_flux(q, q, normal), wanted)
    np.testing.assert_allclose(primitive(conserved(q)), q)
    slope, w = _slope_of_flux(conserved(q), normal), conserved(q)
    for k in range(4):
        change = np.zeros_like(w)
        change[k] = 1e-6
        up, down = (roe_flux(*[primitive(w + sign * change)] * 2, normal) for sign in (1, -1))
        np.testing.assert_allclose((up - down).T / 2e-6, slope[:, :, k], rtol=1e-6, atol=1e-7)


def test_a_uniform_flow_passes_the_cut():
    """Sides close around each cell, and those of the wake are joined: only the wall disturbs."""
    cells = cells_of(grid(np.linspace(-0.05, 0.05, 8), 5), WAKE // 5)
    far = np.array([1.0, 0.9, 0.3, 1.0])
    flow = Flow(cells, np.repeat(far[:, None], len(cells.centre) - len(cells.area), axis=1))
    residual = flow.residual(np.repeat(conserved(far)[:, None], len(cells.area), axis=1)).reshape(4, 44, 10)
    assert np.abs(residual[:, 10:34, 0]).max() > 1e-3
    residual[:, 10:34, 0] = 0
    assert np.abs(residual).max() < 1e-10


@pytest.mark.parametrize("coarse", [1, 2, 5])
def test_the_grid(coarse):
    rng = np.random.default_rng(coarse)
    for _ in range(5):
        nodes = grid(np.r_[0, rng.uniform(-0.05, 0.05, 7)], coarse)
        assert nodes.shape == (220 // coarse + 1, 50 // coarse + 1, 2)
        assert cells_of(nodes, WAKE // coarse).area.min() > 0
        wake = WAKE // coarse
        np.testing.assert_allclose(nodes[: wake + 1, 0], nodes[: -wake - 2 : -1, 0], atol=1e-12)
    plain, moved = grid(np.zeros(8), coarse), grid(np.full(8, 0.05), coarse)
    np.testing.assert_allclose(moved[:, 0] - plain[:, 0], np.tile([0, 0.05], (len(plain), 1)), atol=1e-12)
    assert plain[..., 0].max() == pytest.approx(40)
    assert np.hypot(*(plain[wake:-wake, -1] - [1, 0]).T) == pytest.approx(40)
    assert np.ptp(plain[:, 0, 1]) == pytest.approx(0.12, rel=0.06)


def test_it_says_when_it_does_not_become_steady():
    with pytest.raises(InputError, match="steady in 2 steps"):
        fly(np.zeros(8), 2, 5)


def test_its_data_set_reads_the_files(tmp_path):
    options = {"coarse": 5, "steps": 60}
    found = generate(GENERATORS["airfoil"], tmp_path / "raw", samples=3, **options)
    files = [f"NACA_Cylinder_{name}.npy" for name in "QXY"]
    assert sorted(p.name for p in (tmp_path / "raw").iterdir()) == [*files, "generated.json"]
    flights = Airfoil(tmp_path)
    [test] = flights.split("test")
    assert test.shape == (45, 11)
    wanted = sample(np.random.default_rng([0, 2]), **options)
    for k, name in enumerate(("rho", "u", "v", "p", "mach")):
        np.testing.assert_array_equal(test.point_data[name].reshape(45, 11), wanted["Q"][k].astype(np.float32))
    assert np.load(tmp_path / "raw" / "NACA_Cylinder_X.npy").dtype == np.float64
    np.testing.assert_allclose(wanted["Q"][:, :10, 0], wanted["Q"][:, :-11:-1, 0], rtol=1e-12)
    assert wanted["Q"][4][:, -1] == pytest.approx(0.8, abs=0.02)
    assert found["mach"][0] == pytest.approx(0.8, abs=0.05)
    joined = Airfoil(tmp_path, join_wake=True)
    assert joined[0].num_points == 45 * 11 - 11


@pytest.mark.slow
def test_flow_about_the_plain_airfoil():
    """Symmetric; supersonic up to Mach 1.2 to 1.3, with shocks whose entropy is small."""
    _, (rho, u, v, p) = fly(np.zeros(8), 120)
    mach = np.hypot(u, v) / np.sqrt(GAMMA * p / rho)
    np.testing.assert_allclose(mach, mach[::-1], atol=1e-6)
    assert 1.2 < mach.max() < 1.3
    assert np.abs(p / rho**GAMMA - 1).max() < 0.1
