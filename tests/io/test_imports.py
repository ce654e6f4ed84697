"""Nothing heavy is loaded before it is used."""

import subprocess
import sys


def test_importing_meshop_loads_no_mesh_library() -> None:
    code = """
import sys
import meshop, meshop.io, meshop.transforms, meshop.geometry
print([name for name in ("vtk", "vtkmodules", "pyvista", "meshio", "trimesh", "scipy", "gmsh") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("[]", "['scipy']")  # scipy comes with PyG
