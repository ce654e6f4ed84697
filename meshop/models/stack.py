from collections.abc import Sequence

from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from meshop.nn import Lift
from meshop.nn.functional import call_with, taken


class Stack(nn.Module):
    r"""A model of blocks of one's own: any layers of meshop, PyG and torch between a lift and a head.

    .. math::
        h &= \mathrm{Lift}(x) \\
        h &\leftarrow \mathrm{block}(h) \qquad \text{for each block} \\
        u &= W\, \mathrm{LN}(h)

    Each block gets h as its first argument and the others by name, those that it takes.

    Time is O(N C²), memory O(N C), beside the blocks'.

    Args:
        in_channels: size of x, coordinates included.
        hidden_channels: size of h.
        out_channels: size of the output.
        blocks: each from [N, hidden_channels] to [N, hidden_channels].
        lift: module from x to hidden features; by default :class:`~meshop.nn.Lift`.

    Shapes:
        - **input:** x [N, in_channels], and what lift and blocks need
        - **output:** [N, out_channels]

    Raises:
        InputError: a block needs an argument that was not given, or that this model does not take.

    >>> import torch
    >>> from torch_geometric.nn import SAGEConv
    >>> from meshop.nn import Block, PhysicsAttention
    >>> model = Stack(3, 16, 1, [Block(SAGEConv(16, 16), 16), Block(PhysicsAttention(16), 16)])
    >>> model(torch.ones(3, 3), edge_index=torch.tensor([[0, 1], [1, 2]])).shape
    torch.Size([3, 1])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        blocks: Sequence[nn.Module],
        lift: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.out_channels = out_channels
        self.lift = Lift(in_channels, hidden_channels) if lift is None else lift
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(hidden_channels)
        self.head = nn.Linear(hidden_channels, out_channels)
        self._taken = [taken(block) for block in blocks]

    def reset_parameters(self) -> None:
        for layer in (self.lift, *self.blocks, self.norm, self.head):
            reset(layer)

    def forward(
        self,
        x: Tensor,
        pos: Tensor | None = None,
        edge_index: Tensor | None = None,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
        time: Tensor | None = None,
    ) -> Tensor:
        h = self.lift(x, pos, batch, batch_size, time)
        given = (pos, edge_index, batch, measure, batch_size, shape)
        for block, names in zip(self.blocks, self._taken, strict=True):
            h = call_with(block, names, h, given)
        return self.head(self.norm(h))
