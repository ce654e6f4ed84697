"""The two painters: each puts one panel into a box of a matplotlib figure, VTK as an image, matplotlib as triangles."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from meshop.data import InputError
from meshop.render.scene import ANGLE, Scene

if TYPE_CHECKING:
    import pyvista as pv
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Box = tuple[int, int, int, int]  # left, bottom, width, height in pixels
Painter = Callable[["Figure", Box, str, Any], None]  # figure, box, name of the scene's array, colour map

LINES, FRAME = "#303030", "#909090"
MARGIN = 8  # pixels around the mesh


def can_render() -> bool:
    """Whether VTK can draw on this machine.

    Without a working OpenGL (EGL, OSMesa or a display) VTK does not raise: the process dies. So the first call draws a
    picture in a process of its own, once. The environment variable ``MESHOP_RENDERER`` decides without trying: ``vtk``
    or ``matplotlib``; ``auto`` is the default.

    Raises:
        InputError: ``MESHOP_RENDERER`` is something else.
    """
    choice = os.environ.get("MESHOP_RENDERER", "auto")
    if choice not in ("auto", "vtk", "matplotlib"):
        raise InputError(f"Expected MESHOP_RENDERER to be auto, vtk or matplotlib (got '{choice}')")
    return choice == "vtk" or (choice == "auto" and _vtk_draws())


@functools.cache
def _vtk_draws() -> bool:
    _prefer_egl()
    program = (
        "import pyvista as pv; plotter = pv.Plotter(off_screen=True, window_size=(32, 32));"
        "plotter.add_mesh(pv.Sphere(), color='black'); assert plotter.screenshot(return_img=True).min() < 128"
    )
    try:
        return subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _prefer_egl() -> None:
    if sys.platform.startswith("linux") and not os.environ.get("DISPLAY"):
        os.environ.setdefault("VTK_DEFAULT_OPENGL_WINDOW", "vtkEGLRenderWindow")


def paint_vtk(
    scene: Scene,
    show_edges: bool,
    nan_color: str,
    options: Mapping[str, Any],
    figure: Figure,
    box: Box,
    name: str,
    cmap: Any,
) -> None:
    """Paint an image by VTK."""
    import pyvista as pv

    _prefer_egl()
    left, bottom, width, height = box
    defaults: dict[str, Any] = {
        "lighting": not scene.flat,
        "ambient": 0.7,  # shades should not be taken for colours of the map; the two sum to 1, the unlit colour
        "diffuse": 0.3,
        "edge_opacity": 0.3,
        "line_width": 1 if scene.surface.GetNumberOfPolys() else 5 if scene.frame.n_cells else 16,
        "point_size": float(np.clip(1.2 * np.sqrt(width * height / scene.surface.n_points), 6, 32)),
        "render_points_as_spheres": True,
    }
    with contextlib.closing(
        pv.Plotter(off_screen=True, window_size=[width, height], theme=pv.themes.DocumentTheme())
    ) as plotter:
        plotter.enable_anti_aliasing("ssaa")
        add(plotter, scene, name, cmap, show_edges, nan_color, options, **defaults)
        plotter.camera_position = [(0, 0, 1 if scene.camera else 10), (0, 0, 0), (0, 1, 0)]
        if scene.camera:
            plotter.camera.view_angle = ANGLE
        else:
            plotter.enable_parallel_projection()
            plotter.parallel_scale = _pixel(scene, width, height) * height / 2
        plotter.reset_camera_clipping_range()
        figure.figimage(plotter.screenshot(return_img=True), left, bottom)


def add(
    plotter: pv.Plotter,
    scene: Scene,
    name: str,
    cmap: Any,
    show_edges: bool,
    nan_color: str,
    options: Mapping[str, Any],
    **defaults: Any,
) -> None:
    """Put a scene into a plotter; options are a user's, which pyvista may not know."""
    try:
        plotter.add_mesh(
            scene.surface,
            scalars=name,
            cmap=cmap,
            show_edges=show_edges,
            nan_color=nan_color,
            **{"clim": (0, 1), "show_scalar_bar": False, **defaults, **options},
        )
    except (TypeError, ValueError, AttributeError) as error:
        given = ", ".join(f"{key}={value!r}" for key, value in options.items())
        raise InputError(f"pyvista's add_mesh cannot draw with {given}: {' '.join(str(error).split())}") from error
    for lines, color, width in ((scene.outline, LINES, 1.5), (scene.frame, FRAME, 1.0)):
        if lines.n_cells:
            plotter.add_mesh(lines, color=color, line_width=width, lighting=False)


def paint_matplotlib(
    scene: Scene, show_edges: bool, nan_color: str, figure: Figure, box: Box, name: str, cmap: Any
) -> None:
    """Paint the triangles of a flat scene by matplotlib."""
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection, PolyCollection

    *_, width, height = box
    pixel = _pixel(scene, width, height)
    axes = axes_in(figure, box)
    axes.axis("off")
    axes.set(xlim=(-pixel * width / 2, pixel * width / 2), ylim=(-pixel * height / 2, pixel * height / 2))
    surface, outline, frame = (_projected(scene, mesh) for mesh in (scene.surface, scene.outline, scene.frame))
    edges = surface.extract_all_edges() if show_edges else None
    per_point = name in surface.point_data
    colours: dict[str, Any] = {"cmap": colormaps.get_cmap(cmap).with_extremes(bad=nan_color), "vmin": 0, "vmax": 1}
    if surface.GetNumberOfPolys():
        surface = surface.triangulate()
        (x, y, _), triangles = surface.points.T, surface.regular_faces
        if per_point:
            values = surface.point_data[name]
            axes.tripcolor(x, y, values, triangles=triangles, shading="gouraud", **colours)
            unknown = surface.points[triangles[np.isnan(values)[triangles].any(1)], :2]
            axes.add_collection(PolyCollection(unknown, facecolors=nan_color))
        else:
            axes.tripcolor(x, y, facecolors=surface.cell_data[name], triangles=triangles, **colours)
    else:
        x, y, _ = surface.points.T if per_point else surface.cell_centers().points.T
        axes.scatter(x, y, c=surface[name], plotnonfinite=True, **colours)
    for lines, color, opacity in ((frame, FRAME, 1.0), (outline, LINES, 1.0), (edges, LINES, 0.3)):
        if lines is not None and lines.n_cells:
            ends = lines.points[lines.lines.reshape(-1, 3)[:, 1:], :2]
            axes.add_collection(LineCollection(ends, colors=color, linewidths=1.2, alpha=opacity))


def _projected(scene: Scene, mesh: pv.PolyData) -> pv.PolyData:
    """A part of a scene as its camera sees it, if it has one."""
    if scene.camera and mesh.n_points:
        mesh = mesh.copy(deep=False)
        points = np.asarray(mesh.points)
        mesh.points = points / np.maximum(1 - points[:, 2:], 1e-3)
    return mesh


def _pixel(scene: Scene, width: int, height: int) -> float:
    """Length of a pixel where the scene fills a box but for its margin."""
    x, y = scene.extent
    return max(x / (width - 2 * MARGIN), y / (height - 2 * MARGIN), 1e-9)


def axes_in(figure: Figure, box: Box) -> Axes:
    """Axes that fill a box of a figure."""
    left, bottom, width, height = box
    across, up = figure.bbox.size
    return figure.add_axes((left / across, bottom / up, width / across, height / up))
