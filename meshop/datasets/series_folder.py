"""A user's own directory of trajectories."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch
from torch_geometric.data import Dataset

from meshop.data import Field, FieldSpec, InputError, MeshData, in_plane_axes, split_name
from meshop.datasets.cases import bare, find_table, read_table, split_cases, table_file
from meshop.datasets.dataset import MeshDataset, default_graph
from meshop.datasets.lazy import Starts, Window, place_windows
from meshop.geometry import cell_dim
from meshop.io import FORMATS, SERIES_FORMATS, count_frames, read_series
from meshop.io.files import natural_order
from meshop.io.series import holds_times
from meshop.transforms import Window as Cut

CLOCK = ("time", "dt")


class SeriesFolder(Dataset):
    """Windows of the trajectories of a directory, with the same fields in all of them, each on a mesh of its own.

    The cases are the series of ``root`` itself (see :func:`meshop.io.read_series`) in natural order; where it has none,
    those of its subdirectories; where these have none, its subdirectories with mesh files, each a series of numbered
    files. A case is called by its path in ``root`` without the extension.

    An item is a window of a case, as :class:`meshop.transforms.Window` cuts it: for each target ``u`` an input
    ``u_in`` of ``T_in`` frames and a target ``u_out`` of the ``T_out`` frames that follow, and ``times`` [1, T_in +
    T_out]. It is called ``CASE_START``. It is read when it is taken, and the graph is made then; only the frames of the
    window and the first one are read. Nothing is kept in memory.

    A CSV gives each case parameters, as for :class:`~meshop.datasets.Folder`. Two more may be asked for, or be columns
    of it: ``time``, the time of the last frame of the history, and ``dt``, the step from there to the next frame. Both
    are taken from the times of the window.

    With ``initial`` the history is that of the beginning, and the frames to predict are where they would be: in one
    call, without steps, a model with the parameter ``dt``, the time since the history, learns the state at any time.

    Args:
        root: the directory.
        target: fields to predict: ``"u"``, or ``"u:point"``, ``"u:cell"`` where the name alone could mean both.
        inputs: further fields that enter the model, beside the position and the history; they must not change.
        params: the CSV, ``time`` and ``dt``, those that are wanted, apart by commas: ``"cases.csv,dt"``; by default,
            and where it names no CSV, the one in ``root`` that names its cases, if there is one.
        split: of the cases, as for :class:`~meshop.datasets.Folder`.
        seed: of the draw of the fractions.
        dim: number of coordinates; by default 2 where the first mesh lies in a coordinate plane without solid cells.
        units: units of fields, ``{"u": "m/s"}``.
        T_in: frames that the model sees.
        T_out: frames that it predicts.
        train_starts: where the windows for training begin: at ``all`` frames, at a ``random`` one that is drawn anew
            each time, at the ``first``, or at these.
        test_starts: the same for validation and testing.
        stride: frames from one start to the next of ``all``, or of those of which ``random`` draws.
        frames_step: frames of the trajectory from one of the window to the next.
        initial: whether the model sees the first frames of the trajectory, wherever the window begins.
        transform: applied to every item when it is taken.
        pre_transform: makes the graph; by default as in :class:`~meshop.datasets.MeshDataset`.

    Attributes:
        cases: the path of each.
        windows: what each item is: a case, and the starts of which one is drawn.

    Raises:
        InputError: no directory or no series in it; a broken one; a case with too few frames; a field that is missing,
            ambiguous or of the wrong length; an input that changes; cases without a row in the CSV or the reverse; a
            split that does not fit.

    >>> import tempfile
    >>> from meshop.io import SeriesWriter
    >>> root = tempfile.mkdtemp()
    >>> for i in range(3):
    ...     mesh = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, i]], cell_type=[9], cells=[[0, 1, 2, 3]])
    ...     with SeriesWriter(f"{root}/run_{i}.pvd") as writer:
    ...         for frame in range(5):
    ...             writer.write(mesh, 0.1 * frame, point_data={"u": [0.0, 1, 2, frame]})
    >>> runs = SeriesFolder(root, "u", T_in=1, T_out=2, split="0.4/0.3/0.3")
    >>> runs[0].name, runs[0].x.shape, runs[0].y.shape, runs.split("test")
    ('run_2_0000', torch.Size([4, 3]), torch.Size([4, 2]), SeriesFolder(3))
    """

    spec: FieldSpec
    splits: dict[str, list[int]]
    lazy = True
    pre_transform: Callable[[MeshData], MeshData]

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
        T_in: int = 1,
        T_out: int = 1,
        train_starts: Starts | Literal["first"] = "all",
        test_starts: Starts | Literal["first"] = "all",
        stride: int = 1,
        frames_step: int = 1,
        initial: bool = False,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
    ) -> None:
        if min(T_in, T_out, stride, frames_step) < 1:
            raise InputError(
                f"Expected T_in, T_out, stride and frames_step of at least 1 (got {T_in}, {T_out}, {stride} and "
                f"{frames_step})"
            )
        super().__init__(os.fspath(root), transform)
        self.target = [target] if isinstance(target, str) else list(target)
        self.inputs = [inputs] if isinstance(inputs, str) else list(inputs)
        self.T_in = T_in
        self.T_out = T_out
        self.frames_step = frames_step
        self.initial = initial
        self.cut = Cut(T_in, T_out, self.target)  # of the frames that are read, which are those of the window
        self.cases = series_files(root)
        paths = list(self.cases.values())
        asked = [] if params is None else os.fspath(params).split(",")
        tables = [part for part in asked if part not in CLOCK]
        if len(tables) > 1:
            raise InputError(f"Expected one CSV of parameters (got {', '.join(tables)})")
        table = table_file(tables[0]) if tables else find_table(root, paths)
        names, rows = read_table(table, paths) if table else ([], [[]] * len(paths))
        self.rows = {case: dict(zip(names, row, strict=True)) for case, row in zip(self.cases, rows, strict=True)}
        self.params = (*names, *(name for name in CLOCK if name in asked and name not in names))
        self._place(split_cases(split, paths, seed), train_starts, test_starts, stride)
        self.dim = _dim(paths[0]) if dim is None else dim
        self._resolve(units or {}, pre_transform)

    def _place(
        self,
        parts: Mapping[str, Sequence[int]],
        train_starts: Starts | Literal["first"],
        test_starts: Starts | Literal["first"],
        stride: int,
    ) -> None:
        """Set the windows and the splits."""
        span, names = (self.T_in + self.T_out - 1) * self.frames_step + 1, list(self.cases)
        self.windows: list[Window] = []
        self.splits = {}
        for part, ids in parts.items():
            starts = train_starts if part == "train" else test_starts
            begin = len(self.windows)
            for name in (names[i] for i in ids):
                count = count_frames(self.cases[name])
                if count < span:
                    raise InputError(
                        f"Expected at least {span} frames in '{self.cases[name]}' for windows of {self.T_in} + "
                        f"{self.T_out} (got {count})"
                    )
                found = place_windows([name], count, span, (0,) if starts == "first" else starts)
                if starts == "random":
                    found = [(name, window[::stride]) for _, window in found]
                self.windows += found[::stride] if starts == "all" else found
            self.splits[part] = list(range(begin, len(self.windows)))

    def _resolve(self, units: Mapping[str, str], graph: Callable[[MeshData], MeshData] | None) -> None:
        """Set the spec and the graph."""
        mesh = self.read(*self._drawn(0))
        mesh = graph(mesh) if graph else mesh
        moving = [split_name(name) for name in self.target]
        names = {
            kind: [f"{name}_{kind}:{place}" if place else f"{name}_{kind}" for name, place in moving]
            for kind in ("in", "out")
        }
        units = {f"{name}_{kind}": units[name] for kind in names for name, _ in moving if name in units} | dict(units)
        spec = FieldSpec.resolve(
            mesh, names["out"], [*self.inputs, *names["in"]], self.params, units, where=f"'{self.root}'"
        )
        history = spec.inputs[len(self.inputs) :]
        self.spec = replace(
            spec,
            targets=tuple(_whole(field, mesh) for field in spec.targets),
            inputs=(*spec.inputs[: len(self.inputs)], *(_whole(field, mesh) for field in history)),
        )
        self.pre_transform = graph or default_graph(self.spec)

    split = MeshDataset.split

    @property
    def origin(self) -> str:
        """What the data are, for the record of a run."""
        return "own files"

    def len(self) -> int:
        return len(self.windows)

    def get(self, idx: int) -> MeshData:
        name, start = self._drawn(idx)
        mesh = self.pre_transform(self.read(name, start))
        mesh.name = f"{name}_{start:04d}"
        if self.params:
            mesh.params = self._values(name, mesh.times[0])
        return self.spec.pack(mesh, f"'{self.cases[name]}'")

    def read(self, name: str, start: int) -> MeshData:
        """The window of a case that begins at a frame."""
        path, steps = self.cases[name], range(self.T_in + self.T_out)
        frames = [self.frames_step * step + (0 if self.initial and step < self.T_in else start) for step in steps]
        mesh = self.cut(read_series(path, [*self.target, *self.inputs], frames, self.dim))
        for field in self.inputs:
            if not any(split_name(field)[0] in arrays for arrays in (mesh.point_data, mesh.cell_data)):
                raise InputError(
                    f"Expected the input '{field}' not to change in '{path}'; make it a target, too, or leave it out"
                )
        return mesh

    def _drawn(self, idx: int) -> tuple[str, int]:
        name, starts = self.windows[idx]
        return name, starts[int(torch.randint(len(starts), ()))] if len(starts) > 1 else starts[0]

    def _values(self, name: str, times: torch.Tensor) -> torch.Tensor:
        """The parameters [1, P] of a window."""
        now = float(times[self.T_in - 1])
        values = self.rows[name] | {"time": now, "dt": float(times[self.T_in]) - now}
        return torch.tensor([[values[key] for key in self.params]])


def series_files(root: str | os.PathLike[str]) -> dict[str, Path]:
    """The series of a directory by the name of the case, in natural order; see :class:`SeriesFolder`.

    Hidden files and directories are left out.

    Raises:
        InputError: no such directory, or no series in it; two of one name.
    """
    root = Path(root)
    if not root.is_dir():
        raise InputError(f"Expected a directory of series (there is no directory '{root}')")
    below = [path for path in root.rglob("*") if not any(p.startswith(".") for p in path.relative_to(root).parts)]
    series = [path for path in below if path.suffix.lower() in SERIES_FORMATS and path.is_file()]
    own = [path for path in series if path.parent == root]
    numbered = {path.parent for path in below if path.suffix.lower() in FORMATS and path.parent != root}
    cases: dict[str, Path] = {}
    for path in natural_order(own or series or numbered):
        name = bare(path).relative_to(root).as_posix()
        if name in cases:
            raise InputError(f"Expected one series for the case '{name}' (got '{cases[name]}' and '{path}')")
        cases[name] = path
    if not cases:
        raise InputError(
            f"Expected series in '{root}': files of {', '.join(SERIES_FORMATS)}, or directories of numbered meshes"
        )
    return cases


def holds_series(root: str | os.PathLike[str]) -> bool:
    """Whether there are series among the files of a directory: also a file of several times, the first of its kind."""
    suffixes: dict[str, Path] = {}
    for path in natural_order(path for path in Path(root).iterdir() if path.is_file()):
        suffixes.setdefault(path.suffix.lower(), path)
    kinds = [suffix for suffix in suffixes if suffix in SERIES_FORMATS]
    return any(suffix not in FORMATS or holds_times(suffixes[suffix]) for suffix in kinds)


def _dim(path: Path) -> int:
    """2 where the first mesh of a series lies in a coordinate plane and has no solid cells."""
    mesh = read_series(path, [], [0])
    solid = bool((cell_dim(mesh.cell_type) == 3).any())
    return 3 if solid or in_plane_axes(mesh.points) is None else 2


def _whole(field: Field, mesh: MeshData) -> Field:
    """A field with all its channels: those of a window are frames, none of which is normal to a plane."""
    arrays = mesh.point_data if field.location == "point" else mesh.cell_data
    return replace(field, components=arrays[field.name].size(1))
