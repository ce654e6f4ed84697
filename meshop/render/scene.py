"""What of a mesh can be seen, and from where: everything about pictures that is geometry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from meshop.data import InputError, Location

if TYPE_CHECKING:
    import pyvista as pv

Array = NDArray[np.float64]

ISOMETRIC = (1.0, -1.0, 1.0)


@dataclass(frozen=True)
class Scene:
    """The visible part of a mesh in the viewer's frame: x right, y up, z towards the viewer, centred, of size 1."""

    surface: pv.PolyData
    outline: pv.PolyData  # its sharp and open edges
    flat: bool  # whether the mesh lies in one plane

    @classmethod
    def of(
        cls, mesh: pv.DataSet, location: Location, arrays: dict[str, NDArray[np.float32]], view: Sequence[float] | None
    ) -> Scene:
        """See a mesh from a direction; by default a plane mesh along its normal, any other isometrically.

        Args:
            mesh: any pyvista dataset; it is not changed.
            location: where the arrays live.
            arrays: what the surface is to carry, instead of the mesh's own arrays.
            view: direction from the mesh to the viewer.
        """
        # a copy (VTK shares points where it can) without points that no cell uses
        surface = visible(mesh, location, arrays).clean(point_merging=False)
        normal = plane_normal(surface.points)
        if view is None:
            view = ISOMETRIC if normal is None else normal.tolist()
        surface.points = turn(surface.points, view)
        # the triangles of an STL file share no points before they are merged, so that all their edges are open
        # in a plane the only sharp edges are those of triangles that are listed the other way round
        outline = surface.clean().extract_feature_edges(
            30.0, non_manifold_edges=False, feature_edges=normal is None, manifold_edges=False
        )
        return cls(surface, outline, normal is not None)

    @property
    def extent(self) -> tuple[float, float]:
        """Width and height."""
        width, height, _ = np.ptp(self.surface.points, axis=0)
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
    from vtkmodules.vtkCommonDataModel import vtkGenericCell

    dim_of = np.zeros(256, dtype=np.int64)
    for kind in np.unique(grid.celltypes):
        dim_of[kind] = vtkGenericCell.InstantiateCell(int(kind)).GetCellDimension()
    dim = dim_of[grid.celltypes]  # [C]
    if dim.min() == dim.max():
        return grid
    cell = np.repeat(np.arange(grid.n_cells), np.diff(vtk_to_numpy(grid.GetCells().GetOffsetsArray())))  # [K]
    node = vtk_to_numpy(grid.GetCells().GetConnectivityArray())  # [K]
    highest = np.zeros(grid.n_points, dtype=np.int64)
    np.maximum.at(highest, node, dim[cell])
    own_nodes = np.bincount(cell, weights=highest[node] == dim[cell], minlength=grid.n_cells)
    return grid.extract_cells(np.flatnonzero(own_nodes))


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


def turn(points: NDArray[np.floating], view: Sequence[float]) -> Array:
    """Points [P, 3] in the frame of a viewer in this direction; z, or y for one above or below, is up."""
    towards = np.asarray(view, dtype=np.float64)
    if towards.shape != (3,) or not 0 < np.linalg.norm(towards) < np.inf:
        raise InputError(f"Expected a view of three numbers, the direction from mesh to viewer (got {view})")
    towards = towards / np.linalg.norm(towards)
    right = np.cross([0, 0, 1] if abs(towards[2]) < 0.9 else [0, 1, 0], towards)
    right /= np.linalg.norm(right)
    turned = np.asarray(points, dtype=np.float64) @ np.column_stack([right, np.cross(towards, right), towards])
    low, high = turned.min(0), turned.max(0)
    return (turned - (low + high) / 2) / ((high - low).max() or 1.0)
