from collections.abc import Sequence

from torch import Tensor, nn

from meshop.nn.grid_resample import GridResample
from meshop.nn.spectral_conv import SpectralConv


class GridSpectralConv(nn.Module):
    r"""The layer of the `"Fourier Neural Operator for Parametric Partial Differential Equations"
    <https://arxiv.org/abs/2010.08895>`_ on any mesh: a spectral convolution on a latent grid, a linear map on
    the nodes.

    .. math::
        y = R\, K\, S\, x + W x + b

    with the ways to the grid and back, :math:`S` and :math:`R`, of :class:`GridResample` and the spectral convolution
    :math:`K`, :class:`SpectralConv`. Detail below the grid's resolution passes through W, on the nodes. On nodes that
    form a grid (``shape``) it is exactly FNO's layer without its activation. For another convolution, kernel or
    deformation use :class:`GridResample` itself, where a residual goes around it.

    Time is O(N C (2^d + C') + n C log n + n_K C C'), memory O((N + n) C), for n grid points and n_K kept frequencies.

    Args:
        in_channels: size C of the input.
        out_channels: size C' of the output.
        modes: number of frequencies for each of one to three axes.
        size: points of the grid along each axis; by default it follows each graph.
        margin: widens the box at each face by this share of its extent, see :class:`GridResample`.

    Shapes:
        - **input:** x [N, C], pos [N, d], batch [N], measure [N], shape of nodes that form a grid
        - **output:** [N, C']

    Raises:
        InputError: those of :class:`GridResample` and :class:`SpectralConv`.

    >>> import torch
    >>> layer = GridSpectralConv(3, 8, modes=(4, 4), size=(16, 16))
    >>> layer(torch.ones(50, 3), torch.rand(50, 2)).shape
    torch.Size([50, 8])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        modes: Sequence[int],
        size: Sequence[int] | None = None,
        margin: float = 0.0,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.modes = tuple(modes)
        self.size = None if size is None else tuple(size)
        self.margin = margin
        self.resample = GridResample(SpectralConv(in_channels, out_channels, modes), size, margin=margin)
        self.lin = nn.Linear(in_channels, out_channels)

    def reset_parameters(self) -> None:
        self.resample.reset_parameters()
        self.lin.reset_parameters()

    def forward(
        self,
        x: Tensor,
        pos: Tensor | None = None,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> Tensor:
        return self.resample(x, pos, batch, measure, batch_size, shape) + self.lin(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, modes={self.modes}, size={self.size})"
