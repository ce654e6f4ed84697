"""XDMF files, read by VTK and, series, by meshio, which writes them; the arrays of a series lie in HDF5 beside them."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from math import nan
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import torch

from meshop.data import Arrays, InputError, MeshData
from meshop.geometry import cell_name
from meshop.io.assemble import to_numpy, warn_left_out
from meshop.io.child import in_child
from meshop.io.med import hdf5
from meshop.io.meshio import from_meshio, to_meshio
from meshop.io.parts import Frames
from meshop.io.vtk import from_pyvista, vtk_errors

XDMF_CELLS = frozenset({1, 3, 5, 9, 10, 12, 13, 14, 21, 22, 23, 24, 25, 28, 29, 32})


@in_child("vtkmodules.vtkIOXdmf2", "h5py", "meshio")
@contextmanager
def open_xdmf(path: Path) -> Iterator[Frames]:
    """The frames of the temporal collection of an XDMF file, each with the mesh of its own where it has one.

    A file without such a collection is a mesh without times, which VTK reads; several grids are blocks.
    """
    grids = ElementTree.parse(path).getroot().iter("Grid")
    if not any(grid.get("CollectionType", "").lower() == "temporal" for grid in grids):
        yield Frames(0, lambda number: (nan, _still(path)))
        return
    import meshio

    with hdf5("the HDF5 file beside it"), meshio.xdmf.TimeSeriesReader(path) as reader:
        mesh = reader.read_points_cells()

        def read(number: int) -> tuple[float, MeshData]:
            grid = reader.collection[number]
            points, cells = mesh
            if grid.find("Geometry") is not None or grid.find("Topology") is not None:
                reader.mesh_grid = grid
                own_points, own_cells = reader.read_points_cells()
                points, cells = points if own_points is None else own_points, own_cells or cells
            reader.cells = cells
            time, point_data, cell_data = reader.read_data(number)
            return time, _from(points, cells, point_data, cell_data)

        times = [float(time.get("Value", nan)) for grid in reader.collection for time in grid.iter("Time")]
        yield Frames(reader.num_steps, read, times if len(times) == reader.num_steps else None)


def _still(path: Path) -> MeshData:
    from vtkmodules.vtkIOXdmf2 import vtkXdmfReader

    root = ElementTree.parse(path).getroot()
    for item in root.iter("DataItem"):
        name = (item.text or "").strip().partition(":")[0]
        if item.get("Format", "").upper() in ("HDF", "BINARY") and not (path.parent / name).is_file():
            raise InputError(f"it names '{name}', and there is no such file")
    grids = [grid for grid in root.iter("Grid") if grid.find("Grid") is None]
    if not grids or any(grid.find("Geometry") is None for grid in grids):  # which ends VTK, and with it the process
        raise InputError("it holds no grid, or one without Geometry")
    if any(grid.find("Topology") is None for grid in grids):
        if len(grids) > 1:
            raise InputError("one of its grids has no Topology; save each as its own file")
        import meshio

        mesh = meshio.xdmf.read(path)
        return _from(mesh.points, [], mesh.point_data, {})
    reader: Any = vtkXdmfReader()
    reader.SetFileName(str(path))
    with vtk_errors():
        reader.Update()
    mesh = from_pyvista(reader.GetOutputDataObject(0))
    for several, one, size in ((2, 1, 1), (4, 3, 2)):  # XDMF calls a vertex and a line by their counts of nodes
        mesh.cell_type[(mesh.cell_type == several) & (mesh.cell_size == size)] = one
    return mesh


def _from(points: Any, cells: Any, point_data: dict[str, Any], cell_data: dict[str, Any]) -> MeshData:
    import meshio

    point_data = {name: _flat(array) for name, array in point_data.items()}
    cell_data = {name: [_flat(array) for array in arrays] for name, arrays in cell_data.items()}
    return from_meshio(meshio.Mesh(points, cells, point_data, cell_data))


def write_xdmf(path: Path, data: MeshData, binary: bool) -> None:
    """Write XDMF in one file, all numbers in text; single precision becomes double.

    Raises:
        InputError: XDMF has no such cell.
    """
    import meshio

    data.validate()
    for code in data.cell_type.unique().tolist():
        if code not in XDMF_CELLS:
            raise InputError(f"XDMF has no {cell_name(code)}; write VTU instead")
    out: MeshData = data.__copy__()
    out.points = out.points.double()
    left = []
    for key in ("point_data", "cell_data"):
        arrays = Arrays()
        for name, array in data[key].items():
            values = to_numpy(array, name)
            if values.dtype.kind == "U":
                left.append(name)
            else:
                arrays[name] = values.astype(float if values.dtype.kind == "f" else int)
        out[key] = arrays
    warn_left_out("XDMF", [*left, *data.field_data])
    with hdf5("the HDF5 file beside it"):
        meshio.xdmf.write(path, to_meshio(out), data_format="XML")


class XDMFWriter:
    """Frames of one mesh in XDMF and HDF5: the files take their names when they are closed.

    Args:
        path: the XDMF file; the HDF5 file beside it ends in ``.h5``.
        resume: refused.
    """

    def __init__(self, path: Path, resume: bool) -> None:
        import meshio

        if resume:
            raise InputError("an XDMF file is whole or not there, so that none can be continued; write .pvd instead")
        if path.with_suffix(".h5").exists():
            raise InputError(f"'{path.with_suffix('.h5')}' is there already; choose another name")
        self.path = path
        self.times: list[float] = []
        self.folder = path.with_name(f".{path.stem}-{secrets.token_hex(4)}")
        with hdf5("the HDF5 file beside it"):
            import h5py

            self.folder.mkdir()
            self.series = meshio.xdmf.TimeSeriesWriter(self.folder / path.name)
            self.series.h5_filename = path.with_suffix(
                ".h5"
            ).name  # entering the series would put it into the working directory
            self.series.h5_file = h5py.File(self.folder / self.series.h5_filename, "w")
        self.mesh: MeshData | None = None

    def write(self, mesh: MeshData, time: float) -> None:
        """Write a frame."""
        whole = to_meshio(mesh)
        if self.mesh is None:
            self.series.write_points_cells(whole.points, whole.cells)
            self.mesh = mesh
        elif not all(torch.equal(self.mesh[key], mesh[key]) for key in ("points", "cell_type", "cell_index")):
            raise InputError("its frames have one mesh, whose nodes do not move; write .pvd instead")
        self.series.write_data(time, whole.point_data, whole.cell_data)
        self.times.append(time)

    def close(self) -> None:
        """Give the files their names, if there is a frame."""
        if not self.folder.exists():
            return
        try:
            self.series.__exit__(None, None, None)
            for name in (self.series.h5_filename, self.path.name) if self.times else ():
                (self.folder / name).replace(self.path.with_name(name))
        finally:
            shutil.rmtree(self.folder)


def _flat(array: Any) -> Any:
    """Scalars that are written as a column, as scalars."""
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
