"""Pure functions of coordinates and cells: no files, no devices, no Python loop over cells."""

from meshop.geometry.cells import (
    POLYHEDRON,
    cell_dim,
    cell_edges,
    cell_name,
    cell_shape,
    cells_by_shape,
    facet_pairs,
    polyhedron_faces,
)
from meshop.geometry.measure import cell_centroid, cell_measure, node_measure
from meshop.geometry.neighbors import nearest_neighbors

__all__ = [
    "POLYHEDRON",
    "cell_centroid",
    "cell_dim",
    "cell_edges",
    "cell_measure",
    "cell_name",
    "cell_shape",
    "cells_by_shape",
    "facet_pairs",
    "nearest_neighbors",
    "node_measure",
    "polyhedron_faces",
]
