"""Regions and boundaries of a mesh under their names."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meshop.data import InputError, MeshData, did_you_mean
from meshop.render.figure import GAP, Image, fitting, panel_size, write_png
from meshop.render.panels import NAN_COLOR, dataset, painter
from meshop.render.scene import Scene, View, dimensions, plane_normal, visible

if TYPE_CHECKING:
    import pyvista as pv

NUMBERS = ("gmsh:physical", "block")  # cell data that number regions
LEGEND = 420  # width in pixels


def regions(
    data: MeshData | pv.DataSet,
    name: str | None = None,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str = "",
    view: View | None = None,
    show_edges: bool = False,
    **kwargs: Any,
) -> Image:
    """Draw the regions of a mesh, each in its colour, with a legend of their names.

    A plane mesh shows its regions in pale colours and cells of its boundary as thick lines. Of a volume the faces that
    are cells of their own are drawn, or where there are none its outside. Regions whose number is 0 have no name in
    gmsh's files and are grey.

    Args:
        data: a mesh with its arrays, or a pyvista dataset.
        name: the cell data that number the regions; ``gmsh:physical`` or ``block`` by default, as
            :func:`meshop.io.read_mesh` gives them. Names come from the field data: [number, dimension] under each name
            as in gmsh's files, or the texts called ``NAMEs``, counted from 0. A region without a name is its number.
        path: PNG file to write as well; it appears under this name only when it is complete.
        title: a line above the picture.
        view: see :func:`field`.
        show_edges: whether to draw the edges of the cells.
        **kwargs: passed to :meth:`pyvista.Plotter.add_mesh` (where VTK draws).

    Returns:
        the picture [H, W, 3].

    Raises:
        InputError: no cell data number regions; those of :func:`field`.

    >>> square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], [5, 5], [[0, 1, 2], [0, 2, 3]])
    >>> square.cell_data["block"], square.field_data["blocks"] = [0, 1], np.array(["steel", "air"])
    >>> regions(square).shape[2]
    3
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    mesh = dataset(data)
    tags = _tags(mesh, name)
    grid = mesh.cast_to_unstructured_grid()
    dim = dimensions(grid)
    highest = int(dim.max())
    normal = plane_normal(grid.points)
    thin = (dim == highest - 1) & (tags != 0)
    thin &= (normal is not None) if highest == 2 else highest == 3
    shown = thin if highest == 3 and thin.any() else thin | (dim == highest)
    found = np.unique(np.stack([dim, tags])[:, shown], axis=1).T.tolist()  # (dimension, number)
    found.sort(key=lambda pair: (-pair[0], pair[1]))
    index = np.full(grid.n_cells, -1.0, dtype=np.float32)
    for i, (d, tag) in enumerate(found):
        index[(dim == d) & (tags == tag)] = (i + 0.5) / len(found)
    drawn = _drawn(grid, index, dim, shown, normal)
    if view is None and normal is not None:
        view = normal.tolist()
    scene = Scene.of(drawn, "cell", {"0": drawn.cell_data["0"]}, view, grid if highest == 3 else None, highest > 1)
    scene = replace(scene, flat=normal is not None)
    colours = [
        _colour(i, pale=d == 2 == highest and bool(thin.any()), known=tag != 0) for i, (d, tag) in enumerate(found)
    ]
    width, height = panel_size(scene.extent, 1)
    top = 60 if title else GAP
    size = (width + 3 * GAP + LEGEND, height + top + GAP)
    figure = Figure((size[0] / 72, size[1] / 72), dpi=72, facecolor="white")  # a point is a pixel
    canvas = FigureCanvasAgg(figure)
    paint = painter(
        scene, show_edges, NAN_COLOR, {"ambient": 0.7, "diffuse": 0.3, "interpolate_before_map": False, **kwargs}
    )
    paint(figure, (GAP, GAP, width, height), "0", ListedColormap(colours))
    figure.text(
        0.5, 1 - 36 / size[1], title, size=fitting(title, 26, size[0]), ha="center", va="center", parse_math=False
    )
    labels = [_name(mesh, name, d, tag) for d, tag in found]
    counts = [int(((dim == d) & (tags == tag)).sum()) for d, tag in found]
    texts = [f"{label} ({count} cell{'s' * (count > 1)})" for label, count in zip(labels, counts, strict=True)]
    legend = figure.legend(
        handles=[Patch(facecolor=c, edgecolor="#303030", label=t) for c, t in zip(colours, texts, strict=True)],
        loc="center left",
        bbox_to_anchor=((width + 2 * GAP) / size[0], 0.5),
        fontsize=min(fitting(max(texts, key=len), 20, LEGEND - 60), 20.0, height / (1.5 * len(texts))),
        frameon=False,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    canvas.draw()
    image: Image = np.array(canvas.buffer_rgba())[..., :3]
    if path is not None:
        write_png(image, Path(path))
    return image


def _tags(mesh: pv.DataSet, name: str | None) -> np.ndarray[Any, Any]:
    """The number of each cell's region."""
    known = list(mesh.cell_data.keys())
    sought = [name] if name else [n for n in NUMBERS if n in known]
    if not sought or sought[0] not in known:
        missing = f"'{name}'{did_you_mean(name, known)}" if name else " or ".join(NUMBERS)
        raise InputError(f"Expected cell data {missing} that number regions; it has {', '.join(known) or 'none'}")
    tags = np.asarray(mesh.cell_data[sought[0]])
    if tags.ndim != 1 or tags.dtype.kind not in "biuf" or not np.array_equal(tags, np.round(tags)):
        raise InputError(f"Expected a whole number a cell in '{sought[0]}', which numbers regions")
    return tags.astype(np.int64)


def _name(mesh: pv.DataSet, name: str | None, dim: int, tag: int) -> str:
    """What a region is called."""
    number = name or next(n for n in NUMBERS if n in mesh.cell_data)
    if f"{number}s" in mesh.field_data:
        texts = [str(text) for text in mesh.field_data[f"{number}s"]]
        return texts[tag] if 0 <= tag < len(texts) else str(tag)
    for label, array in mesh.field_data.items():
        if array.dtype.kind in "iuf" and array.ravel().tolist() == [tag, dim]:
            return str(label)
    return "no name" if number == "gmsh:physical" and tag == 0 else str(tag)


def _drawn(grid: pv.DataSet, index: Any, dim: Any, shown: Any, normal: Any) -> pv.PolyData:
    """The faces with the number of their region's colour, boundary lines as ribbons that lie on them."""
    import pyvista as pv

    parts = []
    for d in np.unique(dim[shown])[::-1]:
        cells = np.flatnonzero(shown & (dim == d))
        part = grid.extract_cells(cells)
        part.clear_data()
        faces = visible(part, "cell", {"0": index[cells]})
        if d == 1 and normal is not None:
            faces = faces.tube(radius=0.006 * grid.length, n_sides=6, capping=True)
            points = np.asarray(faces.points, dtype=np.float64)
            faces.points = points - np.outer(
                (points - np.asarray(grid.points[0])) @ normal - 1e-3 * grid.length, normal
            )
        parts.append(faces)
    merged = parts[0] if len(parts) == 1 else pv.merge(parts, merge_points=False)
    merged.point_data.clear()
    return merged


def _colour(number: int, pale: bool, known: bool) -> tuple[float, float, float]:
    from matplotlib import colormaps

    if not known:
        return (0.85, 0.85, 0.85)
    tab, pastel = (colormaps[name](np.arange(count))[:, :3] for name, count in (("tab10", 10), ("Set2", 7)))
    every = np.concatenate([np.delete(tab, 7, axis=0), pastel])  # without the grey
    colour = every[number % len(every)]
    red, green, blue = (0.4 * colour + 0.6 if pale else colour).tolist()
    return red, green, blue
