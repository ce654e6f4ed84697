"""From a mesh and the name of a field to the panels of a picture."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from meshop.data import InputError, Location, MeshData, did_you_mean, in_plane_axes, split_name
from meshop.render.figure import Array, Image, Limits, Panel, draw, write_png
from meshop.render.filters import Filter, filtered
from meshop.render.paint import Box, Painter, can_render, paint_matplotlib, paint_vtk
from meshop.render.scene import Scene, View

if TYPE_CHECKING:
    import pyvista as pv
    from matplotlib.figure import Figure

NAN_COLOR = "#ff3ec8"


def limits(*values: Any, symmetric: bool = False) -> Limits:
    """The colour range (low, high) that arrays share; low < high always.

    Values that are not finite are left out. A constant gets a range about itself, nothing at all gets (0, 1).

    Args:
        *values: arrays of any shape.
        symmetric: whether the range is (-m, m) with the largest absolute value m.

    >>> limits([1.0, float("nan")], [4.0])
    (1.0, 4.0)
    >>> limits([1.0, -3.0], symmetric=True)
    (-3.0, 3.0)
    >>> limits([5.0, 5.0])
    (2.5, 7.5)
    """
    numbers = np.concatenate([np.asarray(v, dtype=np.float64).ravel() for v in values])
    numbers = numbers[np.isfinite(numbers)]
    if symmetric:
        bound = float(np.abs(numbers).max(initial=0.0)) or 1.0
        return -bound, bound
    if not numbers.size:
        return 0.0, 1.0
    low, high = float(numbers.min()), float(numbers.max())
    if low == high:
        half = abs(low) / 2 or 1.0
        return low - half, high + half
    return low, high


@dataclass(frozen=True)
class Subject:
    """What is drawn: a mesh after filters, and where a field lies on it."""

    mesh: pv.DataSet
    name: str
    location: Location
    whole: pv.DataSet | None = None  # the mesh before filters, if there are any
    outlined: bool = True

    @classmethod
    def of(
        cls, data: MeshData | pv.DataSet, name: str, filters: Filter | Sequence[Filter] = (), suffix: str = ""
    ) -> Subject:
        """Find the field ``name`` + ``suffix`` and apply the filters."""
        mesh = dataset(data)
        name, location = _find(mesh, name, suffix)
        filters = [filters] if callable(filters) else list(filters)
        if not filters:
            return cls(mesh, name, location)
        left = mesh.copy(deep=False)  # without arrays of the same name elsewhere: a filter may move those drawn there
        elsewhere = left.cell_data if location == "point" else left.point_data
        for other in (name, f"{name}_pred", f"{name}_error"):
            elsewhere.pop(other, None)
        left = filtered(left, filters)
        now: Location = "point" if name + suffix in left.point_data else "cell"
        if name + suffix not in (left.point_data if now == "point" else left.cell_data):
            raise InputError(f"Field '{name + suffix}' is gone after {filters[-1]}")
        return cls(left, name, now, mesh, getattr(filters[-1], "outlined", True))

    @property
    def arrays(self) -> Any:
        """Those at the location of the field."""
        return self.mesh.point_data if self.location == "point" else self.mesh.cell_data

    def values(self, name: str) -> Array:
        """A field [N, C], NaN where it is not finite; vectors of a plane get their third column back."""
        array = np.asarray(self.arrays[name])
        if array.dtype.kind not in "biuf":
            raise InputError(f"Expected numbers in field '{name}' (got {array.dtype})")
        values = array.astype(np.float64).reshape(len(array), -1)
        values[~np.isfinite(values)] = np.nan
        whole = self.mesh if self.whole is None else self.whole
        if values.shape[1] == 2 and (plane := in_plane_axes(torch.as_tensor(np.asarray(whole.points)))) is not None:
            values = np.insert(values, ({0, 1, 2} - set(plane)).pop(), 0.0, axis=1)
        return values


def single(
    subject: Subject,
    component: int | str | None = None,
    unit: str = "",
    clim: Limits | None = None,
    cmap: str = "viridis",
) -> list[list[Panel]]:
    """A row a component with the field alone, see :func:`meshop.render.field`."""
    values = subject.values(subject.name)
    rows = []
    for index, symbol in _components(component, values):
        column = _column(values, index)
        rows.append([Panel(column, clim or limits(column), _label(symbol.format(subject.name), unit), cmap)])
    return rows


def compared(
    subject: Subject,
    component: int | str | None = None,
    unit: str = "",
    clim: Limits | None = None,
    cmap: str = "viridis",
    worst: float | None = None,
) -> list[list[Panel]]:
    """A row a component with truth, prediction and error, see :func:`meshop.render.compare`."""
    name = subject.name
    names = [n for n in (name, f"{name}_pred", f"{name}_error") if n in subject.arrays]
    fields = {n: subject.values(n) for n in names}
    if len({values.shape for values in fields.values()}) > 1:
        shapes = ", ".join(f"{n} {list(values.shape)}" for n, values in fields.items())
        raise InputError(f"Expected truth, prediction and error of one shape (got {shapes})")
    truth, prediction, error = fields.get(name), fields[f"{name}_pred"], fields.get(f"{name}_error")
    rows = []
    for index, symbol in _components(component, *fields.values()):
        label = _label(symbol.format(name), unit)
        predicted = _column(prediction, index)
        if truth is None:
            rows.append([Panel(predicted, clim or limits(predicted), label, cmap, "prediction")])
            continue
        true = _column(truth, index)
        shared = clim or limits(true, predicted)
        wrong = _column(prediction - truth if error is None else error, index)
        high = worst or limits(wrong, symmetric=True)[1]
        difference = f"{name}_pred − {name}"
        difference = symbol.format(f"({difference})" if symbol.startswith("{}_") else difference)
        signed = index is not None
        rows.append(
            [
                Panel(true, shared, label, cmap, "truth"),
                Panel(predicted, shared, label, cmap, "prediction"),
                Panel(
                    wrong,
                    (-high if signed else 0.0, high),
                    _label(difference, unit),
                    "coolwarm" if signed else "YlOrRd",
                    "error",
                ),
            ]
        )
    return rows


def shared(subjects: Sequence[list[list[Panel]]], clim: Limits | None, worst: float | None) -> list[list[list[Panel]]]:
    """The panels of several meshes with one colour range for all that have the same label."""
    every = [panel for rows in subjects for row in rows for panel in row]
    ranges = {}
    for label in {panel.label for panel in every}:
        alike = [panel for panel in every if panel.label == label]
        values = np.concatenate([panel.values for panel in alike])
        if alike[0].title == "error":
            high = worst or limits(values, symmetric=True)[1]
            ranges[label] = (0.0 if alike[0].limits[0] == 0 else -high, high)
        else:
            ranges[label] = clim or limits(values)
    return [[[replace(p, limits=ranges[p.label]) for p in row] for row in rows] for rows in subjects]


def titled(rows: list[list[Panel]], text: str) -> list[list[Panel]]:
    """Rows whose panels begin with the name of their mesh."""
    return [[replace(p, title=f"{text}: {p.title}" if p.title else text) for p in row] for row in rows]


def picture(
    parts: Sequence[tuple[Subject, list[list[Panel]]]],
    path: str | os.PathLike[str] | None = None,
    *,
    title: str = "",
    view: View | None = None,
    show_edges: bool = False,
    nan_color: str = NAN_COLOR,
    columns: int | None = None,
    **options: Any,
) -> Image:
    """Draw rows of panels, those of one subject after those of another, or all panels in this many columns."""
    from matplotlib import colormaps
    from matplotlib.colors import is_color_like

    rows = [row for _, own in parts for row in own]
    panels = [panel for row in rows for panel in row]
    for low, high in (panel.limits for panel in panels):
        if not -np.inf < low < high < np.inf:
            raise InputError(f"Expected a colour range clim = (low, high) with low < high (got {low}, {high})")
    if (cmap := panels[0].cmap) not in colormaps:
        raise InputError(
            f"Expected the name of a matplotlib colour map{did_you_mean(cmap, list(colormaps))} (got '{cmap}')"
        )
    if not is_color_like(nan_color):
        raise InputError(f"Expected a matplotlib colour for what is not finite, 'gray' say (got '{nan_color}')")
    scenes: list[Scene] = []
    painters: list[Painter] = []
    owner: list[int] = []
    for number, (subject, own) in enumerate(parts):
        first = len(owner)
        arrays = {str(first + i): panel.scaled for i, panel in enumerate(p for row in own for p in row)}
        owner += [number] * len(arrays)
        scenes.append(Scene.of(subject.mesh, subject.location, arrays, view, subject.whole, subject.outlined))
        painters.append(painter(scenes[-1], show_edges, nan_color, options))

    def paint(figure: Figure, box: Box, name: str, cmap: str) -> None:
        painters[owner[int(name)]](figure, box, name, cmap)

    if columns is not None:
        rows = [panels[i : i + columns] for i in range(0, len(panels), columns)]
    width, height = np.max([scene.extent for scene in scenes], axis=0)
    image = draw(rows, (float(width), float(height)), title, nan_color, paint)
    if path is not None:
        write_png(image, Path(path))
    return image


def painter(scene: Scene, show_edges: bool, nan_color: str, options: dict[str, Any]) -> Painter:
    if can_render():
        return functools.partial(paint_vtk, scene, show_edges, nan_color, options)
    cannot = "VTK cannot draw on this machine (no EGL, no OSMesa, no display)"
    if not scene.flat:
        raise InputError(f"{cannot} and matplotlib draws plane meshes only; install EGL, with apt install libegl1 say")
    if os.environ.get("MESHOP_RENDERER") != "matplotlib":
        warnings.warn(f"{cannot}, so matplotlib draws", RuntimeWarning, stacklevel=4)
    return functools.partial(paint_matplotlib, scene, show_edges, nan_color)


def dataset(data: MeshData | pv.DataSet) -> pv.DataSet:
    if isinstance(data, MeshData):
        from meshop.io import to_pyvista

        data = to_pyvista(data)
    if not data.n_points:
        raise InputError("Expected a mesh with points to draw (got an empty mesh)")
    return data


def _find(mesh: pv.DataSet, text: str, suffix: str = "") -> tuple[str, Location]:
    """Name and location of a field given as ``"p"`` or ``"p:point"``; the array sought is the name with the suffix."""
    name, location = split_name(text)
    sought = name + suffix
    stores: dict[Location, Any] = {"point": mesh.point_data, "cell": mesh.cell_data}
    found: list[Location] = [loc for loc, arrays in stores.items() if sought in arrays and location in (None, loc)]
    if len(found) == 2:
        raise InputError(f"Field '{sought}' is both a point and a cell field; say {name}:point or {name}:cell")
    if not found:
        sought = f"{sought}:{location}" if location else sought
        known = [f"{n}:{loc}" for loc, arrays in stores.items() for n in arrays]
        listed = ", ".join(known) or "no fields"
        raise InputError(f"Field '{sought}' is not in the mesh{did_you_mean(sought, known)}; it has {listed}")
    return name, found[0]


def _components(component: int | str | None, *fields: Array) -> list[tuple[int | None, str]]:
    """The columns to draw (``None`` is the magnitude), each with the format that makes a label of the field's name."""
    count = fields[0].shape[1]
    axes = list("xyz") if count == 3 else [str(i) for i in range(count)]
    known: dict[str, tuple[int | None, str]] = {axis: (i, f"{{}}_{axis}") for i, axis in enumerate(axes)}
    known = {"0": (0, "{}")} if count == 1 else {"magnitude": (None, "|{}|")} | known
    if component == "all":  # but for a column normal to a plane, which is zero everywhere
        return [
            (i, text) for i, text in known.values() if i is None or count != 3 or any(f[:, i].any() for f in fields)
        ]
    if component is None:
        component = next(iter(known))
    key = axes[component] if isinstance(component, int) and 0 <= component < count else str(component)
    if key not in known:
        raise InputError(f"Expected component {', '.join(known)} or all of the field (got '{component}')")
    return [known[key]]


def _column(values: Array, index: int | None) -> Array:
    column: Array = np.linalg.norm(values, axis=1) if index is None else values[:, index]
    return column


def _label(symbol: str, unit: str) -> str:
    return f"{symbol} [{unit}]" if unit else symbol
