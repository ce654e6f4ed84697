"""A block of hyperelastic material with a void, pulled upwards, as in the benchmark of Geo-FNO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meshop.datasets.generators.generator import Array, Generator, Sample, save_npy

if TYPE_CHECKING:
    from skfem import CellBasis, MeshQuad2

C1, C2 = 1.863e5, 9.79e3  # Rivlin's constants
TRACTION = 100.0
WAVES = np.arange(1, 6)


def radius(coefficients: Array, angle: Array) -> Array:
    r"""The radius of the void, :math:`0.2 + 0.2 / (1 + \exp g)`, where g is a Gaussian function on the circle.

    Its covariance is :math:`4^2 (-\Delta + 3^2)^{-1}`, of which the waves 1 to 5 are kept.

    Args:
        coefficients: those of five cosines and five sines, standard normal [10].
        angle: [...].
    """
    phase = WAVES * angle[..., None]  # [..., 5]
    waves = np.concatenate([np.cos(phase), np.sin(phase)], -1) / np.sqrt(np.pi)
    return 0.2 + 0.2 / (1 + np.exp(waves @ (coefficients * np.tile(4 / np.sqrt(WAVES**2 + 9), 2))))


@lru_cache
def rings(around: int, across: int) -> tuple[Array, Array, Array]:
    """Biquadratic elements between two circles.

    Returns:
        The corners of the elements [4, E], and of each node the angle and the share of the way outwards. Elements meet
        halfway between the multiples of ``2 pi / around``; so where this is 36, they do at the diagonals of a square.
    """
    from skfem import MeshQuad, MeshQuad2

    angle, ring = np.meshgrid((np.arange(around) + 0.5) * 2 * np.pi / around, np.arange(across + 1), indexing="ij")
    number = np.arange(angle.size).reshape(angle.shape)
    ahead = np.roll(number, -1, axis=0)
    corners = np.stack([number[:, :-1], number[:, 1:], ahead[:, 1:], ahead[:, :-1]]).reshape(4, -1)
    r = ring + across
    mesh = MeshQuad2.from_mesh(MeshQuad(np.stack([r * np.cos(angle), r * np.sin(angle)]).reshape(2, -1), corners))
    turn = np.arctan2(mesh.doflocs[1], mesh.doflocs[0])
    middle = np.abs(np.sin(turn * around / 2)) < 0.5  # between two corners, thus on a chord
    r = np.hypot(*mesh.doflocs) / np.where(middle, np.cos(np.pi / around), 1)
    return mesh.t, turn, r / across - 1


def block(coefficients: Array, around: int = 36, across: int = 3) -> MeshQuad2:
    """The unit square without the void about its middle, in biquadratic elements that are regular along all borders.

    Elements grow thinner outwards, by as much as gives all points the deviation of the published ones: that
    agreement is fitted.
    """
    from skfem import MeshQuad2

    corners, angle, share = rings(around, across)
    side = np.round(angle / (np.pi / 2))
    along = (angle / (np.pi / 2) - side) * 2  # from -1 to 1 on each side
    c, s = np.cos(side * np.pi / 2), np.sin(side * np.pi / 2)
    inner = radius(coefficients, angle) * np.stack([np.cos(angle), np.sin(angle)])
    outer = 0.5 * np.stack([c - along * s, s + along * c])
    return MeshQuad2(0.5 + inner + (share + 0.2 * share * (1 - share)) * (outer - inner), corners)


def cofactor(f: Array) -> Array:
    """The derivative of the determinant; linear in f [2, 2, ...]."""
    return np.stack([np.stack([f[1, 1], -f[1, 0]]), np.stack([-f[0, 1], f[0, 0]])])


def stress(f: Array) -> Array:
    r"""First Piola-Kirchhoff stress in plane stress of the energy :math:`C_1 (I_1 - 3) + C_2 (I_2 - 3)`.

    The material is incompressible: where the plane is stretched by J, the block is thinner by 1 / J.

    Args:
        f: deformation gradient in the plane [2, 2, ...].
    """
    i, cof = (f * f).sum((0, 1)), cofactor(f)
    j = (f * cof).sum((0, 1)) / 2
    return 2 * (C1 + C2 / j**2) * f + 2 * (C2 * (j - i / j**3) - C1 / j**3) * cof


def stress_change(f: Array, change: Array) -> Array:
    """The derivative of the stress in a direction [2, 2, ...]."""
    i, cof = (f * f).sum((0, 1)), cofactor(f)
    j = (f * cof).sum((0, 1)) / 2
    along, across = (f * change).sum((0, 1)), (cof * change).sum((0, 1))
    return (
        2 * (C1 + C2 / j**2) * change
        + 2 * (C2 * (j - i / j**3) - C1 / j**3) * cofactor(change)
        - 4 * C2 / j**3 * across * f
        + ((6 * C1 / j**4 + 2 * C2 * (1 + 3 * i / j**4)) * across - 4 * C2 / j**3 * along) * cof
    )


def mises(f: Array) -> Array:
    """Von Mises's measure of Cauchy's stress [...]."""
    s = np.einsum("ik...,jk...->ij...", stress(f), f)
    return np.sqrt(s[0, 0] ** 2 - s[0, 0] * s[1, 1] + s[1, 1] ** 2 + 3 * s[0, 1] ** 2)


def displacements(mesh: MeshQuad2) -> CellBasis:
    """The space of biquadratic displacements, with 3 x 3 points of quadrature an element."""
    from skfem import Basis, ElementQuad2, ElementVector

    return Basis(mesh, ElementVector(ElementQuad2()), intorder=5)


def traction(mesh: MeshQuad2) -> Array:
    """The nodal forces of a unit traction, upwards, on the upper border."""
    from skfem import ElementQuad2, ElementVector, FacetBasis, LinearForm

    upper = FacetBasis(mesh, ElementVector(ElementQuad2()), facets=mesh.facets_satisfying(lambda x: x[1] > 1 - 1e-9))
    return LinearForm(lambda v, _: v[1]).assemble(upper)


def solve(basis: CellBasis, load: Array) -> Array:
    """The deformation that balances a load while the lower border is held, by Newton's method.

    Args:
        basis: the space of displacements.
        load: nodal forces.

    Returns:
        Its gradient at the points of quadrature [2, 2, E, Q].
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.linalg import spsolve

    free = basis.complement_dofs(basis.get_dofs(lambda x: x[1] < 1e-9))
    dofs = basis.element_dofs  # [18, E]
    gradients = np.stack([field[0].grad for field in basis.basis], axis=2)  # [2, 2, 18, E, Q]
    u = np.zeros(basis.N)
    for _ in range(20):
        f = np.eye(2)[:, :, None, None] + np.einsum("abieq,ie->abeq", gradients, u[dofs])
        forces = np.einsum("abeq,abieq,eq->ie", stress(f), gradients, basis.dx)
        left = load - np.bincount(dofs.ravel(), forces.ravel(), basis.N)
        if np.abs(left[free]).max() <= 1e-10 * np.abs(load).max():
            return f
        change = stress_change(f[:, :, None], gradients) * basis.dx
        stiffness = np.einsum("abieq,abjeq->eij", gradients, change, optimize=True)
        rows, columns = np.broadcast_arrays(dofs.T[:, :, None], dofs.T[:, None, :])
        matrix = coo_matrix((stiffness.ravel(), (rows.ravel(), columns.ravel())), (basis.N, basis.N)).tocsc()
        u[free] += spsolve(matrix[free][:, free], left[free])
    raise ArithmeticError("The load is too large: Newton's method does not converge in 20 steps")


def sample(rng: np.random.Generator) -> Sample:
    """A void, and the stress at the points of quadrature of 36 x 3 elements about it."""
    theta = rng.standard_normal(2 * len(WAVES))
    mesh = block(theta)
    basis = displacements(mesh)
    sigma = mises(solve(basis, TRACTION * traction(mesh)))
    points = np.reshape(basis.global_coordinates(), (2, -1))
    return {"XY": points.T, "sigma": sigma.ravel(), "rr": radius(theta, np.linspace(0, 2 * np.pi, 42)), "theta": theta}


def write(out: Path, samples: Sequence[Sample], options: Mapping[str, Any]) -> dict[str, Array]:
    """Write the four files; the samples are the last axis of all but the coefficients."""
    arrays = {name: np.stack([row[name] for row in samples], -1) for name in samples[0]}
    arrays["theta"] = arrays["theta"].T
    for name, array in arrays.items():
        save_npy(out / f"Random_UnitCell_{name}_10.npy", array)
    return {"sigma": arrays["sigma"], "x": arrays["XY"][:, 0], "y": arrays["XY"][:, 1]}


PUBLISHED = {"sigma": (187.74, 127.08), "x": (0.4998, 0.3217), "y": (0.5003, 0.3216)}
GENERATOR = Generator(sample, write, 2000, published=PUBLISHED)
