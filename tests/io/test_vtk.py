"""VTK's files as VTK, ParaView and pyvista write them, and its meshes in memory."""

import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv
import torch
from gallery import mixed, single, surface

from meshop.data import InputError, MeshData
from meshop.geometry import cell_edges, cell_measure
from meshop.io import from_pyvista, read_mesh, to_pyvista, write_mesh
from meshop.io.formats import valid
from meshop.io.vtk import read_legacy

rng = np.random.default_rng(0)


def edges(mesh: MeshData) -> int:
    """Number of undirected edges."""
    return cell_edges(mesh.cell_type, mesh.cell_size, mesh.cell_index, mesh.polyhedra).size(1) // 2


def volume(mesh: MeshData) -> float:
    cells = mesh.cell_type, mesh.cell_size, mesh.cell_index, mesh.polyhedra
    return float(cell_measure(mesh.points.double(), *cells).sum())


def cube_and_tetrahedron() -> pv.UnstructuredGrid:
    """A cube stored as a polyhedron and a tetrahedron below it, as pyvista builds them."""
    points = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]])
    points = np.vstack([points, [[0.5, 0.5, -1]]]) / 3
    faces = [[0, 3, 2, 1], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]]
    stream = [6, *(n for face in faces for n in (len(face), *face))]
    grid = pv.UnstructuredGrid(np.array([len(stream), *stream, 4, 0, 2, 1, 8]), np.array([42, 10]), points)
    grid.cell_data["q"] = [0.1, 0.2]
    return grid


@pytest.mark.parametrize("suffix", [".vtu", ".vtk"])
def test_a_polyhedron_that_pyvista_wrote(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    cube_and_tetrahedron().save(path)
    mesh = read_mesh(path)
    assert mesh.cell_type.tolist() == [42, 10]
    assert edges(mesh) == 16
    assert volume(mesh) == pytest.approx((1 + 1 / 6) / 27)
    write_mesh(path, mesh, cell_data={"q_pred": [0.3, 0.4]})
    grid = pv.read(path)
    assert grid.n_cells == 2
    assert grid.cell_data["q"].tolist() == [0.1, 0.2]
    assert grid.cell_data["q_pred"].tolist() == [0.3, 0.4]
    assert grid.volume == pytest.approx((1 + 1 / 6) / 27)


def test_a_triangle_and_a_polygon(tmp_path: Path) -> None:
    grid = pv.UnstructuredGrid(np.array([3, 0, 1, 2, 4, 1, 2, 3, 4]), np.array([5, 7]), rng.random((5, 3)))
    grid.point_data["p"], grid.cell_data["q"] = np.arange(5.0), np.arange(2.0)
    grid.save(tmp_path / "a.vtu")
    mesh = read_mesh(tmp_path / "a.vtu")
    assert mesh.cell_type.tolist() == [5, 7]
    assert mesh.cell_index.tolist() == [0, 1, 2, 1, 2, 3, 4]
    assert edges(mesh) == 6
    assert mesh.point_data["p"].tolist() == [0, 1, 2, 3, 4]
    assert mesh.cell_data["q"].tolist() == [0, 1]


def test_quads_are_not_read_as_triangles(tmp_path: Path) -> None:
    plane = pv.Plane(i_resolution=2, j_resolution=2)
    plane.save(tmp_path / "a.vtp")
    mesh = read_mesh(tmp_path / "a.vtp")
    assert mesh.cell_type.tolist() == [9] * 4
    assert edges(mesh) == 12
    assert edges(from_pyvista(plane.triangulate())) == 16


@pytest.mark.parametrize("suffix", [".vtu", ".vtp"])
@pytest.mark.parametrize("mode", ["Ascii", "Binary", "Appended", "raw"])
@pytest.mark.parametrize("compressor", ["None", "ZLib", "LZ4", "LZMA"])
@pytest.mark.parametrize("order", ["BigEndian", "LittleEndian"])
def test_every_encoding_of_xml(suffix: str, mode: str, compressor: str, order: str, tmp_path: Path) -> None:
    from vtkmodules.vtkIOXML import vtkXMLPolyDataWriter, vtkXMLUnstructuredGridWriter

    sphere = pv.Sphere(theta_resolution=8, phi_resolution=8)
    sphere.point_data["p"] = rng.random(sphere.n_points) / 3
    writer = vtkXMLPolyDataWriter() if suffix == ".vtp" else vtkXMLUnstructuredGridWriter()
    writer.SetInputData(sphere if suffix == ".vtp" else sphere.cast_to_unstructured_grid())
    getattr(writer, f"SetDataModeTo{'Appended' if mode == 'raw' else mode}")()
    writer.SetEncodeAppendedData(mode != "raw")
    getattr(writer, f"SetCompressorTypeTo{compressor}")()
    getattr(writer, f"SetByteOrderTo{order}")()
    writer.SetFileName(str(tmp_path / f"a{suffix}"))
    assert writer.Write()
    mesh = read_mesh(tmp_path / f"a{suffix}")
    assert np.array_equal(mesh.points.numpy(), sphere.points)
    assert np.array_equal(mesh.point_data["p"].numpy(), sphere.point_data["p"])
    assert np.array_equal(mesh.cell_index.numpy(), sphere.regular_faces.ravel())


def test_every_array_type_and_name(tmp_path: Path) -> None:
    mesh = single(5)
    p = mesh.num_points
    kinds = [torch.float32, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
    for kind in [*kinds, torch.uint16, torch.uint32, torch.uint64]:
        mesh.point_data[f"{kind} of"] = torch.arange(p).to(kind)
    mesh.point_data["<&\"'> ü"] = torch.rand(p, 2)
    mesh.point_data["tensor"] = torch.rand(p, 9)
    mesh.point_data["nan"] = torch.tensor([torch.nan, torch.inf] + [0.0] * (p - 2))
    mesh.point_data["text"] = np.array(["", "ä b", "<x>", "line\nbreak", *"abc"])
    mesh.field_data["time"] = torch.tensor([0.5], dtype=torch.float64)
    mesh.field_data["title"] = np.array(["größer"])
    for suffix in (".vtu", ".vtk"):
        write_mesh(tmp_path / f"a{suffix}", mesh)
        back = read_mesh(tmp_path / f"a{suffix}")
        assert set(back.point_data) == set(mesh.point_data)
        for name, array in mesh.point_data.items():
            if isinstance(array, np.ndarray):
                assert back.point_data[name].tolist() == array.tolist()
            else:
                assert back.point_data[name].dtype == array.dtype
                assert np.array_equal(back.point_data[name].numpy(), array.numpy(), equal_nan=array.is_floating_point())
        assert back.field_data["time"].tolist() == [0.5]
        assert back.field_data["title"].tolist() == ["größer"]


def test_types_that_vtk_does_not_have_are_cast(tmp_path: Path) -> None:
    mesh = single(5)
    p = mesh.num_points
    mesh.point_data["half"] = torch.arange(p).half() / 3
    mesh.point_data["mask"] = torch.arange(p) < 2
    mesh.point_data["matrix"] = torch.rand(p, 2, 2)
    write_mesh(tmp_path / "a.vtu", mesh)
    back = read_mesh(tmp_path / "a.vtu").point_data
    assert torch.equal(back["half"], mesh.point_data["half"].float())
    assert torch.equal(back["mask"], mesh.point_data["mask"].to(torch.uint8))
    assert torch.equal(back["matrix"], mesh.point_data["matrix"].reshape(p, 4))
    mesh.point_data["wave"] = torch.ones(p, dtype=torch.complex64)
    with pytest.raises(InputError, match=r"a.vtu': Expected real values in field 'wave' \(got complex64\)"):
        write_mesh(tmp_path / "a.vtu", mesh)


def test_poly_data_of_all_kinds_in_vtks_order(tmp_path: Path) -> None:
    poly = pv.PolyData()
    poly.points = rng.random((9, 3))
    poly.verts = [1, 0, 2, 1, 2]
    poly.lines = [2, 0, 1, 3, 2, 3, 4]
    poly.faces = [3, 0, 1, 2, 4, 1, 2, 3, 4, 5, 4, 5, 6, 7, 8]
    poly.strips = [4, 0, 1, 2, 5]
    poly.cell_data["q"] = np.arange(8.0)
    poly.save(tmp_path / "a.vtp")
    mesh = read_mesh(tmp_path / "a.vtp")
    assert mesh.cell_type.tolist() == [1, 2, 3, 4, 5, 9, 7, 6]
    assert mesh.cell_size.tolist() == [1, 2, 2, 3, 3, 4, 5, 4]
    assert mesh.cell_data["q"].tolist() == list(range(8))
    write_mesh(tmp_path / "b.vtp", mesh)
    back = pv.read(tmp_path / "b.vtp")
    for kind in ("verts", "lines", "faces", "strips", "points"):
        assert np.array_equal(getattr(back, kind), getattr(poly, kind))


def test_poly_data_cannot_keep_another_order(tmp_path: Path) -> None:
    mesh = MeshData.from_cells(rng.random((4, 3)), [5, 3], [[0, 1, 2], [0, 3]])
    with pytest.raises(InputError, match="it numbers vertices, lines, polygons and strips in this order"):
        write_mesh(tmp_path / "a.vtp", mesh)
    with pytest.raises(InputError, match=r"it holds surfaces only \(got a hexahedron\); write VTU instead"):
        write_mesh(tmp_path / "a.vtp", single(12))


def test_structured_grids_become_their_cells(tmp_path: Path) -> None:
    image = pv.ImageData(dimensions=(3, 4, 2), spacing=(1 / 3, 1, 1), origin=(5, 6, 7))
    image.cell_data["q"] = np.arange(6.0)
    rectilinear = image.cast_to_rectilinear_grid()
    structured = image.cast_to_structured_grid()
    for suffix, grid, code in ((".vti", image, 11), (".vtr", rectilinear, 11), (".vts", structured, 12)):
        grid.save(tmp_path / f"a{suffix}")
        grid.save(tmp_path / "legacy.vtk")
        for path in (tmp_path / f"a{suffix}", tmp_path / "legacy.vtk"):
            mesh = read_mesh(path)
            assert mesh.cell_type.tolist() == [code] * 6
            assert mesh.num_points == 24
            assert volume(mesh) == pytest.approx(2)
            assert mesh.cell_data["q"].tolist() == list(range(6))


def test_legacy_files_with_attributes_of_every_kind(tmp_path: Path) -> None:
    path = tmp_path / "a.vtk"
    head = "# vtk DataFile Version 3.0\ntitle\nASCII\nDATASET UNSTRUCTURED_GRID\n"
    path.write_text(
        f"{head}POINTS 4 float\n0 0 0 1 0 0 1 1 0 0 1 0\nCELLS 2 8\n3 0 1 2\n3 0 2 3\nCELL_TYPES 2\n5 5\n"
        "CELL_DATA 2\nSCALARS mat int 1\nLOOKUP_TABLE default\n7 8\n"
        "POINT_DATA 4\nSCALARS p double 1\nLOOKUP_TABLE default\n1 2 3 4\nSCALARS T float 1\nLOOKUP_TABLE default\n"
        "5 6 7 8\nVECTORS U float\n1 0 0 2 0 0 3 0 0 4 0 0\nNORMALS n float\n0 0 1 0 0 1 0 0 1 0 0 1\n"
    )
    mesh = read_mesh(path, dim=2)
    assert mesh.cell_index.tolist() == [0, 1, 2, 0, 2, 3]
    assert mesh.cell_data["mat"].tolist() == [7, 8]
    assert {name: list(a.shape) for name, a in mesh.point_data.items()} == {
        "p": [4],
        "T": [4],
        "U": [4, 3],
        "n": [4, 3],
    }
    assert mesh.point_data["T"].tolist() == [5, 6, 7, 8]


def test_legacy_text_that_ends_too_early_is_not_filled_with_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.vtk"
    write_mesh(path, mixed(), binary=False)
    content = path.read_text().rstrip()
    path.write_text(content + "\n")
    assert read_mesh(path).num_cells == 10
    for lost in range(1, 12):  # whole numbers of the last array
        path.write_text(" ".join(content.split(" ")[:-lost]))
        with pytest.raises(InputError, match="Cannot read"):
            read_mesh(path)


def test_legacy_text_cut_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "a.vtk"
    write_mesh(path, mixed(), binary=False)
    content = path.read_text()
    found = content.index("CELL_DATA")
    said = set()
    read = inspect.unwrap(read_legacy)  # in this process, where a child for each cut would take long
    for end in range(found + 40, len(content) - 9, 5):
        path.write_text(content[:end])
        with pytest.raises(InputError) as caught, valid("VTK legacy"):
            read(path, 3)
        said.add(str(caught.value))
    assert "the file is shorter than its counts say" in said  # where VTK itself says nothing


def test_a_surface_goes_back_to_its_volume() -> None:
    box = pv.ImageData(dimensions=(3, 3, 3)).cast_to_unstructured_grid()
    outside = box.extract_surface(algorithm="dataset_surface", pass_pointid=True)
    mesh = from_pyvista(outside)
    assert mesh.num_points == 26
    back = torch.full((27,), torch.nan)
    back[mesh.point_data["vtkOriginalPointIds"]] = mesh.points.sum(1).float()
    expected = torch.from_numpy(np.array(box.points)).sum(1)
    assert torch.equal(back.isnan().nonzero(), torch.tensor([[13]]))  # the inner point, and it is not 0
    known = ~back.isnan()
    assert torch.equal(back[known], expected[known].float())


def test_blocks() -> None:
    sphere = pv.Sphere()
    assert from_pyvista(pv.MultiBlock([None, pv.MultiBlock([sphere])])).num_points == sphere.n_points
    ours = from_pyvista(pv.MultiBlock({"a": sphere, "b": pv.MultiBlock({"a": sphere, "none": None})}))
    assert ours.num_points == 2 * sphere.n_points
    assert ours.field_data["blocks"].tolist() == ["a", "b/a"]
    assert ours.cell_data["block"].bincount().tolist() == [sphere.n_cells] * 2
    with pytest.raises(InputError, match=r"Expected a mesh \(got Table\)"):
        from_pyvista(pv.Table(np.ones((2, 2))))


def test_plain_vtk_meshes_are_taken_as_they_are() -> None:
    from vtkmodules.vtkFiltersSources import vtkSphereSource

    source = vtkSphereSource()
    source.Update()
    assert from_pyvista(source.GetOutput()).num_points == source.GetOutput().GetNumberOfPoints()


def test_arrays_of_the_wrong_length_in_vtk_are_refused() -> None:
    grid = pv.Plane(i_resolution=2, j_resolution=2)
    grid.GetPointData().AddArray(pv.convert_array(np.zeros(4), "short"))
    with pytest.raises(InputError, match="point_data 'short' has 4 values but the mesh has 9 points"):
        from_pyvista(grid)


def test_connectivity_of_32_bits() -> None:
    from vtkmodules.vtkCommonDataModel import vtkCellArray

    cells = vtkCellArray()
    cells.Use32BitStorage()
    cells.InsertNextCell(3, [0, 1, 2])
    grid = pv.UnstructuredGrid()
    grid.points = rng.random((3, 3))
    grid.SetCells(5, cells)
    mesh = from_pyvista(grid)
    assert mesh.cell_index.dtype == torch.int64
    assert mesh.cell_index.tolist() == [0, 1, 2]


def test_meshes_that_contradict_themselves_are_not_converted() -> None:
    mesh = surface()
    mesh.cell_index[0] = 99
    with pytest.raises(InputError, match="Expected node numbers below 8 in 'cell_index'"):
        to_pyvista(mesh)


def test_nothing_is_printed_and_nobody_is_warned(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.vtu").write_text("<VTKFile type='UnstructuredGrid'><UnstructuredGrid><Piece")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match="Cannot read"):
            read_mesh(tmp_path / "a.vtu")
        write_mesh(tmp_path / "b.vtu", mixed())
        read_mesh(tmp_path / "b.vtu")
    assert capfd.readouterr() == ("", "")
