"""A user's own directory of mesh files."""

from __future__ import annotations

import csv
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
from torch_geometric.transforms import Compose

from meshop.data import FieldSpec, InputError, Location, MeshData, did_you_mean, in_plane_axes, split_name
from meshop.datasets.cases import (
    find_table,
    listed_cases,
    listed_split,
    read_table,
    shortened,
    split_cases,
    split_files,
    table_file,
)
from meshop.datasets.dataset import MeshDataset, Shelf, renumbered
from meshop.geometry import cell_dim
from meshop.io import FORMATS, read_mesh
from meshop.io.files import natural_order, whole_file
from meshop.io.formats import without_pieces
from meshop.transforms import BoundaryDistance, Markers, Normals, SignedDistance
from meshop.transforms.markers import names_of

log = logging.getLogger("meshop")


class Folder(MeshDataset):
    """The mesh files of a directory, with the same fields in all of them.

    The cases are the mesh files of ``root`` itself in natural order (``run_2`` before ``run_10``); where it has none,
    those of its subdirectories. Files of other kinds are left alone. A case is called by its path in ``root`` without
    the extension, ``run_2`` or ``series_a/run_2``.

    A CSV gives each case parameters that the file does not hold: a column names the case, ``run_2`` or ``run_2.vtu``
    (or the directory of a file that is alone in it); every other column of numbers is a parameter under its name.
    Columns of texts and columns without a name are left out. A column ``split`` with the words train, val and test is
    the split where none is given. A column ``path`` lists the mesh files, from the CSV or from ``root`` on: these are
    the cases then, and no others.

    An input may be a named set, group, patch or marker of the meshes; it is 1 there and 0 elsewhere, and 0 in a mesh
    that lacks the name where another has it (:class:`~meshop.transforms.Markers`).

    With ``on_error="skip"`` a case is left out that cannot be read, lacks a field or holds values in it that are not
    finite, has no row in the CSV, or otherwise does not fit; ``processed/skipped.csv`` says why. The fractions of the
    split are drawn of all cases, so that a case that is left out moves no other to another part.

    With ``lazy`` the cache is a file a case, each read when it is taken: the directory may be larger than memory, while
    it is processed, too. Without it all cases are in memory.

    The cache lies in ``root/processed``, or, where ``root`` cannot be written, in the user's cache directory. It is no
    mesh file and can be deleted at any time.

    Args:
        root: the directory.
        target: fields to predict: ``"p"``, or ``"p:point"``, ``"U:cell"`` where the name alone could mean both. The
            nodes of the graph are the cells when the fields live on cells.
        inputs: fields and named sets that enter the model, beside the position.
        params: the CSV; by default the one in ``root`` that names its cases, if there is one.
        split: fractions of train/val/test or train/test; or a directory with ``train.txt``, ``test.txt`` and possibly
            ``val.txt``, a case a line; or lists of cases by name of the split; by default the column ``split`` of the
            CSV, or 0.8/0.1/0.1.
        seed: of the draw of the fractions.
        dim: number of coordinates; by default 2 where all meshes lie in one coordinate plane without solid cells.
        units: units of fields, ``{"p": "Pa"}``.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`. Fields are looked
            up after a given ``pre_transform``, which may move them.
        features: geometric inputs: ``"distance"`` to the boundary, or ``"distance=wall"`` to a named part of it,
            ``"signed_distance=body.stl"`` to a closed surface, ``"normals"``; see
            :class:`~meshop.transforms.BoundaryDistance`, :class:`~meshop.transforms.SignedDistance` and
            :class:`~meshop.transforms.Normals`. They come before ``pre_transform``.
        on_error: what a bad case does, ``fail`` or ``skip``.
        lazy: whether cases are read when they are taken.

    Raises:
        InputError: no directory or no mesh file in it; a broken file; a field that is missing, ambiguous or of the
            wrong length in one of them; cases without a row in the CSV or the reverse; a split that does not fit. With
            ``on_error="skip"`` only what concerns all cases: no case or no case of a part is left, no mesh has a field.

    >>> import tempfile
    >>> from meshop.io import write_mesh
    >>> root = tempfile.mkdtemp()
    >>> for i in range(10):
    ...     mesh = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, i]], cell_type=[9], cells=[[0, 1, 2, 3]])
    ...     write_mesh(f"{root}/run_{i}.vtu", mesh, point_data={"p": [0.0, 1, 2, i]})
    >>> runs = Folder(root, "p")
    >>> runs[9].name, runs[9].x.shape, runs.split("train")
    ('run_9', torch.Size([4, 2]), Folder(8))
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        target: str | Sequence[str],
        inputs: str | Sequence[str] = (),
        params: str | os.PathLike[str] | None = None,
        split: str | Mapping[str, Sequence[str]] | None = None,
        seed: int = 0,
        dim: int | None = None,
        units: Mapping[str, str] | None = None,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
        pre_filter: Callable[[MeshData], bool] | None = None,
        force_reload: bool = False,
        features: str | Sequence[str] = (),
        on_error: Literal["fail", "skip"] = "fail",
        lazy: bool = False,
    ) -> None:
        if on_error not in ("fail", "skip"):
            raise InputError(f"Expected on_error to be fail or skip (got '{on_error}')")
        self.target = [target] if isinstance(target, str) else list(target)
        self.inputs = [inputs] if isinstance(inputs, str) else list(inputs)
        self.features = [features] if isinstance(features, str) else list(features)
        self.params = params
        self.seed = seed
        self.dim = dim
        self.units = dict(units or {})
        self.on_error = on_error
        self.lazy = lazy
        self._split = split
        super().__init__(root, transform, pre_transform, pre_filter, force_reload)

    @cached_property
    def cases(self) -> dict[str, Path]:
        """The mesh file of each case, in order."""
        listed = listed_cases(self.table, self.root) if self.table else []
        return _named(listed, self.root) if listed else case_files(self.root)

    @cached_property
    def table(self) -> Path | None:
        """The CSV of parameters."""
        if self.params is not None:
            return table_file(self.params)
        return find_table(self.root, list(case_files(self.root).values()))

    @property
    def skipped(self) -> list[list[str]]:
        """Case, file and reason of each case that was left out."""
        return self.notes["skipped"]

    def write_skipped(self, path: str | os.PathLike[str]) -> None:
        """Write a CSV with a row for each case that was left out: case, file, reason."""
        with whole_file(path) as part, part.open("w", newline="") as file:
            csv.writer(file).writerows([["case", "file", "reason"], *self.skipped])

    @property
    def raw_dir(self) -> str:
        return self.root

    @property
    def raw_file_names(self) -> list[str]:
        return [os.path.relpath(path, self.root) for path in self.cases.values()]

    @property
    def processed_dir(self) -> str:
        if os.access(self.root, os.W_OK):
            return os.path.join(self.root, "processed")
        cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        return str(cache / "meshop" / os.path.abspath(self.root).lstrip(os.sep))

    @property
    def sources(self) -> list[str]:
        lists = split_files(self._split) if isinstance(self._split, str) else {}
        made = [feature for feature in self._features("point") if isinstance(feature, SignedDistance)]
        surfaces = dict.fromkeys(str(feature.path(name)) for feature in made for name in self.cases)
        return [*self.raw_paths, *([str(self.table)] if self.table else []), *map(str, lists.values()), *surfaces]

    @property
    def origin(self) -> str:
        return "own files"

    @property
    def options(self) -> dict[str, Any]:
        names = ("target", "inputs", "seed", "dim", "units", "features", "on_error", "lazy")
        return super().options | {name: getattr(self, name) for name in names} | {"split": self._split}

    def where(self, mesh: MeshData) -> str:
        return str(self.cases[mesh.name])

    def graph(self, spec: FieldSpec) -> Callable[[MeshData], MeshData]:
        own, graph = self._own(spec.location), super().graph(spec)
        return Compose([*own, *(graph.transforms if isinstance(graph, Compose) else [graph])]) if own else graph

    def process(self) -> None:
        if self.lazy:
            Path(self.processed_dir).mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self.processed_dir) if self.lazy else nullcontext() as directory:
            self._raw: list[MeshData] | Shelf = Shelf(Path(directory)) if directory else []
            super().process()
        del self._raw, self._parts
        report = Path(self.processed_dir, "skipped.csv")
        if self.skipped:
            self.write_skipped(report)
        else:
            report.unlink(missing_ok=True)

    def read(self) -> tuple[Iterable[MeshData], FieldSpec, dict[str, list[int]]]:
        self.notes = {"skipped": [], "markers": []}
        names, paths = list(self.cases), list(self.cases.values())
        bad: dict[Path, str] | None = None if self.on_error == "fail" else {}
        params, rows = read_table(self.table, paths, bad=bad) if self.table else ([], [[]] * len(paths))
        listed = listed_split(self.table, paths) if self.table and self._split is None else {}
        split = "0.8/0.1/0.1" if self._split is None else self._split
        self._parts = listed or split_cases(split, paths, self.seed)
        kept, planes = [], set()
        wanted = [split_name(text)[0] for text in self.inputs]
        sets, arrays = Counter[str](), Counter[str]()
        for i, (name, path, row) in enumerate(zip(names, paths, rows, strict=True)):
            try:
                if bad and path in bad:
                    raise InputError(f"{path}: {bad[path]}")
                mesh = read_mesh(path, self.dim or 3)
            except InputError as error:
                self.reject(name, error)
                continue
            mesh.name = name
            if params:
                mesh.params = torch.tensor([row])
            planes.add(_plane(mesh))
            own = names_of(mesh) if wanted else set()
            sets.update(name for name in wanted if name in own)
            arrays.update(n for n in wanted if n not in own and (n in mesh.point_data or n in mesh.cell_data))
            self._raw.append(mesh)
            kept.append(i)
        if not kept:
            self.judge()
        self.notes["markers"] = [name for name in wanted if name in sets and name not in arrays]
        for name in self.notes["markers"]:
            if sets[name] < len(kept):
                log.warning("'%s' is in %d of %d meshes; it marks nothing in the others", name, sets[name], len(kept))
        plane = planes.pop() if self.dim is None and len(planes) == 1 else None
        meshes = (_flattened(mesh, plane) for mesh in self._raw)
        return meshes, self._resolve(plane, params), renumbered(self._parts, kept)

    def reject(self, name: str, error: InputError) -> None:
        self.skipped.append([name, str(self.cases[name]), str(error)])

    def judge(self) -> None:
        names = list(self.cases)
        place = {name: i for i, name in enumerate(names)}
        bad = sorted(self.skipped, key=lambda row: place[row[0]])
        if bad and self.on_error == "fail":
            others = [name for name, _, _ in bad[1:]]
            more = f"; bad cases beside it ({len(others)}): {shortened(others)}" if others else ""
            raise InputError(f"{bad[0][2]}{more}; --on-error skip (on_error) leaves bad cases out")
        if len(bad) == len(self.cases):
            raise InputError(f"Expected cases in '{self.root}' that can be used (got none of {len(bad)}: {bad[0][2]})")
        reasons = {name: reason for name, _, reason in bad}
        for part, ids in self._parts.items():
            if ids and all(names[i] in reasons for i in ids):
                raise InputError(
                    f"Expected a case of the split '{part}' that can be used (got none of {len(ids)}: "
                    f"{reasons[names[ids[0]]]})"
                )
        self.notes["skipped"] = bad

    def _features(self, location: Location) -> list[BoundaryDistance | SignedDistance | Normals]:
        return [_feature(text, location) for text in self.features]

    def _own(self, location: Location) -> list[Callable[[MeshData], MeshData]]:
        """What adds the named sets and the features."""
        markers = [Markers(self.notes["markers"], location)] if self.notes["markers"] else []
        return [*markers, *self._features(location)]

    def _resolve(self, plane: tuple[int, ...] | None, params: Sequence[str]) -> FieldSpec:
        """The fields, by the first mesh that has them all.

        Raises:
            InputError: that of the first mesh, where none has them.
        """
        first: InputError | None = None
        given = [self.pre_transform] if self.pre_transform else []
        for mesh in self._raw:
            mesh, where = _flattened(mesh, plane), self.where(mesh)
            try:
                location = FieldSpec.resolve(Compose(given)(mesh), self.target, where=where).location
                sets = {name: f"{name}:{location}" for name in self.notes["markers"]}
                fields = [sets.get(split_name(text)[0], text) for text in self.inputs]
                fields += [f"{feature.field}:{location}" for feature in self._features(location)]
                mesh = Compose([*self._own(location), *given])(mesh)
                return FieldSpec.resolve(mesh, self.target, fields, params, self.units, where=where)
            except InputError as error:
                known = sorted(names_of(mesh))
                hint = f"; its named sets are {shortened(known)}" if known and "is not in" in str(error) else ""
                first = first or InputError(f"{error}{hint}")
        raise first or InputError(f"Expected a mesh in '{self.root}' (got none)")


def mesh_files(root: str | os.PathLike[str]) -> list[Path]:
    """The mesh files of a directory in natural order; those of its subdirectories where it has none itself.

    Hidden files and directories are left out.

    Raises:
        InputError: no such directory, or no mesh file in it.
    """
    root = Path(root)
    if not root.is_dir():
        raise InputError(f"Expected a directory of mesh files (there is no directory '{root}')")
    for paths in (root.iterdir(), root.rglob("*")):
        files = [path for path in paths if path.suffix.lower() in FORMATS and path.is_file()]
        files = [path for path in files if not any(p.startswith(".") for p in path.relative_to(root).parts)]
        if files:
            return natural_order(without_pieces(files))
    raise InputError(f"Expected mesh files in '{root}' or its subdirectories (found none of {', '.join(FORMATS)})")


def case_files(root: str | os.PathLike[str]) -> dict[str, Path]:
    """The mesh files of a directory by the name of the case: the path without the extension.

    Raises:
        InputError: see :func:`mesh_files`; also two files of the same name.
    """
    return _named(mesh_files(root), root)


def _named(paths: Sequence[Path], root: str | os.PathLike[str]) -> dict[str, Path]:
    """Mesh files by the name of the case: the path in ``root``, or of another place the end of it that is no ``..``."""
    cases: dict[str, Path] = {}
    for path in paths:
        parts = Path(os.path.relpath(path, root)).with_suffix("").parts
        name = "/".join(part for part in parts if part != "..")
        if name in cases:
            raise InputError(f"Expected one file for the case '{name}' (got '{cases[name]}' and '{path}')")
        cases[name] = path
    return cases


def read_case(path: str | os.PathLike[str], spec: FieldSpec, params: str | os.PathLike[str] | None = None) -> MeshData:
    """Read one mesh as the cases of a :class:`Folder` were, with its parameters from a CSV, to predict on it.

    Args:
        path: a mesh file.
        spec: fields and parameters of the model.
        params: the CSV; only needed where the spec has parameters.

    Raises:
        InputError: the CSV is missing, or lacks the case or a parameter; the file is broken.
    """
    mesh, path = read_mesh(path), Path(path)
    if spec.dim == 2:
        mesh = _flattened(mesh, _plane(mesh))
    mesh.name = path.stem
    if spec.params:
        listed = ", ".join(spec.params)
        if params is None:
            raise InputError(f"Expected the parameters {listed} for '{path}'; give a CSV with a row for it (--params)")
        names, [row] = read_table(params, [path], complete=False)
        missing = [name for name in spec.params if name not in names]
        if missing:
            raise InputError(f"Expected the parameters {listed} in '{params}' (without {', '.join(missing)})")
        mesh.params = torch.tensor([[row[names.index(name)] for name in spec.params]])
    return mesh


def _plane(mesh: MeshData) -> tuple[int, ...] | None:
    """The axes of the coordinate plane in which a mesh lies, if it has no solid cells."""
    axes = in_plane_axes(mesh.points)
    return None if axes is None or bool((cell_dim(mesh.cell_type) == 3).any()) else tuple(axes)


def _flattened(mesh: MeshData, plane: tuple[int, ...] | None) -> MeshData:
    """A mesh with the two coordinates of a plane."""
    if plane is not None and mesh.dim == 3:
        mesh.pos = mesh.pos[:, list(plane)]
    return mesh


def _feature(text: str, location: Location) -> BoundaryDistance | SignedDistance | Normals:
    """The transform that ``distance``, ``distance=wall``, ``signed_distance=body.stl`` or ``normals`` says.

    Raises:
        InputError: there is none of that name, or with or without such an argument.
    """
    name, _, argument = text.partition("=")
    if name == "distance":
        return BoundaryDistance(argument or None, location)
    if name == "signed_distance" and argument:
        return SignedDistance(argument, location)
    if name == "normals" and not argument:
        return Normals(location)
    raise InputError(
        "Expected the features distance, distance=MARKER, signed_distance=SURFACE.stl or normals "
        f"(got '{text}'){did_you_mean(text, ['distance', 'signed_distance', 'normals'])}"
    )
