"""The contract of a mesh: batches and back, names that are data, and what is refused."""

import copy
import io
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, InMemoryDataset
from torch_geometric.loader import DataLoader

from meshop.data import Arrays, Field, FieldSpec, InputError, MeshData, did_you_mean, in_plane_axes
from meshop.geometry import POLYHEDRON, cell_edges

CUBE = [[0, 3, 2, 1], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]]


def triangle(**fields: object) -> MeshData:
    mesh = MeshData.from_cells([[0.0, 0], [1, 0], [0, 1]], [5], [[0, 1, 2]], **fields)
    mesh.edge_index = cell_edges(mesh.cell_type, mesh.cell_size, mesh.cell_index)
    return mesh


def squares(**fields: object) -> MeshData:
    points = [[0.0, 0], [1, 0], [1, 1], [0, 1], [2, 0], [2, 1]]
    mesh = MeshData.from_cells(points, [9, 9], [[0, 1, 2, 3], [1, 4, 5, 2]], **fields)
    mesh.edge_index = cell_edges(mesh.cell_type, mesh.cell_size, mesh.cell_index)
    return mesh


def cube() -> MeshData:
    """A vertex and a polyhedral cube."""
    mesh = MeshData.from_cells(torch.rand(9, 3), [1, POLYHEDRON], [[8], list(range(8))])
    mesh.polyhedra = torch.tensor([(1, f, i) for f, face in enumerate(CUBE) for i in face]).t()
    mesh.edge_index = cell_edges(mesh.cell_type, mesh.cell_size, mesh.cell_index, mesh.polyhedra)
    return mesh


def same(a: MeshData, b: MeshData) -> None:
    assert set(a.keys()) == set(b.keys())
    for key in a.keys():  # noqa: SIM118 (a Data iterates over key-value pairs)
        x, y = a[key], b[key]
        assert (torch.equal(x, y) and x.dtype == y.dtype) if isinstance(x, torch.Tensor) else x == y, key


def test_the_stock_loader_batches_meshes_and_gives_them_back_whole() -> None:
    meshes = [
        triangle(point_data={"p": [1.0, 2, 3], "name": ["a", "b", "c"]}, field_data={"t": [0.5]}),
        squares(cell_data={"q": [1.0, 2]}, point_data={"U": torch.rand(6, 3)}),
    ]
    (batch,) = DataLoader(meshes, batch_size=2)
    assert batch.num_graphs == 2
    assert batch.batch.tolist() == [0] * 3 + [1] * 6
    assert batch.ptr.tolist() == [0, 3, 9]
    assert batch.cell_index.tolist() == [0, 1, 2, 3, 4, 5, 6, 4, 7, 8, 5]
    assert torch.equal(batch.edge_index, cell_edges(batch.cell_type, batch.cell_size, batch.cell_index))
    assert [list(arrays) for arrays in batch.point_data] == [["p", "name"], ["U"]]
    for mesh, back in zip(meshes, batch.to_data_list(), strict=True):
        assert type(back) is MeshData
        same(back, mesh)
        assert back.validate()


def test_polyhedra_count_on_through_a_batch() -> None:
    flat = MeshData.from_cells(torch.rand(4, 3), [9], [[0, 1, 2, 3]])
    flat.edge_index = cell_edges(flat.cell_type, flat.cell_size, flat.cell_index)
    meshes = [cube(), flat, cube(), cube()]
    batch = Batch.from_data_list(meshes)
    cell, face, node = batch.polyhedra
    assert cell.unique().tolist() == [1, 4, 6]
    assert face.unique_consecutive().tolist() == list(range(18))
    assert torch.equal(batch.cell_type[cell], torch.full_like(cell, POLYHEDRON))
    assert node.view(3, 24).amin(1).tolist() == [0, 13, 22]
    edges = cell_edges(batch.cell_type, batch.cell_size, batch.cell_index, batch.polyhedra)
    assert torch.equal(edges, batch.edge_index)
    for mesh, back in zip(meshes, batch.to_data_list(), strict=True):
        same(back, mesh)


def test_a_field_whose_name_looks_like_connectivity_is_data() -> None:
    meshes = [triangle(), squares()]
    for mesh in meshes:
        mesh.damage_index = torch.arange(mesh.num_nodes)
        mesh.face_index_map = torch.zeros(2, 3)
    batch = Batch.from_data_list(meshes)
    assert batch.damage_index.tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5]
    assert batch.face_index_map.shape == (4, 3)
    same(batch.to_data_list()[1], meshes[1])


def test_the_number_of_nodes_does_not_come_from_the_edges() -> None:
    mesh = MeshData.from_cells(torch.rand(5, 2), [], [])
    mesh.edge_index = torch.tensor([[0, 1], [1, 0]])
    batch = Batch.from_data_list([mesh, mesh])
    assert batch.num_nodes == 10
    assert batch.edge_index.tolist() == [[0, 1, 5, 6], [1, 0, 6, 5]]


def test_values_of_a_graph_stay_rows() -> None:
    batch = Batch.from_data_list([triangle(params=torch.rand(1, 3)), squares(params=torch.rand(1, 3))])
    assert batch.params.shape == (2, 3)


def test_pyg_faces_are_offset_too() -> None:
    batch = Batch.from_data_list([triangle(face=torch.tensor([[0], [1], [2]]))] * 2)
    assert batch.face.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_in_memory_data_sets_hold_meshes_and_load_without_pickled_code(tmp_path: Path) -> None:
    meshes = [triangle(point_data={"p": [1.0, 2, 3], "name": ["a", "ß", ""]}), squares(), triangle()]

    class Meshes(InMemoryDataset):
        processed_file_names = "meshes.pt"

        def __init__(self, root: str) -> None:
            super().__init__(root)
            self.load(self.processed_paths[0], data_cls=MeshData)

        def process(self) -> None:
            self.save(meshes, self.processed_paths[0])

    for mesh, back in zip(meshes, Meshes(str(tmp_path)), strict=True):
        same(back, mesh)


def test_meshes_are_saved_and_copied() -> None:
    mesh = squares(point_data={"p": torch.rand(6)}, field_data={"title": ["ä"]})
    buffer = io.BytesIO()
    torch.save({"point_data": mesh.point_data, "field_data": mesh.field_data}, buffer)
    buffer.seek(0)
    back = torch.load(buffer, weights_only=True)
    assert back["point_data"] == mesh.point_data
    assert back["field_data"]["title"].tolist() == ["ä"]
    same(pickle.loads(pickle.dumps(mesh)), mesh)
    shallow, deep = copy.copy(mesh), copy.deepcopy(mesh)
    deep.point_data["p"] += 1
    assert shallow.point_data == mesh.point_data != deep.point_data


def test_arrays_are_native_tensors_of_their_own_type() -> None:
    big = np.arange(4, dtype=">f8")
    fixed = np.arange(4)
    fixed.flags.writeable = False
    arrays = Arrays({"big": big, "back": big[::-1], "long": fixed.astype(np.ulonglong), "fixed": fixed, "list": [1, 2]})
    assert arrays["big"].dtype == torch.float64
    assert arrays["back"].tolist() == [3, 2, 1, 0]
    assert arrays["long"].dtype == torch.uint64
    arrays["fixed"] += 1
    assert fixed.tolist() == [0, 1, 2, 3]
    assert Arrays({"text": ["a", "b"]})["text"].tolist() == ["a", "b"]
    half = torch.ones(2, dtype=torch.float16)
    assert Arrays({"half": half})["half"] is half


def test_arrays_behave_like_a_dictionary() -> None:
    arrays = Arrays({"b": [1.0], "a": [2.0]})
    assert (list(arrays), len(arrays), "a" in arrays, "c" in arrays) == (["b", "a"], 2, True, False)
    assert [v.item() for v in arrays.values()] == [1, 2]
    assert arrays.get("c", 7) == 7
    assert repr(arrays) == "Arrays(b=[1], a=[1])"
    other = copy.copy(arrays)
    del other["b"]
    assert list(arrays.keys()) == ["b", "a"]
    assert arrays != other
    assert arrays == Arrays(arrays)
    assert arrays != Arrays({"b": [1.0], "a": [3.0]})
    assert arrays != Arrays({"b": [1.0], "a": ["x"]})
    assert arrays != {"b": 1}
    with pytest.raises(TypeError, match="unhashable"):
        hash(arrays)


def test_building_from_lists() -> None:
    mesh = MeshData.from_cells([[0, 0], [1, 0], [0, 1]], [5, 3], [[0, 1, 2], [0, 1]])
    assert mesh.points.dtype == torch.float64
    assert mesh.points.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert (mesh.dim, mesh.num_points, mesh.num_cells, mesh.num_nodes) == (2, 3, 2, 3)
    assert mesh.pos.dtype == torch.float32
    assert mesh.cell_size.tolist() == [3, 2]
    assert MeshData(pos=torch.rand(4, 3)).num_points == 4
    assert MeshData(pos=torch.rand(4, 3)).num_cells == 0
    for points in ([[0.0], [1.0]], [0.0, 1.0]):
        with pytest.raises(InputError, match=r"Expected points of shape \[P, 2\] or \[P, 3\]"):
            MeshData.from_cells(points, [], [])


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("cell_size", torch.tensor([4]), "Expected one 'cell_size' for each of the 2 cells (got 1)"),
        ("cell_size", torch.tensor([4, 3]), "Expected 7 numbers in 'cell_index' (got 8)"),
        ("cell_index", torch.arange(8), "Expected node numbers below 6 in 'cell_index' (got 0 to 7)"),
        ("cell_index", torch.arange(8) - 3, "Expected node numbers below 6 in 'cell_index' (got -3 to 4)"),
        ("edge_index", torch.tensor([[0], [6]]), "Expected node numbers below 6 in 'edge_index' (got 0 to 6)"),
        ("polyhedra", torch.tensor([[0], [0], [6]]), "Expected node numbers below 6 in 'polyhedra' (got 6 to 6)"),
        ("x", torch.rand(5, 2), "Expected 6 rows in 'x', one a node (got 5)"),
        ("y", torch.rand(7, 2), "Expected 6 rows in 'y', one a node (got 7)"),
        ("measure", torch.rand(2), "Expected 6 rows in 'measure', one a node (got 2)"),
        ("params", torch.rand(3), "Expected 'params' of shape [1, P] (got [3])"),
        ("point_data", Arrays({"p": [1.0]}), "point_data 'p' has 1 values but the mesh has 6 points"),
        ("cell_data", Arrays({"q": torch.rand(6)}), "cell_data 'q' has 6 values but the mesh has 2 cells"),
    ],
)
def test_the_contract_is_checked(key: str, value: object, message: str) -> None:
    mesh = squares()
    assert mesh.validate()
    mesh[key] = value
    assert not mesh.validate(raise_on_error=False)
    with pytest.raises(InputError) as caught:
        mesh.validate()
    assert str(caught.value) == message


def test_planes() -> None:
    points = torch.rand(5, 3, dtype=torch.float64)
    assert in_plane_axes(points) is None
    for normal, axes in ((0, [1, 2]), (1, [0, 2]), (2, [0, 1])):
        flat = points.clone()
        flat[:, normal] = 7.1
        assert in_plane_axes(flat) == axes
    assert in_plane_axes(torch.zeros(3, 3)) == [0, 1]
    assert in_plane_axes(torch.empty(0, 3)) == [0, 1]


def fields() -> MeshData:
    return squares(
        point_data={"p": torch.arange(6.0), "U": torch.rand(6, 3) * torch.tensor([1, 1, 0]), "T": torch.rand(6, 2)},
        cell_data={"p": [1.0, 2], "q": [3.0, 4]},
        params=torch.tensor([[0.5, 2.0]]),
    )


def test_fields_are_packed_in_their_order_and_unpacked() -> None:
    mesh = fields()
    spec = FieldSpec.resolve(mesh, ["U", "p:point"], ["T"], ["mach", "angle"], {"p": "Pa"})
    assert spec.targets == (Field("U", "point", 2), Field("p", "point", 1, "Pa"))
    assert (spec.in_channels, spec.out_channels, spec.location, spec.dim) == (2 + 2 + 2, 3, "point", 2)
    out = spec.pack(mesh)
    assert torch.equal(out.x, torch.cat([mesh.pos, mesh.point_data["T"]], dim=1))
    assert torch.equal(out.y, torch.cat([mesh.point_data["U"][:, :2], mesh.point_data["p"][:, None]], dim=1))
    assert out.params.tolist() == [[0.5, 2]]
    assert "x" not in mesh
    parts = spec.unpack(out.y)
    assert torch.equal(parts["U"], mesh.point_data["U"][:, :2])
    assert torch.equal(parts["p"], mesh.point_data["p"])
    assert FieldSpec.from_dict(spec.to_dict()) == spec
    assert str(spec.targets[1]) == "p:point"
    bare = FieldSpec.resolve(mesh, ["p:point"], position=False)
    assert bare.pack(mesh).x.shape == (6, 0)


def test_vectors_of_another_plane_and_out_of_the_plane() -> None:
    mesh = fields()
    spec = FieldSpec.resolve(mesh, ["U"])
    mesh.points = mesh.points[:, [0, 2, 1]]  # the plane y = 0
    mesh.point_data["U"] = mesh.point_data["U"][:, [0, 2, 1]]
    assert torch.equal(spec.pack(mesh).y, mesh.point_data["U"][:, [0, 2]])
    mesh.point_data["U"] = torch.ones(6, 3)
    with pytest.raises(InputError, match=r"Field 'U:point' of a.vtu has a component normal to the plane"):
        spec.pack(mesh, "a.vtu")


def test_fields_of_cells_need_cells_as_nodes() -> None:
    mesh = fields()
    spec = FieldSpec.resolve(mesh, ["q"])
    assert spec.location == "cell"
    with pytest.raises(InputError, match="Expected a graph whose nodes are the 2 cells of the mesh"):
        spec.pack(mesh)
    mesh.pos = mesh.pos[:2]
    assert spec.pack(mesh).y.tolist() == [[3], [4]]


def test_targets_may_be_missing_when_predicting() -> None:
    mesh = fields()
    spec = FieldSpec.resolve(mesh, ["U"])
    del mesh.point_data["U"]
    assert "y" not in spec.pack(mesh, targets=False)
    with pytest.raises(InputError, match=r"Field 'U:point' is not in a.vtu"):
        spec.pack(mesh, "a.vtu")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["p"], "Field 'p' is both a point and a cell field of a.vtu; say p:point or p:cell"),
        (["r"], "Field 'r' is not in a.vtu; it has p:point, U:point, T:point, p:cell, q:cell"),
        (["q:point"], r"Field 'q:point' is not in a.vtu \(did you mean"),
        (["tensor"], r"Expected a real scalar or vector field \(got 'tensor' of a.vtu with shape \[6, 2, 2\]\)"),
        (["text"], "Expected a real scalar or vector field"),
        (["wave"], "Expected a real scalar or vector field"),
        ([], "Expected at least one target field"),
        (["U", "q"], r"Expected all fields at one location \(got U:point, q:cell\)"),
        (["U", "U:point"], r"Expected every target once \(got U, U\)"),
    ],
)
def test_names_that_cannot_be_resolved(names: list[str], message: str) -> None:
    mesh = fields()
    if not message.startswith("Field 'r'"):
        mesh.point_data["tensor"] = torch.rand(6, 2, 2)
        mesh.point_data["text"] = [*"abcdef"]
        mesh.point_data["wave"] = torch.rand(6, dtype=torch.complex64)
    with pytest.raises(InputError, match=message):
        FieldSpec.resolve(mesh, names, where="a.vtu")


def test_meshes_that_do_not_fit_the_fields() -> None:
    mesh = fields()
    spec = FieldSpec.resolve(mesh, ["U"], ["T"], ["mach", "angle"])
    for change, message in (
        (lambda m: m.update({"pos": torch.rand(6, 3)}), r"Expected a 2-D mesh \(got b.vtu, which is 3-D\)"),
        (lambda m: m.update({"params": torch.rand(1, 1)}), "Expected the parameters mach, angle for b.vtu"),
        (lambda m: m.__delattr__("params"), "Expected the parameters mach, angle for b.vtu"),
        (lambda m: m.point_data.__setitem__("T", torch.rand(6, 4)), "'T:point' of b.vtu has 4 components, expected 2"),
        (lambda m: m.point_data.__setitem__("T", torch.rand(2, 2)), "'T:point' has 2 values but b.vtu has 6 points"),
        (lambda m: m.point_data.__setitem__("T", torch.full((6, 2), torch.nan)), "holds 12 values that are not finite"),
        (lambda m: m.point_data.__setitem__("T", [*"abcdef"]), "'T:point' of b.vtu does not hold real numbers"),
        (lambda m: m.point_data.__delitem__("T"), "Field 'T:point' is not in b.vtu"),
        (
            lambda m: (m.point_data.__delitem__("T"), m.cell_data.__setitem__("T", torch.rand(2, 2))),
            "Field 'T:point' is not in b.vtu; it is a cell field there",
        ),
    ):
        broken = fields()
        change(broken)
        with pytest.raises(InputError, match=message):
            spec.pack(broken, "b.vtu")


def test_did_you_mean() -> None:
    assert did_you_mean("presure", ["pressure", "U"]) == " (did you mean 'pressure'?)"
    assert did_you_mean("xyz", ["pressure", "U"]) == ""
