"""The dual graph: cells as nodes."""

from __future__ import annotations

from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from meshop.data import InputError, MeshData, in_plane_axes
from meshop.geometry import cell_centroid, cell_dim, cell_measure, facet_pairs


@functional_transform("cell_graph")
class CellGraph(BaseTransform):
    """Make the cells the nodes of the graph, for fields that live on cells.

    ``pos`` [C, D] becomes the cells' centroids, ``measure`` [C] their length, area or volume and ``edge_index`` [2, E]
    joins cells of equal dimension that share a facet (see :func:`meshop.geometry.facet_pairs`). Points, cells and all
    arrays of the mesh stay. Lower-dimensional cells that ride along are nodes, too, so that results can be written
    back, but of measure 0: theirs is no volume.

    Computed in double precision from ``points`` and kept in the precision of ``pos``.

    Raises:
        InputError: the mesh has no cells or has been through ``CellGraph`` already, or a cell has no known faces.

    >>> mesh = MeshData.from_cells([[0.0, 0], [3, 0], [3, 3], [0, 3]], [5, 5], [[0, 1, 2], [0, 2, 3]])
    >>> dual = CellGraph()(mesh)
    >>> dual.pos, dual.edge_index
    (tensor([[2., 1.],
            [1., 2.]]), tensor([[0, 1],
            [1, 0]]))
    """

    def forward(self, data: MeshData) -> MeshData:
        if data.pos.size(0) != data.num_points or "batch" in data:
            raise InputError(
                "CellGraph takes one mesh whose graph's nodes are its points; use it once, before batching"
            )
        if data.num_cells == 0:
            raise InputError("CellGraph makes cells the nodes of the graph, but the mesh has no cells")
        cells = data.cell_type, data.cell_size, data.cell_index, data.polyhedra
        points, dtype = data.points.double(), data.pos.dtype
        axes = [0, 1, 2] if data.dim == 3 else in_plane_axes(data.points) or [0, 1]
        dim = cell_dim(data.cell_type)
        data.measure = (cell_measure(points, *cells) * (dim == dim.max())).to(dtype)
        data.pos = cell_centroid(points, *cells)[:, axes].to(dtype)
        data.edge_index = facet_pairs(*cells)
        return data
