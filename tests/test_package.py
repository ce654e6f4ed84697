"""What importing meshop costs, and what it leaves alone."""

import subprocess
import sys

import meshop

HEAVY = ("vtk", "vtkmodules", "pyvista", "meshio", "trimesh", "matplotlib", "pytorch_lightning", "skfem")


def test_import_pulls_in_torch_and_pyg_only() -> None:
    code = (
        "import sys, torch, torch_geometric; before = set(sys.modules); import meshop, meshop.nn, meshop.models; "
        "import meshop.io, meshop.transforms, meshop.geometry, meshop.metrics, meshop.render; "
        f"print([m for m in {HEAVY!r} if m in set(sys.modules) - before])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_version_matches_the_distribution() -> None:
    from importlib.metadata import version

    assert meshop.__version__ == version("meshop")
