"""The signed distance to a closed surface."""

from __future__ import annotations

from pathlib import Path

import torch
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from meshop.data import Arrays, InputError, Location, MeshData
from meshop.geometry import cell_centroid, surface_distance


@functional_transform("signed_distance")
class SignedDistance(BaseTransform):
    r"""Add the signed distance to a closed surface in a file as the field ``signed_distance``.

    .. math::
        d(x) = \pm \min_{y \in S} \lVert x - y \rVert

    in the unit of the coordinates, negative inside, at the points or at the centroids of the cells. trimesh reads the
    surface and VTK measures.

    Args:
        surface: the file: STL, PLY, OBJ, OFF or GLB. ``{name}`` in it stands for the name of the mesh, where each has
            a surface of its own: ``bodies/{name}.stl``.
        location: where the field lives, ``point`` or ``cell``.

    Raises:
        InputError: the file is missing, is none of a surface, or the surface is not closed.

    >>> import tempfile, trimesh
    >>> path = f"{tempfile.mkdtemp()}/ball.stl"
    >>> _ = trimesh.creation.box([2, 2, 2]).export(path)
    >>> mesh = MeshData.from_cells([[0.0, 0, 0], [3, 0, 0]], [3], [[0, 1]])
    >>> SignedDistance(path)(mesh).point_data["signed_distance"]
    tensor([-1.,  2.])
    """

    field = "signed_distance"

    def __init__(self, surface: str, location: Location = "point") -> None:
        self.surface = surface
        self.location = location

    def path(self, name: str) -> Path:
        """The file of the surface of a mesh."""
        return Path(self.surface.replace("{name}", name))

    def forward(self, data: MeshData) -> MeshData:
        import trimesh

        if "{name}" in self.surface and "name" not in data:
            raise InputError(f"Expected a mesh with a name for its surface '{self.surface}' (got one without)")
        path = self.path(str(data.get("name", "")))
        if not path.is_file():
            raise InputError(f"Expected a closed surface for the signed distance (there is no file '{path}')")
        try:
            surface = trimesh.load(path, force="mesh")
        except Exception as error:
            raise InputError(f"Cannot read the surface '{path}': {' '.join(str(error).split())}") from error
        if not len(surface.faces) or not surface.is_watertight:
            raise InputError(
                f"Expected a closed surface in '{path}' (got {len(surface.faces)} triangles with open edges)"
            )
        surface.fix_normals()
        cells = data.cell_type, data.cell_size, data.cell_index, data.polyhedra
        points = data.points.double()
        places = points if self.location == "point" else cell_centroid(points, *cells)
        corners = torch.tensor(surface.vertices, dtype=torch.float64), torch.tensor(surface.faces, dtype=torch.long)
        key = f"{self.location}_data"
        data[key] = Arrays(data[key])
        data[key][self.field] = surface_distance(places, *corners).to(torch.float32)
        return data

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}('{self.surface}', '{self.location}')"
