"""Smoke that rises in a closed box, as in FactFormer's set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.fft import dctn, fftn, idctn, ifftn
from scipy.ndimage import map_coordinates

from meshop.datasets.generators.generator import Array, Generator, Sample
from meshop.io.files import whole_file

SIDE = 8.0
SKIPPED = 8  # frames
Velocity = list[Array]
"""Component a at the faces across axis a, those of the walls included: [n + 1, n, n], [n, n + 1, n], [n, n, n + 1]."""


def centres(n: int) -> Array:
    """Of the cells, in cells [3, n, n, n]."""
    return np.stack(np.meshgrid(*[np.arange(n) + 0.5] * 3, indexing="ij"))


def faces(n: int, axis: int) -> Array:
    """Across an axis, in cells [3, ...]: the places of a component of the velocity."""
    lines = [np.arange(n + 1.0) if a == axis else np.arange(n) + 0.5 for a in range(3)]
    return np.stack(np.meshgrid(*lines, indexing="ij"))


def smoke_at(smoke: Array, places: Array) -> Array:
    """Linear between centres of cells, constant beyond."""
    return map_coordinates(smoke, places - 0.5, order=1, mode="nearest")


def component_at(u: Velocity, axis: int, places: Array) -> Array:
    """Linear between faces, towards zero beyond: the walls hold the fluid."""
    shift = np.array([0.0 if a == axis else 0.5 for a in range(3)])
    return map_coordinates(u[axis], places - shift.reshape(3, 1, 1, 1), order=1, mode="grid-constant", cval=0.0)


def origin(u: Velocity, places: Array, dt: float) -> Array:
    """Where what is at places, in cells, has been a time step ago, by the velocity in cells a unit of time."""
    return places - dt * np.stack([component_at(u, axis, places) for axis in range(3)])


def diffuse(u: Velocity, amount: float) -> Velocity:
    """Add ``amount`` of the difference to neighbours, which are zero beyond the walls."""
    found = []
    for axis, a in enumerate(u):
        padded = np.pad(a, 1)
        inner = np.s_[1:-1]
        around = -6 * a
        for d in range(3):
            for side in (np.s_[:-2], np.s_[2:]):
                around = around + padded[tuple(side if e == d else inner for e in range(3))]
        new = a + amount * around
        _close(new, axis)
        found.append(new)
    return found


def project(u: Velocity) -> Velocity:
    """The closest velocity without divergence in a closed box, by a cosine transform."""
    n = u[0].shape[1]
    divergence = sum(np.diff(a, axis=axis) for axis, a in enumerate(u))
    values = 2 * np.cos(np.pi * np.arange(n) / n) - 2  # of the second difference with Neumann conditions
    total = values[:, None, None] + values[:, None] + values
    total[0, 0, 0] = 1
    pressure = idctn(dctn(divergence) / total)
    found = []
    for axis, a in enumerate(u):
        new = a.copy()
        new[tuple(np.s_[1:-1] if d == axis else np.s_[:] for d in range(3))] -= np.diff(pressure, axis=axis)
        found.append(new)
    return found


def advance(smoke: Array, u: Velocity, dt: float, viscosity: float, buoyancy: float) -> tuple[Array, Velocity]:
    r"""A time step of smoke that drives the air which carries it.

    .. math::
        \partial_t u + u \cdot \nabla u = - \nabla p + \nu \Delta u + b\, d\, e_z, \qquad
        \partial_t d + u \cdot \nabla d = 0, \qquad \nabla \cdot u = 0

    The steps of the authors' solver, all of first order: smoke and velocity from where they have been, linear between
    the nodes of a staggered grid; lift by the new smoke; explicit diffusion; projection.

    Args:
        smoke: d at the centres of cells [n, n, n].
        u: velocity at the faces.
        dt: time step.
        viscosity: :math:`\nu`.
        buoyancy: b.
    """
    n = len(smoke)
    spacing = SIDE / n
    rate = [a / spacing for a in u]
    smoke = smoke_at(smoke, origin(rate, centres(n), dt))
    moved = [component_at(u, axis, origin(rate, faces(n, axis), dt)) for axis in range(3)]
    moved[2] = moved[2] + dt * buoyancy * smoke_at(smoke, faces(n, 2))
    for axis, a in enumerate(moved):
        _close(a, axis)
    return smoke, project(diffuse(moved, dt * viscosity / spacing**2))


def _close(a: Array, axis: int) -> None:
    """No flow through the walls."""
    a[tuple(np.s_[:: a.shape[axis] - 1] if d == axis else np.s_[:] for d in range(3))] = 0


def random_smoke(rng: np.random.Generator, n: int) -> Array:
    """The magnitude of periodic noise without mean, of deviation 1, whose modes fall off as the eighth power."""
    k = np.fft.fftfreq(n, 1 / n)
    squares = k[:, None, None] ** 2 + k[:, None] ** 2 + k**2
    squares[0, 0, 0] = np.inf
    noise = ifftn(fftn(rng.standard_normal((n, n, n))) / squares**4).real
    return np.abs(noise / noise.std())


def sample(
    rng: np.random.Generator, frames: int, resolution: int, dt: float, viscosity: float, buoyancy: float
) -> Sample:
    """Smoke and velocity, from noise and from rest, after the first 8 steps.

    Args:
        rng: of the random numbers.
        frames: how many.
        resolution: cells a side; 64 are published.
        dt: time step and distance of the frames.
        viscosity: of the air.
        buoyancy: lift of smoke.
    """
    n = resolution
    smoke, u = random_smoke(rng, n), [np.zeros(faces(n, axis).shape[1:]) for axis in range(3)]
    fluid_field, velocity = [], []
    for count in range(SKIPPED + frames):
        smoke, u = advance(smoke, u, dt, viscosity, buoyancy)
        if count >= SKIPPED:
            fluid_field.append(smoke[..., None])
            velocity.append(np.stack([a[:n, :n, :n] for a in u], axis=-1))
    return {name: np.stack(v).astype(np.float32) for name, v in (("fluid_field", fluid_field), ("velocity", velocity))}


def write(out: Path, samples: Sequence[Sample], options: Mapping[str, Any]) -> dict[str, Array]:
    """A file for each sample."""
    found: dict[str, list[Array]] = {}
    for i, row in enumerate(samples):
        with whole_file(out / f"smoke_{i}.npz") as part, part.open("wb") as file:
            np.savez(file, **row)  # type: ignore[arg-type]  # its stub takes the names for its own flag
        for name, values in row.items():
            found.setdefault(name, []).append(values[-1])
    return {name: np.stack(values) for name, values in found.items()}


OPTIONS = {"frames": 20, "resolution": 32, "dt": 0.75, "viscosity": 0.003, "buoyancy": 0.5}
GENERATOR = Generator(sample, write, 2200, OPTIONS)
