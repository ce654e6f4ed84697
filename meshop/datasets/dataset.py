"""What the data sets of this package share: fields, splits, and a cache that knows what it was made from."""

from __future__ import annotations

import copy
import hashlib
import os
import re
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import InMemoryDataset
from torch_geometric.io import fs
from torch_geometric.transforms import Compose

from meshop import __version__
from meshop.data import FieldSpec, InputError, MeshData, did_you_mean
from meshop.datasets.origin import origin
from meshop.io.files import whole_file

if TYPE_CHECKING:
    from meshop.datasets.lazy import LazyDataset

LAYOUT = 3  # of the cache; another number makes all caches stale


class MeshDataset(InMemoryDataset, ABC):
    """Meshes with the same fields, split into parts: a PyG data set whose cache is never stale.

    Its items are packed :class:`~meshop.data.MeshData` on the CPU: ``x``, ``y`` and, where the data set has parameters,
    ``params``; the graph that ``pre_transform`` makes; cells, points and all arrays of the mesh; ``name``, the case.

    The cache in ``root/processed`` is rebuilt when a raw file has another size or modification time, when an argument
    of the constructor, ``pre_transform`` or ``pre_filter`` is another one, and by another version of meshop. PyG only
    warns of it. The name of the file says what it was made from, and it appears when it is complete.

    A subclass is one benchmark: ``raw_file_names`` and ``download`` as in PyG, and :meth:`read`. Where its raw files do
    not depend on an argument of its constructor, but the meshes do, it adds that to :attr:`options`.

    Args:
        root: directory of the files, ``root/raw`` and ``root/processed``.
        transform: applied to every item when it is taken.
        pre_transform: makes the graph, once; edges of the cells and measure of the nodes by default, and
            :class:`~meshop.transforms.CellGraph` where the fields live on cells.
        pre_filter: which meshes to keep, asked before ``pre_transform``.
        force_reload: rebuild the cache.

    Attributes:
        names: of the meshes.
        lazy: whether each item is read from a file of its own when it is taken, and nothing is kept in memory.
    """

    spec: FieldSpec
    splits: dict[str, list[int]]
    names: list[str]
    lazy: bool = False
    notes: dict[str, list[Any]]
    """Plain values that :meth:`read` wants the cache to keep."""
    pre_transform: Callable[[MeshData], MeshData] | None

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
        pre_filter: Callable[[MeshData], bool] | None = None,
        force_reload: bool = False,
    ) -> None:
        super().__init__(os.fspath(root), transform, pre_transform, pre_filter, force_reload=force_reload)
        cache = fs.torch_load(self.processed_paths[0])
        self.spec, self.splits, self.names = FieldSpec.from_dict(cache["spec"]), cache["splits"], cache["names"]
        self.notes = cache["notes"]
        self.common: dict[str, Tensor] = cache["common"]
        if not self.lazy:
            self.data, self.slices = MeshData.from_dict(cache["data"]), cache["slices"]
        self.pre_transform = self.graph(self.spec)

    @abstractmethod
    def read(self) -> tuple[Iterable[MeshData], FieldSpec, dict[str, list[int]]]:
        """Make the named meshes from the raw files; with their fields and the numbers of those in each split."""

    def graph(self, spec: FieldSpec) -> Callable[[MeshData], MeshData]:
        """What makes the graph of a mesh."""
        return self.pre_transform or default_graph(spec)

    def where(self, mesh: MeshData) -> str:
        """What messages call a mesh."""
        return f"{self.root}, {mesh.name}"

    def split(self, name: str) -> MeshDataset:
        """The part of that name.

        Raises:
            InputError: there is no such part; the message lists those there are.
        """
        if name not in self.splits:
            known = list(self.splits)
            raise InputError(f"Expected one of the splits {', '.join(known)} (got '{name}'){did_you_mean(name, known)}")
        part = copy.copy(self)
        part._indices = self.splits[name]
        return part

    def len(self) -> int:
        return len(self.names) if self.lazy else super().len()

    def get(self, idx: int) -> MeshData:
        data = Shelf(Path(self.processed_paths[0]).with_suffix(""))[idx] if self.lazy else super().get(idx)
        data.update(self.common)
        for key in ("point_data", "cell_data", "field_data"):
            data[key] = copy.copy(data[key])  # an array that a caller adds stays out of the data set
        return data

    @property
    def sources(self) -> list[str]:
        """The files that the cache is made from."""
        return self.raw_paths

    @property
    def origin(self) -> str:
        """Where the files come from: ``official files``, or the call of ``meshop generate`` that made them."""
        return origin(self.raw_dir, self.sources)

    @property
    def options(self) -> dict[str, Any]:
        """What the cache depends on beside the files."""
        return {"pre_transform": self.pre_transform, "pre_filter": self.pre_filter}

    @cached_property
    def processed_file_names(self) -> list[str]:
        files = [(os.path.relpath(f, self.root), *_stamp(f)) for f in self.sources]
        return [f"meshop-{_digest([type(self).__name__, self.options])}-{_digest([__version__, LAYOUT, files])}.pt"]

    def _process(self) -> None:
        path = Path(self.processed_paths[0])
        there = path.exists() and (not self.lazy or path.with_suffix("").is_dir())
        if there and not self.force_reload:
            return
        if self.log and "PYTEST_CURRENT_TEST" not in os.environ:
            sys.stderr.write("Processing...\n")
        self.process()
        for stale in path.parent.glob(f"{path.stem.rpartition('-')[0]}-*.pt"):
            if stale != path:
                stale.unlink(missing_ok=True)
                shutil.rmtree(stale.with_suffix(""), ignore_errors=True)
        if self.log and "PYTEST_CURRENT_TEST" not in os.environ:
            sys.stderr.write("Done!\n")

    def process(self) -> None:
        self.notes = {}
        path = Path(self.processed_paths[0])
        place: AbstractContextManager[list[MeshData] | Shelf] = nullcontext([])
        with whole_shelf(path.with_suffix("")) if self.lazy else place as items:
            meshes, spec, splits = self.read()
            names, splits = self._pack(meshes, spec, splits, items)
            cache = {"names": names, "spec": spec.to_dict(), "splits": splits, "notes": self.notes, "common": {}}
            if isinstance(items, list):
                cache |= self._collated(items)
            with whole_file(path) as part:
                fs.torch_save(cache, part)

    def _pack(
        self,
        meshes: Iterable[MeshData],
        spec: FieldSpec,
        splits: dict[str, list[int]],
        items: list[MeshData] | Shelf,
    ) -> tuple[list[str], dict[str, list[int]]]:
        """Put the graphs of the meshes into a list or on a shelf; their names and the splits of those that stay."""
        graph, kept, names, count = self.graph(spec), [], [], 0
        for i, mesh in enumerate(meshes):
            count += 1
            if self.pre_filter is not None and not self.pre_filter(mesh):
                continue
            where = self.where(mesh)
            try:
                items.append(spec.pack(graph(mesh), where))
            except InputError as error:
                self.reject(mesh.name, error if where in str(error) else InputError(f"{where}: {error}"))
                continue
            kept.append(i)
            names.append(mesh.name)
            if not self.lazy:
                for key, value in items[0].items():  # one copy of the cells and edges that all share
                    if isinstance(value, Tensor) and key in items[-1] and torch.equal(items[-1][key], value):
                        items[-1][key] = value
        self.judge()
        if not kept:
            raise InputError(f"Expected pre_filter to keep some of the {count} meshes of {self.root} (got none)")
        return names, renumbered(splits, kept)

    def reject(self, name: str, error: InputError) -> None:
        """What becomes of a mesh that does not fit: its error is that of the data set."""
        raise error

    def judge(self) -> None:
        """Asked when all meshes have been packed or rejected."""

    def _collated(self, items: list[MeshData]) -> dict[str, Any]:
        common = {key: value for key, value in items[0].items() if all(mesh.get(key) is value for mesh in items)}
        common = {key: value for key, value in common.items() if isinstance(value, Tensor)}
        for mesh in items:
            for key in common:
                del mesh[key]
        data, slices = self.collate(items)
        return {"common": common, "data": data.to_dict(), "slices": slices}


class Shelf:
    """Meshes on disk, a file each, in an order; a list of them that takes no memory.

    Args:
        path: the directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0

    def append(self, mesh: MeshData) -> None:
        with whole_file(self.path / f"{self.count}.pt") as part:
            fs.torch_save(mesh.to_dict(), part)
        self.count += 1

    def __getitem__(self, number: int) -> MeshData:
        return MeshData.from_dict(fs.torch_load(self.path / f"{number}.pt"))

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[MeshData]:
        return map(self.__getitem__, range(self.count))


@contextmanager
def whole_shelf(path: Path) -> Iterator[Shelf]:
    """A shelf that takes its name when the block has ended without an error, or never."""
    part = Path(f"{path}.{os.getpid()}.part")
    try:
        yield Shelf(part)
        shutil.rmtree(path, ignore_errors=True)
        part.rename(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def renumbered(splits: Mapping[str, Sequence[int]], kept: Sequence[int]) -> dict[str, list[int]]:
    """The splits of those of a list that are kept, by their new numbers.

    >>> renumbered({"train": [0, 2], "test": [1]}, [1, 2])
    {'train': [1], 'test': [0]}
    """
    place = {old: new for new, old in enumerate(kept)}
    return {name: [place[i] for i in part if i in place] for name, part in splits.items()}


def default_graph(spec: FieldSpec) -> Callable[[MeshData], MeshData]:
    """What makes the graph where nothing else is said: edges of the cells and measure of the nodes, or the cells'."""
    from meshop.transforms import CellGraph, CellsToEdges, NodeMeasure

    return CellGraph() if spec.location == "cell" else Compose([CellsToEdges(), NodeMeasure()])


def _stamp(path: str) -> tuple[int, int]:
    """Size and modification time of a file, by which a change is noticed; -1 where there is none."""
    try:
        about = os.stat(path)
    except FileNotFoundError:
        return -1, -1
    return about.st_size, about.st_mtime_ns


def _digest(value: Any) -> str:
    return hashlib.sha256(_describe(value).encode()).hexdigest()[:12]


def _describe(value: Any) -> str:
    """A text that is another one where an argument does another thing: attributes of objects, code of functions."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_describe(k)}: {_describe(v)}' for k, v in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_describe, value))}]"
    if isinstance(value, (Tensor, np.ndarray)):
        array = np.ascontiguousarray(value)
        return f"{array.dtype}{array.shape}{hashlib.sha256(array.tobytes()).hexdigest()}"
    if isinstance(value, FunctionType):
        code = value.__code__
        inside = [c.cell_contents for c in value.__closure__ or ()]
        return _describe(
            [code.co_code, code.co_names, code.co_consts, value.__defaults__, value.__kwdefaults__, inside]
        )
    if getattr(value, "__dict__", None) and not isinstance(value, type):
        return f"{type(value).__module__}.{type(value).__qualname__}{_describe(vars(value))}"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def statistics(dataset: MeshDataset | LazyDataset) -> dict[str, dict[str, float]]:
    """Least, mean and greatest number of nodes, cells and edges of a mesh, and the same of all values of each field.

    A vector has a row for each component, ``displacement[0]``. Every data card holds these numbers of a correct copy.
    One mesh at a time is in memory.
    """
    spec = dataset.spec
    names = [
        f"{field.name}[{i}]" if field.components > 1 else field.name
        for field in (*spec.inputs, *spec.targets)
        for i in range(field.components)
    ]
    sizes, fields = [], torch.empty(5, 0)
    for mesh in dataset:
        params = mesh.params[0].tolist() if spec.params else []
        sizes.append([mesh.num_nodes, mesh.num_cells, mesh.edge_index.size(1) / 2, *params])
        new = _moments(torch.cat([mesh.x[:, spec.dim * spec.position :], mesh.y], dim=1))
        fields = _merged(fields, new) if fields.numel() else new
    numbers = torch.cat([_moments(torch.tensor(sizes)), fields], dim=1)
    return {
        name: {"min": low, "mean": mean, "max": high, "std": (square / count) ** 0.5}
        for name, (count, mean, square, low, high) in zip(
            ["nodes", "cells", "edges", *spec.params, *names], numbers.T.tolist(), strict=True
        )
    }


def _moments(x: Tensor) -> Tensor:
    """Count, mean, sum of squared deviations, least and greatest of each column of [N, C]: [5, C]."""
    x = x.double()
    mean = x.mean(0)
    return torch.stack([torch.full_like(mean, len(x)), mean, (x - mean).square().sum(0), x.amin(0), x.amax(0)])


def _merged(a: Tensor, b: Tensor) -> Tensor:
    """The moments of two sets together, by Chan's update."""
    count, delta = a[0] + b[0], b[1] - a[1]
    square = a[2] + b[2] + delta.square() * a[0] * b[0] / count
    low, high = torch.minimum(a[3], b[3]), torch.maximum(a[4], b[4])
    return torch.stack([count, a[1] + delta * b[0] / count, square, low, high])
