"""The solver on exact solutions, on flow in a plane and under refinement; its start; the published layout."""

import numpy as np
import pytest

from meshop.datasets.factformer import IT3D
from meshop.datasets.generators import GENERATORS, generate
from meshop.datasets.generators.it3d import VISCOSITY, Box, random_velocity, sample, solve
from meshop.datasets.generators.navier_stokes import solve as solve_plane

TURBULENCE = GENERATORS["it3d"]


def grid(n):
    return np.meshgrid(*[2 * np.pi * np.arange(n) / n] * 3, indexing="ij")


def divergence(u):
    box = Box(u.shape[-1])
    return box.values((1j * box.k * box.modes(u)).sum(0))


def test_a_beltrami_flow_decays_exactly():
    """Of Arnold, Beltrami and Childress: its vorticity is its velocity, so it does not move itself."""
    x, y, z = grid(12)
    u = np.stack([np.sin(z) + 0.5 * np.cos(y), 0.8 * np.sin(x) + np.cos(z), 0.5 * np.sin(y) + 0.8 * np.cos(x)])
    [[*v, p]] = solve(u, [1.5], 0.1, 0.05, forced=False)
    np.testing.assert_allclose(v, u * np.exp(-0.15), atol=1e-13)
    speed = (np.square(v)).sum(0) / 2
    np.testing.assert_allclose(p, speed.mean() - speed, atol=1e-13)


def test_pressure_of_taylor_and_green():
    x, y, z = grid(16)
    u = np.stack([np.sin(x) * np.cos(y) * np.cos(z), -np.cos(x) * np.sin(y) * np.cos(z), 0 * x])
    box = Box(16)
    wanted = (np.cos(2 * x) + np.cos(2 * y)) * (np.cos(2 * z) + 2) / 16
    np.testing.assert_allclose(box.pressure(box.modes(u)), wanted, atol=1e-14)


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_flow_in_a_plane_is_that_of_the_solver_for_vorticity(turn):
    n, nu = 16, 0.3
    x, y, _ = grid(n)
    u = [
        0.8 * np.sin(x) * np.cos(2 * y) - np.sin(x + y) / 2,
        -0.4 * np.cos(x) * np.sin(2 * y) + np.sin(x + y) / 2,
        np.sin(y),  # is carried
    ]
    axes = [(turn + a) % 3 for a in range(3)]  # where x, y and z go
    u = np.moveaxis(np.roll(u, turn, axis=0), (1, 2, 3), [1 + a for a in axes])
    [found] = solve(u, [0.3], nu, 0.03, forced=False)
    box = Box(n)
    ik, modes = 1j * box.k, box.modes(found[:3])
    curl = box.values(ik[axes[0]] * modes[axes[1]] - ik[axes[1]] * modes[axes[0]])
    curl = np.moveaxis(curl, axes, (0, 1, 2))

    x, y, _ = grid(48)
    w = (2 * np.sin(x) * np.sin(2 * y) + np.cos(x + y))[:, :, 0]
    [wanted] = solve_plane(w, [0.3], nu, 0.0, side=2 * np.pi, dt=0.03)
    np.testing.assert_allclose(curl, np.broadcast_to(wanted[::3, ::3, None], curl.shape), atol=2e-5)
    assert np.abs(wanted - w * np.exp(-nu * 0.3 * 5)).max() > 0.05  # it has moved itself


def test_errors_in_time_are_of_fourth_order():
    u = random_velocity(np.random.default_rng(0), 16, 84.0)
    best = solve(u, [0.1], VISCOSITY, 0.1 / 40, forced=False)
    errors = [np.abs(solve(u, [0.1], VISCOSITY, 0.1 / n, forced=False) - best).max() for n in (5, 10, 20)]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert orders == pytest.approx(4, abs=0.3)


def test_the_force_keeps_the_energy():
    u = random_velocity(np.random.default_rng(0), 16, 84.0)
    start = (u**2).sum(0).mean() / 2
    assert start == pytest.approx(84 * 50 ** (-2 / 3) / np.sqrt(20 / 3))
    assert np.abs(divergence(u)).max() < 1e-12
    free, kept = (solve(u, [0.3], VISCOSITY, 0.01, forced)[0, :3] for forced in (False, True))
    assert (kept**2).sum(0).mean() / 2 == pytest.approx(start)
    assert (free**2).sum(0).mean() / 2 < 0.95 * start
    assert np.abs(divergence(kept)).max() < 1e-11


def test_the_start_has_its_spectrum():
    box = Box(16)
    modes = box.modes(random_velocity(np.random.default_rng(0), 16, 84.0))
    size = (modes * modes.conj()).real.sum(0)[box.kept]
    k = np.sqrt(box.squares[box.kept])
    np.testing.assert_allclose(size / size.max(), np.where(k <= 3, 1, (k / 3) ** (-11 / 3)))


def test_its_data_set_reads_the_files(tmp_path):
    options = {"resolution": 8, "dt": 0.05}
    found = generate(TURBULENCE, tmp_path / "raw", samples=3, **options)
    files = [f"trajectory_000{i}" for i in range(3)]
    assert sorted(path.name for path in (tmp_path / "raw").iterdir()) == ["generated.json", *files]
    flows = IT3D(tmp_path, T_out=10, test_starts=(0,))
    [test] = flows.split("test")
    wanted = sample(np.random.default_rng([0, 2]), **TURBULENCE.options | options)
    p = np.concatenate([test.point_data["p_in"], test.point_data["p_out"]], axis=1)
    np.testing.assert_array_equal(p.T.reshape(20, 8, 8, 8), wanted["prs"])
    velocity = test.point_data["velocity_out"].T.reshape(10, 3, 8, 8, 8)
    np.testing.assert_array_equal(velocity[:, 1], wanted["vy"][10:])
    assert wanted["vx"].dtype == wanted["prs"].dtype == np.float32
    assert found["vz"][1] == pytest.approx(1.26, rel=0.5)
