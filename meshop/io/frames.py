"""Series whose frames are mesh files of their own: PVD, lists in JSON, and files with numbers."""

from __future__ import annotations

import glob
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch

from meshop.data import Arrays, InputError, MeshData
from meshop.io.describe import natural_order
from meshop.io.formats import FORMATS, Format, check_file, mesh_format, named, valid, whole, write_mesh
from meshop.io.vtk import read_xml

TIME = "TimeValue"  # the field in which VTK's files hold their time
_PIECES = Format("parallel VTK unstructured grid", read_xml("PUnstructuredGrid"))


@dataclass
class Frames:
    """A series that is open: the count of its frames, and what reads one: its time and its mesh with all arrays."""

    count: int
    read: Callable[[int], tuple[float, MeshData]]


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
                form = _PIECES if file.suffix.lower() == ".pvtu" else mesh_format(file)
                check_file(file)
                with valid(form.name):
                    parts.append(form.read(file, 3))
        mesh = parts[0] if len(parts) == 1 else _joined(parts)
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
    entries = json.loads(path.read_text())["files"]
    yield _frames([Step([path.parent / entry["name"]], float(entry["time"])) for entry in entries])


@contextmanager
def open_numbered(path: Path) -> Iterator[Frames]:
    """The mesh files of a directory, or those that a pattern such as ``run_*.vtu`` fits, in natural order."""
    files = [f for f in (path.iterdir() if path.is_dir() else map(Path, glob.glob(str(path)))) if f.is_file()]
    files = natural_order(f for f in files if not f.name.startswith("."))
    pieced = [f for f in files if f.suffix.lower() == ".pvtu"]  # beside their pieces
    files = pieced or [f for f in files if f.suffix.lower() in FORMATS]
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
    return Frames(len(steps), lambda number: steps[number].read())


def _joined(parts: Sequence[MeshData]) -> MeshData:
    """One mesh of several, part after part; where they touch, points stay as many as they are.

    Raises:
        InputError: a part lacks a field that another has.
    """
    batch = Batch.from_data_list(list(parts), exclude_keys=["point_data", "cell_data", "field_data"])
    mesh = MeshData(**{key: batch[key] for key in parts[0].keys() if key in batch})  # noqa: SIM118
    mesh.field_data = parts[0].field_data
    for key in ("point_data", "cell_data"):
        names = {name for part in parts for name in part[key]}
        if lacking := sorted(name for name in names if any(name not in part[key] for part in parts)):
            raise InputError(f"Expected the same fields in all parts of a frame (some lack {', '.join(lacking)})")
        mesh[key] = Arrays({name: _stacked([part[key][name] for part in parts]) for name in parts[0][key]})
    return mesh


def _stacked(arrays: Sequence[Any]) -> Any:
    return torch.cat(list(arrays)) if isinstance(arrays[0], Tensor) else np.concatenate(arrays)
