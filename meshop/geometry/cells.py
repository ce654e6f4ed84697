"""The shapes of VTK's cells: dimension, edges, faces and facets, as tables of local node numbers.

Every shape is its corners, then the nodes on each edge, then those inside each face, then those inside the cell. This
is how VTK numbers linear, quadratic and Lagrange cells, so that one row says all: a corner shape and three counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count, islice, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from meshop.data import InputError
from meshop.geometry.pairs import edge_keys, graph_of, pair_key, row_numbers, side_by_side, sorted_unique


class Face(NamedTuple):
    """A face: the nodes around it, the nodes inside it, and which of those around it are corners."""

    loop: tuple[int, ...]
    inner: tuple[int, ...]
    corners: tuple[int, ...]


@dataclass(frozen=True)
class Shape:
    """The shape of a cell in local node numbers.

    Args:
        name: VTK's name in words.
        dim: topological dimension, 0 to 3.
        size: number of nodes.
        edges: nodes along each edge, from corner to corner.
        faces: what bounds a solid, or what tiles a surface.
        inner: nodes inside a solid.
        facets: corner nodes of what neighbours of the same dimension share: faces, edges or end nodes.
    """

    name: str
    dim: int
    size: int
    edges: tuple[tuple[int, ...], ...] = ()
    faces: tuple[Face, ...] = ()
    inner: tuple[int, ...] = ()
    facets: tuple[tuple[int, ...], ...] = ()

    def links(self, corners_only: bool = False) -> list[tuple[int, int]]:
        """Pairs of nodes that are joined in the graph; see :func:`cell_edges`."""
        if corners_only:
            return [(e[0], e[-1]) for e in self.edges]
        pairs = [pair for e in self.edges for pair in pairwise(e)]
        mids = {i for e in self.edges for i in e[1:-1]}
        for face in self.faces:
            pairs += [(i, j) for i in face.inner for j in face.loop if j in mids]
        centres = [j for face in self.faces for j in face.inner] or sorted(mids)
        return pairs + [(i, j) for i in self.inner for j in centres]


class _Corners(NamedTuple):
    """A linear shape; its directed edges and its faces stand in the order in which VTK numbers their nodes."""

    dim: int
    size: int
    edges: Sequence[tuple[int, int]]
    faces: Sequence[tuple[int, ...]] = ()


_LINE = _Corners(1, 2, [(0, 1)])
_TRIANGLE = _Corners(2, 3, [(0, 1), (1, 2), (2, 0)], [(0, 1, 2)])
_QUAD = _Corners(2, 4, [(0, 1), (1, 2), (3, 2), (0, 3)], [(0, 1, 2, 3)])
_PIXEL = _Corners(2, 4, [(0, 1), (1, 3), (2, 3), (0, 2)], [(0, 1, 3, 2)])
_TETRA = _Corners(3, 4, [(0, 1), (1, 2), (2, 0), (0, 3), (1, 3), (2, 3)], [(0, 1, 3), (1, 2, 3), (2, 0, 3), (0, 2, 1)])
_HEXAHEDRON = _Corners(
    3,
    8,
    [(0, 1), (1, 2), (3, 2), (0, 3), (4, 5), (5, 6), (7, 6), (4, 7), (0, 4), (1, 5), (2, 6), (3, 7)],
    [(0, 4, 7, 3), (1, 2, 6, 5), (0, 1, 5, 4), (3, 7, 6, 2), (0, 3, 2, 1), (4, 5, 6, 7)],
)
_VOXEL = _Corners(
    3,
    8,
    [(0, 1), (1, 3), (2, 3), (0, 2), (4, 5), (5, 7), (6, 7), (4, 6), (0, 4), (1, 5), (2, 6), (3, 7)],
    [(0, 4, 6, 2), (1, 3, 7, 5), (0, 1, 5, 4), (2, 6, 7, 3), (0, 2, 3, 1), (4, 5, 7, 6)],
)
_WEDGE = _Corners(
    3,
    6,
    [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3), (1, 4), (2, 5)],
    [(0, 2, 1), (3, 4, 5), (0, 1, 4, 3), (1, 2, 5, 4), (2, 0, 3, 5)],
)
_PYRAMID = _Corners(
    3,
    5,
    [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4), (2, 4), (3, 4)],
    [(0, 3, 2, 1), (0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4)],
)


def _polygon_corners(n: int) -> _Corners:
    return _Corners(2, n, [(i, (i + 1) % n) for i in range(n)], [tuple(range(n))])


def _prism(n: int) -> _Corners:
    ring = [(i, (i + 1) % n) for i in range(n)]
    return _Corners(
        3,
        2 * n,
        [*ring, *((i + n, j + n) for i, j in ring), *((i, i + n) for i in range(n))],
        [(0, *range(n - 1, 0, -1)), tuple(range(n, 2 * n)), *((i, j, j + n, i + n) for i, j in ring)],
    )


def _shape(
    name: str, corners: _Corners, on_edge: int | Sequence[int] = 0, in_face: int | Sequence[int] = 0, inside: int = 0
) -> Shape:
    """Number the nodes of a shape: corners, edges, faces, inside."""
    per_edge = [on_edge] * len(corners.edges) if isinstance(on_edge, int) else on_edge
    per_face = [in_face] * len(corners.faces) if isinstance(in_face, int) else in_face
    numbers = count(corners.size)
    mids = {edge: tuple(islice(numbers, k)) for edge, k in zip(corners.edges, per_edge, strict=True)}
    mids |= {(b, a): mid[::-1] for (a, b), mid in mids.items()}
    faces = []
    for ring, k in zip(corners.faces, per_face, strict=True):
        sides = zip(ring, (*ring[1:], ring[0]), strict=True)
        faces.append(Face(tuple(i for a, b in sides for i in (a, *mids[a, b])), tuple(islice(numbers, k)), ring))
    facets: Sequence[tuple[int, ...]] = {1: [(0,), (1,)], 2: corners.edges, 3: corners.faces}[corners.dim]
    edges = tuple((a, *mids[a, b], b) for a, b in corners.edges)
    inner = tuple(islice(numbers, inside))
    return Shape(name, corners.dim, next(numbers), edges, tuple(faces), inner, tuple(facets))


def _vertices(name: str, n: int) -> Shape:
    return Shape(name, 0, n)


def _polyline(name: str, n: int) -> Shape:
    return Shape(name, 1, n, tuple((i, i + 1) for i in range(n - 1)), facets=((0,), (n - 1,)))


def _strip(name: str, n: int) -> Shape:
    """Triangles (i, i+1, i+2), every other one turned over."""
    tiles = [(i, i + 1, i + 2) if i % 2 == 0 else (i + 1, i, i + 2) for i in range(n - 2)]
    across = [(i, i + 2) for i in range(n - 2)]
    edges = [(i, i + 1) for i in range(n - 1)] + across
    rim = ((0, 1), *across, (n - 2, n - 1))
    return Shape(name, 2, n, tuple(edges), tuple(Face(t, (), t) for t in tiles), facets=rim)


def _polygon(name: str, n: int) -> Shape:
    return _shape(name, _polygon_corners(n))


def _quadratic_polygon(name: str, n: int) -> Shape:
    if n % 2:
        raise InputError(f"Expected an even number of nodes in a {name} (got {n})")
    return _shape(name, _polygon_corners(n // 2), 1)


def _triangular(p: int) -> int:
    """Lattice points inside a triangle of order p."""
    return (p - 1) * (p - 2) // 2


def _lagrange(corners: _Corners) -> Callable[[str, int], Shape]:
    """The uniform order p whose node count is n: p - 1 nodes on an edge, and the lattice inside faces and cell."""

    def build(name: str, n: int) -> Shape:
        for p in range(1, n):
            in_face = [_triangular(p) if len(face) == 3 else (p - 1) ** 2 for face in corners.faces]
            tetrahedron, wedge, hexahedron = _triangular(p) * (p - 3) // 3, _triangular(p) * (p - 1), (p - 1) ** 3
            inside = {4: tetrahedron, 6: wedge, 8: hexahedron}[corners.size] if corners.dim == 3 else 0
            if corners.size + (p - 1) * len(corners.edges) + sum(in_face) + inside == n:
                return _shape(name, corners, p - 1, in_face, inside)
        raise InputError(f"Expected the node count of a uniform order in a {name} (got {n} nodes)")

    return build


_FIXED: dict[int, Shape] = {
    0: Shape("empty cell", 0, 0),
    1: Shape("vertex", 0, 1),
    3: _shape("line", _LINE),
    5: _shape("triangle", _TRIANGLE),
    8: _shape("pixel", _PIXEL),
    9: _shape("quad", _QUAD),
    10: _shape("tetrahedron", _TETRA),
    11: _shape("voxel", _VOXEL),
    12: _shape("hexahedron", _HEXAHEDRON),
    13: _shape("wedge", _WEDGE),
    14: _shape("pyramid", _PYRAMID),
    15: _shape("pentagonal prism", _prism(5)),
    16: _shape("hexagonal prism", _prism(6)),
    21: _shape("quadratic edge", _LINE, 1),
    22: _shape("quadratic triangle", _TRIANGLE, 1),
    23: _shape("quadratic quad", _QUAD, 1),
    24: _shape("quadratic tetrahedron", _TETRA, 1),
    25: _shape("quadratic hexahedron", _HEXAHEDRON, 1),
    26: _shape("quadratic wedge", _WEDGE, 1),
    27: _shape("quadratic pyramid", _PYRAMID, 1),
    28: _shape("biquadratic quad", _QUAD, 1, 1),
    29: _shape("triquadratic hexahedron", _HEXAHEDRON, 1, 1, 1),
    30: _shape("quadratic-linear quad", _QUAD, (1, 0, 1, 0)),
    31: _shape("quadratic-linear wedge", _WEDGE, (1, 1, 1, 1, 1, 1, 0, 0, 0)),
    32: _shape("biquadratic-quadratic wedge", _WEDGE, 1, (0, 0, 1, 1, 1)),
    33: _shape("biquadratic-quadratic hexahedron", _HEXAHEDRON, 1, (1, 1, 1, 1, 0, 0)),
    34: _shape("biquadratic triangle", _TRIANGLE, 1, 1),
    35: _shape("cubic line", _LINE, 2),
    37: _shape("triquadratic pyramid", _PYRAMID, 1, 1, 1),
}
POLYHEDRON = 42
# cells whose node count is part of the cell: name, dimension, fewest nodes, shape
_SIZED: dict[int, tuple[str, int, int, Callable[[str, int], Shape]]] = {
    2: ("poly-vertex", 0, 1, _vertices),
    4: ("polyline", 1, 2, _polyline),
    6: ("triangle strip", 2, 3, _strip),
    7: ("polygon", 2, 3, _polygon),
    36: ("quadratic polygon", 2, 6, _quadratic_polygon),
    68: ("Lagrange curve", 1, 2, _lagrange(_LINE)),
    69: ("Lagrange triangle", 2, 3, _lagrange(_TRIANGLE)),
    70: ("Lagrange quad", 2, 4, _lagrange(_QUAD)),
    71: ("Lagrange tetrahedron", 3, 4, _lagrange(_TETRA)),
    72: ("Lagrange hexahedron", 3, 8, _lagrange(_HEXAHEDRON)),
    73: ("Lagrange wedge", 3, 6, _lagrange(_WEDGE)),
    75: ("Bezier curve", 1, 2, _lagrange(_LINE)),
    76: ("Bezier triangle", 2, 3, _lagrange(_TRIANGLE)),
    77: ("Bezier quad", 2, 4, _lagrange(_QUAD)),
    78: ("Bezier tetrahedron", 3, 4, _lagrange(_TETRA)),
    79: ("Bezier hexahedron", 3, 8, _lagrange(_HEXAHEDRON)),
    80: ("Bezier wedge", 3, 6, _lagrange(_WEDGE)),
}


@lru_cache(maxsize=4096)
def cell_shape(code: int, size: int) -> Shape:
    """The shape of a cell from its VTK code and its number of nodes.

    Raises:
        InputError: the code has no fixed shape (polyhedra, convex point sets) or does not take that many nodes.

    >>> cell_shape(22, 6).edges
    ((0, 3, 1), (1, 4, 2), (2, 5, 0))
    """
    if code in _SIZED:
        name, _, fewest, build = _SIZED[code]
        if size < fewest:
            raise InputError(f"Expected at least {fewest} nodes in a {name} (got {size})")
        return build(name, size)
    if code not in _FIXED:
        raise InputError(f"Expected cells whose edges and faces are known (got VTK cell type {code})")
    if size != _FIXED[code].size:
        raise InputError(f"Expected {_FIXED[code].size} nodes in a {_FIXED[code].name} (got {size})")
    return _FIXED[code]


def cell_name(code: int) -> str:
    """VTK's name of a cell type in words.

    >>> cell_name(12), cell_name(42)
    ('hexahedron', 'polyhedron')
    """
    if code == POLYHEDRON:
        return "polyhedron"
    return _FIXED[code].name if code in _FIXED else _SIZED[code][0] if code in _SIZED else f"VTK cell type {code}"


def cell_dim(cell_type: Tensor) -> Tensor:
    """Topological dimension of each cell [C]: 0 vertices, 1 lines, 2 surfaces, 3 solids.

    Raises:
        InputError: a code is none of VTK's cells of known shape.

    >>> cell_dim(torch.tensor([1, 3, 9, 12, 42]))
    tensor([0, 1, 2, 3, 3])
    """
    known = {code: shape.dim for code, shape in _FIXED.items()} | {code: row[1] for code, row in _SIZED.items()}
    known[POLYHEDRON] = 3
    table = torch.tensor([known.get(code, -1) for code in range(max(known) + 1)], device=cell_type.device)
    inside = (cell_type >= 0) & (cell_type < table.numel())
    dim = table[cell_type.where(inside, 0)].where(inside, -1)
    if bool((dim < 0).any()):
        raise InputError(
            f"Expected VTK cell types of known shape (got {int(cell_type[dim < 0][0])}); convert such cells first"
        )
    return dim


def cells_by_shape(cell_type: Tensor, cell_size: Tensor, cell_index: Tensor) -> Iterator[tuple[Shape, Tensor, Tensor]]:
    """The cells of each shape together: the shape, the cells' numbers [G] and their nodes [G, n]; no polyhedra.

    Everything about cells is a loop over shapes, of which a mesh has a few, and never over cells.
    """
    if not cell_type.numel():
        return
    kind = (cell_type << 32) + cell_size
    values = sorted_unique(kind.unique_consecutive()).tolist()
    for value in values:
        code, size = divmod(value, 1 << 32)
        if code == POLYHEDRON:
            continue
        if len(values) == 1:  # nothing to pick out
            cells = torch.arange(len(kind), device=kind.device)
            nodes = cell_index.view(len(cells), size)
        else:
            cells = (kind == value).nonzero().squeeze(1)
            start = (cell_size.cumsum(0) - cell_size)[cells]
            nodes = cell_index[start[:, None] + torch.arange(size, device=kind.device)]
        yield cell_shape(code, size), cells, nodes


def in_blocks(nodes: Tensor, numbers: int) -> Iterator[tuple[slice, Tensor]]:
    """Nodes [G, n] of cells, so many numbers at a time: which cells, and their nodes [n, B].

    The memory for what is computed of a block is small and used again, and may stay in the cache of a core: on a large
    mesh that is faster than one pass over all cells. A GPU gets them all at once.
    """
    size = max(1, len(nodes) if nodes.is_cuda else numbers // max(1, nodes.size(1)))
    for first in range(0, len(nodes), size):
        block = slice(first, first + size)
        yield block, nodes[block].t().contiguous()


def next_around_face(polyhedra: Tensor) -> Tensor:
    """For each (cell, face, node) triple [3, S], the position [S] of the next triple around the same face."""
    face = polyhedra[1]
    last = torch.ones_like(face, dtype=torch.bool)
    last[:-1] = face[1:] != face[:-1]
    first = torch.ones_like(last)
    first[1:] = last[:-1]
    following = torch.arange(1, face.numel() + 1, device=face.device)
    following[last] = first.nonzero().squeeze(1)
    return following


def cell_edges(
    cell_type: Tensor,
    cell_size: Tensor,
    cell_index: Tensor,
    polyhedra: Tensor | None = None,
    corners_only: bool = False,
) -> Tensor:
    r"""The graph of a mesh: node pairs that an edge of some cell joins, undirected and coalesced.

    An edge is a real edge of the cell: a quad has four, no diagonal; a hexahedron twelve. Along an edge of a quadratic
    cell consecutive nodes are joined, corner - middle - corner. A node inside a face is joined to the mid-edge nodes of
    that face; a node inside a solid to the nodes inside its faces or, without such, to all its mid-edge nodes (for
    quadratic cells these are the neighbours in the reference lattice).

    Args:
        cell_type: VTK code of each cell [C].
        cell_size: number of nodes of each cell [C].
        cell_index: node numbers of the cells one after another [K].
        polyhedra: (cell, face, node) triples of the polyhedral cells [3, S].
        corners_only: join corners directly and leave all other nodes alone.

    Returns:
        Node pairs [2, E], each in both directions, sorted by first and then second node, without loops.

    Raises:
        InputError: a cell has no known edges or the wrong number of nodes.

    >>> cell_edges(torch.tensor([9]), torch.tensor([4]), torch.tensor([0, 1, 2, 3]))
    tensor([[0, 0, 1, 1, 2, 2, 3, 3],
            [1, 3, 0, 2, 1, 3, 0, 2]])
    """
    num_nodes = int(cell_index.max()) + 1 if cell_index.numel() else 0
    keys = [torch.empty(0, dtype=torch.long, device=cell_index.device)]
    for shape, _, nodes in cells_by_shape(cell_type, cell_size, cell_index):
        if links := shape.links(corners_only):
            blocks = (part for _, part in in_blocks(nodes, 1 << 17))  # most edges are those of several cells of a block
            keys += side_by_side(partial(edge_keys, links=links, count=num_nodes), blocks)
    if polyhedra is not None and polyhedra.numel():
        node = polyhedra[2]
        keys.append(pair_key(node, node[next_around_face(polyhedra)], num_nodes))
    return graph_of(torch.cat(keys), num_nodes)


def facet_pairs(cell_type: Tensor, cell_size: Tensor, cell_index: Tensor, polyhedra: Tensor | None = None) -> Tensor:
    """The dual graph of a mesh: pairs of cells that share a facet, undirected and coalesced [2, E].

    A facet is a face of a solid, an edge of a surface cell, an end of a line; two cells share it when it has the same
    corners in both, whatever their order, so that a linear and a quadratic cell side by side are neighbours. Cells of
    different dimension are not.

    >>> facet_pairs(torch.tensor([5, 9]), torch.tensor([3, 4]), torch.tensor([0, 1, 2, 1, 3, 4, 2]))
    tensor([[0, 1],
            [1, 0]])
    """
    owners: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = {}  # (dimension, corners) -> (cells, nodes)
    for dim, cells, nodes in _facets(cell_type, cell_size, cell_index, polyhedra):
        owners.setdefault((dim, nodes.size(1)), []).append((cells, nodes))
    num_cells = cell_type.numel()
    keys = [torch.empty(0, dtype=torch.long, device=cell_index.device)]
    for groups in owners.values():
        cell = torch.cat([c for c, _ in groups])
        number, order = row_numbers(torch.cat([n for _, n in groups]).sort(dim=1).values).sort(stable=True)
        cell = cell[order]
        step, shared = 1, number[1:] == number[:-1]
        while bool(shared.any()):  # once for a manifold mesh, as often as cells meet at one facet otherwise
            keys.append(pair_key(cell[:-step][shared], cell[step:][shared], num_cells))
            step += 1
            shared = number[step:] == number[:-step]
    return graph_of(torch.cat(keys), num_cells)


def cells_at(mesh: tuple[Tensor, ...], sides: tuple[Tensor, ...]) -> Tensor:
    """Which cells [C] of a mesh have one of the sides, on the same nodes, as a facet, or are one themselves.

    Both are given by types, sizes and node numbers of their cells, the mesh by its polyhedra too. Corners are compared,
    whatever their order.

    >>> square = torch.tensor([9, 5]), torch.tensor([4, 3]), torch.tensor([0, 1, 2, 3, 1, 4, 2])
    >>> cells_at(square, (torch.tensor([3]), torch.tensor([2]), torch.tensor([4, 1])))
    tensor([False,  True])
    """
    out = torch.zeros(mesh[0].numel(), dtype=torch.bool)
    own = [(cells, nodes) for _, cells, nodes in _facets(*mesh)]
    own += [
        (cells, nodes[:, corners]) for shape, cells, nodes in cells_by_shape(*mesh[:3]) for corners in _whole(shape)
    ]
    wanted = [nodes[:, corners] for shape, _, nodes in cells_by_shape(*sides) for corners in _whole(shape)]
    for size in {nodes.size(1) for nodes in wanted}:
        one = torch.cat([nodes for nodes in wanted if nodes.size(1) == size])
        groups = [(cells, nodes) for cells, nodes in own if nodes.size(1) == size]
        if groups:
            rows = torch.cat([one, *(nodes for _, nodes in groups)]).sort(dim=1).values
            number = row_numbers(rows)
            out[torch.cat([cells for cells, _ in groups])[torch.isin(number[len(one) :], number[: len(one)])]] = True
    return out


def _whole(shape: Shape) -> list[tuple[int, ...]]:
    """Corners of each part of a vertex, a line or a surface."""
    if shape.dim == 2:
        return [face.corners for face in shape.faces]
    return [(edge[0], edge[-1]) for edge in shape.edges] if shape.dim == 1 else [(0,)] * (shape.dim == 0)


def _facets(
    cell_type: Tensor, cell_size: Tensor, cell_index: Tensor, polyhedra: Tensor | None = None
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Dimension of cells, their numbers [G] and the corners [G, n] of a facet of each."""
    for shape, cells, nodes in cells_by_shape(cell_type, cell_size, cell_index):
        for facet in shape.facets:
            yield shape.dim, cells, nodes[:, facet]
    for cells, nodes in polyhedron_faces(polyhedra):
        yield 3, cells, nodes


def faces_of(polyhedra: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cell [F] and number of nodes [F] of each face, and the nodes [S] one face after another."""
    _, size = polyhedra[1].unique_consecutive(return_counts=True)
    return polyhedra[0][size.cumsum(0) - size], size, polyhedra[2]


def polyhedron_faces(polyhedra: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
    """The faces of polyhedral cells, those with as many nodes together: cell of each face [F], its nodes [F, n]."""
    if polyhedra is None or not polyhedra.numel():
        return
    cell, size, nodes = faces_of(polyhedra)
    start = size.cumsum(0) - size
    for n in size.unique().tolist():
        alike = size == n
        yield cell[alike], nodes[start[alike, None] + torch.arange(n, device=size.device)]
