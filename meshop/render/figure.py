"""The layout of pictures: rows of panels with their titles and colour bars; lengths are pixels, y points up."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from meshop.data import InputError
from meshop.io.files import whole
from meshop.render.paint import Box, Painter, axes_in

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Image = NDArray[np.uint8]
Limits = tuple[float, float]

GAP = 24
FOOT = 152  # colour bar with its numbers and label


@dataclass(frozen=True)
class Panel:
    """One picture of a mesh."""

    values: Array  # [P] or [C], NaN where there is no finite number
    limits: Limits
    label: str  # of the colour bar, which neighbours with the same label share
    cmap: str
    title: str = ""

    @property
    def scaled(self) -> NDArray[np.float32]:
        """Values mapped so that the colour range is [0, 1]: painters meet neither huge nor tiny numbers."""
        low, high = self.limits
        return ((self.values - low) / (high - low)).astype(np.float32)

    @property
    def extremes(self) -> str:
        """The line under the title."""
        numbers = self.values[np.isfinite(self.values)]
        if not numbers.size:
            return "no finite values"
        return f"min {numbers.min():.4g}   max {numbers.max():.4g}".replace("-", "−")


def draw(rows: list[list[Panel]], extent: tuple[float, float], title: str, nan_color: str, paint: Painter) -> Image:
    """Draw panels of a scene with this extent; the painter finds panel i's scaled values as the scene's array "i".

    No row is longer than the first.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = len(rows[0])
    width, height = panel_size(extent, columns)
    top, head = 60 if title else 16, 66 if rows[0][0].title else 30
    # rows with the same colour bars share those of the last
    below = [[(p.label, p.limits) for p in row] for row in rows[1:]] + [[]]
    shared = [
        same[: len(row)] == [(p.label, p.limits) for p in row][: len(same)] != []
        for row, same in zip(rows, below, strict=True)
    ]
    feet = [GAP if share else FOOT for share in shared]
    full_width, full_height = GAP + columns * (width + GAP), top + len(rows) * (head + height) + sum(feet)
    figure = Figure((full_width / 72, full_height / 72), dpi=72, facecolor="white")  # a point is a pixel
    canvas = FigureCanvasAgg(figure)

    def write(x: float, y: float, text: str, size: float, color: str = "black") -> None:
        at = x / full_width, y / full_height
        figure.text(*at, text, size=size, color=color, ha="center", va="center", parse_math=False)

    write(full_width / 2, full_height - 36, title, fitting(title, 26, full_width))
    lefts = [GAP + column * (width + GAP) for column in range(columns)]
    names = map(str, itertools.count())
    above: list[list[Panel]] = []  # rows that share the colour bars of the next
    bottom = full_height - top
    for row, share, foot in zip(rows, shared, feet, strict=True):
        bottom -= head + height
        for left, panel in zip(lefts, row, strict=False):
            paint(figure, (left, bottom, width, height), next(names), panel.cmap)
            write(left + width / 2, bottom + height + 50, panel.title, fitting(panel.title, 24, width + GAP))
            write(
                left + width / 2,
                bottom + height + 18,
                panel.extremes,
                fitting(panel.extremes, 17, width + GAP),
                "#505050",
            )
        above.append(row)
        if not share:
            longest = max(above, key=len)
            for _, group in itertools.groupby(zip(lefts, longest, strict=False), key=lambda item: item[1].label):
                places, panels = zip(*group, strict=True)
                every = tuple(p for drawn in above for p in drawn if p.label == panels[0].label)
                colour_bar(figure, every, (places[0], bottom - 36, places[-1] + width - places[0], 20), nan_color)
            above = []
        bottom -= foot
    canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3]


def fitting(text: str, size: float, width: float) -> float:
    """The size in which a text of a figure is no wider than this: letters are about half as wide as high."""
    return min(size, 1.75 * width / max(1, len(text)))


def panel_size(extent: tuple[float, float], columns: int) -> tuple[int, int]:
    """Width and height of the panels: of the mesh's proportions, and of much the same area for every mesh."""
    aspect = float(np.clip(extent[0] / max(extent[1], 1e-9), 0.1, 10))
    widest = min(900, (1800 - GAP) // columns - GAP)
    height = float(np.clip(widest * np.sqrt(0.75 / aspect), 140, 640))
    width = float(np.clip(height * aspect, 280, widest))
    return round(width), round(np.clip(width / aspect, 140, height))


def colour_bar(figure: Figure, panels: tuple[Panel, ...], box: Box, nan_color: str) -> None:
    """Draw the bar that panels share into the upper part of a foot."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    left, bottom, width, height = box
    inset = round(0.06 * width)
    axes = axes_in(figure, (left + inset, bottom, width - 2 * inset, height))
    numbers = ScalarFormatter(useMathText=True)
    numbers.set_powerlimits((-3, 4))
    bar = figure.colorbar(
        ScalarMappable(Normalize(*panels[0].limits), panels[0].cmap),
        cax=axes,
        orientation="horizontal",
        ticks=MaxNLocator(int(np.clip(width / 90, 2, 9)), steps=[1, 2, 2.5, 5, 10]),
        format=numbers,
    )
    bar.outline.set_linewidth(0.8)
    axes.tick_params(labelsize=19, length=5)
    axes.xaxis.offsetText.set_fontsize(19)
    label = panels[0].label
    if 13 * len(label) > width:
        label = label.replace(" − ", " −\n")
    size = min(22, 1.6 * width / max(1, *map(len, label.split("\n"))))
    line: dict[str, Any] = {"y": -3.8, "transform": axes.transAxes, "va": "center"}
    axes.text(0.5, s=label, size=size, ha="center", parse_math=False, **line)
    if any(np.isnan(panel.values).any() for panel in panels):
        axes.text(0, s="■ NaN", size=19, color=nan_color, **line)


def tile(pictures: Sequence[Image], axis: int) -> Image:
    """Pictures beneath each other in the middle (axis 0), or side by side from the top (axis 1)."""
    widest = max(picture.shape[1 - axis] for picture in pictures)
    parts = []
    for picture in pictures:
        room = widest - picture.shape[1 - axis]
        margin = [(0, 0), (0, 0), (0, 0)]
        margin[1 - axis] = (room // 2, room - room // 2) if axis == 0 else (0, room)
        parts.append(np.pad(picture, margin, constant_values=255))
    return np.concatenate(parts, axis)


def side_by_side(pictures: Sequence[Image], path: str | os.PathLike[str] | None = None) -> Image:
    """Join pictures into one from left to right, on white, and write it if there is a path.

    >>> side_by_side([np.zeros((2, 3, 3), np.uint8), np.zeros((4, 5, 3), np.uint8)]).shape
    (4, 8, 3)
    """
    picture = tile(pictures, axis=1)
    if path is not None:
        write_png(picture, Path(path))
    return picture


def write_png(picture: Image, path: Path) -> None:
    """Write a picture; the file appears under its name only when it is complete."""
    from matplotlib.image import imsave

    if path.suffix.lower() != ".png":
        raise InputError(f"Expected a file name that ends in .png for the picture (got '{path}')")
    try:
        with whole(path) as part:
            imsave(part, picture, format="png")
    except (InputError, OSError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise InputError(f"Cannot write the picture '{path}': {reason}") from error
