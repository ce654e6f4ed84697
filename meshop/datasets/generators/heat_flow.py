"""Flow and heat around two cylinders in a channel, in the layout of PhysGTO's set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import block_array, csr_matrix

from meshop.datasets.generators.generator import Array, Generator, Sample, split_rows
from meshop.io.files import whole_file

if TYPE_CHECKING:
    from skfem import CellBasis, MeshTri2

LENGTH, HEIGHT, MIDDLE = 3.0, 1.0, (0.8, 0.5)
AMBIENT = 293.15
INSIDE, INLET, OUTLET, WALL, CYLINDER = range(5)

# Differences in time of order 1 and 2: the factor of the new values, those of the ones before, and those by which
# transport is extrapolated from these.
STEPS = (
    (1, (1,), (1,)),
    (3 / 2, (2, -1 / 2), (2, -1)),
)


def channel(centres: Array, radius: float, size: float) -> MeshTri2:
    """Triangles with curved sides in the channel around circles, four times as small at these.

    Args:
        centres: of the circles [C, 2].
        radius: of the circles.
        size: of the triangles away from the circles.
    """
    import gmsh
    from skfem import MeshTri2

    gmsh.initialize(interruptible=False)
    try:
        gmsh.option.setNumber("General.Terminal", 0)
        gmsh.option.setNumber("General.NumThreads", 1)
        box = gmsh.model.occ.addRectangle(0, 0, 0, LENGTH, HEIGHT)
        discs = [(2, gmsh.model.occ.addDisk(x, y, 0, radius, radius)) for x, y in centres]
        gmsh.model.occ.cut([(2, box)], discs)
        gmsh.model.occ.synchronize()
        curves = [tag for _, tag in gmsh.model.getEntities(1) if gmsh.model.getType(1, tag) != "Line"]
        near = gmsh.model.mesh.field.add("Distance")
        gmsh.model.mesh.field.setNumbers(near, "CurvesList", curves)
        grade = gmsh.model.mesh.field.add("Threshold")
        small = min(size / 4, radius * np.pi / 10)
        for name, value in (("InField", near), ("SizeMin", small), ("SizeMax", size), ("DistMin", 0), ("DistMax", 0.5)):
            gmsh.model.mesh.field.setNumber(grade, name, value)
        gmsh.model.mesh.field.setAsBackgroundMesh(grade)
        gmsh.option.setNumber("Mesh.MeshSizeExtendFromBoundary", 0)
        gmsh.model.mesh.generate(2)
        gmsh.model.mesh.setOrder(2)
        tags, points, _ = gmsh.model.mesh.getNodes()
        [corners] = [nodes for kind, _, nodes in zip(*gmsh.model.mesh.getElements(2), strict=True) if kind == 9]
    finally:
        gmsh.finalize()
    used, triangles = np.unique(np.searchsorted(np.sort(tags), corners).reshape(-1, 6), return_inverse=True)
    points, triangles = points.reshape(-1, 3)[np.argsort(tags)][used, :2], triangles.reshape(-1, 6)
    return MeshTri2(*map(np.ascontiguousarray, (points.T, triangles.T)))


def quadratic(mesh: MeshTri2) -> CellBasis:
    """The space of velocity and temperature; its ``doflocs`` [2, N] are the nodes: vertices, then middles of sides."""
    from skfem import Basis, ElementTriP2

    return Basis(mesh, ElementTriP2(), intorder=5)


def solve(
    mesh: MeshTri2,
    border: Array,
    start: Array,
    viscosity: float,
    diffusivity: float,
    dt: float,
    steps: int,
    every: int = 1,
) -> Array:
    r"""Incompressible flow that carries heat.

    .. math::
        \partial_t u + u \cdot \nabla u = - \nabla p + \nu \Delta u, \qquad \nabla \cdot u = 0, \qquad
        \partial_t T + u \cdot \nabla T = \kappa \Delta T

    Elements of Taylor and Hood; backward differences of second order, with transport extrapolated from the two steps
    before, so that the matrix stays the same. Where nothing is prescribed, no stress and no heat act on the border;
    where velocity is on all of it, pressure is zero at the first vertex.

    Args:
        mesh: the domain.
        border: u, v and T at the nodes where they are prescribed, and NaN elsewhere [N, 3].
        start: u, v and T at time 0 [N, 3].
        viscosity: :math:`\nu`.
        diffusivity: :math:`\kappa`.
        dt: time step.
        steps: how many.
        every: after how many steps the result is wanted.

    Returns:
        u, v, p and T at the nodes [1 + steps / every, N, 4]; pressure is not known at time 0, and 0 there.
    """
    from skfem import BilinearForm, ElementTriP1
    from skfem.models.poisson import laplace, mass

    basis = quadratic(mesh)
    linear = basis.with_element(ElementTriP1())
    M, K = mass.assemble(basis), laplace.assemble(basis)
    Bx, By = (BilinearForm(lambda u, q, _, a=a: -u.grad[a] * q).assemble(basis, linear) for a in (0, 1))
    value, d_dx, d_dy, weights = at_quadrature(basis)

    ends = np.cumsum([basis.N, basis.N, linear.N])  # of u, v and p in a vector of u, v, p, T
    free, given = np.isnan(border), np.nan_to_num(border)
    leaves = free[basis.get_dofs().flatten(), :2].any()
    pressures = np.arange(linear.N) >= (0 if leaves else 1)
    unknown = np.concatenate([free[:, 0], free[:, 1], pressures, free[:, 2]])
    known = np.concatenate([given[:, 0], given[:, 1], np.zeros(linear.N), given[:, 2]])

    def factor(lift: float) -> tuple[Any, Array]:
        """The matrix, where ``lift`` multiplies the new values in the difference in time, as factors; and its part
        for what is prescribed."""
        A, H = lift * M + viscosity * K, lift * M + diffusivity * K
        rows = [[A, None, Bx.T, None], [None, A, By.T, None], [Bx, By, None, None], [None, None, None, H]]
        matrix = block_array(rows, format="csr")[unknown]
        return factors(matrix[:, unknown]), matrix @ known

    def transport(state: Array) -> Array:
        at, slope_x, slope_y = value @ state, d_dx @ state, d_dy @ state
        return value.T @ (weights * (at[:, :1] * slope_x + at[:, 1:2] * slope_y))

    def advance(lu: Any, prescribed: Array, right: Array) -> tuple[Array, Array]:
        values = known.copy()
        load = np.concatenate([right[:, 0], right[:, 1], np.zeros(linear.N), right[:, 2]])
        values[unknown] = lu.solve(load[unknown] - prescribed)
        u, v, p, T = np.split(values, ends)
        return np.stack([u, v, T], axis=1), p

    matrices = [factor(lift / dt) for lift, _, _ in STEPS]
    states, carried, p = [start], [transport(start)], np.zeros(linear.N)  # the latest first
    found = [np.insert(start, 2, 0, axis=1)]
    for count in range(1, steps + 1):
        order = min(count, len(STEPS)) - 1
        _, past, beyond = STEPS[order]
        right = M @ sum(a * state for a, state in zip(past, states, strict=False)) / dt
        right -= sum(a * term for a, term in zip(beyond, carried, strict=False))
        new, p = advance(*matrices[order], right)
        states, carried = [new, states[0]], [transport(new), carried[0]]
        if count % every == 0:
            found.append(np.insert(new, 2, np.concatenate([p, p[mesh.facets].mean(0)]), axis=1))
    return np.stack(found)


def factors(matrix: Any) -> Any:
    """A sparse matrix of symmetric pattern, that of a flow say, as a product of triangular ones."""
    from scipy.sparse.linalg import splu

    return splu(matrix.tocsc(), "MMD_AT_PLUS_A", diag_pivot_thresh=1e-3, options={"SymmetricMode": True})


def at_quadrature(basis: CellBasis) -> tuple[csr_matrix, csr_matrix, csr_matrix, Array]:
    """Matrices from values at the nodes to values and slopes at the points of quadrature, and their weights [Q, 1]."""
    points = np.arange(basis.dx.size).reshape(basis.dx.shape)
    columns = np.broadcast_to(basis.element_dofs[:, :, None], (basis.Nbfun, *points.shape)).ravel()
    rows = np.broadcast_to(points, (basis.Nbfun, *points.shape)).ravel()

    def matrix(values: list[Array]) -> csr_matrix:
        entries = np.concatenate([np.broadcast_to(v, points.shape).ravel() for v in values])
        return csr_matrix((entries, (rows, columns)), shape=(points.size, basis.N))

    functions = [basis.basis[i][0] for i in range(basis.Nbfun)]
    slopes = [matrix([np.asarray(f.grad)[a] for f in functions]) for a in (0, 1)]
    return matrix([np.asarray(f) for f in functions]), *slopes, basis.dx.reshape(-1, 1)


def sample(
    rng: np.random.Generator, frames: int, size: float, dt: float, viscosity: float, diffusivity: float
) -> Sample:
    """Two hot cylinders in a channel whose cold fluid starts to flow at once.

    Mean velocity at the inlet 0.1 to 0.6, warmth of the cylinders 40 to 90 K, distance of their centres 0.35 to 0.7,
    radius 0.04 to 0.08, angle between them -45 to 90 degrees; the middle between them is our choice.

    Args:
        rng: of the random numbers.
        frames: how many, 0.02 apart.
        size: of triangles away from the cylinders.
        dt: the longest time step; it is less where the flow is fast or the mesh is fine.
        viscosity: of the fluid.
        diffusivity: of its heat.
    """
    speed, warmth, distance, radius, angle = conditions = rng.uniform(*RANGES)
    arm = distance / 2 * np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
    mesh = channel(np.stack([MIDDLE - arm, MIDDLE + arm]), radius, size)
    basis = quadratic(mesh)
    x, y = basis.doflocs
    kind = np.full(basis.N, INSIDE)
    kind[basis.get_dofs().flatten()] = CYLINDER
    kind[x > LENGTH - 1e-9] = OUTLET
    kind[(y < 1e-9) | (y > HEIGHT - 1e-9)] = WALL
    kind[x < 1e-9] = INLET

    border = np.full((basis.N, 3), np.nan)
    border[(kind == WALL) | (kind == CYLINDER), :2] = 0
    border[kind == CYLINDER, 2] = warmth
    inlet = kind == INLET
    border[inlet] = np.stack([6 * speed * y * (HEIGHT - y) / HEIGHT**2, 0 * y, 0 * y], axis=1)[inlet]

    limit = 0.2 * np.sqrt(basis.dx.sum(1).min()) / (2 * speed)  # transport is explicit; a jet can be twice as fast
    every = int(np.ceil(0.02 / min(dt, limit) - 1e-9))
    states = solve(
        mesh, border, np.nan_to_num(border), viscosity, diffusivity, 0.02 / every, every * (frames - 1), every
    )
    u, v, p, T = np.moveaxis(states, 2, 0).astype(np.float32)
    a, b, c, ab, bc, ca = basis.element_dofs
    cells = np.concatenate([np.stack(three, axis=1) for three in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))])
    return {
        "cells": cells,
        "node_pos": basis.doflocs.T,
        "node_type": kind,
        "u": u,
        "v": v,
        "p": p,
        "T": T + np.float32(AMBIENT),
        "t": 0.02 * np.arange(frames)[:, None],
        "conditions": conditions,
    }


def write(out: Path, samples: Sequence[Sample], options: Mapping[str, Any]) -> dict[str, Array]:
    """Write a file for each sample, and the lists of those to train and to test on."""
    import h5py

    names = [f"case_{i:04d}.h5" for i in range(len(samples))]
    found: dict[str, list[Array]] = {name: [] for name in ("u", "v", "p", "T")}
    for name, row in zip(names, samples, strict=True):
        with whole_file(out / name) as part, h5py.File(part, "w") as file:
            for key, value in row.items():
                file[key] = value
        for key, values in found.items():
            values.append((row[key][25::25] - AMBIENT * (key == "T")).ravel())
    train = split_rows(len(samples), 132 / 872)
    for part_name, chosen in (("train", names[:train]), ("test", names[train:])):
        with whole_file(out / f"{part_name}.txt") as part:
            part.write_text("".join(f"{name}\n" for name in chosen))
    return {key: np.concatenate(values) for key, values in found.items()}


RANGES = np.array([[0.1, 40, 0.35, 0.04, -45], [0.6, 90, 0.7, 0.08, 90]])
GENERATOR = Generator(
    sample,
    write,
    872,
    {"frames": 526, "size": 0.085, "dt": 0.004, "viscosity": 1e-3, "diffusivity": 1.4e-3},
    {"u": (0.249682, 0.256363), "v": (-1.7705e-5, 0.107197), "p": (0.031665, 0.095736), "T": (13.68921, 20.861255)},
)
