"""meshop: graph learning on unstructured meshes.

A mesh file becomes a PyG ``Data``; neural operators are PyG layers; predictions are written back and drawn on the
original mesh. Importing this package loads torch and PyG only: VTK, meshio, trimesh, matplotlib and Lightning are
loaded by the function that needs them.
"""

from meshop.data import Arrays, Field, FieldSpec, InputError, MeshData

__version__ = "0.1.0"
__all__ = ["Arrays", "Field", "FieldSpec", "InputError", "MeshData", "__version__"]
