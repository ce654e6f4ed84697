"""Length, area and volume of cells, and how their nodes share it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from meshop.geometry.cells import POLYHEDRON, Shape, cell_dim, cells_by_shape, in_blocks, next_around_face
from meshop.geometry.pairs import row_numbers


def cell_measure(
    points: Tensor, cell_type: Tensor, cell_size: Tensor, cell_index: Tensor, polyhedra: Tensor | None = None
) -> Tensor:
    r"""Length, area or volume of each cell, by its own dimension.

    Every cell is cut into simplices that meet in its centre: a face around its inner node (or the mean of the nodes
    around it), a solid around its inner node (or the mean of its nodes). Hence

    - a planar polygon has its exact area, concave or not (triangles turned against the polygon's normal count
      negative); a quad that is not planar has the area of four triangles around its mean;
    - a solid has the volume enclosed by its faces, :math:`\frac13 \oint x \cdot n`, which for a hexahedron is exactly
      that of the trilinear map; neighbours cut a common face alike, so that volumes add up without gap or overlap;
    - edges of quadratic and higher cells count as straight between their nodes, which is exact for straight-sided cells
      and of second order in the node spacing for curved ones (Bezier cells: between their control points);
    - vertices count their nodes.

    The faces of a polyhedron must be oriented alike, as VTK asks; where they are not, the cell is taken to be
    star-shaped around the mean of its nodes.

    Args:
        points: coordinates [P, D] in any unit, D at most 3.
        cell_type: VTK code of each cell [C].
        cell_size: number of nodes of each cell [C].
        cell_index: node numbers of the cells one after another [K].
        polyhedra: (cell, face, node) triples of the polyhedral cells [3, S].

    Returns:
        Non-negative measures [C] in the unit of the points to the power of the cell's dimension.

    Raises:
        InputError: a cell has no known faces or the wrong number of nodes.

    >>> pos = torch.tensor([[0.0, 0], [2, 0], [2, 1], [0, 1]])
    >>> cell_measure(pos, torch.tensor([9]), torch.tensor([4]), torch.tensor([0, 1, 2, 3]))
    tensor([2.])
    """
    measure = points.new_zeros(cell_type.numel())
    for cells, _, share in cell_shares(points, cell_type, cell_size, cell_index, polyhedra):
        measure.index_add_(0, cells, share)
    return measure


def node_measure(
    points: Tensor,
    cell_type: Tensor,
    cell_size: Tensor,
    cell_index: Tensor,
    polyhedra: Tensor | None = None,
    batch: Tensor | None = None,
) -> Tensor:
    r"""Lumped measure of each node: what the cells around it give it.

    Each simplex of :func:`cell_measure` gives equal parts to its corners, and a centre passes its part on in equal
    parts to the nodes whose mean it is. So the measures of the nodes sum to the measures of the cells, and

    .. math:: \sum_i m_i f(x_i) = \int f \quad\text{for linear } f,

    which for triangles and tetrahedra is the row sum of the mass matrix. Cells that are not star-shaped around their
    centre share equally instead, so that no measure is negative.

    Only cells of the highest dimension of each mesh count: the lines and vertices that ride along in a file of
    triangles contribute nothing. A node of no such cell has measure 0; without any cells every node has measure 1.

    Args:
        points: coordinates [P, D], D at most 3.
        cell_type: VTK code of each cell [C].
        cell_size: number of nodes of each cell [C].
        cell_index: node numbers of the cells one after another [K].
        polyhedra: (cell, face, node) triples of the polyhedral cells [3, S].
        batch: mesh of each node [P], when the cells are those of several meshes.

    Returns:
        Measures [P] in the unit of the points to the power of the highest dimension.

    Raises:
        InputError: a cell has no known faces or the wrong number of nodes.

    >>> pos = torch.tensor([[0.0, 0], [1, 0], [1, 1], [0, 1]])
    >>> node_measure(pos, torch.tensor([5, 5, 3]), torch.tensor([3, 3, 2]), torch.tensor([0, 1, 2, 0, 2, 3, 0, 1]))
    tensor([0.3333, 0.1667, 0.3333, 0.1667])
    """
    mesh = points.new_zeros(points.size(0), dtype=torch.long) if batch is None else batch
    dim = cell_dim(cell_type)
    if batch is None and cell_size.numel() and bool((cell_size > 0).all()) and bool((dim == dim[0]).all()):
        counts, empty = None, None  # all cells of the one mesh count
    else:
        num_meshes = int(mesh.max()) + 1 if mesh.numel() else 0
        filled = cell_size > 0
        dim = dim.where(filled, -1)
        mesh_of_cell = mesh.new_zeros(dim.numel())
        mesh_of_cell[filled] = mesh[cell_index[(cell_size.cumsum(0) - cell_size)[filled]]]
        highest = mesh.new_full((num_meshes,), -1).scatter_reduce(0, mesh_of_cell, dim, "amax")
        counts, empty = dim == highest[mesh_of_cell], highest[mesh] < 0
    measure = points.new_zeros(points.size(0))
    for cells, nodes, share in cell_shares(points, cell_type, cell_size, cell_index, polyhedra):
        measure.index_add_(0, nodes, share if counts is None else share * counts[cells])
    return measure if empty is None else measure.masked_fill(empty, 1.0)


def cell_centroid(
    points: Tensor, cell_type: Tensor, cell_size: Tensor, cell_index: Tensor, polyhedra: Tensor | None = None
) -> Tensor:
    """Centre of mass of each cell [C, D]; the mean of the nodes where the cell has no measure.

    Args and cuts are those of :func:`cell_measure`.

    >>> pos = torch.tensor([[0.0, 0], [3, 0], [0, 3]])
    >>> cell_centroid(pos, torch.tensor([5]), torch.tensor([3]), torch.tensor([0, 1, 2]))
    tensor([[1., 1.]])
    """
    owner = torch.arange(cell_type.numel(), device=points.device).repeat_interleave(cell_size)
    mean = points.new_zeros(cell_type.numel(), points.size(1)).index_add_(0, owner, points[cell_index])
    mean = mean / cell_size.clamp_min(1).unsqueeze(1)
    moment, measure = torch.zeros_like(mean), points.new_zeros(cell_type.numel())
    for cells, nodes, share in cell_shares(points, cell_type, cell_size, cell_index, polyhedra):
        moment.index_add_(0, cells, share.unsqueeze(1) * (points[nodes] - mean[cells]))
        measure.index_add_(0, cells, share)
    return mean + moment / measure.clamp_min(torch.finfo(measure.dtype).tiny).unsqueeze(1)


def cell_shares(
    points: Tensor, cell_type: Tensor, cell_size: Tensor, cell_index: Tensor, polyhedra: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """How the nodes of each cell share its measure, as (cell, node, share) triples [L], block by block.

    The definition stands in :func:`cell_measure` (the sum over a cell) and :func:`node_measure` (over a node).
    """
    x = torch.nn.functional.pad(points, (0, 3 - points.size(1))).t().contiguous()  # [3, P]; cells come last, for speed
    for shape, cells, nodes in cells_by_shape(cell_type, cell_size, cell_index):
        if nodes.numel():
            for block, part in in_blocks(nodes, 1 << 18):
                yield cells[block].repeat(shape.size), part.flatten(), _shape_shares(x[:, part], shape).flatten()
    if polyhedra is not None and polyhedra.numel():
        yield _polyhedron_shares(x, cell_type, cell_size, cell_index, polyhedra)


def _shape_shares(x: Tensor, shape: Shape) -> Tensor:
    """Shares [n, G] of the nodes x [3, n, G] of G cells of one shape."""
    share = x.new_zeros(x.shape[1:])
    if shape.dim == 0:
        return share + 1
    if shape.size == shape.dim + 1:
        return (_simplex(x[:, 1:] - x[:, :1]).abs() / shape.size).expand_as(share)
    if shape.dim == 1:
        for i, j in shape.links():
            half = (x[:, j] - x[:, i]).norm(dim=0) / 2
            share[i] += half
            share[j] += half
        return share
    centre = list(shape.inner or range(shape.size))
    apex = x[:, centre].mean(1, keepdim=True) if shape.dim == 3 else None
    total, low, high = x.new_zeros(3, x.size(2))
    for face in shape.faces:
        loop, inner = list(face.loop), list(face.inner or face.loop)
        piece = _fan(x[:, loop], x[:, inner].mean(1, keepdim=True), apex)  # [k, G]
        share[loop] += piece + piece.roll(1, 0)
        share[inner] += piece.sum(0) / len(inner)
        total += piece.sum(0)
        low, high = torch.minimum(low, piece.amin(0)), torch.maximum(high, piece.amax(0))
    if shape.dim == 3:
        share[centre] += total / len(centre)
    share = torch.where(_same_sign(low, high), share / (shape.dim + 1), total / shape.size)
    return share * total.sign()


def _polyhedron_shares(
    x: Tensor, cell_type: Tensor, cell_size: Tensor, cell_index: Tensor, polyhedra: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same for polyhedra, whose faces are a stream: no two need be alike. Points are x [3, P]."""
    num_cells = cell_type.numel()
    owner = torch.arange(num_cells, device=x.device).repeat_interleave(cell_size)
    owner, member = (v[cell_type[owner] == POLYHEDRON] for v in (owner, cell_index))  # [M], [M]
    count = cell_size.clamp_min(1).to(x.dtype)
    apex = x.new_zeros(3, num_cells).index_add_(1, owner, x[:, member]) / count
    cell, face, node = polyhedra
    following = next_around_face(polyhedra)
    _, face, around = face.unique_consecutive(return_inverse=True, return_counts=True)  # [S], [F]
    centre = x.new_zeros(3, around.numel()).index_add_(1, face, x[:, node]) / around
    fan = torch.stack([x[:, node], x[:, node[following]], centre[:, face]], dim=1)
    piece = _simplex(fan - apex[:, cell].unsqueeze(1))  # [S]
    # faces oriented alike run along each edge once in either direction
    run = row_numbers(torch.stack([cell, node, node[following]], dim=1))
    twice = torch.zeros_like(count, dtype=torch.bool)
    twice[cell[run.bincount()[run] > 1]] = True
    piece = torch.where(twice[cell], piece.abs(), piece)
    total, low, high = (torch.zeros_like(count).scatter_reduce(0, cell, piece, r) for r in ("sum", "amin", "amax"))
    star = _same_sign(low, high)
    piece = piece * (total.sign() * star)[cell] / 4
    on_face = x.new_zeros(around.numel()).index_add_(0, face, piece) / around
    on_cell = total.abs() * torch.where(star, 0.25, 1.0) / count
    cells = torch.cat([cell, cell, owner])
    nodes = torch.cat([node, node[following], member])
    return cells, nodes, torch.cat([piece + on_face[face], piece, on_cell[owner]])


def _fan(ring: Tensor, centre: Tensor, apex: Tensor | None) -> Tensor:
    """Signed measures [k, G] of the triangles (with an apex: tetrahedra) between a ring [3, k, G] and its centre."""
    spoke = ring - (centre if apex is None else apex)
    normal = torch.linalg.cross(spoke, spoke.roll(-1, 1), dim=0)
    if apex is not None:
        return (normal * (centre - apex)).sum(0) / 6
    return normal.norm(dim=0) / 2 * (normal * normal.sum(1, keepdim=True)).sum(0).sign()


def _simplex(edges: Tensor) -> Tensor:
    """Measures [G] of the simplices spanned by d edge vectors [3, d, G]; a volume has a sign."""
    d = edges.size(1)
    if d == 1:
        return edges[:, 0].norm(dim=0)
    normal = torch.linalg.cross(edges[:, 0], edges[:, 1], dim=0)
    return normal.norm(dim=0) / 2 if d == 2 else (normal * edges[:, 2]).sum(0) / 6


def _same_sign(low: Tensor, high: Tensor) -> Tensor:
    """Whether values between low <= 0 and high >= 0 have one sign up to rounding."""
    return torch.minimum(-low, high) <= torch.finfo(low.dtype).eps ** 0.5 * torch.maximum(-low, high)
