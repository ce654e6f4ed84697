from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from meshop.data import InputError
from meshop.nn.functional import Nodes
from meshop.nn.grid_conv import GridConv
from meshop.nn.shares import Shares, linear_with_ones, softmax_shares, weighted_mean, with_ones


class Assignment(nn.Module):
    r"""The shares of nodes in tokens that a layer has made, as they are.

    A module of its own so that every layer's assignment can be seen from outside, see :func:`meshop.probe.assignments`.
    """

    def forward(self, shares: Shares) -> Shares:
        return shares


class Slices(nn.Module):
    r"""The slices of Transolver: how much of each node goes to each of them, and what they are made of.

    With :math:`x_n, f_n \in \mathbb{R}^d` two maps of a node's features in one head,

    .. math::
        w_n = \mathrm{softmax}_M \bigl( (W_s x_n + b_s) / \tau \bigr), \qquad
        z_m = \sum_n m_n w_{nm} f_n \big/ \bigl( \textstyle\sum_n m_n w_{nm} + 10^{-5} \bigr) .

    :math:`W_s` is shared by the heads; :math:`\tau`, clamped to [0.1, 5], is learned for each. It is the first step of
    :class:`PhysicsAttention`, :class:`SliceResidualAttention` and :class:`LatentSSM`.

    Args:
        channels: size C of the features.
        heads: number of heads H.
        num_slices: number of slices M.
        grid_dim: 2 or 3 for grids, which need ``shape``: the two maps are then 3x3 or 3x3x3 convolutions.

    Shapes:
        - **input:** x and f [N, C] (the same features, or local ones for either), and the graphs of the nodes
        - **output:** w as :class:`~meshop.nn.shares.Shares`, and z [B, H, M, d]

    Raises:
        InputError: ``channels`` is no multiple of ``heads``; the nodes are not the grid that was promised.
    """

    def __init__(self, channels: int, heads: int, num_slices: int, grid_dim: int | None = None) -> None:
        super().__init__()
        if channels % heads != 0:
            raise InputError(f"Expected channels to be a multiple of heads (got {channels} and {heads})")
        self.channels = channels
        self.heads = heads
        self.num_slices = num_slices
        self.grid_dim = grid_dim
        self.lin_x, self.lin_f = (
            nn.Linear(channels, channels) if grid_dim is None else GridConv(channels, channels, grid_dim)
            for _ in range(2)
        )
        self.lin_slice = nn.Linear(channels // heads, num_slices)
        self.temperature = nn.Parameter(torch.empty(heads))
        self.assign = Assignment()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for layer in (self.lin_x, self.lin_f, self.lin_slice):
            layer.reset_parameters()
        nn.init.constant_(self.temperature, 0.5)

    def forward(
        self,
        x: Tensor,
        f: Tensor,
        nodes: Nodes,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> tuple[Shares, Tensor]:
        tau = self.temperature.clamp(0.1, 5.0)[:, None, None]
        weight = torch.cat([self.lin_slice.weight, self.lin_slice.bias[:, None]], 1).T / tau  # [H, d + 1, M]
        if self.grid_dim is None:
            map_x, map_f = (linear_with_ones(cast(nn.Linear, lin), self.heads) for lin in (self.lin_x, self.lin_f))
            shares = self.assign(softmax_shares(x, weight, nodes, map_x))
            total = shares.pool(None if f is x else f, map_f)
        else:
            x, f = (
                with_ones(conv(h, batch, batch_size, shape), self.heads)
                for conv, h in ((self.lin_x, x), (self.lin_f, f))
            )
            shares = self.assign(softmax_shares(x, weight, nodes))
            total = shares.pool(f)
        return shares, weighted_mean(total).to(f.dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, heads={self.heads}, num_slices={self.num_slices})"
