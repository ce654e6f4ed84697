"""Animations of a series."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meshop.data import InputError, MeshData
from meshop.render.fields import compare, field
from meshop.render.figure import Image, Limits
from meshop.render.panels import NAN_COLOR, dataset
from meshop.render.sheets import has_prediction

if TYPE_CHECKING:
    import pyvista as pv


def animate(
    frames: Iterable[MeshData | pv.DataSet],
    name: str,
    path: str | os.PathLike[str],
    *,
    clim: Limits,
    worst: float | None = None,
    times: Iterable[float] | None = None,
    fps: float = 10.0,
    **kwargs: Any,
) -> int:
    """Draw a series as an animated GIF or an MP4.

    Each frame is drawn as :func:`compare` does, or :func:`field` where ``name_pred`` lacks. Colours mean the same in
    every frame, and the time stands above. One frame at a time is in memory.

    Args:
        frames: the meshes, in order.
        name: the field.
        path: file that ends in .gif, or in .mp4 where the package imageio-ffmpeg is installed; it appears under this
            name only when it is complete.
        clim: colour range of the field in all frames.
        worst: the largest error of the colour range of the error; as large as that of the field by default.
        times: of the frames, shown above them.
        fps: frames a second.
        **kwargs: see :func:`compare` and :func:`field`.

    Returns:
        how many frames there were.

    Raises:
        InputError: there are none, or more than times; the file ends otherwise, or ffmpeg is not there; those of
            :func:`compare` and :func:`field`.

    >>> import tempfile
    >>> square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], [9], [range(4)], point_data={"T": range(4)})
    >>> with tempfile.TemporaryDirectory() as out:
    ...     animate([square, square], "T", f"{out}/heat.gif", clim=(0, 3), times=[0.0, 0.5])
    2
    """
    from meshop.io.files import whole_file

    ending = Path(path).suffix.lower()
    if ending not in _WRITERS:
        raise InputError(f"Expected a file name that ends in {' or '.join(_WRITERS)} for the animation (got '{path}')")
    count = 0

    def pictures() -> Iterator[Image]:
        nonlocal count
        clock = None if times is None else iter(times)
        for data in frames:
            mesh = dataset(data)
            if clock is not None and (now := next(clock, None)) is None:
                raise InputError(f"Expected a time for every frame (got {count})")
            title = "" if clock is None else f"t = {now:.6g}"
            if has_prediction(mesh, name):
                image = compare(mesh, name, clim=clim, worst=worst or clim[1] - clim[0], title=title, **kwargs)
            else:
                image = field(mesh, name, clim=clim, title=title, **kwargs)
            count += 1
            yield image

    drawn = pictures()
    first = next(drawn, None)
    if first is None:
        raise InputError(f"Expected frames to animate {name} (got none)")
    fitted = (_fitted(image, first.shape[:2]) for image in itertools.chain([first], drawn))
    colours = _colours(kwargs.get("cmap", "viridis"), kwargs.get("nan_color", NAN_COLOR))
    with whole_file(path) as part:
        _WRITERS[ending](part, fitted, fps, colours)
    return count


def _write_gif(path: Path, frames: Iterator[Image], fps: float, colours: list[int]) -> None:
    from PIL import Image as Picture

    palette = Picture.new("P", (1, 1))
    palette.putpalette(colours)
    drawn = (Picture.fromarray(image).quantize(palette=palette, dither=Picture.Dither.NONE) for image in frames)
    next(drawn).save(path, "GIF", save_all=True, append_images=drawn, duration=1000 / fps, loop=0, disposal=1)


def _write_mp4(path: Path, frames: Iterator[Image], fps: float, colours: list[int]) -> None:
    try:
        import imageio_ffmpeg
    except ModuleNotFoundError as error:
        raise InputError("MP4 needs ffmpeg: pip install imageio-ffmpeg, or write a .gif") from error
    even = (np.pad(i, ((0, i.shape[0] % 2), (0, i.shape[1] % 2), (0, 0)), constant_values=255) for i in frames)
    first = next(even)  # H.264 has even sides
    writer = imageio_ffmpeg.write_frames(
        str(path), first.shape[1::-1], fps=fps, macro_block_size=2, output_params=["-f", "mp4"]
    )
    writer.send(None)
    try:
        for image in itertools.chain([first], even):
            writer.send(np.ascontiguousarray(image))
    finally:
        writer.close()


_WRITERS = {".gif": _write_gif, ".mp4": _write_mp4}


def _colours(cmap: str, nan_color: str) -> list[int]:
    """The 256 colours of an animation: those of the field, of its error, greys for text, and of what is not finite."""
    from matplotlib import colormaps
    from matplotlib.colors import to_rgb

    scales = [
        colormaps[name](np.linspace(0, 1, n))[:, :3] for name, n in ((cmap, 110), ("coolwarm", 71), ("YlOrRd", 42))
    ]
    greys = np.linspace(0, 1, 32)[:, None].repeat(3, axis=1)
    colours: list[int] = (
        (np.concatenate([*scales, greys, [to_rgb(nan_color)]]) * 255).round().astype(int).ravel().tolist()
    )
    return colours


def _fitted(image: Image, shape: tuple[int, int]) -> Image:
    """A picture of this height and width: cut, or with white beside it."""
    fitted = np.full((*shape, 3), 255, np.uint8)
    height, width = (min(a, b) for a, b in zip(shape, image.shape[:2], strict=True))
    fitted[:height, :width] = image[:height, :width]
    return fitted
