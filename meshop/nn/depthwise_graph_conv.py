import torch
from torch import Tensor, nn
from torch.nn.functional import gelu
from torch_geometric.utils import scatter

from meshop.data import InputError


class DepthwiseGraphConv(nn.Module):
    r"""A convolution of each channel by itself over the neighbours in a graph, with a continuous kernel: what
    :class:`GridConv` with as many groups as channels is on grids.

    .. math::
        y_i = b + \theta(0) \odot x_i
            + \frac{\sum_j \mu_j\, \theta\bigl( (p_j - p_i) / s_i \bigr) \odot x_j}{\sum_j \mu_j}, \qquad
        s_i^2 = \frac{\sum_j \mu_j \lVert p_j - p_i \rVert^2}{\sum_j \mu_j}

    over the neighbours :math:`j` of node :math:`i` in other places. The kernel :math:`\theta: \mathbb{R}^d \to
    \mathbb{R}^C` is a perceptron. The scale :math:`s_i`, the root mean square distance of the neighbours, makes the
    layer independent of the unit of the coordinates and of the size of the cells; the measure :math:`\mu` (1 without),
    of the splitting of nodes. A node without neighbours keeps the first two terms.

    Time is O(N C + E h C), memory O(E (h + C)), for E edges and a perceptron h wide.

    Args:
        channels: size C of input and output.
        dim: number of coordinates d.
        hidden_channels: width h of the perceptron.

    Shapes:
        - **input:** x [N, C], pos [N, d], edge_index [2, E] from neighbour to node, measure [N]
        - **output:** [N, C]

    Raises:
        InputError: the coordinates are not ``dim``-dimensional.

    >>> layer = DepthwiseGraphConv(3, dim=2)
    >>> layer(torch.ones(2, 3), torch.rand(2, 2), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([2, 3])
    """

    def __init__(self, channels: int, dim: int, hidden_channels: int = 32) -> None:
        super().__init__()
        self.channels = channels
        self.dim = dim
        self.hidden_channels = hidden_channels
        self.lin1 = nn.Linear(dim, hidden_channels)
        self.lin2 = nn.Linear(hidden_channels, channels)
        self.bias = nn.Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The perceptron as in torch, like the convolution it stands for; the bias is zero."""
        self.lin1.reset_parameters()
        self.lin2.reset_parameters()
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, pos: Tensor, edge_index: Tensor, measure: Tensor | None = None) -> Tensor:
        if pos.size(1) != self.dim:
            raise InputError(f"Expected {self.dim} coordinates (got {pos.size(1)})")
        source, target = edge_index
        dtype = torch.promote_types(x.dtype, torch.float32)
        offset = pos.to(dtype)[source] - pos.to(dtype)[target]  # [E, d]
        square = offset.square().sum(1, keepdim=True)  # [E, 1]
        share = (square > 0).to(dtype) if measure is None else measure.to(dtype)[source, None] * (square > 0)  # [E, 1]
        share = share / _positive(_sum(share, target, x))[target]
        scale = _positive(_sum(share * square, target, x)).sqrt()  # [N, 1]
        kernel = self._kernel(offset / scale[target])  # [E, C]
        mean = _sum(share * kernel * x[source], target, x)  # [N, C]
        return (self.bias + self._kernel(offset.new_zeros(1, self.dim)) * x + mean).to(x.dtype)

    def _kernel(self, offset: Tensor) -> Tensor:
        return self.lin2(gelu(self.lin1(offset.to(self.lin1.weight.dtype))))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, dim={self.dim})"


def _sum(message: Tensor, target: Tensor, x: Tensor) -> Tensor:
    return scatter(message, target, dim_size=x.size(0))


def _positive(x: Tensor) -> Tensor:
    """Zeros, of nodes without neighbours, as ones."""
    return x.masked_fill(x == 0, 1)
