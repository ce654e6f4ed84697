"""Errors and correlations of fields, a number for each graph of a batch; integrals where a measure is given."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric import utils

from meshop.data import InputError
from meshop.domain import scatter, with_ghosts


def mse(
    pred: Tensor,
    target: Tensor,
    batch: Tensor | None = None,
    measure: Tensor | None = None,
    batch_size: int | None = None,
    keep: int | Sequence[int] = (),
) -> Tensor:
    r"""Mean square error of each graph, over its nodes and components.

    .. math::
        \sum_n \mu_n \frac1C \sum_c (p_{nc} - y_{nc})^2 \Big/ \sum_n \mu_n

    in the unit of the field squared. AirfRANS reports it, a variable at a time (``keep=1``), of normalised fields.

    Args:
        pred: [N, C], or [N, T, C] with frames, or with any other axes after that of the nodes.
        target: the same shape.
        batch: graph of each node [N]; one graph if absent.
        measure: weights [N]; 1 if absent.
        batch_size: number of graphs B.
        keep: axes that get a number each, rather than one number for all: of [N, T, C], 1 for each frame, 2 for each
            channel, (1, 2) for each of both. The last frame alone is ``pred[:, -1]``.

    Returns:
        [B], or ``[B, *kept]``, float32 at least; 0 for an empty graph.

    Raises:
        InputError: the shapes differ; an axis to keep is not there.

    >>> mse(torch.tensor([[3.0, 1.0], [4.0, 1.0]]), torch.zeros(2, 2), batch=torch.tensor([0, 1]))
    tensor([5.0000, 8.5000])
    >>> mse(torch.tensor([[3.0, 1.0], [4.0, 1.0]]), torch.zeros(2, 2), keep=1)
    tensor([[12.5000,  1.0000]])
    """
    return rmse(pred, target, batch, measure, batch_size, keep).square()


def rmse(
    pred: Tensor,
    target: Tensor,
    batch: Tensor | None = None,
    measure: Tensor | None = None,
    batch_size: int | None = None,
    keep: int | Sequence[int] = (),
) -> Tensor:
    r"""Root mean square error of each graph, in the unit of the field: the root of :func:`mse`.

    RealPDEBench takes one root of the mean over all samples: ``mse(...).mean().sqrt()``.

    Args and shapes are those of :func:`mse`.

    >>> rmse(torch.tensor([[3.0], [4.0]]), torch.zeros(2, 1), batch=torch.tensor([0, 1]))
    tensor([3., 4.])
    """
    pred, target, over = _compare(pred, target, batch, measure, batch_size, keep)
    return over.result(over.norm(pred - target))


def relative_l2(
    pred: Tensor,
    target: Tensor,
    batch: Tensor | None = None,
    measure: Tensor | None = None,
    batch_size: int | None = None,
    keep: int | Sequence[int] = (),
) -> Tensor:
    r"""Relative L2 error of each graph over all its nodes, frames and channels: the error of a block.

    .. math::
        \Bigl( \sum_n \mu_n \lVert p_n - y_n \rVert^2 \Big/ \sum_n \mu_n \lVert y_n \rVert^2 \Bigr)^{1/2}

    The papers call four numbers by this name; with pred of shape [N, T, C] they are

    =========================== ============================================= ======================
    of the block                ``relative_l2(pred, target)``                 [B]
    the mean over frames        ``relative_l2(pred, target, keep=1)``         [B, T], ``.mean(1)``
    of the last frame           ``relative_l2(pred[:, -1], target[:, -1])``   [B]
    a channel (FactFormer)      ``relative_l2(pred, target, keep=2)``         [B, C]
    =========================== ============================================= ======================

    and PhysGTO's, of each channel of each frame, has ``keep=(1, 2)``.

    Where the target is zero everywhere it is :func:`rmse` instead, in the unit of the field: finite, and zero only for
    the right answer.

    Args and shapes are those of :func:`mse`.

    >>> relative_l2(torch.tensor([[3.0], [0.0]]), torch.tensor([[2.0], [0.0]]))
    tensor([0.5000])
    """
    pred, target, over = _compare(pred, target, batch, measure, batch_size, keep)
    size = over.norm(target)
    return over.result(over.norm(pred - target) / torch.where(size > 0, size, 1))


def relative_h1(
    pred: Tensor,
    target: Tensor,
    pos: Tensor,
    edge_index: Tensor,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> Tensor:
    r"""Relative error of the slopes along the edges of each graph: a discrete H1 seminorm.

    .. math::
        \Bigl( \sum_{(i, j) \in E} \lVert s_{ij}(p - y) \rVert^2 \Big/ \sum_{(i, j) \in E} \lVert s_{ij}(y) \rVert^2
        \Bigr)^{1/2}, \qquad s_{ij}(v) = \frac{v_j - v_i}{\lVert x_j - x_i \rVert}

    Edges between nodes at one place, as along a wake cut, have no slope and are left out.

    Args:
        pred: [N], or [N, C] with further axes or none.
        target: the same shape.
        pos: coordinates [N, D].
        edge_index: edges [2, E], in one direction or both.
        batch: graph of each node [N]; one graph if absent.
        batch_size: number of graphs B.

    Returns:
        [B]; where the target is constant, the root mean square slope of the error.

    Raises:
        InputError: the shapes differ.

    >>> pos, edges = torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([[0, 1], [1, 2]])
    >>> relative_h1(torch.tensor([[5.0], [6.0], [12.0]]), torch.tensor([[0.0], [2.0], [4.0]]), pos, edges)
    tensor([1.])
    """
    if pred.shape != target.shape:
        raise InputError(f"Expected pred and target of one shape (got {list(pred.shape)} and {list(target.shape)})")
    i, j = edge_index[:, edge_index[1] < len(pos)]  # of several processes, the one that has j counts the edge
    pred, target, pos = (with_ghosts(x.flatten(1) if x.dim() > 1 else x[:, None]) for x in (pred, target, pos))
    length = (pos[j] - pos[i]).norm(dim=1)
    i, j, length = i[length > 0], j[length > 0], length[length > 0, None]
    graph = None if batch is None else batch[j]
    size = int(batch.max()) + 1 if batch is not None and batch_size is None and batch.numel() else batch_size
    return relative_l2((pred[j] - pred[i]) / length, (target[j] - target[i]) / length, graph, batch_size=size)


def grouped_mse(
    pred: Tensor,
    target: Tensor,
    groups: Sequence[int],
    batch: Tensor | None = None,
    measure: Tensor | None = None,
    batch_size: int | None = None,
) -> Tensor:
    r"""Sum of the mean square errors of groups of channels, the score of REALM.

    .. math::
        \sum_g \operatorname{MSE}(p_g, y_g)

    with the channels of the last axis one group after another; REALM's groups are the species, the temperature, the
    density, the velocity and the pressure, normalised, so that twenty species count no more than one temperature.

    Args:
        pred: [N, C] or [N, T, C].
        target: the same shape.
        groups: number of channels of each group; together C.
        batch, measure, batch_size: as in :func:`mse`.

    Returns:
        [B], float32 at least.

    Raises:
        InputError: the groups do not add up to the channels.

    >>> grouped_mse(torch.tensor([[1.0, 3.0, 2.0]]), torch.zeros(1, 3), groups=[2, 1])
    tensor([9.])
    """
    if sum(groups) != pred.size(-1):
        raise InputError(f"Expected groups of {pred.size(-1)} channels together (got {list(groups)})")
    parts = zip(pred.split(list(groups), -1), target.split(list(groups), -1), strict=True)
    return torch.stack([mse(p, y, batch, measure, batch_size) for p, y in parts]).sum(0)


def r2(
    pred: Tensor,
    target: Tensor,
    batch: Tensor | None = None,
    measure: Tensor | None = None,
    batch_size: int | None = None,
    keep: int | Sequence[int] = (),
) -> Tensor:
    r"""Coefficient of determination of each graph: the share of the target's variance that the prediction explains.

    .. math::
        1 - \sum_n \mu_n \lVert p_n - y_n \rVert^2 \Big/ \sum_n \mu_n \lVert y_n - \bar y \rVert^2

    with one mean :math:`\bar y` for all nodes and components that share a number; ``keep=1`` gives each component its
    own, as AirfRANS does. It is 1 for the right answer and 0 for the mean. Where the target is constant it is 1 for
    the right answer and :math:`-\infty` otherwise.

    Args and shapes are those of :func:`mse`.

    >>> r2(torch.tensor([[1.0], [2.0], [6.0]]), torch.tensor([[1.0], [2.0], [3.0]]))
    tensor([-3.5000])
    """
    pred, target, over = _compare(pred, target, batch, measure, batch_size, keep)
    error, spread = over.norm(pred - target), over.norm(over.centred(target))
    ratio = torch.where(error > 0, torch.inf, error)
    return over.result(1 - torch.where(spread > 0, error / torch.where(spread > 0, spread, 1), ratio).square())


def pearson(
    pred: Tensor,
    target: Tensor,
    batch: Tensor | None = None,
    measure: Tensor | None = None,
    batch_size: int | None = None,
    keep: int | Sequence[int] = (),
) -> Tensor:
    r"""Pearson's correlation of prediction and target over each graph, between -1 and 1.

    .. math::
        \frac{\sum_n \mu_n \langle p_n - \bar p, y_n - \bar y \rangle}
             {\bigl( \sum_n \mu_n \lVert p_n - \bar p \rVert^2 \sum_n \mu_n \lVert y_n - \bar y \rVert^2 \bigr)^{1/2}}

    0 where one of them is constant.

    Args and shapes are those of :func:`mse`.

    >>> pearson(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[1.0], [3.0], [-1.0]]))
    tensor([-0.5000])
    """
    pred, target, over = _compare(pred, target, batch, measure, batch_size, keep)
    unit = []
    for x in (pred, target):
        x = over.centred(x)
        size = over.norm(x)
        unit.append(x / over.at_nodes(torch.where(size > 0, size, 1)))
    return over.result(over.mean(unit[0] * unit[1]))


def spearman(
    pred: Tensor,
    target: Tensor,
    batch: Tensor | None = None,
    batch_size: int | None = None,
    keep: int | Sequence[int] = (),
) -> Tensor:
    r"""Spearman's rank correlation: :func:`pearson` of the ranks; values that are equal share the mean of their ranks.

    Of drag coefficients, say, with a row for each design: 1 when the predictions put the designs in the right order.

    Args and shapes are those of :func:`mse`; there is no measure.

    >>> spearman(torch.tensor([0.1, 0.2, 9.0]), torch.tensor([1.0, 4.0, -5.0]))
    tensor([-0.5000])
    """
    pred, target, over = _compare(pred, target, batch, None, batch_size, keep)
    graph = over.batch.repeat_interleave(pred.size(2))
    pred, target = (_ranks(x.movedim(2, 1).flatten(0, 1), graph).to(x.dtype) for x in (pred, target))  # [N * R, K]
    return over.result(pearson(pred, target, graph, batch_size=over.batch_size, keep=1))


class _Over:
    """Sums over what shares a number: the nodes of a graph and the components that are not kept.

    Fields are [N, K, R]: nodes, kept components, the rest. Results are [B, K], and ``[B, *kept]`` in the end.
    """

    def __init__(
        self, x: Tensor, batch: Tensor | None, measure: Tensor | None, batch_size: int | None, kept: list[int]
    ) -> None:
        dtype = torch.promote_types(x.dtype, torch.float32)
        if batch is None:
            batch, batch_size = torch.zeros(x.size(0), dtype=torch.long, device=x.device), 1
        self.batch = batch.long()
        self.batch_size = batch_size
        self.kept = kept
        weight = x.new_ones(x.size(0), dtype=dtype) if measure is None else measure.to(dtype)
        total = scatter(weight, self.batch, dim_size=batch_size).clamp_min(torch.finfo(dtype).tiny)
        self.share = (weight / total[self.batch])[:, None]  # [N, 1]

    def mean(self, x: Tensor) -> Tensor:
        return scatter(self.share * x.mean(2), self.batch, dim_size=self.batch_size)

    def norm(self, x: Tensor) -> Tensor:
        """Root mean square; its gradient is zero, not NaN, where x is zero. Neither over- nor underflows."""
        size = scatter(x.detach().abs().amax(2), self.batch, dim_size=self.batch_size, reduce="max")
        size = torch.where(size > 0, size, 1)
        square = self.mean((x / self.at_nodes(size)).square())
        zero = square == 0  # not `square > 0`: a NaN must stay one
        return torch.where(zero, 0, torch.where(zero, 1, square).sqrt()) * size

    def centred(self, x: Tensor) -> Tensor:
        """What is left without the mean; exactly zero where x is constant."""
        least = scatter(x.detach().amin(2), self.batch, dim_size=self.batch_size, reduce="min")
        x = x - self.at_nodes(least)
        return x - self.at_nodes(self.mean(x))

    def at_nodes(self, value: Tensor) -> Tensor:
        return value[self.batch].unsqueeze(2)

    def result(self, value: Tensor) -> Tensor:
        return value.view(value.size(0), *self.kept)


def _compare(
    pred: Tensor,
    target: Tensor,
    batch: Tensor | None,
    measure: Tensor | None,
    batch_size: int | None,
    keep: int | Sequence[int],
) -> tuple[Tensor, Tensor, _Over]:
    if pred.shape != target.shape:
        raise InputError(f"Expected pred and target of one shape (got {list(pred.shape)} and {list(target.shape)})")
    axes = [keep] if isinstance(keep, int) else list(keep)
    if any(not 1 <= axis < pred.dim() for axis in axes):
        raise InputError(f"Expected to keep axes of {list(pred.shape)} after that of the nodes (got {axes})")
    kept = [pred.size(axis) for axis in axes]
    rest = [pred.size(axis) for axis in range(1, pred.dim()) if axis not in axes]
    over = _Over(target, batch, measure, batch_size, kept)
    pred, target = (
        x.to(over.share.dtype)
        .movedim(axes, list(range(1, len(axes) + 1)))
        .reshape(x.size(0), math.prod(kept), math.prod(rest))
        for x in (pred, target)
    )
    return pred, target, over


def _ranks(x: Tensor, batch: Tensor) -> Tensor:
    """Rank of each value in its column and graph, up to a shift a graph; equal ones share their mean: [N, K]."""
    order = x.argsort(0)
    order = order.gather(0, batch[order].argsort(dim=0, stable=True))
    value, graph = x.gather(0, order), batch[order]
    fresh = torch.ones_like(order)
    fresh[1:] = ((value[1:] != value[:-1]) | (graph[1:] != graph[:-1])).long()
    run = fresh.cumsum(0) - 1 + torch.arange(x.size(1), device=x.device) * x.size(0)
    place = torch.arange(x.size(0), dtype=torch.float64, device=x.device)[:, None].expand_as(run)
    mean = utils.scatter(place.flatten(), run.flatten(), dim_size=x.numel(), reduce="mean")
    return torch.empty_like(place).scatter(0, order, mean[run])
