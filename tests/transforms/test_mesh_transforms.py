"""The transforms as PyG uses them: copies, composition, batches, and what they refuse."""

import copy

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.data.datapipes import DatasetAdapter
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import Compose

from meshop.data import Arrays, InputError, MeshData
from meshop.geometry import cell_edges, node_measure
from meshop.transforms import (
    BoundaryDistance,
    BoxCox,
    CellGraph,
    CellsToEdges,
    CellsToPoints,
    Center,
    KNNGraph,
    Markers,
    MergePoints,
    NodeMeasure,
    Normals,
    PointsToCells,
    SubsampleNodes,
    __all__,
)


def mesh(shift: float = 0.0) -> MeshData:
    """Two quads, a triangle and a line, in double precision."""
    points = torch.tensor([[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1], [1, 3]]).double() / 3 + shift
    return MeshData.from_cells(
        points,
        [9, 9, 5, 3],
        [[0, 1, 4, 3], [1, 2, 5, 4], [3, 4, 6], [0, 1]],
        point_data={"p": torch.rand(7), "id": torch.arange(7)},
        cell_data={"q": torch.rand(4), "U": torch.rand(4, 3)},
    )


ALL = [
    BoundaryDistance(),
    BoxCox(["p"]),
    CellGraph(),
    CellsToEdges(),
    CellsToPoints(),
    Center(),
    KNNGraph(3),
    Markers(["wall"]),
    MergePoints(),
    NodeMeasure(),
    Normals(),
    PointsToCells(),
    SubsampleNodes(5),
]


OTHER = ("SignedDistance", "Window")  # that needs a file, and that of trajectories


def test_all_are_here() -> None:
    assert [type(t).__name__ for t in ALL] == [name for name in __all__ if name not in OTHER]


@pytest.mark.parametrize("transform", ALL, ids=repr)
def test_the_given_mesh_is_left_as_it_is(transform: object) -> None:
    data = mesh()
    before = copy.deepcopy(data)
    out = transform(data)
    assert out is not data
    assert data.keys() == before.keys()
    for key in data.keys():  # noqa: SIM118 (a Data iterates over key-value pairs)
        same = torch.equal(data[key], before[key]) if isinstance(data[key], torch.Tensor) else data[key] == before[key]
        assert same, key


def test_functional_names_and_representations() -> None:
    data = mesh()
    (out,) = DatasetAdapter([data]).cells_to_edges().node_measure()
    assert torch.equal(out.edge_index, CellsToEdges()(data).edge_index)
    assert torch.equal(out.measure, NodeMeasure()(data).measure)
    (out,) = DatasetAdapter([data]).mesh_knn_graph(k=2)
    assert torch.equal(out.edge_index, KNNGraph(2)(data).edge_index)
    (out,) = DatasetAdapter([data]).cells_to_points(["q"]).points_to_cells(["p"]).cell_graph()
    assert torch.equal(out.pos, CellGraph()(data).pos)
    assert (list(out.point_data), list(out.cell_data)) == (["id", "q"], ["U", "p"])
    assert list(map(repr, ALL[2:])) == [
        *("CellGraph()", "CellsToEdges(corners_only=False)", "CellsToPoints()", "Center()"),
        *("KNNGraph(k=3)", "Markers(['wall'], 'point')", "MergePoints()", "NodeMeasure()"),
        *("Normals('point')", "PointsToCells()", "SubsampleNodes(5)"),
    ]
    assert repr(BoundaryDistance("wall")) == "BoundaryDistance('wall', 'point')"
    assert repr(CellsToPoints(["q"])) == "CellsToPoints(['q'])"


def test_edges_are_those_of_the_cells() -> None:
    data = CellsToEdges()(mesh())
    assert data.edge_index.size(1) == 2 * (7 + 2)
    assert data.validate()
    quadratic = MeshData.from_cells(torch.rand(6, 2), [22], [[0, 1, 2, 3, 4, 5]])
    assert CellsToEdges()(quadratic).edge_index.size(1) == 12
    assert CellsToEdges(corners_only=True)(quadratic).edge_index.tolist() == [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]


def test_measure_sums_to_the_area_in_the_precision_of_pos() -> None:
    for shift in (0.0, 5e5):  # far away, where single precision sees one point
        data = NodeMeasure()(mesh(shift))
        assert data.measure.dtype == torch.float32
        assert float(data.measure.sum()) == pytest.approx((2 + 1) / 9)
        assert data.measure.tolist() == pytest.approx(NodeMeasure()(mesh()).measure.tolist())


def test_batches_before_and_after() -> None:
    meshes = [mesh(), MeshData.from_cells(torch.rand(4, 2), [5, 3], [[0, 1, 2], [1, 3]]), mesh(1.0)]
    transform = Compose([CellsToEdges(), NodeMeasure()])
    late = transform(Batch.from_data_list(meshes))
    early = Batch.from_data_list([transform(m) for m in meshes])
    assert torch.equal(late.edge_index, early.edge_index)
    torch.testing.assert_close(late.measure, early.measure)
    late = KNNGraph(2)(Batch.from_data_list(meshes))
    assert torch.equal(late.edge_index, Batch.from_data_list([KNNGraph(2)(m) for m in meshes]).edge_index)


def test_a_mesh_far_away_is_centred_before_it_is_rounded() -> None:
    near, far = mesh(), mesh(5e5)
    middle = torch.tensor([1 / 3, 0.5])
    torch.testing.assert_close(Center()(near).pos, near.pos - middle)
    torch.testing.assert_close(Center()(far).pos, near.pos - middle)
    assert torch.equal(Center()(far).points, far.points)
    torch.testing.assert_close(Center([5e5, 5e5, 0])(far).pos, near.pos)
    assert repr(Center([1, 2, 3])) == "Center([1, 2, 3])"
    xz = mesh(5e5)
    xz.points = xz.points[:, [0, 2, 1]]
    torch.testing.assert_close(Center()(xz).pos, near.pos - middle)
    with pytest.raises(InputError, match=r"Expected an origin of three coordinates \(got \[1, 2\]\)"):
        Center([1, 2])
    with pytest.raises(InputError, match="Center moves the 7 points of a mesh, but the graph has 4 nodes"):
        Center()(CellGraph()(near))


def test_cells_as_nodes() -> None:
    data = CellGraph()(mesh())
    third = 1 / 3
    expected = torch.tensor([[0.5, 0.5], [1.5, 0.5], [2 / 3, 5 / 3], [0.5, 0]]) * third
    torch.testing.assert_close(data.pos, expected)
    assert data.measure.tolist() == pytest.approx([third**2, third**2, third**2, 0])  # a line has no area
    assert data.edge_index.tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]
    assert data.num_nodes == 4
    assert data.num_points == 7
    assert data.validate()
    assert data.cell_data == mesh().cell_data or len(data.cell_data) == 2
    xz = mesh()
    xz.points = xz.points[:, [0, 2, 1]] + 7  # the plane y = 7
    xz.pos = xz.points[:, [0, 2]].float()
    torch.testing.assert_close(CellGraph()(xz).pos, expected + 7)


def test_cell_graphs_are_batched() -> None:
    loader = DataLoader([CellGraph()(mesh()), CellGraph()(mesh(1.0))], batch_size=2)
    (batch,) = loader
    assert batch.num_nodes == 8
    assert batch.batch.tolist() == [0] * 4 + [1] * 4
    assert batch.edge_index.tolist() == [[0, 0, 1, 2, 4, 4, 5, 6], [1, 2, 0, 0, 5, 6, 4, 4]]
    assert int(batch.cell_index.max()) == 13  # cells go on counting points
    assert batch.to_data_list()[1].validate()


def test_what_the_cell_graph_refuses() -> None:
    dual = CellGraph()(mesh())
    for transform, message in (
        (CellGraph(), "CellGraph takes one mesh whose graph's nodes are its points"),
        (CellsToEdges(), "CellsToEdges joins the 7 points of a mesh, but the graph has 4 nodes"),
        (NodeMeasure(), "NodeMeasure weighs the 7 points of a mesh, but the graph has 4 nodes"),
    ):
        with pytest.raises(InputError, match=message):
            transform(dual)
    with pytest.raises(InputError, match="before batching"):
        CellGraph()(Batch.from_data_list([mesh()]))
    with pytest.raises(InputError, match="the mesh has no cells"):
        CellGraph()(MeshData.from_cells(torch.rand(3, 3), [], []))


def test_fields_move_and_only_those_of_floats_unasked() -> None:
    data = mesh()
    data.cell_data["material"] = torch.tensor([1, 1, 2, 2])
    out = CellsToPoints()(data)
    assert list(out.cell_data) == ["material"]
    assert list(out.point_data) == ["p", "id", "q", "U"]
    assert out.point_data["U"].shape == (7, 3)
    assert out.point_data["q"].dtype == torch.float32
    by_hand = node_measure(data.points, data.cell_type, data.cell_size, data.cell_index)
    kept = (by_hand * out.point_data["q"]).sum()
    torch.testing.assert_close(kept, (data.cell_data["q"][:3].double() / 9).sum())
    named = CellsToPoints(["material"])(data)
    assert named.point_data["material"].dtype == torch.float64
    assert named.point_data["material"][0] == 1
    back = PointsToCells(["q"])(CellsToPoints(["q"])(data))
    assert list(back.cell_data) == ["U", "material", "q"]


def test_constants_survive_the_way_there_and_back() -> None:
    data = mesh()
    data.cell_data["c"] = torch.full((4,), 1 / 3)
    there = CellsToPoints(["c"])(data)
    assert torch.equal(there.point_data["c"], torch.full((7,), 1 / 3))
    assert torch.equal(PointsToCells(["c"])(there).cell_data["c"], data.cell_data["c"])


def test_what_cannot_be_moved() -> None:
    data = mesh()
    data.point_data["q"] = torch.rand(7)
    data.point_data["text"] = [*"abcdefg"]
    data.cell_data["wave"] = torch.rand(4, dtype=torch.complex64)
    for transform, message in (
        (CellsToPoints(), "Cannot move cell field 'q': there is a point field of that name; drop one"),
        (CellsToPoints(["r"]), r"Expected a cell field to move \(got 'r'"),
        (CellsToPoints(["wav"]), r"\(got 'wav' \(did you mean 'wave'\?\)\)"),
        (CellsToPoints(["wave"]), "Cannot move cell field 'wave': it does not hold real numbers"),
        (PointsToCells(["text"]), "Cannot move point field 'text': it does not hold real numbers"),
    ):
        with pytest.raises(InputError, match=message):
            transform(data)
    assert isinstance(data.point_data, Arrays)


def test_a_graph_needs_known_cells() -> None:
    with pytest.raises(InputError, match="got VTK cell type 41"):
        CellsToEdges()(MeshData.from_cells(torch.rand(4, 3), [41], [[0, 1, 2, 3]]))


def test_edges_of_a_mesh_without_unused_nodes_or_cells() -> None:
    empty = CellsToEdges()(MeshData.from_cells(torch.rand(3, 3), [], []))
    assert empty.edge_index.shape == (2, 0)
    data = mesh()
    assert torch.equal(CellsToEdges()(data).edge_index, cell_edges(data.cell_type, data.cell_size, data.cell_index))


def test_parts_that_touch_are_joined_with_their_fields() -> None:
    """Two squares side by side, each with its own points, of which two are in one place."""
    points = [[0.0, 0], [1, 0], [1, 1], [0, 1], [1, -0.0], [2, 0], [2, 1], [1, 1]]
    mesh = MeshData.from_cells(points, [9, 9], [[0, 1, 2, 3], [4, 5, 6, 7]])
    mesh.point_data["T"] = np.arange(8.0)
    mesh.point_data["wall"] = np.array([False, False, True, False, True, False, False, False])
    mesh.point_data["id"] = np.arange(8)
    mesh.point_data["tag"] = np.array(list("abcdefgh"))
    before = mesh.clone()
    out = MergePoints()(mesh)
    assert out.num_points == out.num_nodes == 6
    assert out.merged.tolist() == [0, 1, 2, 3, 1, 4, 5, 2]
    assert torch.equal(out.points[out.merged], before.points)
    assert out.cell_index.tolist() == [0, 1, 2, 3, 1, 4, 5, 2]
    assert out.point_data["T"].tolist() == [0, 2.5, 4.5, 3, 5, 6]
    assert out.point_data["wall"].tolist() == [False, True, True, False, False, False]
    assert out.point_data["id"].tolist() == [0, 1, 2, 3, 5, 6]
    assert list(out.point_data["tag"]) == list("abcdfg")
    assert out.validate()
    assert CellsToEdges()(out).edge_index.size(1) == 2 * 7
    assert CellsToEdges()(mesh).edge_index.size(1) == 2 * 8
    with pytest.raises(InputError, match="MergePoints goes before what makes the graph"):
        MergePoints()(CellsToEdges()(mesh))


def test_a_part_of_the_nodes_stands_for_all() -> None:
    graph = NodeMeasure()(CellsToEdges()(mesh()))
    graph.x, graph.y, graph.params = graph.pos.clone(), torch.arange(7.0)[:, None], torch.ones(1, 7)
    torch.manual_seed(0)
    total = torch.zeros(7)
    for _ in range(2000):
        part = SubsampleNodes(3)(graph)
        assert part.num_nodes == 3
        kept = part.y[:, 0].long()
        assert torch.equal(part.x, graph.x[kept])
        torch.testing.assert_close(part.measure, graph.measure[kept] * 7 / 3)
        ends = kept[part.edge_index]
        assert set(map(tuple, ends.T.tolist())) <= set(map(tuple, graph.edge_index.T.tolist()))
        total[kept] += part.measure
    torch.testing.assert_close(total / 2000, graph.measure, rtol=0.1, atol=0)
    assert part.params.shape == (1, 7)
    assert "cell_index" not in part
    assert "cell_index" in graph
    assert SubsampleNodes(7)(graph).num_cells == 4
    with pytest.raises(InputError, match="at least one node"):
        SubsampleNodes(0)
