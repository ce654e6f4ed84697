from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from meshop.data import InputError
from meshop.nn.functional import Tiles, segment_attention, soft_pool, soft_unpool
from meshop.nn.grid_conv import GridConv
from meshop.nn.linear import Linear


class ClusterAttention(nn.Module):
    r"""Clustered attention of CANO: queries are gathered into clusters, which attend to the nodes.

    With :math:`q_n, k_n, v_n \in \mathbb{R}^d` linear maps of a node's features in one head and masses :math:`m_n`
    (1 without a measure, see :class:`~meshop.nn.functional.Tiles`),

    .. math::
        a_n &= \mathrm{softmax}_K ( q_n W_c ) \\
        \bar q_c &= \textstyle\sum_n m_n a_{nc} q_n \ \bigl( \big/ \sum_n m_n a_{nc} \text{ for the mean} \bigr) \\
        z_c &= \textstyle\sum_n m_n \exp(\bar q_c \cdot k_n / \sqrt{d})\, v_n \big/
               \sum_n m_n \exp(\bar q_c \cdot k_n / \sqrt{d}) \\
        y_n &= W_o\, \mathrm{concat}_h \textstyle\sum_c a_{nc} z_c .

    :math:`W_c` is one matrix [d, K] a head. On grids (``grid_dim``) a 3x3 or 3x3x3 convolution (:class:`GridConv`) goes
    before the maps to :math:`q, k, v`.
    """

    def __init__(
        self,
        channels: int,
        heads: int = 8,
        num_clusters: int = 64,
        aggr: Literal["mean", "sum"] = "mean",
        dropout: float = 0.0,
        grid_dim: int | None = None,
    ) -> None:
        super().__init__()
        if channels % heads != 0:
            raise InputError(f"Expected channels to be a multiple of heads (got {channels} and {heads})")
        if aggr not in ("mean", "sum"):
            raise InputError(f"Expected aggr to be 'mean' or 'sum' (got '{aggr}')")
        self.channels = channels
        self.heads = heads
        self.num_clusters = num_clusters
        self.aggr = aggr
        self.dropout = dropout
        self.grid_dim = grid_dim
        self.conv = None if grid_dim is None else GridConv(channels, channels, grid_dim)
        self.lin_qkv = Linear(channels, 3 * channels)
        self.cluster = nn.Parameter(torch.empty(heads, channels // heads, num_clusters))
        self.lin_out = Linear(channels, channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.conv is not None:
            self.conv.reset_parameters()
        self.lin_qkv.reset_parameters()
        nn.init.trunc_normal_(self.cluster, std=0.02)
        self.lin_out.reset_parameters()

    def forward(
        self,
        x: Tensor,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> Tensor:
        tiles = Tiles.of(x, batch, measure, batch_size)
        if self.conv is not None:
            x = self.conv(x, batch, batch_size, shape)
        x = tiles.split(self.lin_qkv(x))  # [t, T, 3 C]
        q, k, v = x.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # 3 of [t, H, T, d]
        weight = (q @ self.cluster).softmax(-1, dtype=tiles.mass.dtype)  # [t, H, T, K]
        query = soft_pool(weight, q, tiles, mean=self.aggr == "mean")  # [B, H, K, d]
        token = segment_attention(query, k, v, tiles)  # [B, H, K, d]
        y = soft_unpool(weight, token, tiles)  # [t, H, T, d]
        y = tiles.merge(y.transpose(1, 2).flatten(-2)).to(x.dtype)  # [N, C]
        return dropout(self.lin_out(y), self.dropout, self.training)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.channels}, heads={self.heads}, num_clusters={self.num_clusters}, "
            f"aggr={self.aggr!r})"
        )
