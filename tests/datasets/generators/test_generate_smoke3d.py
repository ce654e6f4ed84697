"""Each part of the solver on exact solutions, all of it under refinement, and the published layout."""

from itertools import pairwise

import numpy as np
import pytest

from meshop.datasets.factformer import Smoke3D
from meshop.datasets.generators import GENERATORS, generate
from meshop.datasets.generators.smoke3d import (
    advance,
    centres,
    component_at,
    diffuse,
    faces,
    origin,
    project,
    random_smoke,
    sample,
    smoke_at,
)

SMOKE = GENERATORS["smoke3d"]


def rest(n):
    return [np.zeros(faces(n, axis).shape[1:]) for axis in range(3)]


def divergence(u):
    return sum(np.diff(a, axis=axis) for axis, a in enumerate(u))


def test_projection():
    """It takes a gradient away, leaves no divergence, and keeps what has none."""
    n, rng = 6, np.random.default_rng(0)
    potential = rng.standard_normal((n, n, n))
    gradient, noise = rest(n), rest(n)
    for axis in range(3):
        inner = tuple(np.s_[1:-1] if a == axis else np.s_[:] for a in range(3))
        gradient[axis][inner] = np.diff(potential, axis=axis)
        noise[axis][inner] = rng.standard_normal(noise[axis][inner].shape)
    assert max(np.abs(a).max() for a in project(gradient)) < 1e-12
    once = project(noise)
    assert np.abs(divergence(once)).max() < 1e-12
    for a, b, c in zip(once, project(once), noise, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
        assert np.abs(a - c).max() > 0.1
    for axis, a in enumerate(once):
        assert not a.take([0, -1], axis=axis).any()


def test_diffusion_of_its_modes():
    n, amount = 6, 0.1
    for axis, u in enumerate(rest(n)):
        angles = [
            np.pi * np.arange(n + 1) / n if a == axis else np.pi * np.arange(1, n + 1) / (n + 1) for a in range(3)
        ]
        mode = np.multiply.outer(np.multiply.outer(*map(np.sin, angles[:2])), np.sin(angles[2]))
        assert mode.shape == u.shape
        factor = 1 + amount * (2 * np.cos(np.pi / n) + 4 * np.cos(np.pi / (n + 1)) - 6)
        found = diffuse([mode if a == axis else v for a, v in enumerate(rest(n))], amount)
        np.testing.assert_allclose(found[axis], factor * mode, atol=1e-14)


def test_interpolation_is_exact_where_it_is_linear():
    n = 5
    places = np.random.default_rng(0).uniform(1, n - 1, (3, 4, 4, 4))
    plane = np.array([1.0, -2.0, 0.5]).reshape(3, 1, 1, 1)
    np.testing.assert_allclose(smoke_at((plane * centres(n)).sum(0), places), (plane * places).sum(0))
    u = [(plane * faces(n, axis)).sum(0) + axis for axis in range(3)]
    for axis in range(3):
        np.testing.assert_allclose(component_at(u, axis, places), (plane * places).sum(0) + axis)
    constant = [np.full(a.shape, 0.5 * axis) for axis, a in enumerate(rest(n))]
    np.testing.assert_allclose(origin(constant, places, 0.5), places - np.array([0, 0.25, 0.5]).reshape(3, 1, 1, 1))
    outside = np.full((3, 1, 1, 1), 2.0)
    outside[0] = -3.0
    assert component_at(u, 1, outside) == 0
    assert smoke_at(centres(n)[1], outside) == 2.0


def test_uniform_smoke_stays_at_rest():
    """Pressure holds its lift."""
    smoke, u = advance(np.ones((6, 6, 6)), rest(6), 0.75, 0.0, 0.5)
    np.testing.assert_allclose(smoke, 1)
    assert max(np.abs(a).max() for a in u) < 1e-13


def test_errors_are_of_first_order():
    found = []
    for n in (8, 16, 32):
        place = 8 * centres(n) / n - np.array([4, 4, 3]).reshape(3, 1, 1, 1)
        smoke, u = np.exp(-(place**2).sum(0) / 2), rest(n)
        for _ in range(n // 4):
            smoke, u = advance(smoke, u, 8 / n, 0.003, 0.5)
        while n > 8:
            smoke = sum(smoke[i::2, j::2, k::2] for i in (0, 1) for j in (0, 1) for k in (0, 1)) / 8
            n //= 2
        found.append(smoke)
    errors = [np.abs(one - two).mean() for one, two in pairwise(found)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(1, abs=0.35)
    height = (found[-1].sum((0, 1)) * (np.arange(8) + 0.5)).sum() / found[-1].sum()
    assert height > 3.1


def test_the_start():
    smoke = random_smoke(np.random.default_rng(0), 16)
    assert smoke.min() >= 0
    assert (smoke**2).mean() == pytest.approx(1)
    assert np.abs(np.diff(smoke, axis=0)).max() < 1.5


def test_its_data_set_reads_the_files(tmp_path):
    found = generate(SMOKE, tmp_path / "raw", samples=3, resolution=8)
    files = [f"smoke_{i}.npz" for i in range(3)]
    assert sorted(path.name for path in (tmp_path / "raw").iterdir()) == ["generated.json", *files]
    flows = Smoke3D(tmp_path, T_out=16)
    [test] = flows.split("test")
    wanted = sample(np.random.default_rng([0, 2]), **SMOKE.options | {"resolution": 8})
    density = np.concatenate([test.point_data["density_in"], test.point_data["density_out"]], axis=1)
    np.testing.assert_array_equal(density.T.reshape(20, 8, 8, 8, 1), wanted["fluid_field"])
    velocity = test.point_data["velocity_out"].T.numpy().reshape(16, 3, 8, 8, 8)
    np.testing.assert_array_equal(np.moveaxis(velocity, 1, -1), wanted["velocity"][4:])
    assert not wanted["velocity"][:, 0, :, :, 0].any()
    assert not wanted["velocity"][:, :, :, 0, 2].any()
    assert wanted["velocity"].dtype == wanted["fluid_field"].dtype == np.float32
    assert 0 < found["fluid_field"][0] < 1
