"""A block forged by a rigid die, in the layout of Geo-FNO's set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from meshop.data import InputError
from meshop.datasets.generators.generator import Array, Generator, Sample, save_mat

# In mm, ms and g, thus N and MPa. Vectors in the plane are complex numbers, x + iy.
LENGTH, HEIGHT, CORNER = 50.0, 15.0, 0.35 + 14.9j
YOUNG, POISSON, YIELD, DENSITY = 200e3, 0.3, 70.0, 7.85e-3
SPEED, DURATION, FRAMES, KNOTS = 3.0, 2.0, 20, 6

# The stiffness in plane stress against a change of area, and of shape.
AREAL, SHEAR = YOUNG / (1 - POISSON), YOUNG / (1 + POISSON)
GAUSS = 0.5 - 0.5 / np.sqrt(3), 0.5 + 0.5 / np.sqrt(3)
SAFETY, WEIGHINGS = 0.9, 40  # the share of the stable step; how often masses are found between two times


def grid(cells: Sequence[int]) -> Array:
    """The nodes of the block at rest [I + 1, J + 1]: i leads to the left and j downwards, both from the right corner
    under the die."""
    i, j = np.mgrid[: cells[0] + 1, : cells[1] + 1]
    return CORNER - LENGTH / cells[0] * i - 1j * HEIGHT / cells[1] * j


def slopes(values: Array) -> tuple[Array, Array]:
    """Derivatives of a bilinear function at the 2 x 2 points of Gauss in each cell, a unit square of its own.

    Args:
        values: at the nodes [I + 1, J + 1].

    Returns:
        Those along i, the same at both points along i [1, 2, I, J], and those along j [2, 1, I, J].
    """
    along, across = np.diff(values, axis=0), np.diff(values, axis=1)
    first = np.stack([(1 - g) * along[:, :-1] + g * along[:, 1:] for g in GAUSS])
    second = np.stack([(1 - g) * across[:-1] + g * across[1:] for g in GAUSS])
    return first[None], second[:, None]


def gather(first: Array, second: Array) -> Array:
    """The transpose of :func:`slopes`: from the points [2, 2, I, J] to the nodes [I + 1, J + 1]."""
    (a, b), (c, d) = first[0] + first[1], second[:, 0] + second[:, 1]
    near, far = GAUSS
    along = np.zeros((a.shape[0], a.shape[1] + 1), a.dtype)
    along[:, :-1] = far * a + near * b
    along[:, 1:] += near * a + far * b
    across = np.zeros((a.shape[0] + 1, a.shape[1]), a.dtype)
    across[:-1] = far * c + near * d
    across[1:] += near * c + far * d
    out = np.zeros((a.shape[0] + 1, a.shape[1] + 1), a.dtype)
    out[1:] += along
    out[:-1] -= along
    out[:, 1:] += across
    out[:, :-1] -= across
    return out


def spread(amounts: Array) -> Array:
    """Divide what is at the points [2, 2, I, J] among the nodes of their cells [I + 1, J + 1]."""
    out = np.zeros((amounts.shape[2] + 1, amounts.shape[3] + 1))
    for a, g in enumerate(GAUSS):
        for b, h in enumerate(GAUSS):
            out[:-1, :-1] += (1 - g) * (1 - h) * amounts[a, b]
            out[1:, :-1] += g * (1 - h) * amounts[a, b]
            out[:-1, 1:] += (1 - g) * h * amounts[a, b]
            out[1:, 1:] += g * h * amounts[a, b]
    return out


def area(first: Array, second: Array) -> Array:
    """That of the parallelogram between two vectors."""
    return (first.conj() * second).imag


def yielding(mean: Array, deviator: Array) -> tuple[Array, Array]:
    r"""Stress in plane stress, brought back to Von Mises's limit along the elastic normal where it is beyond.

    .. math::
        f = m^2 + 3 |d|^2 - \sigma_Y^2 \le 0, \qquad
        m = (\sigma_{xx} + \sigma_{yy}) / 2, \qquad d = (\sigma_{xx} - \sigma_{yy}) / 2 + i \sigma_{xy}

    Plastic strain is along the derivatives of f, so that the one that is sought is m / (1 + x) and
    d / (1 + 3 SHEAR / AREAL x), where x is a number: Newton's method for the reciprocal of Von Mises's stress, which is
    concave in x and nearly linear.

    Args:
        mean: m [...].
        deviator: d [...].

    Returns:
        Both, where f <= 0 up to rounding.
    """
    mean, deviator = mean.copy(), deviator.copy()
    a, b = mean.ravel() ** 2, 3 * (deviator.real**2 + deviator.imag**2).ravel()
    beyond = np.flatnonzero(a + b > YIELD**2)
    a, b = a[beyond], b[beyond]
    x, ratio = np.zeros_like(a), 3 * SHEAR / AREAL
    one = two = np.ones_like(a)
    f, g = a, b
    while (f + g).max(initial=0) > YIELD**2 * (1 + 1e-9):
        x += (np.sqrt(f + g) / YIELD - 1) * (f + g) / (f * one + ratio * g * two)
        one, two = 1 / (1 + x), 1 / (1 + ratio * x)
        f, g = a * one**2, b * two**2
    mean.ravel()[beyond] *= one
    deviator.ravel()[beyond] *= two
    return mean, deviator


class Block:
    r"""A plate of unit thickness in plane stress, elastic and perfectly plastic, at any strain.

    .. math::
        \rho\, \dot v = \nabla \cdot \sigma, \qquad
        \overset{\circ}{\sigma} = C : (D - D_p), \qquad D_p = \lambda\, \partial_\sigma f, \qquad f \le 0

    D is the symmetric part of the gradient of velocity, the rate of stress is that of Jaumann, f is as in
    :func:`yielding`. Bilinear quads with 2 x 2 points each, whose modes all have energy, so that nothing holds back
    hourglasses; plane stress does not lock, as the plate gets thicker where its area shrinks. Time advances by central
    differences. A step takes strain and spin in its middle, where a rotation strains nothing, and turns stress by the
    angle (Hughes and Winget, 1980).

    Mass is scaled: a cell weighs as much as is stable with the time step, but no less than its density says.

    Args:
        points: the nodes at rest [I + 1, J + 1].
        dt: time step.
    """

    def __init__(self, points: Array, dt: float) -> None:
        self.points, self.dt = points, dt
        self.slopes = slopes(points)
        self.area = area(*self.slopes) / 4
        self.velocity, self.force = np.zeros_like(points), np.zeros_like(points)
        self.mean, self.deviator = np.zeros_like(self.area), np.zeros_like(self.area, complex)
        self.weigh()

    def weigh(self) -> None:
        """Find the masses, from the least width of each cell now."""
        first, second = self.slopes
        size = first.real**2 + first.imag**2 + second.real**2 + second.imag**2
        det = area(first, second)
        square = 2 * det**2 / (size + np.sqrt(np.maximum(size**2 - 4 * det**2, 0)))  # of the lesser singular value
        self.mass = spread(np.maximum(DENSITY, AREAL * (self.dt / SAFETY) ** 2 / square) * self.area)

    def step(self, place: Callable[[Array], Array]) -> Array:
        """Advance by a step.

        Args:
            place: from where nodes would go freely, where they go.

        Returns:
            The forces that this takes.
        """
        freely = self.points + self.dt * (self.velocity + self.dt * self.force / self.mass)
        points = place(freely)
        self.velocity = (points - self.points) / self.dt
        self.points = points
        self._deform()
        return self.mass * (points - freely) / self.dt**2

    def _deform(self) -> None:
        a, b = slopes(self.points)
        (da, ma), (db, mb) = ((new - old, (new + old) / 2) for old, new in zip(self.slopes, (a, b), strict=True))
        # a displacement is (half the trace of strain + i spin) dz + (deviator of strain) conj dz
        inverse = 0.5j / area(ma, mb)
        turn = (da * mb.conj() - db * ma.conj()) * inverse
        shear = (db * ma - da * mb) * inverse
        half = 1 + 0.5j * turn.imag
        rotation = (half / half.conj()) ** 2
        mean, deviator = yielding(self.mean + AREAL * turn.real, self.deviator * rotation + SHEAR * shear)
        self.slopes, self.mean, self.deviator = (a, b), mean, deviator
        # volume, which stress changes a little, over area
        thickness = self.area * (1 + 2 * (1 - 2 * POISSON) / YOUNG * mean) / area(a, b)
        mean, deviator = mean * thickness, deviator * thickness
        self.force = 1j * gather(mean * b - deviator * b.conj(), deviator * a.conj() - mean * a)


def profile(heights: Array) -> CubicSpline:
    """The face of a die above the block's upper side, in mm over x: a cubic spline through heights at equal distances
    from the left end to the right one, level at both, so low that it touches the block."""
    x = np.linspace(CORNER.real - LENGTH, CORNER.real, len(heights))
    lowest = CubicSpline(x, heights, bc_type="clamped")(np.linspace(x[0], x[-1], 1001)).min()
    return CubicSpline(x, heights - lowest, bc_type="clamped")


def press(points: Array, rest: Array, face: CubicSpline, depth: float) -> Array:
    """Move nodes out of the die and of the table, without friction; the lower side stays where it was at rest.

    The die has come down by ``depth`` and goes on level beyond the ends of the block; a node in it leaves along its
    normal. The table lies at the level of the lower side and goes on beyond it: without one, what bulges out at the
    sides would fold under the block.
    """
    out = points.copy()
    upper = out[:, 0]
    x = np.clip(upper.real, face.x[0], face.x[-1])
    inside = np.maximum(upper.imag - (CORNER.imag + face(x) - depth), 0)
    slope = face(x, 1)
    out[:, 0] += inside / (1 + slope**2) * (slope - 1j)
    np.maximum(out.imag, rest[0, -1].imag, out=out.imag)
    out[:, -1] = rest[:, -1]
    return out


def forge(face: CubicSpline, cells: Sequence[int], steps: int) -> Array:
    """The nodes of the block at equal times from 0 to 2 ms, the first of them at rest [20, I + 1, J + 1].

    Measured on one die, as relative L2 of displacement over all times from that on 100 x 30 cells with the mass of the
    density: 6.5 % on 20 x 6 cells and 1.7 % on 50 x 15, both with that mass; 21 % on 100 x 30 with 64 times the mass
    (180 steps), 4.9 % with 16 times (360) and 1.1 % with 4 times (710). The default, 640, has 5 times. On 50 x 15 cells
    with 5 times the mass, for fifteen dies, kinetic energy was at most 3 % of the work of the die; that work and the
    energy of stress and motion differed by 0.4 % at most; and no node was deeper in the die than 1e-8 mm.

    Args:
        face: of the die.
        cells: of the block along both sides.
        steps: of the solver between two times.

    Raises:
        InputError: a cell was turned inside out.
    """
    rest = grid(cells)
    dt = DURATION / (FRAMES - 1) / steps
    block = Block(rest, dt)
    found = [rest]
    every = max(steps // WEIGHINGS, 1)
    for count in range(1, (FRAMES - 1) * steps + 1):
        depth = SPEED * dt * count
        block.step(lambda points, depth=depth: press(points, rest, face, depth))  # type: ignore[misc]
        if count % every == 0:
            block.weigh()
        if count % steps == 0:
            if not area(*block.slopes).min() > 0:
                raise InputError(f"{steps} steps between two times are too few: a cell was turned inside out")
            found.append(block.points)
    return np.stack(found)


def sample(rng: np.random.Generator, steps: int, refine: int) -> Sample:
    """A die and the block under it.

    ``input`` is the y of the face at the start, in mm, over the nodes i. The law of the face is our choice, as that of
    the published set is not known: a cubic spline through 6 heights, uniform between 0 and the 6 mm that the die comes
    down.

    Args:
        rng: of the random numbers.
        steps: of the solver between two times.
        refine: how many cells the solver has to each published one, along both sides; more of them need as many times
            the steps for the same mass.
    """
    face = profile(rng.uniform(0, SPEED * DURATION, KNOTS))
    points = forge(face, (100 * refine, 30 * refine), steps)[:, ::refine, ::refine]
    moved = points - points[0]
    output = np.stack([points.real, points.imag, moved.real, moved.imag], axis=-1)
    return {"input": CORNER.imag + face(points[0, :, 0].real), "output": np.moveaxis(output, 0, 2)}


def write(out: Path, samples: Sequence[Sample], options: Mapping[str, Any]) -> dict[str, Array]:
    """Write the file."""
    die = np.stack([row["input"] for row in samples])
    output = np.stack([row["output"] for row in samples])
    save_mat(out / "plas_N987_T20.mat", input=die, output=output)
    return {"u_x": output[..., 2], "u_y": output[..., 3]}


GENERATOR = Generator(sample, write, 987, {"steps": 640, "refine": 1})
