"""The graph of a mesh's own edges."""

from __future__ import annotations

from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from meshop.data import InputError, MeshData
from meshop.geometry import cell_edges


@functional_transform("cells_to_edges")
class CellsToEdges(BaseTransform):
    """Set ``edge_index`` [2, E] to the edges of the cells: see :func:`meshop.geometry.cell_edges`.

    Unlike :class:`torch_geometric.transforms.FaceToEdge` it knows every cell type (a quad has four edges and no
    diagonal), and the cells stay, so that results can be written back.

    Args:
        corners_only: join the corners of quadratic cells directly and leave their other nodes alone.

    Raises:
        InputError: the nodes of the graph are not the points of the mesh, or a cell has no known edges.

    >>> square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], cell_type=[9], cells=[[0, 1, 2, 3]])
    >>> CellsToEdges()(square).edge_index.size(1)
    8
    """

    def __init__(self, corners_only: bool = False) -> None:
        self.corners_only = corners_only

    def forward(self, data: MeshData) -> MeshData:
        if data.pos.size(0) != data.num_points:
            raise InputError(
                f"CellsToEdges joins the {data.num_points} points of a mesh, but the graph has {data.pos.size(0)} "
                "nodes; use it instead of CellGraph, not after it"
            )
        data.edge_index = cell_edges(
            data.cell_type, data.cell_size, data.cell_index, data.polyhedra, corners_only=self.corners_only
        )
        return data

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(corners_only={self.corners_only})"
