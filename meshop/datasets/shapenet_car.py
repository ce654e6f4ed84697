"""A published set: the flow around cars of ShapeNet."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from meshop.data import Arrays, Field, FieldSpec, InputError, MeshData
from meshop.datasets.designs import DesignDataset
from meshop.io import read_mesh, to_pyvista


class ShapeNetCar(DesignDataset):
    r"""Air around 889 cars at 72 km/h (Umetani and Bickel 2018): hexahedra around a car, quads on it, 32,000 nodes.

    Reynolds-averaged flow; only the shape varies. Transolver's reading of the files is the one that others follow:

    - the nodes are the points of the volume that are not on the surface, then all points of the surface; where both
      files have a point at exactly the same coordinates it is one node, of hexahedra and quads;
    - ``sdf`` is the distance to the nearest *point* of the surface, and ``normal`` the direction from there; on the
      surface it is 0, and the normal is the mean of the normals of the quads there, which VTK turns outwards. Points of
      the surface in no quad (96 of 3,682) have the normal 0;
    - ``velocity`` is 0 at nodes of the surface that the volume does not have, ``p`` is 0 in the volume: they are no
      data, and ``surface`` says which is which.

    ============ ======== ==== =======================================================
    field        role     unit meaning
    ============ ======== ==== =======================================================
    sdf          input    m    distance to the surface
    normal       input         three components
    velocity     target   m/s  three components
    p            target   Pa   pressure on the surface
    surface                    1 on the surface, 0 elsewhere
    ============ ======== ==== =======================================================

    The errors that the papers report are of ``p`` on the surface and of ``velocity`` off it: give
    ``measure=data.point_data["surface"]``, and one minus it, to :func:`meshop.metrics.relative_l2`.

    The split ``test`` is the fold ``test_fold``, with 100 cars in fold 0, ``train`` the other folds.

    Source: the data of `"Learning three-dimensional flow for interactive aerodynamic design"
    <https://doi.org/10.1145/3197517.3201325>`_.

    Args:
        root: directory of the data set: ``root/raw/param0`` to ``param8``, each with a directory for each car.
        test_fold: which fold is for testing.
        transform, pre_transform: see :class:`~meshop.datasets.DesignDataset`.
    """

    needs = "the directories param0 to param8 of training_data (2.0 GB packed)"
    source = "mlcfd_data.zip from http://www.nobuyuki-umetani.com/publication/mlcfd_data.zip"
    spec = FieldSpec(
        targets=(Field("velocity", "point", 3, "m/s"), Field("p", "point", 1, "Pa")),
        inputs=(Field("sdf", "point", 1, "m"), Field("normal", "point", 3)),
        dim=3,
    )

    def __init__(
        self,
        root: str | os.PathLike[str],
        test_fold: int = 0,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
    ) -> None:
        if test_fold not in range(9):
            raise InputError(f"Expected test_fold from 0 to 8 (got {test_fold})")
        self.test_fold = test_fold
        super().__init__(root, transform, pre_transform)

    @property
    def raw_file_names(self) -> list[str]:
        return [f"param{fold}" for fold in range(9)]

    def parts(self) -> dict[str, list[str]]:
        folds = [
            [f"{path.name}/{case.name}" for case in sorted(path.iterdir()) if case.is_dir()]
            for path in map(Path, self.raw_paths)
        ]
        test = folds.pop(self.test_fold)
        return {"train": [case for fold in folds for case in fold], "test": test}

    def read(self, case: str) -> MeshData:
        from scipy.spatial import cKDTree

        paths = [Path(self.raw_dir, case, name) for name in ("quadpress_smpl.vtk", "hexvelo_smpl.vtk")]
        surface, volume = map(read_mesh, paths)
        pressure, velocity = _only(surface, 1, paths[0]), _only(volume, 3, paths[1])

        count = surface.num_points
        points = torch.cat([surface.points, volume.points])
        _, first, place = np.unique(points.numpy(), axis=0, return_index=True, return_inverse=True)
        place = place.ravel()
        twin = torch.from_numpy(first[place])[count:]  # the first point that lies where one of the volume does
        outside = twin >= count
        exterior = int(outside.sum())
        node = torch.where(outside, outside.cumsum(0) - 1, exterior + twin)  # of each point of the volume
        at_place = torch.zeros(len(first), 3)
        at_place[place[count:]] = velocity

        boundary, around = surface.points.double(), volume.points[outside].double()
        distance, nearest = cKDTree(boundary.numpy()).query(around.numpy())
        away = around - boundary[nearest]
        none = torch.zeros(exterior), torch.zeros(count)
        mesh: MeshData = volume.__copy__()
        mesh.points = torch.cat([volume.points[outside], surface.points])
        mesh.pos = mesh.points.float()
        mesh.cell_type = torch.cat([volume.cell_type, surface.cell_type])
        mesh.cell_size = torch.cat([volume.cell_size, surface.cell_size])
        mesh.cell_index = torch.cat([node[volume.cell_index], exterior + surface.cell_index])
        mesh.cell_data = Arrays()
        mesh.point_data = Arrays(
            {
                "sdf": torch.cat([torch.from_numpy(distance).float(), none[1]]),
                "normal": torch.cat([normalize(away, eps=1e-30).float(), _normals(surface)]),
                "velocity": torch.cat([velocity[outside], at_place[place[:count]]]),
                "p": torch.cat([none[0], pressure]),
                "surface": torch.cat([none[0], none[1] + 1]),
            }
        )
        return mesh


def _only(mesh: MeshData, components: int, path: Path) -> Tensor:
    """The one point field of so many components, whatever its name."""
    found = {k: v for k, v in mesh.point_data.items() if v.numel() == components * mesh.num_points}
    if len(found) != 1:
        known = ", ".join(f"{k} {list(v.shape)}" for k, v in mesh.point_data.items())
        what = "scalar" if components == 1 else "vector"
        raise InputError(f"Expected one {what} at the points of '{path}' (it has {known or 'no fields'})")
    array: Tensor = next(iter(found.values()))
    return array.float().reshape(mesh.num_points, components).squeeze(1)


def _normals(surface: MeshData) -> Tensor:
    """Unit normals at points [P, 3]: means of those of the cells around, which VTK turns outwards."""
    import pyvista as pv

    grid = to_pyvista(surface)
    faces = pv.PolyData.from_irregular_faces(grid.points, [cell.point_ids for cell in grid.cell])
    faces = faces.compute_normals(point_normals=False, auto_orient_normals=True, consistent_normals=True)
    normal = torch.from_numpy(np.array(faces.cell_data["Normals"], dtype=np.float32))
    cell = torch.arange(surface.num_cells).repeat_interleave(surface.cell_size)
    return normalize(torch.zeros(surface.num_points, 3).index_add(0, surface.cell_index, normal[cell]))
