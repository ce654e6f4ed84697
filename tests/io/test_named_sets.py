"""Named sets of the formats that have them, as inputs of a directory of such files."""

from collections.abc import Callable
from pathlib import Path

import foreign
import numpy as np
import pytest

from meshop.data import InputError
from meshop.datasets import Folder
from meshop.io import read_mesh, write_mesh

FILES = Path(__file__).parent / "files"


def _foam(path: Path) -> Path:
    (foreign.foam_case(path) / "a.foam").touch()
    return path / "a.foam"


FORMATS: dict[str, tuple[Callable[[Path], Path], str, str, list[int]]] = {
    "OpenFOAM": (_foam, "p:cell", "inlet", [1, 0, 0]),
    "Exodus II": (lambda path: foreign.exodus(path.with_suffix(".e")), "u", "bottom", [1, 1, 1, 0, 0, 0, 0]),
    "Exodus II, a set of nodes": (
        lambda path: foreign.exodus(path.with_suffix(".e")), "u", "clamped", [1, 1, 1, 0, 0, 0, 0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_a_set_is_an_input(name: str, tmp_path: Path) -> None:
    make, target, marker, expected = FORMATS[name]
    for case in "ab":
        make(tmp_path / case)
    data = Folder(tmp_path, target, marker, split="0.5/0.5")
    assert [field.name for field in data.spec.inputs] == [marker]
    assert data[0].x[:, data.spec.dim].tolist() == expected


def test_a_group_of_gmsh_is_an_input(tmp_path: Path) -> None:
    mesh = read_mesh(FILES / "plate_41_text.msh")
    for case in "ab":
        write_mesh(tmp_path / f"{case}.msh", mesh, point_data={"u": mesh.points[:, 0]})
    data = Folder(tmp_path, "u", "the walls", split="0.5/0.5")
    wall = np.zeros(mesh.num_points)
    lines = mesh.cell_data["gmsh:physical"] == mesh.field_data["the walls"][0]
    wall[mesh.cell_index[lines.repeat_interleave(mesh.cell_size)]] = 1
    assert data[1].x[:, 2].tolist() == wall.tolist()
    assert 0 < wall.sum() < len(wall)
    with pytest.raises(InputError, match=r"'walls' is not in .*; its named sets are fluid, the walls"):
        Folder(tmp_path, "u", "walls", split="0.5/0.5")


def test_markers_of_su2_survive_as_vtu(tmp_path: Path) -> None:
    """SU2 has no fields to learn; converted with some, its markers, which are bytes then, are inputs still."""
    text = "NDIME= 2\nNELEM= 2\n5 0 1 2\n5 0 2 3\nNPOIN= 4\n0 0\n1 0\n1 1\n0 1\nNMARK= 1\nMARKER_TAG= wall\n"
    (tmp_path / "a.su2").write_text(text + "MARKER_ELEMS= 1\n3 0 1\n")
    mesh = read_mesh(tmp_path / "a.su2")
    (tmp_path / "cases").mkdir()
    for case in "ab":
        write_mesh(tmp_path / "cases" / f"{case}.vtu", mesh, point_data={"u": mesh.points[:, 0]})
    assert Folder(tmp_path / "cases", "u", "wall", split="0.5/0.5")[0].x[:, 2].tolist() == [1, 1, 0, 0]
