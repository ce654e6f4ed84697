"""meshio's meshes, and the files that pass through it."""

from pathlib import Path

import meshio
import numpy as np
import pytest
import pyvista as pv
import torch
from gallery import mixed, single

from meshop.data import InputError
from meshop.io import from_meshio, read_mesh, to_meshio


def test_blocks_keep_file_order() -> None:
    mesh = to_meshio(mixed())
    assert [(b.type, len(b)) for b in mesh.cells] == [
        *[("quad", 1), ("hexahedron", 1), ("wedge", 1), ("line", 1), ("pyramid", 1), ("tetra", 1), ("hexahedron", 1)],
        *[("vertex", 1), ("tetra", 1), ("triangle", 1)],
    ]
    assert [len(part) for part in mesh.cell_data["q"]] == [1] * 10


def test_big_endian_arrays_and_negative_strides_become_ours(tmp_path: Path) -> None:
    ball = pv.Sphere(theta_resolution=8, phi_resolution=8).cast_to_unstructured_grid()
    ball.clear_data()
    ball.point_data["p"] = np.arange(50.0)
    ball.save(tmp_path / "a.vtk")
    other = meshio.read(tmp_path / "a.vtk")
    assert other.points.dtype.byteorder == ">"  # the fault of which this guards
    mesh = from_meshio(other)
    assert np.array_equal(mesh.points.numpy(), ball.points)
    assert mesh.point_data["p"].flatten().tolist() == list(range(50))
    assert torch.equal(mesh.cell_index, read_mesh(tmp_path / "a.vtk").cell_index)
    backwards = meshio.Mesh(other.points[::-1], [("triangle", np.array([[0, 1, 2]], dtype=np.uint64)[:, ::-1])])
    mesh = from_meshio(backwards)
    assert mesh.points.is_contiguous()
    assert mesh.cell_index.tolist() == [2, 1, 0]
    assert torch.equal(mesh.points[mesh.cell_index], torch.from_numpy(ball.points[[47, 48, 49]]))


def test_sets_become_masks_under_their_names() -> None:
    mesh = meshio.Mesh(
        np.eye(3),
        [("line", [[0, 1], [1, 2]]), ("triangle", [[0, 1, 2]])],
        point_data={"inlet": np.arange(3.0)},
        point_sets={"inlet": [0], "wall": [1, 2]},
        cell_sets={"rim": [np.array([0, 1]), np.array([], dtype=int)], "half": [np.array([1]), None]},
    )
    ours = from_meshio(mesh)
    assert ours.point_data["wall"].tolist() == [False, True, True]
    assert ours.point_data["inlet"].tolist() == [0, 1, 2]  # an array goes before a set of its name
    assert ours.cell_data["rim"].tolist() == [True, True, False]
    assert ours.cell_data["half"].tolist() == [False, True, False]


def test_a_plane_mesh_of_two_columns() -> None:
    mesh = meshio.Mesh(np.random.default_rng(0).random((4, 2)), [("quad", [[0, 1, 2, 3]])], field_data={"a": [1, 2]})
    points = mesh.points.copy()
    ours = from_meshio(mesh, dim=2)
    assert np.array_equal(ours.pos.double().numpy(), points.astype(np.float32))
    assert ours.points.shape == (4, 3)
    assert ours.field_data["a"].tolist() == [1, 2]
    assert np.array_equal(mesh.points, points)
    assert mesh.points.shape == (4, 2)


def test_empty_blocks_and_no_cells() -> None:
    mesh = from_meshio(meshio.Mesh(np.eye(3), [("triangle", np.empty((0, 3), int))], cell_data={"q": [[]]}))
    assert (mesh.num_points, mesh.num_cells) == (3, 0)
    assert from_meshio(meshio.Mesh(np.eye(3), [])).num_cells == 0
    assert to_meshio(mesh).cells == []


def test_polyhedra() -> None:
    mesh = single(42)
    mesh.cell_type, mesh.cell_size = torch.tensor([42, 42, 1]), torch.cat([mesh.cell_size, torch.tensor([1])])
    mesh.cell_index = torch.cat([mesh.cell_index, torch.tensor([0])])
    mesh.cell_data = type(mesh.cell_data)()
    other = to_meshio(mesh)
    assert [b.type for b in other.cells] == ["polyhedron4", "vertex"]
    back = from_meshio(other)
    assert torch.equal(back.polyhedra, mesh.polyhedra)
    assert torch.equal(back.cell_index, mesh.cell_index)


def test_cells_that_vtk_does_not_have() -> None:
    with pytest.raises(InputError, match=r"Expected cells that VTK has, too \(got meshio's 'triangle10'\)"):
        from_meshio(meshio.Mesh(np.zeros((10, 3)), [("triangle10", [list(range(10))])]))


@pytest.mark.parametrize("file_format", ["gmsh", "gmsh22"])
def test_gmsh_files_that_meshio_wrote(file_format: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    points = rng.random((8, 3))
    cells = [("tetra", [[0, 1, 2, 3]]), ("triangle", [[4, 5, 6], [5, 6, 7]]), ("tetra", [[1, 2, 3, 4]])]
    groups = [np.array([3]), np.array([4, 4]), np.array([5])]
    other = meshio.Mesh(
        points,
        cells,
        point_data={"p": rng.random(8), "U": rng.random((8, 3))},
        cell_data={
            "gmsh:physical": groups,
            "gmsh:geometrical": groups,
            "q": [rng.random(1), rng.random(2), rng.random(1)],
        },
        field_data={"solid": np.array([3, 3]), "rim of it": np.array([4, 2])},
    )
    if file_format == "gmsh":
        other.point_data["gmsh:dim_tags"] = np.array([[3, 3]] * 8)
    meshio.write(tmp_path / "a.msh", other, file_format=file_format, binary=True)
    mesh = read_mesh(tmp_path / "a.msh")
    assert mesh.cell_type.tolist() == [10, 5, 5, 10]
    assert np.array_equal(mesh.points.numpy(), points)
    assert np.array_equal(mesh.point_data["U"].numpy(), other.point_data["U"])
    assert np.array_equal(mesh.cell_data["q"].numpy(), np.concatenate(other.cell_data["q"]))
    if file_format == "gmsh22":  # of 4.1, meshio writes no groups unless every entity has nodes of its own
        assert mesh.cell_data["gmsh:physical"].tolist() == [3, 4, 4, 5]
        assert mesh.field_data["rim of it"].tolist() == [4, 2]


def test_vtu_files_that_meshio_wrote(tmp_path: Path) -> None:
    other = to_meshio(mixed())
    meshio.write(tmp_path / "a.vtu", other)
    mesh = read_mesh(tmp_path / "a.vtu")
    assert torch.equal(mesh.points, mixed().points)
    assert torch.equal(mesh.cell_type, mixed().cell_type)
    assert torch.equal(mesh.point_data["U"], mixed().point_data["U"])
    assert torch.equal(mesh.cell_data["region"], mixed().cell_data["region"])


def test_meshio_reads_our_vtu(tmp_path: Path) -> None:
    from meshop.io import write_mesh

    for binary in (True, False):
        write_mesh(tmp_path / "a.vtu", mixed(), binary=binary)
        other = meshio.read(tmp_path / "a.vtu")
        assert np.array_equal(other.points, mixed().points.numpy())
        assert np.array_equal(np.concatenate(other.cell_data["q"]), mixed().cell_data["q"].numpy())
