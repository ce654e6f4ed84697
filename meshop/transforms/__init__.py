"""From mesh to graph, as PyG transforms: each takes a :class:`~meshop.data.MeshData` and returns a changed copy."""

from meshop.transforms.box_cox import BoxCox
from meshop.transforms.cell_graph import CellGraph
from meshop.transforms.cells_to_edges import CellsToEdges
from meshop.transforms.cells_to_points import CellsToPoints
from meshop.transforms.center import Center
from meshop.transforms.knn_graph import KNNGraph
from meshop.transforms.node_measure import NodeMeasure
from meshop.transforms.points_to_cells import PointsToCells

__all__ = ["BoxCox", "CellGraph", "CellsToEdges", "CellsToPoints", "Center", "KNNGraph", "NodeMeasure", "PointsToCells"]
