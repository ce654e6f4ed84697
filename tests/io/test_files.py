"""Doors to files: what is refused and how it is said, and that nothing half-written is left."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from gallery import GALLERY, clone, mixed, unchanged

from meshop.data import InputError, MeshData
from meshop.io import FORMATS, read_mesh, write_mesh
from meshop.io.assemble import assemble, integers, text_numbers, to_numpy


def square(**fields: object) -> MeshData:
    return MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], [9], [[0, 1, 2, 3]], **fields)


def refused(path: Path, message: str, dim: int = 3) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_mesh(path, dim)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", FORMATS)
def test_no_file(suffix: str, tmp_path: Path) -> None:
    refused(tmp_path / f"a{suffix}", "^Cannot read .*: there is no such file$")


@pytest.mark.parametrize("suffix", FORMATS)
def test_an_empty_file(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    path.touch()
    refused(path, "there is no mesh of OpenFOAM" if suffix == ".foam" else "the file is empty$")


def test_a_directory(tmp_path: Path) -> None:
    path = tmp_path / "a.vtu"
    path.mkdir()
    refused(path, "it is a directory, not a mesh file$")
    with pytest.raises(InputError, match=r"Cannot write '.*a.vtu': it is a directory$"):
        write_mesh(path, square())


def test_unknown_extensions(tmp_path: Path) -> None:
    for name, message in (
        ("a.vtuu", r"\(did you mean '.vtu'\?\)$"),
        ("a.docx", r"one of the extensions .vtu, .*\(got"),
    ):
        (tmp_path / name).write_text("x")
        refused(tmp_path / name, message)
        with pytest.raises(InputError, match=message):
            write_mesh(tmp_path / name, square())


def test_extensions_in_capitals(tmp_path: Path) -> None:
    for suffix in (".VTU", ".Vtk", ".STL", ".MSH"):
        path = tmp_path / f"a{suffix}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write_mesh(path, GALLERY["Triangle"]())
        assert read_mesh(path).num_cells == 2


@pytest.mark.parametrize("suffix", FORMATS)
def test_garbage(suffix: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"a{suffix}"
    for content in (b"garbage\n" * 40, bytes(range(256)) * 4, b"\x00", b"1 2 3\n4 5 6\n"):
        path.write_bytes(content)
        refused(path, "^Cannot read ")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "text"])
@pytest.mark.parametrize("suffix", [".vtu", ".vtk", ".vtp", ".msh", ".msh2", ".ply", ".stl"])
def test_truncated(suffix: str, binary: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    mesh = mixed() if suffix in (".vtu", ".vtk", ".msh", ".msh2") else GALLERY["Triangle"]()
    path = tmp_path / f"a{suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_mesh(path, mesh, binary=binary)
    content = path.read_bytes()
    for percent in (1, 3, 8, 17, 29, 41, 53, 62, 71, 78, 83, 88, 93, 97):
        cut = content[: len(content) * percent // 100]
        if not cut.rstrip().splitlines()[-1].startswith(b"$EndNodeData"):  # which may be the end of a gmsh file
            path.write_bytes(cut)
            refused(path, "^Cannot read ")
    assert capfd.readouterr() == ("", "")


def test_a_mesh_without_points(tmp_path: Path) -> None:
    import pyvista as pv

    path = tmp_path / "a.vtu"
    pv.UnstructuredGrid().save(path)
    refused(path, r"Expected a mesh \(got one without points\)$")


def test_formats_that_are_only_read(tmp_path: Path) -> None:
    for suffix in (suffix for suffix, row in FORMATS.items() if row.write is None):
        with pytest.raises(InputError, match=r"can only be read; write .vtu instead$"):
            write_mesh(tmp_path / f"a{suffix}", square())
    assert not list(tmp_path.iterdir())


def test_further_arrays_stand_beside_those_of_the_file(tmp_path: Path) -> None:
    mesh = mixed()
    before = clone(mesh)
    path = tmp_path / "a.vtu"
    p, c = mesh.num_points, mesh.num_cells
    more = {"p_pred": torch.rand(p), "static pressure": np.arange(p, dtype=np.float32), "list": [0.5] * p}
    write_mesh(path, mesh, more, {"q_pred": torch.rand(c, 3)})
    unchanged(mesh, before)
    back = read_mesh(path)
    assert list(back.point_data) == ["p", "U", "p_pred", "static pressure", "list"]
    assert list(back.cell_data) == ["q", "region", "q_pred"]
    assert torch.equal(back.point_data["p"], mesh.point_data["p"])
    assert torch.equal(back.point_data["p_pred"], more["p_pred"])
    assert back.point_data["static pressure"].tolist() == list(range(p))
    for name, location in (("p", "point"), ("q", "cell")):
        with pytest.raises(InputError, match=f"the mesh has a {location} field '{name}' already"):
            write_mesh(path, mesh, **{f"{location}_data": {name: torch.rand(p if location == "point" else c)}})
    unchanged(read_mesh(path), back)  # the refused ones left the file alone
    assert os.listdir(tmp_path) == ["a.vtu"]


def test_arrays_of_the_wrong_length_name_field_numbers_and_file(tmp_path: Path) -> None:
    mesh = mixed()
    for location, count, other in (
        ("point", mesh.num_points, mesh.num_cells),
        ("cell", mesh.num_cells, mesh.num_points),
    ):
        for length in (other, count - 1):
            message = f"Cannot write '.*a.vtu': {location}_data 'w' has {length} values but the mesh has {count} "
            with pytest.raises(InputError, match=message):
                write_mesh(tmp_path / "a.vtu", mesh, **{f"{location}_data": {"w": torch.zeros(length)}})
    mesh.point_data["p"] = torch.zeros(3)
    for suffix in (".vtu", ".msh", ".obj"):
        with pytest.raises(InputError, match="point_data 'p' has 3 values but the mesh has 12 points"):
            write_mesh(tmp_path / f"a{suffix}", mesh)
    assert not list(tmp_path.iterdir())


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no directory '.*nowhere'$"):
        write_mesh(tmp_path / "nowhere" / "a.vtu", square())


@pytest.mark.parametrize("suffix", [".vtu", ".vtk", ".vtp", ".msh", ".msh2", ".ply", ".stl", ".obj"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(suffix: str, tmp_path: Path) -> None:
    """Under a limit on the size of files, as on a full disk, writes fail half-way."""
    path = tmp_path / f"a{suffix}"
    path.write_text("old")
    code = f"""
import resource, sys, warnings
warnings.simplefilter("ignore")
import pyvista as pv
from meshop.io import from_pyvista, write_mesh
mesh = from_pyvista(pv.Sphere(theta_resolution=90, phi_resolution=90).triangulate())
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    write_mesh({str(path)!r}, mesh)
except ValueError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"InputError Cannot write '{path}': ")
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == [path.name]


def test_a_writer_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(path: Path, data: MeshData, binary: bool) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(FORMATS, ".vtu", FORMATS[".vtu"]._replace(write=half))
    path = tmp_path / "a.vtu"
    path.write_text("old")
    with pytest.raises(InputError, match=r"^Cannot write '.*a.vtu': No space left on device$"):
        write_mesh(path, square())
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.vtu"]


def test_files_get_the_usual_permissions(tmp_path: Path) -> None:
    write_mesh(tmp_path / "a.vtu", square())
    (tmp_path / "plain").touch()
    assert (tmp_path / "a.vtu").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_plane_mesh_and_its_vectors(tmp_path: Path) -> None:
    for normal in (2, 1, 0):  # z = const, y = const, x = const
        axes = [a for a in range(3) if a != normal]
        flat = torch.tensor([[0.0, 0], [1 / 3, 0], [1, 1], [0, 1 / 7]], dtype=torch.float64)
        mesh = MeshData.from_cells(torch.zeros(4, 3), [9], [[0, 1, 2, 3]])
        mesh.points = torch.full((4, 3), 0.3, dtype=torch.float64)
        mesh.points[:, axes] = flat
        mesh.point_data["u"] = torch.zeros(4, 3)
        path = tmp_path / f"{normal}.vtu"
        write_mesh(path, mesh)
        back = read_mesh(path, dim=2)
        assert torch.equal(back.pos, flat.float())
        assert torch.equal(back.points, mesh.points)  # the file's coordinates stay as they are
        vector = torch.rand(4, 2)
        write_mesh(path, back, {"u_pred": vector}, {"two": torch.rand(1, 2)})
        again = read_mesh(path, dim=2)
        assert torch.equal(again.points, mesh.points)
        assert torch.equal(again.point_data["u_pred"][:, axes], vector)
        assert again.point_data["u_pred"].shape == (4, 3)
        assert float(again.point_data["u_pred"][:, normal].abs().max()) == 0
        assert again.cell_data["two"].shape == (1, 3)
    mesh = square()
    mesh.points[2, 2] = 0.5
    write_mesh(tmp_path / "a.vtu", mesh)
    refused(tmp_path / "a.vtu", r"Expected a mesh in a coordinate plane \(got extents 1, 1, 0.5\)", dim=2)


def test_coordinates_far_away_stay_exact_in_points(tmp_path: Path) -> None:
    mesh = square()
    mesh.points = mesh.points.double() * 1e-3 + 5e5
    write_mesh(tmp_path / "a.vtu", mesh)
    with pytest.warns(UserWarning, match=r"pos, in single precision, is rounded by up to 0.001 because"):
        back = read_mesh(tmp_path / "a.vtu")
    assert torch.equal(back.points, mesh.points)
    assert len(back.pos.unique(dim=0)) < 4  # float32 resolves centimetres there


def test_assembling() -> None:
    mesh = assemble(np.array([[0, 0], [1, 0], [0, 1]], dtype=">i2"), [5], [3], np.array([0, 1, 2], dtype=np.uint64))
    assert mesh.points.dtype == torch.float64
    assert mesh.points.shape == (3, 3)
    assert mesh.cell_index.dtype == torch.int64
    half = assemble(np.zeros((3, 3), dtype=np.float16), [], [], [])
    assert half.points.dtype == torch.float32
    foreign = np.arange(6, dtype=">f8").reshape(2, 3)[::-1]
    mesh = assemble(foreign, [], [], [], point_data={"p": foreign[:, 0]})
    assert mesh.points.tolist() == [[3, 4, 5], [0, 1, 2]]
    assert mesh.point_data["p"].tolist() == [3, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.0, 0, 0]], [], [], [], None, None, None, None, 4), r"dim 2 or 3 \(got 4\)"),
        (([0.0, 1.0], [], [], []), r"shape \[P, 3\] \(got \[2\]\)"),
        (([[0.0] * 4], [], [], []), r"shape \[P, 3\] \(got \[1, 4\]\)"),
        (([[0.0] * 3], [1], [1], [1]), "Expected node numbers below 1 in 'cell_index'"),
        (([[0.0] * 3], [1], [1], [-1]), "Expected node numbers below 1 in 'cell_index'"),
        (([[0.0] * 3], [1], [1], [0.5]), "Expected integers as node numbers"),
        (([[0.0] * 3], [1], [2], [0]), "Expected 2 numbers in 'cell_index'"),
        (([[0.0] * 3], [1], [], []), "Expected one 'cell_size' for each of the 1 cells"),
    ],
)
def test_what_cannot_be_assembled(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        assemble(*arguments)  # type: ignore[arg-type]


def test_integers_that_do_not_fit_are_refused() -> None:
    assert integers(np.array([2**62], dtype=np.uint64), "tags").tolist() == [2**62]
    with pytest.raises(InputError, match=r"Expected integers as tags \(got uint64 up to 18446744073709551615\)"):
        integers(np.array([2**64 - 1], dtype=np.uint64), "tags")


def test_arrays_for_files() -> None:
    assert to_numpy(torch.tensor([True, False]), "m").dtype == np.uint8
    assert to_numpy(torch.ones(2, dtype=torch.float16), "m").dtype == np.float32
    assert to_numpy(torch.ones(2, dtype=torch.bfloat16), "m").dtype == np.float32
    assert to_numpy(torch.ones(2, 3, 3), "m").shape == (2, 9)
    with pytest.raises(InputError, match="Expected real values in field 'm'"):
        to_numpy(torch.ones(2, dtype=torch.complex64), "m")
    with pytest.raises(InputError, match=r"Expected numbers or texts in field 'm' \(got object\)"):
        to_numpy(np.array([None]), "m")


def test_text_numbers() -> None:
    with pytest.raises(InputError, match="no number where numbers are expected"):
        text_numbers(b"1 2 three")
