from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from meshop.data import InputError
from meshop.nn.functional import argument_names, missing

NODE_ARGUMENTS = ("pos", "edge_index", "batch", "measure", "batch_size", "shape")


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


def taken(layer: nn.Module, known: Sequence[str] = NODE_ARGUMENTS) -> dict[str, bool]:
    """The arguments besides x that a layer takes of those known, and whether it needs them.

    Raises:
        InputError: the layer needs others.

    >>> from torch_geometric.nn import SAGEConv
    >>> taken(SAGEConv(8, 8))
    {'edge_index': True}
    """
    names = dict(list(argument_names(layer).items())[1:])  # the first is x, under whatever name
    if unknown := [name for name, needed in names.items() if needed and name not in known]:
        raise InputError(f"{type(layer).__name__} needs {', '.join(unknown)}; what is there is x, {', '.join(known)}")
    return {name: needed for name, needed in names.items() if name in known}


def call_with(
    layer: nn.Module,
    names: Mapping[str, bool],
    x: Tensor,
    values: Sequence[Any],
    known: Sequence[str] = NODE_ARGUMENTS,
) -> Any:
    """Call a layer on x and, by name, on those of the known arguments' values that it takes.

    Raises:
        InputError: one that it needs was not given.
    """
    given = dict(zip(known, values, strict=True))
    for name, needed in names.items():
        if needed and given[name] is None:
            raise missing(layer, name)
    return layer(x, **{name: given[name] for name in names})
