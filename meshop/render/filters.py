"""What is done to a mesh before it is drawn: slices, parts, iso-surfaces, displacements, arrows and streamlines.

A filter is a callable that takes a pyvista data set and returns another, so a function of one's own is one, too. The
ones here are pyvista's, with fields by their names and cells of different dimension kept apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from meshop.data import InputError, did_you_mean, in_plane_axes, split_name
from meshop.render.scene import dimensions, plane_normal, without_riders

if TYPE_CHECKING:
    import pyvista as pv

Filter = Callable[[Any], Any]
Plane = str | Sequence[float]

VECTOR, SCALAR = "meshop:vector", "meshop:scalar"
ARROW = 1.6  # length of the longest arrow, as a multiple of the distance between arrows


@dataclass(frozen=True)
class Slice:
    """The cut through a mesh along a plane.

    Args:
        normal: of the plane: ``"x"``, ``"y"``, ``"z"`` or three numbers.
        at: where the plane meets this axis, or a point of it [3]; the middle of the mesh by default.

    >>> import pyvista as pv
    >>> Slice("x", 0.25)(pv.ImageData(dimensions=(2, 2, 2))).bounds[:2]
    (0.25, 0.25)
    """

    normal: Plane = "z"
    at: float | Sequence[float] | None = None

    def __call__(self, mesh: pv.DataSet) -> pv.DataSet:
        normal, origin = _plane(self.normal, self.at, mesh)
        return _by_dimension(mesh, lambda part: part.slice(normal=normal, origin=origin))


@dataclass(frozen=True)
class Clip:
    """What of a mesh lies behind a plane: below ``at`` along its normal.

    Args:
        normal: of the plane, see :class:`Slice`; ``"-x"`` keeps what lies above instead.
        at: see :class:`Slice`.
    """

    normal: Plane = "x"
    at: float | Sequence[float] | None = None

    def __call__(self, mesh: pv.DataSet) -> pv.DataSet:
        normal, origin = _plane(self.normal, self.at, mesh)
        return _by_dimension(mesh, lambda part: part.clip(normal=normal, origin=origin))


@dataclass(frozen=True)
class Threshold:
    """The cells all of whose values of a field lie in a range.

    Args:
        field: a scalar field; of a vector its length counts.
        low: the least value.
        high: the largest value.
    """

    field: str
    low: float = -np.inf
    high: float = np.inf

    def __call__(self, mesh: pv.DataSet) -> pv.DataSet:
        location, values = _scalar(mesh, self.field)
        mesh = mesh.copy(deep=False)
        (mesh.point_data if location == "point" else mesh.cell_data)[SCALAR] = values
        kept = mesh.threshold(_finite(self.low, self.high), scalars=SCALAR, preference=location, all_scalars=True)
        del (kept.point_data if location == "point" else kept.cell_data)[SCALAR]
        return kept


@dataclass(frozen=True)
class Contour:
    """Surfaces, in a plane lines, on which a field has given values; a cell field is averaged onto points first.

    Args:
        field: a scalar field; of a vector its length counts.
        values: these, or how many, evenly between its extremes.
    """

    field: str
    values: int | Sequence[float] = 5
    outlined: ClassVar[bool] = False

    def __call__(self, mesh: pv.DataSet) -> pv.DataSet:
        mesh = _all_on(mesh, "point")
        _, mesh.point_data[SCALAR] = _scalar(mesh, self.field)
        levels: Any = self.values
        if isinstance(levels, int):
            numbers = np.asarray(mesh.point_data[SCALAR])
            numbers = numbers[np.isfinite(numbers)]
            low, high = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 0.0)
            levels = np.linspace(low, high, levels + 2)[1:-1]
        surfaces = _by_dimension(mesh, lambda part: part.contour(levels, scalars=SCALAR, compute_normals=False))
        if SCALAR in surfaces.point_data:
            del surfaces.point_data[SCALAR]
        return surfaces


@dataclass(frozen=True)
class Warp:
    """The mesh displaced by a vector field.

    Args:
        field: the displacement, in the unit of the points; a cell field is averaged onto points.
        factor: by which displacements are multiplied.
    """

    field: str
    factor: float = 1.0

    def __call__(self, mesh: pv.DataSet) -> pv.DataSet:
        mesh = _all_on(mesh, "point")
        mesh.point_data[VECTOR] = np.nan_to_num(_vector(mesh, self.field))
        moved = mesh.warp_by_vector(VECTOR, factor=self.factor)
        del moved.point_data[VECTOR]
        return moved


@dataclass(frozen=True)
class Arrows:
    """Arrows along a vector field, as long as its vectors, at points or middles of cells that are some way apart.

    Args:
        field: the vector field.
        spacing: least distance between arrows, as a share of the mesh's diagonal; the longest arrow is 1.6 times it.
    """

    field: str
    spacing: float = 0.04
    outlined: ClassVar[bool] = False

    def __call__(self, mesh: pv.DataSet) -> pv.DataSet:
        import pyvista as pv

        location, _ = _find(mesh, self.field)
        vector = _vector(mesh, self.field)
        mesh = _all_on(mesh, location)
        places = mesh.cell_centers() if location == "cell" else pv.PolyData(np.asarray(mesh.points))
        if location == "point":
            places.point_data.update(dict(mesh.point_data.items()))
        size = np.linalg.norm(np.nan_to_num(vector), axis=1)
        if not size.max():
            return pv.PolyData()
        places.point_data[VECTOR] = np.nan_to_num(vector) / size.max()
        arrows = places.extract_points(size > 1e-3 * size.max(), include_cells=False).glyph(
            orient=VECTOR,
            scale=VECTOR,
            factor=ARROW * self.spacing * mesh.length,
            tolerance=self.spacing,
            geom=pv.Arrow(tip_radius=0.14, tip_length=0.4, shaft_radius=0.045, tip_resolution=12, shaft_resolution=8),
        )
        return _flattened(arrows, mesh)


@dataclass(frozen=True)
class Streamlines:
    """Lines along a vector field, as thin tubes; a cell field is averaged onto points.

    Args:
        field: the vector field.
        spacing: distance between the points at which lines start, as a share of the mesh's diagonal.
    """

    field: str
    spacing: float = 0.15
    outlined: ClassVar[bool] = False

    def __call__(self, mesh: pv.DataSet) -> pv.DataSet:
        import pyvista as pv

        mesh = _all_on(mesh, "point")
        mesh.point_data[VECTOR] = np.nan_to_num(_vector(mesh, self.field))
        *_, highest = _parts(mesh)
        starts = highest.cell_centers().clean(tolerance=self.spacing)
        lines = highest.streamlines_from_source(
            pv.PolyData(np.asarray(starts.points)),
            vectors=VECTOR,
            integration_direction="both",
            initial_step_length=0.2,
            max_step_length=0.25,
            max_length=4 * mesh.length,
            max_steps=20_000,
            max_error=1e-4,  # fields have kinks at the faces of cells, where smaller errors make steps tiny
            compute_vorticity=False,
        )
        if not lines.n_lines:
            return pv.PolyData()
        return _flattened(lines.tube(radius=0.0025 * mesh.length, n_sides=8), mesh)


def filtered(mesh: pv.DataSet, filters: Filter | Sequence[Filter]) -> pv.DataSet:
    """A mesh after all filters, one after another.

    Cells of lower dimension that ride along on others are left out first, and integers on points become floating point
    numbers, which can lie between two.

    Raises:
        InputError: a filter leaves nothing, or what it needs is not in the mesh.
    """
    import pyvista as pv

    filters = [filters] if callable(filters) else list(filters)
    if not filters:
        return mesh
    if mesh.n_cells:
        mesh = without_riders(mesh.cast_to_unstructured_grid()).copy(deep=False)
    else:
        cloud = pv.PolyData(np.asarray(mesh.points))
        cloud.point_data.update(dict(mesh.point_data.items()))
        mesh = cloud.cast_to_unstructured_grid()
    for name, array in list(mesh.point_data.items()):
        if array.dtype.kind in "biu":
            mesh.point_data[name] = np.asarray(array, dtype=np.float64)
    for step in filters:
        if not callable(step):
            raise InputError(f"Expected filters that take a mesh and return one, Slice('x') say (got {step!r})")
        result = step(mesh)
        if not (result.n_points and result.n_cells):
            x, y, z = np.asarray(mesh.bounds).reshape(3, 2)
            spans = ", ".join(f"{a} {lo:.4g} to {hi:.4g}" for a, (lo, hi) in zip("xyz", (x, y, z), strict=True))
            raise InputError(f"{step} leaves nothing to draw of a mesh that spans {spans}")
        mesh = result
    return mesh


def _plane(normal: Plane, at: float | Sequence[float] | None, mesh: pv.DataSet) -> tuple[list[float], list[float]]:
    """Normal and a point of a plane."""
    if isinstance(normal, str):
        axis = "xyz".find(normal.removeprefix("-"))
        if len(normal.removeprefix("-")) != 1 or axis < 0:
            raise InputError(f"Expected a plane's normal x, y, z or three numbers (got '{normal}')")
        direction = np.eye(3)[axis] * (-1 if normal.startswith("-") else 1)
    else:
        direction = np.asarray(normal, dtype=np.float64)
        if direction.shape != (3,) or not 0 < np.linalg.norm(direction) < np.inf:
            raise InputError(f"Expected a plane's normal x, y, z or three numbers (got {normal})")
    direction = direction / np.linalg.norm(direction)
    if at is None:
        point = np.asarray(mesh.center)
    elif np.ndim(at) == 0:
        point = np.abs(direction) * at if isinstance(normal, str) else direction * at
    else:
        point = np.asarray(at, dtype=np.float64)
    if point.shape != (3,):
        raise InputError(f"Expected the position of a plane, a number or a point of three (got {at})")
    return direction.tolist(), point.tolist()


def _parts(mesh: pv.DataSet) -> Iterator[pv.DataSet]:
    """The cells of each dimension, the lowest first."""
    grid = mesh.cast_to_unstructured_grid()
    dim = dimensions(grid)
    if dim.size == 0 or dim.min() == dim.max():
        yield mesh
        return
    for value in np.unique(dim):
        yield grid.extract_cells(np.flatnonzero(dim == value))


def _by_dimension(mesh: pv.DataSet, step: Filter) -> pv.DataSet:
    """What a filter leaves of the cells of each dimension, in one mesh."""
    import pyvista as pv

    left = [result for part in _parts(mesh) if (result := step(part)).n_cells]
    return left[0] if len(left) == 1 else pv.merge(left, merge_points=False) if left else pv.PolyData()


def _find(mesh: pv.DataSet, text: str) -> tuple[str, str]:
    name, location = split_name(text)
    for at, arrays in (("point", mesh.point_data), ("cell", mesh.cell_data)):
        if name in arrays and location in (None, at):
            if np.asarray(arrays[name]).dtype.kind not in "biuf":
                raise InputError(f"Expected numbers in field '{name}' (got {np.asarray(arrays[name]).dtype})")
            return at, name
    for arrays in (mesh.point_data, mesh.cell_data):
        if name in arrays:  # a filter before has moved it
            return ("point" if arrays is mesh.point_data else "cell"), name
    known = sorted({*mesh.point_data.keys(), *mesh.cell_data.keys()})
    listed = ", ".join(known) or "no fields"
    raise InputError(f"Field '{text}' of a filter is not in the mesh{did_you_mean(name, known)}; it has {listed}")


def _array(mesh: pv.DataSet, text: str) -> tuple[str, np.ndarray[Any, Any]]:
    location, name = _find(mesh, text)
    array = np.asarray((mesh.point_data if location == "point" else mesh.cell_data)[name], dtype=np.float64)
    return location, array.reshape(len(array), -1)


def _scalar(mesh: pv.DataSet, text: str) -> tuple[str, np.ndarray[Any, Any]]:
    location, array = _array(mesh, text)
    return location, array[:, 0] if array.shape[1] == 1 else np.linalg.norm(array, axis=1)


def _vector(mesh: pv.DataSet, text: str) -> np.ndarray[Any, Any]:
    """A field of vectors [N, 3]; those of two columns lie in the mesh's coordinate plane."""
    _, array = _array(mesh, text)
    if array.shape[1] == 2 and (axes := in_plane_axes(torch.as_tensor(np.asarray(mesh.points)))) is not None:
        array = np.insert(array, ({0, 1, 2} - set(axes)).pop(), 0.0, axis=1)
    if array.shape[1] != 3:
        raise InputError(f"Expected a vector field with a column for each axis (got '{text}' with {array.shape[1]})")
    return array


def _all_on(mesh: pv.DataSet, location: str) -> pv.DataSet:
    """A copy of the mesh that has all numbers at one location; those of the other are averaged."""
    copy = mesh.copy(deep=False)
    own, other = (copy.point_data, mesh.cell_data) if location == "point" else (copy.cell_data, mesh.point_data)
    source = mesh.copy(deep=False)
    source.clear_data()
    away = source.cell_data if location == "point" else source.point_data
    away.update({n: a.astype(np.float64) for n, a in other.items() if n not in own and a.dtype.kind in "biuf"})
    if len(away):
        moved = source.cell_data_to_point_data() if location == "point" else source.point_data_to_cell_data()
        own.update(dict((moved.point_data if location == "point" else moved.cell_data).items()))
    return copy


def _finite(low: float, high: float) -> tuple[float, float]:
    largest = float(np.finfo(np.float64).max)
    return max(low, -largest), min(high, largest)


def _flattened(drawn: pv.DataSet, mesh: pv.DataSet) -> pv.DataSet:
    """What is drawn of a plane mesh, moved into its plane."""
    normal = plane_normal(mesh.points)
    if normal is not None and drawn.n_points:
        points = np.asarray(drawn.points, dtype=np.float64)
        drawn.points = points - np.outer((points - np.asarray(mesh.points[0])) @ normal, normal)
    return drawn
