from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, pad
from torch_geometric.nn.inits import reset

from meshop.data import InputError
from meshop.geometry.hilbert import hilbert_key
from meshop.nn.functional import Nodes, missing
from meshop.nn.hydra import Hydra
from meshop.nn.slices import Slices


class LatentSSM(nn.Module):
    r"""The latent state-space mixer of `"Latent Mamba Operator for Partial Differential Equations"
    <https://arxiv.org/abs/2505.19105>`_ (LaMO): nodes are gathered into slices, which are scanned as one sequence.

    Slices are those of :class:`PhysicsAttention`. With :math:`x_n, f_n \in \mathbb{R}^d` two linear maps of a node's
    features in one head and masses :math:`m_n` (1 without a measure, see :class:`~meshop.nn.functional.Tiles`),

    .. math::
        w_n &= \mathrm{softmax}_M \bigl( (W_s x_n + b_s) / \tau \bigr) \\
        z_m &= \sum_n m_n w_{nm} f_n \big/ \bigl( \textstyle\sum_n m_n w_{nm} + 10^{-5} \bigr) \\
        (z'_1, \dots, z'_M) &= \mathrm{core}(z_1, \dots, z_M), \qquad z_m \leftarrow \mathrm{concat}_h\, z_m \\
        y_n &= W_o\, \mathrm{concat}_h \textstyle\sum_m w_{nm} z'_m .

    Slice m of every head makes token m, so the core sees M tokens of width C whatever the size of the mesh. The decoder
    is the encoder's :math:`w`. To share one encoder between layers (LaMO's shared variant), give them the same
    ``slices``: ``second.slices = first.slices``.

    Differences from the authors' code and paper:

    1. The paper's text decodes with a linear map to N nodes, which would tie the weights to one mesh; their code does
       not, and neither does this layer.
    2. :math:`\tau` is clamped to [0.1, 5] everywhere; they do so on grids only.
    3. Graphs may differ in size, and nodes may carry a measure. Then splitting a node changes nothing, and neither
       does the unit of the measure.
    4. Slices are scanned in the order of their index, which means nothing but is learned. ``geometric_order`` (ours)
       scans them along the Hilbert curve through their centroids instead, so that neighbours in the sequence are
       neighbours in space; it needs ``pos`` and carries no gradient.

    Time is O(N C² + N M C), memory O(N C + M C), beside the core's on M tokens.

    Args:
        channels: size C of input and output.
        heads: number of heads H.
        num_slices: number of slices M.
        core: module from tokens [B, M, C] to [B, M, C]; by default :class:`Hydra`.
        dropout: probability with which entries of the output are zeroed in training.
        grid_dim: 2 or 3 for grids, which need ``shape``: :math:`x, f` are then 3x3 or 3x3x3 convolutions.
        geometric_order: whether to scan the slices along a curve through space.

    Shapes:
        - **input:** x [N, C], pos [N, D], batch [N], measure [N], shape (n1, n2[, n3]) of the grid
        - **output:** [N, C]

    Raises:
        InputError: ``channels`` is no multiple of ``heads``; the nodes are not the grid that was promised;
            ``geometric_order`` is asked for and ``pos`` is not given, or it holds whole numbers.

    >>> layer = LatentSSM(16, heads=4, num_slices=8, core=Hydra(16, state_channels=4))
    >>> layer(torch.ones(7, 16), batch=torch.tensor([0, 0, 1, 1, 1, 1, 1])).shape
    torch.Size([7, 16])
    """

    def __init__(
        self,
        channels: int,
        heads: int = 8,
        num_slices: int = 64,
        core: nn.Module | None = None,
        dropout: float = 0.0,
        grid_dim: int | None = None,
        geometric_order: bool = False,
    ) -> None:
        super().__init__()
        self.channels = channels
        self.heads = heads
        self.num_slices = num_slices
        self.dropout = dropout
        self.grid_dim = grid_dim
        self.geometric_order = geometric_order
        self.slices = Slices(channels, heads, num_slices, grid_dim)
        self.core = Hydra(channels) if core is None else core
        self.lin_out = nn.Linear(channels, channels)

    def reset_parameters(self) -> None:
        for layer in (self.slices, self.core, self.lin_out):
            reset(layer)

    def forward(
        self,
        x: Tensor,
        pos: Tensor | None = None,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> Tensor:
        if pos is not None and not pos.is_floating_point():
            raise InputError(
                f"Expected coordinates as pos (got {pos.dtype}); LatentSSM takes x, pos, batch in this order"
            )
        nodes = Nodes(x, batch, measure, batch_size)
        shares, token = self.slices(x, x, nodes, batch, batch_size, shape)
        token = token.transpose(1, 2).flatten(-2)  # [B, M, C]
        if self.geometric_order:
            if pos is None:
                raise missing(self, "pos")
            place = pad(pos.to(nodes.dtype), (0, 1), value=1.0).repeat(1, self.heads)  # [N, H (D + 1)]
            with torch.no_grad():
                place = shares.pool(place).mean(1)  # [B, M, D + 1]
            centroid = place[..., :-1] / place[..., -1:].clamp_min(torch.finfo(place.dtype).tiny)
            order = hilbert_key(centroid).argsort(stable=True)[..., None].expand_as(token)  # [B, M, C]
            token = torch.empty_like(token).scatter(1, order, self.core(token.gather(1, order)).to(token.dtype))
        else:
            token = self.core(token)
        token = token.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # [B, H, M, d]
        y = shares.unpool(token)  # [N, C]
        return dropout(self.lin_out(y), self.dropout, self.training)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.channels}, heads={self.heads}, num_slices={self.num_slices}, "
            f"core={self.core})"
        )
