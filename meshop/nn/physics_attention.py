from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, scaled_dot_product_attention

from meshop.data import InputError
from meshop.nn.functional import Tiles, soft_pool, soft_unpool
from meshop.nn.grid_conv import GridConv


class PhysicsAttention(nn.Module):
    r"""Physics-Attention of `"Transolver: A Fast Transformer Solver for PDEs on General Geometries"
    <https://arxiv.org/abs/2402.02366>`_: nodes are gathered into slices, the slices attend to each other.

    With :math:`x_n, f_n \in \mathbb{R}^d` two linear maps of a node's features in one head and masses :math:`m_n`
    (1 without a measure, see :class:`~meshop.nn.functional.Tiles`),

    .. math::
        w_n &= \mathrm{softmax}_M \bigl( (W_s x_n + b_s) / \tau \bigr) \\
        z_m &= \sum_n m_n w_{nm} f_n \big/ \bigl( \textstyle\sum_n m_n w_{nm} + 10^{-5} \bigr) \\
        z'  &= \mathrm{softmax}_M \bigl( W_q z\, (W_k z)^\top / \sqrt{d} \bigr)\, W_v z \\
        y_n &= W_o\, \mathrm{concat}_h \textstyle\sum_m w_{nm} z'_m .

    :math:`W_s, W_q, W_k, W_v` are shared by the heads; :math:`\tau` is learned for each. On grids (``grid_dim``) the
    two maps of the nodes are 3x3 or 3x3x3 convolutions (:class:`GridConv`), as in the authors' structured variant.

    Differences from the authors' code:

    1. :math:`\tau` is clamped to [0.1, 5] everywhere. They do so on grids only; elsewhere it may reach zero, where the
       softmax is NaN.
    2. Graphs may differ in size, and nodes may carry a measure. Then splitting a node changes nothing, and neither
       does the unit of the measure.
    3. The maps to :math:`x` and :math:`f` are one map of twice the size, and so are those to :math:`q, k, v`.
    4. Linear maps start as torch's, with a standard deviation that depends on the width. The authors' 0.02 for all
       widths makes the slices of a narrow layer equal at first, and training has to leave that plateau.

    Time is O(N C² + N M C), memory O(N C + N H M).

    Args:
        channels: size C of input and output.
        heads: number of heads H.
        num_slices: number of slices M.
        dropout: probability with which entries of the slices' attention and of the output are zeroed in training.
        grid_dim: 2 or 3 for grids, which need ``shape``.

    Shapes:
        - **input:** x [N, C], batch [N], measure [N], shape (n1, n2[, n3]) of the grid
        - **output:** [N, C]

    Raises:
        InputError: ``channels`` is no multiple of ``heads``; the nodes are not the grid that was promised.

    >>> layer = PhysicsAttention(16, heads=4, num_slices=8)
    >>> layer(torch.ones(7, 16), batch=torch.tensor([0, 0, 1, 1, 1, 1, 1])).shape
    torch.Size([7, 16])
    """

    def __init__(
        self,
        channels: int,
        heads: int = 8,
        num_slices: int = 64,
        dropout: float = 0.0,
        grid_dim: int | None = None,
    ) -> None:
        super().__init__()
        if channels % heads != 0:
            raise InputError(f"Expected channels to be a multiple of heads (got {channels} and {heads})")
        self.channels = channels
        self.heads = heads
        self.num_slices = num_slices
        self.dropout = dropout
        self.grid_dim = grid_dim
        width = channels // heads
        self.lin_in = (
            nn.Linear(channels, 2 * channels) if grid_dim is None else GridConv(channels, 2 * channels, grid_dim)
        )
        self.lin_slice = nn.Linear(width, num_slices)
        self.lin_qkv = nn.Linear(width, 3 * width, bias=False)
        self.lin_out = nn.Linear(channels, channels)
        self.temperature = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for layer in (self.lin_in, self.lin_slice, self.lin_qkv, self.lin_out):
            layer.reset_parameters()
        nn.init.constant_(self.temperature, 0.5)

    def forward(
        self,
        x: Tensor,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> Tensor:
        tiles = Tiles.of(x, batch, measure, batch_size)
        x = self.lin_in(x) if self.grid_dim is None else self.lin_in(x, batch, batch_size, shape)
        x, f = tiles.split(x).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)  # 2 of [t, H, T, d]
        tau = self.temperature.clamp(0.1, 5.0)[:, None, None]
        weight = (self.lin_slice(x) / tau).softmax(-1, dtype=tiles.mass.dtype)  # [t, H, T, M]
        token = soft_pool(weight, f, tiles).to(f.dtype)  # [B, H, M, d]
        q, k, v = self.lin_qkv(token).chunk(3, dim=-1)
        token = scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0)
        y = soft_unpool(weight, token, tiles)  # [t, H, T, d]
        y = tiles.merge(y.transpose(1, 2).flatten(-2))  # [N, C]
        return dropout(self.lin_out(y), self.dropout, self.training)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, heads={self.heads}, num_slices={self.num_slices})"
