"""A published set of Geo-FNO: flow in bent pipes."""

from __future__ import annotations

import numpy as np

from meshop.data import Arrays, Field, FieldSpec, MeshData
from meshop.datasets.official import OfficialDataset, RawFile, grid_mesh, moved, read_xyq, split_rows


class Pipe(OfficialDataset):
    r"""Steady incompressible flow in bent pipes, on grids of 129 x 129 nodes, of Geo-FNO.

    .. math::
        (u \cdot \nabla) u = - \nabla p + \nu \Delta u, \qquad \nabla \cdot u = 0, \qquad \nu = 0.005

    The pipe is 10 long and 1 wide. Its centre line is four cubics through five nodes of random height and slope. At the
    inlet the velocity is parabolic, at the walls it is 0. From shape to field: the model sees the coordinates only.

    ========= ======== ==== =======================================
    field     role     unit meaning
    ========= ======== ==== =======================================
    u         target   1    horizontal velocity, channel 0
    v, p               1    vertical velocity and pressure
    ========= ======== ==== =======================================

    Axis i of ``shape`` runs from inlet (0) to outlet (128), axis j from wall to wall. Cells are the quads of this grid.

    Of the 2,310 rows, the first 1,000 are the split ``train`` and the next 200 ``test``, as in the papers; a file of
    less than 1,200 rows is divided 5 to 1.

    Args:
        root: directory of the data set; the files belong into ``root/raw``.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    Raises:
        InputError: a file is missing, damaged or has another layout.
    """

    files = (
        RawFile("Pipe_X.npy", 307_525_808),
        RawFile("Pipe_Y.npy", 307_525_808),
        RawFile("Pipe_Q.npy", 922_577_168),
    )
    source = "them from the data folder of Geo-FNO, which github.com/neuraloperator/Geo-FNO links"

    def read(self) -> tuple[list[MeshData], FieldSpec, dict[str, list[int]]]:
        x, y, q = read_xyq(self.raw_paths, 3)
        rows, splits = split_rows(len(x), 1000, 200)
        mesh = grid_mesh(np.stack([x[0], y[0]], axis=-1))
        meshes = []
        for row in rows:
            case = moved(mesh, np.stack([x[row].ravel(), y[row].ravel()], axis=1))
            values = q[row].reshape(3, -1).astype(np.float32)
            case.point_data = Arrays(dict(zip(("u", "v", "p"), values, strict=True)))
            case.name = f"pipe_{row:04d}"
            meshes.append(case)
        return meshes, FieldSpec(targets=(Field("u", "point"),), dim=2), splits
