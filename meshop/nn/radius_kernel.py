import math

from torch import Tensor, nn
from torch.nn.functional import softplus

from meshop.data import InputError


class RadiusKernel(nn.Module):
    r"""Learned weights of the grid points around a node, for :class:`GridResample`: the kernel of a graph neural
    operator, after `"Geometry-Informed Neural Operator" <https://arxiv.org/abs/2309.00583>`_.

    .. math::
        \kappa(\delta) = \mathrm{softplus}\bigl( \mathrm{MLP}(\delta / r) \bigr)
            \, \bigl( 1 - \lVert \delta \rVert^2 / r^2 \bigr)_+^2

    with :math:`\delta` the offset between node and grid point in units of the grid's spacing.

    Differences from the paper:

    1. Weights are positive, and :class:`GridResample` divides by their sum: the result is an average and reproduces
       constants, where theirs scales with the density of the points.
    2. They fade out at the radius, so that the output is continuous in the coordinates.
    3. The radius is in units of the spacing, in the box of each graph, and not in those of the coordinates. It exceeds
       half the diagonal of a cell, so that every node reaches a grid point; a grid point that reaches no node is filled
       by :class:`GridResample`. With theirs, both are zero.
    4. The kernel sees offsets alone, neither coordinates nor features, so that it commutes with translations.

    Args:
        dim: number of coordinates d.
        channels: 1 to weigh all features alike, or their number for weights of their own.
        radius: in units of the spacing; more than sqrt(d) / 2.
        hidden_channels: width of the perceptron.

    Shapes:
        - **input:** offset [N, d]
        - **output:** [N, channels]

    Raises:
        InputError: the radius leaves places that reach no grid point; the coordinates are not ``dim``-dimensional.

    >>> import torch
    >>> RadiusKernel(2, channels=3)(torch.tensor([[0.0, 0.0], [0.9, 0.9]]))[1].tolist()
    [0.0, 0.0, 0.0]
    """

    def __init__(self, dim: int, channels: int = 1, radius: float = 1.0, hidden_channels: int = 32) -> None:
        super().__init__()
        if not radius > math.sqrt(dim) / 2:
            raise InputError(f"Expected a radius above {math.sqrt(dim) / 2:.3f}, half a cell's diagonal (got {radius})")
        self.dim = dim
        self.channels = channels
        self.radius = radius
        self.hidden_channels = hidden_channels
        self.reach = math.ceil(radius)  # grid points to each side of a node that can have weight
        self.lin1 = nn.Linear(dim, hidden_channels)
        self.lin2 = nn.Linear(hidden_channels, channels)

    def reset_parameters(self) -> None:
        self.lin1.reset_parameters()
        self.lin2.reset_parameters()

    def forward(self, offset: Tensor) -> Tensor:
        if offset.size(1) != self.dim:
            raise InputError(f"Expected {self.dim} coordinates (got {offset.size(1)})")
        offset = offset / self.radius
        window = (1 - offset.square().sum(1, keepdim=True)).clamp_min(0).square()
        return softplus(self.lin2(self.lin1(offset.to(self.lin1.weight.dtype)).tanh())) * window

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dim}, channels={self.channels}, radius={self.radius})"
