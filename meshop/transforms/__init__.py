"""From mesh to graph, from trajectory to window, as PyG transforms: each returns a changed copy of a mesh."""

from meshop.transforms.box_cox import BoxCox
from meshop.transforms.cell_graph import CellGraph
from meshop.transforms.cells_to_edges import CellsToEdges
from meshop.transforms.cells_to_points import CellsToPoints
from meshop.transforms.center import Center
from meshop.transforms.knn_graph import KNNGraph
from meshop.transforms.merge_points import MergePoints
from meshop.transforms.node_measure import NodeMeasure
from meshop.transforms.points_to_cells import PointsToCells
from meshop.transforms.window import Window

__all__ = [
    "BoxCox",
    "CellGraph",
    "CellsToEdges",
    "CellsToPoints",
    "Center",
    "KNNGraph",
    "MergePoints",
    "NodeMeasure",
    "PointsToCells",
    "Window",
]
