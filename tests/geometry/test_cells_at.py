"""Which cells have a facet on a side."""

import torch
from pyvista.examples import cells as vtk_cells

from meshop.geometry import cells_at
from meshop.io import from_pyvista


def at(mesh, codes: list[int], cells: list[list[int]]) -> list[bool]:  # type: ignore[no-untyped-def]
    sides = torch.tensor(codes), torch.tensor([len(c) for c in cells]), torch.tensor([n for c in cells for n in c])
    return cells_at((mesh.cell_type, mesh.cell_size, mesh.cell_index, mesh.polyhedra), sides).tolist()


def test_corners_are_compared_in_any_order_and_without_the_nodes_between() -> None:
    cube = from_pyvista(vtk_cells.QuadraticHexahedron())
    assert at(cube, [9], [[3, 0, 1, 2]]) == [True]
    assert at(cube, [23], [[1, 2, 6, 5, 9, 18, 13, 17]]) == [True]
    assert at(cube, [9], [[0, 1, 2, 6]]) == [False]
    assert at(cube, [5], [[0, 1, 2]]) == [False]  # part of a face is none
    assert at(cube, [1], [[0]]) == [False]


def test_faces_of_polyhedra_and_cells_themselves() -> None:
    solid = from_pyvista(vtk_cells.Polyhedron())
    face = solid.polyhedra[2][solid.polyhedra[1] == 0].tolist()
    assert at(solid, [7], [face[::-1]]) == [True]
    assert at(from_pyvista(vtk_cells.Triangle()), [5], [[2, 0, 1]]) == [True]
    assert at(from_pyvista(vtk_cells.Triangle()), [3], [[2, 0]]) == [True]
