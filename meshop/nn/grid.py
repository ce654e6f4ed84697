"""Nodes that form grids: the row-major layout that layers with a ``shape`` argument share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from meshop.data import InputError


def rows_to_grid(
    x: Tensor, dim: int, batch: Tensor | None, batch_size: int | None, shape: Sequence[int] | None
) -> tuple[Tensor, Tensor | None]:
    """View nodes [B * n1 * ... * nd, C] as grids [B, C, n1, ..., nd]; also return the order that sorts them by graph.

    Raises:
        InputError: there is no shape, it has not ``dim`` axes, or the nodes of a graph do not fill it.

    >>> grid, order = rows_to_grid(torch.arange(6.0)[:, None], 2, None, None, (2, 3))
    >>> grid.tolist(), order
    ([[[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]]], None)
    """
    if shape is None or len(shape) != dim:
        raise InputError(f"Expected the shape of a {dim}-D grid (got {shape}); set data.shape = (n1, ...)")
    cells = math.prod(shape)
    graphs = 1 if batch is None else x.size(0) // max(cells, 1) if batch_size is None else batch_size
    order = None if batch is None else batch.argsort(stable=True)
    if x.size(0) != graphs * cells or not _equal_sizes(batch, order, cells):
        raise InputError(f"Expected graphs of {cells} nodes each for the grid {tuple(shape)} (got {x.size(0)} nodes)")
    rows = x if order is None else x[order]
    return rows.view(graphs, *shape, x.size(1)).movedim(-1, 1), order


def grid_to_rows(grid: Tensor, order: Tensor | None) -> Tensor:
    """Inverse of :func:`rows_to_grid`: grids [B, C, n1, ..., nd] to nodes [B * n1 * ... * nd, C] in their own order."""
    rows = grid.movedim(1, -1).flatten(0, -2)
    return rows if order is None else torch.empty_like(rows).index_copy(0, order, rows)


def _equal_sizes(batch: Tensor | None, order: Tensor | None, cells: int) -> bool:
    if batch is None or order is None or torch.compiler.is_compiling():
        return True
    return bool((batch[order] == torch.arange(batch.size(0), device=batch.device) // cells).all())
