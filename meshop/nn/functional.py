"""What the layers share: filling ``forward`` from a ``Data``, and exact sums over the nodes of each graph of a batch.

Every token-mixing layer here is made of a few sums over nodes, written down once:

================================ ======================================================================
:func:`soft_pool`                nodes to tokens: weighted means over the nodes of each graph
:func:`soft_unpool`              tokens to nodes, with the same weights
:func:`segment_pool`             nodes to tokens: means weighted by a softmax over the nodes of each graph
:func:`segment_attention`        the same with a few queries a graph that attend to its nodes
================================ ======================================================================

They work on :class:`Tiles`, a layout in which no tile holds nodes of two graphs. It makes batches exact and needs no
loop over graphs, no copy of sizes to the host and no [N, M, d] product. Where nothing is compiled or exported,
:mod:`meshop.nn.shares` does the same in pieces of the nodes, without storing a weight.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch_geometric.data import Data
from torch_geometric.nn import Sequential
from torch_geometric.utils import scatter

from meshop import domain
from meshop.data import InputError
from meshop.domain import all_reduce

TILE = 128  # nodes; small enough for graphs of a few hundred nodes, large enough for efficient products
NODE_ARGUMENTS = ("pos", "edge_index", "batch", "measure", "batch_size", "shape")  # of a layer, besides x
NODES = 1000.0  # what a graph weighs when it has a measure, see `Tiles`

HOW_TO_MAKE = {
    "x": "FieldSpec.pack makes it from named fields",
    "pos": "meshop.read_mesh sets it",
    "edge_index": "meshop.transforms.CellsToEdges() or KNNGraph() makes it",
    "measure": "meshop.transforms.NodeMeasure() makes it",
    "shape": "set data.shape = (n1, n2) for a grid in row-major order",
    "time": "set data.time to one value a graph",
}


def argument_names(module: nn.Module) -> dict[str, bool]:
    """The names of the arguments of ``module.forward``, and whether each must be given.

    >>> argument_names(nn.Linear(2, 3))
    {'input': True}
    """
    module = getattr(module, "_orig_mod", module)  # what torch.compile wraps
    if isinstance(module, Sequential):  # its forward takes (*args, **kwargs)
        return dict.fromkeys(module.signature.param_dict, True)
    return {
        p.name: p.default is p.empty
        for p in inspect.signature(module.forward).parameters.values()
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }


def call(module: nn.Module, data: Data) -> Any:
    """Call a module on a ``Data`` or ``Batch``, filling the arguments of its ``forward`` by name.

    ``batch_size`` is the number of graphs, ``shape`` the grid all of them share, ``input`` (torch's own layers) the
    key ``x``, ``data`` the data itself; every other argument is the key of its name. Optional arguments that the data
    does not have are left out.

    Raises:
        InputError: the data lacks a key that the module needs, or a batch holds grids of different shapes.

    >>> from torch_geometric.nn import SAGEConv
    >>> data = Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]))
    >>> call(SAGEConv(2, 5), data).shape
    torch.Size([3, 5])
    """
    given: dict[str, Any] = {}
    for name, required in argument_names(module).items():
        value = argument(data, name)
        if value is not None:
            given[name] = value
        elif required:
            raise missing(module, "x" if name == "input" else name)
    return module(**given)


def taken(layer: nn.Module, known: Sequence[str] = NODE_ARGUMENTS) -> dict[str, bool]:
    """The arguments besides x that a layer takes of those known, and whether it needs them.

    Raises:
        InputError: the layer needs others.

    >>> from torch_geometric.nn import SAGEConv
    >>> taken(SAGEConv(8, 8))
    {'edge_index': True}
    """
    names = dict(list(argument_names(layer).items())[1:])  # the first is x, under whatever name
    if unknown := [name for name, needed in names.items() if needed and name not in known]:
        raise InputError(f"{type(layer).__name__} needs {', '.join(unknown)}; it is given x, {', '.join(known)}")
    return {name: needed for name, needed in names.items() if name in known}


def call_with(
    layer: nn.Module,
    names: Mapping[str, bool],
    x: Tensor,
    values: Sequence[Any],
    known: Sequence[str] = NODE_ARGUMENTS,
) -> Any:
    """Call a layer on x and, by name, on those of the known arguments' values that it takes.

    Raises:
        InputError: one that it needs was not given.
    """
    given = dict(zip(known, values, strict=True))
    for name, needed in names.items():
        if needed and given[name] is None:
            raise missing(layer, name)
    return layer(x, **{name: given[name] for name in names})


def missing(module: nn.Module, key: str) -> InputError:
    """The error that says which key a module lacks and what makes it."""
    hint = f"; {HOW_TO_MAKE[key]}" if key in HOW_TO_MAKE else ""
    return InputError(f"{type(module).__name__} needs the key '{key}', which was not given{hint}")


def argument(data: Data, name: str) -> Any:
    """What :func:`call` gives to an argument, ``None`` where the data does not have it."""
    if name == "batch_size":
        return data.num_graphs if "batch" in data else None
    if name == "data":
        return data
    name = "x" if name == "input" else name
    value = data.get(name)
    if name == "shape" and "batch" in data and value is not None:  # a batch has a list of shapes
        if any(shape != value[0] for shape in value):
            raise InputError(f"Expected grids of one shape in a batch (got {value}); use a batch size of one")
        return value[0]
    return value


@dataclass(frozen=True)
class Tiles:
    r"""The nodes of a ragged batch in tiles of equal size, none with nodes of two graphs.

    The last tile of a graph is filled up with padding of mass zero. Sums of tiles are added up afterwards, which is ten
    times as precise as one sum over thousands of nodes.

    The mass :math:`m_n` is what node :math:`n` weighs in every sum: 1 without a measure, as in the papers, and
    :math:`1000\, \mu_n / \sum_k \mu_k` over its graph with one. A fixed total (rather than the number of nodes) is
    what makes splitting a node exact; a thousand nodes keep the papers' constants, which were chosen on meshes of that
    size, in place.

    Attributes:
        slot: place [N] of each node among the t * T places, or ``None`` for a single graph, in order.
        graph: the graph [t] of each tile.
        mass: [t, T]
        num_nodes: N
        num_graphs: B
    """

    slot: Tensor | None
    graph: Tensor
    mass: Tensor
    num_nodes: int
    num_graphs: int

    @classmethod
    def of(cls, x: Tensor, batch: Tensor | None, measure: Tensor | None = None, batch_size: int | None = None) -> Tiles:
        """Lay the nodes of ``x`` [N, C] out; the batch vector may be in any order and skip graphs.

        Raises:
            InputError: ``batch`` or ``measure`` is not one value a node.

        >>> tiles = Tiles.of(torch.ones(3, 2), batch=torch.tensor([0, 2, 0]))
        >>> tiles.num_graphs, tiles.sum(tiles.split(torch.ones(3, 2)).sum(1)).tolist()
        (3, [[2.0, 2.0], [0.0, 0.0], [1.0, 1.0]])
        """
        for key, value in (("batch", batch), ("measure", measure)):
            if value is not None and value.shape != x.shape[:1]:
                raise InputError(f"Expected one {key} a node, [{x.size(0)}] (got {list(value.shape)})")
        dtype = torch.promote_types(x.dtype, torch.float32)
        graphs = 1
        if batch is not None:
            batch = batch.long()
            graphs = domain.num_graphs(batch) if batch_size is None else batch_size
            size = scatter(torch.ones_like(batch), batch, dim_size=graphs)  # [B]
            used = (size + TILE - 1) // TILE  # [B]
            end = used.cumsum(0)
            order = batch.argsort(stable=True)
            ahead = (end - used) * TILE - (size.cumsum(0) - size)  # [B] padding before each graph
            slot = torch.empty_like(batch)
            slot[order] = torch.arange(x.size(0), device=x.device) + ahead[batch[order]]
            tiles = x.size(0) // TILE + graphs  # an upper bound that the host knows; those left over have no mass
            graph = torch.bucketize(torch.arange(tiles, device=x.device), end, right=True).clamp(max=graphs - 1)
        else:
            slot, graph = None, torch.zeros(x.size(0) // TILE + 1, dtype=torch.long, device=x.device)
        mass = x.new_ones(x.size(0), dtype=dtype) if measure is None else measure.to(dtype)
        layout = cls(slot, graph, mass, x.size(0), graphs)
        mass = layout.split(mass[:, None]).squeeze(-1)  # [t, T]
        if measure is not None:
            total = layout.sum(mass.sum(1, keepdim=True)).clamp_min(torch.finfo(dtype).tiny)  # [B, 1]
            mass = NODES * (mass / total[graph])
        return cls(slot, graph, mass, x.size(0), graphs)

    def split(self, x: Tensor) -> Tensor:
        """Nodes [N, C] to tiles [t, T, C]."""
        if self.slot is None:
            return pad(x, (0, 0, 0, TILE - x.size(0) % TILE)).view(-1, TILE, x.size(1))
        places = x.new_zeros(self.graph.size(0) * TILE, x.size(1))
        return places.index_copy(0, self.slot, x).view(-1, TILE, x.size(1))

    def merge(self, x: Tensor) -> Tensor:
        """Tiles [t, T, C] to nodes [N, C]."""
        x = x.flatten(0, 1)
        return x[: self.num_nodes] if self.slot is None else x.index_select(0, self.slot)

    def split_heads(self, x: Tensor, heads: int) -> Tensor:
        """Nodes [N, H d] to tiles [t, H, T, d]."""
        return self.split(x).unflatten(-1, (heads, -1)).transpose(1, 2)

    def merge_heads(self, x: Tensor) -> Tensor:
        """Tiles [t, H, T, d] to nodes [N, H d]."""
        return self.merge(x.transpose(1, 2).flatten(-2))

    def sum(self, x: Tensor) -> Tensor:
        """Sum a quantity of the tiles [t, ...] over each graph [B, ...]."""
        if self.slot is None:
            return all_reduce(x.sum(0, keepdim=True), "sum")
        return domain.scatter(x, self.graph, self.num_graphs)

    def max(self, x: Tensor) -> Tensor:
        """Maximum of a quantity of the tiles [t, ...] over each graph [B, ...]; carries no gradient."""
        x = x.detach()
        if self.slot is None:
            return all_reduce(x.amax(0, keepdim=True), "max")
        return domain.scatter(x, self.graph, self.num_graphs, "max")


class Nodes:
    """The graphs and masses of the nodes [N, C] that a layer is given, as its sums need them.

    The batch vector may be in any order and skip graphs. Sums go over :attr:`tiles`, or over the nodes of one graph
    after the other: those of graph b are ``ptr[b]`` to ``ptr[b + 1]`` of what :meth:`in_order` gives.

    Raises:
        InputError: ``batch`` or ``measure`` is not one value a node.

    >>> nodes = Nodes(torch.ones(3, 2), batch=torch.tensor([0, 2, 0]))
    >>> nodes.ptr, nodes.in_order(torch.tensor([1, 2, 3]))
    ([0, 2, 2, 3], tensor([1, 3, 2]))
    """

    def __init__(
        self, x: Tensor, batch: Tensor | None = None, measure: Tensor | None = None, batch_size: int | None = None
    ) -> None:
        for key, value in (("batch", batch), ("measure", measure)):
            if value is not None and value.shape != x.shape[:1]:
                raise InputError(f"Expected one {key} a node, [{x.size(0)}] (got {list(value.shape)})")
        self.x = x
        self.batch = None if batch is None else batch.long()
        self.measure = measure
        self.batch_size = batch_size
        self.dtype = torch.promote_types(x.dtype, torch.float32)  # of sums
        self._tiles: Tiles | None = None
        self._order: Tensor | None = None
        self._ptr: list[int] = []
        self._mass: Tensor | None = None

    @property
    def tiles(self) -> Tiles:
        if self._tiles is None:
            self._tiles = Tiles.of(self.x, self.batch, self.measure, self.batch_size)
        return self._tiles

    @property
    def ptr(self) -> list[int]:
        self._sort()
        return self._ptr

    @property
    def mass(self) -> Tensor | None:
        """The masses [N] of :class:`Tiles`, in order; ``None`` where all are 1."""
        self._sort()
        return self._mass

    @property
    def count(self) -> int:
        """The number of graphs."""
        if self.batch is None:
            return 1
        return len(self.ptr) - 1 if self.batch_size is None else self.batch_size

    def in_order(self, x: Tensor) -> Tensor:
        """What nodes have, graph after graph."""
        self._sort()
        return x if self._order is None else x[self._order]

    def as_given(self, x: Tensor) -> Tensor:
        """The inverse of :meth:`in_order`."""
        return x if self._order is None else x[self._order.argsort()]

    def _sort(self) -> None:
        if self._ptr:
            return
        if self.batch is None:
            self._ptr = [0, self.x.size(0)]
        else:
            graphs = domain.num_graphs(self.batch) if self.batch_size is None else self.batch_size
            self._ptr = [0, *self.batch.bincount(minlength=graphs).cumsum(0).tolist()]
            if bool((self.batch[1:] < self.batch[:-1]).any()):
                self._order = self.batch.argsort(stable=True)
        if self.measure is not None:
            mass = self.in_order(self.measure.to(self.dtype))
            graph = torch.zeros_like(mass, dtype=torch.long) if self.batch is None else self.in_order(self.batch)
            total = domain.scatter(mass, graph, len(self._ptr) - 1)
            self._mass = NODES * (mass / total.clamp_min(torch.finfo(self.dtype).tiny)[graph])


def soft_pool(weight: Tensor, value: Tensor, tiles: Tiles, mean: bool = True) -> Tensor:
    r"""Tokens as weighted means of values over the nodes of each graph.

    .. math::
        z_m = \frac{\sum_n m_n w_{nm} v_n}{\sum_n m_n w_{nm} + 10^{-5}}

    or the numerator alone. The constant is that of Transolver's code, in units of nodes; see :class:`Tiles` for
    :math:`m_n`.

    Args:
        weight: [t, H, T, M]
        value: [t, H, T, d]
        tiles: the layout of the nodes.
        mean: whether to divide.

    Returns:
        tokens [B, H, M, d], float32 at least whatever autocast says.
    """
    with full_precision(value):
        mass = tiles.mass[:, None, :, None]  # [t, 1, T, 1]
        weight = weight.to(mass.dtype).mT  # [t, H, M, T]
        total = tiles.sum(weight @ (value.to(mass.dtype) * mass))
        return total / (tiles.sum(weight @ mass) + 1e-5) if mean else total


def soft_unpool(weight: Tensor, token: Tensor, tiles: Tiles) -> Tensor:
    r"""Hand tokens [B, H, M, d] back to nodes [t, H, T, d] by weights [t, H, T, M]: :math:`y_n = \sum_m w_{nm} z_m`."""
    return weight.to(token.dtype) @ token[tiles.graph]


def segment_attention(query: Tensor, key: Tensor, value: Tensor, tiles: Tiles) -> Tensor:
    r"""Attention of the queries of each graph to the nodes of that graph.

    .. math::
        z_m = \frac{\sum_n m_n \exp(q_m \cdot k_n / \sqrt{d})\, v_n}{\sum_n m_n \exp(q_m \cdot k_n / \sqrt{d})}

    Args:
        query: [B, H, M, d]
        key: [t, H, T, d]
        value: [t, H, T, d]
        tiles: the layout of the nodes.

    Returns:
        [B, H, M, d], float32 at least whatever autocast says. The memory is one [N, H, M] tensor.
    """
    with full_precision(value):
        dtype = tiles.mass.dtype
        query = query.to(dtype)[tiles.graph] * query.size(-1) ** -0.5  # [t, H, M, d]
        return segment_pool(query @ key.to(dtype).mT, value, tiles)


def segment_pool(logit: Tensor, value: Tensor, tiles: Tiles) -> Tensor:
    r"""Tokens as means of values over the nodes of each graph, weighted by a softmax over these nodes.

    .. math::
        z_m = \frac{\sum_n m_n \exp(l_{mn})\, v_n}{\sum_n m_n \exp(l_{mn})}

    Args:
        logit: [t, H, M, T]; it is overwritten.
        value: [t, H, T, d]
        tiles: the layout of the nodes.

    Returns:
        [B, H, M, d], float32 at least whatever autocast says.
    """
    with full_precision(value):
        dtype = tiles.mass.dtype
        empty = tiles.mass == 0  # finite, so that a tile of padding gives no NaN
        log_mass = tiles.mass.masked_fill(empty, 1).log().masked_fill(empty, -1e30)[:, None, None]  # [t, 1, 1, T]
        logit = logit.to(dtype).add_(log_mass)
        peak = tiles.max(logit.amax(-1, keepdim=True))[tiles.graph]
        score = logit.sub_(peak).exp_()  # any shift gives the same, this one cannot overflow
        return tiles.sum(score @ value.to(dtype)) / tiles.sum(score.sum(-1, keepdim=True))


def full_precision(x: Tensor) -> torch.autocast:
    """A context in which autocast does not lower the precision of sums over nodes."""
    return torch.autocast(x.device.type, enabled=False)
