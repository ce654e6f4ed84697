"""Series of meshes in time: one table of formats, functions to read and write them, and a writer of single frames."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from meshop.data import Arrays, InputError, MeshData, did_you_mean, split_name
from meshop.io.assemble import axes_of
from meshop.io.cgns import open_cgns
from meshop.io.ensight import open_ensight
from meshop.io.exodus import ExodusWriter, open_exodus
from meshop.io.files import named
from meshop.io.formats import check_file, valid, with_arrays
from meshop.io.frames import PVDWriter, open_json, open_numbered, open_pvd
from meshop.io.med import open_med
from meshop.io.openfoam import is_case, open_foam
from meshop.io.parts import TIME, Frames
from meshop.io.xdmf import XDMFWriter, open_xdmf


class Writer(Protocol):
    """What writes a series frame by frame."""

    @property
    def times(self) -> Sequence[float]: ...

    def write(self, mesh: MeshData, time: float) -> None: ...

    def close(self) -> None: ...


class SeriesFormat(NamedTuple):
    """A row of :data:`SERIES_FORMATS`: a name, how to open (path) and what writes (path, resume), if anything does."""

    name: str
    open: Callable[[Path], AbstractContextManager[Frames]]
    writer: Callable[[Path, bool], Writer] | None = None


# To add a format, add a row.
SERIES_FORMATS: dict[str, SeriesFormat] = {
    ".pvd": SeriesFormat("PVD", open_pvd, PVDWriter),
    ".series": SeriesFormat("VTK file series", open_json),
    ".xdmf": SeriesFormat("XDMF", open_xdmf, XDMFWriter),
    ".xmf": SeriesFormat("XDMF", open_xdmf, XDMFWriter),
    ".e": SeriesFormat("Exodus II", open_exodus, ExodusWriter),
    ".exo": SeriesFormat("Exodus II", open_exodus, ExodusWriter),
    ".ex2": SeriesFormat("Exodus II", open_exodus, ExodusWriter),
    ".foam": SeriesFormat("OpenFOAM case", open_foam),
    ".cgns": SeriesFormat("CGNS", open_cgns),
    ".case": SeriesFormat("EnSight case", open_ensight),
    ".med": SeriesFormat("MED", open_med),
}


def read_series(
    path: str | os.PathLike[str],
    fields: Sequence[str] | None = None,
    frames: slice | Sequence[int] | None = None,
    dim: int = 3,
) -> MeshData:
    """Read a trajectory: one mesh whose fields have an axis of frames behind that of the nodes or cells.

    ================================ ====================== ===========================================================
    key                              shape                  meaning
    ================================ ====================== ===========================================================
    ``point_data``, ``cell_data``    [n, T], [n, T, C]      scalars and vectors at T frames; texts are left out
    ``point_data["displacement"]``   [N, T, 3]              from the first frame of the series, where nodes move
    ``times``                        [1, T]                 the times of the frames, float64
    ================================ ====================== ===========================================================

    All else is that of the first frame of the series, whichever frames are read. A field that only this frame has does
    not change: its axis of frames has the length 1. Any other field is in all frames that are read. All frames have the
    same cells.

    Times are what the series says; those of a directory are the field ``TimeValue`` that VTK writes into files, or else
    the last number in the name. Files of one time in a PVD are parts of a mesh, put one after another.

    Args:
        path: a file, whose extension says which row of ``meshop.io.SERIES_FORMATS`` reads it; or the
            directory of an OpenFOAM case; or a directory of numbered mesh files; or a pattern of their names,
            ``"out/run_*.vtu"``.
        fields: names of those to read, ``"u"`` or ``"u:point"``; by default all.
        frames: which to read, from 0; by default all. Of the others, only the first is looked at.
        dim: number of coordinates in ``pos``, as in :func:`~meshop.io.read_mesh`.

    Raises:
        InputError: no such series, a broken one, no such field or frame; fields, cells or times that do not fit
            together; a field ``displacement`` that is not how the nodes move.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "square.pvd")
    >>> square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], cell_type=[9], cells=[[0, 1, 2, 3]])
    >>> with SeriesWriter(path) as writer:
    ...     for time in (0.0, 0.1, 0.3):
    ...         writer.write(square, time, point_data={"u": [time] * 4})
    >>> read_series(path, frames=[1, 2]).times
    tensor([[0.1000, 0.3000]], dtype=torch.float64)
    """
    with _opened(path) as series:
        return _trajectory(series, fields, frames, dim)


def count_frames(path: str | os.PathLike[str]) -> int:
    """The number of frames of a series, without a look into any.

    Raises:
        InputError: no such series, or a broken one.
    """
    with _opened(path) as series:
        return series.count


def holds_times(path: str | os.PathLike[str]) -> bool:
    """Whether a file holds several times.

    Raises:
        InputError: no such series, or a broken one.
    """
    path = Path(path)
    with named(f"Cannot read '{path}'"):
        check_file(path)
        form = _series_format(path)
        with valid(form.name), form.open(path) as frames:
            return frames.count > 1


def read_last(path: str | os.PathLike[str]) -> tuple[list[float], MeshData]:
    """The times of a file of several, none where it holds a mesh alone, and the mesh at the last of them.

    Raises:
        InputError: no such series, or a broken one.
    """
    path = Path(path)
    with named(f"Cannot read '{path}'"):
        check_file(path)
        form = _series_format(Path("a.foam") if is_case(path) else path)
        with valid(form.name), form.open(path) as frames:
            times = [frames.read(i)[0] for i in range(frames.count)] if frames.times is None else frames.times
            return list(times), frames.read(max(frames.count - 1, 0))[1]


class SeriesWriter:
    """Write a series frame by frame: PVD with VTU, Exodus II, or XDMF with HDF5.

    The frames of ``run.pvd`` are files in the directory ``run`` beside it. Each is whole before the PVD, which is
    written anew, names it: what stops a run leaves the series of the frames so far. So does Exodus II, whose one file
    has one mesh, and in all frames the same fields: scalars, and vectors of two or three numbers, as doubles. XDMF
    cannot be written so: its files take their names at the end, also that by an error; a process that is killed leaves
    none.

    Args:
        path: the file to write, with a row of ``meshop.io.SERIES_FORMATS`` that can.
        resume: go on behind the frames of a PVD that is there; otherwise a file that is there is an error.

    Attributes:
        times: of the frames so far.

    Raises:
        InputError: the format cannot be written or continued; there is such a file.
    """

    def __init__(self, path: str | os.PathLike[str], resume: bool = False) -> None:
        self.path = Path(path)
        form = _series_format(self.path)
        with named(f"Cannot write '{self.path}'"), valid(form.name):
            if form.writer is None:
                raise InputError(f"{form.name} can only be read; write .pvd instead")
            if not self.path.parent.is_dir():
                raise InputError(f"there is no directory '{self.path.parent}'")
            if self.path.exists() and not resume:
                raise InputError("it is there already; continue it (resume=True) or choose another name")
            self._writer = form.writer(self.path, resume and self.path.exists())

    @property
    def times(self) -> list[float]:
        return list(self._writer.times)

    def write(
        self,
        mesh: MeshData,
        time: float,
        point_data: Mapping[str, Any] | None = None,
        cell_data: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a frame: a mesh, its arrays and, as in :func:`~meshop.io.write_mesh`, further ones.

        Raises:
            InputError: the time is not after that of the frame before; what :func:`~meshop.io.write_mesh` refuses.
        """
        time = float(time)
        with named(f"Cannot write '{self.path}'"):
            last = max(self._writer.times, default=-math.inf)
            if not last < time < math.inf:
                raise InputError(f"Expected a time after {last:g} (got {time:g})")
            self._writer.write(with_arrays(mesh, point_data or {}, cell_data or {}), time)

    def close(self) -> None:
        """Finish the file."""
        with named(f"Cannot write '{self.path}'"):
            self._writer.close()

    def __enter__(self) -> SeriesWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def write_series(path: str | os.PathLike[str], trajectory: MeshData) -> None:
    """Write a trajectory such as :func:`read_series` reads; what does not change is in every frame.

    The nodes stay where they are: ``displacement`` is a field, by which ParaView's *Warp By Vector* moves them.

    Raises:
        InputError: an array has another number of frames than ``times``; see :class:`SeriesWriter`.
    """
    times = trajectory.times[0].tolist()
    for key in ("point_data", "cell_data"):
        for name, array in trajectory[key].items():
            if array.dim() < 2 or array.size(1) not in (1, len(times)):
                raise InputError(
                    f"Expected {len(times)} frames of {name}, as there are times (got {list(array.shape)})"
                )
    with SeriesWriter(path) as writer:
        for number, time in enumerate(times):
            frame: MeshData = trajectory.__copy__()
            for key in ("point_data", "cell_data"):
                at = {name: array[:, number % array.size(1)] for name, array in trajectory[key].items()}
                frame[key] = Arrays(at)
            writer.write(frame, time)


def _series_format(path: Path) -> SeriesFormat:
    suffix = path.suffix.lower()
    if suffix not in SERIES_FORMATS:
        raise InputError(
            f"Expected a series with one of the extensions {', '.join(SERIES_FORMATS)}, or a directory of mesh files "
            f"(got '{path}'){did_you_mean(suffix, list(SERIES_FORMATS))}"
        )
    return SERIES_FORMATS[suffix]


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Frames]:
    """The frames of a series; what is wrong with it is said in a sentence that begins with its name."""
    path = Path(path)
    case = is_case(path)
    many = (path.is_dir() and not case) or (not path.exists() and any(letter in path.name for letter in "*?["))
    suffix = Path("a.foam") if case else path
    form = SeriesFormat("series of mesh", open_numbered) if many else _series_format(suffix)
    with named(f"Cannot read '{path}'"):
        if not many:
            check_file(path)
        with valid(form.name), form.open(path) as frames:
            if not frames.count:
                raise InputError("there are no frames in it")
            yield frames


def _trajectory(
    series: Frames, fields: Sequence[str] | None, frames: slice | Sequence[int] | None, dim: int
) -> MeshData:
    numbers = _numbers(frames, series.count)
    start, first = series.read(0)
    stacks = {key: _Stack(key, fields, numbers, first) for key in ("point_data", "cell_data")}
    times = []
    moves = first.points.new_zeros(first.num_points, 1, 3)
    for place, number in enumerate(numbers):
        time, mesh = (start, first) if number == 0 else series.read(number)
        if not _same_cells(mesh, first):
            raise InputError(f"frame {number} has other cells than frame 0, and a trajectory is one mesh")
        times.append(time)
        if number:
            _drop(mesh, series.still, first)
        if not torch.equal(mesh.points, first.points):
            moves = moves if moves.size(1) == len(numbers) else moves.repeat(1, len(numbers), 1)
            moves[:, place] = mesh.points - first.points
        for stack in stacks.values():
            stack.add(mesh, place)
    order = sorted(zip(numbers, times, strict=True))
    for (one, before), (other, after) in pairwise(order):
        if one != other and not before < after:
            raise InputError(f"Expected times that grow (got {before:g} at frame {one} and {after:g} at {other})")
    trajectory: MeshData = first.__copy__()
    for key, stack in stacks.items():
        trajectory[key] = stack.whole()
    asked = fields is not None and "displacement" in dict(map(split_name, fields))
    if bool(moves.any()) or (asked and "displacement" not in trajectory.point_data):
        _add_displacement(trajectory.point_data, moves, first.points)
    for field in fields or ():
        if not any(split_name(field)[0] in trajectory[key] for key in stacks):
            known = [f"{name}:{key.removesuffix('_data')}" for key in stacks for name in first[key]]
            listed = ", ".join(known) or "no fields"
            raise InputError(f"field '{field}' is not in it{did_you_mean(field, known)}; it has {listed}")
    axes = axes_of(first.points, dim)
    if bool(moves[..., [axis for axis in range(3) if axis not in axes]].any()):
        raise InputError("its nodes leave their plane; read it as 3-D (--dim 3)")
    trajectory.pos = first.points[:, axes].float()
    trajectory.field_data = Arrays({name: array for name, array in first.field_data.items() if name != TIME})
    trajectory.times = torch.tensor([times], dtype=torch.float64)
    return trajectory


def _drop(mesh: MeshData, still: Iterable[str], first: MeshData) -> None:
    """Take those arrays that stay as they are in the first frame from a later one."""
    for key in ("point_data", "cell_data"):
        for name in still:
            if name in mesh[key] and name in first[key] and torch.equal(mesh[key][name], first[key][name]):
                del mesh[key][name]


class _Stack:
    """The fields at one location, stacked frame by frame.

    Args:
        key: ``point_data`` or ``cell_data``.
        fields: those that are asked for.
        numbers: of the frames.
        first: frame 0, whether it is one of them or not.
    """

    def __init__(self, key: str, fields: Sequence[str] | None, numbers: Sequence[int], first: MeshData) -> None:
        self.key = key
        self.numbers = numbers
        self.fields = None if fields is None else dict(map(split_name, fields))
        self.first = self._of(first)
        self.stacks: dict[str, Tensor] = {}
        self.places: dict[str, list[int]] = {}

    def add(self, mesh: MeshData, place: int) -> None:
        """Put the fields of a mesh into their place."""
        for name, array in self._of(mesh).items():
            if name not in self.stacks:
                self.stacks[name] = array.new_zeros(len(array), len(self.numbers), *array.shape[1:])
            stack = self.stacks[name]
            if (stack.dtype, stack[:, place].shape) != (array.dtype, array.shape):
                raise InputError(
                    f"Expected the field '{name}' of frame {self.numbers[place]} as in the frames before (got "
                    f"{list(array.shape)} of {array.dtype}, not {list(stack[:, place].shape)} of {stack.dtype})"
                )
            stack[:, place] = array
            self.places.setdefault(name, []).append(place)

    def whole(self) -> Arrays:
        """The fields that are in all frames; and those that only frame 0 has, with one frame."""
        out = Arrays()
        for name in dict.fromkeys([*self.first, *self.stacks]):
            lacking = [number for place, number in enumerate(self.numbers) if place not in self.places.get(name, [])]
            if not lacking:
                out[name] = self.stacks[name]
            elif name in self.first and {number for number in self.numbers if number} <= set(lacking):
                out[name] = self.first[name][:, None]
            else:
                raise InputError(
                    f"the field '{name}' is not in frame {lacking[0]}; a field is in all frames, or in the first alone"
                )
        return out

    def _of(self, mesh: MeshData) -> dict[str, Tensor]:
        """The fields of a mesh that are numbers and asked for."""
        location = self.key.removesuffix("_data")
        return {
            name: array
            for name, array in mesh[self.key].items()
            if isinstance(array, Tensor)
            and (self.fields is None or (name in self.fields and self.fields[name] in (None, location)))
        }


def _numbers(frames: slice | Sequence[int] | None, count: int) -> list[int]:
    """The frames that are asked for."""
    known = range(count)
    if frames is None or isinstance(frames, slice):
        numbers = list(known[frames or slice(None)])
    else:
        if outside := [number for number in frames if not -count <= number < count]:
            raise InputError(f"Expected frames from 0 to {count - 1} (got {outside[0]})")
        numbers = [known[number] for number in frames]
    if not numbers:
        raise InputError(f"Expected some of its {count} frames (got {frames})")
    return numbers


def _same_cells(a: MeshData, b: MeshData) -> bool:
    keys = ("cell_type", "cell_size", "cell_index", "polyhedra")
    return a.num_points == b.num_points and all(torch.equal(a[key], b[key]) for key in keys)


def _add_displacement(arrays: Arrays, moves: Tensor, points: Tensor) -> None:
    """Add how the points move, or check it against the field that is there."""
    if "displacement" not in arrays:
        arrays["displacement"] = moves
        return
    own = arrays["displacement"]
    slack = 1e-4 * float(moves.abs().max()) + 8 * torch.finfo(points.dtype).eps * float(points.abs().max())
    fits = own.dim() == 3 and own.size(2) == 3 and bool(((own.double() - moves.double()).abs() <= slack).all())
    if not fits:
        raise InputError("its nodes move otherwise than its field 'displacement' says; read it without (fields=[...])")
