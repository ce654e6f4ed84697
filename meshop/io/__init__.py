"""Mesh files and other libraries' meshes, to and from :class:`~meshop.data.MeshData`."""

from meshop.io.formats import FORMATS, read_mesh, write_mesh
from meshop.io.vtk import from_pyvista, to_pyvista

__all__ = ["FORMATS", "from_pyvista", "read_mesh", "to_pyvista", "write_mesh"]
