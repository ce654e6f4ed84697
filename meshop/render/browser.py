"""A page that turns a mesh in a browser and switches between its fields, truth, prediction and error.

vtk.js draws (``viewer/vtk.js``, BSD licence, made by ``viewer/update.mjs``). It lies in the page, as the surface and
the numbers do, so the page is one file that works without a network.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from meshop import __version__
from meshop.data import InputError, Location, MeshData, did_you_mean, split_name
from meshop.render.figure import Array, Panel
from meshop.render.scene import Scene

if TYPE_CHECKING:
    import pyvista as pv

COLUMNS = 9  # of a tensor; an array with more is shown by its magnitude alone


@dataclass(frozen=True)
class Choice:
    """What can be chosen in the page: a field or a component of one, alone or as truth, prediction and error."""

    name: str
    location: Location
    panels: list[Panel]


def page(
    data: MeshData | pv.DataSet,
    path: str | os.PathLike[str],
    names: Sequence[str] = (),
    *,
    units: Mapping[str, str] | None = None,
    title: str = "",
    cmap: str = "viridis",
    view: Sequence[float] | None = None,
    show_edges: bool = False,
    nan_color: str = "#ff3ec8",
) -> None:
    """Write a page that shows fields on their mesh in a browser, one HTML file that needs no network.

    It shows what :func:`meshop.render.field` would draw, from any side: the outer surface of volumes, plane cells,
    lines, or points where there are no cells. A field with ``name_pred`` beside it can be switched between truth,
    prediction and error as in :func:`meshop.render.compare`, with the same colour ranges. Vectors are shown by their
    magnitude and by each component (tensors with more than nine by their magnitude alone).

    Numbers are stored as shares of their colour range in single precision, and positions relative to the size of the
    mesh. A page has 0.4 MB, about 50 bytes more a point of a triangle mesh (80 where there are more than 65,536), and
    16 bytes more for truth, prediction and error of each component.

    Args:
        data: a mesh with its arrays, or a pyvista dataset.
        path: HTML file; it appears under this name only when it is complete.
        names: the fields, with their location where the name alone is ambiguous: ``"p"``, ``"p:cell"``; all that are
            numbers by default.
        units: of the fields by their names, shown at the colour bar.
        title: a line above the picture; the name of the file by default.
        cmap: name of a matplotlib colour map for all but errors.
        view: direction from the mesh to the viewer at the start.
        show_edges: whether the edges of the cells are drawn at the start.
        nan_color: colour of values that are not finite.

    Raises:
        InputError: a field is absent, ambiguous or not numeric; there are none; truth and prediction differ in shape;
            there is no such colour or colour map; the mesh has no points; the file cannot be written.

    >>> import tempfile
    >>> square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], [9], [range(4)], point_data={"T": range(4)})
    >>> with tempfile.TemporaryDirectory() as out:
    ...     page(square, f"{out}/heat.html", ["T"], units={"T": "K"})
    """
    from meshop.io import to_pyvista
    from meshop.io.files import whole_file

    mesh = to_pyvista(data) if isinstance(data, MeshData) else data
    if not mesh.n_points:
        raise InputError("Expected a mesh with points to show (got an empty mesh)")
    choices = list(_choices(mesh, names, units or {}, cmap))
    if not choices:
        raise InputError("Expected a field of numbers to show (the mesh has none)")
    title = title or os.path.splitext(os.path.basename(path))[0]
    content = json.dumps(_content(mesh, choices, view, nan_color) | {"edges": show_edges}, allow_nan=False)
    viewer = files("meshop.render") / "viewer"
    parts = {
        "version": __version__,
        "title": html.escape(title),
        "data": content.replace("<", "\\u003c"),
        "vtk": (viewer / "vtk.js").read_text("utf-8"),
        "page": (viewer / "page.js").read_text("utf-8"),
    }
    frame = (viewer / "page.html").read_text("utf-8")
    with whole_file(path) as part:
        part.write_text(re.sub(r"\{\{(\w+)\}\}", lambda slot: parts[slot[1]], frame), "utf-8")


def _choices(mesh: pv.DataSet, names: Sequence[str], units: Mapping[str, str], cmap: str) -> Iterator[Choice]:
    for name, location in [_find(mesh, name) for name in names] or _all(mesh):
        arrays = _arrays(mesh, location)
        truth, guess, error = (_numbers(arrays, f"{name}{end}") for end in ("", "_pred", "_error"))
        if guess is not None and any(f is not None and f.shape != guess.shape for f in (truth, error)):
            raise InputError(f"Expected {name}, {name}_pred and {name}_error of one shape")
        if guess is not None and truth is not None:
            error = guess - truth if error is None else error
        shown = next(f for f in (truth, guess) if f is not None)
        unit = f" [{units[name]}]" if units.get(name) else ""
        for index, symbol in _components(shown):
            label = symbol.format(name) + unit
            if guess is None:
                panels = [_panel([shown], index, label, cmap, "field")]
            elif truth is None or error is None:
                panels = [_panel([guess], index, label, cmap, "prediction")]
            else:
                difference = f"{name}_pred − {name}"
                difference = symbol.format(difference if index is None or shown.shape[1] == 1 else f"({difference})")
                panels = [
                    _panel([truth, guess], index, label, cmap, "truth"),
                    _panel([guess, truth], index, label, cmap, "prediction"),
                    _panel([error], index, difference + unit, "YlOrRd" if index is None else "coolwarm", "error"),
                ]
            yield Choice(label, location, panels)


def _panel(fields: Sequence[Array], index: int | None, label: str, cmap: str, title: str) -> Panel:
    """A component of the first field, with a colour range that it shares with the others."""
    from meshop.render import limits

    columns = [np.linalg.norm(f, axis=1) if index is None else f[:, index] for f in fields]
    if title != "error":
        return Panel(columns[0], limits(*columns), label, cmap, title)
    low, high = limits(*columns, symmetric=True)
    return Panel(columns[0], (0.0 if index is None else low, high), label, cmap, title)


def _content(
    mesh: pv.DataSet, choices: Sequence[Choice], view: Sequence[float] | None, nan_color: str
) -> dict[str, Any]:
    """All that the page is made of, arrays in base64."""
    from matplotlib import colormaps
    from matplotlib.colors import is_color_like, to_rgb

    if not is_color_like(nan_color):
        raise InputError(f"Expected a matplotlib colour for what is not finite, 'gray' say (got '{nan_color}')")
    colours: dict[str, Any] = {"nan": [round(255 * share) for share in to_rgb(nan_color)]}
    numbers: dict[Location, dict[str, NDArray[np.float32]]] = {}
    for i, choice in enumerate(choices):
        for j, panel in enumerate(choice.panels):
            numbers.setdefault(choice.location, {})[f"{i}/{j}"] = panel.scaled
            if panel.cmap not in colormaps:
                hint = did_you_mean(panel.cmap, list(colormaps))
                raise InputError(f"Expected the name of a matplotlib colour map{hint} (got '{panel.cmap}')")
            colours[panel.cmap] = _pack(255 * colormaps[panel.cmap](np.linspace(0, 1, 256))[:, :3] + 0.5, np.uint8)
    scenes = {location: Scene.of(mesh, location, arrays, view) for location, arrays in numbers.items()}
    scene = next(iter(scenes.values()))
    # vtk.js takes a polygon for convex
    shown = {at: seen.surface.triangulate(pass_verts=True, pass_lines=True) for at, seen in scenes.items()}
    surface, edges = next(iter(shown.values())), _edges(scene.surface)
    most = max(surface.n_points, scene.outline.n_points)
    index = np.uint16 if most <= 2**16 else np.uint32
    return {
        "flat": scene.flat,
        "mesh": {
            "wide": index is np.uint32,
            "points": _pack(surface.points, np.float32),
            "verts": _pack(surface.verts.reshape(-1, 2)[:, 1:], index),
            "lines": _pack(surface.lines.reshape(-1, 3)[:, 1:], index),
            "triangles": _pack(surface.faces.reshape(-1, 4)[:, 1:], index),
            "edges": _pack(edges, index),
            "outline": {
                "points": _pack(scene.outline.points, np.float32),
                "lines": _pack(scene.outline.lines.reshape(-1, 3)[:, 1:], index),
            },
        },
        "colours": colours,
        "fields": [
            {
                "name": choice.name,
                "location": choice.location,
                "views": [
                    {
                        "name": panel.title,
                        "label": panel.label,
                        "limits": panel.limits,
                        "ticks": _ticks(*panel.limits),
                        "extremes": panel.extremes,
                        "gaps": bool(np.isnan(panel.values).any()),
                        "colours": panel.cmap,
                        "values": _pack(_arrays(shown[choice.location], choice.location)[f"{i}/{j}"], np.float32),
                    }
                    for j, panel in enumerate(choice.panels)
                ],
            }
            for i, choice in enumerate(choices)
        ],
    }


def _edges(surface: pv.PolyData) -> NDArray[np.int64]:
    """The edges [E, 2] of all cells, as the numbers of their points."""
    import pyvista as pv
    from vtkmodules.vtkFiltersCore import vtkExtractEdges

    extract = vtkExtractEdges()
    extract.UseAllPointsOn()
    extract.SetInputData(surface)
    extract.Update()
    edges: NDArray[np.int64] = pv.wrap(extract.GetOutput()).lines.reshape(-1, 3)[:, 1:]
    return edges


def _pack(values: Any, kind: type[np.generic]) -> str:
    little = np.dtype(kind).newbyteorder("<")
    return base64.b64encode(np.ascontiguousarray(values, dtype=little).tobytes()).decode("ascii")


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Places from 0 to 1 along the colour bar, with as many digits as tell them apart."""
    from matplotlib.ticker import MaxNLocator

    values = [v for v in MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high) if low <= v <= high]
    for digits in range(4, 17):
        texts = [f"{value:.{digits}g}".replace("-", "−") for value in values]
        if len(set(texts)) == len(texts):
            break
    return [(float((value - low) / (high - low)), text) for value, text in zip(values, texts, strict=True)]


def _arrays(mesh: pv.DataSet, location: Location) -> Any:
    return mesh.point_data if location == "point" else mesh.cell_data


def _all(mesh: pv.DataSet) -> Iterator[tuple[str, Location]]:
    """All fields of numbers; predictions and errors with the field that they are of."""
    locations: tuple[Location, ...] = ("point", "cell")
    for location in locations:
        arrays = _arrays(mesh, location)
        names = [name for name in arrays if np.asarray(arrays[name]).dtype.kind in "biuf" and arrays[name].size]
        predicted = {name.removesuffix("_pred") for name in names if name.endswith("_pred")}
        names = [name.removesuffix("_pred") for name in names if name.removesuffix("_error") not in predicted - {name}]
        yield from ((name, location) for name in dict.fromkeys(names))


def _find(mesh: pv.DataSet, text: str) -> tuple[str, Location]:
    """Name and location of a field, or of one of which there is a prediction alone."""
    name, location = split_name(text)
    locations: tuple[Location, ...] = ("point", "cell")
    found: list[Location] = [
        at for at in locations if location in (None, at) and {name, f"{name}_pred"} & set(_arrays(mesh, at).keys())
    ]
    if len(found) == 2:
        raise InputError(f"Field '{name}' is both a point and a cell field; say {name}:point or {name}:cell")
    if not found:
        known = [f"{n}:{at}" for at in locations for n in _arrays(mesh, at)]
        listed = ", ".join(known) or "no fields"
        raise InputError(f"Field '{text}' is not in the mesh{did_you_mean(text, known)}; it has {listed}")
    return name, found[0]


def _numbers(arrays: Any, name: str) -> Array | None:
    """A field [N, C], NaN where it is not finite."""
    if name not in arrays:
        return None
    array = np.asarray(arrays[name])
    if array.dtype.kind not in "biuf":
        raise InputError(f"Expected numbers in field '{name}' (got {array.dtype})")
    values = array.astype(np.float64).reshape(len(array), -1)
    values[~np.isfinite(values)] = np.nan
    return values


def _components(values: Array) -> list[tuple[int | None, str]]:
    """The columns to show (``None`` is the magnitude), each with the format that makes a label of the field's name."""
    count = values.shape[1]
    if count == 1:
        return [(0, "{}")]
    axes = "xyz" if count == 3 else [str(i) for i in range(count if count <= COLUMNS else 0)]
    # a column normal to a plane is zero everywhere
    columns = [(i, f"{{}}_{axis}") for i, axis in enumerate(axes) if count != 3 or values[:, i].any()]
    return [(None, "|{}|"), *columns]
