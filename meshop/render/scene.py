"""What of a mesh can be seen, and from where: everything about pictures that is geometry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from meshop.data import InputError, Location, did_you_mean

if TYPE_CHECKING:
    import pyvista as pv

Array = NDArray[np.float64]

View = str | Sequence[float] | Sequence[Sequence[float]]

VIEWS: dict[str, tuple[float, float, float]] = {
    "iso": (1, -1, 1),
    "xy": (0, 0, 1),
    "xz": (0, -1, 0),
    "yz": (1, 0, 0),
    "yx": (0, 0, -1),
    "zx": (0, 1, 0),
    "zy": (-1, 0, 0),
}
ANGLE = 30.0  # between the upper and the lower edge of what a camera sees, as pyvista's


@dataclass(frozen=True)
class Scene:
    """The visible part of a mesh in the viewer's frame: x right, y up, z towards the viewer.

    Without a camera it is centred and of size 1; before a camera the point it looks at is the origin, and the distance
    to it is 1.
    """

    surface: pv.PolyData
    outline: pv.PolyData  # its sharp and open edges
    frame: pv.PolyData  # those of the mesh from which filters have taken the surface
    flat: bool  # whether the mesh lies in one plane
    camera: bool = False

    @classmethod
    def of(
        cls,
        mesh: pv.DataSet,
        location: Location,
        arrays: dict[str, NDArray[np.float32]],
        view: View | None,
        whole: pv.DataSet | None = None,
        outlined: bool = True,
    ) -> Scene:
        """See a mesh from a direction; by default a plane mesh along its normal, any other isometrically.

        Args:
            mesh: any pyvista dataset; it is not changed.
            location: where the arrays live.
            arrays: what the surface is to carry, instead of the mesh's own arrays.
            view: direction from the mesh to the viewer, its name, or a camera; see :func:`viewer`.
            whole: the mesh as it was before filters, of which edges are drawn about the surface.
            outlined: whether edges of the surface are drawn.
        """
        import pyvista as pv

        # a copy (VTK shares points where it can) without points that no cell uses
        surface = visible(mesh, location, arrays).clean(point_merging=False)
        normal = plane_normal(surface.points)
        frame = pv.PolyData()
        if whole is not None and whole.n_cells:
            shell = visible(whole, "point", {}).clean(point_merging=False)
            across = plane_normal(shell.points)
            # a slice of a volume, seen along its normal, needs no frame
            if across is not None or normal is None or view is not None:
                frame = _edges(shell, across)
            if across is not None and normal is not None:
                normal = across  # of a line in a plane
        if view is None:
            view = "iso" if normal is None else normal.tolist()
        surface.points, frame.points = turn([surface.points, frame.points], view)
        outline = _edges(surface, normal) if outlined else pv.PolyData()
        return cls(surface, outline, frame, normal is not None, np.ndim(view) == 2)

    @property
    def extent(self) -> tuple[float, float]:
        """Width and height, of what a camera sees 4 to 3."""
        if self.camera:
            height = 2 * np.tan(np.deg2rad(ANGLE / 2))
            return 4 / 3 * height, height
        width, height, _ = np.ptp(np.concatenate([self.surface.points, self.frame.points]), axis=0)
        return float(width), float(height)


def visible(mesh: pv.DataSet, location: Location, arrays: dict[str, NDArray[np.float32]]) -> pv.PolyData:
    """The outer surface of volumes, plane cells, lines and, where there are no cells, points."""
    import pyvista as pv
    from vtkmodules.vtkFiltersGeometry import vtkGeometryFilter

    if not mesh.n_cells:
        cloud = pv.PolyData(np.asarray(mesh.points))  # with a vertex at each point
        cloud.point_data.update(arrays)
        return cloud
    bare = mesh.cast_to_unstructured_grid().copy(deep=False)
    bare.clear_data()
    (bare.point_data if location == "point" else bare.cell_data).update(arrays)
    filter_ = vtkGeometryFilter()  # takes quadratic cells too; pyvista's name for it changed twice
    filter_.SetInputData(without_riders(bare))
    filter_.Update()
    surface: pv.PolyData = pv.wrap(filter_.GetOutput())
    return surface


def without_riders(grid: pv.UnstructuredGrid) -> pv.UnstructuredGrid:
    """Leave out cells all of whose nodes belong to cells of higher dimension.

    Files of gmsh hold the boundary of a volume as triangles, which would cover the volume's faces. A shell that stands
    on a volume has nodes of its own and stays.
    """
    from vtkmodules.util.numpy_support import vtk_to_numpy

    dim = dimensions(grid)
    if dim.min() == dim.max():
        return grid
    cell = np.repeat(np.arange(grid.n_cells), np.diff(vtk_to_numpy(grid.GetCells().GetOffsetsArray())))  # [K]
    node = vtk_to_numpy(grid.GetCells().GetConnectivityArray())  # [K]
    highest = np.zeros(grid.n_points, dtype=np.int64)
    np.maximum.at(highest, node, dim[cell])
    own_nodes = np.bincount(cell, weights=highest[node] == dim[cell], minlength=grid.n_cells)
    return grid.extract_cells(np.flatnonzero(own_nodes))


def dimensions(grid: pv.UnstructuredGrid) -> NDArray[np.int64]:
    """Dimension of each cell [C]."""
    from vtkmodules.vtkCommonDataModel import vtkGenericCell

    of_kind = np.zeros(256, dtype=np.int64)
    for kind in np.unique(grid.celltypes):
        of_kind[kind] = vtkGenericCell.InstantiateCell(int(kind)).GetCellDimension()
    return of_kind[grid.celltypes]


def _edges(surface: pv.PolyData, normal: Array | None) -> pv.PolyData:
    """Sharp and open edges of a surface that lies in a plane with this normal, or in none."""
    # the triangles of an STL file share no points before they are merged, so that all their edges are open
    # in a plane the only sharp edges are those of triangles that are listed the other way round
    return surface.clean().extract_feature_edges(
        30.0, non_manifold_edges=False, feature_edges=normal is None, manifold_edges=False
    )


def plane_normal(points: NDArray[np.floating]) -> Array | None:
    """Normal of the plane in which points [P, 3] lie, on the side of +z, -y or +x; of a line, of a plane through it.

    >>> plane_normal(np.array([[0.0, 0, 0], [1, 0, 0], [0, 0, 1]])) + 0.0
    array([ 0., -1.,  0.])
    """
    points = np.asarray(points, dtype=np.float64)
    points = points - points.mean(0)
    points /= np.abs(points).max() or 1.0
    spread, axes = np.linalg.eigh(points.T @ points)  # ascending
    if spread[0] > 1e-12 * spread[2]:
        return None
    normal = axes[:, 0]
    if spread[1] <= 1e-12 * spread[2]:
        line = axes[:, 2]
        normal = np.eye(3)[np.abs(line).argmin()]
        normal = normal - normal @ line * line
    side = normal * (1, -1, 1)
    return normal * np.sign(side[np.abs(side).argmax()])


def turn(clouds: Sequence[NDArray[np.floating]], view: View) -> list[Array]:
    """Clouds of points [P, 3] in the frame of a viewer, see :class:`Scene` and :func:`viewer`."""
    axes, focus, distance = viewer(view)
    if focus is not None:
        return [(np.asarray(points, dtype=np.float64) - focus) @ axes / distance for points in clouds]
    turned = [np.asarray(points, dtype=np.float64) @ axes for points in clouds]
    every = np.concatenate(turned)
    low, high = every.min(0), every.max(0)
    size = (high - low).max() or 1.0
    return [(points - (low + high) / 2) / size for points in turned]


def viewer(view: View) -> tuple[Array, Array | None, float]:
    """Axes [3, 3] of a viewer (columns: right, up, towards the viewer), the point looked at, and the distance to it.

    A view is a name (``iso``, or the axes that point right and up), the direction from the mesh to the viewer, with z,
    or y for one above or below, up, or a camera as pyvista has it: position, the point looked at, and what is up.
    Without a camera there is no such point.

    >>> viewer("xz")[0].T.tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]]
    """
    said = view
    if isinstance(view, str):
        if view not in VIEWS:
            raise InputError(
                f"Expected a view {', '.join(VIEWS)} or a direction{did_you_mean(view, list(VIEWS))} (got '{view}')"
            )
        view = VIEWS[view]
    try:
        given = np.asarray(view, dtype=np.float64)
    except (TypeError, ValueError):
        given = np.zeros(0)
    focus = None
    if given.shape == (3, 3):
        position, focus, up = given
        towards = position - focus
    else:
        towards = given
        up = np.array([0, 0, 1] if given.shape == (3,) and abs(given[2]) < 0.9 * np.linalg.norm(given) else [0, 1, 0])
    distance = np.linalg.norm(towards)
    if towards.shape != (3,) or not 0 < distance < np.inf:
        raise InputError(f"Expected a view of three numbers, the direction from mesh to viewer (got {said})")
    towards = towards / distance
    right = np.cross(up, towards)
    if not 1e-9 < np.linalg.norm(right) < np.inf:
        raise InputError(
            f"Expected a camera with position, focus and a direction that is up in the picture (got {said})"
        )
    right /= np.linalg.norm(right)
    return np.column_stack([right, np.cross(towards, right), towards]) + 0.0, focus, float(distance)
