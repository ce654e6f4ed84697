from collections.abc import Sequence

import torch
from torch import Tensor, nn

from meshop.data import InputError
from meshop.nn.functional import Tiles
from meshop.nn.grid_conv import GridConv


class Assignment(nn.Module):
    r"""Shares of each node in M tokens from its logits: :math:`w_{nm} = \mathrm{softmax}_M(l_n)_m`.

    A module of its own so that every layer's assignment can be seen from outside, see :func:`meshop.probe.assignments`.

    Shapes:
        - **input:** logit [t, H, T, M], and the layout of the nodes
        - **output:** [t, H, T, M], float32 at least whatever autocast says
    """

    def forward(self, logit: Tensor, tiles: Tiles) -> Tensor:
        return logit.softmax(-1, dtype=tiles.mass.dtype)


class Slices(nn.Module):
    r"""The slices of Transolver: how much of each node goes to each of them, and what it carries there.

    With :math:`x_n, f_n \in \mathbb{R}^d` two maps of a node's features in one head,

    .. math::
        w_n = \mathrm{softmax}_M \bigl( (W_s x_n + b_s) / \tau \bigr) .

    :math:`W_s` is shared by the heads; :math:`\tau`, clamped to [0.1, 5], is learned for each. It is the first step of
    :class:`PhysicsAttention`, :class:`SliceResidualAttention` and :class:`LatentSSM`.

    Args:
        channels: size C of the features.
        heads: number of heads H.
        num_slices: number of slices M.
        grid_dim: 2 or 3 for grids, which need ``shape``: the two maps are then 3x3 or 3x3x3 convolutions.

    Shapes:
        - **input:** x and f [N, C] (the same features, or local ones for either), and the layout of the nodes
        - **output:** w [t, H, T, M] and f [t, H, T, d]

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
        tiles: Tiles,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> tuple[Tensor, Tensor]:
        grid = () if self.grid_dim is None else (batch, batch_size, shape)
        x = tiles.split_heads(self.lin_x(x, *grid), self.heads)  # [t, H, T, d]
        f = tiles.split_heads(self.lin_f(f, *grid), self.heads)
        tau = self.temperature.clamp(0.1, 5.0)[:, None, None]
        return self.assign(self.lin_slice(x) / tau, tiles), f

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, heads={self.heads}, num_slices={self.num_slices})"
