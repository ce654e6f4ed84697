"""Exodus II files (https://sandialabs.github.io/seacas-docs/exodusII-new.pdf): read by VTK, written as netCDF.

VTK's writer rounds the times.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from meshop.data import Arrays, InputError, MeshData
from meshop.geometry import cell_name
from meshop.io.assemble import to_numpy, warn_left_out
from meshop.io.child import in_child
from meshop.io.files import whole
from meshop.io.parts import BLOCK, BLOCKS, TIME, Frames, add_masks, add_sides, free_name, stacked
from meshop.io.vtk import from_pyvista, times_of, vtk_errors

_PLACES = {"Element Blocks": 0, "Side Sets": 4, "Node Sets": 7}  # in what VTK's reader gives

Array = NDArray[Any]

# Exodus' names of VTK's cells, with the places of their nodes among VTK's where these are others
_ELEMENTS: dict[int, tuple[str, list[int] | None]] = {
    1: ("SPHERE", None),
    3: ("BAR2", None),
    5: ("TRI3", None),
    9: ("QUAD4", None),
    10: ("TETRA4", None),
    12: ("HEX8", None),
    13: ("WEDGE6", None),
    14: ("PYRAMID5", None),
    21: ("BAR3", None),
    22: ("TRI6", None),
    23: ("QUAD8", None),
    24: ("TETRA10", None),
    25: ("HEX20", [*range(12), *range(16, 20), *range(12, 16)]),
    26: ("WEDGE15", [*range(9), *range(12, 15), *range(9, 12)]),
    27: ("PYRAMID13", None),
    28: ("QUAD9", None),
    29: ("HEX27", [*range(12), *range(16, 20), *range(12, 16), 26, 24, 25, *range(20, 24)]),
}
EXODUS_CELLS = frozenset(_ELEMENTS)
_LARGEST = 2**31 - 4  # bytes of a variable, of which netCDF classic keeps the number in four
_MOST_BLOCKS = 1000  # beyond which files are slow to write, and slower to read


@in_child("vtkmodules.vtkIOExodus", "scipy.io")
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
    """One mesh of blocks that share their points; the cells say of which they are, unless it is one, unnamed."""
    parts = list(blocks.values())
    if not parts or any(part.polyhedra.numel() for part in parts):
        raise InputError("Expected elements, none of them polyhedra")
    mesh: MeshData = parts[0].__copy__()
    for key in ("cell_type", "cell_size", "cell_index"):
        mesh[key] = torch.cat([part[key] for part in parts])
    counts = [part.num_cells for part in parts]
    mesh.cell_data = stacked([part.cell_data for part in parts], counts)
    if list(blocks) != ["block 1"]:
        mesh.cell_data[free_name(BLOCK, mesh.cell_data)] = np.repeat(np.arange(len(parts)), counts)
        mesh.field_data = Arrays({BLOCKS: np.array(list(blocks))})
    return mesh


def write_exodus(path: Path, data: MeshData, binary: bool) -> None:
    """Write a mesh and its fields as a file of one time, ``TimeValue`` or 0; see :class:`ExodusWriter`."""
    known = {TIME, BLOCKS} if BLOCK in data.cell_data else {TIME}
    warn_left_out("Exodus II", [name for name in data.field_data if name not in known])
    time = torch.as_tensor(data.field_data[TIME]).double() if TIME in data.field_data else torch.zeros(1)
    ExodusWriter(path, resume=False).write(data, float(time.ravel()[0]))


class ExodusWriter:
    """Frames of one mesh in one file, which counts a frame when the whole of it is there.

    The frames are the records of a netCDF file of the classic kind, at its end: the file appears with the mesh and the
    first frame, and any other is put behind the last before the number of records, 4 bytes, is raised.

    All numbers are doubles. A vector ``u`` is the variables ``ux``, ``uy`` and ``uz``, which readers join to ``u``.

    Args:
        path: the file.
        resume: refused.
    """

    def __init__(self, path: Path, resume: bool) -> None:
        if resume:
            raise InputError("an Exodus II file cannot be continued; write .pvd instead")
        self.path = path
        self.times: list[float] = []
        self.mesh: MeshData | None = None
        self.fields: tuple[list[str], list[str]] = [], []
        self.blocks: list[_Block] = []
        self.end = 0

    def write(self, mesh: MeshData, time: float) -> None:
        """Write a frame."""
        mesh.validate()
        others = Arrays({k: v for k, v in mesh.cell_data.items() if k != BLOCK or BLOCKS not in mesh.field_data})
        point, cell = _variables(mesh.point_data), _variables(others)
        fields = list(point), list(cell)
        if self.mesh is None:
            self.blocks = _blocks(mesh)
            with whole(self.path) as part:
                _write_file(part, mesh, self.blocks, time, point, cell)
                self.end = part.stat().st_size
            self.mesh, self.fields = mesh.__copy__(), fields
            self.mesh.points = mesh.points.clone()
        else:
            self._check(mesh, fields)
            with self.path.open("r+b") as file:
                file.seek(self.end)
                for variable in _record(time, point, cell, self.blocks):
                    file.write(variable.values.data)
                end = file.tell()
                file.flush()
                file.seek(4)
                file.write(struct.pack(">i", len(self.times) + 1))
            self.end = end
        self.times.append(time)

    def close(self) -> None:
        """Nothing is left to do."""

    def _check(self, mesh: MeshData, fields: tuple[list[str], list[str]]) -> None:
        """Check that a frame has the mesh and the variables of the first."""
        keys = ("points", "cell_type", "cell_index")
        if self.mesh is None or not all(torch.equal(self.mesh[key], mesh[key]) for key in keys):
            raise InputError("its frames have one mesh, whose nodes do not move; write .pvd instead")
        for what, known, names in zip(("point", "cell"), self.fields, fields, strict=True):
            if known != names:
                listed = [", ".join(sorted(some)) or "none" for some in (known, names)]
                raise InputError(f"Expected the {what} variables of the first frame, {listed[0]} (got {listed[1]})")


class _Block(NamedTuple):
    """A run of cells of one type and block: their names, where its cells are, their nodes from 1 on."""

    name: str
    element: str
    cells: slice
    nodes: Array


class _Variable(NamedTuple):
    """A variable of a frame: its name, its dimensions beside the time, and its numbers, big-endian doubles."""

    name: str
    dimensions: tuple[str, ...]
    values: Array


def _blocks(mesh: MeshData) -> list[_Block]:
    """The runs of cells of one type, and of one of the mesh's own blocks, so that the cells keep their order.

    Raises:
        InputError: no cells, a cell without a name in Exodus II, too many runs, or more than netCDF can hold.
    """
    if not mesh.num_cells:
        raise InputError("Exodus II holds cells, and the mesh has none; write .pvd instead")
    own = BLOCK in mesh.cell_data and BLOCKS in mesh.field_data
    number = mesh.cell_data[BLOCK] if own else torch.zeros_like(mesh.cell_type)
    names = [str(name) for name in mesh.field_data[BLOCKS]] if own else [""]
    runs, counts = torch.stack([mesh.cell_type.long(), number.long()]).unique_consecutive(return_counts=True, dim=1)
    codes = runs[0]
    if unknown := [code for code in codes.tolist() if code not in _ELEMENTS]:
        raise InputError(f"a {cell_name(unknown[0])} cannot be written as Exodus II; write .pvd instead")
    if len(codes) > _MOST_BLOCKS:
        raise InputError(
            f"Exodus II keeps the order of cells by a block for each run of one type, of which there are {len(codes)}, "
            f"more than {_MOST_BLOCKS}; put cells of one type one after another, or write .pvd"
        )
    blocks = []
    first = at = 0
    for code, part, count in zip(codes.tolist(), runs[1].tolist(), counts.tolist(), strict=True):
        element, order = _ELEMENTS[code]
        size = int(mesh.cell_size[first])
        nodes = mesh.cell_index[at : at + size * count].reshape(count, size).numpy()
        if max(4 * nodes.size, 8 * count, 8 * mesh.num_points) > _LARGEST:
            raise InputError(
                f"netCDF holds {_LARGEST} bytes a variable, too few for {mesh.num_points} nodes, or for {count} cells "
                f"of {size} nodes; write .pvd instead"
            )
        nodes = (nodes if order is None else nodes[:, order]) + 1
        blocks.append(_Block(names[part], element, slice(first, first + count), nodes))
        first, at = first + count, at + size * count
    return blocks


def _variables(arrays: Arrays) -> dict[str, Array]:
    """The arrays as variables, vectors by component, in double precision, big-endian.

    Readers join variables that follow one another and whose names end in x, y and z. So scalars are in falling order,
    and before the vectors: they stay what they are, ``ux`` and ``uy`` as well.

    Raises:
        InputError: an array that is no scalar and no vector of numbers, that doubles cannot hold, or whose name readers
            would change or take for that of another.
    """
    scalars: dict[str, Array] = {}
    vectors: dict[str, dict[str, Array]] = {}
    for name, array in arrays.items():
        if not name.isascii() or not name.isprintable() or name != name.strip() or not 0 < len(name) < 256:
            raise InputError(
                f"Exodus II holds names of up to 255 ASCII letters, no blanks around (got '{name}'); rename"
            )
        values = to_numpy(array, name)
        count = values.shape[1] if values.ndim == 2 else 1
        if values.dtype.kind == "U" or count not in (1, 2, 3):
            got = "texts" if values.dtype.kind == "U" else f"{count} components"
            raise InputError(f"Exodus II holds scalars and vectors of 2 or 3 numbers ('{name}' has {got}); write .pvd")
        doubles = values.astype(">f8").reshape(len(values), count)
        if values.dtype.kind in "iu" and not np.array_equal(doubles.astype(values.dtype), values.reshape(-1, count)):
            raise InputError(f"Exodus II holds doubles, which round the integers of '{name}'; write .pvd instead")
        if count == 1:
            scalars[name] = doubles[:, 0]
        else:
            vectors[name] = {f"{name}{axis}": doubles[:, i].copy() for i, axis in enumerate("xyz"[:count])}
    out = {name: scalars[name] for name in sorted(scalars, key=str.lower, reverse=True)}
    for name, parts in vectors.items():
        if double := out.keys() & parts:
            raise InputError(f"the vector '{name}' has a component '{min(double)}', as another field is called; rename")
        out |= parts
    return out


def _record(time: float, point: dict[str, Array], cell: dict[str, Array], blocks: list[_Block]) -> list[_Variable]:
    """The variables of a frame in the order of the file."""
    record = [_Variable("time_whole", (), np.array(time, ">f8"))]
    for number, values in enumerate(point.values(), start=1):
        record.append(_Variable(f"vals_nod_var{number}", ("num_nodes",), values))
    for number, values in enumerate(cell.values(), start=1):
        for i, block in enumerate(blocks, start=1):
            record.append(_Variable(f"vals_elem_var{number}eb{i}", (f"num_el_in_blk{i}",), values[block.cells]))
    return record


def _write_file(
    path: Path, mesh: MeshData, blocks: list[_Block], time: float, point: dict[str, Array], cell: dict[str, Array]
) -> None:
    """Write the mesh, the names of the variables and the first frame, as in the manual of Exodus II (SAND92-2137)."""
    from scipy.io import netcdf_file

    names = {"coor_names": list("xyz"), "name_nod_var": list(point), "name_elem_var": list(cell)}
    names |= {"eb_names": [block.name for block in blocks]} if any(block.name for block in blocks) else {}
    texts = {key: np.array([name.encode() for name in some]) for key, some in names.items() if some}
    longest = max(32, *(text.itemsize for text in texts.values()))
    with netcdf_file(path, "w", version=2) as file:
        file.title, file.maximum_name_length = "", np.int32(longest)
        file.api_version = file.version = np.float32(8.03)
        file.floating_point_word_size, file.file_size = np.int32(8), np.int32(1)
        sizes: dict[str, int | None] = {"time_step": None, "len_name": longest + 1, "len_string": 33, "len_line": 81}
        sizes |= {"four": 4, "num_dim": 3}
        sizes |= {"num_nodes": mesh.num_points, "num_elem": mesh.num_cells, "num_el_blk": len(blocks)}
        sizes |= {"num_nod_var": len(point), "num_elem_var": len(cell)}
        for i, block in enumerate(blocks, start=1):
            sizes[f"num_el_in_blk{i}"], sizes[f"num_nod_per_el{i}"] = block.nodes.shape
        for name, size in sizes.items():
            if size != 0:
                file.createDimension(name, size)

        def put(name: str, kind: str, dimensions: tuple[str, ...], values: Any) -> Any:
            variable = file.createVariable(name, kind, dimensions)
            variable[:] = values
            return variable

        for name, text in texts.items():
            count = {"coor_names": "num_dim", "eb_names": "num_el_blk"}.get(name) or name.replace("name", "num")
            put(name, "c", (count, "len_name"), text.astype(f"S{longest + 1}").view("S1").reshape(len(text), -1))
        put("eb_status", "i", ("num_el_blk",), 1)
        put("eb_prop1", "i", ("num_el_blk",), np.arange(len(blocks)) + 1).name = "ID"
        for axis, column in zip("xyz", to_numpy(mesh.points, "points").T, strict=True):
            put(f"coord{axis}", "d", ("num_nodes",), column)
        for i, block in enumerate(blocks, start=1):
            place = (f"num_el_in_blk{i}", f"num_nod_per_el{i}")
            put(f"connect{i}", "i", place, block.nodes).elem_type = block.element
        if cell:
            put("elem_var_tab", "i", ("num_el_blk", "num_elem_var"), 1)
        for name, dimensions, values in _record(time, point, cell, blocks):
            put(name, "d", ("time_step", *dimensions), values[None])
