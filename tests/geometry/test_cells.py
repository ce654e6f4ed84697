"""Edges, faces and facets of cells, against VTK's own and by hand."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.utils import is_undirected

from meshop.data import InputError, MeshData
from meshop.geometry import POLYHEDRON, cell_dim, cell_edges, cell_name, cell_shape, facet_pairs
from meshop.geometry.cells import next_around_face, polyhedron_faces

# VTK code: number of nodes
FIXED = {
    code: size
    for codes, sizes in (
        ((3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 16), (2, 3, 4, 4, 4, 8, 8, 6, 5, 10, 12)),
        ((21, 22, 23, 24, 25, 26, 27, 28, 29), (3, 6, 8, 10, 20, 15, 13, 9, 27)),
        ((30, 31, 32, 33, 34, 35, 37), (6, 12, 18, 24, 7, 4, 19)),
    )
    for code, size in zip(codes, sizes, strict=True)
}
LAGRANGE = [(68, 4), (69, 6), (69, 10), (69, 15), (70, 9), (70, 16), (71, 10), (71, 20), (71, 35), (72, 27), (72, 64)]
LAGRANGE += [(73, 18), (73, 40), (76, 10), (77, 16), (78, 20), (79, 64), (80, 40)]
SIZED = [(4, 5), (6, 6), (7, 5), (36, 10)]


def vtk_cell(code: int, size: int):  # type: ignore[no-untyped-def]
    from vtkmodules.vtkCommonDataModel import vtkGenericCell

    cell = vtkGenericCell()
    cell.SetCellType(code)
    cell.GetPointIds().SetNumberOfIds(size)
    cell.GetPoints().SetNumberOfPoints(size)
    for i in range(size):
        cell.GetPointIds().SetId(i, i)
        cell.GetPoints().SetPoint(i, np.cos(i), np.sin(i), 0.0)
    if code in (70, 72, 73, 77, 79, 80):
        cell.GetRepresentativeCell().SetUniformOrderFromNumPoints(size)
    if code in (69, 71, 76, 78):
        cell.GetRepresentativeCell().Initialize()
    return cell


def node_ids(cell) -> tuple[int, ...]:  # type: ignore[no-untyped-def]
    return tuple(cell.GetPointId(i) for i in range(cell.GetNumberOfPoints()))


def mesh(*cells: tuple[int, list[int]]) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.tensor([code for code, _ in cells]),
        torch.tensor([len(nodes) for _, nodes in cells]),
        torch.tensor([i for _, nodes in cells for i in nodes]),
    )


def pairs(edge_index: Tensor) -> set[tuple[int, int]]:
    """Undirected pairs, having checked that both directions are there once, in order, without loops."""
    assert is_undirected(edge_index)
    columns = list(map(tuple, edge_index.t().tolist()))
    assert columns == sorted(set(columns))
    assert all(i != j for i, j in columns)
    return {(i, j) for i, j in columns if i < j}


@pytest.mark.parametrize(("code", "size"), [*FIXED.items(), *SIZED, *LAGRANGE])
def test_edges_and_facets_are_those_of_vtk(code: int, size: int) -> None:
    shape, vtk = cell_shape(code, size), vtk_cell(code, size)
    assert shape.size == size
    assert shape.dim == vtk.GetCellDimension() == int(cell_dim(torch.tensor([code])))
    if shape.dim == 3 or (shape.dim == 2 and code != 6):  # VTK gives a strip's rim as edges, a curve none
        chains = [node_ids(vtk.GetEdge(i)) for i in range(vtk.GetNumberOfEdges())]
        if code not in (71, 78):  # whose edges VTK gives from end to end, those of others with both ends first
            chains = [(e[0], *e[2:], e[1]) for e in chains]
        assert {min(c, c[::-1]) for c in chains} == {min(e, e[::-1]) for e in shape.edges}
    if shape.dim == 3:
        faces = [node_ids(vtk.GetFace(i)) for i in range(vtk.GetNumberOfFaces())]
        corners = 1 + max(max(f) for f in shape.facets)
        assert {frozenset(i for i in f if i < corners) for f in faces} == set(map(frozenset, shape.facets))
        assert {frozenset(f) for f in faces} == {frozenset(f.loop + f.inner) for f in shape.faces}
    if shape.dim == 2 and code != 6:
        assert set(map(frozenset, shape.facets)) == {frozenset((e[0], e[-1])) for e in shape.edges}


@pytest.mark.parametrize(("code", "size"), FIXED.items())
def test_every_node_lies_where_its_part_of_the_shape_says(code: int, size: int) -> None:
    # VTK's reference pyramid is a collapsed cube, in which the slanted edges of 27 are bent; those of 37 are not
    flat = vtk_cell(*((37, 19) if code == 27 else (code, size))).GetRepresentativeCell().GetParametricCoords()
    at = np.array([flat[i] for i in range(3 * size)]).reshape(size, 3)
    shape = cell_shape(code, size)
    for edge in shape.edges:
        where = np.linspace(at[edge[0]], at[edge[-1]], len(edge))
        np.testing.assert_allclose(at[list(edge)], where, atol=1e-12)
    for face in shape.faces:
        mean = at[list(face.corners)].mean(0)
        np.testing.assert_allclose(at[list(face.inner)], np.tile(mean, (len(face.inner), 1)), atol=1e-12)
        ring, after, last = (at[np.roll(face.loop, -k)] for k in range(3))
        turns = np.cross(after - ring, last - after)
        normal = turns.sum(0)
        assert (turns @ normal >= -1e-12).all()  # the loop runs once around, one way
        if shape.dim == 3:
            assert normal @ (mean - at.mean(0)) > 0  # and outwards
    assert sorted(
        {i for e in shape.edges for i in e} | {i for f in shape.faces for i in f.inner} | set(shape.inner)
    ) == list(range(size))


@pytest.mark.parametrize(("code", "size"), [*FIXED.items(), *SIZED, *LAGRANGE])
def test_the_graph_of_a_cell_is_connected_and_holds_its_edges(code: int, size: int) -> None:
    shape = cell_shape(code, size)
    edges = pairs(cell_edges(*mesh((code, list(range(size))))))
    assert {tuple(sorted(p)) for e in shape.edges for p in pairwise(e)} <= edges
    reached, before = {0}, set()
    while reached != before:
        before = set(reached)
        reached |= {k for e in edges if reached & set(e) for k in e}
    assert reached == set(range(size))
    corners_only = pairs(cell_edges(*mesh((code, list(range(size)))), corners_only=True))
    assert corners_only == {tuple(sorted((e[0], e[-1]))) for e in shape.edges}


@pytest.mark.parametrize(
    ("code", "size", "count"),
    # corner - middle - corner twice an edge, plus the spokes of nodes inside faces and cell
    [
        *[
            (9, 4, 4),
            (12, 8, 12),
            (10, 4, 6),
            (13, 6, 9),
            (14, 5, 8),
            (22, 6, 6),
            (23, 8, 8),
            (24, 10, 12),
            (25, 20, 24),
        ],
        *[(28, 9, 12), (29, 27, 24 + 24 + 6), (34, 7, 9), (6, 6, 9), (2, 3, 0), (1, 1, 0), (0, 0, 0), (69, 10, 9 + 6)],
    ],
)
def test_number_of_edges(code: int, size: int, count: int) -> None:
    assert len(pairs(cell_edges(*mesh((code, list(range(size))))))) == count


def test_a_quad_has_no_diagonal_and_a_common_edge_counts_once() -> None:
    assert pairs(cell_edges(*mesh((9, [3, 1, 4, 0])))) == {(1, 3), (1, 4), (0, 4), (0, 3)}
    # a triangle and a polygon of four nodes side by side (their common edge is 1-2)
    assert len(pairs(cell_edges(*mesh((5, [0, 1, 2]), (7, [1, 2, 3, 4]))))) == 6
    # 2 x 2 quads: 12 edges, of which the four inner ones belong to two quads
    quads = [[0, 1, 4, 3], [1, 2, 5, 4], [3, 4, 7, 6], [4, 5, 8, 7]]
    assert len(pairs(cell_edges(*mesh(*((9, q) for q in quads))))) == 12


def test_nodes_repeated_in_a_collapsed_cell_make_no_loop() -> None:
    assert pairs(cell_edges(*mesh((9, [0, 1, 2, 2])))) == {(0, 1), (1, 2), (0, 2)}


def test_no_cells_no_edges() -> None:
    assert cell_edges(*mesh()).shape == (2, 0)
    assert facet_pairs(*mesh()).shape == (2, 0)


CUBE = [[0, 3, 2, 1], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]]


def stream(*cells: tuple[int, list[list[int]]]) -> Tensor:
    triples = []
    face = 0
    for cell, faces in cells:
        for nodes in faces:
            triples += [(cell, face, i) for i in nodes]
            face += 1
    return torch.tensor(triples).t()


def test_a_polyhedral_cube_and_a_tetrahedron() -> None:
    # 12 edges of the cube and 6 of the tetrahedron below, two of which (0-1 and 1-2) they share
    cells = mesh((POLYHEDRON, list(range(8))), (10, [0, 1, 2, 8]))
    assert len(pairs(cell_edges(*cells, stream((0, CUBE))))) == 16
    assert pairs(cell_edges(*mesh((12, list(range(8)))))) <= pairs(cell_edges(*cells, stream((0, CUBE))))


def test_next_around_face() -> None:
    assert next_around_face(stream((0, [[5, 6, 7], [8, 9]]))).tolist() == [1, 2, 0, 4, 3]


def test_polyhedron_faces_come_grouped_by_size() -> None:
    faces = {
        tuple(n)
        for _, nodes in polyhedron_faces(stream((3, [[0, 1, 2], [4, 5, 6, 7], [2, 1, 8]])))
        for n in nodes.tolist()
    }
    assert faces == {(0, 1, 2), (2, 1, 8), (4, 5, 6, 7)}
    assert list(polyhedron_faces(None)) == []


def facets_by_hand(cells: list[tuple[int, list[int]]]) -> Iterator[tuple[int, set[frozenset[int]]]]:
    for code, nodes in cells:
        shape = cell_shape(code, len(nodes))
        yield shape.dim, {frozenset(nodes[i] for i in facet) for facet in shape.facets}


def test_cells_that_share_a_facet() -> None:
    cells = [
        (12, [0, 1, 2, 3, 4, 5, 6, 7]),
        (11, [4, 5, 7, 6, 8, 9, 11, 10]),  # voxel on top of the hexahedron, other node order
        (13, [1, 12, 2, 5, 13, 6]),  # wedge beside it
        (14, [3, 2, 6, 7, 14]),  # pyramid behind it
        (10, [2, 3, 14, 15]),  # tetrahedron on the pyramid's side
        (24, [2, 14, 15, 16, 20, 21, 22, 23, 24, 25]),  # quadratic tetrahedron on the linear one
        (9, [0, 1, 2, 3]),  # quad on the hexahedron's floor: of lower dimension
        (5, [0, 1, 17]),
        (3, [0, 1]),
        (4, [1, 12, 18]),
        (1, [0]),
    ]
    by_hand = list(facets_by_hand(cells))
    expected = {
        (i, j)
        for i in range(len(cells))
        for j in range(i + 1, len(cells))
        if by_hand[i][0] == by_hand[j][0] and by_hand[i][1] & by_hand[j][1]
    }
    assert expected == {(0, 1), (0, 2), (0, 3), (3, 4), (4, 5), (6, 7), (8, 9)}
    assert pairs(facet_pairs(*mesh(*cells))) == expected


def test_three_sheets_that_meet_in_one_edge_are_all_neighbours() -> None:
    sheets = mesh((5, [0, 1, 2]), (5, [1, 0, 3]), (9, [0, 1, 4, 5]))
    assert pairs(facet_pairs(*sheets)) == {(0, 1), (0, 2), (1, 2)}


def test_triangles_of_one_strip_are_not_its_own_neighbours() -> None:
    assert pairs(facet_pairs(*mesh((6, [0, 1, 2, 3]), (5, [1, 3, 9]), (5, [1, 2, 8])))) == {(0, 1)}


def test_a_polyhedron_and_a_hexahedron_share_a_face() -> None:
    cells = mesh((12, [8, 9, 10, 11, 0, 1, 2, 3]), (POLYHEDRON, list(range(8))))
    assert pairs(facet_pairs(*cells, stream((1, CUBE)))) == {(0, 1)}


def test_order_of_nodes_and_cells_does_not_matter() -> None:
    generator = torch.Generator().manual_seed(0)
    codes, sizes, index = mesh((12, list(range(8))), (14, [4, 5, 6, 7, 8]), (10, [4, 5, 8, 9]), (5, [0, 1, 10]))
    rename = torch.randperm(11, generator=generator)
    renamed = {tuple(sorted(rename[list(p)].tolist())) for p in pairs(cell_edges(codes, sizes, index))}
    assert pairs(cell_edges(codes, sizes, rename[index])) == renamed
    assert torch.equal(facet_pairs(codes, sizes, rename[index]), facet_pairs(codes, sizes, index))
    blocks = index.split(sizes.tolist())
    backwards = codes.flip(0), sizes.flip(0), torch.cat(blocks[::-1])
    assert torch.equal(cell_edges(*backwards), cell_edges(codes, sizes, index))
    assert pairs(facet_pairs(*backwards)) == {
        tuple(sorted((3 - i, 3 - j))) for i, j in pairs(facet_pairs(codes, sizes, index))
    }


def test_a_batch_has_the_edges_of_its_meshes() -> None:
    one = MeshData.from_cells(torch.rand(4, 3), [9], [[0, 1, 2, 3]])
    two = MeshData.from_cells(torch.rand(5, 3), [5, 5], [[0, 1, 2], [1, 2, 4]])
    batch = Batch.from_data_list([one, two])
    edges = cell_edges(batch.cell_type, batch.cell_size, batch.cell_index, batch.polyhedra)
    parts = [cell_edges(d.cell_type, d.cell_size, d.cell_index, d.polyhedra) for d in (one, two)]
    assert torch.equal(edges, torch.cat([parts[0], parts[1] + 4], dim=1))


def test_names() -> None:
    assert [cell_name(c) for c in (5, 25, 72, 42, 41)] == [
        *("triangle", "quadratic hexahedron", "Lagrange hexahedron", "polyhedron", "VTK cell type 41")
    ]


@pytest.mark.parametrize(
    ("code", "size", "message"),
    [
        (5, 4, "Expected 3 nodes in a triangle \\(got 4\\)"),
        (7, 2, "Expected at least 3 nodes in a polygon \\(got 2\\)"),
        (36, 7, "Expected an even number of nodes in a quadratic polygon \\(got 7\\)"),
        (69, 7, "uniform order in a Lagrange triangle \\(got 7 nodes\\)"),
        (41, 5, "got VTK cell type 41"),
        (200, 5, "got VTK cell type 200"),
    ],
)
def test_cells_without_known_shape(code: int, size: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cell_edges(*mesh((code, list(range(size)))))


def test_dimension_of_unknown_cells() -> None:
    assert cell_dim(torch.tensor([], dtype=torch.long)).tolist() == []
    for code in (41, -1, 200):
        with pytest.raises(InputError, match=f"got {code}\\)"):
            cell_dim(torch.tensor([5, code]))
