from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.functional import dropout
from torch_geometric.nn.inits import reset

from meshop.nn.functional import Nodes
from meshop.nn.slice_attention import SliceAttention
from meshop.nn.slices import Slices


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

    The third line is an ``update`` of the tokens and can be another: ``ReZero(SliceAttention(d))`` corrects the slices
    instead of replacing them (Transolver-sigma's, see :class:`SliceResidualAttention`), ``nn.Identity()`` leaves them
    alone.

    Differences from the authors' code:

    1. :math:`\tau` is clamped to [0.1, 5] everywhere. They do so on grids only; elsewhere it may reach zero, where the
       softmax is NaN.
    2. Graphs may differ in size, and nodes may carry a measure. Then splitting a node changes nothing, and neither
       does the unit of the measure.
    3. Linear maps start as torch's, with a standard deviation that depends on the width. The authors' 0.02 for all
       widths makes the slices of a narrow layer equal at first, and training has to leave that plateau.

    Time is O(N C² + N M C), memory O(N C + M C).

    Args:
        channels: size C of input and output.
        heads: number of heads H.
        num_slices: number of slices M.
        dropout: probability with which entries of the output are zeroed in training, and of the slices' attention by
            default.
        grid_dim: 2 or 3 for grids, which need ``shape``.
        update: module from tokens [B, H, M, d] to tokens; by default ``SliceAttention(d, dropout)``.

    Shapes:
        - **input:** x [N, C], batch [N], measure [N], shape (n1, n2[, n3]) of the grid
        - **output:** [N, C]

    Raises:
        InputError: ``channels`` is no multiple of ``heads``; the nodes are not the grid that was promised.

    >>> import torch
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
        update: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.channels = channels
        self.heads = heads
        self.num_slices = num_slices
        self.dropout = dropout
        self.grid_dim = grid_dim
        self.slices = Slices(channels, heads, num_slices, grid_dim)
        self.update = SliceAttention(channels // heads, dropout) if update is None else update
        self.lin_out = nn.Linear(channels, channels)

    def reset_parameters(self) -> None:
        for layer in (self.slices, self.update, self.lin_out):
            reset(layer)

    def forward(
        self,
        x: Tensor,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> Tensor:
        nodes = Nodes(x, batch, measure, batch_size)
        shares, token = self.slices(x, x, nodes, batch, batch_size, shape)  # [B, H, M, d]
        y = shares.unpool(self.update(token))  # [N, C]
        return dropout(self.lin_out(y), self.dropout, self.training)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, heads={self.heads}, num_slices={self.num_slices})"
