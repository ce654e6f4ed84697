"""Between :class:`~meshop.data.MeshData` and VTK's data sets, and VTK's own files; the one place that knows VTK."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import numpy as np
import torch
from torch import Tensor

from meshop.data import InputError, MeshData
from meshop.geometry import POLYHEDRON, cell_name
from meshop.geometry.cells import faces_of
from meshop.io.assemble import POLY_CELLS, assemble, poly_codes, to_numpy, with_dim
from meshop.io.child import read_in_child
from meshop.io.parts import free_name, joined

if TYPE_CHECKING:
    import pyvista as pv

_END = "meshop:end"


def from_pyvista(mesh: Any, dim: int = 3) -> MeshData:
    """Copy a pyvista (or plain VTK) data set: cells in its order, all arrays under their names.

    Poly data, structured, rectilinear and image grids become the same cells unstructured. The blocks of a multi-block
    that have points are put one after another: the cell data ``block`` number them and the field data ``blocks`` hold
    their names, ``a/b`` for ``b`` in the block ``a``. The data set is left as it is.

    Args:
        mesh: any ``pyvista.DataSet`` or ``pyvista.MultiBlock``.
        dim: number of coordinates in ``pos``; 2 takes the two axes of the coordinate plane in which the points lie.

    Raises:
        InputError: not a mesh, a mesh without points, or one that lies in no coordinate plane where ``dim`` is 2.

    >>> import pyvista as pv
    >>> from_pyvista(pv.Plane(i_resolution=2, j_resolution=2)).num_cells
    4
    """
    return _from_vtk(mesh, dim, copy=True)


def _from_vtk(mesh: Any, dim: int, copy: bool = False) -> MeshData:
    """The same; without ``copy`` its large arrays become the mesh's own: nobody else may have them."""
    import pyvista as pv

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pv.InvalidMeshWarning)  # what is wrong is said below, in one sentence
        mesh = pv.wrap(mesh)
    if isinstance(mesh, pv.MultiBlock):
        items = mesh.recursive_iterator("items", skip_none=True, prepend_names=True, separator="/")
        blocks = {name: block for name, block in named_once(items) if block.GetNumberOfElements(0)}
        return with_dim(joined([_from_vtk(block, 3, copy) for block in blocks.values()], list(blocks)), dim)
    if not isinstance(mesh, pv.DataSet):
        raise InputError(f"Expected a mesh (got {type(mesh).__name__})")
    polyhedra = None
    if isinstance(mesh, pv.PolyData):
        cell_type, cell_size, cell_index = _poly_cells(mesh)
    else:
        if not isinstance(mesh, pv.UnstructuredGrid):
            mesh = mesh.cast_to_unstructured_grid()
        cell_type = mesh.celltypes
        cell_size, cell_index = _cell_array(mesh.GetCells())
        if POLYHEDRON in mesh.distinct_cell_types:
            polyhedra = _face_stream(mesh)
    return assemble(
        mesh.points,
        cell_type,
        cell_size,
        cell_index,
        polyhedra,
        dict(mesh.point_data.items()),
        dict(mesh.cell_data.items()),
        dict(mesh.field_data.items()),
        dim,
        copy,
    )


def named_once(blocks: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Blocks whose names are all different."""
    taken: dict[str, Any] = {}
    for name, block in blocks:
        taken[free_name(name, taken)] = block
    yield from taken.items()


def to_pyvista(data: MeshData) -> pv.UnstructuredGrid:
    """Copy a mesh to a ``pyvista.UnstructuredGrid``: the file's points and cells in file order, all arrays.

    VTK knows no float16 and no bool: these become float32 and uint8. Arrays with more than two dimensions are flattened
    to [count, components].

    Raises:
        InputError: the mesh contradicts itself, or an array is complex.

    >>> square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], cell_type=[9], cells=[[0, 1, 2, 3]])
    >>> to_pyvista(square).n_cells
    1
    """
    import pyvista as pv
    from vtkmodules.util.numpy_support import numpy_to_vtk

    data.validate()
    grid = pv.UnstructuredGrid()
    grid.points = data.points.detach().cpu().numpy().copy()
    types = numpy_to_vtk(data.cell_type.cpu().numpy().astype(np.uint8), deep=True)
    cells = _to_cell_array(data.cell_size, data.cell_index)
    if data.polyhedra.numel():
        cell, size, node = faces_of(data.polyhedra)
        count = cell.bincount(minlength=data.num_cells)
        grid.SetPolyhedralCells(
            types, cells, _to_cell_array(count, torch.arange(cell.numel())), _to_cell_array(size, node)
        )
    else:
        grid.SetCells(types, cells)
    for arrays, target in (
        (data.point_data, grid.point_data),
        (data.cell_data, grid.cell_data),
        (data.field_data, grid.field_data),
    ):
        for name, array in arrays.items():
            values = to_numpy(array, name)
            if values.dtype.kind == "U":
                target.VTKObject.AddArray(_texts(values, name))
            else:
                target.set_array(values, name, deep_copy=True)
    for target in (grid.point_data, grid.cell_data):
        target.active_scalars_name = None
    return grid


def read_xml(kind: str) -> Callable[[Path, int], MeshData]:
    """A reader of VTK's XML files of one kind, ``UnstructuredGrid`` say."""

    def read(path: Path, dim: int) -> MeshData:
        from vtkmodules import vtkIOXML

        reader = getattr(vtkIOXML, f"vtkXML{kind}Reader")()
        reader.SetFileName(str(path))
        with vtk_errors():
            reader.Update()
        return _from_vtk(reader.GetOutput(), dim)

    return read_in_child(read)


def read_pieces(kind: str) -> Callable[[Path, int], MeshData]:
    """A reader of VTK's XML files that name others, the pieces of one mesh of a kind: ``UnstructuredGrid`` say.

    The pieces follow each other; cells that a piece has from its neighbours (ghosts) are left out.
    """

    def read(path: Path, dim: int) -> MeshData:
        from vtkmodules import vtkIOXML

        names = [Path(piece.get("Source", "")).stem for piece in ElementTree.parse(path).getroot().iter("Piece")]
        reader = getattr(vtkIOXML, f"vtkXMLP{kind}Reader")()
        reader.SetFileName(str(path))
        pieces: dict[str, MeshData] = {}
        for number, (name, _) in enumerate(named_once((name, None) for name in names)):
            with vtk_errors():
                reader.UpdatePiece(number, len(names), 0)
            grid = reader.GetOutput().NewInstance()
            grid.DeepCopy(reader.GetOutput())
            grid.RemoveGhostCells()
            if grid.GetNumberOfPoints():
                pieces[name] = from_pyvista(grid)
        return with_dim(joined(list(pieces.values()), list(pieces)), dim)

    return read_in_child(read)


@read_in_child
def read_multiblock(path: Path, dim: int) -> MeshData:
    """Read VTK's XML files that name others, the blocks of a tree."""
    from vtkmodules.vtkIOXML import vtkXMLMultiBlockDataReader

    files = [entry.get("file") for entry in ElementTree.parse(path).getroot().iter("DataSet")]
    if missing := [name for name in files if name and not (path.parent / name).is_file()]:
        raise InputError(f"it names '{missing[0]}', and there is no such file")
    reader: Any = vtkXMLMultiBlockDataReader()
    reader.SetFileName(str(path))
    with vtk_errors():
        reader.Update()
    return _from_vtk(reader.GetOutput(), dim)


@read_in_child
def read_legacy(path: Path, dim: int) -> MeshData:
    """Read VTK's legacy files.

    VTK fills what is missing at the end of a text with whatever is in memory, and says nothing. So an empty array is
    put behind the end, which the reader only finds when everything before it is whole.
    """
    from vtkmodules.vtkIOLegacy import vtkDataSetReader

    content = path.read_bytes()
    text = [line.strip().upper() for line in content.split(b"\n", 3)[2:3]] == [b"ASCII"]
    if text:
        content += f"\nFIELD end 1\n{_END} 1 0 int\n".encode()
    reader: Any = vtkDataSetReader()
    for attribute in ("Scalars", "Vectors", "Normals", "Tensors", "ColorScalars", "TCoords", "Fields"):
        getattr(reader, f"ReadAll{attribute}On")()
    reader.ReadFromInputStringOn()
    reader.SetBinaryInputString(content, len(content))
    with vtk_errors():
        reader.Update()
    mesh = reader.GetOutput()
    stores = [mesh.GetPointData(), mesh.GetCellData(), mesh.GetFieldData()]
    if text and not any(store.HasArray(_END) for store in stores):
        raise InputError("the file is shorter than its counts say")
    for store in stores:
        store.RemoveArray(_END)
    return _from_vtk(mesh, dim)


def write_vtu(path: Path, data: MeshData, binary: bool) -> None:
    """Write VTK's unstructured grids."""
    _write_xml(path, to_pyvista(data), binary)


def write_legacy(path: Path, data: MeshData, binary: bool) -> None:
    """Write legacy VTK, whose text keeps six digits of float32 and eleven of float64."""
    from vtkmodules.vtkIOLegacy import vtkUnstructuredGridWriter

    writer: Any = vtkUnstructuredGridWriter()
    writer.SetFileType(2 if binary else 1)
    writer.SetInputData(to_pyvista(data))
    writer.WriteToOutputStringOn()  # for the reason given below
    with vtk_errors():
        writer.Write()
    content = writer.GetOutputStdString()  # bytes, unless they happen to be UTF-8
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def write_vtp(path: Path, data: MeshData, binary: bool) -> None:
    """Write VTK's poly data (VTP), which numbers vertices before lines, lines before polygons and these before strips.

    Polygons of three and four nodes come back as triangles and quads.

    Raises:
        InputError: poly data have no such cell, or would renumber the cells.
    """
    import pyvista as pv

    kinds = {code: i for i, (special, other) in enumerate(POLY_CELLS.values()) for code in (*special.values(), other)}
    codes = data.cell_type.unique_consecutive().tolist()
    unknown = [code for code in codes if code not in kinds]
    if unknown:
        raise InputError(f"it holds surfaces only (got a {cell_name(unknown[0])}); write VTU instead")
    kind = torch.tensor([kinds.get(code, 0) for code in range(81)])[data.cell_type]
    if bool((kind.diff() < 0).any()):
        raise InputError("it numbers vertices, lines, polygons and strips in this order, not as the mesh; write VTU")
    grid = to_pyvista(data)
    poly = pv.PolyData()
    poly.points = grid.points
    for i, name in enumerate(POLY_CELLS):
        member = (kind == i).repeat_interleave(data.cell_size)
        getattr(poly, f"Set{name}")(_to_cell_array(data.cell_size[kind == i], data.cell_index[member]))
    for source, target in (("GetPointData", poly.GetPointData()), ("GetCellData", poly.GetCellData())):
        target.ShallowCopy(getattr(grid, source)())
    poly.GetFieldData().ShallowCopy(grid.GetFieldData())
    _write_xml(path, poly, binary)


def _write_xml(path: Path, mesh: Any, binary: bool) -> None:
    """Write XML by way of memory: VTK ends the process when the disk is full. Nor does it escape names."""
    from vtkmodules import vtkIOXML

    for store in (mesh.GetPointData(), mesh.GetCellData(), mesh.GetFieldData()):
        for array in map(store.GetAbstractArray, range(store.GetNumberOfArrays())):
            array.SetName(escape(array.GetName(), {'"': "&quot;"}))
    writer = getattr(vtkIOXML, f"vtkXML{mesh.GetClassName().removeprefix('vtk')}Writer")()
    writer.SetInputData(mesh)
    writer.SetHeaderTypeToUInt64()  # arrays may be longer than 4 GB
    writer.SetDataMode(writer.Binary if binary else writer.Ascii)
    writer.WriteToOutputStringOn()
    with vtk_errors():
        writer.Write()
    path.write_text(writer.GetOutputString(), encoding="utf-8", newline="\n")


def times_of(reader: Any) -> list[float]:
    """The times that a reader of VTK has found in a file."""
    from vtkmodules.vtkCommonExecutionModel import vtkStreamingDemandDrivenPipeline

    steps = vtkStreamingDemandDrivenPipeline.TIME_STEPS()
    about = reader.GetOutputInformation(0)
    return list(about.Get(steps)) if about.Has(steps) else []


def children(blocks: Any) -> Iterator[tuple[str, Any]]:
    """The blocks of a block, by their names, that have points or blocks."""
    for i in range(blocks.GetNumberOfBlocks() if blocks else 0):
        block = blocks.GetBlock(i)
        if block is not None and (block.IsA("vtkMultiBlockDataSet") or block.GetNumberOfPoints()):
            about = blocks.GetMetaData(i)
            yield (about.Get(blocks.NAME()) if about.Has(blocks.NAME()) else str(i)), block


@contextmanager
def vtk_errors() -> Iterator[None]:
    """Turn what VTK would print into one :class:`~meshop.data.InputError`."""
    import pyvista as pv
    from vtkmodules.vtkCommonCore import vtkLogger

    verbosity = vtkLogger.GetCurrentVerbosityCutoff()
    vtkLogger.SetStderrVerbosity(vtkLogger.VERBOSITY_OFF)
    try:
        with pv.VtkErrorCatcher(send_to_logging=False) as caught:
            yield
    finally:
        vtkLogger.SetStderrVerbosity(verbosity)
    for event in caught.events:
        if event.kind == "ERROR" or "rror" in event.alert:  # a file that ends amid binary data is a warning to VTK
            raise InputError(event.alert.strip().rpartition("\n")[2])


def _cell_array(cells: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Sizes and node numbers of a vtkCellArray."""
    from vtkmodules.util.numpy_support import vtk_to_numpy

    if cells is None or cells.GetNumberOfCells() == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.diff(vtk_to_numpy(cells.GetOffsetsArray())), vtk_to_numpy(cells.GetConnectivityArray())


def _texts(values: np.ndarray[Any, Any], name: str) -> Any:
    """A vtkStringArray; pyvista makes it of ASCII only."""
    from vtkmodules.vtkCommonCore import vtkStringArray

    out = vtkStringArray()
    out.SetName(name)
    for value in values.ravel().tolist():
        out.InsertNextValue(value)
    return out


def _to_cell_array(size: Tensor, index: Tensor) -> Any:
    from vtkmodules.util.numpy_support import numpy_to_vtkIdTypeArray
    from vtkmodules.vtkCommonDataModel import vtkCellArray

    offsets = np.concatenate([[0], size.cpu().numpy().cumsum()])
    cells = vtkCellArray()
    cells.SetData(
        numpy_to_vtkIdTypeArray(offsets, deep=True), numpy_to_vtkIdTypeArray(index.cpu().numpy().copy(), deep=True)
    )
    return cells


def _poly_cells(mesh: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    types, sizes, indices = [], [], []
    for name in POLY_CELLS:
        size, index = _cell_array(getattr(mesh, f"Get{name}")())
        types.append(poly_codes(name, size))
        sizes.append(size)
        indices.append(index)
    return np.concatenate(types), np.concatenate(sizes), np.concatenate(indices)


def _face_stream(grid: Any) -> np.ndarray[Any, Any]:
    """(cell, face, node) triples [3, S] of the polyhedra of a grid."""
    count, faces = _cell_array(grid.GetPolyhedronFaceLocations())
    size, node = _cell_array(grid.GetPolyhedronFaces())
    cell = np.repeat(np.arange(len(count)), count)  # of each face
    start = (size.cumsum() - size)[faces]
    size = size[faces]
    face = np.repeat(np.arange(len(faces)), size)  # of each triple
    within = np.arange(len(face)) - np.repeat(size.cumsum() - size, size)
    return np.stack([cell[face], face, node[np.repeat(start, size) + within]])
