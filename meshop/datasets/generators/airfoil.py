"""Transonic flow over airfoils, as in the benchmark of Geo-FNO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from meshop.data import InputError
from meshop.datasets.generators.generator import Array, Generator, Sample, save_npy
from meshop.datasets.generators.heat_flow import factors

GAMMA = 1.4
FAR, TRAIL = 40.0, 40.0  # the far field's distance, and where the wake ends
WAKE, AROUND, OUTWARD = 50, 120, 50  # cells


def grid(theta: Array, coarse: int = 1) -> Array:
    r"""A C-grid about a NACA 0012 airfoil that is bent.

    A point of the airfoil moves upwards by

    .. math::
        \sum_{a=0}^3 \sum_{b=0}^1 \theta_{4 b + a} B_a(s) L_b(t), \qquad
        s = \frac{x + 0.25}{1.5}, \quad t = \frac{y + 0.1}{0.2}

    with Bernstein's cubics and, in t, linear functions. The line of the wake leaves the trailing edge level.

    Args:
        theta: displacements [8].
        coarse: 2 takes half as many cells each way, and so on.

    Returns:
        Nodes [221, 51, 2]: from below the end of the wake around the airfoil to above it, and outwards.
    """
    s = np.linspace(0, 1, AROUND // coarse // 2 + 1)
    x = 1 - np.cos(np.pi / 2 * s)
    y = 0.6 * (0.2969 * np.sqrt(x) - 0.126 * x - 0.3516 * x**2 + 0.2843 * x**3 - 0.1036 * x**4)
    airfoil = np.stack([np.r_[x[:0:-1], x], np.r_[-y[:0:-1], y]], axis=-1)
    along, up = (airfoil[:, 0] + 0.25) / 1.5, (airfoil[:, 1] + 0.1) / 0.2
    cubics = np.stack([c * along**a * (1 - along) ** (3 - a) for a, c in enumerate((1, 3, 3, 1))])
    airfoil[:, 1] += theta[:4] @ cubics * (1 - up) + theta[4:] @ cubics * up

    wake = _graded(airfoil[-1, 0] - airfoil[-2, 0], TRAIL - 1, WAKE // coarse)[1:]
    behind = np.stack([1 + wake, np.full(len(wake), airfoil[-1, 1])], axis=-1)
    inner = np.concatenate([behind[::-1], airfoil, behind])
    angle = np.pi * (1.5 - np.linspace(0, 1, AROUND // coarse + 1))  # clockwise, from below
    circle = np.stack([1 + FAR * np.cos(angle), FAR * np.sin(angle)], axis=-1)
    below, above = (np.stack([1 + wake, np.full(len(wake), side * FAR)], axis=-1) for side in (-1, 1))
    outer = np.concatenate([below[::-1], circle, above])
    share = _graded(coarse * 2 / AROUND, FAR, OUTWARD // coarse)[:, None] / FAR
    return inner[:, None] * (1 - share) + outer[:, None] * share


def _graded(first: float, length: float, cells: int) -> Array:
    """Places from 0 to a length whose distances grow by a constant factor from the first on [cells + 1]."""
    from scipy.optimize import brentq

    factor = brentq(lambda q: first * (q**cells - 1) / (q - 1) - length, 1 + 1e-6, 100)
    return first * (factor ** np.arange(cells + 1) - 1) / (factor - 1)


@dataclass(frozen=True)
class Cells:
    """The cells of a grid and the sides between them.

    Args:
        stencil: the cells two before, before, behind and two behind each side [4, F]. Numbers from N, that of the
            cells, on stand for G places outside, and those from N + G on for what is extrapolated beyond the wall.
        normal: times the length, from before to behind [2, F].
        wall: cells before each side on the wall, and the next ones [2, W].
        wall_normal: times the length, out of the fluid [2, W].
        area: of the cells [N].
        centre: of the cells and of the places outside [N + G, 2].
    """

    stencil: Array
    normal: Array
    wall: Array
    wall_normal: Array
    area: Array
    centre: Array


def cells_of(nodes: Array, wake: int) -> Cells:
    """Those of a grid of nodes with ``wake`` cells at each end of j = 0 that touch each other and a wall between."""
    n1, n2 = (n - 1 for n in nodes.shape[:2])
    number = np.full((n1 + 4, n2 + 2), -1)  # two places outside on three sides
    number[2:-2, :-2] = np.arange(n1 * n2).reshape(n1, n2)
    outside = number < 0
    outside[:2, n2:] = outside[-2:, n2:] = False
    number[outside] = n1 * n2 + np.arange(outside.sum())
    centre = (nodes[1:, 1:] + nodes[:-1, :-1] + nodes[1:, :-1] + nodes[:-1, 1:]) / 4
    for _ in range(2):
        first, last = 2 * centre[:1] - centre[1:2], 2 * centre[-1:] - centre[-2:-1]
        centre = np.concatenate([first, centre, last])
    for _ in range(2):
        centre = np.concatenate([centre, 2 * centre[:, -1:] - centre[:, -2:-1]], axis=1)

    inner, walls = number[2:-2, :-2], np.arange(wake, n1 - wake)
    below = np.stack([inner[::-1, 1], inner[::-1, 0]], axis=1)  # of the wake: its other half
    below[walls, 1] = n1 * n2 + outside.sum() + np.arange(len(walls))
    line = np.concatenate([below, number[2:-2]], axis=1)
    along = np.stack([number[k : n1 + 1 + k, :-2].ravel() for k in range(4)])
    outward = np.stack([line[:, k : n2 + 1 + k] for k in range(4)])
    step_1, step_2 = np.diff(nodes, axis=1), np.diff(nodes, axis=0)
    normal_1 = np.stack([step_1[..., 1], -step_1[..., 0]]).reshape(2, -1)
    normal_2 = np.stack([-step_2[..., 1], step_2[..., 0]])
    inside = np.ones((n1, n2 + 1), bool)
    inside[walls, 0] = inside[n1 - wake :, 0] = False  # the sides of the wake are counted once
    one, two = nodes[1:, 1:] - nodes[:-1, :-1], nodes[:-1, 1:] - nodes[1:, :-1]  # diagonals
    return Cells(
        np.concatenate([along, outward[:, inside]], axis=1),
        np.concatenate([normal_1, normal_2[:, inside]], axis=1),
        inner[walls, :2].T,
        -normal_2[:, walls, 0],
        ((one[..., 0] * two[..., 1] - one[..., 1] * two[..., 0]) / 2).ravel(),
        np.concatenate([centre[2:-2, :-2].reshape(-1, 2), centre[outside]]),
    )


def primitive(w: Array) -> Array:
    """Density, velocity and pressure of density, momentum and energy [4, ...]."""
    rho, mx, my, energy = w
    u, v = mx / rho, my / rho
    return np.stack([rho, u, v, (GAMMA - 1) * (energy - rho * (u**2 + v**2) / 2)])


def conserved(q: Array) -> Array:
    """Density, momentum and energy of density, velocity and pressure [4, ...]."""
    rho, u, v, p = q
    return np.stack([rho, rho * u, rho * v, p / (GAMMA - 1) + rho * (u**2 + v**2) / 2])


def roe_flux(left: Array, right: Array, normal: Array) -> Array:
    """Roe's flux between density, velocity and pressure of two sides [4, F], through normals [2, F] times length."""
    length = np.sqrt((normal**2).sum(0))
    nx, ny = normal / length
    fluxes, roots, enthalpies = [], [], []
    for rho, u, v, p in (left, right):
        across = u * nx + v * ny
        enthalpy = GAMMA / (GAMMA - 1) * p / rho + (u**2 + v**2) / 2
        mass = rho * across
        fluxes.append(np.stack([mass, mass * u + p * nx, mass * v + p * ny, mass * enthalpy]))
        roots.append(np.sqrt(rho))
        enthalpies.append(enthalpy)
    weight = roots[1] / (roots[0] + roots[1])
    u, v, enthalpy = (
        a + weight * (b - a) for a, b in ((left[1], right[1]), (left[2], right[2]), (enthalpies[0], enthalpies[1]))
    )
    rho, across = roots[0] * roots[1], u * nx + v * ny
    c = np.sqrt((GAMMA - 1) * (enthalpy - (u**2 + v**2) / 2))
    d_rho, d_u, d_v, d_p = right - left
    d_across = d_u * nx + d_v * ny
    slow, plus, minus = np.abs(across), np.abs(across + c), np.abs(across - c)
    least = 0.1 * c  # no jump of expansion
    plus, minus = (np.where(a < least, (a**2 / least + least) / 2, a) for a in (plus, minus))
    one, two = (d_p + rho * c * d_across) / (2 * c**2) * plus, (d_p - rho * c * d_across) / (2 * c**2) * minus
    entropy, shear = slow * (d_rho - d_p / c**2), slow * rho
    jump_x, jump_y = d_u - d_across * nx, d_v - d_across * ny
    speed = (u**2 + v**2) / 2
    total = one + two + entropy
    spread = np.stack(
        [
            total,
            u * total + c * nx * (one - two) + shear * jump_x,
            v * total + c * ny * (one - two) + shear * jump_y,
            enthalpy * (one + two) + c * across * (one - two) + speed * entropy + shear * (u * jump_x + v * jump_y),
        ]
    )
    return length / 2 * (fluxes[0] + fluxes[1] - spread)


class Flow:
    r"""Steady flow of a perfect gas without viscosity.

    .. math::
        \nabla \cdot (\rho u) = 0, \qquad \nabla \cdot (\rho u \otimes u + p I) = 0, \qquad
        \nabla \cdot \bigl( (E + p) u \bigr) = 0, \qquad p = (\gamma - 1) (E - \rho |u|^2 / 2)

    Finite volumes: Roe's flux between density, velocity and pressure that are linear along the lines of the grid, with
    the limiter of van Albada; on the wall, pressure alone. Second order where there are no shocks.

    Args:
        cells: of the grid.
        outside: density, velocity and pressure at the places outside [4, G].
    """

    def __init__(self, cells: Cells, outside: Array) -> None:
        self.cells = cells
        self.outside = outside
        self.count = len(cells.area)
        before, behind = cells.stencil[1:3]
        sides, walls = np.arange(len(before)), np.arange(cells.wall.shape[1])
        inner = behind < self.count
        first = before < self.count
        rows = np.concatenate([before[first], behind[inner], cells.wall[0]])
        columns = np.concatenate([sides[first], sides[inner], len(sides) + walls])
        signs = np.concatenate([np.ones(first.sum()), -np.ones(inner.sum()), np.ones(len(walls))])
        self.gather = csr_array((signs, (rows, columns)), shape=(self.count, len(sides) + len(walls)))

    def residual(self, w: Array) -> Array:
        """What flows out of each cell of density, momentum and energy [4, N]."""
        q = primitive(w)
        first, second = q[:, self.cells.wall[0]], q[:, self.cells.wall[1]]
        q = np.concatenate([q, self.outside, 2 * first - second], axis=1)
        a, b, c, d = (q[:, places] for places in self.cells.stencil)
        flux = roe_flux(b + _slope(b - a, c - b) / 2, c - _slope(c - b, d - c) / 2, self.cells.normal)
        pressure = 1.5 * first[3] - 0.5 * second[3]
        wall = np.zeros((4, len(pressure)))
        wall[1:3] = pressure * self.cells.wall_normal
        return (self.gather @ np.concatenate([flux, wall], axis=1).T).T

    def matrix(self, w: Array, courant: float) -> Any:
        """How the residual changes with the flow, were it of first order in space, and the time step's share of it."""
        both = np.concatenate([w, conserved(self.outside)], axis=1)
        before, behind = self.cells.stencil[1:3]
        left, right = both[:, before], both[:, behind]
        speed = np.maximum(_speed(left, self.cells.normal), _speed(right, self.cells.normal))
        eye = np.eye(4) * speed[:, None, None]
        from_left = (_slope_of_flux(left, self.cells.normal) + eye) / 2
        from_right = (_slope_of_flux(right, self.cells.normal) - eye) / 2
        wall = self.cells.wall[0]
        _, u, v, _ = primitive(w[:, wall])
        gain = (GAMMA - 1) * np.stack([(u**2 + v**2) / 2, -u, -v, np.ones_like(u)], axis=1)  # of the pressure
        from_wall = np.zeros((len(wall), 4, 4))
        from_wall[:, 1:3] = self.cells.wall_normal.T[:, :, None] * gain[:, None]
        every = np.arange(self.count)
        around = abs(self.gather)[:, : len(speed)] @ speed
        entries = (
            (before, before, from_left),
            (before, behind, from_right),
            (behind, before, -from_left),
            (behind, behind, -from_right),
            (wall, wall, from_wall),
            (every, every, np.eye(4) * (around / courant)[:, None, None]),
        )
        rows, columns, blocks = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        own = (rows < self.count) & (columns < self.count)
        rows, columns, blocks = rows[own], columns[own], blocks[own]
        four = np.arange(4)
        i, j = np.broadcast_arrays(4 * rows[:, None, None] + four[:, None], 4 * columns[:, None, None] + four)
        return csr_array((blocks.ravel(), (i.ravel(), j.ravel())), shape=(4 * self.count,) * 2)


def _slope(a: Array, b: Array) -> Array:
    """Of two differences, with the limiter of van Albada."""
    small = 1e-6  # squares of differences that are none
    return (a * (b**2 + small) + b * (a**2 + small)) / (a**2 + b**2 + 2 * small)


def _speed(w: Array, normal: Array) -> Array:
    rho, u, v, p = primitive(w)
    return np.abs(u * normal[0] + v * normal[1]) + np.sqrt(GAMMA * p / rho * (normal**2).sum(0))


def _slope_of_flux(w: Array, normal: Array) -> Array:
    """How the flux changes with density, momentum and energy [F, 4, 4]."""
    rho, u, v, p = primitive(w)
    (nx, ny), g, zero = normal, GAMMA - 1, 0 * u
    across, half = u * nx + v * ny, g * (u**2 + v**2) / 2
    enthalpy = (w[3] + p) / rho
    rows = (
        (zero, nx, ny, zero),
        (half * nx - u * across, across + (1 - g) * u * nx, u * ny - g * v * nx, g * nx),
        (half * ny - v * across, v * nx - g * u * ny, across + (1 - g) * v * ny, g * ny),
        (across * (half - enthalpy), enthalpy * nx - g * u * across, enthalpy * ny - g * v * across, GAMMA * across),
    )
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def solve(flow: Flow, w: Array, steps: int, tolerance: float = 1e-8) -> Array:
    """Let a flow become steady.

    Each step solves with the matrix of a method of first order, which is made anew every tenth time, and with a time
    step that grows.

    Args:
        flow: its equations.
        w: density, momentum and energy to start from [4, N].
        steps: how many it may take.
        tolerance: of what flows out of the cells, relative to the start, where it ends.

    Returns:
        Density, momentum and energy [4, N].

    Raises:
        InputError: that has not fallen to a tenth.
    """
    courant, start, now = 10.0, 0.0, 0.0
    for step in range(steps):
        residual = flow.residual(w)
        now = float(np.sqrt((residual[0] ** 2).mean()))
        start = start or now
        if now <= tolerance * start:
            return w
        if step % 10 == 0:
            lu = factors(flow.matrix(w, courant))
        change = -lu.solve(residual.T.ravel()).reshape(-1, 4).T
        rho, u, v, p = primitive(w)
        d_p = (GAMMA - 1) * (change[3] - u * change[1] - v * change[2] + (u**2 + v**2) / 2 * change[0])
        share = min(1.0, 0.3 / max(np.abs(change[0] / rho).max(), np.abs(d_p / p).max()))
        w = w + share * change
        if share == 1:
            courant = min(1.3 * courant, 1e4)
    if now > start / 10:
        raise InputError(f"Expected the flow to become steady in {steps} steps (it changes {now / start:.2g} as fast)")
    return w


def sample(rng: np.random.Generator, steps: int, coarse: int) -> Sample:
    """Flow at Mach 0.8 about an airfoil that 7 random displacements bend by up to 0.05.

    Args:
        rng: of the random numbers.
        steps: of the solver; before, it takes as many on half the cells each way.
        coarse: 1 for the published grid, 5 for a fifth of its cells each way.
    """
    theta = np.r_[0, rng.uniform(-0.05, 0.05, 7)]
    nodes, q = fly(theta, steps, coarse)
    mach = np.sqrt((q[1] ** 2 + q[2] ** 2) * q[0] / (GAMMA * q[3]))
    return {"X": nodes[..., 0], "Y": nodes[..., 1], "Q": np.stack([*q, mach])}


def fly(theta: Array, steps: int, coarse: int = 1) -> tuple[Array, Array]:
    """Nodes of the grid about an airfoil [n1, n2, 2], and density, velocity and pressure there [4, n1, n2]."""
    far = np.array([1.0, 0.8 * np.sqrt(GAMMA), 0.0, 1.0])
    w = conserved(far)[:, None, None] * np.ones((1, 1, 1))
    for level in (2 * coarse, coarse):
        nodes, wake = grid(theta, level), WAKE // level
        cells = cells_of(nodes, wake)
        flow = Flow(cells, np.repeat(far[:, None], len(cells.centre) - len(cells.area), axis=1))
        shape = tuple(n - 1 for n in nodes.shape[:2])
        for axis in (1, 2):
            w = np.repeat(w, shape[axis - 1] // w.shape[axis], axis=axis)
        w = solve(flow, w.reshape(4, -1), steps).reshape(4, *shape)

    q = primitive(w)
    below = 2 * q[:, :, 0] - q[:, :, 1]
    below[:, :wake], below[:, -wake:] = q[:, : -wake - 1 : -1, 0], q[:, wake - 1 :: -1, 0]
    q = np.concatenate([below[:, :, None], q, q[:, :, -1:]], axis=2)
    q = np.concatenate([q[:, :1], q, q[:, -1:]], axis=1)
    return nodes, (q[:, 1:, 1:] + q[:, :-1, 1:] + q[:, 1:, :-1] + q[:, :-1, :-1]) / 4


def write(out: Path, samples: Sequence[Sample], options: Mapping[str, Any]) -> dict[str, Array]:
    """An array of all samples for each of X, Y and Q."""
    arrays = {name: np.stack([row[name] for row in samples]) for name in ("X", "Y", "Q")}
    for name, array in arrays.items():
        save_npy(out / f"NACA_Cylinder_{name}.npy", array)
    return dict(zip(("rho", "u", "v", "p", "mach"), np.moveaxis(arrays["Q"], 1, 0), strict=True))


GENERATOR = Generator(sample, write, 2490, {"steps": 120, "coarse": 1})
