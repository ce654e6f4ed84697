"""CGNS files (https://cgns.github.io), read by VTK."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import nan
from pathlib import Path
from typing import Any

from meshop.data import InputError, MeshData
from meshop.io.child import in_child
from meshop.io.parts import BLOCK, Frames, Numbers, add_sides, joined
from meshop.io.vtk import children, from_pyvista, times_of, vtk_errors

_ABOUT = ("Base/Zone", "ispatch", "issurface")  # what VTK's reader says of its blocks


@in_child("vtkmodules.vtkIOCGNSReader")
@contextmanager
def open_cgns(path: Path) -> Iterator[Frames]:
    """The times of a CGNS file: its zones one after another, as blocks.

    Boundary conditions of a family, of the types that VTK knows, and sections of surface elements beside solid ones
    are masks of points and of the cells that have a face there. ``VelocityX`` and so on become the vector ``Velocity``.
    """
    from vtkmodules.vtkIOCGNSReader import vtkCGNSReader

    with path.open("rb") as file:
        start = file.read(64)
    if not start.startswith(b"\x89HDF") and b"ADF" not in start:
        raise InputError("it is no valid CGNS file (it is neither HDF5 nor ADF)")
    reader: Any = vtkCGNSReader()
    reader.SetFileName(str(path))
    reader.SetDoublePrecisionMesh(1)
    reader.SetLoadBndPatch(True)
    reader.SetLoadSurfacePatch(True)
    with vtk_errors():
        reader.UpdateInformation()
        reader.EnableAllBases()
        reader.EnableAllFamilies()
        reader.UpdateInformation()
    reader.EnableAllPointArrays()
    reader.EnableAllCellArrays()
    times = times_of(reader)
    still = {BLOCK}

    def read(number: int) -> tuple[float, MeshData]:
        with vtk_errors():
            if times:
                reader.UpdateTimeStep(times[number])
            else:
                reader.Update()
        zones: dict[str, MeshData] = {}
        bases = list(children(reader.GetOutput()))
        for base, content in bases:
            for name, zone in children(content):
                mesh, masks = _zone(zone)
                still.update(masks)
                zones[name if len(bases) == 1 else f"{base}/{name}"] = mesh
        frames.still = frozenset(still)
        return (times[number] if times else nan), joined(list(zones.values()), list(zones))

    frames = Frames(len(times), read, times)
    yield frames


def _zone(zone: Any) -> tuple[MeshData, list[str]]:
    """The mesh of a zone with masks of its patches, and their names."""
    blocks = dict(children(zone)) if zone.IsA("vtkMultiBlockDataSet") else {"Internal": zone}
    if "Internal" not in blocks:
        raise InputError("a zone has no cells")
    mesh = from_pyvista(blocks["Internal"])
    for name in _ABOUT:
        if name in mesh.field_data:
            del mesh.field_data[name]
    numbers = Numbers(mesh)
    sides = {
        name: numbers.of(from_pyvista(side))
        for kind in ("Surfaces", "Patches")
        for name, side in children(blocks.get(kind))
    }
    return mesh, add_sides(mesh, sides)
