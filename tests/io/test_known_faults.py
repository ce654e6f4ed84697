"""Faults that readers and writers of meshes are known for, each with the smallest input that shows it."""

from pathlib import Path
from typing import Any

import meshio
import numpy as np
import pytest
import pyvista as pv
import torch
from gallery import clone, unchanged
from pyvista.examples import cells as vtk_cells

from meshop.data import FieldSpec, InputError, MeshData
from meshop.geometry import cell_edges, cell_measure, cell_shape
from meshop.io import FORMATS, from_pyvista, read_mesh, read_series, write_mesh
from meshop.io.describe import describe, describe_mesh
from meshop.transforms import CellsToEdges, Center, NodeMeasure

SQUARE = [[0.0, 0], [1, 1], [1, 0], [0, 1]]


def test_an_unused_node_is_predicted_but_does_not_stretch_the_box(tmp_path: Path) -> None:
    mesh = MeshData.from_cells([*SQUARE, [9.0, 9]], [5, 5], [[0, 2, 1], [0, 1, 3]])
    write_mesh(tmp_path / "a.vtu", mesh)
    mesh = read_mesh(tmp_path / "a.vtu", dim=2)
    assert Center()(mesh).pos.tolist() == [[-0.5, -0.5], [0.5, 0.5], [0.5, -0.5], [-0.5, 0.5], [8.5, 8.5]]
    assert NodeMeasure()(mesh).measure[4] == 0
    assert describe(tmp_path / "a.vtu")["orphan_points"] == 1
    write_mesh(tmp_path / "b.vtu", mesh, point_data={"p_pred": torch.arange(5.0)})
    assert read_mesh(tmp_path / "b.vtu").point_data["p_pred"].tolist() == [0, 1, 2, 3, 4]


def test_lines_and_triangles_with_cell_data_that_meshio_wrote_as_gmsh_22(tmp_path: Path) -> None:
    cells = [("line", [[0, 2], [2, 1], [1, 3], [3, 0], [0, 1]]), ("triangle", [[0, 2, 1], [0, 1, 3]])]
    tags = [np.arange(5), np.arange(5, 7)]
    data = {"f": [np.arange(5.0), np.arange(5.0, 7)], "gmsh:physical": tags, "gmsh:geometrical": tags}
    points = np.pad(np.array(SQUARE), ((0, 0), (0, 1)))
    meshio.write(tmp_path / "a.msh", meshio.Mesh(points, cells, cell_data=data), file_format="gmsh22")
    mesh = read_mesh(tmp_path / "a.msh")
    assert mesh.cell_type.tolist() == [3] * 5 + [5] * 2
    assert mesh.cell_data["f"].tolist() == [0, 1, 2, 3, 4, 5, 6]


def exodus_by_vtk(path: Path, grids: dict[str, Any], times: list[float]) -> None:
    """An Exodus file of blocks at several times, whose field ``t`` is the time, written by VTK."""
    from vtkmodules.util.vtkAlgorithm import VTKPythonAlgorithmBase
    from vtkmodules.vtkCommonDataModel import vtkDataObject
    from vtkmodules.vtkCommonExecutionModel import vtkStreamingDemandDrivenPipeline as Pipeline
    from vtkmodules.vtkIOExodus import vtkExodusIIWriter

    class Source(VTKPythonAlgorithmBase):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(nInputPorts=0, nOutputPorts=1, outputType="vtkMultiBlockDataSet")

        def RequestInformation(self, request: Any, inputs: Any, outputs: Any) -> int:
            about = outputs.GetInformationObject(0)
            about.Set(Pipeline.TIME_STEPS(), times, len(times))
            about.Set(Pipeline.TIME_RANGE(), [times[0], times[-1]], 2)
            return 1

        def RequestData(self, request: Any, inputs: Any, outputs: Any) -> int:
            about = outputs.GetInformationObject(0)
            time = about.Get(Pipeline.UPDATE_TIME_STEP()) if about.Has(Pipeline.UPDATE_TIME_STEP()) else times[0]
            blocks = pv.MultiBlock()
            for name, grid in grids.items():
                grid = grid.copy()
                grid.point_data["t"] = np.full(grid.n_points, time)
                blocks[name] = grid
            out = about.Get(vtkDataObject.DATA_OBJECT())
            out.ShallowCopy(blocks)
            out.GetInformation().Set(vtkDataObject.DATA_TIME_STEP(), time)
            return 1

    source, writer = Source(), vtkExodusIIWriter()
    writer.SetInputConnection(source.GetOutputPort())
    writer.SetFileName(str(path))
    writer.WriteAllTimeStepsOn()
    writer.WriteOutGlobalNodeIdArrayOff()
    writer.WriteOutGlobalElementIdArrayOff()
    writer.WriteOutBlockIdArrayOff()
    writer.Write()


def test_all_steps_of_exodus_and_all_its_blocks(tmp_path: Path) -> None:
    hexahedron, tetrahedron = vtk_cells.Hexahedron(), vtk_cells.Tetrahedron()
    tetrahedron.points += 5
    exodus_by_vtk(tmp_path / "a.e", {"one": hexahedron, "two": tetrahedron}, [0.0, 1.0])
    series = read_series(tmp_path / "a.e")
    assert series.times.tolist() == [[0, 1]]
    assert series.point_data["t"].tolist() == [[0, 1]] * 12
    assert series.cell_type.tolist() == [12, 10]
    assert series.cell_data["block"].flatten().tolist() == [0, 1]
    assert len(series.field_data["blocks"]) == 2


@pytest.mark.parametrize("name", ["a.vtu", "a.vtk", "a.e", "a.msh", "a.inp"])
def test_middle_nodes_of_a_quadratic_hexahedron_in_the_order_of_any_format(name: str, tmp_path: Path) -> None:
    grid = vtk_cells.QuadraticHexahedron()
    if name == "a.e":
        upright = [
            *range(12),
            *range(16, 20),
            *range(12, 16),
        ]  # VTK writes nodes as they come, not in Exodus II's order
        cell = np.array([20, *grid.cell_connectivity[upright]])
        exodus_by_vtk(tmp_path / name, {"one": pv.UnstructuredGrid(cell, np.array([25]), grid.points)}, [0.0])
    elif name.startswith("a.vt"):
        grid.save(tmp_path / name)
    else:
        mesh = meshio.Mesh(grid.points, [("hexahedron20", grid.cell_connectivity[None])])
        meshio.write(tmp_path / name, mesh, **({"file_format": "gmsh22"} if name == "a.msh" else {}))
    mesh = read_mesh(tmp_path / name)
    x = mesh.points[mesh.cell_index]
    edges = cell_shape(25, 20).edges
    assert len(edges) == 12
    for first, middle, last in edges:
        torch.testing.assert_close(x[middle], (x[first] + x[last]) / 2)
    cells = mesh.cell_type, mesh.cell_size, mesh.cell_index, mesh.polyhedra
    assert cell_edges(*cells).size(1) == 2 * 24
    assert cell_edges(*cells, corners_only=True).size(1) == 2 * 12


@pytest.mark.parametrize("suffix", [s for s, form in FORMATS.items() if form.write is not None])
@pytest.mark.parametrize("axes", [[0, 1], [0, 2]])
def test_a_plane_mesh_keeps_its_plane_in_every_format(axes: list[int], suffix: str, tmp_path: Path) -> None:
    mesh = MeshData.from_cells(SQUARE, [5, 5], [[0, 2, 1], [0, 1, 3]])
    mesh.points = torch.zeros(4, 3, dtype=torch.float64).index_copy_(1, torch.tensor(axes), mesh.points[:, :2])
    holds = FORMATS[suffix].fields.startswith("point")
    before = clone(mesh)
    if suffix == ".su2" and axes != [0, 1]:
        with pytest.raises(InputError, match="SU2 holds surfaces in the plane z = 0 only"):
            write_mesh(tmp_path / "a.su2", mesh)
        return
    write_mesh(tmp_path / f"a{suffix}", mesh, point_data={"u": [[1.0, 2]] * 4} if holds else {})
    unchanged(mesh, before)
    back = read_mesh(tmp_path / f"a{suffix}", dim=2)
    corners = back.pos[back.cell_index]  # STL knows no points but corners
    torch.testing.assert_close(corners, mesh.points[mesh.cell_index][:, axes].float())
    if holds:
        u = back.point_data["u"]
        plane = [0, 1] if u.size(1) == 2 else axes
        assert u[:, plane].tolist() == [[1, 2]] * 4


@pytest.mark.parametrize("suffix", [".off", ".obj", ".ply"])
def test_a_field_beside_a_file_of_duplicate_vertices_fits_it(suffix: str, tmp_path: Path) -> None:
    ball = pv.Sphere().triangulate()
    soup = ball.points.copy()
    soup[421:] = soup[:421]
    faces = ball.regular_faces
    if suffix == ".ply":
        mesh = MeshData.from_cells(soup, [5] * len(faces), faces)
        write_mesh(tmp_path / "a.ply", mesh)
    else:
        vertex, face, base = ("", "3 ", 0) if suffix == ".off" else ("v ", "f ", 1)
        lines = [f"OFF\n842 {len(faces)} 0"] if suffix == ".off" else []
        lines += [vertex + " ".join(map(repr, row)) for row in soup.astype(float).tolist()]
        lines += [face + " ".join(str(i + base) for i in row) for row in faces.tolist()]
        (tmp_path / f"a{suffix}").write_text("\n".join(lines) + "\n")
    mesh = read_mesh(tmp_path / f"a{suffix}")
    assert mesh.num_points == 842
    assert np.array_equal(mesh.points.float().numpy(), soup)
    assert np.array_equal(mesh.cell_index.numpy(), faces.ravel())
    assert describe(tmp_path / f"a{suffix}")["duplicate_points"] == 421


def test_the_number_of_components_tells_a_soup_from_a_surface(tmp_path: Path) -> None:
    ball = pv.Sphere(theta_resolution=8, phi_resolution=8)
    ball.save(tmp_path / "a.stl")
    assert describe(tmp_path / "a.stl")["components"] == 1
    soup = MeshData.from_cells(ball.points[ball.regular_faces.ravel()], [5] * 96, np.arange(288).reshape(96, 3))
    told = describe_mesh(soup)
    assert (told["components"], told["largest_component"], told["duplicate_points"]) == (96, 1, 238)


def test_a_field_on_points_and_on_cells_is_asked_about_and_kept_apart() -> None:
    ball = pv.Sphere()
    ball.point_data["p"], ball.cell_data["p"] = np.zeros(842), np.ones(1680)
    mesh = from_pyvista(ball)
    with pytest.raises(InputError, match="'p' is both a point and a cell field of the mesh; say p:point or p:cell"):
        FieldSpec.resolve(mesh, ["p"])
    y = FieldSpec.resolve(mesh, ["p:point"]).pack(CellsToEdges()(mesh)).y
    assert torch.equal(y, torch.zeros(842, 1))
    assert torch.equal(mesh.cell_data["p"], torch.ones(1680).double())


@pytest.mark.parametrize("suffix", [".vtu", ".vtk"])
@pytest.mark.parametrize("location", ["point", "cell"])
def test_a_file_with_an_array_of_the_wrong_length_is_refused(location: str, suffix: str, tmp_path: Path) -> None:
    mesh = MeshData.from_cells(SQUARE, [5, 5], [[0, 2, 1], [0, 1, 3]])
    path = tmp_path / f"a{suffix}"
    write_mesh(path, mesh, binary=False, **{f"{location}_data": {"w": [7.0] * (4 if location == "point" else 2)}})
    path.write_text(path.read_text().replace("7 7", "7", 1))
    with pytest.raises(InputError, match=rf"^Cannot read '{path}': ") as caught:
        read_mesh(path)
    assert "\n" not in str(caught.value)


def test_an_array_of_one_block_alone_is_kept() -> None:
    one, other = pv.Plane(i_resolution=1, j_resolution=1), pv.Plane(i_resolution=2, j_resolution=1)
    one.clear_data(), other.clear_data()
    one.point_data["p"], other.cell_data["q"] = np.arange(4.0), np.array([5, 6])
    mesh = from_pyvista(pv.MultiBlock({"one": one, "other": other}))
    assert mesh.point_data["p"][:4].tolist() == [0, 1, 2, 3]
    assert bool(mesh.point_data["p"][4:].isnan().all())
    assert bool(mesh.cell_data["q"][0].isnan())
    assert mesh.cell_data["q"][1:].tolist() == [5, 6]


def test_means_by_volume_do_not_depend_on_how_cells_are_cut() -> None:
    points = np.array(
        [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1], [0, 0, 3]]
    )
    grid = pv.UnstructuredGrid(np.array([8, *range(8), 4, 4, 5, 7, 8]), np.array([12, 10]), points.astype(float))
    grid.cell_data["q"] = np.array([1.0, 4])
    means = {}
    for mesh in (from_pyvista(grid), from_pyvista(grid.triangulate())):
        volume = cell_measure(mesh.points, mesh.cell_type, mesh.cell_size, mesh.cell_index)
        q = mesh.cell_data["q"]
        means[mesh.num_cells] = float(q @ volume / volume.sum()), float(q.mean())
    (whole, plain), (cut, other) = means.values()
    assert max(means) > 2
    assert whole == pytest.approx(cut) == pytest.approx((1 + 4 / 3) / (4 / 3))
    assert plain != pytest.approx(other)


def test_vertices_and_lines_in_a_file_of_triangles_keep_their_cell_data(tmp_path: Path) -> None:
    grid = pv.UnstructuredGrid(
        np.array([1, 0, 2, 0, 1, 3, 0, 2, 1, 3, 0, 1, 3]), np.array([1, 3, 5, 5]), np.pad(SQUARE, ((0, 0), (0, 1)))
    )
    grid.cell_data["q"] = np.array([10.0, 20, 1, 3])
    grid.save(tmp_path / "a.vtu")
    mesh = read_mesh(tmp_path / "a.vtu", dim=2)
    assert mesh.cell_data["q"].tolist() == [10, 20, 1, 3]
    assert float(NodeMeasure()(mesh).measure.sum()) == pytest.approx(1)  # that of the triangles alone
