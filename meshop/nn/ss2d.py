from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, softplus

from meshop.data import InputError
from meshop.nn.grid import grid_to_rows, rows_to_grid
from meshop.nn.ssd import Discretization, ssd


class SS2D(nn.Module):
    r"""The four-way scan of a grid, the mixer of LaMO's grid variant, from `"VMamba: Visual State Space Model"
    <https://arxiv.org/abs/2401.10166>`_ with the scan of Mamba-2.

    With :math:`(x, z) = W_{in} h` and a depthwise convolution :math:`u = \mathrm{GELU}(\mathrm{conv}_{3 \times 3}(x))`,
    the nodes are lined up row by row, column by column, and both in reverse. Along each of these four sequences

    .. math::
        (\delta, B, C) &= W_k u, \qquad \Delta = \mathrm{softplus}(\delta + b_k), \qquad A = -e^{\alpha_k} \\
        r_k &= \mathrm{SSD}(u; \Delta, A, B, C) + D_k u

    (:func:`~meshop.nn.ssd.ssd`), and every node sums its four values,

    .. math::
        y = W_{out} \bigl[ \mathrm{LN} \bigl( \textstyle\sum_k r_k \bigr) \odot \mathrm{GELU}(z) \bigr].

    Differences from the authors' code:

    1. The text of LaMO's paper speaks of the four corners from which the grid is scanned; their code, and this layer,
       scans rows and columns forward and in reverse.
    2. Grids of any shape; no CUDA kernel is needed.
    3. ``discretization="zoh"`` is the rule of the paper; their code, and the default here, takes
       :math:`\bar B = \Delta B`.

    Time is O(N C (C + S + Q)), memory O(N (C + S + H Q)), for state size S, H heads, chunks of Q ≤ 128 nodes.

    Args:
        channels: size C of input and output.
        state_channels: size S of the state of each inner channel.
        expand: inner size in units of ``channels``.
        heads: groups of inner channels that share a step size; one for 16 ``channels``, rounded up, if not given.
        kernel_size: nodes that the convolution spans along an axis, an odd number.
        discretization: see :func:`~meshop.nn.ssd.ssd`.

    Shapes:
        - **input:** x [N, C] in row-major order, batch [N], shape (n1, n2) of the grid
        - **output:** [N, C]

    Raises:
        InputError: the inner channels do not divide into heads; ``kernel_size`` is even; the nodes are not such a grid.

    >>> SS2D(16, state_channels=4)(torch.ones(20, 16), shape=(4, 5)).shape
    torch.Size([20, 16])
    """

    def __init__(
        self,
        channels: int,
        state_channels: int = 64,
        expand: int = 2,
        heads: int | None = None,
        kernel_size: int = 3,
        discretization: Discretization = "mamba",
    ) -> None:
        super().__init__()
        self.channels = channels
        self.state_channels = state_channels
        self.expand = expand
        self.heads = -(-channels // 16) if heads is None else heads
        self.kernel_size = kernel_size
        self.discretization: Discretization = discretization
        inner = expand * channels
        if inner % self.heads:
            raise InputError(f"Expected heads to divide the {inner} inner channels (got {self.heads})")
        if kernel_size % 2 == 0:
            raise InputError(f"Expected an odd kernel_size (got {kernel_size})")
        self.lin_in = nn.Linear(channels, 2 * inner, bias=False)
        self.conv = nn.Conv2d(inner, inner, kernel_size, padding=kernel_size // 2, groups=inner)
        self.scan = nn.Parameter(torch.empty(4, self.heads + 2 * state_channels, inner))
        self.dt_bias = nn.Parameter(torch.empty(4, self.heads))
        self.A_log = nn.Parameter(torch.empty(4, self.heads))
        self.D = nn.Parameter(torch.empty(4, self.heads, inner // self.heads))
        self.norm = nn.LayerNorm(inner)
        self.lin_out = nn.Linear(inner, channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for layer in (self.lin_in, self.conv, self.norm, self.lin_out):
            layer.reset_parameters()
        bound = self.scan.size(-1) ** -0.5
        nn.init.uniform_(self.scan, -bound, bound)
        nn.init.uniform_(self.dt_bias, 0, 0.1)
        nn.init.zeros_(self.A_log)
        nn.init.ones_(self.D)

    def forward(
        self,
        x: Tensor,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> Tensor:
        x, z = self.lin_in(x).chunk(2, dim=-1)
        grid, order = rows_to_grid(x, 2, batch, batch_size, shape)
        u = gelu(self.conv(grid))  # [B, C', n1, n2]
        lines = torch.stack([u.flatten(2), u.mT.flatten(2)], dim=-1).permute(0, 2, 3, 1)  # [B, L, 2, C']
        lines = torch.cat([lines, lines.flip(1)], dim=2)  # [B, L, 4, C']
        dt, B, C = torch.einsum("blkc,koc->blko", lines, self.scan).split(
            [self.heads, self.state_channels, self.state_channels], dim=-1
        )
        lines = lines.unflatten(-1, (self.heads, -1))  # [B, L, 4, R, P]
        delta = softplus(dt + self.dt_bias)  # [B, L, 4, R]
        A = -self.A_log.exp().flatten()
        y = ssd(lines.flatten(2, 3), delta.flatten(2, 3), A, B, C, discretization=self.discretization)
        y = (y.unflatten(2, (4, -1)) + self.D * lines).flatten(3)  # [B, L, 4, C']
        rows, columns = (y[:, :, :2] + y[:, :, 2:].flip(1)).permute(2, 0, 3, 1)  # 2 of [B, C', L]
        y = grid_to_rows(rows.reshape(u.shape) + columns.reshape(u.mT.shape).mT, order)
        return self.lin_out(self.norm(y) * gelu(z))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, state_channels={self.state_channels}, expand={self.expand})"
