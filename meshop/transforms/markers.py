"""Named boundaries and regions as fields."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from meshop.data import Arrays, Location, MeshData
from meshop.geometry import boundary_facets, cell_dim

GROUPS = "gmsh:physical"  # cell data that number gmsh's groups


@functional_transform("markers")
class Markers(BaseTransform):
    """Add named sets, groups, patches and markers as fields of booleans, which enter a model as 1 and 0.

    A mesh that lacks a name has the field, too: nothing of it is there, and it is false everywhere.

    Files keep such names in different ways (see :func:`marked`); the field is the same.

    Args:
        names: of the sets.
        location: where the fields live, ``point`` or ``cell``.

    >>> mesh = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], [9, 3], [[0, 1, 2, 3], [0, 1]])
    >>> mesh.cell_data["wall"] = [False, True]
    >>> marked_ = Markers(["wall", "inlet"])(mesh)
    >>> marked_.point_data["wall"], marked_.point_data["inlet"]
    (tensor([ True,  True, False, False]), tensor([False, False, False, False]))
    """

    def __init__(self, names: Sequence[str], location: Location = "point") -> None:
        self.names = list(names)
        self.location = location

    def absent(self, data: MeshData) -> list[str]:
        """The names that a mesh does not have."""
        return [name for name in self.names if marked(data, name, self.location) is None]

    def forward(self, data: MeshData) -> MeshData:
        key, count = f"{self.location}_data", data.num_points if self.location == "point" else data.num_cells
        arrays = Arrays(data[key])
        for name in self.names:
            mask = marked(data, name, self.location)
            arrays[name] = torch.zeros(count, dtype=torch.bool) if mask is None else mask
        data[key] = arrays
        return data

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.names}, '{self.location}')"


def marked(data: MeshData, name: str, location: Location) -> Tensor | None:
    """Which points [P] or cells [C] a name marks; ``None`` where a mesh has no set of that name.

    A set is an array of booleans, or of the bytes 0 and 1 that VTK's files make of them, on points or on cells, or a
    physical group of gmsh. Points of a set of cells are their nodes. Cells of a set of points, or of lines or faces on
    the boundary, are those with a facet of the boundary all of whose nodes are in it.
    """
    points, cells = (_mask(arrays, name) for arrays in (data.point_data, data.cell_data))
    dims = cell_dim(data.cell_type)
    if cells is None and GROUPS in data.cell_data and len(data.field_data.get(name, ())) == 2:
        tag, dim = data.field_data[name].tolist()
        cells = (data.cell_data[GROUPS] == tag) & (dims == dim)
    if points is None and cells is not None:
        points = torch.zeros(data.num_points, dtype=torch.bool)
        points[data.cell_index[cells.repeat_interleave(data.cell_size)]] = True
    if location == "point" or points is None:
        return points
    highest = dims.max() if dims.numel() else 0
    if cells is None or not bool((cells & (dims == highest)).any()):
        cells = torch.zeros(data.num_cells, dtype=torch.bool) if cells is None else cells.clone()
        for owners, around, _ in boundary_facets(data.cell_type, data.cell_size, data.cell_index, data.polyhedra):
            cells[owners[points[around].all(dim=1)]] = True
    return cells


def names_of(data: MeshData) -> set[str]:
    """The names of all sets of a mesh."""
    masks = {name for arrays in (data.point_data, data.cell_data) for name in arrays if _mask(arrays, name) is not None}
    groups = {name for name, value in data.field_data.items() if GROUPS in data.cell_data and len(value) == 2}
    return masks | groups


def _mask(arrays: Arrays, name: str) -> Tensor | None:
    array = arrays.get(name)
    if not isinstance(array, Tensor) or array.dim() != 1:
        return None
    flags = array.dtype == torch.bool or (array.dtype == torch.uint8 and bool((array < 2).all()))
    return array.bool() if flags else None
