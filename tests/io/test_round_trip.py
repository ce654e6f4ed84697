"""The law of every format: what a mesh is before it is written, it is after it is read; nobody's data change."""

import warnings
from pathlib import Path

import numpy as np
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
    ".off": {1, 3, 5, 7, 9},
    ".inp": {1, 3, 5, 9, 10, 12, 13, 14, 21, 22, 23, 24, 25, 26, 28},
    ".bdf": {3, 5, 9, 10, 12, 13, 14, 22, 23, 24, 25, 26, 27},
    ".su2": {1, 3, 5, 9, 10, 12, 13, 14},
    ".med": {1, 3, 5, 9, 10, 12, 13, 14, 21, 22, 23, 24, 25},
    ".e": {1, 3, 5, 9, 10, 12, 13, 14, *range(21, 30)},
    ".xdmf": {1, 3, 5, 9, 10, 12, 13, 14, 21, 22, 23, 24, 25, 28, 29, 32},
}
TEXT = {".obj", ".off", ".inp", ".bdf", ".su2", ".med", ".xdmf", ".e"}  # one kind of file only
BARE = {".stl", ".obj", ".off", ".inp", ".bdf", ".su2"}  # no fields
DOUBLE = {".msh", ".msh2", ".med", ".xdmf", ".e"}  # numbers become float64, or int64
HOPELESS = {
    (".vtp", "mixed"),
    (".stl", "cloud"),
    (".med", "mixed"),
    (".e", "cloud"),
    *((".su2", name) for name in ("mixed", "cloud", "Vertex", "Line")),
}
MESHIO = (GMSH - {26, 27}) | {7, 42, 68, 69, 70, 71, 72, 73}


def carried(mesh: MeshData, cells: set[int]) -> bool:
    return set(mesh.cell_type.tolist()) <= cells


def test_every_format_that_is_written_is_under_the_law() -> None:
    writers = {row.write: suffix for suffix, row in reversed(FORMATS.items()) if row.write}
    assert set(writers.values()) == set(CARRIES)
    for suffix, cells in CARRIES.items():
        assert cells == (FORMATS[suffix].cells or set(CELLS)), suffix


@pytest.mark.parametrize("name", GALLERY)
@pytest.mark.parametrize(
    ("suffix", "binary"),
    [(suffix, binary) for suffix in CARRIES for binary in ([False] if suffix in TEXT else [True, False])],
)
def test_round_trip(suffix: str, name: str, binary: bool, tmp_path: Path) -> None:
    mesh = GALLERY[name]()
    if suffix == ".med":
        pytest.importorskip("h5py")
    if suffix == ".su2" and set(mesh.cell_type.tolist()) <= {5, 9}:  # holds plane surfaces
        mesh.points[:, 2] = 0
    if suffix == ".stl" and mesh.num_cells:  # holds triangles of single precision, without points that no triangle uses
        mesh.points = mesh.points[: int(mesh.cell_index.max()) + 1].float()
        mesh.point_data = Arrays({"p": mesh.point_data["p"][: len(mesh.points)]})
        mesh.pos = mesh.points
    before = clone(mesh)
    path = tmp_path / f"mesh{suffix}"
    if (suffix, name) in HOPELESS or not carried(mesh, CARRIES[suffix]):
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
    if suffix == ".bdf":  # holds sixteen characters of a number
        torch.testing.assert_close(back.points, mesh.points, rtol=1e-12, atol=1e-12)
        back.points = mesh.points
    same_cells(back, mesh)
    if suffix in BARE:
        (message,) = said
        assert "cannot hold the fields p, " in str(message.message)
        assert not len(back.point_data)
    else:
        assert not said
        for arrays, own in ((back.point_data, mesh.point_data), (back.cell_data, mesh.cell_data)):
            if suffix in (".med", ".e"):  # have an order of their own, and cells of one type a block in Exodus II
                assert sorted(set(arrays) - ({"block"} if suffix == ".e" else set())) == sorted(own)
            else:
                assert list(arrays) == list(own)
            for key in own:
                if suffix in DOUBLE:
                    whole = suffix == ".xdmf" and not own[key].is_floating_point()
                    assert arrays[key].dtype == (torch.int64 if whole else torch.float64)
                    assert torch.equal(arrays[key], own[key].double())
                else:
                    assert arrays[key].dtype == own[key].dtype
                    assert torch.equal(arrays[key], own[key])
    # what was read can be written, and comes to the same file
    again = tmp_path / f"again{suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_mesh(again, back, binary=binary)
    if suffix not in (".vtk", ".bdf") or binary:
        same_cells(read_mesh(again), back)


@pytest.mark.parametrize("suffix", [".inp", ".med", ".su2"])
def test_sets_go_round(suffix: str, tmp_path: Path) -> None:
    """Also by way of VTU, whose masks are bytes."""
    if suffix == ".med":
        pytest.importorskip("h5py")
    points = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
    mesh = MeshData.from_cells(points, [9, 3, 3, 3], [[0, 1, 2, 3], [0, 1], [1, 2], [2, 3]])
    if suffix == ".med":
        mesh.cell_type, mesh.cell_size = mesh.cell_type[:1], mesh.cell_size[:1]
        mesh.cell_index = mesh.cell_index[:4]
    count = mesh.num_cells
    sets = {"in": [False, True, False, False], "the wall": [False, False, True, True]}
    if suffix != ".su2":
        sets["all"] = [True] * 4
    mesh.cell_data = Arrays({name: np.array(mask[:count]) for name, mask in sets.items() if any(mask[:count])})
    if suffix != ".su2":
        mesh.point_data = Arrays({"pins": [True, False, False, True], "two": [False, False, True, True]})
    write_mesh(tmp_path / "a.vtu", mesh)
    for source in (mesh, read_mesh(tmp_path / "a.vtu")):
        write_mesh(tmp_path / f"a{suffix}", source)
        back = read_mesh(tmp_path / f"a{suffix}")
        same_cells(back, mesh)
        for key in ("point_data", "cell_data"):
            assert set(back[key]) == set(mesh[key])
            for name, mask in mesh[key].items():
                assert torch.equal(back[key][name], mask)


def test_nastrans_properties_go_round(tmp_path: Path) -> None:
    mesh = GALLERY["Triangle"]()
    mesh.point_data, mesh.cell_data = Arrays(), Arrays({"property": [7, 9]})
    write_mesh(tmp_path / "a.bdf", mesh)
    assert read_mesh(tmp_path / "a.bdf").cell_data["property"].tolist() == [7, 9]


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
