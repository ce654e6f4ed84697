"""What may be wrong with a mesh: points without cells or in one place, cells without measure or inside out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from meshop.data import in_plane_axes
from meshop.geometry.cells import POLYHEDRON, Shape, cells_by_shape
from meshop.geometry.measure import cell_measure

BLOCK = 2**17  # cells that are looked at together


def orphan_points(num_points: int, cell_index: Tensor) -> Tensor:
    """Which points [P] are a node of no cell.

    >>> orphan_points(4, torch.tensor([0, 1, 3]))
    tensor([False, False,  True, False])
    """
    orphan = torch.ones(num_points, dtype=torch.bool, device=cell_index.device)
    orphan[cell_index] = False
    return orphan


def duplicate_points(points: Tensor) -> Tensor:
    """Which points [P] have exactly the coordinates [P, D] of one before them.

    >>> duplicate_points(torch.tensor([[0.0, 1], [2, 1], [-0.0, 1]]))
    tensor([False, False,  True])
    """
    x = points.detach().cpu().numpy()
    order = np.lexsort(x.T)  # stable: of those in one place the first comes first
    again = np.zeros(len(x), dtype=bool)
    again[order[1:]] = (x[order[1:]] == x[order[:-1]]).all(axis=1)
    return torch.from_numpy(again).to(points.device)


def connected_parts(num_points: int, cell_size: Tensor, cell_index: Tensor) -> Tensor:
    """The part [C] of the mesh in which each cell is, from 0 on: cells that share a node are in one part.

    A cell without nodes is in none, which is -1. Cost: O(P + K) time and memory, by scipy.

    >>> connected_parts(5, torch.tensor([2, 2, 2]), torch.tensor([0, 1, 3, 4, 1, 2]))
    tensor([0, 1, 0])
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    part = torch.full_like(cell_size, -1)
    filled = cell_size > 0
    if not bool(filled.any()):
        return part
    first = cell_index[(cell_size.cumsum(0) - cell_size)[filled]]
    size = cell_size[filled].cpu().numpy()
    rows = np.repeat(first.cpu().numpy().astype(np.int32), size)
    columns = cell_index.cpu().numpy().astype(np.int32)
    links = coo_array((np.ones(len(rows), np.int8), (rows, columns)), shape=(num_points, num_points))
    _, label = connected_components(links, directed=False)
    part[filled] = torch.from_numpy(label).long().to(part.device)[first].unique(return_inverse=True)[1]
    return part


def cell_faults(
    points: Tensor, cell_type: Tensor, cell_size: Tensor, cell_index: Tensor, polyhedra: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""Which cells are degenerate and which are inverted.

    A cell is degenerate when a node is in it twice, or when its measure is at most :math:`\varepsilon L^d` with the
    diagonal L of its box, its dimension d and :math:`\varepsilon = 10^{-9}`, or :math:`1.2 \cdot 10^{-7}` where the
    points are in single precision. A cell that is not degenerate is inverted when

    - it is a solid and its signed volume :math:`\frac13 \oint x \cdot n` is negative, with the faces in VTK's order;
    - it is a wedge and runs otherwise than most wedges, because its nodes are numbered both ways in files;
    - it is a face of a mesh in a coordinate plane, and its nodes run round it otherwise than those of most faces.

    Quadratic and higher cells are judged by their corners. Vertices are neither, nor are polylines that end where they
    begin; polyhedra, whose faces may look in or out, are not inverted.

    Cost: O(P + K) time; O(P + C) memory, as cells are looked at in blocks.

    Args:
        points: coordinates [P, D] in any unit, D at most 3.
        cell_type: VTK code of each cell [C].
        cell_size: number of nodes of each cell [C].
        cell_index: node numbers of the cells one after another [K].
        polyhedra: (cell, face, node) triples of the polyhedral cells [3, S].

    Returns:
        Masks [C] of the degenerate and of the inverted cells.

    Raises:
        InputError: a cell has no known faces or the wrong number of nodes.

    >>> pos = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    >>> tets = torch.tensor([10, 10, 10]), torch.tensor([4, 4, 4]), torch.tensor([0, 1, 2, 3, 0, 2, 1, 3, 0, 1, 2, 2])
    >>> cell_faults(pos, *tets)
    (tensor([False, False,  True]), tensor([False,  True, False]))
    """
    slack = max(1e-9, torch.finfo(points.dtype).eps)
    x = torch.nn.functional.pad(points.double(), (0, 3 - points.size(1))).t().contiguous()  # [3, P]
    axes = in_plane_axes(x.t())
    normal = None if axes is None else 3 - sum(axes)
    degenerate = torch.zeros_like(cell_type, dtype=torch.bool)
    way = {kind: torch.zeros_like(cell_type, dtype=torch.int8) for kind in ("solid", "wedge", "face")}
    for shape, cells, nodes in _in_blocks(cell_type, cell_size, cell_index):
        if shape.dim == 0:
            continue
        own = x[:, nodes.t()] - x[:, nodes[:, :1].t()]  # [3, n, G]
        measure, signed = _by_corners(own, shape, normal)
        own = own[:, sorted({end for edge in shape.edges for end in (edge[0], edge[-1])})]
        flat = measure <= slack * (own.amax(1) - own.amin(1)).norm(dim=0) ** shape.dim
        if shape.dim > 1:
            ordered = nodes.sort(dim=1).values
            flat |= (ordered[:, 1:] == ordered[:, :-1]).any(1)
        degenerate[cells] = flat
        kind = "face" if shape.dim < 3 else "wedge" if "wedge" in shape.name.lower() else "solid"
        way[kind][cells] = signed.sign().to(torch.int8) * ~flat
    if polyhedra is not None and polyhedra.numel():
        cells, flat = _flat_polyhedra(x, cell_type, cell_size, cell_index, polyhedra, slack)
        degenerate[cells] = flat
    return degenerate, (way["solid"] < 0) | _against_most(way["wedge"]) | _against_most(way["face"])


def _in_blocks(cell_type: Tensor, cell_size: Tensor, cell_index: Tensor) -> Iterator[tuple[Shape, Tensor, Tensor]]:
    """:func:`cells_by_shape`, block by block."""
    end = cell_size.cumsum(0)
    for begin in range(0, cell_type.numel(), BLOCK):
        own = slice(begin, begin + BLOCK)
        first = int(end[begin] - cell_size[begin])
        for shape, cells, nodes in cells_by_shape(
            cell_type[own], cell_size[own], cell_index[first : int(end[own][-1])]
        ):
            yield shape, cells + begin, nodes


def _by_corners(x: Tensor, shape: Shape, normal: int | None) -> tuple[Tensor, Tensor]:
    """Measure and signed measure [G] of cells of one shape by their corners; their nodes are x [3, n, G]."""
    if shape.dim == 1:
        length = torch.stack([(x[:, edge[-1]] - x[:, edge[0]]).norm(dim=0) for edge in shape.edges]).sum(0)
        return length, torch.zeros_like(length)
    if shape.dim == 2:
        areas = torch.stack([_area_vector(x, face.corners) for face in shape.faces])
        return areas.norm(dim=1).sum(0), areas.new_zeros(x.size(2)) if normal is None else areas[:, normal].sum(0)
    centre = x[:, sorted({corner for facet in shape.facets for corner in facet})].mean(1)
    volume = torch.zeros_like(centre[0])
    for facet in shape.facets:
        volume += (_area_vector(x, facet) * (x[:, facet].mean(1) - centre)).sum(0) / 3
    return volume.abs(), volume


def _area_vector(x: Tensor, ring: tuple[int, ...]) -> Tensor:
    """Area vectors [3, G] of rings of nodes of x [3, n, G]."""
    spoke = x[:, ring[1:]] - x[:, ring[:1]]
    return torch.linalg.cross(spoke[:, :-1], spoke[:, 1:], dim=0).sum(1) / 2


def _flat_polyhedra(
    x: Tensor, cell_type: Tensor, cell_size: Tensor, cell_index: Tensor, polyhedra: Tensor, slack: float
) -> tuple[Tensor, Tensor]:
    """Numbers [G] of the polyhedra, and which of them have no volume."""
    many = cell_type == POLYHEDRON
    cells = many.nonzero().squeeze(1)
    size, index = cell_size[cells], cell_index[many.repeat_interleave(cell_size)]
    faces = torch.stack([(many.cumsum(0) - 1)[polyhedra[0]], *polyhedra[1:]])
    owner = torch.arange(cells.numel(), device=x.device).repeat_interleave(size).expand(3, -1)
    low, high = (x.new_zeros(3, cells.numel()).scatter_reduce(1, owner, x[:, index], r, include_self=False)
                 for r in ("amin", "amax"))  # fmt: skip
    return cells, cell_measure(x.t(), cell_type[cells], size, index, faces) <= slack * (high - low).norm(dim=0) ** 3


def _against_most(way: Tensor) -> Tensor:
    """Where a sign [C] is the rarer one; the negative one of as many."""
    return way == (-1 if int((way < 0).sum()) <= int((way > 0).sum()) else 1)
