"""XDMF files with time steps, read and written by meshio; their arrays lie in HDF5 beside them."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from meshop.data import InputError, MeshData
from meshop.io.parts import Frames
from meshop.io.meshio import from_meshio, to_meshio


@contextmanager
def open_xdmf(path: Path) -> Iterator[Frames]:
    """The frames of the temporal collection of an XDMF file, each with the mesh of its own where it has one."""
    import meshio

    with _hdf5(), meshio.xdmf.TimeSeriesReader(path) as reader:
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
            point_data = {name: _flat(array) for name, array in point_data.items()}
            cell_data = {name: [_flat(array) for array in arrays] for name, arrays in cell_data.items()}
            return time, from_meshio(meshio.Mesh(points, cells, point_data, cell_data))

        yield Frames(reader.num_steps, read)


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
        with _hdf5():
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


@contextmanager
def _hdf5() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(f'it needs {error.name}; pip install "meshop[data]"') from error
    except OSError as error:
        raise InputError(f"the HDF5 file beside it: {' '.join(str(error).split())}") from error
