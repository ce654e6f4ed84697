"""OpenFOAM cases, read by VTK."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import torch

from meshop.data import Arrays, InputError, MeshData
from meshop.io.child import in_child
from meshop.io.parts import BLOCK, Frames, Numbers, add_masks, add_sides, joined, point_keys
from meshop.io.vtk import children, from_pyvista, times_of, vtk_errors

_BETWEEN = "procBoundary"  # how OpenFOAM calls patches between processors


def is_case(path: Path) -> bool:
    """Whether a directory is an OpenFOAM case, whole or decomposed."""
    return path.is_dir() and any(_mesh_folders(path))


@in_child("vtkmodules.vtkIOGeometry")
@contextmanager
def open_foam(path: Path) -> Iterator[Frames]:
    """The times of an OpenFOAM case, named by its directory or by any file in it.

    The mesh is the internal one, with the fields of its cells; polyhedra stay polyhedra. Patches are masks of points
    and of the cells that have a face there, cell zones are masks of cells. The regions of a case with several, and the
    parts of a decomposed one, are put one after another, as blocks; the parts share their points where processors
    touch. A decomposed case is read where it has not been reconstructed.
    """
    case = path if path.is_dir() else path.parent
    if not is_case(case):
        collated = any(case.glob("processors*"))
        raise InputError(
            "it is a case in the collated format; run reconstructPar first"
            if collated
            else f"there is no mesh of OpenFOAM (constant/polyMesh) in '{case}'"
        )
    processors = sorted(case.glob("processor[0-9]*"), key=lambda folder: int(folder.name[9:]))
    parts = [case] if not processors or _reconstructed(case, processors[0]) else processors
    readers = [_reader(part) for part in parts]
    times = times_of(readers[0])
    still = {BLOCK}

    def read(number: int) -> tuple[float, MeshData]:
        meshes = []
        for reader in readers:
            with vtk_errors():
                if times:
                    reader.UpdateTimeStep(times[number])
                else:
                    reader.Update()
            meshes.append(_mesh(reader.GetOutput(), still.add))
        names = [part.name for part in parts]
        mesh = meshes[0] if len(meshes) == 1 else _welded(joined(meshes, names))
        frames.still = frozenset(still)
        return (times[number] if times else nan), mesh

    frames = Frames(len(times), read, times)
    yield frames


def _mesh_folders(case: Path) -> Iterator[Path]:
    for pattern in ("constant/polyMesh", "constant/*/polyMesh", "processor0/constant/polyMesh"):
        yield from case.glob(pattern)
    yield from case.glob("processor0/constant/*/polyMesh")


def _reconstructed(case: Path, processor: Path) -> bool:
    """Whether a case with processors has a mesh and the last of their times itself."""
    own, theirs = ({f.name for f in folder.iterdir() if _is_time(f)} for folder in (case, processor))
    whole = any(case.glob("constant/polyMesh/faces*")) or any(case.glob("constant/*/polyMesh/faces*"))
    return whole and (not theirs or max(theirs, key=float) in own)


def _is_time(path: Path) -> bool:
    try:
        return path.is_dir() and float(path.name) >= 0
    except ValueError:
        return False


def _reader(case: Path) -> Any:
    from vtkmodules.vtkIOGeometry import vtkOpenFOAMReader

    reader: Any = vtkOpenFOAMReader()
    reader.SetFileName(str(case / "system" / "controlDict"))  # need not be there: only its directory's parent counts
    reader.SetSkipZeroTime(False)
    reader.CreateCellToPointOff()
    reader.ReadZonesOn()
    if hasattr(reader, "DecomposePolyhedraOff"):  # before VTK 9.4
        reader.DecomposePolyhedraOff()
    with vtk_errors():
        reader.UpdateInformation()
    reader.EnableAllPatchArrays()
    reader.EnableAllCellArrays()
    reader.DisableAllLagrangianArrays()
    return reader


def _mesh(output: Any, still: Callable[[str], None]) -> MeshData:
    """The regions of what VTK's reader gives, with their patches and zones."""
    regions: dict[str, MeshData] = {}
    for name, blocks in _regions(output, ""):
        mesh = from_pyvista(blocks["internalMesh"])
        mesh.point_data, mesh.field_data = Arrays(), Arrays()
        prefix = f"{name}/" if name else ""
        numbers = Numbers(mesh)
        patches = {prefix + key: numbers.of(from_pyvista(patch)) for key, patch in children(blocks.get("boundary"))}
        zones = dict(children(blocks.get("zones"))).get("cellZones")
        members = {prefix + key: numbers.cells(from_pyvista(zone)) for key, zone in children(zones)}
        for got in add_masks(mesh.cell_data, members) + add_sides(mesh, patches):
            still(got)
        regions[name] = mesh
    if not regions:
        raise InputError("there are no cells in it")
    return joined(list(regions.values()), list(regions))


def _regions(output: Any, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    blocks = dict(children(output))
    if "internalMesh" in blocks:
        yield name, blocks
        return
    for key, block in blocks.items():
        if block.IsA("vtkMultiBlockDataSet"):
            yield from _regions(block, f"{name}/{key}" if name else key)


def _welded(mesh: MeshData) -> MeshData:
    """The mesh of a decomposed case, whose parts share their points where they touch; without patches between them."""
    between = torch.zeros(mesh.num_points, dtype=torch.bool)
    for name in [name for name in mesh.point_data if name.startswith(_BETWEEN) or f"/{_BETWEEN}" in name]:
        between |= mesh.point_data[name]
        del mesh.point_data[name]
        del mesh.cell_data[name]
    place = torch.arange(mesh.num_points)
    shared = between.nonzero().squeeze(1)
    _, first, group = np.unique(point_keys(mesh.points[shared]), return_index=True, return_inverse=True)
    place[shared] = shared[torch.from_numpy(first)][torch.from_numpy(group)]
    kept, number = place.unique(return_inverse=True)
    for name, mask in mesh.point_data.items():
        mesh.point_data[name] = torch.zeros(len(kept), dtype=torch.bool).index_fill_(0, number[mask], True)
    mesh.cell_index = number[mesh.cell_index]
    if mesh.polyhedra.numel():
        mesh.polyhedra = torch.stack([*mesh.polyhedra[:2], number[mesh.polyhedra[2]]])
    mesh.points, mesh.pos = mesh.points[kept], mesh.pos[kept]
    return mesh
