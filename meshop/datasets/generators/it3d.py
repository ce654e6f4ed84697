"""Forced isotropic turbulence, as in FactFormer's set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.fft import irfftn, rfftn

from meshop.datasets.generators.generator import Array, Generator, Sample, save_npy
from meshop.datasets.generators.navier_stokes import runge_kutta

FORCED = 3  # the wave number up to which the flow is forced
FINEST = 50  # the wave number of the smallest eddies: it sets the viscosity
VISCOSITY = FINEST ** (-4 / 3)


class Box:
    """Fourier series on [0, 2 pi]^3 with ``n`` nodes a side, all of whose modes a product of two leaves right."""

    def __init__(self, n: int) -> None:
        self.n = n
        line = np.fft.fftfreq(n, 1 / n)
        self.k = np.stack(np.meshgrid(line, line, np.arange(n // 2 + 1.0), indexing="ij"))
        self.squares = (self.k**2).sum(0)
        self.kept = (np.abs(self.k) < n / 2).all(0)  # not the modes without a partner
        self.kept[0, 0, 0] = False
        self.low = self.squares <= FORCED**2
        self.twice = np.where((self.k[2] == 0) | (self.k[2] == n / 2), 1, 2)  # modes that stand for their partner too

    def modes(self, values: Array) -> Array:
        """Of values at nodes [..., n, n, n], in the precision of these."""
        found = rfftn(values, axes=(-3, -2, -1), norm="forward")
        return self.kept.astype(found.real.dtype) * found

    def values(self, modes: Array) -> Array:
        """At the nodes [..., n, n, n]."""
        return irfftn(modes, s=(self.n,) * 3, axes=(-3, -2, -1), norm="forward")

    def project(self, modes: Array) -> Array:
        """Take what has divergence from a vector [3, ...]."""
        k = self.k.astype(modes.real.dtype)
        along = (k * modes).sum(0) / np.where(self.squares == 0, 1, self.squares).astype(k.dtype)
        return modes - k * along

    def energy(self, modes: Array) -> float:
        """Mean of half the square of the velocity."""
        return float((self.twice * (modes * modes.conj()).real.sum(0)).sum() / 2)

    def transport(self, modes: Array) -> Array:
        r"""Modes of :math:`u \times (\nabla \times u)`, by values at half as many nodes more."""
        fine = 3 * self.n // 2
        ik = (1j * self.k).astype(modes.dtype)
        curl = np.stack([ik[a - 2] * modes[a - 1] - ik[a - 1] * modes[a - 2] for a in range(3)])
        padded = np.zeros((6, fine, fine, fine // 2 + 1), modes.dtype)
        half, low = self.n // 2, np.s_[: self.n // 2]
        for i in (low, np.s_[-half:]):
            for j in (low, np.s_[-half:]):
                padded[:3, i, j, : half + 1], padded[3:, i, j, : half + 1] = modes[:, i, j], curl[:, i, j]
        u, w = np.split(irfftn(padded, s=(fine,) * 3, axes=(1, 2, 3), norm="forward"), 2)
        product = np.stack([u[a - 2] * w[a - 1] - u[a - 1] * w[a - 2] for a in range(3)])
        found, modes = rfftn(product, axes=(1, 2, 3), norm="forward"), np.empty_like(modes)
        for i in (low, np.s_[-half:]):
            for j in (low, np.s_[-half:]):
                modes[:, i, j] = found[:, i, j, : half + 1]
        return self.kept.astype(modes.real.dtype) * modes

    def pressure(self, modes: Array) -> Array:
        """At the nodes, without mean."""
        divergence = (1j * self.k * self.transport(modes)).sum(0)
        bernoulli = self.values(-divergence / np.where(self.squares == 0, 1, self.squares))
        dynamic = (self.values(modes) ** 2).sum(0) / 2
        return bernoulli - dynamic + dynamic.mean()


def solve(u: Array, times: Sequence[float], viscosity: float, dt: float, forced: bool = True) -> Array:
    r"""Incompressible flow in the periodic box :math:`[0, 2 \pi]^3`.

    .. math::
        \partial_t u + u \cdot \nabla u = - \nabla p + \nu \Delta u + f, \qquad \nabla \cdot u = 0

    Fourier modes, their products without aliasing, and the classic Runge-Kutta method with viscosity integrated
    exactly. The force keeps the energy: after each step it scales the modes up to wave number 3.

    Args:
        u: velocity at time 0 at the nodes [3, n, n, n], without mean and divergence.
        times: when it is wanted, ascending.
        viscosity: :math:`\nu`.
        dt: the longest time step.
        forced: whether there is the force.

    Returns:
        Velocity and pressure at the times [T, 4, n, n, n].
    """
    box = Box(u.shape[-1])
    modes = box.project(box.modes(u))
    energy = box.energy(modes)
    time, found = 0.0, []
    for end in times:
        steps = int(np.ceil((end - time) / dt - 1e-9))
        h = (end - time) / steps
        half = np.exp(-viscosity * box.squares * h / 2).astype(u.dtype)
        for _ in range(steps):
            modes = runge_kutta(lambda m: box.project(box.transport(m)), modes, half, h)
            if forced:
                low = box.energy(box.low * modes)
                modes[:, box.low] *= np.sqrt((energy - (box.energy(modes) - low)) / low).astype(u.dtype)
        time = end
        found.append(np.concatenate([box.values(modes), box.pressure(modes)[None]]))
    return np.stack(found).astype(u.dtype)


def random_velocity(rng: np.random.Generator, n: int, reynolds: float) -> Array:
    r"""A velocity without divergence [3, n, n, n] of random direction and phase whose spectrum is that of turbulence.

    .. math::
        E(k) \sim k^2 \text{ to } k = 3, \text{ then } k^{-5/3}, \qquad
        \int E = \mathrm{Re}_\lambda \, (50 \nu)^2 / \sqrt{20 / 3}

    Args:
        rng: of the random numbers.
        n: nodes a side.
        reynolds: :math:`\mathrm{Re}_\lambda`, with the length of Taylor.
    """
    box = Box(n)
    modes = box.project(box.modes(rng.standard_normal((3, n, n, n))))
    k = np.sqrt(np.where(box.squares == 0, 1, box.squares)) / FORCED
    size = np.sqrt((modes * modes.conj()).real.sum(0))
    modes *= np.where(k <= 1, 1, k ** (-11 / 6)) / np.where(size == 0, 1, size)  # E(k) / k^2 is its square
    energy = reynolds * (VISCOSITY * FINEST) ** 2 / np.sqrt(20 / 3)
    return box.values(modes * np.sqrt(energy / box.energy(modes)))


def sample(rng: np.random.Generator, frames: int, resolution: int, dt: float, reynolds: float) -> Sample:
    """Velocity and pressure of turbulence from a random velocity on, 20 frames a unit of time.

    Args:
        rng: of the random numbers.
        frames: how many.
        resolution: nodes a side, an even number; 60 are published, and fewer do not resolve the smallest eddies.
        dt: the longest time step.
        reynolds: that of Taylor's length at the start.
    """
    u = random_velocity(rng, resolution, reynolds).astype(np.float32)
    found = solve(u, (np.arange(1, frames + 1) / 20).tolist(), VISCOSITY, dt)
    return dict(zip(("vx", "vy", "vz", "prs"), np.moveaxis(found, 1, 0), strict=True))


def write(out: Path, samples: Sequence[Sample], options: Mapping[str, Any]) -> dict[str, Array]:
    """A directory of four arrays for each sample."""
    found: dict[str, list[Array]] = {}
    for i, row in enumerate(samples):
        for name, values in row.items():
            save_npy(out / f"trajectory_{i:04d}" / f"{name}.npy", values)
            found.setdefault(name, []).append(values[-1])
    return {name: np.stack(values) for name, values in found.items()}


GENERATOR = Generator(sample, write, 1100, {"frames": 20, "resolution": 32, "dt": 5e-3, "reynolds": 84.0})
