"""Pictures of fields on the original mesh: :func:`field` draws one, :func:`compare` truth, prediction and error.

:func:`assignment` and :func:`matrices` draw what :mod:`meshop.probe` finds inside a model, :func:`lead_curves` and
:func:`spectra` what becomes of a rollout. :func:`page` shows a mesh in a browser.

VTK (through pyvista, off-screen) paints the mesh, matplotlib lays the panels out and draws titles and colour bars. On
a machine where VTK cannot draw, matplotlib paints plane meshes too.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from meshop.data import InputError, Location, MeshData, did_you_mean, in_plane_axes, split_name
from meshop.render.browser import page
from meshop.render.figure import Array, Image, Limits, Panel, draw, tile, write_png
from meshop.render.lines import lead_curves, spectra
from meshop.render.matrix import matrices
from meshop.render.paint import Painter, can_render, paint_matplotlib, paint_vtk
from meshop.render.scene import Scene

if TYPE_CHECKING:
    import pyvista as pv

__all__ = [
    "animate",
    "assignment",
    "can_render",
    "compare",
    "field",
    "lead_curves",
    "limits",
    "matrices",
    "page",
    "side_by_side",
    "spectra",
]

NAN_COLOR = "#ff3ec8"
SLICES_A_ROW = 6


def field(
    data: MeshData | pv.DataSet,
    name: str,
    path: str | os.PathLike[str] | None = None,
    *,
    component: int | str | None = None,
    unit: str = "",
    title: str = "",
    clim: Limits | None = None,
    cmap: str = "viridis",
    view: Sequence[float] | None = None,
    show_edges: bool = False,
    nan_color: str = NAN_COLOR,
    **kwargs: Any,
) -> Image:
    """Draw one field on its mesh.

    Plane meshes are seen along their normal, everything else isometrically; volumes show their outer surface, meshes
    without cells their points. The projection is parallel, the background white. Values that are not finite have a
    colour of their own.

    Args:
        data: a mesh with its arrays, or a pyvista dataset.
        name: the field, with its location where the name alone is ambiguous: ``"p"``, ``"p:cell"``.
        path: PNG file to write as well; it appears under this name only when it is complete.
        component: what to draw of a vector: ``"magnitude"`` (the default), ``"x"``, ``"y"``, ``"z"``, the column's
            number, or ``"all"`` for magnitude and components, one row each.
        unit: unit of the field, shown at the colour bar.
        title: a line above the picture.
        clim: colour range (low, high); by default that of the field.
        cmap: name of a matplotlib colour map.
        view: direction from the mesh to the viewer, instead of the one described above.
        show_edges: whether to draw the edges of the cells.
        nan_color: colour of values that are not finite.
        **kwargs: passed to :meth:`pyvista.Plotter.add_mesh` (where VTK draws), ``opacity`` or ``smooth_shading`` say.

    Returns:
        the picture [H, W, 3].

    Raises:
        InputError: the field is absent, ambiguous, not numeric or has no such component; the mesh has no points; the
            file cannot be written; VTK cannot draw on this machine and the mesh is not plane.

    >>> square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], [9], [range(4)], point_data={"T": range(4)})
    >>> field(square, "T", unit="K").shape[2]
    3
    """
    mesh = _dataset(data)
    name, location = _find(mesh, name)
    values = _values(mesh, name, location)
    rows = []
    for index, symbol in _components(component, values):
        column = _column(values, index)
        rows.append([Panel(column, clim or limits(column), _label(symbol.format(name), unit), cmap)])
    return _picture(mesh, location, rows, path, title, view, show_edges, nan_color, kwargs)


def compare(
    data: MeshData | pv.DataSet,
    name: str,
    path: str | os.PathLike[str] | None = None,
    *,
    component: int | str | None = None,
    unit: str = "",
    title: str = "",
    clim: Limits | None = None,
    worst: float | None = None,
    cmap: str = "viridis",
    view: Sequence[float] | None = None,
    show_edges: bool = False,
    nan_color: str = NAN_COLOR,
    **kwargs: Any,
) -> Image:
    """Draw truth, prediction and signed error side by side on the original mesh.

    The arrays are ``name``, ``name_pred`` and ``name_error``, all at the location of ``name_pred``; a missing error is
    prediction - truth. Without the truth the prediction stands alone. Truth and prediction share one colour range,
    that of the error is symmetric about zero. The error of a magnitude is the length of the difference of the vectors,
    which is never negative: its range starts at zero.

    Arguments, picture and errors are those of :func:`field`; ``clim`` and ``cmap`` are for truth and prediction,
    ``worst`` is the largest error of the colour range of the error, that of the picture by default.

    >>> triangle = MeshData.from_cells([[0.0, 0], [1, 0], [0, 1]], [5], [[0, 1, 2]])
    >>> triangle.point_data["p"], triangle.point_data["p_pred"] = [0.0, 1, 2], [0.1, 1, 1.8]
    >>> picture = compare(triangle, "p", unit="Pa")
    >>> picture.shape[1] > 2 * picture.shape[0]  # three panels
    True
    """
    mesh = _dataset(data)
    name, location = _find(mesh, name, "_pred")
    stored = mesh.point_data if location == "point" else mesh.cell_data
    names = [n for n in (name, f"{name}_pred", f"{name}_error") if n in stored]
    fields = {n: _values(mesh, n, location) for n in names}
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
    return _picture(mesh, location, rows, path, title, view, show_edges, nan_color, kwargs)


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
    """Draw a series as an animated GIF: each frame as :func:`compare` does, or :func:`field` where ``name_pred`` lacks.

    Colours mean the same in every frame, and the time stands above. One frame at a time is in memory.

    Args:
        frames: the meshes, in order.
        name: the field.
        path: GIF file; it appears under this name only when it is complete.
        clim: colour range of the field in all frames.
        worst: the largest error of the colour range of the error; as large as that of the field by default.
        times: of the frames, shown above them.
        fps: frames a second.
        **kwargs: see :func:`compare` and :func:`field`.

    Returns:
        how many frames there were.

    Raises:
        InputError: there are none, or more than times; those of :func:`compare` and :func:`field`.

    >>> import tempfile
    >>> square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], [9], [range(4)], point_data={"T": range(4)})
    >>> with tempfile.TemporaryDirectory() as out:
    ...     animate([square, square], "T", f"{out}/heat.gif", clim=(0, 3), times=[0.0, 0.5])
    2
    """
    from PIL import Image as Picture

    from meshop.datasets.dataset import whole_file

    count, shape = 0, (0, 0)
    palette = Picture.new("P", (1, 1))

    def pictures() -> Iterator[Picture.Image]:
        nonlocal count, shape
        clock = None if times is None else iter(times)
        for data in frames:
            mesh = _dataset(data)
            if clock is not None and (now := next(clock, None)) is None:
                raise InputError(f"Expected a time for every frame (got {count})")
            title = "" if clock is None else f"t = {now:.6g}"
            base, location = split_name(name)
            stores = [s for at, s in (("point", mesh.point_data), ("cell", mesh.cell_data)) if location in (None, at)]
            if any(f"{base}_pred" in arrays for arrays in stores):
                image = compare(mesh, name, clim=clim, worst=worst or clim[1] - clim[0], title=title, **kwargs)
            else:
                image = field(mesh, name, clim=clim, title=title, **kwargs)
            if not count:
                shape = image.shape[:2]
                palette.putpalette(_colours(kwargs.get("cmap", "viridis"), kwargs.get("nan_color", NAN_COLOR)))
            count += 1
            yield Picture.fromarray(_fitted(image, shape)).quantize(palette=palette, dither=Picture.Dither.NONE)

    drawn = pictures()
    first = next(drawn, None)
    if first is None:
        raise InputError(f"Expected frames to animate {name} (got none)")
    with whole_file(path) as part:
        first.save(part, "GIF", save_all=True, append_images=drawn, duration=1000 / fps, loop=0, disposal=1)
    return count


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


def assignment(
    data: MeshData | pv.DataSet,
    weight: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    location: Location = "point",
    name: str | None = None,
    top: int = 12,
    component: int | str | None = None,
    unit: str = "",
    title: str = "",
    cmap: str = "viridis",
    view: Sequence[float] | None = None,
    show_edges: bool = False,
    **kwargs: Any,
) -> Image:
    """Draw how much of each node goes to each slice or cluster, a panel for each, below truth, prediction and error.

    Panels stand in the order of the mean of their weight over the nodes, which is the percentage in the title beside
    the number of the slice; only the first ``top`` are drawn. Colours go from zero to the largest weight of each panel.

    Args:
        data: a mesh with its arrays, or a pyvista dataset.
        weight: shares [N, M] of the nodes in one layer and head, ``meshop.probe.assignments(model, mesh)[-1][:, 0]``
            say.
        path: PNG file to write as well; it appears under this name only when it is complete.
        location: whether the nodes are the mesh's points or its cells.
        name: a field at this location that :func:`compare` draws above.
        top: number of slices to draw.
        component: of the field, see :func:`field`.
        unit: of the field.
        title: a line above the picture.
        cmap: name of a matplotlib colour map for the shares.
        view: direction from the mesh to the viewer, see :func:`field`.
        show_edges: whether to draw the edges of the cells.
        **kwargs: see :func:`field`.

    Returns:
        the picture [H, W, 3].

    Raises:
        InputError: there is not one row of weights for each point or cell; ``top`` is less than one; those of
            :func:`compare`.

    >>> square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], [9], [range(4)])
    >>> assignment(square, torch.eye(4)).shape[2]
    3
    """
    mesh = _dataset(data)
    shares = np.asarray(weight, dtype=np.float64)
    count = mesh.n_points if location == "point" else mesh.n_cells
    if shares.ndim != 2 or len(shares) != count or not shares.shape[1]:
        raise InputError(f"Expected weights [{count}, M], a row for each {location} (got {list(shares.shape)})")
    if top < 1:
        raise InputError(f"Expected to draw one slice at least (got top={top})")
    mass = shares.mean(0)
    drawn = np.argsort(-mass, kind="stable")[:top]
    panels = [
        Panel(
            shares[:, m],
            (0.0, limits(shares[:, m], symmetric=True)[1]),
            f"share in #{m}",
            cmap,
            f"#{m}   {mass[m]:.1%}",
        )
        for m in drawn
    ]
    rows = [panels[i : i + SLICES_A_ROW] for i in range(0, len(panels), SLICES_A_ROW)]
    above = []
    if name is not None:
        look: dict[str, Any] = {"view": view, "show_edges": show_edges, **kwargs}
        above = [compare(mesh, f"{name}:{location}", component=component, unit=unit, title=title, **look)]
    nan_color = kwargs.pop("nan_color", NAN_COLOR)
    below = _picture(mesh, location, rows, None, "" if above else title, view, show_edges, nan_color, kwargs)
    picture = tile([*above, below], axis=0)
    if path is not None:
        write_png(picture, Path(path))
    return picture


def side_by_side(pictures: Sequence[Image], path: str | os.PathLike[str] | None = None) -> Image:
    """Join pictures into one from left to right, on white, and write it if there is a path.

    >>> side_by_side([np.zeros((2, 3, 3), np.uint8), np.zeros((4, 5, 3), np.uint8)]).shape
    (4, 8, 3)
    """
    picture = tile(pictures, axis=1)
    if path is not None:
        write_png(picture, Path(path))
    return picture


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


def _picture(
    mesh: pv.DataSet,
    location: Location,
    rows: list[list[Panel]],
    path: str | os.PathLike[str] | None,
    title: str,
    view: Sequence[float] | None,
    show_edges: bool,
    nan_color: str,
    options: dict[str, Any],
) -> Image:
    from matplotlib import colormaps
    from matplotlib.colors import is_color_like

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
    scene = Scene.of(mesh, location, {str(i): panel.scaled for i, panel in enumerate(panels)}, view)
    picture = draw(rows, scene.extent, title, nan_color, _painter(scene, show_edges, nan_color, options))
    if path is not None:
        write_png(picture, Path(path))
    return picture


def _painter(scene: Scene, show_edges: bool, nan_color: str, options: dict[str, Any]) -> Painter:
    if can_render():
        return functools.partial(paint_vtk, scene, show_edges, nan_color, options)
    cannot = "VTK cannot draw on this machine (no EGL, no OSMesa, no display)"
    if not scene.flat:
        raise InputError(f"{cannot} and matplotlib draws plane meshes only; install EGL, with apt install libegl1 say")
    if os.environ.get("MESHOP_RENDERER") != "matplotlib":
        warnings.warn(f"{cannot}, so matplotlib draws", RuntimeWarning, stacklevel=4)
    return functools.partial(paint_matplotlib, scene, show_edges, nan_color)


def _dataset(data: MeshData | pv.DataSet) -> pv.DataSet:
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


def _values(mesh: pv.DataSet, name: str, location: Location) -> Array:
    """The field [N, C], NaN where it is not finite; vectors of a plane get their third column back."""
    array = np.asarray((mesh.point_data if location == "point" else mesh.cell_data)[name])
    if array.dtype.kind not in "biuf":
        raise InputError(f"Expected numbers in field '{name}' (got {array.dtype})")
    values = array.astype(np.float64).reshape(len(array), -1)
    values[~np.isfinite(values)] = np.nan
    if values.shape[1] == 2 and (plane := in_plane_axes(torch.as_tensor(np.asarray(mesh.points)))) is not None:
        values = np.insert(values, ({0, 1, 2} - set(plane)).pop(), 0.0, axis=1)
    return values


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
