"""Kolmogorov flow, as in FactFormer's set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from meshop.datasets.generators.generator import Array, Generator, Sample
from meshop.datasets.generators.navier_stokes import random_field, solve
from meshop.io.files import whole_file

SIDE = 2 * np.pi
RATE = 32


def sample(
    rng: np.random.Generator, frames: int, resolution: int, refine: int, warmup: float, reynolds: float, dt: float
) -> Sample:
    """Vorticity driven by -8 cos 8y, 32 frames a unit of time.

    Args:
        rng: of the random numbers.
        frames: how many.
        resolution: nodes a side of the result; 256 are published.
        refine: how many times as many the solver has; 8 in the published set.
        warmup: time from the random field to where the frames begin.
        reynolds: one over the viscosity.
        dt: the longest time step of the solver.
    """
    n = resolution * refine
    w = random_field(rng, n, SIDE).astype(np.float32)
    force = np.broadcast_to(-8 * np.cos(8 * SIDE * np.arange(n) / n), (n, n)).astype(np.float32)
    times = warmup + np.arange(1, frames + 1) / RATE
    found = solve(w, times.tolist(), 1 / reynolds, force, drag=0.1, side=SIDE, dt=dt)
    return {"vorticity": found[:, ::refine, ::refine]}


def write(out: Path, samples: Sequence[Sample], options: Mapping[str, Any]) -> dict[str, Array]:
    """One array of all trajectories."""
    shape = (len(samples), options["frames"], options["resolution"], options["resolution"])
    with whole_file(out / "kf_2d_re1000_256_120seed.npy") as part:
        array = np.lib.format.open_memmap(part, "w+", np.float32, shape)
        for i, row in enumerate(samples):
            array[i] = row["vorticity"]
        last = np.array(array[:, -1])
        array.flush()
    return {"last vorticity": last}


OPTIONS = {"frames": 320, "resolution": 64, "refine": 2, "warmup": 2.0, "reynolds": 1000.0, "dt": 5e-3}
GENERATOR = Generator(sample, write, 120, OPTIONS)
