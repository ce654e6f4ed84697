"""A window in which a picture can be turned."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from meshop.data import InputError, MeshData
from meshop.render.figure import Limits
from meshop.render.filters import Filter
from meshop.render.paint import add
from meshop.render.panels import NAN_COLOR, Subject, compared, dataset, single
from meshop.render.scene import Scene, View
from meshop.render.sheets import has_prediction

if TYPE_CHECKING:
    import pyvista as pv


def show(
    data: MeshData | pv.DataSet,
    name: str,
    *,
    component: int | str | None = None,
    unit: str = "",
    clim: Limits | None = None,
    cmap: str = "viridis",
    view: View | None = None,
    filters: Filter | Sequence[Filter] = (),
    show_edges: bool = False,
    nan_color: str = NAN_COLOR,
    **kwargs: Any,
) -> None:
    """Open a window with what :func:`compare` draws, or :func:`field` where ``name_pred`` lacks, and wait for its end.

    Panels are turned together.

    Args:
        data: a mesh with its arrays, or a pyvista dataset.
        name: the field.
        component: as those that follow, see :func:`field`; of ``"all"`` the first is drawn.
        unit: of the field.
        clim: colour range of the field.
        cmap: name of a matplotlib colour map.
        view: from where the mesh is seen first.
        filters: what is done to the mesh first.
        show_edges: whether to draw the edges of the cells.
        nan_color: colour of values that are not finite.
        **kwargs: passed to :meth:`pyvista.Plotter.add_mesh`.

    Raises:
        InputError: there is no display; those of :func:`compare` and :func:`field`.
    """
    import pyvista as pv

    mesh = dataset(data)
    both = has_prediction(mesh, name)
    subject = Subject.of(mesh, name, filters, "_pred" if both else "")
    row = (compared if both else single)(subject, component, unit, clim, cmap)[0]
    arrays = {str(i): panel.values.astype(np.float32) for i, panel in enumerate(row)}
    scene = Scene.of(subject.mesh, subject.location, arrays, view, subject.whole, subject.outlined)
    if not has_display():
        raise InputError("There is no display to open a window on; write a picture, without show")
    plotter = pv.Plotter(shape=(1, len(row)), theme=pv.themes.DocumentTheme())
    for i, panel in enumerate(row):
        plotter.subplot(0, i)
        bar = {"title": f"{panel.title} {panel.label}".strip()}
        seen = scene if i == 0 else Scene(scene.surface.copy(), scene.outline, scene.frame, scene.flat, scene.camera)
        look: dict[str, Any] = {"clim": panel.limits, "show_scalar_bar": True, "scalar_bar_args": bar}
        add(plotter, seen, str(i), panel.cmap, show_edges, nan_color, kwargs, lighting=not scene.flat, **look)
        plotter.view_xy()
        if not scene.camera:
            plotter.enable_parallel_projection()
    plotter.link_views()
    plotter.show()


def has_display() -> bool:
    """Whether a window can be opened here: not where ``PYVISTA_OFF_SCREEN`` says so, nor on Linux without a display."""
    import pyvista as pv

    if pv.OFF_SCREEN:
        return False
    if not sys.platform.startswith("linux"):
        return True
    if not os.environ.get("DISPLAY"):
        return False
    # without the display that DISPLAY names VTK ends the process, so a process of its own asks
    program = (
        "from vtkmodules.vtkRenderingOpenGL2 import vtkXOpenGLRenderWindow as Window;"
        "assert min(Window().GetScreenSize()) > 0"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0
