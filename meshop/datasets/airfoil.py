"""A published set of Geo-FNO: transonic flow over airfoils."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import torch

from meshop.data import Arrays, Field, FieldSpec, InputError, MeshData
from meshop.datasets.official import OfficialDataset, RawFile, grid_mesh, moved, read_xyq, split_rows
from meshop.io.arrays import Array


class Airfoil(OfficialDataset):
    r"""Steady transonic flow over deformed NACA-0012 airfoils, on C-grids of 221 x 51 nodes, of Geo-FNO.

    .. math::
        \nabla \cdot (\rho u) = 0, \qquad \nabla \cdot (\rho u \otimes u + p I) = 0, \qquad
        \nabla \cdot \bigl( (E + p) u \bigr) = 0

    Euler's equations at Mach 0.8 and no angle of attack, with :math:`\gamma = 1.4`, density and pressure 1 far away.
    From shape to field: the model sees the coordinates only.

    =============== ======== ==== ==================================================
    field           role     unit meaning
    =============== ======== ==== ==================================================
    mach            target   1    Mach number, channel 4 of the file
    rho, p, u, v             1    density, pressure and velocity, channels 0, 3, 1, 2
    =============== ======== ==== ==================================================

    Axis i of ``shape`` runs along the C: 50 cells of wake, 120 around the airfoil, 50 of wake back again. Axis j runs
    from airfoil and wake to the far field. Cells are the quads of this grid. At j = 0 the nodes i and 220 - i of the
    wake, the trailing edge among them, lie in the same place and are not joined: the grid is cut there. ``join_wake``
    makes one node of each such pair, with the mean of its values; 11,220 nodes are left, as many as in the authors'
    ungridded copy, and the mesh is a grid no more.

    Of the 2,490 rows, the first 1,000 are the split ``train`` and the next 200 ``test``, as in the papers; a file of
    less than 1,200 rows is divided 5 to 1.

    Args:
        root: directory of the data set; the files belong into ``root/raw``.
        join_wake: join the two sides of the wake, instead of keeping the grid.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    Raises:
        InputError: a file is missing, damaged or has another layout; ``join_wake`` finds no wake.
    """

    files = (
        RawFile("NACA_Cylinder_X.npy", 224_518_448),
        RawFile("NACA_Cylinder_Y.npy", 224_518_448),
        RawFile("NACA_Cylinder_Q.npy", 1_122_591_728),
    )
    source = "them from the data folder of Geo-FNO, which github.com/neuraloperator/Geo-FNO links"

    def __init__(
        self,
        root: str | os.PathLike[str],
        join_wake: bool = False,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
        pre_filter: Callable[[MeshData], bool] | None = None,
        force_reload: bool = False,
    ) -> None:
        self.join_wake = join_wake
        super().__init__(root, transform, pre_transform, pre_filter, force_reload)

    @property
    def options(self) -> dict[str, object]:
        return super().options | {"join_wake": self.join_wake}

    def read(self) -> tuple[list[MeshData], FieldSpec, dict[str, list[int]]]:
        x, y, q = read_xyq(self.raw_paths, 5)
        rows, splits = split_rows(len(x), 1000, 200)
        mesh = grid_mesh(np.stack([x[0], y[0]], axis=-1))
        first = second = np.arange(mesh.num_points)  # grid nodes that become a mesh node
        if self.join_wake:
            first, second = _wake(x[0], y[0], self.raw_paths[0])
            number = np.empty(mesh.num_points, dtype=np.int64)
            number[second] = number[first] = np.arange(len(first))
            mesh.cell_index = torch.from_numpy(number)[mesh.cell_index]
            del mesh["shape"]

        meshes = []
        for row in rows:
            nodes = np.stack([x[row], y[row], *q[row]], axis=-1).reshape(-1, 7)
            nodes = (nodes[first] + nodes[second]) / 2
            case = moved(mesh, nodes[:, :2])
            values = nodes[:, 2:].astype(np.float32).T.copy()
            case.point_data = Arrays(dict(zip(("rho", "u", "v", "p", "mach"), values, strict=True)))
            case.name = f"airfoil_{row:04d}"
            meshes.append(case)
        return meshes, FieldSpec(targets=(Field("mach", "point"),), dim=2), splits


def _wake(x: Array, y: Array, path: str) -> tuple[Array, Array]:
    """The grid nodes that stay when the wake's pairs at j = 0 are joined, and with which node they are."""
    n1, n2 = x.shape
    gap = np.hypot(x[:, 0] - x[::-1, 0], y[:, 0] - y[::-1, 0])[: n1 // 2]
    apart = gap > 1e-6 * np.hypot(np.ptp(x), np.ptp(y))
    count = int(apart.argmax()) if apart.any() else len(apart)
    if not count:
        raise InputError(f"join_wake expects nodes i and {n1 - 1} - i of '{path}' in one place at j = 0 (got none)")
    wake = np.arange(count) * n2
    twin = (n1 - 1 - np.arange(count)) * n2
    first = np.setdiff1d(np.arange(n1 * n2), twin)
    second = first.copy()
    second[np.searchsorted(first, wake)] = twin
    return first, second
