from collections.abc import Sequence

from torch import Tensor, nn

from meshop.data import InputError
from meshop.nn.grid import grid_to_rows, rows_to_grid


class GridConv(nn.Module):
    r"""A convolution over nodes that form a grid; the zero padding keeps their number.

    .. math::
        y_i = b + \sum_{\lVert k \rVert_\infty \le \lfloor s / 2 \rfloor} W_k\, x_{i + k}

    for a kernel of size :math:`s`, with :math:`x = 0` outside. Nodes are in row-major order (``indexing="ij"``): node
    :math:`i\, n_2 + j` of a graph is entry :math:`(i, j)`. Every graph of a batch is a grid of the same shape.

    Time is O(s^d N C C' / groups), memory O(N (C + C')).

    Args:
        in_channels: size of the input.
        out_channels: size of the output.
        dim: 1, 2 or 3.
        kernel_size: odd number of nodes the kernel spans along each axis.
        groups: equal shares of the channels that are convolved apart; with as many as channels, each by itself.

    Shapes:
        - **input:** x [N, in_channels], batch [N], shape (n1, ..., n_dim)
        - **output:** [N, out_channels]

    Raises:
        InputError: the nodes of each graph are not such a grid.

    >>> import torch
    >>> GridConv(3, 8, dim=2)(torch.ones(20, 3), shape=(4, 5)).shape
    torch.Size([20, 8])
    """

    def __init__(self, in_channels: int, out_channels: int, dim: int, kernel_size: int = 3, groups: int = 1) -> None:
        super().__init__()
        if dim not in (1, 2, 3) or kernel_size % 2 == 0:
            raise InputError(f"Expected dim 1, 2 or 3 and an odd kernel_size (got {dim} and {kernel_size})")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.dim = dim
        self.kernel_size = kernel_size
        self.groups = groups
        conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dim - 1]
        self.conv = conv(in_channels, out_channels, kernel_size, padding=kernel_size // 2, groups=groups)

    def reset_parameters(self) -> None:
        self.conv.reset_parameters()

    def forward(
        self,
        x: Tensor,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> Tensor:
        grid, order = rows_to_grid(x, self.dim, batch, batch_size, shape)
        return grid_to_rows(self.conv(grid), order)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, dim={self.dim})"
