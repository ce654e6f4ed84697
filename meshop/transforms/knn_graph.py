"""The graph of nearest neighbours."""

from __future__ import annotations

from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from meshop.data import MeshData
from meshop.geometry import nearest_neighbors


@functional_transform("mesh_knn_graph")
class KNNGraph(BaseTransform):
    """Set ``edge_index`` [2, E] to the k nearest neighbours: see :func:`meshop.geometry.nearest_neighbors`.

    Unlike :class:`torch_geometric.transforms.KNNGraph` it needs no compiled extension, is symmetric, and never joins
    graphs of one batch.

    Args:
        k: number of neighbours; a node has at least that many where its graph has enough nodes.

    Raises:
        InputError: k is not positive or a coordinate is not finite.

    >>> points = MeshData.from_cells([[0.0, 0], [1, 0], [3, 0]], cell_type=[], cells=[])
    >>> KNNGraph(k=1)(points).edge_index
    tensor([[0, 1, 1, 2],
            [1, 0, 2, 1]])
    """

    def __init__(self, k: int = 8) -> None:
        self.k = k

    def forward(self, data: MeshData) -> MeshData:
        data.edge_index = nearest_neighbors(data.pos, self.k, data.batch if "batch" in data else None)
        return data

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(k={self.k})"
