"""What importing meshop costs, and what it leaves alone."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package_and_the_cards(tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    kept = subprocess.run(
        ["git", "ls-files", "meshop", "datasets"], cwd=root, capture_output=True, text=True, check=True
    )
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", str(tmp_path), str(root)]
    subprocess.run(build, check=True)
    held = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    assert {"meshop/render/viewer/vtk.js", "meshop/render/viewer/page.html", "meshop/cards/darcy/README.md"} <= held
    makes_vtk_js = {"entry.js", "package.json", "package-lock.json", "update.mjs"}
    wanted = {file for file in kept.stdout.split() if Path(file).name not in makes_vtk_js}
    assert {re.sub("^datasets/", "meshop/cards/", file) for file in wanted} <= held
