"""Gmsh's files: those gmsh wrote (files/make_gmsh.py), those of other programs, and broken ones."""

import time
from pathlib import Path

import numpy as np
import pytest
import torch
from gallery import clone, mixed, single, unchanged

from meshop.data import InputError, MeshData
from meshop.geometry import cell_dim, cell_measure, cell_shape
from meshop.io import read_mesh, write_mesh

FILES = Path(__file__).parent / "files"


def measure(mesh: MeshData) -> torch.Tensor:
    return cell_measure(mesh.points.double(), mesh.cell_type, mesh.cell_size, mesh.cell_index)


def write(path: Path, *sections: str, version: str = "4.1") -> Path:
    path.write_text("\n".join([f"$MeshFormat\n{version} 0 8\n$EndMeshFormat", *sections, ""]))
    return path


NODES = "$Nodes\n1 4 1 4\n2 1 0 4\n1\n3\n2\n4\n0 0 0\n1 1 0\n1 0 0\n0 1 0\n$EndNodes"
ELEMENTS = "$Elements\n1 2 1 2\n2 1 2 2\n1 1 2 3\n2 1 3 4\n$EndElements"
NODES_2 = "$Nodes\n4\n1 0 0 0\n3 1 1 0\n2 1 0 0\n4 0 1 0\n$EndNodes"


@pytest.mark.parametrize("name", ["plate_22_text", "plate_22_binary", "plate_41_text", "plate_41_binary"])
def test_physical_groups(name: str) -> None:
    mesh = read_mesh(FILES / f"{name}.msh", dim=2)
    lines, triangles = mesh.cell_type == 3, mesh.cell_type == 5
    assert float(measure(mesh)[triangles].sum()) == pytest.approx(1)
    assert float(measure(mesh)[lines].sum()) == pytest.approx(2)
    assert mesh.field_data["the walls"].tolist() == [5, 1]
    assert mesh.field_data["fluid"].tolist() == [9, 2]
    assert torch.equal(mesh.cell_data["gmsh:physical"], torch.where(lines, 5, 9))
    assert mesh.cell_data["gmsh:geometrical"][lines].unique().tolist() == [1, 3]
    on_walls = mesh.points[mesh.cell_index[: 2 * int(lines.sum())], 1]
    assert set(on_walls.tolist()) == {0, 1}


def test_all_versions_of_a_file_hold_one_mesh() -> None:
    first, *others = (read_mesh(path) for path in sorted(FILES.glob("plate_*.msh")))
    for other in others:
        torch.testing.assert_close(other.points, first.points, rtol=0, atol=1e-15)
        assert torch.equal(other.cell_index, first.cell_index)
        assert other.cell_data == first.cell_data


@pytest.mark.parametrize("name", ["hex20_22_text", "hex27_41_binary", "wedge15_41_text", "wedge18_22_binary"])
def test_nodes_of_quadratic_cells_are_put_into_vtks_order(name: str) -> None:
    mesh = read_mesh(FILES / f"{name}.msh")
    solid = cell_dim(mesh.cell_type) == 3
    assert float(measure(mesh)[solid].sum()) == pytest.approx(1)
    checked = 0
    for code, nodes in zip(mesh.cell_type.tolist(), mesh.cell_index.split(mesh.cell_size.tolist()), strict=True):
        x = mesh.points[nodes]
        shape = cell_shape(code, len(nodes))
        for first, *middle, last in shape.edges:
            for k in middle:
                torch.testing.assert_close(x[k], (x[first] + x[last]) / 2)
                checked += 1
        for face in shape.faces:
            for k in face.inner:
                torch.testing.assert_close(x[k], x[list(face.corners)].mean(0))
        for k in shape.inner:
            torch.testing.assert_close(x[k], x[: 1 + max(map(max, shape.facets))].mean(0))
    assert checked > 50


@pytest.mark.parametrize("path", sorted(FILES.glob("*.msh")), ids=lambda path: path.stem)
@pytest.mark.parametrize("suffix", [".msh", ".msh2"])
@pytest.mark.parametrize("binary", [True, False])
def test_what_gmsh_wrote_is_kept(path: Path, suffix: str, binary: bool, tmp_path: Path) -> None:
    mesh = read_mesh(path)
    write_mesh(tmp_path / f"a{suffix}", mesh, binary=binary)
    unchanged(read_mesh(tmp_path / f"a{suffix}"), mesh)


def test_the_version_and_the_kind_that_are_written(tmp_path: Path) -> None:
    for suffix, version in ((".msh", b"4.1"), (".msh2", b"2.2")):
        for binary in (True, False):
            write_mesh(tmp_path / f"a{suffix}", mixed(), binary=binary)
            head = (tmp_path / f"a{suffix}").read_bytes().split(b"\n", 2)[1]
            assert head == b"%s %d 8" % (version, binary)


def test_tags_out_of_order_and_with_gaps(tmp_path: Path) -> None:
    mesh = read_mesh(write(tmp_path / "a.msh", NODES, ELEMENTS))
    assert mesh.points[:, :2].tolist() == [[0, 0], [1, 1], [1, 0], [0, 1]]  # file order
    assert float(measure(mesh).sum()) == 1
    sparse = NODES.replace("\n1\n3\n2\n4\n", "\n10\n30\n20\n107\n")
    cells = ELEMENTS.replace("1 1 2 3\n2 1 3 4", "7 10 20 30\n5 10 30 107")
    assert torch.equal(read_mesh(write(tmp_path / "b.msh", sparse, cells)).cell_index, mesh.cell_index)


def test_a_node_that_no_element_uses_is_kept(tmp_path: Path) -> None:
    nodes = NODES.replace("1 4 1 4\n2 1 0 4", "1 5 1 50\n2 1 0 5").replace("\n4\n0 0 0", "\n4\n50\n0 0 0")
    mesh = read_mesh(write(tmp_path / "a.msh", nodes.replace("$EndNodes", "9 9 0\n$EndNodes"), ELEMENTS))
    assert mesh.points[4].tolist() == [9, 9, 0]
    assert int(mesh.cell_index.max()) == 3


def test_lines_triangles_and_cell_data_come_back(tmp_path: Path) -> None:
    points = np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) / 3
    lines, triangles = [[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]], [[0, 1, 2], [0, 2, 3]]
    mesh = MeshData.from_cells(points, [3] * 5 + [5] * 2, lines + triangles)
    mesh.cell_data["f"] = torch.arange(7) / 7
    for suffix in (".msh", ".msh2"):
        write_mesh(tmp_path / f"a{suffix}", mesh)
        back = read_mesh(tmp_path / f"a{suffix}")
        assert torch.equal(back.cell_data["f"], mesh.cell_data["f"].double())
        assert torch.equal(back.cell_index, mesh.cell_index)


def test_types_in_several_runs(tmp_path: Path) -> None:
    elements = "$Elements\n3\n1 2 2 5 1 1 2 3\n2 3 2 6 1 1 2 3 4\n3 2 2 7 1 1 3 4\n$EndElements"
    mesh = read_mesh(write(tmp_path / "a.msh", NODES_2, elements, version="2.2"))
    assert mesh.cell_type.tolist() == [5, 9, 5]
    assert mesh.cell_index.tolist() == [0, 2, 1, 0, 2, 1, 3, 0, 1, 3]
    assert mesh.cell_data["gmsh:physical"].tolist() == [5, 6, 7]


def test_elements_with_any_number_of_tags(tmp_path: Path) -> None:
    elements = "$Elements\n4\n1 2 0 1 2 3\n2 2 1 5 1 2 3\n3 2 4 6 8 1 1 1 2 3\n4 15 2 7 9 1\n$EndElements"
    mesh = read_mesh(write(tmp_path / "a.msh", NODES_2, elements, version="2.2"))
    assert mesh.cell_type.tolist() == [5, 5, 5, 1]
    assert mesh.cell_data["gmsh:physical"].tolist() == [0, 5, 6, 7]
    assert mesh.cell_data["gmsh:geometrical"].tolist() == [0, 0, 8, 9]


def test_fields_of_some_nodes_and_elements_and_at_several_steps(tmp_path: Path) -> None:
    def field(section: str, name: str, step: int, rows: str, components: int = 1) -> str:
        count = rows.count("\n") + 1
        return f'${section}\n1\n"{name}"\n1\n{step}.5\n3\n{step}\n{components}\n{count}\n{rows}\n$End{section}'

    path = write(
        tmp_path / "a.msh",
        NODES,
        ELEMENTS,
        field("NodeData", "p", 0, "4 1.5\n2 2.5"),
        field("ElementData", "q", 0, "2 7"),
        field("NodeData", "T", 0, "1 1\n2 2\n3 3\n4 4"),
        field("NodeData", "T", 1, "1 5\n2 6\n3 7\n4 8"),
        field("NodeData", "U", 0, "1 1 2 3\n2 4 5 6\n3 7 8 9\n4 0 0 0", 3),
        "$Comments\nanything\n$EndComments",
    )
    mesh = read_mesh(path)
    assert list(mesh.point_data) == ["p", "T 0", "T 1", "U"]
    torch.testing.assert_close(
        mesh.point_data["p"], torch.tensor([torch.nan, torch.nan, 2.5, 1.5]).double(), equal_nan=True
    )
    torch.testing.assert_close(mesh.cell_data["q"], torch.tensor([torch.nan, 7]).double(), equal_nan=True)
    assert mesh.point_data["T 0"].tolist() == [1, 3, 2, 4]
    assert mesh.point_data["T 1"].tolist() == [5, 7, 6, 8]
    assert mesh.point_data["U"].tolist() == [[1, 2, 3], [7, 8, 9], [4, 5, 6], [0, 0, 0]]


def test_fields_that_gmsh_cannot_hold_are_left_out_aloud(tmp_path: Path) -> None:
    mesh = single(5)
    p = mesh.num_points
    mesh.point_data["two"] = torch.rand(p, 2)
    mesh.point_data["six"] = torch.rand(p, 6)
    mesh.point_data['say "hi"'] = torch.rand(p)
    mesh.cell_data["text"] = np.array(["a", "b"])
    before = clone(mesh)
    with pytest.warns(UserWarning, match=r"^gmsh cannot hold the fields six, say \"hi\", text: they are left out$"):
        write_mesh(tmp_path / "a.msh", mesh)
    back = read_mesh(tmp_path / "a.msh")
    assert list(back.point_data) == ["p", "U", "two"]
    assert torch.equal(back.point_data["two"], torch.nn.functional.pad(mesh.point_data["two"], (0, 1)).double())
    assert list(back.cell_data) == ["q", "region"]
    assert before.point_data == mesh.point_data


def test_physical_groups_within_an_entity(tmp_path: Path) -> None:
    mesh = mixed()
    mesh.cell_data["gmsh:physical"] = torch.arange(10) % 3
    mesh.cell_data["gmsh:geometrical"] = torch.ones(10, dtype=torch.long)
    mesh.field_data["ones"] = torch.tensor([1, 3])
    mesh.field_data["other"] = torch.tensor([77, 3])  # no group of this mesh
    for suffix in (".msh", ".msh2"):
        write_mesh(tmp_path / f"a{suffix}", mesh)
        back = read_mesh(tmp_path / f"a{suffix}")
        assert torch.equal(back.cell_data["gmsh:physical"], mesh.cell_data["gmsh:physical"])
        assert torch.equal(back.cell_index, mesh.cell_index)
        assert {name: a.tolist() for name, a in back.field_data.items()} == {"ones": [1, 3]}


def test_a_mesh_without_elements(tmp_path: Path) -> None:
    mesh = MeshData.from_cells(np.random.default_rng(0).random((3, 3)), [], [])
    for suffix in (".msh", ".msh2"):
        for binary in (True, False):
            write_mesh(tmp_path / f"a{suffix}", mesh, binary=binary)
            back = read_mesh(tmp_path / f"a{suffix}")
            assert torch.equal(back.points, mesh.points)
            assert back.num_cells == 0


def test_big_endian_and_parametric_nodes(tmp_path: Path) -> None:
    def pack(kinds: str, *values: float) -> bytes:
        codes = {"i": ">i4", "u": ">u8", "d": ">f8"}
        return b"".join(np.array(v, codes[k]).tobytes() for k, v in zip(kinds, values, strict=True))

    content = b"$MeshFormat\n4.1 1 8\n" + pack("i", 1) + b"\n$EndMeshFormat\n$Nodes\n"
    content += pack("uuuuiiiuuuu", 1, 3, 1, 3, 2, 1, 1, 3, 1, 2, 3)
    content += pack("ddddd" * 3, 0, 0, 0, 5, 5, 1, 0, 0, 5, 5, 0, 1, 0, 5, 5)
    content += (
        b"\n$EndNodes\n$Elements\n" + pack("uuuuiiiuuuuu", 1, 1, 1, 1, 2, 1, 2, 1, 1, 1, 2, 3) + b"\n$EndElements\n"
    )
    (tmp_path / "a.msh").write_bytes(content)
    mesh = read_mesh(tmp_path / "a.msh")
    assert mesh.points.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert mesh.cell_index.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("version", "sections", "message"),
    [
        ("4.1", [NODES.replace("1 4 1 4", "1 900000000000 1 4"), ELEMENTS], "declares 900000000000 nodes but holds 4"),
        ("4.1", [NODES.replace("2 1 0 4", "2 1 0 900000000000"), ELEMENTS], "shorter than its counts say"),
        ("4.1", [NODES.replace("2 1 0 4", "2 1 0 -4"), ELEMENTS], "shorter than its counts say"),
        ("4.1", [NODES.replace("1 4 1 4\n2 1 0 4", "1 3 1 4\n2 1 0 3"), ELEMENTS], "does not end where its counts say"),
        ("4.1", [NODES, ELEMENTS.replace("1 2 1 2\n2 1 2 2", "1 3 1 2\n2 1 2 2")], "declares 3 elements but holds 2"),
        ("4.1", [NODES, ELEMENTS.replace("2 1 2 2\n", "2 1 2 3\n")], "shorter than its counts say"),
        ("4.1", [NODES, ELEMENTS.replace("2 1 2 2\n", "2 1 21 2\n")], "gmsh element type 21 is not supported"),
        ("4.1", [NODES, ELEMENTS.replace("2 1 3 4", "2 1 3 5")], "refers to nodes that it does not hold"),
        ("4.1", [NODES, ELEMENTS.replace("2 1 3 4", "2 1 3 x")], "no number where numbers are expected"),
        ("4.1", [NODES], "it has no section Elements"),
        ("4.1", [ELEMENTS], "refers to nodes that it does not hold|it has no section Nodes"),
        ("4.1", ["$Nodes"], "shorter than its counts say"),
        ("4.1", ["$PhysicalNames\nmany"], r"expected a number \(got 'many'\)"),
        ("4.0", [NODES], "MSH version 4.0 is not supported; save it from gmsh as 4.1 or 2.2"),
        ("2.2", [NODES_2.replace("$Nodes\n4", "$Nodes\n5"), ELEMENTS], "shorter than its counts say"),
        ("2.2", [NODES_2, "$Elements\n2\n1 2 2 0 1 1 2 3\n$EndElements"], "declares 2 elements but holds 1"),
        ("2.2", [NODES_2, "$Elements\n1\n1 2 2 0 1 1 2\n$EndElements"], "an element has fewer nodes than its type"),
        ("2.2", [NODES_2, "$Elements\n1\n1 2\n$EndElements"], "an element has fewer nodes than its type"),
    ],
)
def test_files_that_contradict_themselves(version: str, sections: list[str], message: str, tmp_path: Path) -> None:
    start = time.perf_counter()
    with pytest.raises(InputError, match=f"Cannot read '.*a.msh': .*({message})"):
        read_mesh(write(tmp_path / "a.msh", *sections, version=version))
    assert time.perf_counter() - start < 1  # no memory is asked for that the file does not fill


def test_files_that_are_no_msh(tmp_path: Path) -> None:
    path = tmp_path / "a.msh"
    for content, message in (
        (b"$NOD\n1\n", r"it does not start with \$MeshFormat"),
        (b"$MeshFormat\n4.1 0 4\n$EndMeshFormat\n", r"expected a version, 0 or 1, and 8 .*\(got '4.1 0 4'\)"),
        (b"$MeshFormat\n4.1\n$EndMeshFormat\n", r"expected a version, 0 or 1, and 8"),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            read_mesh(path)


def test_cells_that_gmsh_does_not_have(tmp_path: Path) -> None:
    for suffix in (".msh", ".msh2"):
        with pytest.raises(InputError, match=r"gmsh has no voxel; write VTU instead$"):
            write_mesh(tmp_path / f"a{suffix}", single(11))
