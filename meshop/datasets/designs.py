"""What data sets of designs share: meshes of their own, too many for memory, read when they are taken."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from torch import Tensor
from torch_geometric.data import Dataset

from meshop.data import FieldSpec, InputError, MeshData, did_you_mean
from meshop.datasets.dataset import MeshDataset
from meshop.datasets.origin import origin


class DesignDataset(Dataset, ABC):
    """Designs, each with a mesh of its own, that are read when they are taken: a :class:`MeshDataset` without a cache.

    To use it is to use a :class:`MeshDataset`: ``spec``, ``splits``, :meth:`split`, ``pre_transform`` and a loader,
    whose ``num_workers`` read and build graphs beside the training. Nothing is kept in memory.

    The graph is the edges of the cells, without a measure: the papers give every node the same weight, and the cells
    next to a wall are up to a million times smaller than the others. Pass ``pre_transform`` for another graph.

    A subclass says what the files are, which cases each split has (:meth:`parts`) and how to read one (:meth:`read`).

    Args:
        root: directory of the files, ``root/raw``.
        transform: applied to every item when it is taken.
        pre_transform: makes the graph of every item; by default :class:`~meshop.transforms.CellsToEdges`, and
            :class:`~meshop.transforms.CellGraph` where the fields live on cells.

    Attributes:
        cases: the name of each item, its path in ``root/raw``.

    Raises:
        InputError: files are missing, damaged or have another layout.
    """

    needs: ClassVar[str]
    """The files that belong into ``root/raw``."""
    source: ClassVar[str]
    """Where to get them, as a clause that follows "get"."""
    spec: FieldSpec
    lazy = True
    pre_transform: Callable[[MeshData], MeshData]

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
    ) -> None:
        from meshop.transforms import CellGraph, CellsToEdges

        super().__init__(os.fspath(root), transform, pre_transform)
        parts = self.parts()
        self.cases = list(dict.fromkeys(case for part in parts.values() for case in part))
        if not self.cases:
            raise InputError(f"Expected {self.needs} in '{self.raw_dir}' (got no case); get {self.source}")
        place = {case: i for i, case in enumerate(self.cases)}
        self.splits = {name: [place[case] for case in part] for name, part in parts.items()}
        self.pre_transform = pre_transform or (CellGraph() if self.spec.location == "cell" else CellsToEdges())

    @abstractmethod
    def parts(self) -> Mapping[str, Sequence[str]]:
        """The cases of each split."""

    @abstractmethod
    def read(self, case: str) -> MeshData:
        """The mesh of a case with the fields of ``spec``."""

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
        return len(self.cases)

    def get(self, idx: int) -> MeshData:
        mesh = self.read(self.cases[idx])
        mesh.name = self.cases[idx]
        return self.spec.pack(self.pre_transform(mesh), f"{self.root}, {mesh.name}")


def point_array(mesh: MeshData, name: str, path: Path) -> Tensor:
    """A point field of a mesh, in floats.

    Raises:
        InputError: it is not there; the message lists those that are.
    """
    if name not in mesh.point_data:
        known = list(mesh.point_data)
        raise InputError(
            f"Expected the point field {name} in '{path}'{did_you_mean(name, known)} "
            f"(it has {', '.join(known) or 'none'})"
        )
    array: Tensor = mesh.point_data[name]
    return array.float()
