from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from meshop.nn import Block, ClusterAttention, Lift


class CANO(nn.Module):
    r"""CANO, the clustered attention neural operator.

    .. math::
        h &= \mathrm{Lift}(x) \\
        h &\leftarrow h + \mathrm{ClusterAttention}(\mathrm{LN}(h)), \quad
        h \leftarrow h + \mathrm{FFN}(\mathrm{LN}(h)) \qquad (L \text{ times}) \\
        u &= W\, \mathrm{LN}(h)

    See :class:`~meshop.nn.ClusterAttention` for the operator, its differences from the paper, and when to sum.

    Time is O(L (N C² + N K C)), memory O(L (N C + K C)) in training.

    Args:
        in_channels: size of x, coordinates included.
        hidden_channels: width C.
        num_layers: number of blocks L.
        out_channels: size of the output.
        heads: number of heads.
        num_clusters: number of clusters of each head.
        ffn_ratio: width of the FFN in units of C.
        aggr: ``"mean"``, or ``"sum"`` as in the paper.
        grid_dim: 2 or 3 for the variant with a convolution, on grids in row-major order that pass their ``shape``.
        lift: module from x to hidden features; by default :class:`~meshop.nn.Lift`, which also takes a position and
            a time embedding.

    Shapes:
        - **input:** x [N, in_channels], pos [N, D], batch [N], measure [N], shape (n1, n2[, n3]), time [B]
        - **output:** [N, out_channels]

    >>> import torch
    >>> CANO(3, 16, 2, 1, heads=4, num_clusters=8)(torch.ones(5, 3)).shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        heads: int = 8,
        num_clusters: int = 64,
        ffn_ratio: int = 2,
        aggr: Literal["mean", "sum"] = "mean",
        grid_dim: int | None = None,
        lift: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.num_layers = num_layers
        self.out_channels = out_channels
        self.heads = heads
        self.num_clusters = num_clusters
        self.ffn_ratio = ffn_ratio
        self.aggr: Literal["mean", "sum"] = aggr
        self.grid_dim = grid_dim
        self.lift = Lift(in_channels, hidden_channels) if lift is None else lift
        self.blocks = nn.ModuleList(
            Block(
                ClusterAttention(hidden_channels, heads, num_clusters, aggr, grid_dim=grid_dim),
                hidden_channels,
                ffn_ratio,
            )
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(hidden_channels)
        self.head = nn.Linear(hidden_channels, out_channels)

    def reset_parameters(self) -> None:
        for layer in (self.lift, *self.blocks, self.norm, self.head):
            reset(layer)

    def forward(
        self,
        x: Tensor,
        pos: Tensor | None = None,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
        time: Tensor | None = None,
    ) -> Tensor:
        h = self.lift(x, pos, batch, batch_size, time)
        for block in self.blocks:
            h = block(h, batch=batch, measure=measure, batch_size=batch_size, shape=shape)
        return self.head(self.norm(h))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, num_clusters={self.num_clusters})"
        )
