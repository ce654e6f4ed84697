"""Mesh files: one table of formats, one function to read and one to write."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from meshop.data import Arrays, InputError, MeshData, did_you_mean, in_plane_axes
from meshop.io.abaqus import ABAQUS_CELLS, read_inp, write_inp
from meshop.io.assemble import with_dim
from meshop.io.cgns import open_cgns
from meshop.io.ensight import open_ensight
from meshop.io.exodus import EXODUS_CELLS, open_exodus, write_exodus
from meshop.io.files import named, whole
from meshop.io.gmsh import GMSH_CELLS, read_msh, write_msh_2, write_msh_4
from meshop.io.med import MED_CELLS, open_med, write_med
from meshop.io.nastran import NASTRAN_CELLS, read_bdf, write_bdf
from meshop.io.obj import read_obj, write_obj
from meshop.io.off import OFF_CELLS, read_off, write_off
from meshop.io.openfoam import is_case, open_foam
from meshop.io.parts import TIME, Frames
from meshop.io.ply import read_ply, write_ply
from meshop.io.stl import read_stl, write_stl
from meshop.io.su2 import SU2_CELLS, read_su2, write_su2
from meshop.io.trimesh import read_trimesh
from meshop.io.vtk import (
    read_legacy,
    read_multiblock,
    read_pieces,
    read_xml,
    write_legacy,
    write_vtp,
    write_vtu,
)
from meshop.io.xdmf import XDMF_CELLS, open_xdmf, write_xdmf


class Format(NamedTuple):
    """A row of :data:`FORMATS`.

    Attributes:
        name: of the format.
        read: what reads a file (path, dim); of several times, the last.
        write: what writes one (path, data, binary), if anything does.
        cells: VTK codes of the cells that it holds; ``None`` is all.
        fields: what it holds beside points and cells: arrays of points, of cells and of the file, or sets only.
        frames: what opens the times of a file, if it may hold several.
    """

    name: str
    read: Callable[[Path, int], MeshData]
    write: Callable[[Path, MeshData, bool], None] | None = None
    cells: frozenset[int] | None = None
    fields: str = "point, cell, file"
    frames: Callable[[Path], AbstractContextManager[Frames]] | None = None


def _timed(
    name: str,
    frames: Callable[[Path], AbstractContextManager[Frames]],
    write: Callable[[Path, MeshData, bool], None] | None = None,
    cells: frozenset[int] | None = None,
    fields: str = "point, cell",
) -> Format:
    """The row of a format whose files may hold several times."""
    return Format(name, lambda path, dim: _frame(frames, path, None, dim), write, cells, fields, frames)


_POLY = frozenset({1, 2, 3, 4, 5, 6, 7, 9})
_CURVED, _STRAIGHT = frozenset({1, 3, 9, 12}), frozenset({1, 3, 8, 11})  # cells of grids by their dimension
_FACES = frozenset({5, 7, 9})

# To add a format, add a row.
FORMATS: dict[str, Format] = {
    ".vtu": Format("VTK unstructured grid", read_xml("UnstructuredGrid"), write_vtu),
    ".vtk": Format("VTK legacy", read_legacy, write_legacy),
    ".vtp": Format("VTK poly data", read_xml("PolyData"), write_vtp, _POLY),
    ".vts": Format("VTK structured grid", read_xml("StructuredGrid"), cells=_CURVED),
    ".vtr": Format("VTK rectilinear grid", read_xml("RectilinearGrid"), cells=_STRAIGHT),
    ".vti": Format("VTK image data", read_xml("ImageData"), cells=_STRAIGHT),
    ".pvtu": Format("VTK unstructured grid in pieces", read_pieces("UnstructuredGrid")),
    ".pvtp": Format("VTK poly data in pieces", read_pieces("PolyData"), cells=_POLY),
    ".pvts": Format("VTK structured grid in pieces", read_xml("PStructuredGrid"), cells=_CURVED),
    ".pvtr": Format("VTK rectilinear grid in pieces", read_xml("PRectilinearGrid"), cells=_STRAIGHT),
    ".pvti": Format("VTK image data in pieces", read_xml("PImageData"), cells=_STRAIGHT),
    ".vtm": Format("VTK multi-block", read_multiblock),
    ".vtmb": Format("VTK multi-block", read_multiblock),
    ".msh": Format("gmsh 4.1 and 2.2 (written as 4.1)", read_msh, write_msh_4, GMSH_CELLS, "point, cell, groups"),
    ".msh2": Format("gmsh 2.2", read_msh, write_msh_2, GMSH_CELLS, "point, cell, groups"),
    ".e": _timed("Exodus II", open_exodus, write_exodus, EXODUS_CELLS, "point, cell, sets"),
    ".exo": _timed("Exodus II", open_exodus, write_exodus, EXODUS_CELLS, "point, cell, sets"),
    ".ex2": _timed("Exodus II", open_exodus, write_exodus, EXODUS_CELLS, "point, cell, sets"),
    ".foam": _timed("OpenFOAM case", open_foam, fields="cell, patches, zones"),
    ".cgns": _timed("CGNS", open_cgns, fields="point, cell, patches"),
    ".case": _timed("EnSight case", open_ensight),
    ".xdmf": _timed("XDMF", open_xdmf, write_xdmf, XDMF_CELLS),
    ".xmf": _timed("XDMF", open_xdmf, write_xdmf, XDMF_CELLS),
    ".med": _timed("MED", open_med, write_med, MED_CELLS, "point, cell, groups"),
    ".inp": Format("Abaqus input", read_inp, write_inp, ABAQUS_CELLS, "sets"),
    ".bdf": Format("Nastran bulk data", read_bdf, write_bdf, NASTRAN_CELLS, "property"),
    ".nas": Format("Nastran bulk data", read_bdf, write_bdf, NASTRAN_CELLS, "property"),
    ".fem": Format("Nastran bulk data (OptiStruct)", read_bdf, write_bdf, NASTRAN_CELLS, "property"),
    ".su2": Format("SU2", read_su2, write_su2, SU2_CELLS, "markers"),
    ".ply": Format("PLY", read_ply, write_ply, _FACES, "point, cell"),
    ".stl": Format("STL", read_stl, write_stl, frozenset({5}), "none"),
    ".obj": Format("Wavefront OBJ", read_obj, write_obj, OFF_CELLS | {2, 4}, "none"),
    ".off": Format("OFF", read_off, write_off, OFF_CELLS, "none"),
    ".glb": Format("binary glTF", read_trimesh, cells=frozenset({5}), fields="point, cell"),
    ".gltf": Format("glTF", read_trimesh, cells=frozenset({5}), fields="point, cell"),
}


def read_mesh(path: str | os.PathLike[str], dim: int = 3, time: float | None = None) -> MeshData:
    """Read a mesh file: its cells in file order and all its arrays under their names.

    Of a file that holds several times, one is read; the field data ``TimeValue`` say which.
    :func:`~meshop.io.read_series` reads them all.

    ``points`` holds the file's coordinates in the file's precision and is what is written back; ``pos`` is its float32
    copy, which far from the origin (UTM coordinates of 5e5 m, say) resolves centimetres only. A warning says so where
    it matters, and :class:`meshop.transforms.Center` mends it.

    Args:
        path: the file, whose extension says which row of ``meshop.io.FORMATS`` reads it; or the directory of an
            OpenFOAM case.
        dim: number of coordinates in ``pos``; 2 takes the two axes of the coordinate plane in which the points lie.
        time: which of the file's times to read; by default its last.

    Raises:
        InputError: no such file, an unknown extension, a file that is broken or holds no mesh, a time it does not have.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "square.vtu")
    >>> square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], cell_type=[9], cells=[[0, 1, 2, 3]])
    >>> write_mesh(path, square, point_data={"p": [1.0, 2.0, 3.0, 4.0]})
    >>> read_mesh(path, dim=2).point_data
    Arrays(p=[4])
    """
    path = Path(path)
    form = mesh_format(path)
    with named(f"Cannot read '{path}'"):
        check_file(path)
        with valid(form.name):
            if time is None:
                return form.read(path, dim)
            if form.frames is None:
                raise InputError(f"{form.name} holds no times; leave the time out")
            return _frame(form.frames, path, time, dim)


def _frame(
    opened: Callable[[Path], AbstractContextManager[Frames]], path: Path, time: float | None, dim: int
) -> MeshData:
    """The mesh of a file at one of its times, by default the last."""
    with opened(path) as frames:
        number = max(frames.count - 1, 0)
        if time is not None:
            times = [frames.read(i)[0] for i in range(frames.count)] if frames.times is None else frames.times
            close = [i for i, own in enumerate(times) if math.isclose(own, time, rel_tol=1e-6, abs_tol=1e-12)]
            if not close:
                some = ", ".join(f"{own:g}" for own in times[:8]) + (", ..." if len(times) > 8 else "")
                raise InputError(f"it has no time {time:g} (it has {some or 'none'})")
            number = min(close, key=lambda i: abs(times[i] - time))
        at, mesh = frames.read(number)
        if frames.count:
            mesh.field_data[TIME] = [at]
        return with_dim(mesh, dim)


def write_mesh(
    path: str | os.PathLike[str],
    data: MeshData,
    point_data: Mapping[str, Any] | None = None,
    cell_data: Mapping[str, Any] | None = None,
    binary: bool = True,
) -> None:
    """Write a mesh with the points, cells and arrays it was read with, and further arrays beside them.

    The file appears under its name when it is complete, or not at all. Files hold vectors with three components:
    further arrays with two, on a mesh read with ``dim=2``, are put into the mesh's plane with zero normal to it.

    Args:
        path: the file; its extension says which row of ``meshop.io.FORMATS`` writes it.
        data: the mesh; it is left as it is.
        point_data: further arrays [P, ...] by name.
        cell_data: further arrays [C, ...] by name.
        binary: binary or text, where the format has both.

    Raises:
        InputError: an unknown extension, a name the mesh already has, an array of the wrong length, a cell or an array
            the format cannot carry, a full disk.
    """
    path = Path(path)
    form = mesh_format(path)
    with named(f"Cannot write '{path}'"):
        if form.write is None:
            raise InputError(f"{form.name} can only be read; write .vtu instead")
        out = with_arrays(data, point_data or {}, cell_data or {})
        with whole(path) as part:
            form.write(part, out, binary)


def mesh_format(path: Path) -> Format:
    """The row of :data:`FORMATS` of a file.

    Raises:
        InputError: there is none.
    """
    suffix = ".foam" if is_case(path) else path.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(
            f"Expected a mesh file with one of the extensions {', '.join(FORMATS)} (got '{path}')"
            f"{did_you_mean(suffix, list(FORMATS))}"
        )
    return FORMATS[suffix]


def check_file(path: Path) -> None:
    """Check that there is a file with something in it.

    Raises:
        InputError: there is none, it is a directory and no OpenFOAM case, or it is empty, as only ``.foam`` may be.
    """
    if not path.exists():
        raise InputError("there is no such file")
    if is_case(path) or (path.is_file() and path.suffix.lower() == ".foam"):
        return
    if path.is_dir():
        raise InputError("it is a directory, not a mesh file")
    if path.stat().st_size == 0:
        raise InputError("the file is empty")


def without_pieces(paths: Iterable[Path]) -> list[Path]:
    """Files without those that others of them name as their pieces."""
    paths = list(paths)
    pieces = set()
    for path in paths:
        if path.suffix.lower().startswith((".pvt", ".vtm")):
            with suppress(ElementTree.ParseError, OSError):
                for entry in ElementTree.parse(path).getroot().iter():
                    if name := entry.get("Source") or entry.get("file"):
                        pieces.add(os.path.abspath(path.parent / name))
    return [path for path in paths if os.path.abspath(path) not in pieces]


@contextmanager
def valid(form: str) -> Iterator[None]:
    """Say of whatever a parser stumbles over that the file is none of its format."""
    try:
        yield
    except (InputError, OSError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"it is no valid {form} file ({reason})") from error


def with_arrays(data: MeshData, point_data: Mapping[str, Any], cell_data: Mapping[str, Any]) -> MeshData:
    """A shallow copy of a mesh with further arrays."""
    out: MeshData = data.__copy__().cpu()
    out.point_data, out.cell_data = Arrays(data.point_data), Arrays(data.cell_data)
    for what, further, arrays in (("point", point_data, out.point_data), ("cell", cell_data, out.cell_data)):
        for name, array in further.items():
            if name in arrays:
                raise InputError(f"the mesh has a {what} field '{name}' already; choose another name")
            arrays[name] = _in_space(Arrays({name: array})[name], data)
    return out


def _in_space(array: Any, data: MeshData) -> Any:
    """Vectors of a plane [n, 2] as vectors of space [n, 3]."""
    if data.dim != 2 or array.ndim != 2 or array.shape[1] != 2:
        return array
    out = array.new_zeros(array.shape[0], 3)
    out[:, in_plane_axes(data.points) or [0, 1]] = array
    return out
