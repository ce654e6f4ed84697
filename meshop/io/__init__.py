"""Mesh files, series of them, and other libraries' meshes, to and from :class:`~meshop.data.MeshData`."""

from meshop.io.formats import FORMATS, read_mesh, write_mesh
from meshop.io.meshio import from_meshio, to_meshio
from meshop.io.series import SERIES_FORMATS, SeriesWriter, count_frames, read_series, write_series
from meshop.io.trimesh import from_trimesh
from meshop.io.vtk import from_pyvista, to_pyvista

__all__ = [
    "FORMATS",
    "SERIES_FORMATS",
    "SeriesWriter",
    "count_frames",
    "from_meshio",
    "from_pyvista",
    "from_trimesh",
    "read_mesh",
    "read_series",
    "to_meshio",
    "to_pyvista",
    "write_mesh",
    "write_series",
]
