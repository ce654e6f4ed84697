from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.functional import gelu

from meshop.nn import FeedForward, GridSpectralConv, Lift


class FNO(nn.Module):
    r"""The `"Fourier Neural Operator for Parametric Partial Differential Equations" <https://arxiv.org/abs/2010.08895>`_
    on any mesh.

    .. math::
        h &= \mathrm{Lift}(x) \\
        h &\leftarrow \mathrm{GELU}(R K S h + W h + b) \qquad (L \text{ times, the last without GELU}) \\
        u &= W_2\, \mathrm{GELU}(W_1 h)

    See :class:`~meshop.nn.GridSpectralConv` for the layer. Each goes to a latent grid and back, so that what the grid
    does not resolve stays on the nodes. On nodes that form a grid (``shape``) this is FNO itself, without padding.

    Differences from the authors' code:

    1. The lift is the perceptron of :class:`~meshop.nn.Lift` and the head as wide as the layers, as in the library of
       Transolver's authors; theirs are a linear map and 128 wide.
    2. Those of :class:`~meshop.nn.SpectralConv`.

    Time is O(L (N C (2^d + C) + n C log n + n_K C²)), memory O(L (N + n) C) in training, for n grid points and n_K kept
    frequencies.

    Args:
        in_channels: size of x, coordinates included.
        hidden_channels: width C.
        num_layers: number of Fourier layers L.
        out_channels: size of the output.
        modes: number of frequencies for each of one to three axes.
        size: points of the latent grid along each axis; by default it follows each graph.
        margin: widens the box of the grid at each face by this share of its extent.
        lift: module from x to hidden features; by default :class:`~meshop.nn.Lift`.

    Shapes:
        - **input:** x [N, in_channels], pos [N, d], batch [N], measure [N], shape (n1, ..., nd), time [B]
        - **output:** [N, out_channels]

    Raises:
        InputError: those of :class:`~meshop.nn.GridSpectralConv`.

    >>> import torch
    >>> model = FNO(3, 16, 2, 1, modes=(4, 4), size=(16, 16))
    >>> model(torch.ones(5, 3), torch.rand(5, 2)).shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        modes: Sequence[int],
        size: Sequence[int] | None = None,
        margin: float = 0.0,
        lift: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.num_layers = num_layers
        self.out_channels = out_channels
        self.modes = tuple(modes)
        self.size = None if size is None else tuple(size)
        self.margin = margin
        self.lift = Lift(in_channels, hidden_channels) if lift is None else lift
        self.layers = nn.ModuleList(
            GridSpectralConv(hidden_channels, hidden_channels, modes, size, margin) for _ in range(num_layers)
        )
        self.head = FeedForward(hidden_channels, hidden_channels, out_channels)

    def reset_parameters(self) -> None:
        for layer in (self.lift, *self.layers, self.head):
            layer.reset_parameters()

    def forward(
        self,
        x: Tensor,
        pos: Tensor | None = None,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
        time: Tensor | None = None,
    ) -> Tensor:
        h = self.lift(x, pos, batch, batch_size, time)
        for i, layer in enumerate(self.layers):
            h = layer(gelu(h) if i > 0 else h, pos, batch, measure, batch_size, shape)
        return self.head(h)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, modes={self.modes}, size={self.size})"
        )
