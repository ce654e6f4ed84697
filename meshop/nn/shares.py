"""Soft assignments of nodes to tokens, and attention of tokens to nodes, without a weight that is stored.

A layer with H heads and M tokens has N H M weights, many times its features. Here the nodes are taken in pieces of one
graph that fit into the cache; the weights of a piece live for as long as it is looked at, and the backward pass makes
them anew. Where the whole is compiled or exported, :class:`Stored` weights take their place.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad

from meshop.data import InputError
from meshop.domain import all_reduce, in_common, known
from meshop.nn.functional import Nodes, full_precision, segment_attention, soft_pool, soft_unpool

PIECE = {"cpu": 2**20}  # weights H M of a piece together: 4 MB; on other devices 512 MB
Linear = tuple[Tensor, Tensor]  # weight [C', C] and bias [C'] of a map from [N, C] to [N, C']

_softmax_backward = torch.ops.aten._softmax_backward_data.out


_stored = False


@contextmanager
def stored_weights() -> Iterator[None]:
    """Inside this context layers store their weights, so that gradients can be differentiated again.

    >>> x = torch.randn(5, 3, requires_grad=True)
    >>> with stored_weights():
    ...     y = softmax_shares(x, torch.randn(1, 3, 4), Nodes(x)).pool().square().sum()
    >>> gradient = torch.autograd.grad(y, x, create_graph=True)[0]
    >>> torch.autograd.grad(gradient.square().sum(), x)[0].shape
    torch.Size([5, 3])
    """
    global _stored
    before, _stored = _stored, True
    try:
        with sdpa_kernel(SDPBackend.MATH):  # of the tokens, too
            yield
    finally:
        _stored = before


def _once() -> None:
    if torch.is_grad_enabled():  # in a backward pass: with create_graph
        raise InputError(
            "Expected a first derivative (got create_graph=True); to differentiate twice, call the model inside "
            "meshop.nn.shares.stored_weights()"
        )


class Shares(ABC):
    r"""How much of each node belongs to each token: :math:`w_n \in [0, 1]^M` in each head."""

    @abstractmethod
    def pool(self, value: Tensor | None = None, linear: Linear | None = None) -> Tensor:
        r"""Sums [B, H, M, d] of values [N, H d] over each graph: :math:`\sum_n m_n w_{nm} v_n`.

        With a linear map the values are what it makes of ``value``, or without one of the features x from which the
        shares come; without both they are what the shares come from after their own map. Of values
        :func:`with_ones`, :func:`weighted_mean` makes means.
        """

    @abstractmethod
    def unpool(self, token: Tensor) -> Tensor:
        r"""Tokens [B, H, M, d] handed back to nodes [N, H d]: :math:`y_n = \sum_m w_{nm} z_m`."""

    @abstractmethod
    def weights(self) -> Tensor:
        """All weights [N, H, M]."""


def softmax_shares(x: Tensor, weight: Tensor, nodes: Nodes, linear: Linear | None = None) -> Shares:
    r"""The assignment :math:`w_n = \mathrm{softmax}_M(x_n W)`, in each head.

    Args:
        x: [N, H d]; a bias is the last row of W where the last of d is one, see :func:`with_ones`.
        weight: W [H, d, M]
        nodes: the graphs of the nodes.
        linear: a map that is applied to x first, see :func:`linear_with_ones`; its output is not stored either.
    """
    if torch.compiler.is_compiling() or _stored:
        tiles = nodes.tiles
        logit = tiles.split_heads(_applied(linear, x), weight.size(0)) @ weight  # [t, H, T, M]
        return Stored(logit.softmax(-1, dtype=tiles.mass.dtype), nodes, x, linear)
    return Remade(x, weight, nodes, linear)


def attend(query: Tensor, x: Tensor, key: Linear, value: Linear, nodes: Nodes) -> Tensor:
    """Attention of queries [B, H, K, d] of each graph to its nodes: [B, H, K, d].

    Keys and values are linear maps of the nodes' features x [N, C]. See
    :func:`~meshop.nn.functional.segment_attention`.
    """
    if torch.compiler.is_compiling() or _stored:
        tiles = nodes.tiles
        k, v = (tiles.split_heads(_applied(linear, x), query.size(1)) for linear in (key, value))
        return segment_attention(query, k, v, tiles)
    ptr = nodes.ptr  # the sums of measures come first
    if (sums := known(ahead=1)) is not None:
        all_reduce(sums, "max")
        sums = all_reduce(sums, "sum")
        return sums[..., :-1] / sums[..., -1:].clamp_min(torch.finfo(nodes.dtype).tiny)
    maps = (*_lowered(key, nodes), *_lowered(value, nodes))
    with full_precision(x):
        return in_common(_Attend.apply(query.to(nodes.dtype), nodes.in_order(x), *maps, nodes.mass, ptr))


def part(layer: nn.Linear, number: int, count: int) -> Linear:
    """One of several maps to equal numbers of channels that a linear layer holds."""
    weight, bias = layer.weight.chunk(count)[number], layer.bias.chunk(count)[number]
    return weight, bias


def with_ones(x: Tensor, heads: int) -> Tensor:
    """Features [N, H d] with a one behind those of each head: [N, H (d + 1)]."""
    return pad(x.unflatten(-1, (heads, -1)), (0, 1), value=1.0).flatten(-2)


def linear_with_ones(linear: nn.Linear | Linear, heads: int) -> Linear:
    """A linear map to [N, H d] that gives :func:`with_ones` of it."""
    weight, bias = (linear.weight, linear.bias) if isinstance(linear, nn.Linear) else linear
    weight = pad(weight.unflatten(0, (heads, -1)), (0, 0, 0, 1)).flatten(0, 1)  # [H (d + 1), C]
    return weight, with_ones(bias, heads)


def _applied(linear: Linear | None, x: Tensor) -> Tensor:
    return x if linear is None else nn.functional.linear(x, *linear)


def _lowered(linear: Linear, nodes: Nodes) -> Linear:
    """A map in the precision of autocast; without, that of sums."""
    device = nodes.x.device.type
    lower = torch.is_autocast_enabled(device) and nodes.dtype != torch.float64
    dtype = torch.get_autocast_dtype(device) if lower else nodes.dtype
    return linear[0].to(dtype), linear[1].to(dtype)


def weighted_mean(total: Tensor) -> Tensor:
    """Means [..., d] of sums [..., d + 1] whose last is that of the weights; the constant is Transolver's."""
    return total[..., :-1] / (total[..., -1:] + 1e-5)


class Stored(Shares):
    """Weights in tiles [t, H, T, M]."""

    def __init__(self, weight: Tensor, nodes: Nodes, x: Tensor | None = None, linear: Linear | None = None) -> None:
        self.weight = weight
        self.tiles = nodes.tiles
        self.x, self.linear = x, linear

    def pool(self, value: Tensor | None = None, linear: Linear | None = None) -> Tensor:
        if value is None:
            assert self.x is not None
            value, linear = self.x, linear or self.linear
        value = self.tiles.split_heads(_applied(linear, value), self.weight.size(1))
        return soft_pool(self.weight, value, self.tiles, mean=False)

    def unpool(self, token: Tensor) -> Tensor:
        return self.tiles.merge_heads(soft_unpool(self.weight, token, self.tiles))

    def weights(self) -> Tensor:
        return self.tiles.merge(self.weight.transpose(1, 2))


class Remade(Shares):
    r"""Weights that are made where they are needed, from x [N, H d] and W [H, d, M].

    All that is kept of them is :math:`\log \sum_m \exp (x_n W)_m` for each node and head.

    With g the gradient of :math:`y_n = \sum_m w_{nm} z_m`, that of the weights is :math:`g_n z_m`. It is never formed:
    the backward pass of :meth:`unpool` leaves its two factors to that of :meth:`pool`, which follows because of a link,
    a number of no meaning that goes from one to the other. So the softmax is differentiated once.
    """

    def __init__(self, x: Tensor, weight: Tensor, nodes: Nodes, linear: Linear | None = None) -> None:
        self.x = nodes.in_order(x)
        self.weight = weight.to(nodes.dtype)
        self.linear = (None, None) if linear is None else _lowered(linear, nodes)
        self.nodes = nodes
        self.log_sum = self.weight.new_empty(self.weight.size(0), x.size(0))  # [H, N]
        self.filled = False
        self.link: Tensor | None = None
        self.left: list[tuple[Tensor, Tensor]] = []

    def pool(self, value: Tensor | None = None, linear: Linear | None = None) -> Tensor:
        if (total := known()) is not None:
            return all_reduce(total, "sum")
        if value is None and linear is not None and self.linear[0] is None:
            value = self.x
        elif value is not None:
            value = self.nodes.in_order(value)
        maps = (*self.linear, *((None, None) if linear is None else _lowered(linear, self.nodes)))
        with full_precision(self.x):
            nodes, left = self.nodes, list[tuple[Tensor, Tensor]]()
            total, link = _Pool.apply(
                self.x, value, self.weight, *maps, nodes.mass, nodes.ptr, self.log_sum, self.filled, left
            )
            self.filled = True
            if torch.is_grad_enabled():
                self.link, self.left = link, left
            return all_reduce(total, "sum")

    def unpool(self, token: Tensor) -> Tensor:
        with full_precision(token):
            link, self.link = self.link, None  # for one
            token = token.to(self.nodes.dtype)
            y = _Unpool.apply(
                token, link, self.x, self.weight, *self.linear, self.nodes.ptr, self.log_sum, self.filled, self.left
            )
            self.filled = True
            return self.nodes.as_given(y)

    @torch.no_grad()
    def weights(self) -> Tensor:
        out = self.x.new_empty(len(self.x), self.weight.size(0), self.weight.size(2), dtype=self.weight.dtype)
        nodes = _Nodes(self.weight, self.x, *self.linear)
        assign = _Assign(self.nodes.ptr, self.weight, self.log_sum, self.filled)
        for _, rows in _pieces(self.nodes.ptr, self.weight):
            w, factor = assign(nodes(rows)[0], rows)
            out[rows] = (w if factor is None else w * factor).transpose(0, 1)
        self.filled = True
        return self.nodes.as_given(out)


# ---------------------------------------------------------------------------------------------------------------------
# sums over pieces; a piece is a graph and a slice of its nodes


def _pieces(ptr: Sequence[int], weight: Tensor) -> Iterator[tuple[int, slice]]:
    size = _size(weight)
    for graph, (start, stop) in enumerate(pairwise(ptr)):
        for first in range(start, stop, size):
            yield graph, slice(first, min(first + size, stop))


def _size(weight: Tensor) -> int:
    """Nodes of a piece for weights [H, d, M]."""
    return max(PIECE.get(weight.device.type, 2**27) // (weight.size(0) * weight.size(2)), 64)


def _room(ptr: Sequence[int], weight: Tensor, width: int = 0) -> Tensor:
    """Room for the weights of the largest piece, or for features of a width of its nodes."""
    nodes = min(_size(weight), max((stop - start for start, stop in pairwise(ptr)), default=0))
    return weight.new_empty(weight.size(0) * nodes * (width or weight.size(2)))


def _view(room: Tensor, *shape: int) -> Tensor:
    return room[: math.prod(shape)].view(shape)


def _heads(x: Tensor, rows: slice, weight: Tensor) -> Tensor:
    """Features of some nodes [H, T, d]."""
    return x[rows].to(weight.dtype).unflatten(1, (weight.size(0), -1)).transpose(0, 1)


class _Map:
    """The gradients of a linear map, or of none, of features x [N, C] to [N, H d], piece by piece."""

    def __init__(self, x: Tensor, linear: Tensor | None, weight: Tensor, *widths: int) -> None:
        self.x, self.linear = x, linear
        self.heads, self.dtype, self.widths = weight.size(0), weight.dtype, widths
        self.d_x = torch.empty_like(x)
        self.d_linear = None if linear is None else torch.zeros_like(linear, dtype=weight.dtype)
        self.d_bias = None if linear is None else weight.new_zeros(linear.size(0))

    def room(self, rows: slice) -> list[Tensor]:
        """Where the gradients of the output are to be put for some nodes, of several outputs [H, T, d] side by side."""
        width = self.heads * sum(self.widths)
        self.flat = torch.empty(rows.stop - rows.start, width, dtype=self.dtype, device=self.x.device)
        parts = self.flat.split([self.heads * width for width in self.widths], 1)
        return [part.unflatten(1, (self.heads, -1)).transpose(0, 1) for part in parts]

    def add(self, rows: slice) -> None:
        if self.linear is None or self.d_linear is None or self.d_bias is None:
            self.d_x[rows] = self.flat
        else:
            self.d_bias += self.flat.sum(0)
            flat, x = self.flat.to(self.linear.dtype), self.x[rows].to(self.linear.dtype)
            self.d_x[rows] = flat @ self.linear
            self.d_linear += flat.mT @ x


class _Nodes:
    """The x [H, T, d] of the nodes of a piece, and their values [H, T, e].

    x and values [N, .] go through linear maps, if there are some. Without values, the map of the values is one of x;
    without that, too, the values are x after its map.
    """

    def __init__(
        self,
        weight: Tensor,
        x: Tensor,
        x_linear: Tensor | None,
        x_bias: Tensor | None,
        value: Tensor | None = None,
        v_linear: Tensor | None = None,
        v_bias: Tensor | None = None,
    ) -> None:
        self.weight, self.x, self.value = weight, x, value
        self.x_linear, self.v_linear = x_linear, v_linear
        self.x_map = None if x_linear is None or x_bias is None else (x_linear, x_bias)
        self.v_map = None if v_linear is None or v_bias is None else (v_linear, v_bias)
        self.both: Linear | None = None  # one after the other, to be applied at once
        if value is None and self.x_map is not None and self.v_map is not None:
            self.both = torch.cat([self.x_map[0], self.v_map[0]]), torch.cat([self.x_map[1], self.v_map[1]])

    def __call__(self, rows: slice) -> tuple[Tensor, Tensor]:
        if self.both is not None and self.x_map is not None:
            both = self._mapped(self.x, rows, self.both).tensor_split([len(self.x_map[0])], 1)
            return self._heads(both[0]), self._heads(both[1])
        q = self._heads(self._mapped(self.x, rows, self.x_map))
        if self.value is None and self.v_map is None:
            return q, q
        return q, self._heads(self._mapped(self.x if self.value is None else self.value, rows, self.v_map))

    @property
    def width(self) -> int:
        """The e of values."""
        if self.v_map is not None:
            return len(self.v_map[0]) // self.weight.size(0)
        return self.weight.size(1) if self.value is None else self.value.size(1) // self.weight.size(0)

    def _mapped(self, x: Tensor, rows: slice, linear: Linear | None) -> Tensor:
        if linear is None:
            return x[rows].to(self.weight.dtype)
        return torch.addmm(linear[1], x[rows].to(linear[0].dtype), linear[0].mT).to(self.weight.dtype)

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(1, (self.weight.size(0), -1)).transpose(0, 1)


class _Assign:
    """Weights [H, T, M] of the nodes [H, T, d] of a piece, in one place for all pieces."""

    def __init__(self, ptr: Sequence[int], weight: Tensor, log_sum: Tensor, filled: bool = True) -> None:
        self.weight = weight
        self.log_sum, self.filled = log_sum, filled
        self.room = _room(ptr, weight)

    def __call__(self, q: Tensor, rows: slice) -> tuple[Tensor, Tensor | None]:
        """Weights up to a factor [H, T, 1] of the nodes, which is left out where it is one."""
        logit = self._logit(q)
        if not self.filled:
            if q.device.type == "cpu":
                w = logit.exp_()
                total = w.sum(-1)  # [H, T]
                if _held(total):
                    torch.log(total, out=self.log_sum[:, rows])
                    return w, total.reciprocal_()[..., None]
                logit = self._logit(q)
            self.log_sum[:, rows] = logit.logsumexp(-1)
        return logit.sub_(self.log_sum[:, rows, None]).exp_(), None

    def _logit(self, q: Tensor) -> Tensor:
        return torch.bmm(q, self.weight, out=_view(self.room, q.size(0), q.size(1), self.weight.size(2)))


class _Pool(Function):
    """Sums over nodes of values, weighted by shares and masses, and a link to what is handed back.

    With ``weight`` [H, d, M] and ``mass`` [N] to [B, H, M, e]; ``log_sum`` [H, N] is filled in unless it is already.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        value: Tensor | None,
        weight: Tensor,
        x_linear: Tensor | None,
        x_bias: Tensor | None,
        v_linear: Tensor | None,
        v_bias: Tensor | None,
        mass: Tensor | None,
        ptr: list[int],
        log_sum: Tensor,
        filled: bool,
        left: list[tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, Tensor]:
        nodes = _Nodes(weight, x, x_linear, x_bias, value, v_linear, v_bias)
        assign = _Assign(ptr, weight, log_sum, filled)
        total = weight.new_zeros(len(ptr) - 1, weight.size(0), nodes.width, weight.size(2))
        for graph, rows in _pieces(ptr, weight):
            q, v = nodes(rows)
            w, factor = assign(q, rows)
            v = v if mass is None else v * mass[rows, None]
            total[graph].baddbmm_((v if factor is None else v * factor).mT, w)
        ctx.save_for_backward(x, x_linear, x_bias, value, v_linear, v_bias, weight, mass, log_sum)
        ctx.ptr, ctx.left = ptr, left
        ctx.set_materialize_grads(False)
        return total.mT, weight.new_zeros(())

    @staticmethod
    def backward(ctx: Any, d_total: Tensor | None, d_link: Tensor | None) -> tuple[Tensor | None, ...]:
        _once()
        *nodes, weight, mass, log_sum = ctx.saved_tensors
        d_y, token = (None, None) if d_link is None else ctx.left.pop()
        d_x, d_value, d_weight, *d_maps = _assignment_backward(
            _Nodes(weight, *nodes), ctx.ptr, log_sum, d_y, token, d_total, mass
        )
        return d_x, d_value, d_weight, *d_maps, *[None] * 5


class _Unpool(Function):
    """Tokens [B, H, M, d] to nodes [N, H d]."""

    @staticmethod
    def forward(
        ctx: Any,
        token: Tensor,
        link: Tensor | None,
        x: Tensor,
        weight: Tensor,
        x_linear: Tensor | None,
        x_bias: Tensor | None,
        ptr: list[int],
        log_sum: Tensor,
        filled: bool,
        left: list[tuple[Tensor, Tensor]],
    ) -> Tensor:
        y = x.new_empty(len(x), token.size(1) * token.size(3))
        nodes, assign = _Nodes(weight, x, x_linear, x_bias), _Assign(ptr, weight, log_sum, filled)
        for graph, rows in _pieces(ptr, weight):
            w, factor = assign(nodes(rows)[0], rows)
            some, own = y[rows].unflatten(1, (w.size(0), -1)).transpose(0, 1), y.dtype == w.dtype
            z = torch.bmm(w, token[graph], out=some if own else None)
            if factor is not None:
                z *= factor
            if not own:
                some.copy_(z)
        ctx.save_for_backward(token, x, weight, x_linear, x_bias, log_sum)
        ctx.ptr, ctx.left = ptr, None if link is None else left
        return y

    @staticmethod
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        _once()
        token, x, weight, x_linear, x_bias, log_sum = ctx.saved_tensors
        d_token = token.new_zeros(token.mT.shape)
        nodes, assign = _Nodes(weight, x, x_linear, x_bias), _Assign(ctx.ptr, weight, log_sum)
        for graph, rows in _pieces(ctx.ptr, weight):
            w, _ = assign(nodes(rows)[0], rows)
            d_token[graph].baddbmm_(_heads(d_y, rows, weight).mT, w)
        if ctx.left is not None:
            ctx.left.append((d_y, token))
            return d_token.mT, weight.new_zeros(()), *[None] * 8
        d_x, _, d_weight, d_linear, d_bias, *_ = _assignment_backward(nodes, ctx.ptr, log_sum, d_y, token)
        return d_token.mT, None, d_x, d_weight, d_linear, d_bias, *[None] * 4


def _assignment_backward(
    nodes: _Nodes,
    ptr: list[int],
    log_sum: Tensor,
    d_y: Tensor | None,
    token: Tensor | None,
    d_total: Tensor | None = None,
    mass: Tensor | None = None,
) -> tuple[Tensor | None, ...]:
    r"""Gradients of x, values and W and of the maps, from those of unpooling and of pooling.

    That of the weights is :math:`\partial L / \partial w_{nm} = g_n z_m + m_n v_n \, \partial L / \partial Z_m`, one
    product of the features of the nodes, side by side, with those of the tokens.
    """
    weight, pools = nodes.weight, d_total is not None
    maps = [linear for linear in (nodes.x_linear, nodes.v_linear) if linear is not None]
    joint = nodes.both is not None and pools
    widths = weight.shape[1:2] + ((nodes.width,) if joint else ())
    d_x = _Map(nodes.x, torch.cat(maps) if joint else nodes.x_linear, weight, *widths)
    d_value = None if nodes.value is None or not pools else _Map(nodes.value, nodes.v_linear, weight, nodes.width)
    d_weight = torch.zeros_like(weight)
    right = torch.cat([t for t in (token, d_total) if t is not None], -1).mT.contiguous()
    back, width = weight.mT.contiguous(), 0 if token is None else token.size(-1)
    assign, other, both = _Assign(ptr, weight, log_sum), _room(ptr, weight), _room(ptr, weight, right.size(-2))
    for graph, rows in _pieces(ptr, weight):
        q, v = nodes(rows)
        w, _ = assign(q, rows)
        left = _view(both, w.size(0), w.size(1), right.size(-2))
        if d_y is not None:
            left[..., :width].copy_(_heads(d_y, rows, weight))
        d_q, *own = d_x.room(rows) + ([] if d_value is None else d_value.room(rows))
        d_v = None
        if d_total is not None:
            d_v = torch.bmm(w, d_total[graph], out=own[0] if own else None)
            left[..., width:].copy_(v)
            if mass is not None:
                left[..., width:] *= mass[rows, None]
                d_v *= mass[rows, None]
        d_w = torch.bmm(left, right[graph], out=_view(other, *w.shape))
        d_logit = _softmax_backward(d_w, w, -1, w.dtype, grad_input=d_w)
        d_weight.baddbmm_(q.mT, d_logit)
        torch.bmm(d_logit, back, out=d_q)
        if d_value is not None:
            d_value.add(rows)
        elif d_v is not None and not joint:
            d_q += d_v
        d_x.add(rows)
    if joint and d_x.d_linear is not None and d_x.d_bias is not None:
        sizes = [len(linear) for linear in maps]
        d_maps = [d for pair in zip(d_x.d_linear.split(sizes), d_x.d_bias.split(sizes), strict=True) for d in pair]
        return d_x.d_x, None, d_weight, *d_maps
    d_maps = [d_x.d_linear, d_x.d_bias, None, None]
    if d_value is not None:
        d_maps[2:] = [d_value.d_linear, d_value.d_bias]
    return d_x.d_x, None if d_value is None else d_value.d_x, d_weight, *d_maps


class _Attend(Function):
    """Queries [B, H, K, d] over the nodes of their graph, by a softmax that is never whole.

    Sums are relative to a maximum so far, as in flash attention (https://arxiv.org/abs/2205.14135). Keys and values are
    linear maps of x [N, C].
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        x: Tensor,
        k_linear: Tensor,
        k_bias: Tensor,
        v_linear: Tensor,
        v_bias: Tensor,
        mass: Tensor | None,
        ptr: list[int],
    ) -> Tensor:
        _, heads, queries, width = query.shape
        shape = query.new_empty(heads, width, queries)
        scaled = query * width**-0.5
        total = query.new_zeros(*query.shape[:3], v_linear.size(0) // heads)
        norm = query.new_zeros(*query.shape[:3], 1)
        top = torch.full_like(norm, torch.finfo(query.dtype).min)
        nodes, room = _Nodes(shape, x, k_linear, k_bias, None, v_linear, v_bias), _room(ptr, shape)
        log_mass = None if mass is None else mass.log()
        for graph, rows in _pieces(ptr, shape):
            k, v = nodes(rows)
            some = None if log_mass is None else log_mass[rows]
            out = _view(room, heads, queries, k.size(1))
            e, new, summed = _exponentials(scaled[graph], k.mT, some, top[graph], out)
            shrink = (top[graph] - new).exp_()
            top[graph] = new
            norm[graph] = norm[graph] * shrink + summed
            total[graph] *= shrink
            total[graph].baddbmm_(e, v)
        common = all_reduce(top, "max")
        sums = all_reduce(torch.cat([total, norm], -1) * (top - common).exp_(), "sum")
        norm = sums[..., -1:].clamp_min(torch.finfo(query.dtype).tiny)  # of a graph without nodes
        z = sums[..., :-1] / norm
        ctx.save_for_backward(query, x, k_linear, k_bias, v_linear, v_bias, log_mass, z, common + norm.log())
        ctx.ptr = ptr
        return z

    @staticmethod
    def backward(ctx: Any, d_z: Tensor) -> tuple[Tensor | None, ...]:
        _once()
        query, x, k_linear, k_bias, v_linear, v_bias, log_mass, z, log_norm = ctx.saved_tensors
        _, heads, queries, width = query.shape
        shape = query.new_empty(heads, width, queries)
        scaled = query * width**-0.5
        d_z = d_z.contiguous()
        inner = (d_z * z).sum(-1, keepdim=True)
        d_query = query.new_zeros(query.shape)
        nodes = _Nodes(shape, x, k_linear, k_bias, None, v_linear, v_bias)
        d_kv = _Map(x, torch.cat([k_linear, v_linear]), shape, width, nodes.width)
        room, other = _room(ctx.ptr, shape), _room(ctx.ptr, shape)
        for graph, rows in _pieces(ctx.ptr, shape):
            k, v = nodes(rows)
            d_k, d_v = d_kv.room(rows)
            p, d_p = (_view(buffer, heads, queries, k.size(1)) for buffer in (room, other))
            torch.bmm(scaled[graph], k.mT, out=p).sub_(log_norm[graph])
            p = (p if log_mass is None else p.add_(log_mass[rows])).exp_()
            torch.bmm(p.mT, d_z[graph], out=d_v)
            torch.bmm(d_z[graph], v.mT, out=d_p).sub_(inner[graph]).mul_(p)
            d_query[graph].baddbmm_(d_p, k)
            torch.bmm(d_p.mT, scaled[graph], out=d_k)
            d_kv.add(rows)
        d_k_linear, d_v_linear, d_k_bias, d_v_bias = (
            t for d in (d_kv.d_linear, d_kv.d_bias) if d is not None for t in d.split([len(k_linear), len(v_linear)])
        )
        return d_query * width**-0.5, d_kv.d_x, d_k_linear, d_k_bias, d_v_linear, d_v_bias, None, None


def _exponentials(
    query: Tensor, key: Tensor, log_mass: Tensor | None, top: Tensor, out: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Masses times :math:`\exp (q_m k_n - \hat l_m)` [H, K, T], maxima [H, K, 1] no lower than those so far, and sums.

    A maximum is zero where the exponentials hold anyway.
    """

    def logit() -> Tensor:
        product = torch.bmm(query, key, out=out)
        return product if log_mass is None else product.add_(log_mass)

    new = top.clamp_min(0)
    if query.device.type == "cpu" and not bool(new.any()):
        e = logit().exp_()
        if _held(total := e.sum(-1, keepdim=True)):
            return e, new, total
    new = torch.maximum(top, logit().amax(-1, keepdim=True))
    e = out.sub_(new).exp_()
    return e, new, e.sum(-1, keepdim=True)


def _held(total: Tensor) -> bool:
    """Whether sums of exponentials are neither too large nor too small; to ask takes long off the CPU."""
    return bool((total.amin() > 1e-12) & (total.amax() < 1e12))
