"""A user's own directory of mesh files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from meshop.data import FieldSpec, InputError, MeshData, in_plane_axes
from meshop.datasets.cases import find_table, read_table, split_cases, split_files, table_file
from meshop.datasets.dataset import MeshDataset
from meshop.geometry import cell_dim
from meshop.io import FORMATS, read_mesh
from meshop.io.describe import natural_order
from meshop.io.formats import without_pieces


class Folder(MeshDataset):
    """The mesh files of a directory, with the same fields in all of them.

    The cases are the mesh files of ``root`` itself in natural order (``run_2`` before ``run_10``); where it has none,
    those of its subdirectories. Files of other kinds are left alone. A case is called by its path in ``root`` without
    the extension, ``run_2`` or ``series_a/run_2``.

    A CSV gives each case parameters that the file does not hold: a column names the case, ``run_2`` or ``run_2.vtu``
    (or the directory of a file that is alone in it); every other column of numbers is a parameter under its name.
    Columns of texts and columns without a name are left out.

    The cache lies in ``root/processed``, or, where ``root`` cannot be written, in the user's cache directory. It is no
    mesh file and can be deleted at any time.

    Args:
        root: the directory.
        target: fields to predict: ``"p"``, or ``"p:point"``, ``"U:cell"`` where the name alone could mean both. The
            nodes of the graph are the cells when the fields live on cells.
        inputs: fields that enter the model, beside the position.
        params: the CSV; by default the one in ``root`` that names its cases, if there is one.
        split: fractions of train/val/test or train/test; or a directory with ``train.txt``, ``test.txt`` and possibly
            ``val.txt``, a case a line; or lists of cases by name of the split.
        seed: of the draw of the fractions.
        dim: number of coordinates; by default 2 where all meshes lie in one coordinate plane without solid cells.
        units: units of fields, ``{"p": "Pa"}``.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`. Fields are looked
            up after a given ``pre_transform``, which may move them.

    Raises:
        InputError: no directory or no mesh file in it; a broken file; a field that is missing, ambiguous or of the
            wrong length in one of them; cases without a row in the CSV or the reverse; a split that does not fit.

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
        split: str | Mapping[str, Sequence[str]] = "0.8/0.1/0.1",
        seed: int = 0,
        dim: int | None = None,
        units: Mapping[str, str] | None = None,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
        pre_filter: Callable[[MeshData], bool] | None = None,
        force_reload: bool = False,
    ) -> None:
        self.target = [target] if isinstance(target, str) else list(target)
        self.inputs = [inputs] if isinstance(inputs, str) else list(inputs)
        self.params = params
        self.seed = seed
        self.dim = dim
        self.units = dict(units or {})
        self._split = split
        super().__init__(root, transform, pre_transform, pre_filter, force_reload)

    @cached_property
    def cases(self) -> dict[str, Path]:
        """The mesh file of each case, in order."""
        return case_files(self.root)

    @cached_property
    def table(self) -> Path | None:
        """The CSV of parameters."""
        return find_table(self.root, list(self.cases.values())) if self.params is None else table_file(self.params)

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
        return [*self.raw_paths, *([str(self.table)] if self.table else []), *map(str, lists.values())]

    @property
    def origin(self) -> str:
        return "own files"

    @property
    def options(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("target", "inputs", "seed", "dim", "units")}
        return super().options | own | {"split": self._split}

    def where(self, mesh: MeshData) -> str:
        return str(self.cases[mesh.name])

    def read(self) -> tuple[list[MeshData], FieldSpec, dict[str, list[int]]]:
        names, paths = list(self.cases), list(self.cases.values())
        splits = split_cases(self._split, paths, self.seed)
        params, rows = read_table(self.table, paths) if self.table else ([], [[]] * len(paths))
        meshes = [read_mesh(path, self.dim or 3) for path in paths]
        if self.dim is None:
            _flatten(meshes)
        for mesh, name, row in zip(meshes, names, rows, strict=True):
            mesh.name = name
            if params:
                mesh.params = torch.tensor([row])
        first = self.pre_transform(meshes[0]) if self.pre_transform else meshes[0]
        where = self.where(meshes[0])
        return meshes, FieldSpec.resolve(first, self.target, self.inputs, params, self.units, where=where), splits


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
    cases: dict[str, Path] = {}
    for path in mesh_files(root):
        name = path.relative_to(root).with_suffix("").as_posix()
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
        _flatten([mesh])
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


def _flatten(meshes: Sequence[MeshData]) -> None:
    """Make meshes 2-D if all lie in the same coordinate plane and none has a solid cell."""
    planes = [in_plane_axes(mesh.points) for mesh in meshes]
    solid = any(bool((cell_dim(mesh.cell_type) == 3).any()) for mesh in meshes)
    if planes[0] is not None and not solid and all(plane == planes[0] for plane in planes):
        for mesh in meshes:
            mesh.pos = mesh.pos[:, planes[0]]
