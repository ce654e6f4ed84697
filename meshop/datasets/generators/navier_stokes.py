"""Vorticity on the torus, as in the benchmarks of the Fourier neural operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.fft import irfft2, rfft2

from meshop.datasets.generators.generator import Array, Generator, Sample, save_mat
from meshop.io.files import whole_file


def random_field(rng: np.random.Generator, n: int, side: float = 1.0, alpha: float = 2.5, tau: float = 7.0) -> Array:
    r"""A Gaussian random field without mean on the nodes of a torus with covariance :math:`C`.

    .. math::
        C = 2\, \tau^{2 \alpha - 2} (-\Delta + \tau^2)^{-\alpha}

    Args:
        rng: of the random numbers.
        n: nodes a side.
        side: length of the torus.
        alpha: how smooth it is.
        tau: inverse length.

    Returns:
        Values at the nodes [n, n].
    """
    k1, k2 = _wave_numbers(n, side)
    deviation = np.sqrt(2) * tau ** (alpha - 1) * (k1**2 + k2**2 + tau**2) ** (-alpha / 2)
    deviation[0, 0] = 0
    return irfft2(n * deviation * rfft2(rng.standard_normal((n, n))), s=(n, n))


def solve(
    w: Array,
    times: Sequence[float],
    viscosity: float,
    force: Array | float,
    drag: float = 0.0,
    side: float = 1.0,
    dt: float = 0.02,
) -> Array:
    r"""Vorticity of an incompressible flow on a torus.

    .. math::
        \partial_t w + u \cdot \nabla w = \nu \Delta w - \gamma w + f,
        \qquad w = \nabla \times u, \quad \nabla \cdot u = 0

    Fourier modes without the third that aliases, and the classic Runge-Kutta method of fourth order with the linear
    terms integrated exactly. Axis 0 is x, axis 1 is y. The result has the precision of ``w``, float32 or float64.

    Args:
        w: vorticity at time 0 at the nodes [n, n], without mean.
        times: when it is wanted, ascending.
        viscosity: :math:`\nu`.
        force: f at the nodes.
        drag: :math:`\gamma`.
        side: length of the torus.
        dt: the longest time step; it is less where velocity asks for it.

    Returns:
        Vorticity at the times [T, n, n].
    """
    n = len(w)
    k1, k2 = _wave_numbers(n, side)
    squares = k1**2 + k2**2
    kept = (np.abs(k1) < k2.max() * 2 / 3) & (k2 < k2.max() * 2 / 3)
    stream = kept / np.where(squares == 0, 1, squares)
    decay = viscosity * squares + drag
    number = rfft2(w).dtype
    ik1, ik2, stream_1, stream_2, f, kept_f = (
        a.astype(number)
        for a in (1j * k1, 1j * k2, 1j * k1 * stream, 1j * k2 * stream, kept * rfft2(force + 0 * w), kept)
    )
    modes = kept_f * rfft2(w)

    def velocity(modes: Array) -> tuple[Array, Array]:
        return irfft2(stream_2 * modes, s=(n, n)), irfft2(-stream_1 * modes, s=(n, n))

    def slope(modes: Array) -> Array:
        u, v = velocity(modes)
        return f - kept_f * rfft2(u * irfft2(ik1 * modes, s=(n, n)) + v * irfft2(ik2 * modes, s=(n, n)))

    time, found = 0.0, []
    for end in times:
        fastest = max(float(np.abs(part).max()) for part in velocity(modes))
        limit = min(dt, 1.4 / (fastest * float(k2.max()) * 2 / 3 + 1e-12))  # half of what the method bears
        steps = int(np.ceil((end - time) / limit - 1e-9))
        h = (end - time) / max(steps, 1)
        half = np.exp(-decay * h / 2).astype(w.dtype)
        for _ in range(steps):
            modes = runge_kutta(slope, modes, half, h)
        time = end
        found.append(irfft2(modes, s=(n, n)))
    return np.stack(found)


def runge_kutta(slope: Callable[[Array], Array], modes: Array, half: Array, h: float) -> Array:
    """A step of the classic method of Runge and Kutta, with a linear term whose factor over half a step is ``half``."""
    k1 = slope(modes)
    k2 = slope(half * (modes + h / 2 * k1))
    k3 = slope(half * modes + h / 2 * k2)
    k4 = slope(half * (half * modes + h * k3))
    return half * (half * (modes + h / 6 * k1) + h / 3 * (k2 + k3)) + h / 6 * k4


def _wave_numbers(n: int, side: float) -> tuple[Array, Array]:
    """Those of ``rfft2`` [n, n // 2 + 1]."""
    scale = 2 * np.pi / side
    return tuple(np.meshgrid(scale * np.fft.fftfreq(n, 1 / n), scale * np.arange(n // 2 + 1.0), indexing="ij"))


def sample(rng: np.random.Generator, viscosity: float, frames: int, resolution: int, refine: int, dt: float) -> Sample:
    """Vorticity that starts as a random field, at times 1, 2, ...

    Args:
        rng: of the random numbers.
        viscosity: of the fluid.
        frames: how many.
        resolution: nodes a side of the result.
        refine: how many times as many the solver has.
        dt: its longest time step.
    """
    n = resolution * refine
    x, y = np.meshgrid(*[np.arange(n) / n] * 2, indexing="ij")
    force = 0.1 * (np.sin(2 * np.pi * (x + y)) + np.cos(2 * np.pi * (x + y)))
    w = random_field(rng, n).astype(np.float32)
    u = solve(w, np.arange(1.0, frames + 1).tolist(), viscosity, force.astype(np.float32), dt=dt)
    return {"a": w[::refine, ::refine], "u": np.moveaxis(u[:, ::refine, ::refine], 0, -1)}


def write_mat(out: Path, samples: Sequence[Sample], options: Mapping[str, Any]) -> dict[str, Array]:
    """A file of MATLAB 5, as that of viscosity 1e-5."""
    a, u = (np.stack([row[name] for row in samples]) for name in ("a", "u"))
    save_mat(out / "NavierStokes_V1e-5_N1200_T20.mat", a=a, u=u, t=np.arange(1.0, 1 + u.shape[-1]))
    return {"a": a, **{f"u at {t}": u[..., t - 1] for t in (1, 5, 10, 20) if t <= u.shape[-1]}}


def write_hdf5(out: Path, samples: Sequence[Sample], options: Mapping[str, Any]) -> dict[str, Array]:
    """A file of MATLAB 7.3, as that of viscosity 1e-4: HDF5 behind a block of MATLAB's own, its axes reversed."""
    import h5py

    count, n, frames = len(samples), options["resolution"], options["frames"]
    a = np.empty((count, n, n), np.float32)
    with whole_file(out / "ns_V1e-4_N10000_T30.mat") as part:
        with h5py.File(part, "w", userblock_size=512) as file:
            u = file.create_dataset("u", (frames, n, n, count), "f4", chunks=(frames, n, n, 1))
            for i, row in enumerate(samples):
                a[i] = row["a"]
                u[..., i] = row["u"].T
            file["a"], file["t"] = a.T, np.arange(1.0, frames + 1)[:, None]
        with part.open("r+b") as block:
            block.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
    return {"a": a}


OPTIONS = {"resolution": 64, "refine": 2, "dt": 0.02}
GENERATOR = Generator(partial(sample, viscosity=1e-5), write_mat, 1200, {"frames": 20} | OPTIONS)
MORE_VISCOUS = Generator(partial(sample, viscosity=1e-4), write_hdf5, 10000, {"frames": 30} | OPTIONS)
