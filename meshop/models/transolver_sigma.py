"""Transolver-sigma and its two halves as models of their own."""

from collections.abc import Sequence

from torch import Tensor, nn

from meshop.data import InputError
from meshop.models.stack import Stack
from meshop.nn import (
    ConditionalPositionEncoding,
    DepthwiseGraphConv,
    FactorizedSpectralConv,
    GridConv,
    GridResample,
    Parallel,
    Residual,
    SliceResidualAttention,
    SwiGLU,
)


class TransolverSigma(nn.Module):
    r"""Transolver-sigma: half of the channels through slices, half through Fourier modes.

    .. math::
        h &= \mathrm{Lift}(x) \\
        h &\leftarrow h + \mathrm{local}(h) \\
        [h_s, h_p] &= h, \quad
        h_p \leftarrow h_p + \mathrm{SRPA}(\mathrm{LN}(h_p)), \quad
        h_s \leftarrow h_s + \mathrm{Spectral}(\mathrm{LN}(h_s)), \quad
        h = [h_s, h_p] \\
        h &\leftarrow h + \mathrm{SwiGLU}(\mathrm{LN}(h)) \qquad (L \text{ times from the second line}) \\
        u &= W\, \mathrm{LN}(h)

    with :class:`~meshop.nn.ConditionalPositionEncoding` in the second line,
    :class:`~meshop.nn.SliceResidualAttention` and :class:`~meshop.nn.FactorizedSpectralConv`. On grids (``grid_dim``)
    this is the paper's model with the paper's number of parameters; it has no public code.

    The paper knows grids only. On other meshes (ours):

    1. Depthwise convolutions over three and five nodes become :class:`~meshop.nn.DepthwiseGraphConv` over neighbours.
    2. The spectral half goes to a latent grid and back by :class:`~meshop.nn.GridResample`; its residual stays on the
       nodes.

    Another layer is a :class:`Stack` of other blocks: leave one out, put ``nn.Identity()`` for a branch,
    :class:`~meshop.nn.PhysicsAttention` for SRPA, two :class:`~meshop.nn.SwiGLU` in a :class:`~meshop.nn.Parallel`, or
    the branches one after the other.

    Time is O(L (N C² + N M C + N C log N + E C)), memory O(L (N C + M C + E C)) in training, for
    E edges, 0 on grids.

    Args:
        in_channels: size of x, coordinates included.
        hidden_channels: width C, an even multiple of ``heads``.
        num_layers: number of layers L.
        out_channels: size of the output.
        heads: number of heads of the attention.
        num_slices: number of slices M.
        modes: number of frequencies along each of one to three axes.
        grid_dim: number of axes for nodes on a grid in row-major order that pass their ``shape``; None for meshes.
        size: points of the latent grid of meshes along each axis; by default it follows each graph.
        lift: module from x to hidden features; by default :class:`~meshop.nn.Lift`, which also takes a position (the
            paper's :class:`~meshop.nn.UnifiedPosition`) and a time embedding.

    Shapes:
        - **input:** x [N, in_channels], pos [N, d], edge_index [2, E], batch [N], measure [N], shape (n1, ..., nd),
          time [B]; meshes need pos and edge_index, grids shape
        - **output:** [N, out_channels]

    Raises:
        InputError: ``grid_dim`` is not the number of ``modes``; half the channels are no multiple of ``heads``; an
            argument that the layers need was not given.

    >>> import torch
    >>> model = TransolverSigma(3, 32, 2, 1, heads=4, num_slices=8, modes=(4, 4), grid_dim=2)
    >>> model(torch.ones(30, 3), shape=(5, 6)).shape
    torch.Size([30, 1])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        heads: int = 8,
        num_slices: int = 64,
        modes: Sequence[int] = (8, 8),
        grid_dim: int | None = None,
        size: Sequence[int] | None = None,
        lift: nn.Module | None = None,
    ) -> None:
        super().__init__()
        dim, half = len(modes), hidden_channels // 2
        _check_dim(grid_dim, dim)
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.num_layers = num_layers
        self.out_channels = out_channels
        self.heads = heads
        self.num_slices = num_slices
        self.modes = tuple(modes)
        self.grid_dim = grid_dim
        self.size = None if size is None else tuple(size)
        blocks: list[nn.Module] = []
        for _ in range(num_layers):
            spectral = GridResample(FactorizedSpectralConv(half, half, modes), size)
            attention = _attention(half, heads, num_slices, dim, grid_dim)
            blocks += [
                ConditionalPositionEncoding(_local(hidden_channels, dim, grid_dim, kernel_size=3)),
                Parallel([Residual(spectral, half), Residual(attention, half)]),
                Residual(SwiGLU(hidden_channels), hidden_channels),
            ]
        self.stack = Stack(in_channels, hidden_channels, out_channels, blocks, lift)

    @property
    def lift(self) -> nn.Module:
        return self.stack.lift

    def reset_parameters(self) -> None:
        self.stack.reset_parameters()

    def forward(
        self,
        x: Tensor,
        pos: Tensor | None = None,
        edge_index: Tensor | None = None,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
        time: Tensor | None = None,
    ) -> Tensor:
        return self.stack(x, pos, edge_index, batch, measure, batch_size, shape, time)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, num_slices={self.num_slices}, modes={self.modes})"
        )


class Physolver(nn.Module):
    r"""The physical half of :class:`TransolverSigma` as a model, at full width.

    .. math::
        h &= \mathrm{Lift}(x) \\
        h &\leftarrow h + \mathrm{local}(h), \quad
        h \leftarrow h + \mathrm{SRPA}(\mathrm{LN}(h)), \quad
        h \leftarrow h + \mathrm{SwiGLU}(\mathrm{LN}(h)) \qquad (L \text{ times}) \\
        u &= W\, \mathrm{LN}(h)

    Time is O(L (N C² + N M C + E C)), memory O(L (N C + M C + E C)) in training, for E edges, 0 on grids.

    Args:
        in_channels: size of x, coordinates included.
        hidden_channels: width C.
        num_layers: number of layers L.
        out_channels: size of the output.
        heads: number of heads of the attention.
        num_slices: number of slices M.
        dim: number of coordinates d.
        grid_dim: d for nodes on a grid in row-major order that pass their ``shape``; None for meshes.
        lift: module from x to hidden features; by default :class:`~meshop.nn.Lift`.

    Shapes:
        - **input:** x [N, in_channels], pos [N, d], edge_index [2, E], batch [N], measure [N], shape (n1, ..., nd),
          time [B]; meshes need pos and edge_index, grids shape
        - **output:** [N, out_channels]

    Raises:
        InputError: ``grid_dim`` is not ``dim``; C is no multiple of ``heads``; an argument that the layers need was not
            given.

    >>> import torch
    >>> Physolver(3, 16, 2, 1, grid_dim=2)(torch.ones(30, 3), shape=(5, 6)).shape
    torch.Size([30, 1])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        heads: int = 8,
        num_slices: int = 64,
        dim: int = 2,
        grid_dim: int | None = None,
        lift: nn.Module | None = None,
    ) -> None:
        super().__init__()
        _check_dim(grid_dim, dim)
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.num_layers = num_layers
        self.out_channels = out_channels
        self.heads = heads
        self.num_slices = num_slices
        self.dim = dim
        self.grid_dim = grid_dim
        blocks: list[nn.Module] = []
        for _ in range(num_layers):
            attention = _attention(hidden_channels, heads, num_slices, dim, grid_dim)
            blocks += [
                ConditionalPositionEncoding(_local(hidden_channels, dim, grid_dim, kernel_size=3)),
                Residual(attention, hidden_channels),
                Residual(SwiGLU(hidden_channels), hidden_channels),
            ]
        self.stack = Stack(in_channels, hidden_channels, out_channels, blocks, lift)

    @property
    def lift(self) -> nn.Module:
        return self.stack.lift

    def reset_parameters(self) -> None:
        self.stack.reset_parameters()

    def forward(
        self,
        x: Tensor,
        pos: Tensor | None = None,
        edge_index: Tensor | None = None,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
        time: Tensor | None = None,
    ) -> Tensor:
        return self.stack(x, pos, edge_index, batch, measure, batch_size, shape, time)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, num_slices={self.num_slices})"
        )


class Specsolver(nn.Module):
    r"""The spectral half of :class:`TransolverSigma` as a model, at full width.

    .. math::
        h &= \mathrm{Lift}(x) \\
        h &\leftarrow h + \mathrm{local}(h), \quad
        h \leftarrow h + \mathrm{Spectral}(\mathrm{LN}(h)), \quad
        h \leftarrow h + \mathrm{SwiGLU}(\mathrm{LN}(h)) \qquad (L \text{ times}) \\
        u &= W\, \mathrm{LN}(h)

    Time is O(L (N C² + N C log N + E C)), memory O(L (N C + E C)) in training, for E edges, 0 on grids.

    Args:
        in_channels: size of x, coordinates included.
        hidden_channels: width C.
        num_layers: number of layers L.
        out_channels: size of the output.
        modes: number of frequencies along each of one to three axes.
        grid_dim: number of axes for nodes on a grid in row-major order that pass their ``shape``; None for meshes.
        size: points of the latent grid of meshes along each axis; by default it follows each graph.
        lift: module from x to hidden features; by default :class:`~meshop.nn.Lift`.

    Shapes:
        - **input:** x [N, in_channels], pos [N, d], edge_index [2, E], batch [N], measure [N], shape (n1, ..., nd),
          time [B]; meshes need pos and edge_index, grids shape
        - **output:** [N, out_channels]

    Raises:
        InputError: ``grid_dim`` is not the number of ``modes``; an argument that the layers need was not given.

    >>> import torch
    >>> Specsolver(3, 16, 2, 1, modes=(4, 4), grid_dim=2)(torch.ones(30, 3), shape=(5, 6)).shape
    torch.Size([30, 1])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        modes: Sequence[int] = (8, 8),
        grid_dim: int | None = None,
        size: Sequence[int] | None = None,
        lift: nn.Module | None = None,
    ) -> None:
        super().__init__()
        dim = len(modes)
        _check_dim(grid_dim, dim)
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.num_layers = num_layers
        self.out_channels = out_channels
        self.modes = tuple(modes)
        self.grid_dim = grid_dim
        self.size = None if size is None else tuple(size)
        blocks: list[nn.Module] = []
        for _ in range(num_layers):
            spectral = GridResample(FactorizedSpectralConv(hidden_channels, hidden_channels, modes), size)
            blocks += [
                ConditionalPositionEncoding(_local(hidden_channels, dim, grid_dim, kernel_size=3)),
                Residual(spectral, hidden_channels),
                Residual(SwiGLU(hidden_channels), hidden_channels),
            ]
        self.stack = Stack(in_channels, hidden_channels, out_channels, blocks, lift)

    @property
    def lift(self) -> nn.Module:
        return self.stack.lift

    def reset_parameters(self) -> None:
        self.stack.reset_parameters()

    def forward(
        self,
        x: Tensor,
        pos: Tensor | None = None,
        edge_index: Tensor | None = None,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
        time: Tensor | None = None,
    ) -> Tensor:
        return self.stack(x, pos, edge_index, batch, measure, batch_size, shape, time)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, modes={self.modes})"
        )


def _attention(channels: int, heads: int, num_slices: int, dim: int, grid_dim: int | None) -> nn.Module:
    local_x, local_f = (_local(channels, dim, grid_dim, kernel_size=5) for _ in range(2))
    return SliceResidualAttention(channels, heads, num_slices, local_x, local_f)


def _local(channels: int, dim: int, grid_dim: int | None, kernel_size: int) -> nn.Module:
    if grid_dim is None:
        return DepthwiseGraphConv(channels, dim)
    return GridConv(channels, channels, dim, kernel_size, groups=channels)


def _check_dim(grid_dim: int | None, dim: int) -> None:
    if grid_dim not in (None, dim):
        raise InputError(f"Expected grid_dim to be the number of axes, {dim} (got {grid_dim})")
