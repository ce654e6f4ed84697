"""Normals of surfaces and boundaries."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from meshop.data import Arrays, InputError, Location, MeshData, in_plane_axes
from meshop.geometry import boundary_facets, cell_area_vector, cell_centroid, cell_dim


@functional_transform("normals")
class Normals(BaseTransform):
    r"""Add unit normals as the field ``normal`` [P, 3], or [C, 3] for the cells.

    .. math::
        n_i = \frac{\sum_{f \ni i} A_f}{\lVert \sum_{f \ni i} A_f \rVert}

    with :math:`A_f` the area vectors of the facets at a node. Of a surface in space these are its cells, with the
    direction that the order of their nodes gives; of a solid, or a mesh in the plane (``dim`` 2), the facets of its
    boundary, with the direction out of it, and inside the field is zero. A cell has those of its own facets.

    Args:
        location: where the field lives, ``point`` or ``cell``.

    Raises:
        InputError: the mesh is a curve in space, or has no cells.

    >>> square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], cell_type=[9], cells=[[0, 1, 2, 3]])
    >>> Normals()(square).point_data["normal"][2]
    tensor([0.7071, 0.7071, 0.0000])
    """

    field = "normal"

    def __init__(self, location: Location = "point") -> None:
        self.location = location

    def forward(self, data: MeshData) -> MeshData:
        dims = cell_dim(data.cell_type)
        highest = int(dims.max()) if dims.numel() else 0
        planar = in_plane_axes(data.points) if data.dim == 2 else None
        axes = [0, 1, 2] if planar is None else planar
        points = data.points.double()[:, axes]
        if highest < 1 or highest not in (len(axes), len(axes) - 1):
            raise InputError(
                f"Expected a surface or a solid with normals (got cells of dimension {highest} in {data.dim}-D)"
            )
        facets = _outward(data, points) if highest == len(axes) else _cells(data, points, dims == highest)
        out = points.new_zeros(data.num_points if self.location == "point" else data.num_cells, len(axes))
        for owners, nodes, area in facets:
            if self.location == "point":
                out.index_add_(0, nodes.flatten(), area.repeat_interleave(nodes.size(1), dim=0))
            else:
                out.index_add_(0, owners, area)
        normal = torch.zeros(len(out), 3)
        normal[:, axes] = torch.nn.functional.normalize(out, dim=1, eps=torch.finfo(out.dtype).tiny).float()
        key = f"{self.location}_data"
        data[key] = Arrays(data[key])
        data[key][self.field] = normal
        return data

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}('{self.location}')"


Vectors = list[tuple[Tensor, Tensor, Tensor]]
"""Facets with as many nodes: their cells [G], nodes [G, n] and area vectors [G, D]."""


def _outward(data: MeshData, points: Tensor) -> Vectors:
    """The facets of the boundary, their area vectors turned away from the middle of their cells."""
    cells = data.cell_type, data.cell_size, data.cell_index, data.polyhedra
    middle = cell_centroid(points, *cells)
    out = []
    for owners, around, inside in boundary_facets(*cells):
        size = torch.full((len(around),), around.size(1))
        kind = torch.full_like(size, 7 if points.size(1) == 3 else 4)  # polygons, polylines
        ends = around if points.size(1) == 3 else around[:, [0, -1]]
        area = cell_area_vector(points, kind, torch.full_like(size, ends.size(1)), ends.flatten())
        away = ((points[around].mean(1) - middle[owners]) * area).sum(1, keepdim=True)
        out.append((owners, torch.cat([around, inside], dim=1), torch.where(away < 0, -area, area)))
    return out


def _cells(data: MeshData, points: Tensor, own: Tensor) -> Vectors:
    """The cells of a surface with their area vectors."""
    cells = own.nonzero().squeeze(1)
    nodes = data.cell_index[own.repeat_interleave(data.cell_size)]
    size = data.cell_size[cells]
    area = cell_area_vector(points, data.cell_type[cells], size, nodes)
    owner = torch.arange(len(cells)).repeat_interleave(size)
    return [(cells[owner], nodes[:, None], area[owner])]
