from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, pad

from meshop.data import InputError
from meshop.nn.functional import Nodes
from meshop.nn.grid_conv import GridConv
from meshop.nn.shares import attend, linear_with_ones, part, softmax_shares, weighted_mean
from meshop.nn.slices import Assignment


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
    before the maps to :math:`q, k, v`; the paper does not say where it stands, its parameter counts on regular grids
    say that there is one.

    **Sum or mean.** The paper's query of a cluster is the sum of its nodes, so its logits grow with the mesh, and the
    softmax over the nodes narrows down to a few of them. Measured at initialisation with 64 channels, 4 heads and 32
    clusters on a smooth random field (root mean square of the logits, share :math:`e^{\text{entropy}} / N` of the nodes
    that a cluster attends to):

    =====  =============  ==============  ===============
    aggr   N = 1,000      N = 10,000      N = 100,000
    =====  =============  ==============  ===============
    mean   0.17, 100 %    0.17, 100 %     0.17, 100 %
    sum    5.8, 46 %      57, 6.5 %       570, 0.5 %
    =====  =============  ==============  ===============

    ``"mean"`` is right for meshes of different or of many nodes, and for a model to be used on a finer mesh than it was
    trained on. ``"sum"`` is right to repeat the paper's experiments, all on meshes of one size of a few thousand nodes.
    With a measure the sum is one over a thousand nodes whatever the mesh, and its logits stay as at N = 1,000.

    Differences from the paper: graphs may differ in size, nodes may carry a measure (then splitting a node changes
    nothing, and neither does the unit of the measure), and the mean.

    Time is O(N C² + N K C), memory O(N C + K C).

    Args:
        channels: size C of input and output.
        heads: number of heads H.
        num_clusters: number of clusters K of each head.
        aggr: ``"mean"`` or ``"sum"``, see above.
        dropout: probability with which entries of the output are zeroed in training.
        grid_dim: 2 or 3 for grids, which need ``shape``.

    Shapes:
        - **input:** x [N, C], batch [N], measure [N], shape (n1, n2[, n3]) of the grid
        - **output:** [N, C]

    Raises:
        InputError: ``channels`` is no multiple of ``heads``; ``aggr`` is neither; the nodes are not the grid that was
            promised.

    >>> layer = ClusterAttention(16, heads=4, num_clusters=8)
    >>> layer(torch.ones(7, 16), batch=torch.tensor([0, 0, 1, 1, 1, 1, 1])).shape
    torch.Size([7, 16])
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
        self.lin_qkv = nn.Linear(channels, 3 * channels)
        self.cluster = nn.Parameter(torch.empty(heads, channels // heads, num_clusters))
        self.assign = Assignment()
        self.lin_out = nn.Linear(channels, channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.conv is not None:
            self.conv.reset_parameters()
        self.lin_qkv.reset_parameters()
        nn.init.normal_(self.cluster, std=self.cluster.size(1) ** -0.5)
        self.lin_out.reset_parameters()

    def forward(
        self,
        x: Tensor,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> Tensor:
        nodes = Nodes(x, batch, measure, batch_size)
        if self.conv is not None:
            x = self.conv(x, batch, batch_size, shape)
        q, k, v = (part(self.lin_qkv, i, 3) for i in range(3))  # maps of x
        ones = linear_with_ones(q, self.heads)
        shares = self.assign(softmax_shares(x, pad(self.cluster, (0, 0, 0, 1)), nodes, ones))
        total = shares.pool()  # [B, H, K, d + 1]
        query = weighted_mean(total) if self.aggr == "mean" else total[..., :-1]
        y = shares.unpool(attend(query, x, k, v, nodes)).to(x.dtype)  # [N, C]
        return dropout(self.lin_out(y), self.dropout, self.training)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.channels}, heads={self.heads}, num_clusters={self.num_clusters}, "
            f"aggr={self.aggr!r})"
        )
