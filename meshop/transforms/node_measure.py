"""The measure of each node."""

from __future__ import annotations

from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from meshop.data import InputError, MeshData
from meshop.geometry import node_measure


@functional_transform("node_measure")
class NodeMeasure(BaseTransform):
    """Set ``measure`` [N] to each node's part of length, area or volume: see :func:`meshop.geometry.node_measure`.

    Computed in double precision from ``points`` and kept in the precision of ``pos``.

    Raises:
        InputError: the nodes of the graph are not the points of the mesh, or a cell has no known faces.

    >>> square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], cell_type=[9], cells=[[0, 1, 2, 3]])
    >>> NodeMeasure()(square).measure
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def forward(self, data: MeshData) -> MeshData:
        if data.pos.size(0) != data.num_points:
            raise InputError(
                f"NodeMeasure weighs the {data.num_points} points of a mesh, but the graph has {data.pos.size(0)} "
                "nodes; CellGraph has set the measure of the cells already"
            )
        measure = node_measure(
            data.points.double(),
            data.cell_type,
            data.cell_size,
            data.cell_index,
            data.polyhedra,
            data.batch if "batch" in data else None,
        )
        data.measure = measure.to(data.pos.dtype)
        return data
