"""Exodus II files (https://sandialabs.github.io/seacas-docs/exodusII-new.pdf), read by VTK."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import torch

from meshop.data import Arrays, InputError, MeshData
from meshop.io.parts import BLOCK, BLOCKS, Frames, add_masks, add_sides, free_name, stacked
from meshop.io.vtk import from_pyvista, times_of, vtk_errors

_PLACES = {"Element Blocks": 0, "Side Sets": 4, "Node Sets": 7}  # in what VTK's reader gives


@contextmanager
def open_exodus(path: Path) -> Iterator[Frames]:
    """The time steps of an Exodus II file: its element blocks one after another, on the points of the file.

    Names are those that ParaView shows: ``disp_x`` and ``disp_y`` become the vector ``disp_``. A variable of some
    blocks only is not a number in the others. The cell data ``block`` number the blocks, and the field data ``blocks``
    hold their names. Node sets are masks of points; side sets are masks of points and of the cells that have a side
    there. Numberings and the fields of sets stay out.
    """
    from vtkmodules.vtkIOExodus import vtkExodusIIReader

    _check(path)
    reader: Any = vtkExodusIIReader()
    reader.SetFileName(str(path))
    with vtk_errors():
        reader.UpdateInformation()
    times = times_of(reader)
    reader.SetSqueezePoints(False)
    reader.SetApplyDisplacements(False)
    for numbering in ("ObjectIdCellArray", "GlobalElementIdArray", "GlobalNodeIdArray"):
        getattr(reader, f"SetGenerate{numbering}")(False)
    for kind in (reader.NODAL, reader.ELEM_BLOCK):
        reader.SetAllArrayStatus(kind, 1)
    names = {
        "Element Blocks": _names(reader, reader.ELEM_BLOCK, "block"),
        "Side Sets": _names(reader, reader.SIDE_SET, "side set"),
        "Node Sets": _names(reader, reader.NODE_SET, "node set"),
    }
    still: set[str] = {BLOCK}

    def read(number: int) -> tuple[float, MeshData]:
        with vtk_errors():
            if times:
                reader.UpdateTimeStep(times[number])
            else:
                reader.Update()
        found = {what: _found(reader.GetOutput().GetBlock(place), names[what]) for what, place in _PLACES.items()}
        mesh = _one(found["Element Blocks"])
        masks = {name: np.isin(np.arange(mesh.num_points), s.cell_index) for name, s in found["Node Sets"].items()}
        still.update(add_masks(mesh.point_data, masks), add_sides(mesh, found["Side Sets"]))
        frames.still = frozenset(still)
        return (times[number] if times else nan), mesh

    frames = Frames(len(times), read, times)
    yield frames


def _names(reader: Any, kind: int, what: str) -> list[str]:
    """Names of blocks or sets, all of which are switched on; those without a name are called by their number."""
    taken: dict[str, None] = {}
    for i in range(reader.GetNumberOfObjects(kind)):
        reader.SetObjectStatus(kind, i, 1)
        name = reader.GetObjectName(kind, i)
        unnamed = not name or name.startswith("Unnamed ")
        taken[free_name(f"{what} {reader.GetObjectId(kind, i)}" if unnamed else name, taken)] = None
    return list(taken)


def _found(blocks: Any, names: list[str]) -> dict[str, MeshData]:
    """The blocks or sets that are not empty."""
    grids = [blocks.GetBlock(i) for i in range(blocks.GetNumberOfBlocks())]
    return {
        name: from_pyvista(grid)
        for name, grid in zip(names, grids, strict=True)
        if grid is not None and grid.GetNumberOfCells()
    }


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


def _one(blocks: dict[str, MeshData]) -> MeshData:
    """One mesh of blocks that share their points."""
    parts = list(blocks.values())
    if not parts or any(part.polyhedra.numel() for part in parts):
        raise InputError("Expected elements, none of them polyhedra")
    mesh: MeshData = parts[0].__copy__()
    for key in ("cell_type", "cell_size", "cell_index"):
        mesh[key] = torch.cat([part[key] for part in parts])
    counts = [part.num_cells for part in parts]
    mesh.cell_data = stacked([part.cell_data for part in parts], counts)
    mesh.cell_data[free_name(BLOCK, mesh.cell_data)] = np.repeat(np.arange(len(parts)), counts)
    mesh.field_data = Arrays({BLOCKS: np.array(list(blocks))})
    return mesh
