from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from meshop.data import InputError
from meshop.nn.functional import call_with, taken


class Parallel(nn.Module):
    r"""Layers side by side, each on its own equal share of the channels.

    .. math::
        y = \mathrm{concat}_k\, \mathrm{layer}_k(x_k), \qquad x = \mathrm{concat}_k\, x_k

    With two :class:`Residual` branches it is the split of Transolver-sigma, with two :class:`SwiGLU` a grouped one.

    Args:
        layers: each from [N, C / K] to its share of the output, with K the number of layers.

    Shapes:
        - **input:** x [N, C], and what the layers need
        - **output:** [N, C']

    Raises:
        InputError: C is no multiple of K; a layer needs an argument that was not given, or that this one does not take.

    >>> Parallel([nn.Identity(), nn.Linear(2, 3)])(torch.ones(5, 4)).shape
    torch.Size([5, 5])
    """

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self._taken = [taken(layer) for layer in layers]

    def reset_parameters(self) -> None:
        for layer in self.layers:
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
        if x.size(1) % len(self.layers) != 0:
            raise InputError(f"Expected channels for {len(self.layers)} equal shares (got {x.size(1)})")
        given = (pos, edge_index, batch, measure, batch_size, shape)
        shares = zip(self.layers, self._taken, x.chunk(len(self.layers), dim=1), strict=True)
        return torch.cat([call_with(layer, names, share, given) for layer, names, share in shares], dim=1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.layers))})"
