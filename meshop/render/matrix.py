"""Matrices as heat maps: how slices attend to each other, how alike layers are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from meshop.data import InputError
from meshop.render.figure import FOOT, GAP, Array, Image, Limits, Panel, colour_bar, write_png
from meshop.render.paint import axes_in

SIZE = 420  # of a matrix, in pixels
LEFT = 60  # numbers of the rows
HEAD = 66
COLUMNS = 4


def matrices(
    values: Mapping[str, Any],
    path: str | os.PathLike[str] | None = None,
    *,
    label: str = "",
    title: str = "",
    clim: Limits | None = None,
    cmap: str = "viridis",
) -> Image:
    """Draw matrices as heat maps, rows from the top, all with the same colours.

    Args:
        values: matrices [R, C] by the title of their panel.
        path: PNG file to write as well; it appears under this name only when it is complete.
        label: of the colour bar.
        title: a line above the picture.
        clim: colour range (low, high); by default from zero, or the least value if that is negative, to the largest.
        cmap: name of a matplotlib colour map.

    Returns:
        the picture [H, W, 3].

    Raises:
        InputError: there is no matrix, or something else among them; the file cannot be written.

    >>> matrices({"layer 0": np.eye(3), "layer 1": np.ones((3, 3)) / 3}, label="attention").shape[2]
    3
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    panels: dict[str, Array] = {name: np.asarray(value, dtype=np.float64) for name, value in values.items()}
    if not panels or any(matrix.ndim != 2 or not matrix.size for matrix in panels.values()):
        shapes = ", ".join(f"{name} {list(matrix.shape)}" for name, matrix in panels.items()) or "none"
        raise InputError(f"Expected matrices to draw (got {shapes})")
    if clim is None:
        every = np.concatenate([matrix.ravel() for matrix in panels.values()])
        low, high = float(np.nanmin(every, initial=0.0)), float(np.nanmax(every, initial=0.0))
        clim = (low, high if high > low else low + 1.0)
    columns = min(len(panels), COLUMNS)
    rows = -(-len(panels) // columns)
    top = 60 if title else 0
    width, height = GAP + columns * (LEFT + SIZE + GAP), top + rows * (HEAD + SIZE + GAP + 12) + FOOT - GAP
    figure = Figure((width / 72, height / 72), dpi=72, facecolor="white")  # a point is a pixel
    canvas = FigureCanvasAgg(figure)
    figure.text(0.5, 1 - 36 / height, title, size=26, ha="center", va="center", parse_math=False)
    for i, (name, matrix) in enumerate(panels.items()):
        row, column = divmod(i, columns)
        left, bottom = (
            GAP + column * (LEFT + SIZE + GAP) + LEFT,
            height - top - row * (HEAD + SIZE + GAP + 12) - HEAD - SIZE,
        )
        axes = axes_in(figure, (left, bottom, SIZE, SIZE))
        axes.imshow(matrix, cmap=cmap, vmin=clim[0], vmax=clim[1], aspect="auto", interpolation="nearest")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(8, integer=True))
        axes.tick_params(labelsize=17, length=4)
        axes.set_title(name, size=22, pad=14, parse_math=False)
    bar = Panel(np.concatenate([matrix.ravel() for matrix in panels.values()]), clim, label, cmap)
    colour_bar(figure, (bar,), (GAP + LEFT, FOOT - 60, width - 2 * GAP - LEFT, 20), "#ff3ec8")
    canvas.draw()
    picture: Image = np.array(canvas.buffer_rgba())[..., :3]
    if path is not None:
        write_png(picture, Path(path))
    return picture
