"""The solver on exact solutions and under refinement, the field on its law, the files in both published layouts."""

import numpy as np
import pytest
import scipy.io

from meshop.datasets import NavierStokes
from meshop.datasets.generators import GENERATORS, generate
from meshop.datasets.generators.navier_stokes import random_field, sample, solve

TAU = 2 * np.pi


def grid(n, side=1.0):
    return np.meshgrid(*[side * np.arange(n) / n] * 2, indexing="ij")


def derivative(f, axis, order=1):
    k = np.fft.fftfreq(len(f), 1 / len(f)).reshape((-1, 1) if axis == 0 else (1, -1))
    return np.fft.ifft((TAU * 1j * k) ** order * np.fft.fft(f, axis=axis), axis=axis).real


def test_a_mode_decays_exactly():
    """Taylor's and Green's vortices: their own velocity does not move them."""
    x, y = grid(32, 2.0)
    w = np.sin(3 * np.pi * x) * np.sin(np.pi * y)
    for time, found in zip((0.5, 2), solve(w, (0.5, 2), 0.01, 0.0, drag=0.1, side=2.0, dt=0.3), strict=True):
        np.testing.assert_allclose(found, np.exp(-(0.1 * np.pi**2 + 0.1) * time) * w, atol=1e-13)


def test_errors_in_space_fall_faster_than_any_power():
    """A steady vorticity exp(sin) that its force keeps: all that is left is what the grid does not resolve."""
    errors = []
    for n in (16, 24, 32):
        x, y = grid(192)
        psi = np.exp(np.sin(TAU * x) + np.cos(TAU * y)) / 40
        w = -(derivative(psi, 0, 2) + derivative(psi, 1, 2))
        force = derivative(psi, 1) * derivative(w, 0) - derivative(psi, 0) * derivative(w, 1)
        force -= 0.01 * (derivative(w, 0, 2) + derivative(w, 1, 2))
        w, force = (f[:: 192 // n, :: 192 // n] for f in (w, force))
        [found] = solve(w, [0.1], 0.01, force, dt=0.01)
        errors.append(np.abs(found - w).max() / np.abs(w).max())
    assert errors[1] < errors[0] / 20
    assert errors[2] < errors[1] / 20
    assert errors[2] < 1e-5


def test_errors_in_time_are_of_fourth_order():
    w = random_field(np.random.default_rng(0), 32) * 10
    force = np.sin(TAU * (grid(32)[0] + grid(32)[1]))
    best = solve(w, [0.5], 1e-3, force, dt=0.5 / 512)
    errors = [np.abs(solve(w, [0.5], 1e-3, force, dt=0.5 / steps) - best).max() for steps in (32, 64, 128)]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert orders == pytest.approx(4, abs=0.1)


def test_a_fast_flow_takes_shorter_steps():
    x, y = grid(32)
    w = 400 * (np.sin(TAU * x) + np.sin(2 * TAU * y))
    [coarse], [fine] = (solve(w, [0.02], 0.2, 0.0, dt=dt) for dt in (0.02, 1e-4))
    np.testing.assert_allclose(coarse, fine, atol=1e-3 * np.abs(fine).max())


def test_the_field_has_its_covariance():
    fields = np.stack([random_field(np.random.default_rng(i), 32, side=2.0) for i in range(400)])
    x, y = grid(32)
    for k, l in ((1, 0), (0, 2), (3, 1)):
        found = (fields * np.cos(TAU * (k * x + l * y))).mean((1, 2)) * np.sqrt(2)
        assert found.var() == pytest.approx(2 * 7**3 * (np.pi**2 * (k**2 + l**2) + 49) ** -2.5, rel=0.2)
    assert np.abs(fields.mean((1, 2))).max() < 1e-12


def test_a_finer_solver_gives_the_same_frames():
    """Its random field is another one on another grid, so the solver is asked directly."""
    x, y = grid(64)
    w = np.sin(TAU * x) * np.cos(2 * TAU * y) + np.sin(TAU * (x + 3 * y) + 1)
    force = 0.1 * (np.sin(TAU * (x + y)) + np.cos(TAU * (x + y)))
    [fine], [coarse] = solve(w, [2.0], 1e-3, force), solve(w[::2, ::2], [2.0], 1e-3, force[::2, ::2])
    assert np.linalg.norm(fine[::2, ::2] - coarse) < 1e-3 * np.linalg.norm(coarse)


@pytest.mark.parametrize(
    ("name", "file", "viscosity", "frames"),
    [
        ("navier_stokes", "NavierStokes_V1e-5_N1200_T20.mat", 1e-5, 20),
        ("navier_stokes_1e-4", "ns_V1e-4_N10000_T30.mat", 1e-4, 30),
    ],
)
def test_its_data_set_reads_the_files(tmp_path, name, file, viscosity, frames):
    found = generate(GENERATORS[name], tmp_path / "raw", samples=3, resolution=16, dt=0.1)
    assert {path.name for path in (tmp_path / "raw").iterdir()} == {"generated.json", file}
    flows = NavierStokes(tmp_path, viscosity, T_out=frames - 10)
    assert flows.splits == {"train": [0, 1], "test": [2]}
    row = sample(np.random.default_rng([0, 2]), viscosity, frames, 16, 2, 0.1)
    assert row["u"].dtype == np.float32
    w = np.concatenate([flows[2].point_data["vorticity_in"], flows[2].point_data["vorticity_out"]], 1)
    np.testing.assert_array_equal(w.reshape(16, 16, frames), row["u"])
    assert found["a"][1] == pytest.approx(0.25, rel=0.3)
    if viscosity == 1e-5:
        content = scipy.io.loadmat(tmp_path / "raw" / file)
        np.testing.assert_array_equal(content["a"][2], row["a"])
        np.testing.assert_array_equal(content["t"], np.arange(1, 21)[None])


@pytest.mark.slow
def test_the_vorticity_grows_as_on_the_published_resolution(tmp_path):
    """Of a few runs at 256 x 256 in double precision; at the start, of its law."""
    found = generate(GENERATORS["navier_stokes"], tmp_path, samples=20, workers=2)
    for name, std in {"a": 0.262, "u at 1": 0.27, "u at 5": 0.54, "u at 10": 0.98, "u at 20": 1.74}.items():
        assert found[name] == pytest.approx((0, std), rel=0.15, abs=1e-4)
