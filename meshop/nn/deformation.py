import math

import torch
from torch import Tensor, nn

from meshop.data import InputError


class Deformation(nn.Module):
    r"""A learned deformation of the unit box, for :class:`GridResample`, after `"Fourier Neural Operator with Learned
    Deformations for PDEs on General Geometries" (Geo-FNO) <https://arxiv.org/abs/2207.05209>`_.

    .. math::
        \xi = u + u (1 - u)\, \tanh \mathrm{MLP}\bigl( [u, \sin 2^k \pi u, \cos 2^k \pi u]_{k < K} \bigr)

    Differences from the authors' code:

    1. The box is mapped into itself, faces to faces, so that no node leaves the grid; theirs is unbounded.
    2. It starts as the identity, the last map of the perceptron being zero.
    3. Coordinates are those of the box of each graph: neither a centre nor a scale is fixed in the code.
    4. :class:`GridResample` then splats to a grid and interpolates; theirs sums Fourier modes over the nodes.

    Args:
        dim: number of coordinates d.
        hidden_channels: width of the perceptron.
        num_frequencies: number K of octaves.

    Shapes:
        - **input:** pos [N, d] in [0, 1], :math:`u` above
        - **output:** [N, d] in [0, 1]

    Raises:
        InputError: the coordinates are not ``dim``-dimensional.

    >>> pos = torch.rand(4, 2)
    >>> bool((Deformation(2)(pos) == pos).all())
    True
    """

    def __init__(self, dim: int, hidden_channels: int = 32, num_frequencies: int = 4) -> None:
        super().__init__()
        self.dim = dim
        self.hidden_channels = hidden_channels
        self.num_frequencies = num_frequencies
        self.lin1 = nn.Linear(dim * (1 + 2 * num_frequencies), hidden_channels)
        self.lin2 = nn.Linear(hidden_channels, hidden_channels)
        self.lin3 = nn.Linear(hidden_channels, dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.lin1.reset_parameters()
        self.lin2.reset_parameters()
        nn.init.zeros_(self.lin3.weight)
        nn.init.zeros_(self.lin3.bias)

    def forward(self, pos: Tensor) -> Tensor:
        if pos.size(1) != self.dim:
            raise InputError(f"Expected {self.dim} coordinates (got {pos.size(1)})")
        angle = torch.cat([pos * (2**k * math.pi) for k in range(self.num_frequencies)], dim=1)
        wave = torch.cat([pos, angle.sin(), angle.cos()], dim=1).to(self.lin1.weight.dtype)
        shift = self.lin3(self.lin2(self.lin1(wave).tanh()).tanh()).tanh()
        return pos + pos * (1 - pos) * shift.to(pos.dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dim}, hidden_channels={self.hidden_channels})"
