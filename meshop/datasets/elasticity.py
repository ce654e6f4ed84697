"""A published set of Geo-FNO: a block with a void."""

from __future__ import annotations

import numpy as np

from meshop.data import Arrays, Field, FieldSpec, MeshData
from meshop.datasets.official import OfficialDataset, RawFile, check_shape, split_rows, tensor
from meshop.io.arrays import Array, read_npy


class Elasticity(OfficialDataset):
    r"""Stress in a hyperelastic unit square with a void of any shape, at 972 points each, of Geo-FNO.

    .. math::
        \nabla \cdot \sigma = 0, \qquad \sigma = \partial_\varepsilon w, \qquad
        w = C_1 (I_1 - 3) + C_2 (I_2 - 3)

    Incompressible Rivlin-Saunders material with :math:`C_1` = 1.863e5 and :math:`C_2` = 9.79e3, clamped below, pulled
    above by a traction of 100. The void lies about (0.5, 0.5), with radius 0.2 to 0.4. From shape to field: the model
    sees the coordinates only.

    ========= ======== ==== ==================
    field     role     unit meaning
    ========= ======== ==== ==================
    sigma     target   1    stress
    ========= ======== ==== ==================

    ``field_data`` holds the radii of the void, ``rr`` [42], at angles from 0 to 2 pi.

    The files hold points only, probably those of Gauss's quadrature, none on a boundary. Cells are ours: the Delaunay
    triangulation of the points without the triangles whose centroid lies in the void; edges and measures are theirs.
    ``pre_transform=KNNGraph(8)``, or ``--knn 8``, takes the nearest neighbours instead, also across the void.

    Of the 2,000 columns, the first 1,000 are the split ``train`` and the last 200 ``test``, as in the papers; a file of
    less than 1,200 is divided 5 to 1.

    Args:
        root: directory of the data set; the files belong into ``root/raw``.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    Raises:
        InputError: a file is missing, damaged or has another layout.
    """

    files = (
        RawFile("Random_UnitCell_XY_10.npy", 31_104_128),
        RawFile("Random_UnitCell_sigma_10.npy", 15_552_128),
        RawFile("Random_UnitCell_rr_10.npy", 672_128),
    )
    source = "them from elasticity/Meshes of the data folder of Geo-FNO, which github.com/neuraloperator/Geo-FNO links"

    def read(self) -> tuple[list[MeshData], FieldSpec, dict[str, list[int]]]:
        xy, sigma, rr = map(read_npy, self.raw_paths)
        check_shape(xy, (None, 2, None), "XY", self.raw_paths[0])
        nodes, _, count = xy.shape
        check_shape(sigma, (nodes, count), "sigma", self.raw_paths[1])
        check_shape(rr, (None, count), "rr", self.raw_paths[2])
        rows, splits = split_rows(count, 1000, 200, last=True)
        meshes = []
        for row in rows:
            points = np.array(xy[:, :, row])  # [N, 2]
            cells = triangulate(points, rr[:, row])
            case = MeshData.from_cells(
                points,
                [5] * len(cells),
                cells,
                point_data=Arrays({"sigma": tensor(sigma[:, row])}),
                field_data=Arrays({"rr": tensor(rr[:, row])}),
                name=f"elasticity_{row:04d}",
            )
            meshes.append(case)
        return meshes, FieldSpec(targets=(Field("sigma", "point"),), dim=2), splits


def triangulate(points: Array, radii: Array) -> Array:
    """The Delaunay triangles [T, 3] of points [N, 2] whose centroid lies outside of the void about (0.5, 0.5).

    Args:
        points: coordinates.
        radii: those of the void at equal angles from 0 to 2 pi, both included.

    >>> square = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0.5]])
    >>> triangulate(square, np.full(42, 0.1)).shape, triangulate(square, np.full(42, 0.4)).shape
    ((4, 3), (0, 3))
    """
    from scipy.spatial import Delaunay

    triangles: Array = Delaunay(points).simplices
    x, y = (points[triangles].mean(axis=1) - 0.5).T
    edge = np.interp(np.arctan2(y, x) % (2 * np.pi), np.linspace(0, 2 * np.pi, len(radii)), radii)
    return triangles[np.hypot(x, y) > edge]
