import numpy as np
import pytest
import pyvista as pv

from meshop import MeshData
from meshop.io import to_pyvista
from meshop.render.scene import Scene, plane_normal, turn, visible, without_riders

CUBE = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]]


def test_values_stay_on_their_points():
    # ids of points count twice after two extractions: of the volume's cells, then of their surface
    volume = pv.ImageData(dimensions=(3, 3, 3)).cast_to_unstructured_grid()
    grid = pv.merge([volume, visible(volume, "point", {}).triangulate()], merge_points=True)
    value = (grid.points @ [1.0, 10.0, 100.0]).astype(np.float32)
    surface = visible(grid, "point", {"0": value})
    assert surface.n_points == 26
    assert np.array_equal(surface.point_data["0"], surface.points @ np.float32([1, 10, 100]))


def test_cells_that_ride_along_do_not_hide_the_volume():
    points = [*CUBE, [0, 0, 2], [1, 0, 2], [9, 9, 9]]
    marker, edge, vertex, shell, beam = [4, 5, 6, 7], [0, 1], [2], [4, 5, 9, 8], [0, 10]
    cells = [marker, edge, vertex, list(range(8)), shell, beam]
    grid = to_pyvista(MeshData.from_cells(points, [9, 3, 1, 12, 9, 3], cells))
    assert without_riders(grid).celltypes.tolist() == [12, 9, 3]
    surface = visible(grid, "cell", {"0": np.arange(6, dtype=np.float32)})
    assert sorted(surface.cell_data["0"]) == [3, 3, 3, 3, 3, 3, 4, 5]
    only = pv.ImageData(dimensions=(2, 2, 2)).cast_to_unstructured_grid()
    assert without_riders(only) is only


def test_points_of_no_cell_do_not_count():
    square = MeshData.from_cells([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [50, 50, 50]], [9], [[0, 1, 2, 3]])
    scene = Scene.of(to_pyvista(square), "cell", {"0": np.zeros(1, np.float32)}, None)
    assert scene.flat
    assert np.allclose(scene.extent, 1)


def test_a_file_of_separate_triangles_has_the_edges_of_its_shape():
    cube = pv.Cube().triangulate()
    corners = cube.points[cube.regular_faces].reshape(-1, 3)
    soup = pv.PolyData(corners, np.insert(np.arange(36).reshape(12, 3), 0, 3, axis=1).ravel())
    assert Scene.of(soup, "cell", {}, None).outline.n_cells == 12


@pytest.mark.parametrize("normal", [(0, 0, 1), (0, -1, 0), (1, 0, 0), (0.6, 0, 0.8), (0.48, -0.6, 0.64)])
def test_normals_point_to_the_viewer(normal):
    rng = np.random.default_rng(0)
    basis = np.linalg.svd(np.atleast_2d(normal))[2][1:]
    points = rng.random((30, 2)) @ basis + [1e3, 2e3, -5e2]
    found = plane_normal(points)
    assert found is not None
    assert np.allclose(found, normal, atol=1e-9)
    assert plane_normal(points + np.outer(rng.random(30), normal)) is None


@pytest.mark.parametrize("line", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0)])
def test_lines_are_seen_from_their_side(line):
    points = np.outer(np.linspace(0, 2, 9), line)
    normal = plane_normal(points)
    assert normal is not None
    assert abs(normal @ line) < 1e-12
    assert np.allclose(np.ptp(turn([points], normal.tolist())[0], axis=0)[:2].max(), 1)


def test_turning_is_rigid_and_right_handed():
    points = np.random.default_rng(0).normal(size=(20, 3))
    for view in [(0, 0, 1), (0, 0, -1), (1, -1, 1), (-0.2, 3, 0.1)]:
        turned = turn([points], view)[0]
        size = np.linalg.norm(points[1:] - points[0], axis=1) / np.linalg.norm(turned[1:] - turned[0], axis=1)
        assert np.allclose(size, size[0])
        assert np.linalg.det(points[1:4] - points[0]) * np.linalg.det(turned[1:4] - turned[0]) > 0
        nearest = np.argmax(points @ view)
        assert nearest == np.argmax(turned[:, 2])
    assert np.allclose(
        turn([points], (0, 0, 1))[0] * np.ptp(points, axis=0).max(), points - (points.min(0) + points.max(0)) / 2
    )
    flat = turn([np.zeros((1, 3))], (1, 0, 0))[0]
    assert np.array_equal(flat, np.zeros((1, 3)))
