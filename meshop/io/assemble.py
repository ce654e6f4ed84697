"""From the raw arrays of any reader to a checked :class:`~meshop.data.MeshData`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from meshop.data import Arrays, InputError, MeshData, in_plane_axes


def assemble(
    points: Any,
    cell_type: Any,
    cell_size: Any,
    cell_index: Any,
    polyhedra: Any = None,
    point_data: Mapping[str, Any] | None = None,
    cell_data: Mapping[str, Any] | None = None,
    field_data: Mapping[str, Any] | None = None,
    dim: int = 3,
    copy: bool = True,
) -> MeshData:
    """Copy arrays into a :class:`~meshop.data.MeshData` and check that they fit.

    Numbers become native-endian, contiguous tensors of their own dtype; connectivity becomes int64, whatever integers
    it was; integer coordinates become float64. ``points`` keeps its precision, ``pos`` is its float32 copy; where that
    rounds away more than 1e-5 of the mesh's size, a warning says so.

    Args:
        points: coordinates [P, 1 to 3]; missing columns are zero.
        cell_type: VTK code of each cell [C].
        cell_size: number of nodes of each cell [C].
        cell_index: node numbers one after another [K].
        polyhedra: (cell, face, node) triples [3, S].
        point_data: arrays [P, ...] by name.
        cell_data: arrays [C, ...] by name.
        field_data: arrays of any length by name.
        dim: number of coordinates in ``pos``; 2 takes the two axes of the coordinate plane in which the points lie.
        copy: whether arrays that are as the mesh needs them are copied as well; otherwise they become its own.

    Raises:
        InputError: no points, a node number out of range, an array of the wrong length, or a mesh that lies in no
            coordinate plane where ``dim`` is 2.
    """
    if dim not in (2, 3):
        raise InputError(f"Expected dim 2 or 3 (got {dim})")
    points = np.asarray(points)
    precision = points.dtype.newbyteorder("=") if points.dtype.kind == "f" else np.float64
    points = _owned(points, np.promote_types(precision, np.float32), copy)
    if points.ndim != 2 or not 1 <= points.shape[1] <= 3:
        raise InputError(f"Expected points of shape [P, 3] (got {list(points.shape)})")
    if len(points) == 0:
        raise InputError("Expected a mesh (got one without points)")
    points3 = torch.from_numpy(points)
    if points.shape[1] < 3:
        points3 = torch.nn.functional.pad(points3, (0, 3 - points.shape[1]))
    axes = axes_of(points3, dim)
    pos = points3[:, axes].float()
    exact = points3.dtype == pos.dtype
    lost = 0.0 if exact else float((pos.double() - points3[:, axes]).abs().amax())
    if lost > 1e-5 * float((points3.amax(0) - points3.amin(0)).norm()) > 0:
        warnings.warn(
            f"pos, in single precision, is rounded by up to {lost:.1g} because the mesh lies far from the origin; "
            "centre it with meshop.transforms.Center",
            stacklevel=3,
        )
    array = np.array if copy else np.asarray
    data = MeshData(
        pos=pos,
        points=points3,
        cell_type=integers(cell_type, "cell types", copy),
        cell_size=integers(cell_size, "cell sizes", copy),
        cell_index=integers(cell_index, "node numbers", copy),
        polyhedra=integers(np.empty((3, 0), int) if polyhedra is None else polyhedra, "faces", copy),
        point_data=Arrays({name: array(v) for name, v in (point_data or {}).items()}),
        cell_data=Arrays({name: array(v) for name, v in (cell_data or {}).items()}),
        field_data=Arrays({name: array(v) for name, v in (field_data or {}).items()}),
    )
    data.validate()
    return data


def with_dim(mesh: MeshData, dim: int) -> MeshData:
    """The mesh with ``dim`` coordinates in ``pos``.

    Raises:
        InputError: ``dim`` is 2 and its points lie in no coordinate plane.
    """
    if dim != mesh.dim:
        mesh.pos = mesh.points[:, axes_of(mesh.points, dim)].float()
    return mesh


def axes_of(points: Tensor, dim: int) -> list[int]:
    """The axes of points [P, 3] that ``pos`` has: all three, or the two of the coordinate plane in which they lie.

    Raises:
        InputError: ``dim`` is 2 and they lie in none.
    """
    axes = [0, 1, 2] if dim == 3 else in_plane_axes(points)
    if axes is None:
        extent = ", ".join(f"{float(e):g}" for e in points.amax(0) - points.amin(0))
        raise InputError(f"Expected a mesh in a coordinate plane (got extents {extent}); read it as 3-D (--dim 3)")
    return axes


def _owned(values: np.ndarray[Any, Any], dtype: Any, copy: bool) -> np.ndarray[Any, Any]:
    """Numbers as torch takes them, copied or only where they are not so."""
    return np.array(values, dtype, order="C") if copy else np.require(values, dtype, ["C", "W"])


def integers(values: Any, what: str, copy: bool = True) -> Tensor:
    """Integers of any kind as int64, refusing those that do not fit; without ``copy`` int64 stays where it is.

    >>> integers(np.array([0, 7], dtype=">u4"), "node numbers")
    tensor([0, 7])
    """
    values = np.asarray(values)
    if values.size == 0:
        return torch.zeros(values.shape, dtype=torch.long)
    if values.dtype.kind not in "iu" or values.max() > np.iinfo(np.int64).max:
        raise InputError(f"Expected integers as {what} (got {values.dtype} up to {values.max()})")
    return torch.from_numpy(_owned(values, np.int64, copy))


def to_numpy(array: Tensor | np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """An array as files can carry it: numbers or texts in at most two dimensions, no float16, no bool."""
    if isinstance(array, Tensor):
        array = array.detach().cpu()
        array = (array.float() if array.dtype in (torch.float16, torch.bfloat16) else array).numpy()
    if array.dtype.kind == "c":
        raise InputError(f"Expected real values in field '{name}' (got {array.dtype}); save real and imaginary parts")
    if array.dtype.kind not in "biufU":
        raise InputError(f"Expected numbers or texts in field '{name}' (got {array.dtype})")
    if array.dtype.kind == "b":
        array = array.astype(np.uint8)
    return array.reshape(len(array), math.prod(array.shape[1:])) if array.ndim > 2 else np.atleast_1d(array)


def positions(tags: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], what: str) -> np.ndarray[Any, Any]:
    """Where the wanted tags stand among all.

    >>> positions(np.array([30, 10, 20]), np.array([10, 30]), "nodes").tolist()
    [1, 0]
    """
    order = np.argsort(tags, kind="stable")
    at = np.searchsorted(tags, wanted, sorter=order).clip(max=len(tags) - 1)
    if len(wanted) and (len(tags) == 0 or (tags[order[at]] != wanted).any()):
        raise InputError(f"it refers to {what} that it does not hold")
    return order[at]


# what surface files call their cells, in the order in which VTK numbers them: codes by number of nodes, and otherwise
POLY_CELLS: dict[str, tuple[dict[int, int], int]] = {
    "Verts": ({1: 1}, 2),
    "Lines": ({2: 3}, 4),
    "Polys": ({3: 5, 4: 9}, 7),
    "Strips": ({}, 6),
}


def poly_codes(kind: str, size: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """VTK codes of cells of one kind by their number of nodes.

    >>> poly_codes("Polys", np.array([3, 4, 5])).tolist()
    [5, 9, 7]
    """
    special, otherwise = POLY_CELLS[kind]
    code = np.full(len(size), otherwise)
    for count, own in special.items():
        code[size == count] = own
    return code


def text_numbers(text: bytes) -> np.ndarray[Any, Any]:
    """The numbers of a text, apart by white space.

    >>> text_numbers(b"1 2.5 -3e1").tolist()
    [1.0, 2.5, -30.0]
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.fromstring(text, sep=" ")
        except (DeprecationWarning, ValueError):
            raise InputError("it holds something that is no number where numbers are expected") from None


def warn_left_out(form: str, names: list[str]) -> None:
    """Say which fields a format cannot hold."""
    if names:
        warnings.warn(f"{form} cannot hold the fields {', '.join(names)}: they are left out", stacklevel=5)
