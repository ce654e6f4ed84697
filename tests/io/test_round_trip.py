"""The law of every format: what a mesh is before it is written, it is after it is read; nobody's data change."""

import warnings
from pathlib import Path

import pytest
import torch
from gallery import CELLS, GALLERY, clone, same_cells, unchanged

from meshop.data import Arrays, InputError, MeshData
from meshop.io import FORMATS, from_meshio, from_pyvista, read_mesh, to_meshio, to_pyvista, write_mesh

GMSH = {1, 3, 5, 9, 10, 12, 13, 14, 21, 22, 23, 24, 25, 26, 27, 28, 29, 32, 35}
# the cells that each format carries
CARRIES = {
    ".vtu": set(CELLS),
    ".vtk": set(CELLS),
    ".vtp": {1, 2, 3, 4, 5, 6, 7, 9},
    ".msh": GMSH,
    ".msh2": GMSH,
    ".ply": {5, 7, 9},
    ".stl": {5},
    ".obj": {1, 2, 3, 4, 5, 7, 9},
}
MESHIO = (GMSH - {26, 27}) | {7, 42, 68, 69, 70, 71, 72, 73}


def carried(mesh: MeshData, cells: set[int]) -> bool:
    return set(mesh.cell_type.tolist()) <= cells


def test_every_format_that_is_written_is_under_the_law() -> None:
    assert {suffix for suffix, row in FORMATS.items() if row.write} == set(CARRIES)


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "text"])
@pytest.mark.parametrize("name", GALLERY)
@pytest.mark.parametrize("suffix", CARRIES)
def test_round_trip(suffix: str, name: str, binary: bool, tmp_path: Path) -> None:
    mesh = GALLERY[name]()
    if suffix == ".stl" and mesh.num_cells:  # holds triangles of single precision, without points that no triangle uses
        mesh.points = mesh.points[: int(mesh.cell_index.max()) + 1].float()
        mesh.point_data = Arrays({"p": mesh.point_data["p"][: len(mesh.points)]})
        mesh.pos = mesh.points
    before = clone(mesh)
    path = tmp_path / f"mesh{suffix}"
    hopeless = (suffix, name) in ((".vtp", "mixed"), (".stl", "cloud"))
    if hopeless or not carried(mesh, CARRIES[suffix]):
        with pytest.raises(InputError, match=f"^Cannot write '{path}': ") as caught:
            write_mesh(path, mesh, binary=binary)
        assert "\n" not in str(caught.value)
        assert not list(tmp_path.iterdir())
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        write_mesh(path, mesh, binary=binary)
    unchanged(mesh, before)
    back = read_mesh(path)
    if suffix == ".vtk" and not binary:  # its text keeps six digits of float32 and eleven of float64
        torch.testing.assert_close(back.points, mesh.points, rtol=1e-10, atol=1e-10)
        back.points = mesh.points
        for arrays, own in ((back.point_data, mesh.point_data), (back.cell_data, mesh.cell_data)):
            for key in own:
                digits = 1e-5 if own[key].dtype == torch.float32 else 1e-10
                torch.testing.assert_close(arrays[key], own[key], rtol=digits, atol=0)
                arrays[key] = own[key]
    same_cells(back, mesh)
    if suffix in (".stl", ".obj"):
        (message,) = said
        assert "cannot hold the fields p, " in str(message.message)
        assert not len(back.point_data)
    else:
        assert not said
        for arrays, own in ((back.point_data, mesh.point_data), (back.cell_data, mesh.cell_data)):
            assert list(arrays) == list(own)
            for key in own:
                if suffix.startswith(".msh"):
                    assert arrays[key].dtype == torch.float64
                    assert torch.equal(arrays[key], own[key].double())
                else:
                    assert arrays[key].dtype == own[key].dtype
                    assert torch.equal(arrays[key], own[key])
    # what was read can be written, and comes to the same file
    again = tmp_path / f"again{suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_mesh(again, back, binary=binary)
    if suffix != ".vtk" or binary:
        same_cells(read_mesh(again), back)


@pytest.mark.parametrize("name", GALLERY)
def test_through_pyvista(name: str) -> None:
    mesh = GALLERY[name]()
    before = clone(mesh)
    grid = to_pyvista(mesh)
    grid_before = grid.copy()
    back = from_pyvista(grid)
    unchanged(back, before)
    back.points += 1
    back.point_data["p"] += 1
    back.cell_data["added"] = torch.zeros(mesh.num_cells)
    back.cell_index += 1
    assert grid == grid_before  # the two share no memory
    grid.points += 1
    grid.point_data["p"] += 1
    unchanged(mesh, before)


@pytest.mark.parametrize("name", GALLERY)
def test_through_meshio(name: str) -> None:
    mesh = GALLERY[name]()
    before = clone(mesh)
    if not carried(mesh, MESHIO):
        with pytest.raises(InputError, match=r"^meshio has no .*; use to_pyvista instead$"):
            to_meshio(mesh)
        return
    other = to_meshio(mesh)
    back = from_meshio(other)
    unchanged(back, before)
    other.points += 1
    other.point_data["p"] += 1
    for blocks in other.cell_data.values():
        for block in blocks:
            block += 1
    unchanged(mesh, before)
    unchanged(back, before)
