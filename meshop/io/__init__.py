"""Mesh files and other libraries' meshes, to and from :class:`~meshop.data.MeshData`."""

from meshop.io.formats import FORMATS, read_mesh, write_mesh
from meshop.io.meshio import from_meshio, to_meshio
from meshop.io.trimesh import from_trimesh
from meshop.io.vtk import from_pyvista, to_pyvista

__all__ = [
    "FORMATS",
    "from_meshio",
    "from_pyvista",
    "from_trimesh",
    "read_mesh",
    "to_meshio",
    "to_pyvista",
    "write_mesh",
]
