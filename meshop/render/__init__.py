"""Pictures of fields on the original mesh: :func:`field` draws one, :func:`compare` truth, prediction and error.

:class:`Slice`, :class:`Clip`, :class:`Threshold`, :class:`Contour`, :class:`Warp`, :class:`Arrows` and
:class:`Streamlines` are the filters that can be applied to the mesh before. :func:`animate` draws a series,
:func:`gallery` several meshes with the same colours, :func:`error_histogram` how their errors spread, and
:func:`regions` what the parts of a mesh are called; :func:`show` opens a window.

:func:`assignment` and :func:`matrices` draw what :mod:`meshop.probe` finds inside a model, :func:`lead_curves` and
:func:`spectra` what becomes of a rollout. :func:`page` shows a mesh in a browser.

VTK (through pyvista, off-screen) paints the mesh, matplotlib lays the panels out and draws titles and colour bars. On
a machine where VTK cannot draw, matplotlib paints plane meshes too.
"""

from meshop.render.browser import page
from meshop.render.fields import compare, field
from meshop.render.figure import side_by_side
from meshop.render.filters import Arrows, Clip, Contour, Slice, Streamlines, Threshold, Warp
from meshop.render.lines import lead_curves, spectra
from meshop.render.matrix import matrices
from meshop.render.movie import animate
from meshop.render.paint import can_render
from meshop.render.panels import NAN_COLOR, limits
from meshop.render.regions import regions
from meshop.render.shares import assignment
from meshop.render.sheets import error_histogram, gallery
from meshop.render.window import show

__all__ = [
    "NAN_COLOR",
    "Arrows",
    "Clip",
    "Contour",
    "Slice",
    "Streamlines",
    "Threshold",
    "Warp",
    "animate",
    "assignment",
    "can_render",
    "compare",
    "error_histogram",
    "field",
    "gallery",
    "lead_curves",
    "limits",
    "matrices",
    "page",
    "regions",
    "show",
    "side_by_side",
    "spectra",
]
