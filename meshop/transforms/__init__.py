"""From mesh to graph, from trajectory to window, as PyG transforms: each returns a changed copy of a mesh."""

from meshop.transforms.boundary_distance import BoundaryDistance
from meshop.transforms.box_cox import BoxCox
from meshop.transforms.cell_graph import CellGraph
from meshop.transforms.cells_to_edges import CellsToEdges
from meshop.transforms.cells_to_points import CellsToPoints
from meshop.transforms.center import Center
from meshop.transforms.knn_graph import KNNGraph
from meshop.transforms.markers import Markers
from meshop.transforms.merge_points import MergePoints
from meshop.transforms.node_measure import NodeMeasure
from meshop.transforms.normals import Normals
from meshop.transforms.points_to_cells import PointsToCells
from meshop.transforms.signed_distance import SignedDistance
from meshop.transforms.subsample_nodes import SubsampleNodes
from meshop.transforms.window import Window

__all__ = [
    "BoundaryDistance",
    "BoxCox",
    "CellGraph",
    "CellsToEdges",
    "CellsToPoints",
    "Center",
    "KNNGraph",
    "Markers",
    "MergePoints",
    "NodeMeasure",
    "Normals",
    "PointsToCells",
    "SignedDistance",
    "SubsampleNodes",
    "Window",
]
