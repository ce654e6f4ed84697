from collections.abc import Sequence

from torch import Tensor, nn

from meshop.data import InputError
from meshop.nn.grid import grid_to_rows, rows_to_grid


class DepthwiseGridConv(nn.Module):
    r"""A convolution of each channel by itself, over nodes that form a grid; the zero padding keeps their number.

    Args:
        channels: size of input and output.
        dim: 1, 2 or 3.
        kernel_size: odd number of nodes the kernel spans along each axis.

    Shapes:
        - **input:** x [N, channels], batch [N], shape (n1, ..., n_dim), row-major
        - **output:** [N, channels]

    Raises:
        InputError: ``dim`` or ``kernel_size`` does not fit; the nodes of each graph are not such a grid.

    >>> import torch
    >>> DepthwiseGridConv(3, dim=2)(torch.ones(20, 3), shape=(4, 5)).shape
    torch.Size([20, 3])
    """

    def __init__(self, channels: int, dim: int, kernel_size: int = 3) -> None:
        super().__init__()
        if dim not in (1, 2, 3) or kernel_size % 2 == 0:
            raise InputError(f"Expected dim 1, 2 or 3 and an odd kernel_size (got {dim} and {kernel_size})")
        self.channels = channels
        self.dim = dim
        self.kernel_size = kernel_size
        conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dim - 1]
        self.conv = conv(channels, channels, kernel_size, padding=kernel_size // 2, groups=channels)

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
        return f"{type(self).__name__}({self.channels}, dim={self.dim}, kernel_size={self.kernel_size})"
