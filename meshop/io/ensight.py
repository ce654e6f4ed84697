"""EnSight cases, read by VTK."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import nan
from pathlib import Path
from typing import Any

from meshop.data import InputError, MeshData
from meshop.io.child import in_child
from meshop.io.parts import BLOCK, Frames
from meshop.io.vtk import from_pyvista, times_of, vtk_errors


@in_child("vtkmodules.vtkIOEnSight")
@contextmanager
def open_ensight(path: Path) -> Iterator[Frames]:
    """The times of an EnSight case, Gold or 6, text or binary: its parts one after another, as blocks."""
    if "FORMAT" not in path.read_text(errors="replace").upper():
        raise InputError("it is no valid EnSight case (it has no section FORMAT)")
    readers = [_reader(path, order) for order in ("LittleEndian", "BigEndian")]  # which binary files do not say
    times = times_of(readers[0])

    def one(reader: Any, number: int) -> MeshData:
        with vtk_errors():
            if times:
                reader.UpdateTimeStep(times[number])
            else:
                reader.Update()
        return from_pyvista(reader.GetOutput())

    def read(number: int) -> tuple[float, MeshData]:
        try:
            mesh = one(readers[0], number)
        except InputError:
            if len(readers) == 1:
                raise
            mesh = one(readers[1], number)
            del readers[0]
        del readers[1:]
        return (times[number] if times else nan), mesh

    yield Frames(len(times), read, times, frozenset({BLOCK}))


def _reader(path: Path, order: str) -> Any:
    from vtkmodules.vtkIOEnSight import vtkGenericEnSightReader

    reader: Any = vtkGenericEnSightReader()
    reader.SetCaseFileName(str(path))
    getattr(reader, f"SetByteOrderTo{order}")()
    reader.ReadAllVariablesOn()
    with vtk_errors():
        reader.UpdateInformation()
    return reader
