"""One field on its mesh; truth, prediction and error side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from meshop.data import MeshData
from meshop.render.figure import Image, Limits
from meshop.render.filters import Filter
from meshop.render.panels import NAN_COLOR, Subject, compared, picture, single
from meshop.render.scene import View

if TYPE_CHECKING:
    import pyvista as pv


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
    view: View | None = None,
    filters: Filter | Sequence[Filter] = (),
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
        view: instead of the one described above: ``"iso"``, ``"xy"`` and so on, the axes that point right and up
            (``"yx"`` shows the other side), the direction from the mesh to the viewer [3], or a camera as pyvista has
            it, (position, point looked at, direction up), whose picture is in perspective.
        filters: what is done to the mesh first, one of :class:`Slice`, :class:`Clip`, :class:`Threshold`,
            :class:`Contour`, :class:`Warp`, :class:`Arrows`, :class:`Streamlines`, or several, one after another.
            Colours, extremes and the default view are those of what is left, and thin lines show the whole mesh.
        show_edges: whether to draw the edges of the cells.
        nan_color: colour of values that are not finite.
        **kwargs: passed to :meth:`pyvista.Plotter.add_mesh` (where VTK draws), ``opacity`` or ``smooth_shading`` say.

    Returns:
        the picture [H, W, 3].

    Raises:
        InputError: the field is absent, ambiguous, not numeric or has no such component; the mesh has no points, or
            none are left by a filter; pyvista does not know a keyword; the file cannot be written; VTK cannot draw on
            this machine and the mesh is not plane.

    >>> square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], [9], [range(4)], point_data={"T": range(4)})
    >>> field(square, "T", unit="K").shape[2]
    3
    """
    subject = Subject.of(data, name, filters)
    rows = single(subject, component, unit, clim, cmap)
    look: dict[str, Any] = {"view": view, "show_edges": show_edges, "nan_color": nan_color}
    return picture([(subject, rows)], path, title=title, **look, **kwargs)


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
    view: View | None = None,
    filters: Filter | Sequence[Filter] = (),
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
    subject = Subject.of(data, name, filters, "_pred")
    rows = compared(subject, component, unit, clim, cmap, worst)
    look: dict[str, Any] = {"view": view, "show_edges": show_edges, "nan_color": nan_color}
    return picture([(subject, rows)], path, title=title, **look, **kwargs)
