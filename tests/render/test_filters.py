"""Filters: what is drawn lies where it should, carries the right values, and the user's mesh stays as it was."""

import numpy as np
import pytest
import pyvista as pv

from meshop import InputError, MeshData
from meshop.io import to_pyvista
from meshop.render import Arrows, Clip, Contour, Slice, Streamlines, Threshold, Warp, can_render, compare, field
from meshop.render.filters import filtered
from meshop.render.panels import Subject, compared
from meshop.render.scene import Scene, turn, viewer

EVERY = [
    Slice("x"),
    Clip("y"),
    Threshold("p", 0.5),
    Contour("p"),
    Warp("u", 0.1),
    Arrows("u", 0.2),
    Streamlines("u", 0.3),
]


def block(n: int = 3) -> pv.UnstructuredGrid:
    """A cube of hexahedra, with markers of its faces and a beam beside it, as gmsh writes them."""
    cube = pv.ImageData(dimensions=(n + 1,) * 3, spacing=(1 / n,) * 3).cast_to_unstructured_grid()
    faces = cube.extract_surface(algorithm=None).cast_to_unstructured_grid()
    beam = pv.Line((1.2, 0, 0), (1.2, 0, 1), resolution=n).cast_to_unstructured_grid()
    mesh = pv.merge([cube, faces, beam], merge_points=True)
    return fields(mesh)


def plate(n: int = 6) -> pv.UnstructuredGrid:
    mesh = pv.Plane(center=(0.5, 0.5, 0), i_resolution=n, j_resolution=n).cast_to_unstructured_grid()
    return fields(mesh)


def fields(mesh: pv.UnstructuredGrid) -> pv.UnstructuredGrid:
    mesh.clear_data()
    x, y, z = np.asarray(mesh.points, dtype=np.float64).T
    mesh.point_data["p"], mesh.point_data["p_pred"] = x + 2 * y, x + 2 * y + 0.1 * x
    mesh.point_data["u"] = np.stack([np.ones_like(x), 0 * y, 0 * z], 1)
    mesh.point_data["number"] = np.round(6 * x).astype(int)
    mesh.cell_data["c"] = mesh.cell_centers().points[:, 0]
    mesh.cell_data["v"] = np.tile([1.0, 0, 0], (mesh.n_cells, 1))
    return mesh


@pytest.mark.parametrize("make", [block, plate])
@pytest.mark.parametrize("step", EVERY, ids=repr)
def test_linear_fields_stay_linear_and_the_mesh_as_it_was(make, step) -> None:
    mesh = make()
    before = mesh.copy(deep=True)
    left = filtered(mesh, step)
    assert mesh == before
    x = np.asarray(left.points, dtype=np.float64)
    if isinstance(step, Slice | Clip | Threshold | Contour):
        assert np.allclose(left.point_data["p"], x[:, 0] + 2 * x[:, 1], atol=1e-6)
        assert np.allclose(left.point_data["number"], 6 * x[:, 0], atol=0.6)
    assert {"p", "p_pred"} <= set(left.point_data.keys())
    assert not [name for name in left.array_names if name == "meshop:scalar"]


def test_a_slice_lies_in_its_plane_and_riders_leave_no_lines_on_it() -> None:
    cut = filtered(block(), Slice("x", 0.4))
    assert np.allclose(cut.points[:, 0], 0.4)
    assert {cell.dimension for cell in cut.cell} == {2}
    both = filtered(block(), Slice("z", 0.4))  # the beam, too, is cut: nine quadrilaterals (or triangles) and a point
    assert sorted({cell.dimension for cell in both.cell}) == [0, 2]
    assert sum(both.compute_cell_sizes()["Area"]) == pytest.approx(1)
    tilted = filtered(block(), Slice((1, 1, 0), (0.5, 0.5, 0.5)))
    assert np.allclose(tilted.points[:, :2].sum(1), 1, atol=1e-6)


def test_clip_threshold_and_contour_take_what_they_say() -> None:
    assert filtered(block(), Clip("x", 0.4)).bounds[:2] == pytest.approx((0, 0.4))
    assert filtered(plate(), Clip("-x", 0.4)).bounds[:2] == pytest.approx((0.4, 1))
    kept = filtered(plate(), Threshold("p", 1.0, 2.0))
    assert kept.point_data["p"].min() >= 1
    assert kept.point_data["p"].max() <= 2
    assert filtered(plate(), Threshold("c", high=0.5)).n_cells == 18
    lines = filtered(plate(), Contour("p", [0.75, 2.25]))
    assert set(np.round(np.asarray(lines.point_data["p"]), 5)) == {0.75, 2.25}


def test_warp_arrows_and_streamlines_follow_the_field() -> None:
    assert filtered(plate(), Warp("u", 0.3)).bounds[:2] == pytest.approx((0.3, 1.3))
    assert filtered(plate(), Warp("v", 0.3)).bounds[:2] == pytest.approx((0.3, 1.3))
    arrows = filtered(plate(), Arrows("u", 0.2))
    assert np.abs(arrows.points[:, 2]).max() < 1e-6  # in the plane
    assert arrows.bounds[1] > 1.2
    lines = filtered(plate(), Streamlines("u", 0.3))
    assert np.abs(lines.points[:, 2]).max() < 1e-6
    assert lines.bounds[1] - lines.bounds[0] > 0.8
    assert all(np.ptp(line.points[:, 1]) < 0.05 for line in lines.split_bodies())
    flat = plate()
    flat.point_data["w"] = np.tile([0.5, 0.0], (flat.n_points, 1))  # two columns
    assert filtered(flat, Warp("w")).bounds[:2] == pytest.approx((0.5, 1.5))


def test_streamlines_around_a_corner_reach_both_ends() -> None:
    radius, angle = np.meshgrid(np.linspace(0.5, 1, 17), np.linspace(0, np.pi / 2, 49), indexing="ij")
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    ring = pv.StructuredGrid(x, y, np.zeros_like(x)).cast_to_unstructured_grid()
    ring.point_data["u"] = np.stack([-ring.points[:, 1], ring.points[:, 0], np.zeros(ring.n_points)], axis=1)
    lines = filtered(ring, Streamlines("u")).split_bodies()
    spans = [np.ptp(np.arctan2(line.points[:, 1], line.points[:, 0])) for line in lines]
    spans = [span for span in spans if span > 0.01]  # without the ends of the tubes
    assert np.mean(spans) == pytest.approx(np.pi / 4, rel=0.05)  # two lines from each start, one to either end


def test_cell_fields_are_drawn_where_a_filter_moves_them() -> None:
    for step in EVERY:
        subject = Subject.of(block(), "c", step)
        assert np.isfinite(subject.values("c")).all(), step


def test_a_function_is_a_filter_and_filters_follow_each_other() -> None:
    mesh = plate()
    mine = filtered(mesh, [lambda m: m.extract_cells(range(3)), Clip("x", 0.25)])
    assert mine.bounds[1] == pytest.approx(0.25)
    warped = filtered(mesh, [Warp("u", 1.0), Slice("x", 1.25)])
    assert np.allclose(warped.points[:, 0], 1.25)


def test_all_three_panels_have_the_same_filter() -> None:
    (truth, prediction, error) = compared(Subject.of(block(), "p", Slice("x", 1.0 / 3), "_pred"))[0]
    assert np.allclose(error.values, 0.1 / 3, atol=1e-6)
    assert np.allclose(prediction.values - truth.values, error.values)
    assert truth.limits == prediction.limits
    assert truth.limits[0] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        (Slice("x", 7), r"Slice\(normal='x', at=7\) leaves nothing to draw of a mesh that spans x 0 to 1, y 0 to 1"),
        (Threshold("p", 9), "leaves nothing to draw"),
        (Contour("p", [9.0]), "leaves nothing to draw"),
        (Arrows("zero"), "leaves nothing to draw"),
        (Streamlines("zero"), "leaves nothing to draw"),
        (Slice("w"), r"normal x, y, z or three numbers \(got 'w'\)"),
        (Clip((0, 0, 0)), "normal x, y, z or three numbers"),
        (Slice("x", (1, 2)), r"a number or a point of three \(got \(1, 2\)\)"),
        (Warp("p"), r"a vector field .* \(got 'p' with 1\)"),
        (Warp("uu"), r"Field 'uu' of a filter is not in the mesh .*; it has c, number"),
        (["x=1"], "Expected filters that take a mesh"),
    ],
)
def test_errors_of_filters(steps, says) -> None:
    mesh = plate()
    mesh.point_data["zero"] = np.zeros((mesh.n_points, 3))
    with pytest.raises(InputError, match=says):
        field(mesh, "p", filters=steps)


# views ---------------------------------------------------------------------------------------------------------------


def test_views_have_names() -> None:
    assert np.allclose(viewer("xy")[0], np.eye(3))
    assert np.allclose(viewer("yz")[0].T, [[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    assert np.allclose(viewer("iso")[0], viewer((1, -1, 1))[0])
    for view, says in (("xyz", "a view iso, xy, xz"), ("top", "got 'top'"), (((0, 0, 1), (0, 0, 0), (0, 0, 1)), "up")):
        with pytest.raises(InputError, match=says):
            viewer(view)


def test_a_camera_sees_its_focus_in_the_middle() -> None:
    camera = ((3.0, 1, 2), (1.0, 1, 2), (0.0, 0, 1))
    (points,) = turn([np.array([[1.0, 1, 2], [1, 2, 2], [1, 1, 3], [2, 1, 2]])], camera)
    assert np.allclose(points, [[0, 0, 0], [0.5, 0, 0], [0, 0.5, 0], [0, 0, 0.5]])


@pytest.mark.parametrize("renderer", ["vtk", "matplotlib"])
def test_near_things_are_large_before_a_camera(renderer, monkeypatch) -> None:
    if renderer == "vtk" and not can_render():
        pytest.skip("VTK cannot draw here")
    monkeypatch.setenv("MESHOP_RENDERER", renderer)
    mesh = plate(2)
    area = []
    for distance in (4.0, 8.0):
        image = field(mesh, "c", view=((0.5, 0.5, distance), (0.5, 0.5, 0), (0, 1, 0)), lighting=False)
        area.append(((image[46:-160] < 250).any(-1)).mean())
    assert area[0] / area[1] == pytest.approx(4, rel=0.05)
    height = 4 * 2 * np.tan(np.deg2rad(15))  # of what is seen
    assert area[0] == pytest.approx(3 / 4 / height**2, rel=0.08)


def test_the_whole_mesh_is_a_frame_but_for_slices_seen_along_their_normal() -> None:
    cube = to_pyvista(MeshData.from_cells([[i & 1, i >> 1 & 1, i >> 2 & 1] for i in range(8)], [11], [range(8)]))
    cut = cube.slice("x")
    assert not Scene.of(cut, "point", {}, None, cube).frame.n_cells
    assert Scene.of(cut, "point", {}, "iso", cube).frame.n_cells == 12
    square = plate(2)
    scene = Scene.of(square.slice("x"), "point", {}, None, square)
    assert scene.frame.n_cells == 8
    assert scene.extent == pytest.approx((1, 1))


@pytest.mark.parametrize("value", [1.0, np.nan])
def test_constants_and_nothing_finite_are_drawn_after_filters(value) -> None:
    if not can_render():
        pytest.skip("VTK cannot draw here")
    mesh = plate(4)
    mesh.point_data["k"] = np.full(mesh.n_points, value)
    mesh.point_data["k_pred"] = np.where(np.arange(mesh.n_points) == 7, np.nan, 1.0)
    for steps in ([Clip("x")], [Arrows("u")], [Warp("u")]):
        assert (compare(mesh, "k", filters=steps) < 250).mean() > 0.02
