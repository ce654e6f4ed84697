"""Darcy flow through two materials on an irregular domain with a slot, as in the benchmark of NORM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meshop.datasets.generators.generator import Array, Generator, Sample, save_mat

if TYPE_CHECKING:
    from skfem import MeshTri

LEFT, RIGHT, TOP = 0.494, 0.514, 0.4  # of the slot
CORNERS = (
    *((0, 0), (LEFT, 0), (LEFT, TOP), (RIGHT, TOP), (RIGHT, 0), (1, 0)),  # along the ground
    *((0.82, 0.49), (0.46, 0.68), (0.3, 0.6)),
)
ARC, CENTRE = 6, (0.83, 0.945)  # from (0.82, 0.49) to (0.46, 0.68), concave


@lru_cache
def domain(size: float) -> MeshTri:
    """The domain in triangles of a size; the same ones at every call."""
    import gmsh
    from skfem import MeshTri

    gmsh.initialize(interruptible=False)
    try:
        gmsh.option.setNumber("General.Terminal", 0)
        gmsh.option.setNumber("General.NumThreads", 1)
        geometry = gmsh.model.geo
        corners = [geometry.addPoint(x, y, 0, size) for x, y in CORNERS]
        centre = geometry.addPoint(*CENTRE, 0)
        sides = [
            geometry.addCircleArc(one, centre, two) if side == ARC else geometry.addLine(one, two)
            for side, (one, two) in enumerate(zip(corners, [*corners[1:], corners[0]], strict=True))
        ]
        geometry.addPlaneSurface([geometry.addCurveLoop(sides)])
        geometry.synchronize()
        gmsh.model.mesh.generate(2)
        tags, points, _ = gmsh.model.mesh.getNodes()
        _, triangles = gmsh.model.mesh.getElementsByType(2)
    finally:
        gmsh.finalize()
    used, triangles = np.unique(triangles, return_inverse=True)  # the centre is not
    points = points.reshape(-1, 3)[np.argsort(tags)][np.searchsorted(np.sort(tags), used), :2]
    return MeshTri(np.ascontiguousarray(points.T), np.ascontiguousarray(triangles.reshape(-1, 3).T))


def border(mesh: MeshTri) -> Array:
    """The nodes of the border but for the slot's."""
    facets = mesh.boundary_facets()
    x, y = mesh.p[:, mesh.facets[:, facets]].mean(axis=1)
    slot = (x > LEFT - 1e-9) & (x < RIGHT + 1e-9) & (y > 0) & (y < TOP + 1e-9)
    return np.unique(mesh.facets[:, facets[~slot]])


@lru_cache
def modes(size: float, count: int = 256) -> tuple[Array, Array]:
    """The least positive eigenvalues [count] of minus the Laplacian with Neumann conditions, and modes [N, count]."""
    from scipy.sparse.linalg import eigsh
    from skfem import Basis, ElementTriP1
    from skfem.models.poisson import laplace, mass

    basis = Basis(domain(size), ElementTriP1())
    start = np.random.default_rng(0).standard_normal(basis.N)
    values, vectors = eigsh(laplace.assemble(basis), count + 1, mass.assemble(basis), sigma=-1, v0=start)
    return values[1:], vectors[:, 1:]


def solve(mesh: MeshTri, fixed: Array, a: Array, load: Any = 1.0) -> Array:
    r"""The solution of :math:`-\nabla \cdot (a \nabla u) = f` by linear elements, without a flow over the free border.

    Args:
        mesh: triangles.
        fixed: numbers of the nodes where u = 0.
        a: coefficient at the nodes, linear between them [N].
        load: f, a number or a function of the coordinates [2, ...].

    Returns:
        u at the nodes [N].
    """
    from skfem import Basis, BilinearForm, ElementTriP1, LinearForm, condense
    from skfem import solve as solve_system
    from skfem.helpers import dot, grad

    basis = Basis(mesh, ElementTriP1())
    matrix = BilinearForm(lambda u, v, w: w["a"] * dot(grad(u), grad(v))).assemble(basis, a=basis.interpolate(a))
    right = LinearForm(lambda v, w: (load(w.x) if callable(load) else load) * v).assemble(basis)
    return solve_system(*condense(matrix, right, D=fixed))


def sample(rng: np.random.Generator, size: float) -> Sample:
    r"""A medium with coefficient 12 where a random field is positive and 3 elsewhere, and its solution for f = 1.

    The field is Gaussian with covariance :math:`3^2 (-\Delta + 3^2)^{-2}` as on the square, without its mean, from
    256 modes of the domain. No water flows into the slot; on the rest of the border u = 0.
    """
    mesh, (values, vectors) = domain(size), modes(size)
    a = np.where(vectors @ (3 / (values + 9) * rng.standard_normal(len(values))) >= 0, 12.0, 3.0)
    return {"c_field": a, "u_field": solve(mesh, border(mesh), a)}


def write(out: Path, samples: Sequence[Sample], options: Mapping[str, Any]) -> dict[str, Array]:
    """Write the mesh, numbered from 1, and the fields."""
    mesh = domain(options["size"])
    fields = {name: np.stack([row[name] for row in samples]) for name in ("c_field", "u_field")}
    save_mat(out / "Darcy.mat", MeshNodes=mesh.p, MeshElements=mesh.t + 1.0, **fields)
    return fields


GENERATOR = Generator(sample, write, 1200, {"size": 0.01595})
