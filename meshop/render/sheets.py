"""Several meshes in one picture, and how the errors of a test set spread."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meshop.data import InputError, MeshData, split_name
from meshop.render.figure import Array, Image, Limits, write_png
from meshop.render.filters import Filter
from meshop.render.panels import Subject, compared, dataset, picture, shared, single, titled

if TYPE_CHECKING:
    import pyvista as pv

SIZE = (1100, 620)  # in pixels
BINS = 24


def gallery(
    meshes: Iterable[MeshData | pv.DataSet],
    name: str,
    path: str | os.PathLike[str] | None = None,
    *,
    titles: Sequence[str] = (),
    columns: int = 4,
    component: int | str | None = None,
    unit: str = "",
    title: str = "",
    clim: Limits | None = None,
    worst: float | None = None,
    cmap: str = "viridis",
    filters: Filter | Sequence[Filter] = (),
    **kwargs: Any,
) -> Image:
    """Draw one field on several meshes with the same colours, as a contact sheet.

    Where ``name_pred`` lies on all of them, each is a row of truth, prediction and error as :func:`compare` draws it,
    otherwise a panel as of :func:`field`. The worst of a test set:

        rows = sorted(evaluate(surrogate, test), key=lambda row: -row["relative_l2"])[:5]
        by_name = {mesh.name: mesh for mesh in test}
        gallery([surrogate.predict(by_name[row["name"]]) for row in rows], "p", titles=[row["name"] for row in rows])

    Args:
        meshes: the meshes, in order; all are held in memory.
        name: the field.
        path: PNG file to write as well; it appears under this name only when it is complete.
        titles: of the meshes; by default their ``name``, or their number.
        columns: meshes a row, where each is one panel.
        component: what to draw of a vector, see :func:`field`.
        unit: of the field.
        title: a line above the picture.
        clim: colour range of the field; by default that of all meshes.
        worst: the largest error of the colour range of the error.
        cmap: name of a matplotlib colour map.
        filters: what is done to every mesh first, see :func:`field`.
        **kwargs: ``view``, ``show_edges``, ``nan_color`` and what :meth:`pyvista.Plotter.add_mesh` takes.

    Returns:
        the picture [H, W, 3].

    Raises:
        InputError: there are no meshes, or not one title each; those of :func:`compare` and :func:`field`.

    >>> square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], [9], [range(4)], point_data={"T": range(4)})
    >>> wide = gallery([square, square, square], "T", columns=3)
    >>> gallery([square, square, square], "T", columns=1).shape[0] > 2 * wide.shape[0]
    True
    """
    given = list(meshes)
    names = list(titles) or [str(getattr(mesh, "name", number)) for number, mesh in enumerate(given)]
    if not given or len(names) != len(given):
        raise InputError(f"Expected meshes to draw and a title for each (got {len(given)} and {len(names)})")
    if columns < 1:
        raise InputError(f"Expected one column at least (got columns={columns})")
    datasets = [dataset(mesh) for mesh in given]
    predicted = all(has_prediction(mesh, name) for mesh in datasets)
    subjects, drawn = [], []
    for mesh in datasets:
        subjects.append(Subject.of(mesh, name, filters, "_pred" if predicted else ""))
        rows = compared if predicted else single
        drawn.append(rows(subjects[-1], component, unit, clim, cmap))
    drawn = [titled(rows, text) for rows, text in zip(shared(drawn, clim, worst), names, strict=True)]
    grid = None if predicted or len(drawn[0]) > 1 else min(columns, len(given))
    return picture(list(zip(subjects, drawn, strict=True)), path, title=title, columns=grid, **kwargs)


def has_prediction(mesh: pv.DataSet, name: str) -> bool:
    """Whether ``name_pred`` lies on a mesh."""
    base, location = split_name(name)
    stores = [s for at, s in (("point", mesh.point_data), ("cell", mesh.cell_data)) if location in (None, at)]
    return any(f"{base}_pred" in arrays for arrays in stores)


def error_histogram(
    rows: Iterable[Mapping[str, Any]],
    path: str | os.PathLike[str] | None = None,
    *,
    column: str = "relative_l2",
    reference: str = "mean_predictor",
    label: str = "relative L2 error",
    title: str = "",
) -> Image:
    """Draw how the errors of a test set spread: how many meshes have which error, a colour a field.

    Errors stand on a logarithmic axis. Lines mark the median of each field, dashed ones what the reference makes of it;
    the legend names the mesh with the largest error. Errors that are not finite are counted in the legend.

    Args:
        rows: those of :func:`meshop.train.evaluate`.
        path: PNG file to write as well; it appears under this name only when it is complete.
        column: which error.
        reference: which column to mark beside, if the rows have it; ``""`` for none.
        label: of the axis.
        title: a line above the picture.

    Returns:
        the picture [H, W, 3].

    Raises:
        InputError: there are no rows, or they lack the column; the file cannot be written.

    >>> rows = [{"name": f"case_{i}", "field": "p", "relative_l2": 0.01 * (i + 1)} for i in range(9)]
    >>> error_histogram(rows).shape
    (620, 1100, 3)
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    rows = list(rows)
    if not rows or any(column not in row for row in rows):
        has = ", ".join(rows[0]) if rows else "no rows"
        raise InputError(f"Expected rows of errors with a column {column} (got {has})")
    fields = list(dict.fromkeys(str(row["field"]) for row in rows))
    errors = {f: np.array([float(row[column]) for row in rows if row["field"] == f]) for f in fields}
    every = np.concatenate(list(errors.values()))
    positive = every[np.isfinite(every) & (every > 0)]
    low, high = (positive.min(), positive.max()) if positive.size else (0.1, 1.0)
    bins = np.geomspace(low / 1.05, high * 1.05, BINS + 1)
    figure = Figure((SIZE[0] / 72, SIZE[1] / 72), dpi=72, facecolor="white", layout="constrained")  # a point is a pixel
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots()
    for i, (name, values) in enumerate(errors.items()):
        own = [row for row in rows if row["field"] == name]
        axes.hist(
            np.clip(_finite(values), bins[0], None), bins.tolist(), color=f"C{i}", alpha=0.45, label=_told(values, own)
        )
        for text, style in ((column, "-"), (reference, "--")):
            numbers = _finite(np.array([float(row.get(text, np.nan)) for row in own]))
            if numbers.size and np.median(numbers) > 0:
                axes.axvline(float(np.median(numbers)), color=f"C{i}", ls=style, lw=2.5)
    axes.set(xscale="log", ylabel="meshes")
    axes.set_xlabel(label, parse_math=False)
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_title(title, size=24, pad=14, parse_math=False)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(size=20)
    axes.tick_params(labelsize=17, length=5)
    axes.grid(which="both", alpha=0.25)
    for entry in axes.legend(fontsize=16).get_texts():
        entry.set_parse_math(False)
    canvas.draw()
    image: Image = np.array(canvas.buffer_rgba())[..., :3]
    if path is not None:
        write_png(image, Path(path))
    return image


def _finite(values: Array) -> Array:
    return values[np.isfinite(values)]


def _told(values: Array, rows: Sequence[Mapping[str, Any]]) -> str:
    """A line of the legend."""
    finite = _finite(values)
    text = f"{rows[0]['field']}: "
    if finite.size:
        largest = rows[int(np.nanargmax(np.where(np.isfinite(values), values, -np.inf)))]["name"]
        text += f"median {np.median(finite):.3g}, largest {finite.max():.3g} ({largest})"
    lost = len(values) - finite.size
    return text + (f"{', ' if finite.size else ''}{lost} not finite" if lost else "")
