"""Moving values between the points and the cells of a mesh."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from meshop.geometry.cells import cell_dim
from meshop.geometry.measure import cell_shares


def points_to_cells(
    values: Tensor,
    points: Tensor,
    cell_type: Tensor,
    cell_size: Tensor,
    cell_index: Tensor,
    polyhedra: Tensor | None = None,
) -> Tensor:
    r"""Mean of a field over each cell, :math:`\sum_i s_{ci} f_i / \sum_i s_{ci}` with the shares s of its nodes.

    Of a linear function it is the value at the centroid (:func:`cell_centroid`). A cell without measure gets the plain
    mean of its nodes, one without nodes NaN. Constants come out exactly.

    Args:
        values: floats [P] or [P, F].
        points: coordinates [P, D], D at most 3.
        cell_type: VTK code of each cell [C].
        cell_size: number of nodes of each cell [C].
        cell_index: node numbers of the cells one after another [K].
        polyhedra: (cell, face, node) triples of the polyhedral cells [3, S].

    Returns:
        Values [C] or [C, F].

    Raises:
        InputError: a cell has no known faces or the wrong number of nodes.

    >>> pos = torch.tensor([[0.0, 0], [1, 0], [1, 1], [0, 1]])
    >>> points_to_cells(pos, pos, torch.tensor([9]), torch.tensor([4]), torch.tensor([0, 1, 2, 3]))
    tensor([[0.5000, 0.5000]])
    """
    owner = torch.arange(cell_type.numel(), device=points.device).repeat_interleave(cell_size)
    cell, node, share = _all_shares(points, cell_type, cell_size, cell_index, polyhedra)
    empty = torch.zeros_like(cell_type, dtype=share.dtype).index_add_(0, cell, share)[owner] <= 0
    cell, node = torch.cat([cell, owner[empty]]), torch.cat([node, cell_index[empty]])
    share = torch.cat([share, share.new_ones(int(empty.sum()))])
    return _mean(values, node, cell, share, cell_type.numel())


def cells_to_points(
    values: Tensor,
    points: Tensor,
    cell_type: Tensor,
    cell_size: Tensor,
    cell_index: Tensor,
    polyhedra: Tensor | None = None,
) -> Tensor:
    r"""Mean of a field around each node, :math:`\sum_c s_{ci} f_c / \sum_c s_{ci}` with its shares s of its cells.

    It keeps the integral: :math:`\sum_i m_i f_i = \sum_c |c| f_c` with the measures of :func:`node_measure`. Only cells
    of the highest dimension count; a node of no such cell gets NaN. Constants come out exactly.

    Args:
        values: floats [C] or [C, F].
        points: coordinates [P, D], D at most 3.
        cell_type: VTK code of each cell [C].
        cell_size: number of nodes of each cell [C].
        cell_index: node numbers of the cells one after another [K].
        polyhedra: (cell, face, node) triples of the polyhedral cells [3, S].

    Returns:
        Values [P] or [P, F].

    Raises:
        InputError: a cell has no known faces or the wrong number of nodes.

    >>> pos = torch.tensor([[0.0], [1], [3]])
    >>> lines = torch.tensor([3, 3]), torch.tensor([2, 2]), torch.tensor([0, 1, 1, 2])
    >>> cells_to_points(torch.tensor([0.0, 3.0]), pos, *lines)
    tensor([0., 2., 3.])
    """
    dim = cell_dim(cell_type).where(cell_size > 0, -1)
    cell, node, share = _all_shares(points, cell_type, cell_size, cell_index, polyhedra)
    counts = dim[cell] == dim.max() if dim.numel() else cell > 0
    return _mean(values, cell[counts], node[counts], share[counts], points.size(0))


def _all_shares(points: Tensor, *cells: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    none = torch.empty(0, dtype=torch.long, device=points.device)
    triples = [*cell_shares(points, *cells), (none, none, points.new_empty(0))]  # type: ignore[arg-type]
    cell, node, share = (torch.cat(column) for column in zip(*triples, strict=True))
    return cell, node, share


def _mean(values: Tensor, source: Tensor, target: Tensor, weight: Tensor, count: int) -> Tensor:
    """Weighted mean of the sources of each target, NaN without any."""
    flat = values.reshape(values.size(0), math.prod(values.shape[1:]))
    total = weight.new_zeros(count).index_add_(0, target, weight)
    # means of differences to one of the sources, so that equal values give just this value
    base = flat.new_full((count, flat.size(1)), torch.nan)
    base[target] = flat[source]
    weight = (weight / total[target]).to(flat.dtype).unsqueeze(1)
    step = torch.zeros_like(base).index_add_(0, target, weight * (flat[source] - base[target]))
    return (base + step).reshape(count, *values.shape[1:])
