"""Flow in bent pipes, as in the benchmark of Geo-FNO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import CubicHermiteSpline
from scipy.sparse import block_array, diags_array

from meshop.data import InputError
from meshop.datasets.generators.generator import Array, Generator, Sample, save_npy
from meshop.datasets.generators.heat_flow import at_quadrature, factors

LENGTH, WIDTH = 10.0, 1.0


def solve(points: Array, border: Array, viscosity: float, tolerance: float = 1e-10, steps: int = 25) -> Array:
    r"""Steady incompressible flow on a curved grid.

    .. math::
        u \cdot \nabla u = - \nabla p + \nu \Delta u, \qquad \nabla \cdot u = 0

    Elements of Taylor and Hood: velocity biquadratic, pressure bilinear, sides as the nodes ask for. Where nothing is
    prescribed, no stress acts on the border; where velocity is on all of it, pressure is zero at the first node.
    Newton's method from the flow without inertia, after one step that only carries.

    Args:
        points: nodes [n1, n2, 2], both odd: those with even numbers are corners of elements.
        border: velocity at nodes where it is prescribed, and NaN elsewhere [n1, n2, 2].
        viscosity: :math:`\nu`.
        tolerance: of the last change of velocity, relative to the largest.
        steps: how many it may take.

    Returns:
        Velocity and pressure at the nodes [3, n1, n2]; pressure is linear between corners.

    Raises:
        InputError: it does not converge.
    """
    from skfem import Basis, BilinearForm, ElementQuad1, ElementQuad2, MeshQuad, MeshQuad2
    from skfem.models.poisson import laplace

    n1, n2 = points.shape[:2]
    square = MeshQuad2.from_mesh(MeshQuad.init_tensor(np.arange(0.0, n1, 2), np.arange(0.0, n2, 2)))
    node = tuple(np.rint(square.doflocs).astype(int))  # of each unknown of the grid
    basis = Basis(replace(square, doflocs=np.ascontiguousarray(points[node].T)), ElementQuad2(), intorder=5)
    linear = basis.with_element(ElementQuad1())
    count, corners = basis.N, linear.N
    K = viscosity * laplace.assemble(basis)
    Bx, By = (BilinearForm(lambda u, q, _, a=a: -u.grad[a] * q).assemble(basis, linear) for a in (0, 1))
    value, d_dx, d_dy, weights = at_quadrature(basis)
    test = value.T @ diags_array(weights[:, 0])

    given = border[node].T.ravel()
    leaves = any(np.isnan(border[side]).any() for side in (np.s_[0], np.s_[-1], np.s_[:, 0], np.s_[:, -1]))
    unknown = np.concatenate([np.isnan(given), np.arange(corners) >= (0 if leaves else 1)])
    values = np.concatenate([np.nan_to_num(given), np.zeros(corners)])
    for step in range(steps):
        before = values[: 2 * count].reshape(2, count).T  # [N, 2]
        at, slope_x, slope_y = value @ before, d_dx @ before, d_dy @ before
        u, v = at.T
        A = K + (test @ (diags_array(u) @ d_dx + diags_array(v) @ d_dy) if step > 0 else 0)
        rows = [[A, None, Bx.T], [None, A, By.T], [Bx, By, None]]
        load = np.zeros(len(values))
        if step > 1:  # Newton's: what the change of velocity carries
            for a in (0, 1):
                for b, slope in enumerate((slope_x, slope_y)):
                    part = test @ diags_array(slope[:, a]) @ value
                    rows[a][b] = part if rows[a][b] is None else rows[a][b] + part
            load[: 2 * count] = (test @ (at[:, :1] * slope_x + at[:, 1:] * slope_y)).T.ravel()
        matrix = block_array(rows, format="csr")[unknown]
        new = values * ~unknown
        new[unknown] = factors(matrix[:, unknown]).solve(load[unknown] - matrix @ new)
        change, values = np.abs(new - values)[: 2 * count].max(), new
        if change < tolerance * np.abs(values[: 2 * count]).max():
            break
    else:
        raise InputError(f"Expected the flow to converge in {steps} steps (the last changed velocity by {change:.1e})")

    found = np.empty((3, n1, n2))
    for axis in (0, 1):
        found[(axis, *node)] = values[axis * count : (axis + 1) * count]
    p = found[2]
    p[node[0][:corners], node[1][:corners]] = values[2 * count :]
    p[1::2, ::2] = (p[:-1:2, ::2] + p[2::2, ::2]) / 2
    p[:, 1::2] = (p[:, :-1:2] + p[:, 2::2]) / 2
    return found


def bend(heights: Array, slopes: Array, elements: int) -> Array:
    """The grid of a pipe about a line of cubics through points at even distances, every section of it upright.

    Args:
        heights: of the line at these points.
        slopes: of it there.
        elements: along and across the pipe.

    Returns:
        Nodes [2 elements + 1, 2 elements + 1, 2], from inlet to outlet and from the lower wall to the upper.
    """
    x = np.linspace(0, LENGTH, 2 * elements + 1)
    line = CubicHermiteSpline(np.linspace(0, LENGTH, len(heights)), heights, slopes)(x)
    across = np.linspace(-WIDTH / 2, WIDTH / 2, 2 * elements + 1)
    return np.stack(np.broadcast_arrays(x[:, None], line[:, None] + across), axis=-1)


def sample(rng: np.random.Generator, elements: int, viscosity: float) -> Sample:
    """Flow in a pipe whose line starts at height 0 and goes on at heights of -2 to 2, with slopes of -1 to 1.

    Args:
        rng: of the random numbers.
        elements: along and across the pipe; 64 give the published nodes.
        viscosity: of the fluid.
    """
    heights, slopes = rng.uniform(-2, 2, 5), rng.uniform(-1, 1, 5)
    heights[0] = 0
    points = bend(heights, slopes, elements)
    border = np.full(points.shape, np.nan)
    border[:, [0, -1]] = 0
    t = np.linspace(0, 1, 2 * elements + 1)
    border[0] = np.stack([t * (1 - t), 0 * t], axis=1)
    return {"X": points[..., 0], "Y": points[..., 1], "Q": solve(points, border, viscosity)}


def write(out: Path, samples: Sequence[Sample], options: Mapping[str, Any]) -> dict[str, Array]:
    """An array of all samples for each of X, Y and Q."""
    arrays = {name: np.stack([row[name] for row in samples]) for name in ("X", "Y", "Q")}
    for name, array in arrays.items():
        save_npy(out / f"Pipe_{name}.npy", array)
    return dict(zip(("u", "v", "p"), np.moveaxis(arrays["Q"], 1, 0), strict=True))


GENERATOR = Generator(sample, write, 2310, {"elements": 64, "viscosity": 0.005})
