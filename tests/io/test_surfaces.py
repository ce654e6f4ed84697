"""PLY, STL and OBJ as other programs write them."""

from pathlib import Path

import numpy as np
import pytest
import pyvista as pv
import torch
import trimesh
from gallery import single, surface

from meshop.data import InputError, MeshData
from meshop.geometry import cell_measure
from meshop.io import read_mesh, write_mesh


def area(mesh: MeshData) -> float:
    return float(cell_measure(mesh.points.double(), mesh.cell_type, mesh.cell_size, mesh.cell_index).sum())


def sphere(binary: bool, path: Path) -> pv.PolyData:
    """A sphere that VTK wrote."""
    out = pv.Sphere(theta_resolution=8, phi_resolution=8)
    out.save(path, binary=binary)
    return out


@pytest.mark.parametrize("binary", [True, False])
def test_stl_is_welded(binary: bool, tmp_path: Path) -> None:
    before = sphere(binary, tmp_path / "a.stl")
    mesh = read_mesh(tmp_path / "a.stl")
    assert mesh.num_points == 50 == before.n_points  # 288 corners
    assert mesh.num_cells == 96 == before.n_cells
    corners = mesh.points[mesh.cell_index].numpy()
    np.testing.assert_allclose(corners, before.points[before.regular_faces.ravel()], atol=1e-7)
    seen = mesh.cell_index.tolist()
    assert list(dict.fromkeys(seen)) == list(range(50))  # points in order of appearance


def test_stl_keeps_every_triangle(tmp_path: Path) -> None:
    path = tmp_path / "a.stl"
    facet = "facet normal 0 0 0\nouter loop\nvertex {}\nvertex {}\nvertex {}\nendloop\nendfacet\n"
    first = facet.format("0 0 0", "1 0 0", "0 1.5e-1 0")
    collapsed = facet.format("0 0 0", "1 0 0", "1 0 0")
    again = facet.format("-0 0 0", "1 0 0", "0 1.5E-01 0")
    path.write_text(f"solid one\n{first}{collapsed}endsolid one\nsolid two\n{again.upper()}endsolid\n")
    mesh = read_mesh(path)
    assert mesh.cell_index.tolist() == [0, 1, 2, 0, 1, 1, 0, 1, 2]
    assert mesh.points.tolist() == [[0, 0, 0], [1, 0, 0], [0, pytest.approx(0.15), 0]]


def test_stl_of_trimesh_and_back(tmp_path: Path) -> None:
    box = trimesh.creation.box()
    box.export(tmp_path / "a.stl")
    mesh = read_mesh(tmp_path / "a.stl")
    assert (mesh.num_points, mesh.num_cells) == (8, 12)
    assert area(mesh) == 6
    for binary in (True, False):
        write_mesh(tmp_path / "b.stl", mesh, binary=binary)
        back = trimesh.load(tmp_path / "b.stl")
        assert back.is_watertight
        assert back.volume == pytest.approx(1)
        assert pv.read(tmp_path / "b.stl").volume == pytest.approx(1)


def test_stl_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.stl"
    for content, message in (
        (b"solid a\nfacet normal 0 0 1\nvertex 0 0 0\nvertex 1 0 0\nendsolid a", "without three corners"),
        (b"solid a\nendsolid a", "it holds no triangles"),
        (b"solid a\nvertex 0 0 zero\nendsolid a", "no number where numbers are expected"),
        (bytes(84), "it holds no triangles"),
        (bytes(83) + b"\1" * 50, "neither a whole text nor as long as its count of triangles says"),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            read_mesh(path)
    with pytest.raises(InputError, match=r"STL holds triangles only \(got a quad\); write VTU or VTP instead"):
        write_mesh(path, single(9))


def test_obj_of_every_kind_of_line(tmp_path: Path) -> None:
    path = tmp_path / "a.obj"
    path.write_text(
        "# comment\nmtllib a.mtl\no thing\nv 0 0 0\nv 1 0 0 # corner\nv\t1 1 0\nv 0 1 0\nvt 0 0\nvn 0 0 1\ng part\n"
        "usemtl red\ns off\nf 1/1/1 2/1/1 3/1/1\nf 1//1 3//1 4//1\nv 5 5 5\nv 6 6 6\nf -6 -5 -4 -3\n"
        "l 1 2\nl 1 2 \\\n3\np 5\np 5 6\nf 1 2 3 4 5\n"
    )
    mesh = read_mesh(path)
    assert mesh.points.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [5, 5, 5], [6, 6, 6]]
    assert mesh.cell_type.tolist() == [5, 5, 9, 3, 4, 1, 2, 7]
    assert mesh.cell_index.tolist() == [0, 1, 2, 0, 2, 3, 0, 1, 2, 3, 0, 1, 0, 1, 2, 4, 4, 5, 0, 1, 2, 3, 4]


def test_obj_keeps_duplicate_vertices_and_their_order(tmp_path: Path) -> None:
    """A field saved beside the file has one value a vertex line, however many vertices lie in one place."""
    ball = pv.Sphere().triangulate()
    points = np.concatenate([ball.points, ball.points])
    faces = np.concatenate([ball.regular_faces, ball.regular_faces + ball.n_points])
    texture = [f"vt {x:.3f} {y:.3f}" for x, y, _ in points]  # with which other readers split or reorder vertices
    lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in points.astype(float).tolist()] + texture
    lines += ["f " + " ".join(f"{i + 1}/{(7 * i) % len(points) + 1}" for i in face) for face in faces.tolist()]
    (tmp_path / "a.obj").write_text("\n".join(lines))
    mesh = read_mesh(tmp_path / "a.obj")
    assert mesh.num_points == 2 * 842
    assert np.array_equal(mesh.points.numpy(), points)
    assert np.array_equal(mesh.cell_index.numpy(), faces.ravel())


def test_obj_of_vtk_and_with_colours(tmp_path: Path) -> None:
    ball = pv.Sphere(theta_resolution=8, phi_resolution=8)
    ball.save(tmp_path / "a.obj")
    mesh = read_mesh(tmp_path / "a.obj")
    assert (mesh.num_points, mesh.num_cells) == (50, 96)
    assert area(mesh) == pytest.approx(ball.area, rel=1e-5)
    (tmp_path / "b.obj").write_text("v 0 0 0 1 0 0\nv 1 0 0 0 1 0\nv 0 1 0 0 0 0.5\nf 1 2 3\n")
    assert read_mesh(tmp_path / "b.obj").point_data["RGB"].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0.5]]
    with pytest.raises(InputError, match=r"OBJ holds points, lines and polygons \(got a hexahedron\)"):
        write_mesh(tmp_path / "c.obj", single(12))


@pytest.mark.parametrize("binary", [True, False])
def test_ply_of_vtk_trimesh_and_meshio(binary: bool, tmp_path: Path) -> None:
    import meshio

    ball = sphere(binary, tmp_path / "a.ply")
    mesh = read_mesh(tmp_path / "a.ply")
    np.testing.assert_allclose(mesh.points, ball.points, rtol=1e-5, atol=1e-6)
    assert np.array_equal(mesh.cell_index.numpy(), ball.regular_faces.ravel())
    box = trimesh.creation.box()
    box.vertex_attributes["p"] = np.arange(8, dtype=np.float32)
    box.visual.vertex_colors = np.arange(32, dtype=np.uint8).reshape(8, 4)
    (tmp_path / "b.ply").write_bytes(box.export(file_type="ply", encoding="binary" if binary else "ascii"))
    mesh = read_mesh(tmp_path / "b.ply")
    assert np.array_equal(mesh.points.numpy(), box.vertices)
    assert np.array_equal(mesh.cell_index.numpy(), box.faces.ravel())
    assert mesh.point_data["p"].tolist() == list(range(8))
    assert mesh.point_data["green"].tolist() == list(range(1, 32, 4))
    assert mesh.point_data["green"].dtype == torch.uint8
    points = np.random.default_rng(0).random((5, 3))
    cells = [("triangle", [[0, 1, 2]]), ("quad", [[0, 1, 2, 3], [1, 2, 3, 4]]), ("triangle", [[2, 3, 4]])]
    other = meshio.Mesh(points, cells, point_data={"p": np.arange(5.0)})
    meshio.write(tmp_path / "c.ply", other, binary=binary)
    mesh = read_mesh(tmp_path / "c.ply")
    assert mesh.cell_type.tolist() == [5, 9, 9, 5]
    assert np.array_equal(mesh.points.numpy(), points)
    assert mesh.point_data["p"].tolist() == list(range(5))


@pytest.mark.parametrize("binary", [True, False])
def test_others_read_our_ply(binary: bool, tmp_path: Path) -> None:
    mesh = surface()
    write_mesh(tmp_path / "a.ply", mesh, binary=binary)
    back = pv.read(tmp_path / "a.ply")
    assert (back.n_points, back.n_cells) == (8, 6)
    assert back.faces.tolist() == [
        x for c in mesh.cell_index.split(mesh.cell_size.tolist()) for x in (len(c), *c.tolist())
    ]
    np.testing.assert_allclose(back.points, mesh.points, atol=1e-6)


def ply(path: Path, body: str, *head: str, form: str = "ascii") -> Path:
    path.write_text("\n".join(["ply", f"format {form} 1.0", "comment a", "obj_info b", *head, "end_header", body]))
    return path


def test_ply_with_elements_and_lists_of_its_own(tmp_path: Path) -> None:
    path = ply(
        tmp_path / "a.ply",
        "9\n0 0 0 5 6 7 1\n1 0 0 5 6 7 2\n1 1 0 5 6 7 3\n0 1 0 5 6 7 4\n"
        "1.5 2 7 8 3 0 1 2 0\n2.5 0 4 0 1 2 3 1\n3.5 1 9 2 0 3 2\n4.5 0 1 3 3\n0 1",
        *["element material 1", "property int shine", "element vertex 4", "property float x", "property float y"],
        *["property float z", "property short v_0", "property short v_1", "property short v_2", "property uchar w_0"],
        *["element face 4", "property double q", "property list uchar int extra"],
        *["property list uchar int vertex_index", "property ushort id", "element edge 1", "property int vertex1"],
        "property int vertex2",
    )
    mesh = read_mesh(path)
    assert mesh.cell_type.tolist() == [5, 9, 3, 1]
    assert mesh.cell_index.tolist() == [0, 1, 2, 0, 1, 2, 3, 0, 3, 3]
    assert mesh.points.dtype == torch.float32
    assert mesh.point_data["v"].tolist() == [[5, 6, 7]] * 4
    assert mesh.point_data["v"].dtype == torch.int16
    assert mesh.point_data["w_0"].tolist() == [1, 2, 3, 4]
    assert mesh.cell_data["q"].tolist() == [1.5, 2.5, 3.5, 4.5]
    assert mesh.cell_data["id"].tolist() == [0, 1, 2, 3]
    assert set(mesh.cell_data) == {"q", "id"}


def test_ply_names_and_types(tmp_path: Path) -> None:
    mesh = single(5)
    mesh.points = mesh.points.float()
    p = mesh.num_points
    for kind in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.float32, torch.float64):
        mesh.point_data[f"{kind} of"] = torch.arange(p).to(kind)
    mesh.point_data["100% über"] = torch.rand(p, 2)
    mesh.point_data["u"] = torch.rand(p)
    mesh.point_data["u_0"] = torch.rand(p)
    mesh.point_data["long"] = torch.arange(p)
    mesh.point_data["longer"] = torch.arange(p) + 2**40
    mesh.point_data["text"] = np.array(list("abcdefg"))
    for binary in (True, False):
        with pytest.warns(UserWarning, match="^PLY cannot hold the fields text: they are left out$"):
            write_mesh(tmp_path / "a.ply", mesh, binary=binary)
        back = read_mesh(tmp_path / "a.ply")
        assert back.points.dtype == torch.float32
        expected = {name: array for name, array in mesh.point_data.items() if name != "text"}
        expected["long"], expected["longer"] = expected["long"].int(), expected["longer"].double()
        assert list(back.point_data) == list(expected)
        for name, array in expected.items():
            assert back.point_data[name].dtype == array.dtype
            assert torch.equal(back.point_data[name], array)


def test_ply_with_a_very_long_polygon(tmp_path: Path) -> None:
    ring = MeshData.from_cells(np.random.default_rng(0).random((300, 3)), [7], [list(range(300))])
    write_mesh(tmp_path / "a.ply", ring)
    assert read_mesh(tmp_path / "a.ply").cell_index.tolist() == list(range(300))


@pytest.mark.parametrize(
    ("head", "body", "message"),
    [
        (["element vertex 1", "property float x", "property float y"], "0 0", "its vertices have no x, y and z"),
        (["element vertex 1", "property real x"], "0", r"a line that is no PLY \('property real x'\)"),
        (["element vertex 2", "property float x"], "0", "the file is shorter than its counts say"),
        (["element face 1", "property list uchar int vertex_index"], "3 1 2", "shorter than its counts say"),
        (["element face 1", "property list uchar int vertex_index"], "", "shorter than its counts say"),
        (["nonsense"], "", r"a line that is no PLY \('nonsense'\)"),
    ],
)
def test_ply_that_is_none(head: list[str], body: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_mesh(ply(tmp_path / "a.ply", body, *head))


def test_ply_of_other_beginnings_and_cells(tmp_path: Path) -> None:
    (tmp_path / "a.ply").write_text("obj\nformat ascii 1.0\nend_header\n")
    with pytest.raises(InputError, match="it does not start as a PLY file"):
        read_mesh(tmp_path / "a.ply")
    with pytest.raises(InputError, match=r"PLY holds polygons only \(got a line\); write VTU instead"):
        write_mesh(tmp_path / "b.ply", single(3))


def test_big_endian_ply(tmp_path: Path) -> None:
    head = "ply\nformat binary_big_endian 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
    head += "property int id\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n"
    rows = [(0, 0, 0, 7), (1, 0, 0, 8), (0, 1, 0, 9)]
    body = np.array(rows, dtype=">f4,>f4,>f4,>i4").tobytes() + b"\3" + np.array([0, 1, 2], dtype=">i4").tobytes()
    (tmp_path / "a.ply").write_bytes(head.encode() + body)
    mesh = read_mesh(tmp_path / "a.ply", dim=2)
    assert mesh.pos.tolist() == [[0, 0], [1, 0], [0, 1]]
    assert mesh.point_data["id"].tolist() == [7, 8, 9]
    assert mesh.cell_index.tolist() == [0, 1, 2]
