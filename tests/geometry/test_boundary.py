"""Boundary facets: counted on solids, surfaces and curved cells; cells of lower dimension are left out."""

import pytest
import pyvista as pv
import torch

from meshop.data import MeshData
from meshop.geometry import boundary_facets
from meshop.io import from_pyvista


def facets(mesh: MeshData) -> list[set[int]]:
    """The nodes of each boundary facet."""
    found = boundary_facets(mesh.cell_type, mesh.cell_size, mesh.cell_index, mesh.polyhedra)
    return [set(row) for _, around, inside in found for row in torch.cat([around, inside], 1).tolist()]


def test_a_block_of_hexahedra_has_the_faces_of_its_sides() -> None:
    mesh = from_pyvista(pv.ImageData(dimensions=(3, 4, 5)).cast_to_unstructured_grid())
    found = facets(mesh)
    assert len(found) == 2 * (2 * 3 + 3 * 4 + 4 * 2)
    low, high = mesh.points.amin(0), mesh.points.amax(0)
    for face in found:
        x = mesh.points[sorted(face)]
        assert bool(((x == low).all(0) | (x == high).all(0)).any())


def test_neighbours_of_different_cells_share_a_facet() -> None:
    points = [[0.0, 0], [1, 0], [1, 1], [0, 1], [2, 0], [0.5, 0]]
    quadratic = MeshData.from_cells(points, [7, 5], [[0, 1, 2, 3], [1, 4, 2]])
    assert sorted(map(sorted, facets(quadratic))) == [[0, 1], [0, 3], [1, 4], [2, 3], [2, 4]]


def test_a_facet_of_a_quadratic_cell_has_its_middle_node() -> None:
    points = [[0.0, 0], [2, 0], [0, 2], [1, 0], [1, 1], [0, 1]]
    mesh = MeshData.from_cells(points, [22], [[0, 1, 2, 3, 4, 5]])
    [(cells, around, inside)] = boundary_facets(mesh.cell_type, mesh.cell_size, mesh.cell_index)
    assert around.tolist() == [[0, 3, 1], [1, 4, 2], [2, 5, 0]]
    assert inside.shape == (3, 0)
    assert cells.tolist() == [0, 0, 0]


def test_lines_beside_a_surface_change_nothing() -> None:
    square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], [9, 3], [[0, 1, 2, 3], [0, 1]])
    assert len(facets(square)) == 4


def test_a_closed_surface_and_a_cloud_have_none() -> None:
    assert facets(from_pyvista(pv.Sphere())) == []
    assert facets(MeshData.from_cells([[0.0, 0]], [], [])) == []


@pytest.mark.parametrize("solid", [pv.examples.cells.Polyhedron, pv.examples.cells.Tetrahedron])
def test_a_solid_alone_is_bounded_by_its_faces(solid: type) -> None:
    assert len(facets(from_pyvista(solid()))) == 4
