"""Exodus II files with time steps, read by VTK."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import nan
from pathlib import Path
from typing import Any

import torch

from meshop.data import Arrays, InputError, MeshData
from meshop.io.frames import Frames
from meshop.io.vtk import from_pyvista, vtk_errors


@contextmanager
def open_exodus(path: Path) -> Iterator[Frames]:
    """The time steps of an Exodus II file: its element blocks one after another, on the points of the file.

    Names are those that ParaView shows: ``disp_x`` and ``disp_y`` become the vector ``disp_``. A variable of some
    blocks only is not a number in the others. Node sets, side sets and numberings stay out.
    """
    from vtkmodules.vtkCommonExecutionModel import vtkStreamingDemandDrivenPipeline
    from vtkmodules.vtkIOExodus import vtkExodusIIReader

    _check(path)
    reader: Any = vtkExodusIIReader()
    reader.SetFileName(str(path))
    with vtk_errors():
        reader.UpdateInformation()
    steps = vtkStreamingDemandDrivenPipeline.TIME_STEPS()
    about = reader.GetOutputInformation(0)
    times = list(about.Get(steps)) if about.Has(steps) else []
    reader.SetSqueezePoints(False)
    reader.SetApplyDisplacements(False)
    for numbering in ("ObjectIdCellArray", "GlobalElementIdArray", "GlobalNodeIdArray"):
        getattr(reader, f"SetGenerate{numbering}")(False)
    for kind in (reader.NODAL, reader.ELEM_BLOCK):
        reader.SetAllArrayStatus(kind, 1)

    def read(number: int) -> tuple[float, MeshData]:
        with vtk_errors():
            reader.UpdateTimeStep(times[number])
        blocks = reader.GetOutput().GetBlock(0)  # the element blocks; then come sets and maps
        grids = [blocks.GetBlock(i) for i in range(blocks.GetNumberOfBlocks())]
        return times[number], _one([from_pyvista(grid) for grid in grids if grid and grid.GetNumberOfCells()])

    yield Frames(len(times), read)


def _check(path: Path) -> None:
    """Check that a file is netCDF, and whole: the library reads what is missing at its end as zeros.

    Raises:
        InputError: it is not.
    """
    from scipy.io import netcdf_file

    with path.open("rb") as file:
        magic = file.read(4)
    if not magic.startswith((b"CDF", b"\x89HDF")):
        raise InputError("it is no netCDF file, as Exodus II is")
    if magic not in (b"CDF\x01", b"CDF\x02"):
        return
    whole = False
    with suppress(ValueError, TypeError, IndexError), path.open("rb") as file:
        netcdf_file(file, mmap=True).close()
        whole = True
    if not whole:
        raise InputError("the file is damaged, or shorter than its counts say")


def _one(blocks: list[MeshData]) -> MeshData:
    """One mesh of blocks that share their points."""
    if not blocks or any(block.polyhedra.numel() for block in blocks):
        raise InputError("Expected elements, none of them polyhedra")
    mesh: MeshData = blocks[0].__copy__()
    for key in ("cell_type", "cell_size", "cell_index"):
        mesh[key] = torch.cat([block[key] for block in blocks])
    mesh.cell_data, mesh.field_data = Arrays(), Arrays()
    for name in dict.fromkeys(name for block in blocks for name in block.cell_data):
        one = next(block.cell_data[name] for block in blocks if name in block.cell_data)
        parts = [block.cell_data.get(name, one.new_full((block.num_cells, *one.shape[1:]), nan)) for block in blocks]
        mesh.cell_data[name] = torch.cat(parts)
    return mesh
