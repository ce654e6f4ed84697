"""From mesh to graph, as PyG transforms: each takes a :class:`~meshop.data.MeshData` and returns a changed copy."""

from meshop.transforms.cells_to_edges import CellsToEdges
from meshop.transforms.knn_graph import KNNGraph
from meshop.transforms.node_measure import NodeMeasure

__all__ = ["CellsToEdges", "KNNGraph", "NodeMeasure"]
