"""What readers of several parts and of several times have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch

from meshop.data import Arrays, InputError, MeshData
from meshop.geometry import cells_at
from meshop.geometry.pairs import row_numbers

TIME = "TimeValue"  # the field in which VTK's files hold their time
BLOCK, BLOCKS = "block", "blocks"


@dataclass
class Frames:
    """A series that is open.

    Attributes:
        count: of its frames; 0 where the file holds a mesh and no times.
        read: what reads one, by its number: its time and its mesh with all arrays. Frame 0 is the mesh where there are
            no times.
        times: those of the frames, where the file says them without being read.
        still: names of arrays that are the same in all frames.
    """

    count: int
    read: Callable[[int], tuple[float, MeshData]]
    times: Sequence[float] | None = None
    still: frozenset[str] = frozenset()


def joined(parts: Sequence[MeshData], names: Sequence[str]) -> MeshData:
    """One mesh of several, part after part; where they touch, points stay as many as they are.

    The cell data ``block`` say from which part a cell came, the field data ``blocks`` how the parts are called. Where a
    part lacks an array, numbers are NaN, masks false and texts empty.

    Raises:
        InputError: there are no parts, or an array has not as many components in all.
    """
    if not parts:
        raise InputError("Expected a mesh (got no block that has points)")
    if len(parts) == 1:
        return parts[0]
    batch = Batch.from_data_list(list(parts), exclude_keys=["point_data", "cell_data", "field_data"])
    mesh = MeshData(**{key: batch[key] for key in parts[0].keys() if key in batch})  # noqa: SIM118
    for key, counts in (
        ("point_data", [part.num_points for part in parts]),
        ("cell_data", [part.num_cells for part in parts]),
    ):
        mesh[key] = stacked([part[key] for part in parts], counts)
    mesh.field_data = Arrays()
    for part, name in zip(parts, names, strict=True):
        for key, array in part.field_data.items():
            known = key in mesh.field_data and Arrays({"": array}) != Arrays({"": mesh.field_data[key]})
            mesh.field_data[f"{name}/{key}" if known else key] = array
    blocks = np.repeat(np.arange(len(parts)), [part.num_cells for part in parts])
    mesh.cell_data[free_name(BLOCK, mesh.cell_data)] = blocks
    mesh.field_data[free_name(BLOCKS, mesh.field_data)] = np.array(names)
    return mesh


def stacked(stores: Sequence[Arrays], counts: Sequence[int]) -> Arrays:
    """Arrays of parts with ``counts`` rows one after another, filled as in :func:`joined` where a part lacks one."""
    out = Arrays()
    for name in dict.fromkeys(name for store in stores for name in store):
        have = [store[name] for store in stores if name in store]
        if len({tuple(array.shape[1:]) for array in have}) > 1 or len({isinstance(a, Tensor) for a in have}) > 1:
            raise InputError(
                f"Expected as many components of '{name}' in all parts; save the parts as files of their own"
            )
        kind = have[0]
        if not isinstance(kind, Tensor):
            own = [s[name] if name in s else np.full(n, "") for s, n in zip(stores, counts, strict=True)]
            out[name] = np.concatenate(own)
            continue
        if len(have) < len(stores) and kind.dtype != torch.bool and not kind.is_floating_point():
            kind = kind.double()
        out[name] = torch.cat(
            [
                s[name] if name in s else kind.new_full((n, *kind.shape[1:]), nan if kind.is_floating_point() else 0)
                for s, n in zip(stores, counts, strict=True)
            ]
        )
    return out


def free_name(name: str, taken: Arrays | Mapping[str, Any]) -> str:
    """A name, or the first of ``name 2``, ``name 3`` ... that is not taken.

    >>> free_name("block", {"block": 0})
    'block 2'
    """
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} {number}"
    return free


def add_sides(mesh: MeshData, sides: Mapping[str, MeshData]) -> list[str]:
    """Add masks of named parts of a boundary, whose cells have the mesh's nodes; the names that they got.

    Point data say which points are part of it, cell data which cells have a facet there.
    """
    cells = mesh.cell_type, mesh.cell_size, mesh.cell_index, mesh.polyhedra
    points: dict[str, Any] = {}
    members: dict[str, Any] = {}
    for name, side in sides.items():
        points[name] = torch.zeros(mesh.num_points, dtype=torch.bool).index_fill_(0, side.cell_index, True)
        members[name] = cells_at(cells, (side.cell_type, side.cell_size, side.cell_index))
    return add_masks(mesh.point_data, points) + add_masks(mesh.cell_data, members)


def add_masks(arrays: Arrays, masks: Mapping[str, Any]) -> list[str]:
    """Put named sets beside arrays, under their own names where these are free; the names that they got."""
    names = []
    for name, mask in masks.items():
        names.append(free_name(name, arrays))
        arrays[names[-1]] = np.asarray(mask, dtype=bool)
    return names


def masks_of(arrays: Arrays) -> dict[str, Tensor]:
    """Those arrays that are masks: of booleans, or of the zeros and ones of bytes that VTK's files make of them.

    >>> masks_of(Arrays({"a": [True], "b": np.uint8([1]), "c": [1.0]}))
    {'a': tensor([True]), 'b': tensor([True])}
    """
    return {
        name: array.bool()
        for name, array in arrays.items()
        if isinstance(array, Tensor)
        and array.dim() == 1
        and (array.dtype == torch.bool or (array.dtype == torch.uint8 and bool((array < 2).all())))
    }


class Numbers:
    """The points and cells of a mesh by coordinates and nodes, to find those of its patches and zones.

    Args:
        mesh: the mesh.
    """

    def __init__(self, mesh: MeshData) -> None:
        self.mesh = mesh
        self.keys, first = np.unique(point_keys(mesh.points), return_index=True)
        self.first = torch.from_numpy(first)

    def of(self, side: MeshData) -> MeshData:
        """A patch with the mesh's node numbers."""
        points = side.points.to(self.mesh.points.dtype)
        if torch.equal(points, self.mesh.points):
            return side
        at = np.searchsorted(self.keys, point_keys(points))
        side.cell_index = self.first[torch.from_numpy(at)[side.cell_index]]
        return side

    def cells(self, zone: MeshData) -> Tensor:
        """Which cells of the mesh are in a zone, which has the mesh's points."""
        mesh = self.mesh
        out = torch.zeros(mesh.num_cells, dtype=torch.bool)
        for size in zone.cell_size.unique().tolist():
            cells = (mesh.cell_size == size).nonzero().squeeze(1)
            own, wanted = (
                m.cell_index[(m.cell_size == size).repeat_interleave(m.cell_size)].reshape(-1, size)
                for m in (mesh, zone)
            )
            number = row_numbers(torch.cat([own, wanted]).sort(dim=1).values)
            out[cells[torch.isin(number[: len(own)], number[len(own) :])]] = True
        return out


def point_keys(points: Tensor) -> np.ndarray[Any, Any]:
    """One value for each point [P, 3], equal where the coordinates are."""
    rows = np.ascontiguousarray(points.numpy() + 0.0)  # no negative zeros
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * 3))).ravel()
