"""Animations: every frame is there, colours mean the same in all, and half a file never has the name."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib import colormaps
from PIL import Image

from meshop.data import InputError, MeshData
from meshop.render import animate


def square(value: float, pred: float | None = None) -> MeshData:
    fields = {"T": np.full(4, value)} | ({} if pred is None else {"T_pred": np.full(4, pred)})
    return MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], [9], [range(4)], point_data=fields)


def middle(path: Path) -> list[tuple[int, ...]]:
    with Image.open(path) as file:
        found = []
        for number in range(file.n_frames):
            file.seek(number)
            image = np.asarray(file.convert("RGB"))
            found.append(tuple(image[image.shape[0] // 2, image.shape[1] // 3].tolist()))
    return found


def test_one_colour_scale_for_all_frames(tmp_path: Path) -> None:
    values = [0.0, 1.0, 0.5, 0.0]
    assert animate(map(square, values), "T", tmp_path / "a.gif", clim=(0, 1), times=[0.0, 0.1, 0.2, 0.3]) == 4
    colours = middle(tmp_path / "a.gif")
    assert len(colours) == 4
    assert np.abs(np.subtract(colours[0], colours[3])).max() <= 4  # palettes differ a little
    assert len({tuple(np.round(np.divide(c, 16))) for c in colours}) == 3
    with Image.open(tmp_path / "a.gif") as file:
        assert file.info["duration"] == 100


def test_truth_prediction_and_error_side_by_side(tmp_path: Path) -> None:
    frames = [square(v, v + 0.1) for v in (0.0, 0.5)]
    animate(frames, "T", tmp_path / "a.gif", clim=(0, 1))
    animate(map(square, (0.0, 0.5)), "T", tmp_path / "b.gif", clim=(0, 1))
    with Image.open(tmp_path / "a.gif") as three, Image.open(tmp_path / "b.gif") as one:
        assert three.size[0] > 2 * one.size[0]
        assert three.n_frames == 2


def test_the_error_of_a_vector_has_one_scale_from_zero(tmp_path: Path) -> None:
    """Where the prediction of a vector is off by half of ``worst``, and by none of it."""

    def frames():
        for off in (0.0, 1.0, 0.0):
            mesh = square(0.0)
            mesh.point_data["U"] = np.tile([1.0, 0, 0], (4, 1))
            mesh.point_data["U_pred"] = np.tile([1.0, off, 0], (4, 1))
            yield mesh

    animate(frames(), "U", tmp_path / "a.gif", clim=(0, 2), worst=2.0, times=[0.0, 1.0, 2.0])
    with Image.open(tmp_path / "a.gif") as file:
        found = []
        for number in range(3):
            file.seek(number)
            image = np.asarray(file.convert("RGB")).astype(int)
            found.append(image[image.shape[0] // 2, 5 * image.shape[1] // 6])
    scale = colormaps["YlOrRd"]
    for colour, share in zip(found, (0.0, 0.5, 0.0), strict=True):
        assert np.abs(colour - 255 * np.array(scale(share)[:3])).max() < 8


def test_nothing_half_written(tmp_path: Path) -> None:
    def frames():
        yield square(0.0)
        raise RuntimeError("the solver stopped")

    with pytest.raises(RuntimeError, match="the solver stopped"):
        animate(frames(), "T", tmp_path / "a.gif", clim=(0, 1))
    with pytest.raises(InputError, match="Expected frames to animate T"):
        animate([], "T", tmp_path / "a.gif", clim=(0, 1))
    with pytest.raises(InputError, match=r"a time for every frame \(got 1\)"):
        animate(map(square, (0.0, 1.0)), "T", tmp_path / "a.gif", clim=(0, 1), times=[0.5])
    with pytest.raises(InputError, match="matplotlib colour map"):
        animate([square(0.0)], "T", tmp_path / "a.gif", clim=(0, 1), cmap="rainbows")
    assert not list(tmp_path.iterdir())
