"""What the published benchmarks share: files that a user has to fetch, and grids as meshes."""

from __future__ import annotations

import itertools
import os
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch.nn.functional import pad

from meshop.data import InputError, MeshData
from meshop.datasets.dataset import MeshDataset
from meshop.io.arrays import Array, read_npy


@dataclass(frozen=True)
class RawFile:
    """A published file: its name in ``root/raw``, its size in bytes where it is known, and its SHA-256 where it is."""

    name: str
    size: int | None = None
    sha256: str | None = None

    def __str__(self) -> str:
        known = [f"{self.size / 1e6:,.1f} MB"] if self.size else []
        known += [f"SHA-256 {self.sha256[:16]}..."] if self.sha256 else []
        return f"{self.name} ({', '.join(known)})" if known else self.name


class OfficialDataset(MeshDataset, ABC):
    """A benchmark whose files their authors publish: a subclass names them and says where they come from.

    Attributes:
        files: the files in ``root/raw``.
        source: where to get them, as a clause that follows "get".
    """

    files: tuple[RawFile, ...]
    source: ClassVar[str]

    @property
    def raw_file_names(self) -> list[str]:
        return [file.name for file in self.files]

    def download(self) -> None:
        """Say what to put where.

        Raises:
            InputError: always.
        """
        absent = [file for file in self.files if not Path(self.raw_dir, file.name).exists()]
        raise InputError(
            f"{type(self).__name__} needs {', '.join(map(str, absent))} in '{self.raw_dir}'; get {self.source}"
        )


def check_shape(array: Array, shape: Sequence[int | None], name: str, path: str | os.PathLike[str]) -> None:
    """Check the shape of an array of a file; ``None`` allows any size of an axis.

    Raises:
        InputError: it is another one.

    >>> check_shape(np.zeros((3, 2)), (None, 4), "X", "x.npy")
    Traceback (most recent call last):
    meshop.data.InputError: Expected X of shape [any, 4] in 'x.npy' (got [3, 2])
    """
    if array.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise InputError(f"Expected {name} of shape [{wanted}] in '{path}' (got {list(array.shape)})")


def read_xyq(paths: Sequence[str], channels: int) -> tuple[Array, Array, Array]:
    """Coordinates X, Y [S, n1, n2] and values Q [S, channels, n1, n2] of Geo-FNO's grids, read from disk when used.

    Raises:
        InputError: a file is damaged, or the shapes do not agree.
    """
    x, y, q = map(read_npy, paths)
    check_shape(x, (None, None, None), "X", paths[0])
    check_shape(y, x.shape, "Y", paths[1])
    check_shape(q, (len(x), channels, *x.shape[1:]), "Q", paths[2])
    return x, y, q


def split_rows(count: int, train: int, test: int, last: bool = False) -> tuple[list[int], dict[str, list[int]]]:
    """The rows of a file that a benchmark uses, and which of these are in each split.

    The first rows are for training; those for testing follow, or are the last ones. Where a file has fewer rows than
    both take, as a generated one may have, it is divided in their proportion.

    Raises:
        InputError: there is not a row for each.

    >>> split_rows(9, 3, 2, last=True)
    ([0, 1, 2, 7, 8], {'train': [0, 1, 2], 'test': [3, 4]})
    >>> split_rows(4, 300, 100)[1]
    {'train': [0, 1, 2], 'test': [3]}
    """
    if count < 2:
        raise InputError(f"Expected at least two samples, one to train and one to test on (got {count})")
    if count < train + test:
        train = min(max(round(count * train / (train + test)), 1), count - 1)
        test = count - train
    start = count - test if last else train
    splits = {"train": list(range(train)), "test": list(range(train, train + test))}
    return [*range(train), *range(start, start + test)], splits


def grid_mesh(points: Array) -> MeshData:
    """The mesh whose nodes are a grid in row-major order, with quads or hexahedra between them.

    Args:
        points: coordinates [n1, n2, D] or [n1, n2, n3, D].

    Returns:
        A mesh with its ``shape``, for layers on grids.

    >>> mesh = grid_mesh(np.zeros((3, 4, 2)))
    >>> mesh.num_nodes, mesh.num_cells, mesh.shape
    (12, 6, (3, 4))
    """
    shape = points.shape[:-1]
    number = np.arange(np.prod(shape)).reshape(shape)
    corners = [
        number[tuple(slice(o, n - 1 + o) for o, n in zip(offset, shape, strict=True))].ravel()
        for offset in itertools.product((0, 1), repeat=len(shape))
    ]  # the last axis runs fastest
    around = [0, 2, 3, 1] if len(shape) == 2 else [0, 4, 6, 2, 1, 5, 7, 3]
    cells = np.stack([corners[i] for i in around], axis=1)
    mesh = MeshData.from_cells(points.reshape(number.size, -1), [9 if len(shape) == 2 else 12] * len(cells), cells)
    mesh.shape = tuple(shape)
    return mesh


CELL_TYPES = {3: 5, 4: 10, 8: 12}
"""VTK code of a cell of so many nodes: triangle, tetrahedron, hexahedron."""


def numbered_mesh(points: Array, cells: Array, path: str, first: int = 1) -> MeshData:
    """The mesh of triangles, tetrahedra or hexahedra [C, 3, 4 or 8] whose nodes a file numbers from ``first`` on.

    Raises:
        InputError: the cells have another number of nodes, or a number is not that of a node.

    >>> numbered_mesh(np.eye(3), np.array([[1.0, 2.0, 3.0]]), "file").cell_index
    tensor([0, 1, 2])
    """
    if cells.ndim != 2 or cells.shape[1] not in CELL_TYPES or len(cells) == 0:
        raise InputError(f"Expected cells of 3, 4 or 8 nodes in '{path}' (got shape {list(cells.shape)})")
    number = cells.astype(np.int64) - first
    if number.min() < 0 or number.max() >= len(points) or (number + first != cells).any():
        raise InputError(
            f"Expected the nodes of cells in '{path}' to be numbered from {first} to {len(points) - 1 + first} "
            f"(got {cells.min():g} to {cells.max():g})"
        )
    return MeshData.from_cells(points, [CELL_TYPES[cells.shape[1]]] * len(cells), number)


def moved(mesh: MeshData, points: Array) -> MeshData:
    """The same cells on other points [P, D]."""
    other: MeshData = mesh.__copy__()
    other.points = pad(torch.as_tensor(np.array(points)), (0, 3 - points.shape[1]))
    other.pos = other.points[:, : mesh.dim].float()
    return other


def tensor(array: Array) -> torch.Tensor:
    """An array of a file as a float32 tensor of its own."""
    return torch.from_numpy(np.array(array, dtype=np.float32, order="C"))
