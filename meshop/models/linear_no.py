from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from meshop.nn import Block, Lift, LinearAttentionNO


class LinearNO(nn.Module):
    r"""LinearNO of `"Transolver is a Linear Transformer: Revisiting Physics-Attention through the Lens of Linear
    Attention" <https://arxiv.org/abs/2511.06294>`_.

    .. math::
        h &= \mathrm{Lift}(x) \\
        h &\leftarrow h + \mathrm{LinearAttentionNO}(\mathrm{LN}(h)), \quad
        h \leftarrow h + \mathrm{FFN}(\mathrm{LN}(h)) \qquad (L \text{ times}) \\
        u &= W\, \mathrm{LN}(h)

    See :class:`~meshop.nn.LinearAttentionNO` for the operator and what the paper leaves open.

    Time is O(L (N C² + N M C)), memory O(L (N C + N H M)) in training.

    Args:
        in_channels: size of x, coordinates included.
        hidden_channels: width C.
        num_layers: number of blocks L.
        out_channels: size of the output.
        heads: number of heads.
        num_slices: number of slices.
        ffn_ratio: width of the FFN in units of C.
        lift: module from x to hidden features; by default :class:`~meshop.nn.Lift`, which also takes a position and
            a time embedding.

    Shapes:
        - **input:** x [N, in_channels], pos [N, D], batch [N], measure [N], time [B]
        - **output:** [N, out_channels]

    >>> import torch
    >>> LinearNO(3, 16, 2, 1, heads=4, num_slices=8)(torch.ones(5, 3)).shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        heads: int = 8,
        num_slices: int = 64,
        ffn_ratio: int = 2,
        lift: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.num_layers = num_layers
        self.out_channels = out_channels
        self.heads = heads
        self.num_slices = num_slices
        self.ffn_ratio = ffn_ratio
        self.lift = Lift(in_channels, hidden_channels) if lift is None else lift
        self.blocks = nn.ModuleList(
            Block(LinearAttentionNO(hidden_channels, heads, num_slices), hidden_channels, ffn_ratio)
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
        time: Tensor | None = None,
    ) -> Tensor:
        h = self.lift(x, pos, batch, batch_size, time)
        for block in self.blocks:
            h = block(h, batch=batch, measure=measure, batch_size=batch_size)
        return self.head(self.norm(h))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, num_slices={self.num_slices})"
        )
