"""Errors of each graph of a batch, as integrals over the mesh where a measure is given."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import scatter


def rmse(
    pred: Tensor,
    target: Tensor,
    batch: Tensor | None = None,
    measure: Tensor | None = None,
    batch_size: int | None = None,
) -> Tensor:
    r"""Root mean square error of each graph, in the unit of the field.

    .. math::
        \Bigl( \sum_n \mu_n \lVert p_n - y_n \rVert^2 \Big/ \sum_n \mu_n \Bigr)^{1/2}

    Args:
        pred: [N, C]
        target: [N, C]
        batch: graph of each node [N]; one graph if absent.
        measure: weights [N]; 1 if absent.
        batch_size: number of graphs B.

    Returns:
        [B], float32 at least; 0 for an empty graph.

    >>> rmse(torch.tensor([[3.0], [4.0]]), torch.zeros(2, 1), batch=torch.tensor([0, 1]))
    tensor([3., 4.])
    """
    return _norm(pred - target, *_share(target, batch, measure, batch_size))


def relative_l2(
    pred: Tensor,
    target: Tensor,
    batch: Tensor | None = None,
    measure: Tensor | None = None,
    batch_size: int | None = None,
) -> Tensor:
    r"""Relative L2 error of each graph over all its nodes and channels.

    .. math::
        \Bigl( \sum_n \mu_n \lVert p_n - y_n \rVert^2 \Big/ \sum_n \mu_n \lVert y_n \rVert^2 \Bigr)^{1/2}

    Where the target is zero everywhere it is :func:`rmse` instead, in the unit of the field: finite, and zero only for
    the right answer.

    Args:
        pred: [N, C]
        target: [N, C]
        batch: graph of each node [N]; one graph if absent.
        measure: weights [N]; 1 if absent.
        batch_size: number of graphs B.

    Returns:
        [B], float32 at least; 0 for an empty graph.

    >>> relative_l2(torch.tensor([[3.0], [0.0]]), torch.tensor([[2.0], [0.0]]))
    tensor([0.5000])
    """
    where = _share(target, batch, measure, batch_size)
    size = _norm(target, *where)
    return _norm(pred - target, *where) / torch.where(size > 0, size, 1)


def _share(
    x: Tensor, batch: Tensor | None, measure: Tensor | None, batch_size: int | None
) -> tuple[Tensor, Tensor, int | None]:
    """Graph and share in its graph's measure of each node: [N], [N], and the number of graphs."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    if batch is None:
        batch, batch_size = torch.zeros(x.size(0), dtype=torch.long, device=x.device), 1
    weight = x.new_ones(x.size(0), dtype=dtype) if measure is None else measure.to(dtype)
    total = scatter(weight, batch.long(), dim_size=batch_size).clamp_min(torch.finfo(dtype).tiny)
    return batch.long(), weight / total[batch.long()], batch_size


def _norm(x: Tensor, batch: Tensor, share: Tensor, batch_size: int | None) -> Tensor:
    """Root mean square of each graph; its gradient is zero, not NaN, where x is zero. Neither over- nor underflows."""
    x = x.to(share.dtype).reshape(x.size(0), -1)
    size = scatter(x.detach().abs().amax(1), batch, dim_size=batch_size, reduce="max")  # [B]
    size = torch.where(size > 0, size, 1)
    square = scatter(share * (x / size[batch, None]).square().sum(1), batch, dim_size=batch_size)
    zero = square == 0  # not `square > 0`: a NaN must stay one
    return torch.where(zero, 0, torch.where(zero, 1, square).sqrt()) * size
