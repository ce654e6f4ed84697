"""Curves: how errors grow over the lead time, and how energy spreads over wave numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from meshop.data import InputError
from meshop.render.figure import Array, Image, write_png

SIZE = (1100, 680)  # in pixels
DECADES = 12  # of energy; beneath them lies what rounding leaves


def lead_curves(
    values: Mapping[str, Any],
    times: Any = None,
    path: str | os.PathLike[str] | None = None,
    *,
    label: str = "relative L2",
    unit: str = "",
    title: str = "",
    scale: Literal["log", "linear"] = "log",
    reference: str = "persistence",
) -> Image:
    """Draw a number over the lead time, a curve a model: the mean over windows, between its lowest and highest tenth.

    A curve ends at the frame before the first in which a window has no finite number.

    Args:
        values: numbers [windows, T] by the name of the curve, those of :func:`meshop.train.by_lead` say.
        times: lead times [T]; the numbers of the frames, from 1 on, if absent.
        path: PNG file to write as well; it appears under this name only when it is complete.
        label: what is drawn, beside the axis.
        unit: of the times.
        title: a line above the picture.
        scale: of the axis of the numbers; ``"linear"`` for correlations.
        reference: name of a curve to draw black and dashed, if there is one.

    Returns:
        the picture [H, W, 3].

    Raises:
        InputError: there are no curves, or not one time for each of their numbers; the file cannot be written.

    >>> lead_curves({"CANO": [[0.1, 0.2], [0.1, 0.4]], "persistence": [[0.5, 0.9]]}, [0.5, 1.0], unit="s").shape[2]
    3
    """
    curves = _curves(values, "[windows, T]")
    count = next(iter(curves.values())).shape[1]
    places = np.arange(1.0, count + 1) if times is None else np.asarray(times, dtype=np.float64)
    if places.shape != (count,):
        raise InputError(f"Expected {count} times, one for each number of a curve (got {list(places.shape)})")
    what = "frame" if times is None else "lead time"
    axes: dict[str, Any] = {"xlabel": f"{what} [{unit}]" if unit else what, "ylabel": label, "yscale": scale}
    return _draw(curves, places, axes, title, reference, path)


def spectra(
    values: Mapping[str, Any],
    path: str | os.PathLike[str] | None = None,
    *,
    label: str = "kinetic energy",
    title: str = "",
    reference: str = "truth",
) -> Image:
    """Draw energy over wave numbers, a curve a flow: the mean over flows, between their lowest and highest tenth.

    Both axes are logarithmic, so the mean flow, wave number 0, is left out, and so is what lies more than twelve
    decades below the largest energy.

    Args:
        values: energies [flows, K] from wave number 0 on, by the name of the curve:
            :func:`meshop.metrics.energy_spectrum`.
        path: PNG file to write as well; it appears under this name only when it is complete.
        label: what is drawn, beside the axis.
        title: a line above the picture.
        reference: name of a curve to draw black and dashed, if there is one.

    Returns:
        the picture [H, W, 3].

    Raises:
        InputError: there are no curves, or they differ in length; the file cannot be written.

    >>> spectra({"truth": [[0.0, 1.0, 0.1, 0.01]], "CANO": [[0.0, 1.0, 0.1, 0.001]]}).shape[2]
    3
    """
    curves = {name: energy[:, 1:] for name, energy in _curves(values, "[flows, K]").items()}
    count = next(iter(curves.values())).shape[1]
    axes: dict[str, Any] = {"xlabel": "wave number", "ylabel": label, "xscale": "log", "yscale": "log"}
    every = np.concatenate([energy[np.isfinite(energy)] for energy in curves.values()])
    drawn = every[every > every.max(initial=0.0) / 10**DECADES]
    if drawn.size:
        axes["ylim"] = (drawn.min() / 3, drawn.max() * 3)
    return _draw(curves, np.arange(1.0, count + 1), axes, title, reference, path)


def _curves(values: Mapping[str, Any], shape: str) -> dict[str, Array]:
    curves: dict[str, Array] = {name: np.asarray(value, dtype=np.float64) for name, value in values.items()}
    sound = all(curve.ndim == 2 and len(curve) for curve in curves.values())
    if not sound or len({curve.shape[1] for curve in curves.values()}) != 1:
        shapes = ", ".join(f"{name} {list(curve.shape)}" for name, curve in curves.items()) or "none"
        raise InputError(f"Expected curves {shape} of one length to draw (got {shapes})")
    return curves


def _draw(
    curves: Mapping[str, Array],
    places: Array,
    options: Mapping[str, Any],
    title: str,
    reference: str,
    path: str | os.PathLike[str] | None,
) -> Image:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((SIZE[0] / 72, SIZE[1] / 72), dpi=72, facecolor="white", layout="constrained")  # a point is a pixel
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots()
    lines, positive = [], False
    colours = iter(f"C{i}" for i in range(len(curves)))
    for name, curve in curves.items():
        gaps = np.flatnonzero(~np.isfinite(curve).all(0))
        end = int(gaps[0]) if gaps.size else curve.shape[1]
        colour, dashes = ("black", "--") if name == reference else (next(colours), "-")
        marker = "o" if end == 1 else None
        mean = curve[:, :end].mean(0)
        positive |= bool((mean > 0).any())
        lines += axes.plot(places[:end], mean, color=colour, ls=dashes, lw=2.5, marker=marker)
        if len(curve) > 1 and end:
            low, high = np.quantile(curve[:, :end], (0.1, 0.9), axis=0)
            axes.fill_between(places[:end], low, high, color=colour, alpha=0.15, lw=0)
    axes.set(**{**options, "yscale": options["yscale"] if positive else "linear"})
    axes.set_title(title, size=24, pad=14, parse_math=False)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(size=20, parse_math=False)
    axes.tick_params(labelsize=17, length=5)
    axes.grid(which="both", alpha=0.25)
    for text in axes.legend(lines, list(curves), fontsize=17).get_texts():
        text.set_parse_math(False)
    canvas.draw()
    picture: Image = np.array(canvas.buffer_rgba())[..., :3]
    if path is not None:
        write_png(picture, Path(path))
    return picture
