"""Data sets larger than memory: windows of trajectories, read from their files when they are taken."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch_geometric.data import Dataset

from meshop.data import Field, FieldSpec, InputError, MeshData
from meshop.datasets.dataset import MeshDataset, default_graph
from meshop.datasets.origin import origin
from meshop.io.arrays import Array

Window = tuple[str, range]
"""A trajectory, and the frames at one of which the window begins: it is drawn anew each time the item is taken."""

Starts = Sequence[int] | Literal["all", "random"]
"""Where the windows of a trajectory begin: at these frames, at all there are, or at one that is drawn each time."""


class LazyDataset(Dataset, ABC):
    """Windows of trajectories, that are read when they are taken: a :class:`MeshDataset` without a cache.

    An item has ``T_in`` frames of each field as ``NAME_in`` and the ``T_out`` frames that follow as ``NAME_out``, frame
    after frame: component ``c`` of frame ``t`` of a vector of three is channel ``3 t + c``. It is packed, and has
    ``name``, ``TRAJECTORY_START``, and where they are known the ``times`` [1, T_in + T_out] of its frames. The graph is
    that of the grid, which is built once and shared by all, or where each trajectory has its own mesh (:meth:`grid`)
    is built for each item. Nothing is kept in memory but the grid; files are opened for each item, so that the
    processes of a loader do not share any.

    To use it is to use a :class:`MeshDataset`: ``spec``, ``splits``, :meth:`split`, ``pre_transform`` and a loader.
    :meth:`frames` reads any other part of a trajectory.

    A subclass says what the files are (:meth:`open`), reads them (:meth:`frames`) and, where trajectories have
    ``params``, gives their values (:meth:`condition`); it has a ``dt`` or gives :meth:`times` where these are known.

    Args:
        root: directory of the files, ``root/raw``.
        T_in: frames that the model sees.
        T_out: frames that it predicts.
        position: whether ``x`` starts with the coordinates.
        transform: applied to every item when it is taken.
        pre_transform: makes the graph of the grid, once; by default as in :class:`MeshDataset`.

    Attributes:
        mesh: the grid with its graph; where each trajectory has its own, that of the first.
        windows: what each item is.

    Raises:
        InputError: the files are missing, damaged or have another layout; a window is empty or not in the frames.
    """

    spec: FieldSpec
    splits: dict[str, list[int]]
    lazy = True
    pre_transform: Callable[[MeshData], MeshData]
    needs: ClassVar[str]
    """The files that belong into ``root/raw``."""
    source: ClassVar[str]
    """Where to get them, as a clause that follows "get"."""
    params: tuple[str, ...] = ()
    """Names of what :meth:`condition` gives."""
    static: ClassVar[tuple[Field, ...]] = ()
    """Inputs that do not change; the mesh has them."""
    dt: ClassVar[float | None] = None
    """Time from one frame to the next, where it is known."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        T_in: int,
        T_out: int,
        position: bool = True,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
    ) -> None:
        if T_in < 1 or T_out < 1:
            raise InputError(f"Expected T_in and T_out of 1 or more (got {T_in} and {T_out})")
        self.T_in = T_in
        self.T_out = T_out
        self.position = position
        super().__init__(os.fspath(root), transform, pre_transform)
        mesh, fields, splits = self.open()
        self.windows = [window for part in splits.values() for window in part]
        ends = np.cumsum([len(part) for part in splits.values()]).tolist()
        self.splits = {
            name: list(range(end - len(part), end)) for (name, part), end in zip(splits.items(), ends, strict=True)
        }
        self.spec = FieldSpec(
            targets=tuple(replace(f, name=f"{f.name}_out", components=T_out * f.components) for f in fields),
            inputs=(
                *self.static,
                *(replace(f, name=f"{f.name}_in", components=T_in * f.components) for f in fields),
            ),
            params=self.params,
            dim=mesh.dim,
            position=position,
        )
        self.pre_transform = pre_transform or default_graph(self.spec)
        self.mesh = self.pre_transform(mesh)

    @abstractmethod
    def open(self) -> tuple[MeshData, Sequence[Field], Mapping[str, Sequence[Window]]]:
        """The grid, the fields of one frame, and the windows of each split."""

    @abstractmethod
    def frames(self, trajectory: str, start: int, stop: int) -> dict[str, Array]:
        """Frames ``start`` to ``stop - 1`` of a trajectory: [T, ...grid] of a scalar, [T, ...grid, C] of a vector."""

    def grid(self, trajectory: str) -> MeshData:
        """The mesh of a trajectory with its graph."""
        return self.mesh

    def times(self, trajectory: str, start: int, stop: int) -> Array | None:
        """The times of frames ``start`` to ``stop - 1``, where they are known."""
        return None if self.dt is None else self.dt * np.arange(start, stop)

    def condition(self, trajectory: str) -> Sequence[float]:
        """The values of the ``params`` of a trajectory."""
        return ()

    def download(self) -> None:
        """Say what to put where.

        Raises:
            InputError: always.
        """
        raise InputError(f"{type(self).__name__} needs {self.needs} in '{self.raw_dir}'; get {self.source}")

    split = MeshDataset.split

    @property
    def origin(self) -> str:
        """Where the files come from: ``official files``, or the call of ``meshop generate`` that made them."""
        return origin(self.raw_dir, self.raw_paths)

    def len(self) -> int:
        return len(self.windows)

    def get(self, idx: int) -> MeshData:
        trajectory, starts = self.windows[idx]
        start = starts[int(torch.randint(len(starts), ()))] if len(starts) > 1 else starts[0]
        data: MeshData = copy.copy(self.grid(trajectory))
        for key in ("point_data", "cell_data", "field_data"):
            data[key] = copy.copy(data[key])  # an array that a caller adds stays out of the data set
        length = self.T_in + self.T_out
        shape = data.shape if "shape" in data else (data.num_points,)
        for name, values in self.frames(trajectory, start, start + length).items():
            if values.shape[: 1 + len(shape)] != (length, *shape):
                raise InputError(
                    f"Expected {length} frames of {name} on a grid of {list(shape)} from frame {start} of "
                    f"'{trajectory}' in '{self.raw_dir}' on (got {list(values.shape)})"
                )
            nodes = torch.from_numpy(np.array(values, dtype=np.float32))
            nodes = nodes.view(length, data.num_points, -1).movedim(0, 1)  # [N, T, C]
            data.point_data[f"{name}_in"] = nodes[:, : self.T_in].flatten(1)
            data.point_data[f"{name}_out"] = nodes[:, self.T_in :].flatten(1)
        times = self.times(trajectory, start, start + length)
        if times is not None:
            data.times = torch.from_numpy(np.array(times, dtype=np.float64))[None]
        if self.params:
            data.params = torch.tensor([list(self.condition(trajectory))])
        data.name = f"{trajectory}_{start:04d}"
        return self.spec.pack(data, f"{self.root}, {data.name}")


def place_windows(trajectories: Sequence[str], frames: int, length: int, starts: Starts) -> list[Window]:
    """The windows of ``length`` frames in trajectories that all have so many.

    Raises:
        InputError: a window does not lie in the frames, or there are none.

    >>> place_windows(["a"], frames=5, length=4, starts="all")
    [('a', range(0, 1)), ('a', range(1, 2))]
    >>> place_windows(["a", "b"], frames=5, length=4, starts="random")
    [('a', range(0, 2)), ('b', range(0, 2))]
    """
    last = frames - length
    if last < 0:
        raise InputError(f"Expected T_in + T_out of at most the {frames} frames of a trajectory (got {length})")
    if starts == "random":
        return [(name, range(last + 1)) for name in trajectories]
    chosen = range(last + 1) if starts == "all" else starts
    if not chosen or any(start not in range(last + 1) for start in chosen):
        raise InputError(
            f"Expected starts from 0 to {last} for windows of {length} frames, all or random (got {starts!r})"
        )
    return [(name, range(start, start + 1)) for name in trajectories for start in chosen]
