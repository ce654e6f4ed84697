from collections.abc import Sequence

from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from meshop.nn.functional import call_with, taken


class Residual(nn.Module):
    r"""A layer with a norm before it and the residual around it: :math:`x + \mathrm{layer}(\mathrm{LN}(x))`.

    The layer gets the normalised features as its first argument and the others by name, those that it takes, as in
    :class:`Block`, which is two of these. The norm is torch's, over the channels of each node.

    Args:
        layer: from [N, channels] to [N, channels].
        channels: size of the features.

    Shapes:
        - **input:** x [N, channels], and what the layer needs
        - **output:** [N, channels]

    Raises:
        InputError: the layer needs an argument that was not given, or that this one does not take.

    >>> import torch
    >>> Residual(nn.Linear(8, 8), channels=8)(torch.ones(3, 8)).shape
    torch.Size([3, 8])
    """

    def __init__(self, layer: nn.Module, channels: int) -> None:
        super().__init__()
        self.layer = layer
        self.channels = channels
        self.norm = nn.LayerNorm(channels)
        self._taken = taken(layer)

    def reset_parameters(self) -> None:
        reset(self.layer)
        self.norm.reset_parameters()

    def forward(
        self,
        x: Tensor,
        pos: Tensor | None = None,
        edge_index: Tensor | None = None,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> Tensor:
        given = (pos, edge_index, batch, measure, batch_size, shape)
        return x + call_with(self.layer, self._taken, self.norm(x), given)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.layer})"
