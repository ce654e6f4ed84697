"""Several meshes in one picture, histograms of errors, regions under their names, movies and windows."""

import sys
import warnings

import numpy as np
import pytest
import pyvista as pv
from test_filters import block, plate
from test_render import colour, where

from meshop import InputError, MeshData
from meshop.render import Clip, animate, can_render, compare, error_histogram, field, gallery, regions, show
from meshop.render.panels import Subject, compared, shared, single

pytestmark = pytest.mark.skipif(not can_render(), reason="VTK cannot draw here")


def level(value: float, pred: float | None = None) -> MeshData:
    fields = {"T": np.full(4, value)} | ({} if pred is None else {"T_pred": np.full(4, pred)})
    return MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], [9], [range(4)], point_data=fields)


def test_meshes_of_a_gallery_share_their_colours() -> None:
    image = gallery([level(0.0), level(1.0), level(0.5)], "T", columns=2)
    share = [where(image, colour("viridis", v)).mean() for v in (0.0, 1.0, 0.5)]
    assert min(share) > 0.15
    one = gallery([level(0.0)], "T", columns=2, filters=Clip("x"))
    assert one.shape == gallery([level(0.0)], "T", columns=1, filters=Clip("x")).shape


def test_a_gallery_with_predictions_is_a_row_a_mesh() -> None:
    meshes = [level(0.0, 0.5), level(1.0, 0.9)]
    image = gallery(meshes, "T", titles=["a", "b"])
    assert image.shape[1] == compare(meshes[0], "T").shape[1]
    first, second = shared([compared(Subject.of(m, "T", (), "_pred")) for m in meshes], None, None)
    assert first[0][0].limits == second[0][1].limits == (0, 1)
    assert first[0][2].limits == second[0][2].limits == (-0.5, 0.5)
    lone = shared([single(Subject.of(m, "T")) for m in meshes], (0, 3), None)
    assert lone[0][0][0].limits == (0, 3)


def test_errors_of_galleries() -> None:
    for meshes, options, says in (
        ([], {}, r"a title for each \(got 0 and 0\)"),
        ([level(0.0)], {"titles": ["a", "b"]}, r"\(got 1 and 2\)"),
        ([level(0.0)], {"columns": 0}, "one column at least"),
        ([level(0.0), plate()], {}, "'T' is not in the mesh"),
    ):
        with pytest.raises(InputError, match=says):
            gallery(meshes, "T", **options)


def test_histograms_stand_where_the_errors_are() -> None:
    rows = [{"name": f"c{i}", "field": "p", "relative_l2": 0.01 if i < 30 else 1.0} for i in range(40)]
    image = error_histogram(rows).astype(int)
    bars = (np.abs(image - image[400, 110]).max(-1) < 3) & (image.max(-1) < 250)
    heights = bars[20:].sum(0)
    left, right = heights[:300].max(), heights[-300:].max()
    assert left / right == pytest.approx(3, rel=0.15)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        odd = [{"name": "a", "field": "U", "relative_l2": v, "mean_predictor": 1.0} for v in (np.nan, 0.0)]
        assert error_histogram(odd).shape == error_histogram(odd[:1]).shape == (620, 1100, 3)
    for wrong, says in (([], "got no rows"), ([{"name": "a", "field": "p"}], "column relative_l2 .got name, field")):
        with pytest.raises(InputError, match=says):
            error_histogram(wrong)


def named(mesh: pv.UnstructuredGrid, groups: dict[str, list[int]], tags: np.ndarray) -> pv.UnstructuredGrid:
    mesh.cell_data["gmsh:physical"] = tags
    for name, pair in groups.items():
        mesh.field_data[name] = pair
    return mesh


def test_faces_with_names_cover_the_volume() -> None:
    mesh = block(2)
    kinds = np.asarray(mesh.celltypes)
    middle = mesh.cell_centers().points
    tags = np.where(kinds == 9, np.where(middle[:, 2] > 0.99, 2, 1), np.where(kinds == 3, 0, 7))
    image = regions(named(mesh, {"wall": [1, 2], "lid": [2, 2], "fluid": [7, 3]}, tags), lighting=False)
    share = [where(image, f"C{i}").mean() for i in range(3)]
    assert share[0] / share[1] == pytest.approx(2, rel=0.15)  # two of the three faces that are seen
    assert share[2] == 0


@pytest.mark.parametrize("renderer", ["vtk", "matplotlib"])
def test_boundaries_are_lines_on_a_plate(renderer, monkeypatch) -> None:
    monkeypatch.setenv("MESHOP_RENDERER", renderer)
    square = [[0.0, 0], [1, 0], [1, 1], [0, 1]]
    mesh = MeshData.from_cells(square, [9, 3, 3], [[0, 1, 2, 3], [0, 1], [2, 3]])
    mesh.cell_data["gmsh:physical"] = [5, 1, 2]
    mesh.field_data["inside"], mesh.field_data["floor"] = [5, 2], [1, 1]
    image = regions(mesh)
    pale = 255 * (0.4 * np.array([31, 119, 180]) / 255 + 0.6)
    assert where(image, pale).mean() > 0.3
    floor = where(image, "C1")[:, : image.shape[1] - 460].nonzero()[0]
    assert floor.size > 1000
    assert floor.min() > 0.8 * image.shape[0]  # at the bottom
    assert where(image, "C2")[:, : image.shape[1] - 460].nonzero()[0].max() < 0.2 * image.shape[0]


def test_errors_of_regions() -> None:
    mesh = plate(2)
    with pytest.raises(InputError, match=r"cell data gmsh:physical or block that number regions; it has c, v"):
        regions(mesh)
    for name, says in (("cc", "'cc'"), ("c", "whole number a cell in 'c'"), ("v", "whole number a cell in 'v'")):
        with pytest.raises(InputError, match=says):
            regions(mesh, name)


# movies and windows --------------------------------------------------------------------------------------------------


def test_mp4_has_all_frames(tmp_path) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    assert animate(map(level, (0.0, 0.5, 1.0)), "T", tmp_path / "a.mp4", clim=(0, 1), times=[0, 1, 2], fps=5) == 3
    assert ffmpeg.count_frames_and_secs(str(tmp_path / "a.mp4"))[0] == 3
    frames = ffmpeg.read_frames(str(tmp_path / "a.mp4"))
    width, height = next(frames)["size"]
    first = np.frombuffer(next(frames), np.uint8).reshape(height, width, 3)
    assert np.abs(first[height // 2, width // 2].astype(int) - colour("viridis", 0.0)).max() < 12


def test_movies_that_cannot_be_written(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    for name, says in (("a.mp4", "MP4 needs ffmpeg: pip install imageio-ffmpeg"), ("a.avi", "ends in .gif or .mp4")):
        with pytest.raises(InputError, match=says):
            animate([level(0.0)], "T", tmp_path / name, clim=(0, 1))
    assert not list(tmp_path.iterdir())


def test_a_window_needs_a_display(monkeypatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(InputError, match="There is no display to open a window on"):
        show(level(0.0), "T")
    monkeypatch.setenv("DISPLAY", ":987")
    with pytest.raises(InputError, match="There is no display to open a window on"):
        show(level(0.0), "T")


def test_a_window_has_a_view_a_panel(monkeypatch) -> None:
    import meshop.render.window as window

    opened = []
    monkeypatch.setattr(window, "has_display", lambda: True)
    monkeypatch.setattr(pv, "OFF_SCREEN", True)
    monkeypatch.setattr(pv.Plotter, "show", lambda self: opened.append((self.shape, list(self.scalar_bars.keys()))))
    show(level(0.0, 0.5), "T", unit="K", filters=Clip("x"))
    show(level(0.0), "T")
    assert opened == [
        ((1, 3), ["truth T [K]", "prediction T [K]", "error T_pred − T [K]"]),
        ((1, 1), ["T"]),
    ]


def test_a_wrong_keyword_is_one_sentence() -> None:
    with pytest.raises(InputError, match=r"add_mesh cannot draw with opacitee=0.5"):
        field(level(0.0), "T", opacitee=0.5)
