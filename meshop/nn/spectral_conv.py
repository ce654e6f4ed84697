from collections.abc import Sequence

import torch
from torch import Tensor, nn

from meshop.data import InputError
from meshop.nn.functional import full_precision
from meshop.nn.grid import grid_to_rows, rows_to_grid


class SpectralConv(nn.Module):
    r"""The spectral convolution of the `"Fourier Neural Operator for Parametric Partial Differential Equations"
    <https://arxiv.org/abs/2010.08895>`_, on nodes that form a grid.

    With :math:`\hat x_k \in \mathbb{C}^{C}` the discrete Fourier transform of the features of a graph over its grid,

    .. math::
        y = F^{-1}(\hat y), \qquad
        \hat y_k = \begin{cases}
            W_k^\top \hat x_k & 0 \le k_d < K_d \text{ and } -K_a \le k_a < K_a \text{ on the other axes} \\
            0 & \text{otherwise}
        \end{cases}

    for the frequencies :math:`k_d \ge 0` of the real transform of the last axis; the real part answers the rest. There
    is a matrix :math:`W_k \in \mathbb{C}^{C \times C'}` for each frequency. A frequency is a number of waves over the
    grid, so that the same weights serve every resolution.

    Differences from the authors' code:

    1. A grid with fewer frequencies than ``modes`` uses those it has; the blocks of positive and negative frequencies
       never overlap (theirs do for n < 2 K, and the later block silently overwrites the earlier).
    2. The output always has the size of the input, odd sizes included.
    3. Transforms run in float32 at least, whatever autocast says.
    4. Weights are pairs of real numbers, which optimisers and AMP treat like any other weight.
    5. The transform has the norm ``"ortho"``, which changes nothing: the factors of both directions cancel.

    Time is O(N (C + C') log N + N_K C C'), memory O(N (C + C')), for N_K kept frequencies.

    Args:
        in_channels: size C of the input.
        out_channels: size C' of the output.
        modes: number K of frequencies for each of one to three axes.

    Shapes:
        - **input:** x [N, C], batch [N], shape (n1, ..., nd) of the grid, row-major
        - **output:** [N, C']

    Raises:
        InputError: there are not one to three axes with at least one mode each; the nodes are not the promised grid.

    >>> layer = SpectralConv(3, 8, modes=(4, 4))
    >>> layer(torch.ones(35, 3), shape=(7, 5)).shape
    torch.Size([35, 8])
    """

    def __init__(self, in_channels: int, out_channels: int, modes: Sequence[int]) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.modes = check_modes(modes)
        blocks = 2 ** (len(self.modes) - 1)  # one for each combination of signs on all axes but the last
        self.weight = nn.Parameter(torch.empty(blocks, in_channels, out_channels, *self.modes, 2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Real and imaginary parts are uniform on [0, 1 / (C C')], as in the authors' code."""
        nn.init.uniform_(self.weight, 0, 1 / (self.in_channels * self.out_channels))

    def forward(
        self,
        x: Tensor,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> Tensor:
        dim = len(self.modes)
        if x.size(0) == 0:  # MKL refuses to transform nothing
            return x.new_zeros(0, self.out_channels)
        grid, order = rows_to_grid(x, dim, batch, batch_size, shape)
        sizes, axes = grid.shape[2:], list(range(2, 2 + dim))
        with full_precision(x):
            dtype = torch.promote_types(x.dtype, torch.float32)
            spectrum = torch.fft.rfftn(grid.to(dtype), dim=axes, norm="ortho")  # [B, C, n1, ..., nd // 2 + 1]
            mixed = spectrum.new_zeros(spectrum.size(0), self.out_channels, *spectrum.shape[2:])
            for block, weight in enumerate(torch.view_as_complex(self.weight.to(dtype))):
                kept, used = self._frequencies(block, sizes)
                mixed[(..., *kept)] = torch.einsum("bi...,io...->bo...", spectrum[(..., *kept)], weight[(..., *used)])
            y = torch.fft.irfftn(mixed, s=sizes, dim=axes, norm="ortho")
        return grid_to_rows(y.to(x.dtype), order)

    def _frequencies(self, block: int, sizes: Sequence[int]) -> tuple[list[slice], list[slice]]:
        """The entries of the spectrum that a block of weights acts on, and the entries of the block that act."""
        kept, used = [], []
        for axis, (n, modes) in enumerate(zip(sizes[:-1], self.modes, strict=False)):
            if block >> axis & 1:  # frequencies -K to -1 are the last of the spectrum and of the block
                count = min(modes, n // 2)
                kept.append(slice(n - count, n))
                used.append(slice(modes - count, modes))
            else:
                count = min(modes, (n + 1) // 2)
                kept.append(slice(count))
                used.append(slice(count))
        last = slice(min(self.modes[-1], sizes[-1] // 2 + 1))
        return [*kept, last], [*used, last]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, modes={self.modes})"


def check_modes(modes: Sequence[int]) -> tuple[int, ...]:
    """Numbers of frequencies as a tuple.

    Raises:
        InputError: there are not one to three of them, or one is not positive.
    """
    if not 1 <= len(modes) <= 3 or min(modes) < 1:
        raise InputError(f"Expected a positive number of modes for each of one to three axes (got {tuple(modes)})")
    return tuple(modes)
