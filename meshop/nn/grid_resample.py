import itertools
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad
from torch_geometric.nn.inits import reset

from meshop.data import InputError
from meshop.domain import all_reduce, domain_parallel, num_graphs, scatter
from meshop.nn.functional import call_with, full_precision, missing, taken

GRID_ARGUMENTS = ("batch", "batch_size", "shape")


class GridResample(nn.Module):
    r"""A layer for grids on nodes that form none: nodes to a regular latent grid, the layer there, and back, as in
    `"Fourier Neural Operator with Learned Deformations for PDEs on General Geometries" (Geo-FNO)
    <https://arxiv.org/abs/2207.05209>`_ and `"Geometry-Informed Neural Operator" <https://arxiv.org/abs/2309.00583>`_.

    .. math::
        y = R\bigl( \mathrm{operator}( S x ) \bigr)

    The bounding box of each graph carries a grid of its own. With :math:`m_n` the measure of node :math:`n` (1 without)
    and weights :math:`\kappa_{nc} = \kappa(\delta_{nc})` of its offset :math:`\delta_{nc}` from grid point :math:`c`,
    in units of the spacing along each axis,

    .. math::
        S: \quad g_c &= \Bigl( \sum_n m_n \kappa_{nc} x_n + r_c\, \bar g_c \Bigr) \Big/
                        \Bigl( \sum_n m_n \kappa_{nc} + r_c \Bigr) \\
        R: \quad y_n &= \sum_c \kappa_{nc}\, g_c \Big/ \sum_c \kappa_{nc}

    By default :math:`\kappa(\delta) = \prod_a (1 - |\delta_a|)_+`: a multilinear splat, and multilinear interpolation.
    A grid point with less than a thousandth of the mean weight of all is filled up to it, by :math:`r_c`, from
    :math:`\bar g_c`: the same average over grid points joined in pairs along each axis, itself filled from the next
    coarser one, up to the whole box. So holes and margins continue their surroundings smoothly, and a node that moves
    across a grid line changes nothing abruptly.

    Both ways reproduce constants; :math:`R` reproduces linear fields. Splitting a node's measure changes nothing.

    Without a ``size`` each graph has its own, made for about one grid point a node: with h such that the box holds as
    many cubes of edge h as the graph has distinct places, axis a gets the power of two nearest to its extent / h, a
    thin axis two points, an axis without extent one. Graphs of equal size go through the operator together.

    What has no counterpart on the grid belongs on the nodes: use it where a residual goes around it, as in
    :class:`Block`, or with a map of the nodes beside it, as in :class:`GridSpectralConv`. Nodes that form a grid
    already (``shape``) go straight through the operator.

    Time is O(2^d N C + n C), memory O((N + n) C), for n grid points, beside the operator's. There is no neighbour
    search; a kernel that reaches further has (2 reach)^d terms in place of 2^d.

    Args:
        operator: layer for grids, such as :class:`SpectralConv` or :class:`GridConv`: takes x, and by name what it
            wants of batch, batch_size and shape.
        size: points of the grid along each axis; by default it follows each graph.
        kernel_in: weights of the way to the grid, such as :class:`RadiusKernel`; multilinear by default.
        kernel_out: weights of the way back; multilinear by default.
        deformation: module that moves coordinates within the unit box, such as :class:`Deformation`.
        margin: widens the box at each face by this share of its extent, so that a periodic operator does not join
            opposite ends of the mesh at once.

    Shapes:
        - **input:** x [N, C], pos [N, d], batch [N], measure [N], shape of nodes that form a grid
        - **output:** [N, C'] for an operator from C to C' channels

    Raises:
        InputError: the operator needs other arguments; there is no ``pos``; it has another dimension than ``size``.

    >>> layer = GridResample(nn.Identity(), size=(5, 5))
    >>> pos = torch.rand(40, 2)
    >>> bool((layer(torch.full((40, 3), 7.0), pos) - 7).abs().max() < 1e-5)
    True
    """

    def __init__(
        self,
        operator: nn.Module,
        size: Sequence[int] | None = None,
        kernel_in: nn.Module | None = None,
        kernel_out: nn.Module | None = None,
        deformation: nn.Module | None = None,
        margin: float = 0.0,
    ) -> None:
        super().__init__()
        if size is not None and (not 1 <= len(size) <= 3 or min(size) < 1):
            raise InputError(f"Expected a positive size for each of one to three axes (got {tuple(size)})")
        if margin < 0:
            raise InputError(f"Expected a margin of zero or more (got {margin})")
        self.operator = operator
        self.size = None if size is None else tuple(size)
        self.kernel_in = kernel_in
        self.kernel_out = kernel_out
        self.deformation = deformation
        self.margin = margin
        self._taken = taken(operator, GRID_ARGUMENTS)

    def reset_parameters(self) -> None:
        for layer in (self.operator, self.kernel_in, self.kernel_out, self.deformation):
            reset(layer)

    def forward(
        self,
        x: Tensor,
        pos: Tensor | None = None,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> Tensor:
        if shape is not None:
            return self._operate(x, batch, batch_size, shape)
        if pos is None:
            raise missing(self, "pos")
        batch, graphs = _graphs(pos, batch, batch_size)
        if graphs == 0:
            return self._operate(x, batch, 0, (1,) * pos.size(1))
        if self.size is not None:
            return self._through(x, pos, batch, measure, graphs, self.size)
        sizes = grid_size(pos, batch, graphs)  # [B, d]
        nodes, parts = [], []
        for size in sizes.unique(dim=0):
            member = (sizes == size).all(1)  # [B]
            node = member[batch].nonzero()[:, 0]
            number = (member.cumsum(0) - 1)[batch[node]]
            weight = None if measure is None else measure[node]
            nodes.append(node)
            parts.append(self._through(x[node], pos[node], number, weight, int(member.sum()), size.tolist()))
        y = torch.cat(parts)
        return torch.empty_like(y).index_copy(0, torch.cat(nodes), y)

    def to_grid(
        self,
        x: Tensor,
        pos: Tensor,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """The way to the grid alone: nodes [N, C] to grids [B, C, size], for networks that take dense grids.

        Raises:
            InputError: the layer has no ``size``; ``pos`` has another dimension.
        """
        if self.size is None:
            raise InputError(f"{type(self).__name__}.to_grid needs a size that all graphs share; give size=(n1, ...)")
        batch, graphs = _graphs(pos, batch, batch_size)
        return self._splat(x, self._place(pos, batch, graphs, self.size), batch, measure, graphs, self.size)

    def to_nodes(self, grid: Tensor, pos: Tensor, batch: Tensor | None = None, batch_size: int | None = None) -> Tensor:
        """The way back alone: grids [B, C, n1, ..., nd] to nodes [N, C].

        Raises:
            InputError: ``pos`` has another dimension than the grid.
        """
        batch, graphs = _graphs(pos, batch, batch_size)
        size = grid.shape[2:]
        return self._sample(grid.movedim(1, -1).flatten(0, -2), self._place(pos, batch, graphs, size), batch, size)

    def _through(
        self, x: Tensor, pos: Tensor, batch: Tensor, measure: Tensor | None, graphs: int, size: Sequence[int]
    ) -> Tensor:
        place = self._place(pos, batch, graphs, size)
        rows = self._splat(x, place, batch, measure, graphs, size).movedim(1, -1).flatten(0, -2)
        number = torch.arange(graphs, device=x.device).repeat_interleave(math.prod(size))
        with domain_parallel(None):  # every process has the whole grid
            rows = self._operate(rows, number, graphs, size)
        return self._sample(rows, place, batch, size)

    def _operate(self, rows: Tensor, batch: Tensor | None, graphs: int | None, shape: Sequence[int]) -> Tensor:
        return call_with(self.operator, self._taken, rows, (batch, graphs, shape), GRID_ARGUMENTS)

    def _place(self, pos: Tensor, batch: Tensor, graphs: int, size: Sequence[int]) -> Tensor:
        """Coordinates [N, d] in the grid of each graph: point (i, j) is at (i, j)."""
        if pos.size(1) != len(size):
            raise InputError(f"Expected {len(size)} coordinates for the grid {tuple(size)} (got {pos.size(1)})")
        pos = pos.to(torch.promote_types(pos.dtype, torch.float32))
        lower, upper = (scatter(pos, batch, dim_size=graphs, reduce=how) for how in ("min", "max"))
        extent = (upper - lower)[batch]
        flat = extent == 0
        unit = ((pos - lower[batch]) / extent.masked_fill(flat, 1)).masked_fill(flat, 0.5)
        if self.deformation is not None:
            with full_precision(unit):
                unit = self.deformation(unit)
        return (unit + self.margin) / (1 + 2 * self.margin) * (pos.new_tensor(size) - 1)

    def _splat(
        self, x: Tensor, place: Tensor, batch: Tensor, measure: Tensor | None, graphs: int, size: Sequence[int]
    ) -> Tensor:
        with full_precision(x):
            dtype = torch.promote_types(x.dtype, torch.float32)
            share = x.new_ones(x.size(0), 1, dtype=dtype)
            if measure is not None:
                whole = scatter(measure.to(dtype), batch, dim_size=graphs).clamp_min(torch.finfo(dtype).tiny)  # [B]
                share = (measure.to(dtype) / whole[batch])[:, None]
            cells = graphs * math.prod(size)
            total = share.new_zeros(cells, x.size(1))
            mass = share.new_zeros(cells, _channels(self.kernel_in, x))
            for cell, weight in _stencil(self.kernel_in, place, batch, size):
                weight = share * weight.to(dtype)
                total.index_add_(0, cell, weight * x.to(dtype))
                mass.index_add_(0, cell, weight)
            total, mass = (all_reduce(t, "sum").view(graphs, *size, -1).movedim(-1, 1) for t in (total, mass))
            least = 1e-3 * mass.mean(list(range(2, mass.dim())), keepdim=True)
            return _fill(total, mass, least).to(x.dtype)

    def _sample(self, rows: Tensor, place: Tensor, batch: Tensor, size: Sequence[int]) -> Tensor:
        with full_precision(rows):
            dtype = torch.promote_types(rows.dtype, torch.float32)
            total = rows.new_zeros(place.size(0), rows.size(1), dtype=dtype)
            mass = rows.new_zeros(place.size(0), _channels(self.kernel_out, rows), dtype=dtype)
            for cell, weight in _stencil(self.kernel_out, place, batch, size):
                total = total + weight.to(dtype) * rows.index_select(0, cell).to(dtype)
                mass = mass + weight.to(dtype)
            return (total / mass).to(rows.dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.operator}, size={self.size})"


def grid_size(pos: Tensor, batch: Tensor, graphs: int) -> Tensor:
    """Points [B, d] along each axis of a grid with about one point for each distinct place of a graph.

    With h the edge of the cubes of which the box holds as many as there are places, an axis gets the power of two
    nearest to its extent / h (of two equally near ones the smaller). An axis thinner than h gets two points and counts
    no more in h, one without extent gets one.

    >>> grid_size(torch.rand(1000, 2) * torch.tensor([4.0, 1.0]), torch.zeros(1000, dtype=torch.long), graphs=1)
    tensor([[64, 16]])
    """
    pos = pos.detach().double()
    order = torch.arange(pos.size(0), device=pos.device)
    for key in (*pos.unbind(1), batch):  # sort by graph, then by place; faster than unique(dim=0)
        order = order[key[order].argsort(stable=True)]
    row, graph = pos[order], batch[order]
    fresh = torch.ones_like(graph)
    fresh[1:] = ((row[1:] != row[:-1]).any(1) | (graph[1:] != graph[:-1])).long()
    count = scatter(fresh, graph, dim_size=graphs).clamp_min(1)[:, None]  # [B, 1]
    lower, upper = (scatter(pos, batch, dim_size=graphs, reduce=how) for how in ("min", "max"))
    extent = upper - lower  # [B, d]
    thick = extent > 0
    log_extent = extent.masked_fill(~thick, 1).log2()
    level = torch.zeros_like(extent)
    for _ in range(pos.size(1)):  # each pass can find another axis too thin
        log_h = ((log_extent * thick).sum(1, keepdim=True) - count.log2()) / thick.sum(1, keepdim=True).clamp_min(1)
        level = log_extent - log_h
        thick = thick & (level > 0)
    points = 2 ** (level + 0.49).floor().clamp_min(1).long()
    return points.where(extent > 0, 1)


def _graphs(pos: Tensor, batch: Tensor | None, batch_size: int | None) -> tuple[Tensor, int]:
    if batch is None:
        return torch.zeros(pos.size(0), dtype=torch.long, device=pos.device), 1
    return batch.long(), num_graphs(batch) if batch_size is None else batch_size


def _channels(kernel: nn.Module | None, x: Tensor) -> int:
    channels = getattr(kernel, "channels", 1)
    if channels != 1 and channels != x.size(1):
        raise InputError(f"Expected a kernel of 1 or {x.size(1)} channels, as many as it weighs (got {channels})")
    return channels


def _stencil(
    kernel: nn.Module | None, place: Tensor, batch: Tensor, size: Sequence[int]
) -> Iterator[tuple[Tensor, Tensor]]:
    """For each grid point in reach of a node: its number [N] among those of all graphs, and its weight [N, 1 or C]."""
    reach = getattr(kernel, "reach", 1)
    corner = place.detach().floor() - (reach - 1)
    last = place.new_tensor(size) - 1
    stride = torch.tensor([math.prod(size[axis + 1 :]) for axis in range(len(size))], device=place.device)
    for step in itertools.product(range(2 * reach), repeat=len(size)):
        point = corner + place.new_tensor(step)
        inside = ((point >= 0) & (point <= last)).all(1, keepdim=True)
        offset = place - point
        weight = math.prod((1 - offset.abs()).clamp_min(0)[:, None].unbind(2)) if kernel is None else kernel(offset)
        cell = (point.clamp_min(0).minimum(last).long() * stride).sum(1) + batch * math.prod(size)
        yield cell, weight * inside


def _fill(total: Tensor, mass: Tensor, least: Tensor) -> Tensor:
    """Averages total / mass [B, C, *size]; points with less mass than ``least`` are topped up from a coarser grid."""
    lack = (least - mass).clamp_min(0)
    if max(mass.shape[2:]) > 1:
        mode = ("linear", "bilinear", "trilinear")[mass.dim() - 3]
        coarse = interpolate(_fill(_halve(total), _halve(mass), least), scale_factor=2.0, mode=mode)
        for axis, n in enumerate(mass.shape[2:], start=2):
            coarse = coarse.narrow(axis, 0, n)
        total = total + lack * coarse
    return total / (mass + lack).clamp_min(torch.finfo(mass.dtype).tiny)


def _halve(grid: Tensor) -> Tensor:
    """Sum the points of a grid [B, C, *size] in pairs along each axis."""
    grid = pad(grid, [end for n in reversed(grid.shape[2:]) for end in (0, n % 2)])
    for axis in range(2, grid.dim()):
        grid = grid.unflatten(axis, (-1, 2)).sum(axis + 1)
    return grid
