import warnings

import matplotlib
import matplotlib.image
import numpy as np
import pytest
import torch
from test_render import colour, plate, where

from meshop import InputError, MeshData
from meshop.io import to_pyvista
from meshop.render import assignment, can_render, compare, matrices, side_by_side
from meshop.render.figure import FOOT, panel_size
from meshop.render.scene import Scene


@pytest.fixture(params=["vtk", "matplotlib"])
def renderer(request, monkeypatch):
    if request.param == "vtk" and not can_render():
        pytest.skip("VTK cannot draw here")
    monkeypatch.setenv("MESHOP_RENDERER", request.param)


def panels(image, mask, count, columns, above=0):
    """Shares of the panels' area that a mask covers, one a panel."""
    width, height = panel_size((1.5, 1.0), columns)
    covered = []
    for i in range(count):
        row, column = divmod(i, columns)
        top, left = above + 16 + row * (66 + height + FOOT) + 66, 24 + column * (width + 24)
        covered.append(mask[top : top + height, left : left + width].mean())
    return covered


def test_a_panel_a_slice_the_largest_first(renderer):
    # slices hold 48, 12, 36 and none of the 96 cells; margins and outlines take an eighth of a small panel
    owner = np.repeat([0, 1, 2], [48, 12, 36])
    weight = np.eye(4)[owner]
    image = assignment(plate(), torch.tensor(weight), location="cell")
    high, low = where(image, colour("viridis", 1.0)), where(image, colour("viridis", 0.0))
    assert np.allclose(panels(image, high, 4, 4), 0.875 * np.array([0.5, 0.375, 0.125, 0]), atol=0.02)
    assert np.allclose(panels(image, low, 4, 4), 0.875 * np.array([0.5, 0.625, 0.875, 1]), atol=0.02)
    two = assignment(plate(), weight, location="cell", top=2)
    assert np.allclose(panels(two, where(two, colour("viridis", 1.0)), 2, 2), [0.5, 0.375], atol=0.05)


def test_colours_go_from_zero_to_the_largest_weight_of_each_panel(renderer):
    weight = np.column_stack([np.full(96, 0.6), np.where(np.arange(96) < 48, 0.1, 0.2), np.full(96, 0.1)])
    image = assignment(plate(), weight, location="cell", cmap="plasma")
    assert np.allclose(panels(image, where(image, colour("plasma", 1.0)), 3, 3), [0.95, 0.47, 0.95], atol=0.05)
    assert np.allclose(panels(image, where(image, colour("plasma", 0.5)), 3, 3), [0, 0.47, 0], atol=0.05)


def test_more_slices_than_a_row_holds(renderer):
    weight = np.full((117, 8), 0.125)
    image = assignment(plate(), weight)
    assert np.allclose(panels(image, where(image, colour("viridis", 1.0)), 8, 6), 0.9, atol=0.1)
    assert assignment(plate(), weight, top=6).shape[0] < image.shape[0]


def test_truth_prediction_and_error_stand_above(renderer, tmp_path):
    mesh = plate()
    mesh.cell_data["p"], mesh.cell_data["p_pred"] = np.arange(96.0), np.arange(96.0) ** 2
    mesh.point_data["p"] = mesh.point_data["p_pred"] = np.zeros(117)
    above = compare(mesh, "p:cell", unit="Pa", title="case 1")
    image = assignment(
        mesh, np.ones((96, 2)) / 2, tmp_path / "a.png", location="cell", name="p", unit="Pa", title="case 1"
    )
    margin = (image.shape[1] - above.shape[1]) // 2
    assert np.array_equal(image[: len(above), margin : margin + above.shape[1]], above)
    below = assignment(mesh, np.ones((96, 2)) / 2, location="cell")
    margin = (image.shape[1] - below.shape[1]) // 2
    assert np.array_equal(image[len(above) :, margin : margin + below.shape[1]], below)
    assert (tmp_path / "a.png").exists()


def test_volumes_and_points(monkeypatch):
    if not can_render():
        pytest.skip("VTK cannot draw here")
    corners = [[i & 1, i >> 1 & 1, i >> 2 & 1] for i in range(8)]
    cube = MeshData.from_cells(corners, [11], [range(8)])
    cloud = MeshData.from_cells(np.random.default_rng(0).random((50, 2)), [], [])
    for mesh in (cube, cloud):
        image = assignment(mesh, np.ones((mesh.num_points, 1)), lighting=False)
        assert where(image[82:-FOOT], colour("viridis", 1.0)).sum() > 1000


def test_outlines_do_not_follow_how_triangles_are_listed():
    square = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
    same = MeshData.from_cells(square, [5, 5], [[0, 1, 2], [0, 2, 3]])
    turned = MeshData.from_cells(square, [5, 5], [[0, 1, 2], [0, 3, 2]])
    for mesh in (same, turned):
        assert Scene.of(to_pyvista(mesh), "point", {}, None).outline.n_cells == 4


def test_errors_of_assignment(monkeypatch):
    monkeypatch.setenv("MESHOP_RENDERER", "matplotlib")
    with pytest.raises(InputError, match=r"weights \[117, M\], a row for each point \(got \[96, 4\]\)"):
        assignment(plate(), np.ones((96, 4)))
    with pytest.raises(InputError, match=r"weights \[96, M\], a row for each cell \(got \[96\]\)"):
        assignment(plate(), np.ones(96), location="cell")
    with pytest.raises(InputError, match="one slice at least"):
        assignment(plate(), np.ones((117, 4)), top=0)
    with pytest.raises(InputError, match="'p_pred:point' is not in the mesh"):
        assignment(plate(), np.ones((117, 4)), name="p")


# matrices ------------------------------------------------------------------------------------------------------------


def test_matrices_are_drawn_row_by_row_in_one_range(tmp_path):
    one = [[0.0, 1.0], [0.5, 0.0]]
    image = matrices({"one": one, "two": np.full((3, 3), 2.0)}, tmp_path / "m.png")
    first, second = image[66 : 66 + 420, 84 : 84 + 420], image[66 : 66 + 420, 84 + 504 : 84 + 504 + 420]
    values = [[first[y, x] for x in (105, 315)] for y in (105, 315)]
    expected = [[colour("viridis", v / 2) for v in row] for row in one]
    assert np.allclose(values, expected, atol=3)
    assert where(second, colour("viridis", 1.0)).mean() > 0.95
    assert np.array_equal(matplotlib.image.imread(tmp_path / "m.png")[..., :3], image / np.float32(255))
    many = matrices({str(i): np.eye(2) for i in range(5)}, title="title", clim=(-1, 1), cmap="plasma", label="cosine")
    assert many.shape[1] == 24 + 4 * 504
    assert where(many, colour("plasma", 1.0)).sum() > 4 * 0.45 * 420**2


def test_a_matrix_of_zeros_or_of_nothing_finite_has_a_range():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (0.0, np.nan):
            assert matrices({"": np.full((2, 2), value)}).shape[2] == 3


@pytest.mark.parametrize(
    ("values", "got"), [({}, "none"), ({"a": np.ones(3)}, r"a \[3\]"), ({"b": np.ones((0, 2))}, r"b \[0, 2\]")]
)
def test_errors_of_matrices(values, got):
    with pytest.raises(InputError, match=rf"Expected matrices to draw \(got {got}\)"):
        matrices(values)


def test_side_by_side_fills_up_with_white(tmp_path):
    black, grey = np.zeros((2, 3, 3), np.uint8), np.full((4, 5, 3), 128, np.uint8)
    picture = side_by_side([black, grey], tmp_path / "both.png")
    assert np.array_equal(picture[:2, :3], black)
    assert np.array_equal(picture[:, 3:], grey)
    assert (picture[2:, :3] == 255).all()
    assert (tmp_path / "both.png").exists()
