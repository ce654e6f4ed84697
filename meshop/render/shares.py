"""What each slice or cluster of a model takes of the nodes, drawn on the mesh."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meshop.data import InputError, Location, MeshData
from meshop.render.fields import compare
from meshop.render.figure import Image, Panel, tile, write_png
from meshop.render.filters import Filter
from meshop.render.panels import Subject, dataset, limits, picture
from meshop.render.scene import View

if TYPE_CHECKING:
    import pyvista as pv

SLICES_A_ROW = 6
SHARES = "meshop:shares"


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
    view: View | None = None,
    filters: Filter | Sequence[Filter] = (),
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
        view: see :func:`field`.
        filters: see :func:`field`.
        show_edges: whether to draw the edges of the cells.
        **kwargs: see :func:`field`.

    Returns:
        the picture [H, W, 3].

    Raises:
        InputError: there is not one row of weights for each point or cell; ``top`` is less than one; those of
            :func:`compare`.

    >>> square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], [9], [range(4)])
    >>> assignment(square, np.eye(4)).shape[2]
    3
    """
    mesh = dataset(data)
    shares = np.asarray(weight, dtype=np.float64)
    count = mesh.n_points if location == "point" else mesh.n_cells
    if shares.ndim != 2 or len(shares) != count or not shares.shape[1]:
        raise InputError(f"Expected weights [{count}, M], a row for each {location} (got {list(shares.shape)})")
    if top < 1:
        raise InputError(f"Expected to draw one slice at least (got top={top})")
    mass = shares.mean(0)
    marked = mesh.copy(deep=False)
    (marked.point_data if location == "point" else marked.cell_data)[SHARES] = shares
    subject = Subject.of(marked, f"{SHARES}:{location}", filters)
    shares = subject.values(SHARES)
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
    look: dict[str, Any] = {"view": view, "show_edges": show_edges, **kwargs}
    above = []
    if name is not None:
        options: dict[str, Any] = {"component": component, "unit": unit, "title": title, "filters": filters, **look}
        above = [compare(mesh, f"{name}:{location}", **options)]
    below = picture([(subject, rows)], title="" if above else title, **look)
    both = tile([*above, below], axis=0)
    if path is not None:
        write_png(both, Path(path))
    return both
