"""Darcy flow through a medium of two phases, as in the benchmark of the Fourier neural operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.fft import idctn
from scipy.ndimage import gaussian_filter
from scipy.sparse import coo_matrix, csr_matrix

from meshop.datasets.generators.generator import Array, Generator, Sample, save_mat, split_rows


def random_field(rng: np.random.Generator, shape: tuple[int, int], alpha: float = 2.0, tau: float = 3.0) -> Array:
    r"""A Gaussian random field on the cells of the unit square with covariance :math:`C`.

    .. math::
        C = \tau^{2 \alpha - 2} (-\Delta + \tau^2)^{-\alpha} \qquad \text{with Neumann conditions, without the mean}

    as a cosine series with one random number a mode, summed by a fast transform.
    """
    k1, k2 = np.meshgrid(*map(np.arange, shape), indexing="ij")
    deviation = tau ** (alpha - 1) * (np.pi**2 * (k1**2 + k2**2) + tau**2) ** (-alpha / 2)
    deviation[0, 0] = 0
    return idctn(np.sqrt(shape[0] * shape[1]) * deviation * rng.standard_normal(shape), norm="ortho")


def solve(a: Array, force: Array | float = 1.0) -> Array:
    r"""The solution of :math:`-\nabla \cdot (a \nabla u) = f` on the unit square, zero on its border.

    Finite differences of second order on nodes; between two of them the coefficient is the mean of theirs.

    Args:
        a: coefficient at the nodes [n, n], border included.
        force: f at the nodes.

    Returns:
        u at the nodes [n, n].
    """
    n = len(a)
    matrix, inner = assemble(a), np.s_[1:-1, 1:-1]
    right = np.broadcast_to(force, a.shape)[inner].ravel() / (n - 1) ** 2
    u = np.zeros(a.shape)
    u[inner] = _solve(matrix, right).reshape(n - 2, n - 2)
    return u


def assemble(a: Array) -> csr_matrix:
    """The matrix of :func:`solve` for the inner nodes, times the square of the spacing."""
    n = len(a)
    number = np.full(a.shape, -1)
    number[1:-1, 1:-1] = np.arange((n - 2) ** 2).reshape(n - 2, n - 2)
    rows, columns, values = [], [], []
    for one, two in ((np.s_[:-1, :], np.s_[1:, :]), (np.s_[:, :-1], np.s_[:, 1:])):
        between = (a[one] + a[two]).ravel() / 2
        i, j = number[one].ravel(), number[two].ravel()
        for p, q in ((i, j), (j, i)):
            rows += [p[p >= 0], p[(p >= 0) & (q >= 0)]]
            columns += [p[p >= 0], q[(p >= 0) & (q >= 0)]]
            values += [between[p >= 0], -between[(p >= 0) & (q >= 0)]]
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return coo_matrix(entries, shape=((n - 2) ** 2,) * 2).tocsr()


def _solve(matrix: csr_matrix, right: Array) -> Array:
    """Conjugate gradients with an algebraic multigrid cycle, to a residual of 1e-9."""
    import pyamg

    levels = pyamg.ruge_stuben_solver(matrix, max_coarse=100, coarse_solver="splu")
    solution: Array = levels.solve(right, tol=1e-9, accel="cg")
    return solution


def sample(rng: np.random.Generator, resolution: int) -> Sample:
    """A medium with coefficient 12 where a random field is positive and 3 elsewhere, and its solution for f = 1."""
    g = random_field(rng, (resolution, resolution))
    a = np.where(g >= 0, 12.0, 3.0)
    return {"coeff": a.astype(np.float32), "sol": solve(a).astype(np.float32)}


def write(out: Path, samples: Sequence[Sample], options: Mapping[str, Any]) -> dict[str, Array]:
    """Write five sixths of the samples into the first file, and the others into the second."""
    train, n = split_rows(len(samples), 1 / 6), options["resolution"]
    found: dict[str, list[Array]] = {"coeff": [], "sol": []}
    for part, rows in (("smooth1", samples[:train]), ("smooth2", samples[train:])):
        fields = {name: np.empty((len(rows), n, n), np.float32) for name in ("coeff", "sol")}
        for i, row in enumerate(rows):
            for name in fields:
                fields[name][i] = row[name]
        smooth = gaussian_filter(fields["coeff"].astype(float), (0, n / 100, n / 100), mode="nearest")
        gradient = dict(zip(("Kcoeff_x", "Kcoeff_y"), np.gradient(smooth, 1 / (n - 1), axis=(1, 2)), strict=True))
        save_mat(out / f"piececonst_r{n}_N1024_{part}.mat", **fields, Kcoeff=smooth, **gradient)
        for name in found:
            found[name].append(fields[name])
    return {name: np.concatenate(parts) for name, parts in found.items()}


GENERATOR = Generator(sample, write, 1200, {"resolution": 421}, {"coeff": (7.5, 4.49996), "sol": (None, 3.88433e-3)})
