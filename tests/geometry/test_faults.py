"""Faults of meshes made by hand, and of none in cells as they should be."""

import pytest
import torch
from pyvista.examples import cells as vtk_cells
from torch import Tensor

import meshop.geometry.faults as module
from meshop.data import MeshData
from meshop.geometry import cell_faults, connected_parts, duplicate_points, orphan_points
from meshop.io import from_pyvista

CUBE = [[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]]

SOUND = [
    *["Vertex", "PolyVertex", "Line", "PolyLine", "Triangle", "TriangleStrip", "Polygon", "Pixel", "Quadrilateral"],
    *["Tetrahedron", "Voxel", "Hexahedron", "Wedge", "Pyramid", "PentagonalPrism", "HexagonalPrism", "Polyhedron"],
    *["QuadraticEdge", "QuadraticTriangle", "QuadraticQuadrilateral", "QuadraticTetrahedron", "QuadraticHexahedron"],
    *["QuadraticWedge", "QuadraticPyramid", "TriQuadraticHexahedron", "BiQuadraticQuadrilateral", "CubicLine"],
    *["LagrangeCurve", "LagrangeTriangle", "LagrangeQuadrilateral", "LagrangeTetrahedron", "LagrangeHexahedron"],
    *["LagrangeWedge", "BezierTriangle", "BezierHexahedron"],
]


def faults(mesh: MeshData) -> tuple[list[int], list[int]]:
    """Numbers of the degenerate and of the inverted cells."""
    masks = cell_faults(mesh.points, mesh.cell_type, mesh.cell_size, mesh.cell_index, mesh.polyhedra)
    return tuple(mask.nonzero().squeeze(1).tolist() for mask in masks)  # type: ignore[return-value]


def test_points_without_cells_and_in_one_place() -> None:
    mesh = MeshData.from_cells([*CUBE, CUBE[3], [9, 9, 9], CUBE[3]], [12, 3], [[*range(8)], [8, 10]])
    assert orphan_points(mesh.num_points, mesh.cell_index).nonzero().flatten().tolist() == [9]
    assert duplicate_points(mesh.points).nonzero().flatten().tolist() == [8, 10]
    assert duplicate_points(mesh.points + 1e-12 * torch.arange(11).unsqueeze(1)).sum() == 0
    assert orphan_points(3, torch.zeros(0, dtype=torch.long)).all()
    assert duplicate_points(torch.full((2, 3), torch.nan)).tolist() == [False, False]


def test_parts_are_joined_by_nodes() -> None:
    # triangles 0 and 3 share a node, line 1 ends on it; triangle 2 is on its own; 4 has no nodes
    cells = [[5, 6, 7], [7, 8], [0, 1, 2], [7, 9, 3], []]
    mesh = MeshData.from_cells(torch.rand(12, 3), [5, 3, 5, 5, 0], cells)
    assert connected_parts(12, mesh.cell_size, mesh.cell_index).tolist() == [1, 1, 0, 1, -1]
    none = torch.zeros(0, dtype=torch.long)
    assert connected_parts(3, none, none).tolist() == []


def test_solid_cells_that_are_wrong() -> None:
    flat = [[0.0, 0, 2], [1, 0, 2], [1, 1, 2], [0.3, 0.2, 2]]
    cells = {
        "hexahedron": (12, [0, 1, 2, 3, 4, 5, 6, 7]),
        "upside down": (12, [4, 5, 6, 7, 0, 1, 2, 3]),
        "as pixels": (12, [0, 1, 3, 2, 4, 5, 7, 6]),  # bow ties: no volume
        "node twice": (12, [0, 1, 2, 2, 4, 5, 6, 6]),
        "tetrahedron": (10, [0, 1, 3, 4]),
        "tetrahedron inside out": (10, [1, 0, 3, 4]),
        "sliver": (10, [8, 9, 10, 11]),
        "pyramid": (14, [0, 1, 2, 3, 4]),
        "pyramid inside out": (14, [3, 2, 1, 0, 4]),
        "as voxel": (11, [0, 1, 3, 2, 4, 5, 7, 6]),
        "voxel inside out": (11, [4, 5, 7, 6, 0, 1, 3, 2]),
    }
    mesh = MeshData.from_cells([*CUBE, *flat], [c for c, _ in cells.values()], [n for _, n in cells.values()])
    names = list(cells)
    degenerate, inverted = faults(mesh)
    assert [names[i] for i in degenerate] == ["as pixels", "node twice", "sliver"]
    assert [names[i] for i in inverted] == [
        *("upside down", "tetrahedron inside out", "pyramid inside out", "voxel inside out")
    ]


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_cell_of_vtk_is_faulty(name: str, dtype: torch.dtype) -> None:
    mesh = from_pyvista(getattr(vtk_cells, name)())
    mesh.points = mesh.points.to(dtype) * 1e-3 + 2
    assert faults(mesh) == ([], [])


@pytest.mark.parametrize("name", ["QuadraticTetrahedron", "QuadraticHexahedron", "QuadraticPyramid"])
def test_quadratic_cells_are_judged_by_their_corners(name: str) -> None:
    mesh = from_pyvista(getattr(vtk_cells, name)())
    mesh.points = mesh.points * torch.tensor([1.0, 1, -1])
    assert faults(mesh) == ([], [0])
    mesh.points = mesh.points * torch.tensor([1.0, 1, 0])
    assert faults(mesh) == ([0], [])


def test_wedges_and_plane_cells_run_as_most_of_them_do() -> None:
    prism = [[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 1]]
    one, other = [0, 1, 2, 3, 4, 5], [3, 4, 5, 0, 1, 2]
    assert faults(MeshData.from_cells(prism, [13] * 3, [one, other, one])) == ([], [1])
    assert faults(MeshData.from_cells(prism, [13] * 3, [other, other, one])) == ([], [2])
    assert faults(MeshData.from_cells(prism, [13], [other])) == ([], [])
    plane = torch.tensor(CUBE)[[0, 1, 2, 3]]
    for axes in ([0, 1, 2], [0, 2, 1], [2, 0, 1]):
        cells = [[0, 1, 2, 3], [0, 2, 1], [0, 1, 2], [0, 1, 1], [0, 1, 2, 3]]
        assert faults(MeshData.from_cells(plane[:, axes], [9, 5, 5, 5, 8], cells)) == ([3, 4], [1])
    bent = MeshData.from_cells(CUBE, [9, 9], [[0, 1, 2, 3], [0, 1, 5, 4]])  # sides of a box have no common way round
    assert faults(bent) == ([], [])


def test_lines_polyhedra_and_vertices() -> None:
    lines = MeshData.from_cells(CUBE, [3, 3, 4, 21, 1, 1], [[0, 1], [1, 1], [0, 1, 2, 0], [0, 2, 1], [3], [3]])
    assert faults(lines) == ([1], [])
    solid = from_pyvista(vtk_cells.Polyhedron())
    assert faults(solid) == ([], [])
    solid.points[:, 2] = 0
    assert faults(solid) == ([0], [])


@pytest.mark.parametrize(("dtype", "thin"), [(torch.float64, 1e-7), (torch.float32, 1e-5)])
def test_thin_cells_of_boundary_layers_are_sound(dtype: torch.dtype, thin: float) -> None:
    layer = torch.tensor(CUBE, dtype=dtype) * torch.tensor([1, 1, thin], dtype=dtype)
    cells = [[*range(8)], [0, 1, 3, 4]]
    assert faults(MeshData.from_cells(layer, [12, 10], cells)) == ([], [])
    assert faults(MeshData.from_cells(layer * torch.tensor([1.0, 1, 1e-4]).to(dtype), [12, 10], cells)) == ([0, 1], [])


def test_points_that_are_no_numbers_do_not_hide_other_faults() -> None:
    mesh = MeshData.from_cells(
        [*CUBE, [torch.nan] * 3], [12, 10, 10], [[4, 5, 6, 7, *range(4)], [0, 1, 3, 8], [0, 0, 1, 2]]
    )
    assert faults(mesh) == ([2], [0])


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    codes = torch.tensor([5, 10, 9, 3, 12])[torch.randint(5, (60,), generator=generator)].tolist()
    sizes = {5: 3, 10: 4, 9: 4, 3: 2, 12: 8}
    cells = [torch.randint(30, (sizes[code],), generator=generator).tolist() for code in codes]
    mesh = MeshData.from_cells(torch.rand(30, 3, generator=generator), codes, cells)
    whole = faults(mesh)
    assert whole[0]
    assert whole[1]
    monkeypatch.setattr(module, "BLOCK", 7)
    assert faults(mesh) == whole


def test_a_shift_and_a_scale_do_not_matter() -> None:
    points: Tensor = torch.rand(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    cells = torch.randint(40, (200, 4), generator=torch.Generator().manual_seed(2)).tolist()
    told = faults(MeshData.from_cells(points, [10] * 200, cells))
    assert told == faults(MeshData.from_cells(points * 1e-6 + 3, [10] * 200, cells))
    assert told == faults(MeshData.from_cells(points * 1e6 - 5e6, [10] * 200, cells))
