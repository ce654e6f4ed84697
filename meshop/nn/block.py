from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn.inits import reset

from meshop.data import InputError
from meshop.nn.feed_forward import FeedForward
from meshop.nn.functional import call_with, taken


class Block(nn.Module):
    r"""The pre-norm residual block around any layer that mixes nodes.

    .. math::
        h &\leftarrow h + \mathrm{Mixer}(\mathrm{LN}(h)) \\
        h &\leftarrow h + \mathrm{FFN}(\mathrm{LN}(h))

    The mixer gets the normalised features as its first argument and the others by name, those that it takes: an
    operator of meshop (``batch, measure, shape``), a convolution of PyG (``edge_index``), a layer of torch (none).
    The norms are torch's, over the channels of each node; PyG's own default normalises over whole graphs.

    With ``activation_checkpointing`` set on it, see :func:`checkpoint_activations`, a block keeps its input alone for
    the backward pass and computes the rest again.

    Args:
        mixer: layer from [N, channels] to [N, channels].
        channels: size of the features.
        ffn_ratio: width of the hidden layer of the FFN in units of ``channels``.

    Shapes:
        - **input:** x [N, channels], and what the mixer needs
        - **output:** [N, channels]

    Raises:
        InputError: the mixer needs an argument that was not given, or that no block takes.

    >>> from torch_geometric.nn import SAGEConv
    >>> block = Block(SAGEConv(8, 8), channels=8)
    >>> block(torch.ones(3, 8), edge_index=torch.tensor([[0, 1], [1, 2]])).shape
    torch.Size([3, 8])
    """

    def __init__(self, mixer: nn.Module, channels: int, ffn_ratio: int = 2) -> None:
        super().__init__()
        self.mixer = mixer
        self.channels = channels
        self.ffn_ratio = ffn_ratio
        self.activation_checkpointing = False
        self._taken = taken(mixer)
        self.norm1 = nn.LayerNorm(channels)
        self.norm2 = nn.LayerNorm(channels)
        self.ffn = FeedForward(channels, ffn_ratio * channels, channels)

    def reset_parameters(self) -> None:
        for layer in (self.mixer, self.norm1, self.norm2, self.ffn):
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
    ) -> Tensor:
        given = (pos, edge_index, batch, measure, batch_size, shape)
        if self.activation_checkpointing and torch.is_grad_enabled():
            out: Tensor = checkpoint(self._update, x, given, use_reentrant=False)
            return out
        return self._update(x, given)

    def _update(self, x: Tensor, given: Sequence[Any]) -> Tensor:
        x = x + call_with(self.mixer, self._taken, self.norm1(x), given)
        return x + self.ffn(self.norm2(x))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mixer}, ffn_ratio={self.ffn_ratio})"


def checkpoint_activations(model: nn.Module, on: bool = True) -> None:
    """Let every :class:`Block` of a model keep its input alone for the backward pass, and compute the rest again.

    It takes the time of one more forward pass and L N C numbers for L blocks, instead of several times as many.

    Raises:
        InputError: the model has no blocks.
    """
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    if not blocks:
        raise InputError(f"Expected a model of blocks, whose activations can be made anew (got {type(model).__name__})")
    for block in blocks:
        block.activation_checkpointing = on
