import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from meshop.nn.functional import full_precision
from meshop.nn.grid import grid_to_rows, rows_to_grid
from meshop.nn.spectral_conv import check_modes


class FactorizedSpectralConv(nn.Module):
    r"""The axis-factorised spectral convolution of `"Factorized Fourier Neural Operators"
    <https://arxiv.org/abs/2111.13802>`_, on nodes that form a grid.

    With :math:`F_a` the real Fourier transform along axis :math:`a` alone,

    .. math::
        y = \sum_a F_a^{-1} \bigl( \hat y^{(a)} \bigr), \qquad
        \hat y^{(a)}_k = \begin{cases}
            W_{a,k}^\top\, (F_a x)_k & k < K_a \\
            0 & \text{otherwise}
        \end{cases}

    with one matrix :math:`W_{a,k} \in \mathbb{C}^{C \times C'}` for each frequency of each axis and neither bias nor
    output map: :math:`2 C C' \sum_a K_a` parameters where :class:`SpectralConv` has :math:`2^d C C' \prod_a K_a`. A
    frequency is a number of waves over the grid, so that the same weights serve every resolution. This is also the
    spectral half of Transolver-sigma.

    Differences from the authors' code:

    1. The F-FNO paper puts a feed-forward network after the sum; it is not part of this layer
       (``Residual`` or :class:`Block` bring theirs).
    2. A grid with fewer than ``modes`` frequencies along an axis uses those it has.
    3. The output always has the size of the input, odd sizes included.
    4. Transforms run in float32 at least, whatever autocast says.

    Time is O(N C log N + N C C' sum_a K_a / n_a), memory O(N (C + C')), for n_a nodes along axis a.

    Args:
        in_channels: size C of the input.
        out_channels: size C' of the output.
        modes: number K of frequencies for each of one to three axes.

    Shapes:
        - **input:** x [N, C], batch [N], shape (n1, ..., nd) of the grid, row-major
        - **output:** [N, C']

    Raises:
        InputError: there are not one to three axes with at least one mode each; the nodes are not the promised grid.

    >>> layer = FactorizedSpectralConv(3, 8, modes=(4, 4))
    >>> layer(torch.ones(35, 3), shape=(7, 5)).shape
    torch.Size([35, 8])
    """

    def __init__(self, in_channels: int, out_channels: int, modes: Sequence[int]) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.modes = check_modes(modes)
        self.weights = nn.ParameterList(torch.empty(in_channels, out_channels, count, 2) for count in self.modes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier's normal distribution on the real numbers, frequencies counted as its receptive field."""
        for weight, count in zip(self.weights, self.modes, strict=True):
            nn.init.normal_(weight, std=1 / math.sqrt(count * (self.in_channels + self.out_channels)))

    def forward(
        self,
        x: Tensor,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> Tensor:
        if x.size(0) == 0:  # MKL refuses to transform nothing
            return x.new_zeros(0, self.out_channels)
        grid, order = rows_to_grid(x, len(self.modes), batch, batch_size, shape)
        with full_precision(x):
            dtype = torch.promote_types(x.dtype, torch.float32)
            grid = grid.to(dtype)
            y = grid.new_zeros(())
            for axis, weight in enumerate(self.weights, start=2):
                line = _filter(grid.movedim(axis, -1), torch.view_as_complex(weight.to(dtype)))
                y = y + line.movedim(-1, axis)
        return grid_to_rows(y.to(x.dtype), order)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, modes={self.modes})"


def _filter(line: Tensor, weight: Tensor) -> Tensor:
    """Mix the channels of each frequency along the last axis: lines [B, C, ..., n], weight [C, C', K]."""
    n = line.size(-1)
    count = min(weight.size(-1), n // 2 + 1)
    spectrum = torch.fft.rfft(line, norm="ortho")[..., :count]
    mixed = torch.einsum("bi...k,iok->bo...k", spectrum, weight[..., :count])
    return torch.fft.irfft(mixed, n=n, norm="ortho")  # the frequencies that are left out count as zero
