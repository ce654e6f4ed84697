"""Series whose frames are mesh files of their own: PVD, lists in JSON, and files with numbers."""

from __future__ import annotations

import glob
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from torch import Tensor

from meshop.data import Arrays, InputError, MeshData
from meshop.io.files import named, natural_order, whole
from meshop.io.formats import FORMATS, check_file, mesh_format, valid, without_pieces, write_mesh
from meshop.io.parts import BLOCK, TIME, Frames, joined


@dataclass
class Step:
    """The files of one frame, which are its parts, and its time where the series says it."""

    files: list[Path]
    time: float | None = None

    def read(self) -> tuple[float, MeshData]:
        """The time and the mesh."""
        parts = []
        for file in self.files:
            with named(f"'{file}'"):
                form = mesh_format(file)
                check_file(file)
                with valid(form.name):
                    parts.append(form.read(file, 3))
        mesh = _joined(parts)
        own = mesh.field_data.get(TIME)
        if self.time is not None:
            return self.time, mesh
        if isinstance(own, Tensor) and own.numel() == 1:
            return float(own), mesh
        numbers = re.findall(r"\d+", self.files[0].stem)
        if not numbers:
            raise InputError(f"'{self.files[0]}' has neither a field {TIME} nor a number in its name, so no time")
        return float(numbers[-1]), mesh


@contextmanager
def open_pvd(path: Path) -> Iterator[Frames]:
    """The frames that a PVD names."""
    yield _frames(read_pvd(path))


def read_pvd(path: Path) -> list[Step]:
    """The frames that a PVD names, in the order of their times; the files of one time are its parts.

    Raises:
        InputError: a part is there twice.
    """
    steps: dict[float, Step] = {}
    found = set()
    for entry in ElementTree.parse(path).getroot().iter("DataSet"):
        time, part = float(entry.get("timestep", 0)), (entry.get("group", ""), entry.get("part", "0"))
        if (time, part) in found:
            raise InputError(f"it names two files of part {part[1]} at time {time:g}")
        found.add((time, part))
        steps.setdefault(time, Step([], time)).files.append(path.parent / entry.attrib["file"])
    return [steps[time] for time in sorted(steps)]


@contextmanager
def open_json(path: Path) -> Iterator[Frames]:
    """The frames that a list of files in JSON names."""
    yield _frames(_listed(path))


def _listed(path: Path) -> list[Step]:
    entries = json.loads(path.read_text())["files"]
    return [Step([path.parent / entry["name"]], float(entry["time"])) for entry in entries]


def without_frames(paths: Iterable[Path]) -> list[Path]:
    """Files without those that a PVD or a list among them names as its frames."""
    paths = list(paths)
    frames = set()
    for path in paths:
        if read := {".pvd": read_pvd, ".series": _listed}.get(path.suffix.lower()):
            with suppress(Exception):  # whoever reads it says what is wrong with it
                frames |= {os.path.abspath(file) for step in read(path) for file in step.files}
    return [path for path in paths if os.path.abspath(path) not in frames]


@contextmanager
def open_numbered(path: Path) -> Iterator[Frames]:
    """The mesh files of a directory, or those that a pattern such as ``run_*.vtu`` fits, in natural order."""
    files = [f for f in (path.iterdir() if path.is_dir() else map(Path, glob.glob(str(path)))) if f.is_file()]
    files = without_pieces(f for f in files if f.suffix.lower() in FORMATS and not f.name.startswith("."))
    files = natural_order(files)
    if not files:
        raise InputError(f"there are no mesh files ({', '.join(FORMATS)})")
    yield _frames([Step([file]) for file in files])


class PVDWriter:
    """Frames as VTU in a directory beside the PVD, which names a frame when the whole of it is there.

    Args:
        path: the PVD.
        resume: whether to go on behind the frames that it names.
    """

    def __init__(self, path: Path, resume: bool) -> None:
        self.path = path
        self.steps = read_pvd(path) if resume else []

    @property
    def times(self) -> list[float]:
        """The times of the frames that are there."""
        return [step.time or 0.0 for step in self.steps]

    def write(self, mesh: MeshData, time: float) -> None:
        """Write a frame, then the PVD that names it."""
        folder = self.path.with_suffix("")
        folder.mkdir(exist_ok=True)
        file = folder / f"{self.path.stem}_{len(self.steps):06d}.vtu"
        if any(file in step.files for step in self.steps):
            raise InputError(f"'{file}' is another frame of it already")
        mesh = mesh.__copy__()
        mesh.field_data = Arrays(mesh.field_data)
        mesh.field_data[TIME] = [time]
        write_mesh(file, mesh)
        self.steps.append(Step([file], time))
        root = ElementTree.Element("VTKFile", type="Collection", version="1.0", byte_order="LittleEndian")
        collection = ElementTree.SubElement(root, "Collection")
        for step in self.steps:
            for part, file in enumerate(step.files):
                place = file.relative_to(self.path.parent) if file.is_relative_to(self.path.parent) else file
                about = {"timestep": repr(step.time), "group": "", "part": str(part), "file": place.as_posix()}
                ElementTree.SubElement(collection, "DataSet", about)
        ElementTree.indent(root)
        with whole(self.path) as part_file:
            ElementTree.ElementTree(root).write(part_file, encoding="utf-8", xml_declaration=True)

    def close(self) -> None:
        """Nothing is left to do."""


def _frames(steps: Sequence[Step]) -> Frames:
    if any(step.time is not None and not math.isfinite(step.time) for step in steps):
        raise InputError("one of its times is not finite")
    times = [step.time for step in steps if step.time is not None]
    known = times if len(times) == len(steps) else None
    return Frames(len(steps), lambda number: steps[number].read(), known, frozenset({BLOCK}))


def _joined(parts: Sequence[MeshData]) -> MeshData:
    """One mesh of the parts of a frame.

    Raises:
        InputError: a part lacks a field that another has.
    """
    for key in ("point_data", "cell_data"):
        names = {name for part in parts for name in part[key]}
        if lacking := sorted(name for name in names if any(name not in part[key] for part in parts)):
            raise InputError(f"Expected the same fields in all parts of a frame (some lack {', '.join(lacking)})")
    return joined(parts, [str(number) for number in range(len(parts))])
