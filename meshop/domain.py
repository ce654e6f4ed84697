"""One mesh on several processes: who has which nodes, and what the processes tell each other.

:func:`partition` gives every node of a mesh to one process, :func:`cut` makes the part of one of them. Inside
:func:`domain_parallel` each process computes on its own nodes, and three functions, which outside it do what their
names say on one's own, make the result that of one process:

===================== ===============================================================================================
:func:`all_reduce`    sums over nodes (slices, clusters, latent grids, norms) become sums over the nodes of all
:func:`scatter`       the same for PyG's ``scatter`` from nodes to graphs
:func:`with_ghosts`   node features, followed by those of the neighbours that other processes have
===================== ===============================================================================================

Gradients pass through all three. With a loss that was reduced this way, and thus is the same on every process, the mean
over the processes of a parameter's gradient is the gradient of one process: what DDP computes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
import torch_geometric.utils
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import ClusterData

from meshop.data import InputError
from meshop.geometry.hilbert import hilbert_key

T = TypeVar("T", bound=Data)

CELLS = ("cell_type", "cell_size", "cell_index", "polyhedra", "point_data", "cell_data", "field_data")
OF_GRAPHS = ("params", "time", "times")  # a row a graph, also where every graph has one node


@dataclass(frozen=True)
class Halo:
    """What the part of one process needs from the others, and they from it.

    The ghosts of a part are the neighbours of its nodes, and theirs, so that a layer of message passing may also look
    at the degree of a neighbour. They follow the part's own nodes, process after process.

    Attributes:
        own: number of the part's own nodes.
        send: the own nodes that others need, process after process.
        send_sizes, ghost_sizes: how many go to each process, and come from it.
    """

    own: int
    send: Tensor
    send_sizes: list[int]
    ghost_sizes: list[int]

    def to(self, device: torch.device, **_: Any) -> Halo:
        """The same on another device; ``Data.to`` calls it."""
        return Halo(self.own, self.send.to(device), self.send_sizes, self.ghost_sizes)


Reduce = Callable[[Tensor, str], Tensor]

_group: dist.ProcessGroup | Reduce | None = None
_halo: Halo | None = None


@contextmanager
def domain_parallel(group: dist.ProcessGroup | None, halo: Halo | None = None) -> Iterator[None]:
    """Inside this context each process of ``group`` holds a part of the nodes of the same graphs.

    Args:
        group: the processes; ``None`` inside of another such context for what each of them does by itself.
        halo: of this process's part, for message passing.
    """
    global _group, _halo
    before = _group, _halo
    _group, _halo = group, halo
    try:
        yield
    finally:
        _group, _halo = before


@contextmanager
def reduced_by(reduce: Reduce) -> Iterator[None]:
    """Inside this context :func:`all_reduce` is another function, of one who has all nodes but not at once.

    It may have a method ``peek``, which :func:`known` calls.
    """
    global _group
    before, _group = _group, reduce
    try:
        yield
    finally:
        _group = before


def all_reduce(x: Tensor, op: str) -> Tensor:
    """The "sum" (with gradient), "max" or "min" of ``x`` over the processes that share graphs."""
    if _group is None:
        return x
    if not isinstance(_group, dist.ProcessGroup):
        return _group(x, op)
    if x.device.type == "cpu" and dist.get_backend(_group) == "nccl":
        return all_reduce(x.cuda(), op).to(x.device)
    if op == "sum":
        return _Sum.apply(x, _group)
    x = x.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(x, {"max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}[op], _group)
    return x


def known(ahead: int = 0) -> Tensor | None:
    """The result of the reduction ``ahead`` calls from now, if it is known: its argument need not be computed."""
    peek = getattr(_group, "peek", None)
    return None if peek is None else peek(ahead)


class _Sum(torch.autograd.Function):
    """The sum over the processes; each of them uses it, so the gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        x = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(x, dist.ReduceOp.SUM, group)
        return x

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor, None]:
        return _Sum.apply(grad[0], ctx.group), None


def in_common(x: Tensor) -> Tensor:
    """What all processes have computed alike, as it is; its gradient is the sum of theirs."""
    return _Common.apply(x, _group) if isinstance(_group, dist.ProcessGroup) else x


class _Common(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor, None]:
        return _Sum.apply(grad[0], ctx.group), None


def scatter(x: Tensor, index: Tensor, dim_size: int | None = None, reduce: str = "sum") -> Tensor:
    """PyG's ``scatter`` from nodes to graphs, by "sum", "min" or "max", over the nodes of all processes.

    >>> scatter(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 0, 1]), dim_size=3)
    tensor([3., 4., 0.])
    """
    dim_size = num_graphs(index) if dim_size is None else dim_size
    if reduce == "sum":
        return all_reduce(_sums(x, index, dim_size), "sum")
    total = torch_geometric.utils.scatter(x, index, dim_size=dim_size, reduce=reduce)
    if _group is None:
        return total
    here = torch.bincount(index, minlength=dim_size).view(-1, *[1] * (x.dim() - 1)) > 0
    worst = -torch.inf if reduce == "max" else torch.inf
    best = all_reduce(torch.where(here, total.detach(), worst), reduce)
    best = best.masked_fill(best == worst, 0)  # a graph without nodes
    if not x.requires_grad:
        return best
    mine = here & (total == best)
    share = mine.to(x.dtype) / all_reduce(mine.to(x.dtype), "sum").clamp_min(1)
    return best + all_reduce(share * (total - total.detach()), "sum")  # the value of best, the gradient of total


def _sums(x: Tensor, index: Tensor, count: int) -> Tensor:
    """By index_add, the quickest way measured by tests/benchmarks/segments.py; it adds one number after another."""
    if count == 1:
        return x.sum(0, keepdim=True)
    long = x.dtype == torch.float32 and x.size(0) > 2**10 and x.device.type != "mps"
    total = x.new_zeros(count, *x.shape[1:], dtype=torch.float64 if long else x.dtype)
    return total.index_add(0, index, x.to(total.dtype)).to(x.dtype)


def num_graphs(batch: Tensor) -> int:
    """One more than the largest number in a batch vector, of all processes."""
    if _group is None:
        return int(batch.max()) + 1 if batch.size(0) else 0
    return int(all_reduce(batch.max() if batch.numel() else batch.new_tensor(-1), "max")) + 1


def with_ghosts(x: Tensor) -> Tensor:
    """The features [N, ...] of a part's nodes, followed by those of its ghosts; ``x`` itself without a halo."""
    if _halo is None or not isinstance(_group, dist.ProcessGroup):
        return x
    sent = x.index_select(0, _halo.send)
    return torch.cat([x, _Exchange.apply(sent, _halo.send_sizes, _halo.ghost_sizes, _group)])


class _Exchange(torch.autograd.Function):
    """Rows to other processes for rows from them; gradients go the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup) -> Tensor:
        ctx.back = received, sent, group
        out = x.new_empty(sum(received), *x.shape[1:])
        dist.all_to_all_single(out, x.contiguous(), received, sent, group)
        return out

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor, None, None, None]:
        return _Exchange.apply(grad[0], *ctx.back), None, None, None


def exchange_halos(model: nn.Module) -> None:
    """Let the layers of a model that pass messages along edges see the ghosts, when there is a halo.

    They are the modules that must be given an ``edge_index`` and hold no other such module: PyG's convolutions,
    :class:`~meshop.nn.DepthwiseGraphConv` and one's own. Their arguments with a row a node are extended, their output
    is cut. All other layers see the part's own nodes alone.

    Raises:
        InputError: the model holds a layer that mixes the nodes of a graph in a way that is not shared.
    """
    for module in model.modules():
        kind = type(module)
        mixes = isinstance(module, nn.modules.batchnorm._NormBase) or kind.__module__.startswith(_MIXERS)
        if mixes and getattr(module, "mode", "graph") != "node":
            raise InputError(
                f"{kind.__name__} looks at all nodes of a graph, which are on several processes; leave it out or train "
                "with --strategy ddp"
            )
    for module in model.modules():
        if _needs_edges(module) and not any(_needs_edges(m) for m in module.modules() if m is not module):
            module.register_forward_pre_hook(_extend, with_kwargs=True)
            module.register_forward_hook(_crop)


_MIXERS = ("torch_geometric.nn.norm", "torch_geometric.nn.attention", "torch_geometric.nn.pool")


def _needs_edges(module: nn.Module) -> bool:
    edges = inspect.signature(module.forward).parameters.get("edge_index")
    return edges is not None and edges.default is edges.empty


def _extend(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if _halo is None:
        return None
    bound = inspect.signature(module.forward).bind(*args, **kwargs)
    for name, value in bound.arguments.items():
        if not name.startswith("edge_"):
            bound.arguments[name] = _extended(value, _halo.own)
    return bound.args, bound.kwargs


def _extended(value: Any, own: int) -> Any:
    if isinstance(value, tuple):
        return tuple(_extended(v, own) for v in value)
    return with_ghosts(value) if isinstance(value, Tensor) and value.dim() and value.size(0) == own else value


def _crop(module: nn.Module, args: tuple[Any, ...], out: Any) -> Any:
    return out[: _halo.own] if _halo is not None and isinstance(out, Tensor) else None


def partition(mesh: Data, ranks: int) -> Tensor:
    """Which of ``ranks`` processes has each node of a mesh: [N] numbers from 0 to ranks - 1.

    METIS cuts the graph where pyg-lib or torch-sparse is installed, so that few edges join two parts; otherwise nodes
    are taken along the Hilbert curve through ``pos`` in pieces of equal size. Nodes at one place stay together.

    >>> partition(Data(pos=torch.rand(10, 2)), ranks=3).bincount().tolist()
    [4, 3, 3]
    """
    pos = mesh.pos.cpu().double()
    owner = None
    if "edge_index" in mesh and ranks > 1 and mesh.edge_index.numel():
        try:
            graph = Data(edge_index=mesh.edge_index.cpu(), num_nodes=len(pos))
            parts = ClusterData(graph, ranks, log=False).partition
            number = torch.arange(ranks).repeat_interleave(parts.partptr.diff())
            owner = torch.empty(len(pos), dtype=torch.long).scatter_(0, parts.node_perm, number)
        except ImportError:  # neither library
            pass
    if owner is None:
        order = hilbert_key(pos, bits=20).argsort(stable=True) if len(pos) else torch.arange(0)
        owner = torch.empty_like(order)
        owner[order] = torch.arange(len(pos)) * ranks // max(len(pos), 1)
    place = pos.unique(dim=0, return_inverse=True)[1] if len(pos) else owner
    return owner.new_full((len(pos),), ranks).scatter_reduce(0, place, owner, "amin")[place]


class Partitioned(Sequence[Data]):
    """Meshes of a data set with the key ``owner``, their :func:`partition`, which is made once a mesh."""

    def __init__(self, data: Sequence[Data], ranks: int) -> None:
        self.data, self.ranks = data, ranks
        self.owners: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: Any) -> Any:
        mesh = self.data[index].__copy__()
        if index not in self.owners:
            self.owners[index] = partition(mesh, self.ranks).to(torch.int16)
        mesh.owner = self.owners[index]
        return mesh


def cut(data: T, rank: int, ranks: int) -> T:
    """The part of a mesh or batch that one process has: its own nodes, the edges among them and their ghosts.

    Every key with a row a node or an edge is cut, by the key ``owner`` or else by :func:`partition`; ``edge_index``
    counts own nodes first, then ghosts. The ``halo`` is what :func:`domain_parallel` needs. Cells stay behind.

    Raises:
        InputError: the nodes form a grid.

    >>> line = Data(pos=torch.arange(6.0)[:, None], edge_index=torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]))
    >>> part = cut(line, rank=1, ranks=2)  # of nodes 3, 4 and 5, with ghosts 2 and 1
    >>> part.pos.flatten().tolist(), part.edge_index.tolist()
    ([3.0, 4.0, 5.0], [[3, 4, 0, 1], [4, 0, 1, 2]])
    """
    if "shape" in data:
        raise InputError("Nodes that form a grid are not cut over processes; train with --strategy ddp")
    owner = (data.owner if "owner" in data else partition(data, ranks)).long()
    mine = owner == rank
    own = mine.nonzero()[:, 0]
    keep, edges, halo = None, None, None
    if "edge_index" in data:
        keep, edges, halo = _halo_of(data.edge_index, owner, rank, ranks)
    out: T = data.__copy__()
    for key, value in data.items():
        if key in ("owner", "ptr", *CELLS):
            del out[key]
        elif key == "edge_index":
            out[key] = edges
        elif key == "num_nodes":
            out[key] = len(own)
        elif _a_row_a_node(data, key):
            out[key] = value[own]
        elif keep is not None and data.is_edge_attr(key):
            out[key] = value[keep]
    out.halo = halo
    return out


def _a_row_a_node(data: Data, key: str) -> bool:
    if key in OF_GRAPHS or not (isinstance(data[key], Tensor) and data.is_node_attr(key)):
        return False
    slices = getattr(data, "_slice_dict", {}) if isinstance(data, Batch) else {}
    return key not in slices or torch.equal(slices[key].cpu(), data.ptr.cpu())  # not a row a graph


def _halo_of(edge_index: Tensor, owner: Tensor, rank: int, ranks: int) -> tuple[Tensor, Tensor, Halo]:
    """Which edges a part keeps, these in its own numbers, and its halo."""
    source, target = edge_index
    crosses = owner[source] != owner[target]
    border = torch.zeros_like(owner, dtype=torch.bool)
    border[source[crosses]] = True
    near = crosses | border[target]
    s, t = source[near], target[near]

    def reach(other: int) -> tuple[Tensor, Tensor]:
        """Nodes and neighbours of a process, and its ghosts."""
        inner = owner == other
        ring = inner.clone()
        ring[s[inner[t]]] = True
        ghost = ring.clone()
        ghost[s[ring[t]]] = True
        return ring, ghost & ~inner

    mine = owner == rank
    ring, ghost = reach(rank)
    ghosts = ghost.nonzero()[:, 0]
    ghosts = ghosts[owner[ghosts].argsort(stable=True)]
    own = int(mine.sum())
    place = torch.full_like(owner, -1)
    place[mine] = torch.arange(own, device=owner.device)
    place[ghosts] = torch.arange(own, own + len(ghosts), device=owner.device)
    sent = [place[reach(other)[1] & mine] for other in range(ranks)]
    sizes = owner[ghosts].bincount(minlength=ranks).tolist()
    keep = ring[target]
    return keep, place[edge_index[:, keep]], Halo(own, torch.cat(sent), [len(nodes) for nodes in sent], sizes)
