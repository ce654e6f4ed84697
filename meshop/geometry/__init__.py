"""Pure functions of coordinates and cells: no files, no devices, no Python loop over cells."""

from meshop.geometry.area_vector import cell_area_vector
from meshop.geometry.boundary import boundary_facets
from meshop.geometry.cells import (
    POLYHEDRON,
    cell_dim,
    cell_edges,
    cell_name,
    cell_shape,
    cells_at,
    cells_by_shape,
    facet_pairs,
    polyhedron_faces,
)
from meshop.geometry.distance import facet_distance, surface_distance
from meshop.geometry.faults import cell_faults, connected_parts, duplicate_points, orphan_points
from meshop.geometry.measure import cell_centroid, cell_measure, cell_shares, node_measure
from meshop.geometry.neighbors import nearest_neighbors
from meshop.geometry.transfer import cells_to_points, points_to_cells

__all__ = [
    "POLYHEDRON",
    "boundary_facets",
    "cell_area_vector",
    "cell_centroid",
    "cell_dim",
    "cell_edges",
    "cell_faults",
    "cell_measure",
    "cell_name",
    "cell_shape",
    "cell_shares",
    "cells_at",
    "cells_by_shape",
    "cells_to_points",
    "connected_parts",
    "duplicate_points",
    "facet_distance",
    "facet_pairs",
    "nearest_neighbors",
    "node_measure",
    "orphan_points",
    "points_to_cells",
    "polyhedron_faces",
    "surface_distance",
]
