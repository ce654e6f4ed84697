import errno
import subprocess
import sys

import matplotlib
import matplotlib.image
import numpy as np
import pytest
import pyvista as pv

from meshop import InputError, MeshData
from meshop.io import from_pyvista
from meshop.render import NAN_COLOR, can_render, compare, field, limits, paint
from meshop.render.figure import FOOT, panel_size


@pytest.fixture(params=["vtk", "matplotlib"])
def renderer(request, monkeypatch):
    """Both painters, on whatever follows."""
    if request.param == "vtk" and not can_render():
        pytest.skip("VTK cannot draw here")
    monkeypatch.setenv("MESHOP_RENDERER", request.param)
    return request.param


@pytest.fixture
def vtk():
    if not can_render():
        pytest.skip("VTK cannot draw here")


def plate(nx=12, ny=8, normal="z"):
    """A plate of nx x ny squares whose cells are numbered along its first axis first."""
    x, y = np.meshgrid(np.linspace(0, 1.5, nx + 1), np.linspace(0, 1, ny + 1))
    columns = [x.ravel(), y.ravel()]
    columns.insert("xyz".index(normal), np.zeros(x.size))
    first = (np.arange(ny)[:, None] * (nx + 1) + np.arange(nx)).ravel()
    faces = np.column_stack([np.full(nx * ny, 4), first, first + 1, first + nx + 2, first + nx + 1])
    return pv.PolyData(np.column_stack(columns), faces.ravel()).cast_to_unstructured_grid()


def box(n=4):
    return pv.ImageData(dimensions=(n + 1, n + 1, n + 1)).cast_to_unstructured_grid()


def colour(cmap, value):
    return np.array(matplotlib.colormaps[cmap](value)[:3]) * 255


def where(image, rgb, tolerance=4):
    """The pixels [H, W] of a colour."""
    rgb = np.array(matplotlib.colors.to_rgb(rgb)) * 255 if isinstance(rgb, str) else rgb
    return np.abs(image - np.asarray(rgb, dtype=float)).max(-1) <= tolerance


def thirds(image, mask):
    """Shares of the panels' area that a mask covers, one a panel."""
    width, height = panel_size((1.5, 1.0), 3)
    left = [24 + i * (width + 24) for i in range(3)]
    return [mask[66 + 16 : 66 + 16 + height, x : x + width].mean() for x in left]


# one range for truth and prediction, a symmetric one for the error ----------------------------------------------------


def test_truth_and_prediction_share_one_range(renderer):
    mesh = plate()
    mesh.cell_data["p"], mesh.cell_data["p_pred"] = np.zeros(96), np.ones(96)
    image = compare(mesh, "p")
    # had each panel a range of its own, both would have the middle colour
    assert np.allclose(thirds(image, where(image, colour("viridis", 0.0))), [0.95, 0, 0], atol=0.05)
    assert np.allclose(thirds(image, where(image, colour("viridis", 1.0))), [0, 0.95, 0], atol=0.05)
    assert np.allclose(thirds(image, where(image, colour("coolwarm", 1.0))), [0, 0, 0.95], atol=0.05)


def test_the_range_of_the_error_is_symmetric(renderer):
    mesh = plate()
    truth = np.zeros(96)
    mesh.cell_data["p"], mesh.cell_data["p_pred"] = truth, np.where(np.arange(96) % 12 < 6, 1.0, -0.5)
    image = compare(mesh, "p")
    assert np.allclose(thirds(image, where(image, colour("coolwarm", 1.0)))[2], 0.47, atol=0.03)
    assert np.allclose(thirds(image, where(image, colour("coolwarm", 0.25)))[2], 0.47, atol=0.03)


def test_a_stored_error_is_drawn_as_it_is(renderer):
    mesh = plate()
    mesh.cell_data["p"], mesh.cell_data["p_pred"] = np.zeros(96), np.ones(96)
    mesh.cell_data["p_error"] = np.full(96, -2.0)
    assert thirds(image := compare(mesh, "p"), where(image, colour("coolwarm", 0.0)))[2] > 0.9


def test_limits():
    assert limits([3, 1], [[2.0, 7.0]]) == (1, 7)
    assert limits([np.nan, 2.0, np.inf, 4.0]) == (2, 4)
    assert limits([np.nan], []) == (0, 1)
    assert limits([True, False]) == (0, 1)
    assert limits([1e-3, -4.0], symmetric=True) == (-4, 4)
    for constant in (0.0, -3.0, 1e-300, 1e300, 1e-320):
        low, high = limits([constant, constant])
        assert low < constant < high
        low, high = limits([constant], symmetric=True)
        assert low == -high < 0


# colours mean values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "low_high",
    [(0.0, 1.0), (-1e300, 1e300), (1e-300, 3e-300), (101325.0, 101325.5), (-1, 4), (5.0, np.nextafter(5.0, 6))],
)
def test_any_range_uses_the_whole_map(renderer, low_high):
    mesh = plate()
    mesh.cell_data["p"] = np.where(np.arange(96) < 48, *low_high)
    image = field(mesh, "p")
    full = where(image, colour("viridis", 0.0)).sum() + where(image, colour("viridis", 1.0)).sum()
    assert full > 0.9 * 900 * 600 * 0.95


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32])
def test_any_number_type(renderer, dtype):
    mesh = plate()
    mesh.cell_data["marker"] = np.arange(96) < 48
    mesh.cell_data["marker"] = mesh.cell_data["marker"].astype(dtype)
    below = where(field(mesh, "marker"), colour("viridis", 1.0))
    assert below.sum() > 0.45 * 900 * 600


def test_a_constant_has_the_colour_of_the_middle(renderer):
    mesh = plate()
    mesh.point_data["T"] = np.full(mesh.n_points, 293.0)
    assert where(field(mesh, "T"), colour("viridis", 0.5)).sum() > 0.9 * 900 * 600


def test_what_is_not_finite_has_its_own_colour(renderer):
    mesh = plate()
    truth = np.arange(96.0)
    truth[[3, 40]] = np.nan, np.inf
    mesh.cell_data["p"], mesh.cell_data["p_pred"] = truth, np.arange(96.0)
    image = compare(mesh, "p")
    share = 2 / 96
    assert np.allclose(thirds(image, where(image, NAN_COLOR)), [share, 0, share], atol=0.005)
    assert where(compare(mesh, "p", nan_color="lime"), "lime").sum() > where(image, NAN_COLOR).sum() * 0.95


def test_a_point_that_is_not_finite_is_seen(renderer):
    mesh = plate()
    mesh.point_data["T"] = np.where(np.arange(mesh.n_points) == 60, np.nan, mesh.points[:, 0])
    seen = where(field(mesh, "T"), NAN_COLOR)[:600].sum() / (900 * 600)  # without the mark at the colour bar
    assert 1 / 96 < seen < 5 / 96  # of the four squares about it


def test_nothing_finite_at_all(renderer):
    mesh = plate()
    mesh.cell_data["p"] = np.full(96, np.nan)
    assert where(field(mesh, "p"), NAN_COLOR).sum() > 0.9 * 900 * 600


def test_clim_and_cmap_hold_for_truth_and_prediction(renderer):
    mesh = plate()
    mesh.cell_data["p"], mesh.cell_data["p_pred"] = np.zeros(96), np.ones(96)
    image = compare(mesh, "p", clim=(-1, 1), cmap="plasma")
    assert np.allclose(thirds(image, where(image, colour("plasma", 0.5))), [0.95, 0, 0], atol=0.05)
    assert np.allclose(thirds(image, where(image, colour("plasma", 1.0))), [0, 0.95, 0], atol=0.05)


def test_blocks_share_the_colours_of_the_given_limits(renderer):
    whole, blocks = plate(), pv.MultiBlock()
    for value, cells in enumerate((range(48), range(48, 96))):
        block = whole.extract_cells(cells)
        block.clear_data()
        block.cell_data["p"], block.cell_data["p_pred"] = np.full(48, float(value)), np.full(48, 1.0 - value)
        blocks[str(value)] = block
    image = compare(from_pyvista(blocks), "p", clim=(-1, 1))
    for value in (0.5, 1.0):
        assert np.allclose(thirds(image, where(image, colour("viridis", value))), [0.47, 0.47, 0], atol=0.03)
    for value in (0.0, 1.0):
        assert np.allclose(thirds(image, where(image, colour("coolwarm", value))), [0, 0, 0.47], atol=0.03)


def test_a_sphere_without_a_display(renderer, monkeypatch, tmp_path):
    monkeypatch.delenv("DISPLAY", raising=False)
    ball = pv.Sphere()
    ball.point_data["p"] = ball.points[:, 2]
    ball.point_data["v"] = ball.points[:, :2].copy()
    if renderer == "matplotlib":
        with pytest.raises(InputError, match="plane"):
            field(ball, "p")
        return
    field(ball, "p", tmp_path / "p.png")
    assert len(np.unique(matplotlib.image.imread(tmp_path / "p.png").reshape(-1, 4), axis=0)) > 100
    magnitude, x = field(ball, "v"), field(ball, "v", component="0")
    assert magnitude.shape == x.shape
    assert not np.array_equal(magnitude, x)


# vectors ------------------------------------------------------------------------------------------------------------


def swirl(columns):
    mesh = plate()
    truth, predicted = np.zeros((96, columns)), np.zeros((96, columns))
    truth[:, 0], predicted[:, 0] = 1, -1
    mesh.cell_data["U"], mesh.cell_data["U_pred"] = truth, predicted
    return mesh


def test_the_error_of_a_magnitude_is_the_length_of_the_difference(renderer):
    image = compare(swirl(3), "U")
    # |U| and |U_pred| are both 1: their difference would be zero
    assert np.allclose(thirds(image, where(image, colour("viridis", 0.5))), [0.95, 0.95, 0], atol=0.05)
    assert np.allclose(thirds(image, where(image, colour("YlOrRd", 1.0))), [0, 0, 0.95], atol=0.05)


@pytest.mark.parametrize("component", ["x", 0])
def test_a_component_keeps_its_sign(renderer, component):
    image = compare(swirl(3), "U", component=component)
    assert np.allclose(thirds(image, where(image, colour("viridis", 1.0))), [0.95, 0, 0], atol=0.05)
    assert np.allclose(thirds(image, where(image, colour("viridis", 0.0))), [0, 0.95, 0], atol=0.05)
    assert np.allclose(thirds(image, where(image, colour("coolwarm", 0.0))), [0, 0, 0.95], atol=0.05)


def test_all_components_are_rows_of_one_picture(vtk):
    mesh = swirl(3)
    single = {c: compare(mesh, "U", component=c) for c in ("magnitude", "x")}
    both = compare(mesh, "U", component="all")  # y and z are zero everywhere
    assert both.shape[0] == 2 * single["x"].shape[0] - 16  # the upper edge counts once
    assert np.array_equal(both[: single["x"].shape[0]], single["magnitude"])
    assert np.abs(both[-single["x"].shape[0] :].astype(int) - single["x"]).mean() < 0.5


def test_a_component_that_the_model_misses_has_its_row(vtk):
    mesh = swirl(3)
    mesh.cell_data["U_pred"] = np.zeros((96, 3))
    assert compare(mesh, "U", component="all").shape[0] > 1.9 * compare(mesh, "U").shape[0]


@pytest.mark.parametrize("normal", "xyz")
def test_vectors_of_two_columns_lie_in_the_plane(vtk, normal):
    mesh = plate(normal=normal)
    values = np.random.default_rng(0).normal(size=(96, 2))
    mesh.cell_data["v"] = values
    mesh.cell_data["w"] = np.insert(values, "xyz".index(normal), 0, axis=1)
    second = [axis for axis in "xyz" if axis != normal][1]
    first = field(mesh, "v", component=second)
    other = field(mesh, "w", component=second)
    assert np.array_equal(first[:-60], other[:-60])  # all but the label


def test_tensors_are_drawn_by_column(vtk):
    mesh = plate()
    mesh.cell_data["stress"] = np.tile([0.0, 0, 0, 0, 1, 0], (96, 1)) * (np.arange(96) < 48)[:, None]
    assert where(field(mesh, "stress", component=4), colour("viridis", 1.0)).sum() > 0.45 * 900 * 600
    with pytest.raises(InputError, match=r"component magnitude, 0, 1, 2, 3, 4, 5 or all of the field \(got 'x'\)"):
        field(mesh, "stress", component="x")


# views ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normal", "zyx")
def test_planes_are_seen_along_their_normal(renderer, normal):
    mesh = plate(normal=normal)
    mesh.cell_data["mark"] = np.arange(96) == 95  # at the far end of both axes
    image = field(mesh, "mark")[:-FOOT]
    rows, columns = where(image, colour("viridis", 1.0)).nonzero()
    height, width, _ = image.shape
    assert columns.mean() > 0.85 * width  # right
    assert rows.mean() < 0.2 * height  # top
    assert np.isclose(np.ptp(columns) / 900, 1 / 12, atol=0.01)  # undistorted
    assert np.isclose(np.ptp(rows) / 600, 1 / 8, atol=0.01)


def test_a_tilted_plane_is_as_large_as_a_flat_one(vtk):
    mesh = plate()
    mesh.cell_data["p"] = np.zeros(96)
    tilted = mesh.rotate_x(35, inplace=False)
    assert np.mean(field(mesh, "p") != field(tilted, "p")) < 0.01


@pytest.mark.parametrize("change", [lambda x: x * 1e-9, lambda x: x * 1e9, lambda x: x + np.array([3e6, -5e6, 7e5])])
def test_units_and_offsets_do_not_matter(vtk, change):
    mesh = plate()
    mesh.point_data["p"] = np.sin(mesh.points[:, 0] * 5)
    moved = mesh.copy()
    moved.points = change(np.asarray(mesh.points, dtype=np.float64))
    assert np.mean(field(mesh, "p") != field(moved, "p")) < 0.01


def test_volumes_are_seen_from_outside_and_fill_the_picture(vtk):
    mesh = box(4)
    inside = np.zeros(64)
    inside[np.linalg.norm(mesh.cell_centers().points - 2, axis=1) < 1] = 1
    top = mesh.cell_centers().points[:, 2] > 3
    mesh.cell_data["inside"], mesh.cell_data["top"] = inside, top
    image = field(mesh, "inside")[46:-FOOT]  # without texts
    assert not where(image, colour("viridis", 1.0), 60).any()
    drawn = ~where(image, "white")
    rows, columns = drawn.nonzero()
    assert np.ptp(rows) > 0.95 * image.shape[0]
    assert np.ptp(columns) > 0.85 * image.shape[1]
    assert drawn.mean() > 0.6  # a cube's outline is a hexagon: three quarters of the box about it
    bright = where(field(mesh, "top")[46:-FOOT], colour("viridis", 1.0), 60)
    assert bright.nonzero()[0].mean() < 0.4 * image.shape[0]


def test_view_and_options_of_add_mesh(vtk):
    mesh = box(2)
    mesh.cell_data["z"] = mesh.cell_centers().points[:, 2]
    assert where(field(mesh, "z", view=(0, 0, 1), lighting=False), colour("viridis", 1.0)).sum() > 0.9 * 640 * 640
    assert where(field(mesh, "z", view=(0, 0, -3), lighting=False), colour("viridis", 0.0)).sum() > 0.9 * 640 * 640
    shell = field(mesh, "z", style="wireframe")
    assert where(shell, "white").mean() > where(field(mesh, "z"), "white").mean() + 0.2
    with pytest.raises(InputError, match=r"add_mesh cannot draw with colour_of_the_sky=.blue.: .*colour_of_the_sky"):
        field(mesh, "z", colour_of_the_sky="blue")


def test_edges(renderer):
    mesh = plate(4, 2)
    mesh.cell_data["p"] = np.zeros(8)
    with_edges, without = field(mesh, "p", show_edges=True), field(mesh, "p")
    line = np.abs(with_edges[100:300].astype(int) - without[100:300])[:, 60:-60].max(-1).max(0).nonzero()[0]
    # three lines between four squares, nothing else
    assert len(np.split(line, np.flatnonzero(np.diff(line) > 20) + 1)) == 3


# meshes of all kinds -------------------------------------------------------------------------------------------------

KINDS = [
    "Tetrahedron Hexahedron Wedge Pyramid Voxel Polyhedron HexagonalPrism Triangle Quadrilateral Pixel Polygon",
    "TriangleStrip Line PolyLine Vertex PolyVertex QuadraticEdge QuadraticTriangle QuadraticQuadrilateral",
    "QuadraticTetrahedron QuadraticHexahedron QuadraticWedge QuadraticPyramid TriQuadraticHexahedron",
    "BiQuadraticTriangle LagrangeHexahedron LagrangeTetrahedron",
]


@pytest.mark.parametrize("kind", " ".join(KINDS).split())
def test_every_kind_of_cell_draws(vtk, kind):
    from pyvista.examples import cells

    mesh = getattr(cells, kind)().cast_to_unstructured_grid()
    mesh.clear_data()
    mesh.point_data["p"], mesh.cell_data["c"] = np.zeros(mesh.n_points), np.zeros(mesh.n_cells)
    for name in "pc":
        picture = field(mesh, name, lighting=False)
        panel = picture.shape[1] * (picture.shape[0] - 174)
        least = 0.2 if mesh.GetCell(0).GetCellDimension() > 1 else 0.001
        assert where(picture, colour("viridis", 0.5)).sum() > least * panel


def test_mixed_cells_draw_the_right_value_on_each(vtk):
    points = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 0, 0], [2, 1, 0]]
    mesh = MeshData.from_cells(points, [9, 5, 5], [[0, 1, 2, 3], [1, 4, 2], [4, 5, 2]], cell_data={"p": [0.0, 1, 2]})
    image = field(mesh, "p")
    share = [where(image[46:-FOOT], colour("viridis", v)).mean() for v in (0.0, 0.5, 1.0)]
    assert np.allclose(share, [0.46, 0.23, 0.23], atol=0.04)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_points_without_cells_draw_as_points(vtk, dim):
    points = np.zeros((200, 3))
    points[:, :dim] = np.random.default_rng(0).random((200, dim))
    cloud = pv.UnstructuredGrid()
    cloud.points = points
    cloud.point_data["p"] = points[:, 0]
    image = field(cloud, "p", lighting=False)[46:-FOOT]
    yellow, purple = (where(image, colour("viridis", v), 40).nonzero()[1] for v in (1.0, 0.0))
    assert yellow.size > 20
    assert purple.size > 20
    assert yellow.mean() > purple.mean()


def test_lines_and_points_draw_without_vtk_too(monkeypatch):
    monkeypatch.setenv("MESHOP_RENDERER", "matplotlib")
    line = pv.MultipleLines([[0, 0, 0], [1, 0, 0], [2, 0, 0]]).cast_to_unstructured_grid()
    line.point_data["p"] = [0.0, 1, 2]
    line.cell_data["c"] = [5.0]
    for name, values in (("p", (0.0, 0.5, 1.0)), ("c", (0.5,))):
        assert all(where(field(line, name)[:-FOOT], colour("viridis", v)).any() for v in values)


def test_mesh_data_draws_as_its_pyvista_mesh(renderer):
    mesh = plate()
    mesh.point_data["p"] = mesh.points[:, 0]
    mesh.point_data["p_pred"] = mesh.points[:, 0] ** 2
    first = compare(mesh, "p", unit="Pa", title="case 1")
    assert np.array_equal(first, compare(from_pyvista(mesh, dim=2), "p", unit="Pa", title="case 1"))
    assert first.shape == (60 + 66 + panel_size((1.5, 1), 3)[1] + FOOT, 1800, 3)


def test_the_mesh_is_left_as_it_was(renderer):
    mesh = plate()
    mesh.point_data["p"] = np.where(np.arange(mesh.n_points) == 3, np.inf, 1.0)
    mesh.point_data["p_pred"] = mesh.points[:, 0]
    mesh.set_active_scalars(None)
    before = mesh.copy()
    compare(mesh, "p")
    assert mesh == before
    assert mesh.active_scalars_name is None


def test_without_the_truth_the_prediction_stands_alone(renderer):
    mesh = plate()
    mesh.point_data["p_pred"] = mesh.points[:, 0]
    alone, single = compare(mesh, "p"), field(mesh, "p_pred")
    assert alone.shape[1] == single.shape[1]
    assert np.array_equal(alone[82:682], single[46:646])


# files and errors ----------------------------------------------------------------------------------------------------


def test_the_file_is_the_picture(renderer, tmp_path):
    mesh = plate()
    mesh.cell_data["p"] = np.arange(96)
    picture = field(mesh, "p", tmp_path / "p.png")
    assert picture.dtype == np.uint8
    assert np.array_equal(matplotlib.image.imread(tmp_path / "p.png")[..., :3], picture / np.float32(255))
    assert [f.name for f in tmp_path.iterdir()] == ["p.png"]
    assert np.array_equal(picture, field(mesh, "p", str(tmp_path / "p.png")))


def test_a_full_disk_leaves_the_old_picture(tmp_path, monkeypatch):
    mesh = plate()
    mesh.cell_data["p"] = np.arange(96)
    monkeypatch.setenv("MESHOP_RENDERER", "matplotlib")
    path = tmp_path / "p.png"
    path.write_bytes(b"old")

    def half(name, picture, format):
        name.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(matplotlib.image, "imsave", half)
    with pytest.raises(InputError, match=r"Cannot write the picture '.*p.png': No space left on device"):
        field(mesh, "p", path)
    assert [f.name for f in tmp_path.iterdir()] == ["p.png"]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "presure"}, r"'presure' is not in the mesh \(did you mean 'pressure:.*'\?\); it has .*pressure:cell"),
        ({"name": "pressure"}, "both a point and a cell field; say pressure:point or pressure:cell"),
        ({"name": "text"}, "Expected numbers in field 'text'"),
        ({"name": "p", "component": "x"}, r"Expected component 0 or all of the field \(got 'x'\)"),
        ({"name": "U", "component": 3}, r"Expected component magnitude, x, y, z or all of the field \(got '3'\)"),
        ({"name": "p", "clim": (1, 1)}, r"low < high \(got 1, 1\)"),
        ({"name": "p", "cmap": "virdis"}, r"\(did you mean 'viridis'\?\) \(got 'virdis'\)"),
        ({"name": "p", "nan_color": "no colour"}, "'gray' say"),
        ({"name": "p", "view": (0, 0, 0)}, "Expected a view of three numbers"),
        ({"name": "p", "view": (0, 1)}, "Expected a view of three numbers"),
        ({"name": "p", "path": "p.jpg"}, "ends in .png"),
        (
            {"name": "p", "path": "no/such/folder/p.png"},
            "Cannot write the picture 'no/such/folder/p.png': there is no directory",
        ),
    ],
)
def test_errors_are_one_sentence(arguments, message, monkeypatch):
    monkeypatch.setenv("MESHOP_RENDERER", "matplotlib")
    mesh = plate()
    mesh.point_data["pressure"], mesh.cell_data["pressure"] = np.zeros(mesh.n_points), np.zeros(96)
    mesh.cell_data["text"], mesh.cell_data["p"], mesh.cell_data["U"] = ["a"] * 96, np.zeros(96), np.ones((96, 3))
    with pytest.raises(InputError, match=message):
        field(mesh, **arguments)


def test_errors_of_compare():
    mesh = plate()
    mesh.cell_data["p"], mesh.point_data["p"] = np.zeros(96), np.ones(mesh.n_points)
    with pytest.raises(InputError, match="Field 'p_pred' is not in the mesh"):
        compare(mesh, "p")
    mesh.cell_data["p_pred"] = np.zeros((96, 3))
    with pytest.raises(InputError, match=r"of one shape \(got p \[96, 1\], p_pred \[96, 3\]\)"):
        compare(mesh, "p")
    with pytest.raises(InputError, match=r"Field 'p_pred:point' is not in the mesh.*p_pred:cell"):
        compare(mesh, "p:point")
    mesh.point_data["p_pred"] = np.zeros(mesh.n_points)
    with pytest.raises(InputError, match="'p_pred' is both a point and a cell field; say p:point or p:cell"):
        compare(mesh, "p")
    with pytest.raises(InputError, match="an empty mesh"):
        compare(pv.UnstructuredGrid(), "p")


def test_the_location_decides_between_fields_of_one_name(renderer):
    mesh = plate()
    for arrays, value in ((mesh.point_data, 0.0), (mesh.cell_data, 1.0)):
        arrays["p"] = np.full(mesh.n_points if value == 0 else 96, value)
    mesh.cell_data["p_pred"] = np.ones(96)
    image = compare(mesh, "p")
    assert thirds(image, where(image, colour("coolwarm", 0.5)))[2] > 0.9  # the cells' truth is right
    assert np.array_equal(image, compare(mesh, "p:cell"))


# machines on which VTK cannot draw -----------------------------------------------------------------------------------


def test_without_vtk_plates_are_drawn_and_volumes_refused(monkeypatch):
    monkeypatch.delenv("MESHOP_RENDERER", raising=False)
    monkeypatch.setattr(paint, "_vtk_draws", lambda: False)
    flat, volume = plate(), box()
    flat.cell_data["p"], volume.cell_data["p"] = np.zeros(96), np.zeros(64)
    with pytest.warns(RuntimeWarning, match="VTK cannot draw on this machine .* so matplotlib draws") as caught:
        field(flat, "p")
    assert caught[0].filename == __file__
    with pytest.raises(InputError, match="matplotlib draws plane meshes only; install EGL"):
        field(volume, "p")


def test_the_environment_chooses(monkeypatch):
    monkeypatch.setattr(paint, "_vtk_draws", lambda: pytest.fail("tried although the choice was made"))
    monkeypatch.setenv("MESHOP_RENDERER", "vtk")
    assert can_render()
    monkeypatch.setenv("MESHOP_RENDERER", "matplotlib")
    assert not can_render()
    monkeypatch.setenv("MESHOP_RENDERER", "opengl")
    with pytest.raises(InputError, match=r"MESHOP_RENDERER to be auto, vtk or matplotlib \(got 'opengl'\)"):
        can_render()


def test_a_probe_that_cannot_start_is_a_no(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert paint._vtk_draws.__wrapped__() is False


def test_a_machine_without_opengl_gets_a_picture(monkeypatch, tmp_path):
    """VTK told to use a window that does not exist dies (unless OSMesa is there); the process that asked lives on."""
    monkeypatch.setenv("VTK_DEFAULT_OPENGL_WINDOW", "vtkXOpenGLRenderWindow")
    monkeypatch.delenv("MESHOP_RENDERER", raising=False)
    monkeypatch.setenv("DISPLAY", "")
    draws = "import pyvista as pv; pv.Plotter(off_screen=True).screenshot(return_img=True)"
    alive = subprocess.run([sys.executable, "-c", draws], capture_output=True).returncode == 0
    program = (
        "import sys, meshop.render as r; loaded = {'vtk', 'vtkmodules', 'pyvista', 'matplotlib'} & set(sys.modules);"
        "import pyvista as pv; plane = pv.Plane(); plane.cell_data['p'] = range(100);"
        "r.field(plane, 'p', 'p.png'); print(loaded, r.can_render())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.split("\n")[-2] == f"set() {alive}"
    assert ("so matplotlib draws" in done.stderr) is not alive
    assert where(matplotlib.image.imread(tmp_path / "p.png")[..., :3] * 255, colour("viridis", 1.0)).sum() > 1000
