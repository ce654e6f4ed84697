"""The solver on exact solutions and under refinement, the shape of pipes, the published layout."""

import numpy as np
import pytest

from meshop.data import InputError
from meshop.datasets import Pipe
from meshop.datasets.generators import GENERATORS, generate
from meshop.datasets.generators.pipe import bend, sample, solve


def inflow(points):
    border = np.full(points.shape, np.nan)
    border[:, [0, -1]] = 0
    t = np.linspace(0, 1, points.shape[1])
    border[0] = np.stack([t * (1 - t), 0 * t], axis=1)
    return border


def test_flow_in_a_straight_pipe_is_exact():
    """Poiseuille's: a parabola, and the pressure that holds it."""
    points = bend(np.zeros(5), np.zeros(5), 4)
    u, v, p = solve(points, inflow(points), 0.005)
    t = points[..., 1] + 0.5
    np.testing.assert_allclose(u, t * (1 - t), atol=1e-12)
    np.testing.assert_allclose(v, 0, atol=1e-12)
    np.testing.assert_allclose(p, 2 * 0.005 * (10 - points[..., 0]), atol=1e-12)


def test_errors_in_space_are_of_third_order():
    """Kovasznay's flow on a bent grid, at the corners of its elements."""
    rate, wave = 20 - np.sqrt(400 + 4 * np.pi**2), 2 * np.pi
    errors = []
    for n in (8, 16, 32):
        s, t = np.meshgrid(*[np.linspace(0, 1, 2 * n + 1)] * 2, indexing="ij")
        x, y = 1.5 * s - 0.5 + 0.1 * np.sin(3 * t), t + 0.1 * np.sin(4 * s)
        front = np.exp(rate * x)
        exact = np.stack([1 - front * np.cos(wave * y), rate / wave * front * np.sin(wave * y)], axis=-1)
        border = np.full(exact.shape, np.nan)
        for side in (np.s_[0], np.s_[-1], np.s_[:, 0], np.s_[:, -1]):
            border[side] = exact[side]
        u, v, p = solve(np.stack([x, y], axis=-1), border, 1 / 40)
        pressure = -(front**2) / 2
        wanted = np.stack([*np.moveaxis(exact, -1, 0), pressure - pressure[0, 0]])
        gap = np.stack([u, v, p - p[0, 0]]) - wanted
        errors.append(np.sqrt((gap[:, ::2, ::2] ** 2).mean((1, 2))) / wanted.std((1, 2)))
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (orders[-1] > [2.8, 2.8, 1.8]).all(), orders
    assert (errors[-1] < [1e-5, 2e-5, 3e-3]).all(), errors


def test_what_flows_in_flows_out_and_a_finer_grid_agrees():
    heights, slopes = np.array([0, 1.0, -0.5, 0.5, 0]), np.array([0, 0.5, 0, -0.5, 0.3])
    found = []
    for n in (8, 16, 32):
        points = bend(heights, slopes, n)
        q = solve(points, inflow(points), 0.005)
        found.append(q[:, :: n // 4, :: n // 4])
        simpson = np.tile([2, 4], n + 1)[: 2 * n + 1].astype(float)
        simpson[[0, -1]] = 1
        flux = q[0] @ simpson / simpson.sum()
    np.testing.assert_allclose(flux[::2], 1 / 6, rtol=0.03)
    coarse, fine = (np.linalg.norm(a - found[-1]) for a in found[:-1])
    assert fine < coarse / 2.5


def test_it_says_when_it_does_not_converge():
    points = bend(np.arange(5) % 2, np.ones(5), 4)
    with pytest.raises(InputError, match="converge in 3 steps"):
        solve(points, inflow(points), 1e-4, steps=3)


def test_the_line_of_a_pipe():
    heights, slopes = np.array([0, 1.0, -1.0, 2.0, 0]), np.array([1.0, 0, -1, 0.5, 0])
    points = bend(heights, slopes, 40)
    np.testing.assert_allclose(points[::20, 40, 1], heights, atol=1e-12)
    np.testing.assert_allclose(points[:, -1, 1] - points[:, 0, 1], 1)
    found = np.gradient(points[:, 40, 1], 1 / 8)[20:-20:20]
    np.testing.assert_allclose(found, slopes[1:-1], atol=0.2)
    assert np.ptp(points[..., 0], axis=1).max() == 0


def test_its_data_set_reads_the_files(tmp_path):
    found = generate(GENERATORS["pipe"], tmp_path / "raw", samples=3, elements=6)
    files = ["Pipe_Q.npy", "Pipe_X.npy", "Pipe_Y.npy", "generated.json"]
    assert sorted(path.name for path in (tmp_path / "raw").iterdir()) == files
    pipes = Pipe(tmp_path)
    wanted = sample(np.random.default_rng([0, 2]), **GENERATORS["pipe"].options | {"elements": 6})
    [test] = pipes.split("test")
    assert test.shape == (13, 13)
    for name, values in zip(("u", "v", "p"), wanted["Q"], strict=True):
        np.testing.assert_array_equal(test.point_data[name].reshape(13, 13), values.astype(np.float32))
    np.testing.assert_allclose(test.pos[:, 1].reshape(13, 13), wanted["Y"], rtol=1e-6, atol=1e-6)
    assert np.load(tmp_path / "raw" / "Pipe_Q.npy").dtype == np.float64
    assert found["u"][0] == pytest.approx(1 / 6, rel=0.3)
    inlet = test.point_data["u"].reshape(13, 13)[0]
    assert inlet.max() == 0.25
