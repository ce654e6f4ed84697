"""Soft assignments of nodes to tokens, and attention of tokens to nodes, without a weight that is stored.

A layer with H heads and M tokens has N H M weights, many times its features. Here the nodes are taken in pieces of one
graph that fit into the cache; the weights of a piece live for as long as it is looked at, and the backward pass makes
them anew. Where the whole is compiled or exported, :class:`Stored` weights take their place.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from meshop.domain import all_reduce, in_common
from meshop.nn.functional import Nodes, full_precision, segment_attention, soft_pool, soft_unpool

PIECE = {"cpu": 2**21}  # weights H M of a piece together: 8 MB; on other devices 512 MB
Linear = tuple[Tensor, Tensor]  # weight [C', C] and bias [C'] of a map from [N, C] to [N, C']

_softmax_backward = torch.ops.aten._softmax_backward_data.out


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
    if torch.compiler.is_compiling():
        tiles = nodes.tiles
        logit = tiles.split_heads(_applied(linear, x), weight.size(0)) @ weight  # [t, H, T, M]
        return Stored(logit.softmax(-1, dtype=tiles.mass.dtype), nodes, x, linear)
    return Remade(x, weight, nodes, linear)


def attend(query: Tensor, x: Tensor, key: Linear, value: Linear, nodes: Nodes) -> Tensor:
    """Attention of queries [B, H, K, d] of each graph to its nodes: [B, H, K, d].

    Keys and values are linear maps of the nodes' features x [N, C]. See
    :func:`~meshop.nn.functional.segment_attention`.
    """
    if torch.compiler.is_compiling():
        tiles = nodes.tiles
        k, v = (tiles.split_heads(_applied(linear, x), query.size(1)) for linear in (key, value))
        return segment_attention(query, k, v, tiles)
    with full_precision(x):
        query, x, dtype = query.to(nodes.dtype), nodes.in_order(x), nodes.dtype
        weights = (t.to(dtype) for t in (*key, *value))
        return in_common(_Attend.apply(query, x, *weights, nodes.mass, nodes.ptr))


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

    With g the gradient of :math:`y_n = \sum_m w_{nm} z_m`, that of the weights is :math:`g_n z_m`. It is never formed:
    the backward pass of :meth:`unpool` leaves its two factors to that of :meth:`pool`, which follows because of a link,
    a number of no meaning that goes from one to the other. So the softmax is differentiated once.
    """

    def __init__(self, x: Tensor, weight: Tensor, nodes: Nodes, linear: Linear | None = None) -> None:
        self.x = nodes.in_order(x)
        self.weight = weight.to(nodes.dtype)
        self.linear = self._cast(linear, nodes)
        self.nodes = nodes
        self.link: Tensor | None = None
        self.left: list[tuple[Tensor, Tensor]] = []

    @staticmethod
    def _cast(linear: Linear | None, nodes: Nodes) -> tuple[Tensor | None, Tensor | None]:
        return (None, None) if linear is None else (linear[0].to(nodes.dtype), linear[1].to(nodes.dtype))

    def pool(self, value: Tensor | None = None, linear: Linear | None = None) -> Tensor:
        with full_precision(self.x):
            nodes, left = self.nodes, list[tuple[Tensor, Tensor]]()
            maps = (*self.linear, *self._cast(linear, nodes))
            value = None if value is None else nodes.in_order(value)
            total, link = _Pool.apply(self.x, value, self.weight, *maps, nodes.mass, nodes.ptr, left)
            if torch.is_grad_enabled():
                self.link, self.left = link, left
            return all_reduce(total, "sum")

    def unpool(self, token: Tensor) -> Tensor:
        with full_precision(token):
            link, self.link = self.link, None  # for one
            token = token.to(self.nodes.dtype)
            y = _Unpool.apply(token, link, self.x, self.weight, *self.linear, self.nodes.ptr, self.left)
            return self.nodes.as_given(y)

    @torch.no_grad()
    def weights(self) -> Tensor:
        out = self.x.new_empty(len(self.x), self.weight.size(0), self.weight.size(2), dtype=self.weight.dtype)
        assign = _Assign(self.nodes.ptr, self.weight)
        for _, rows in _pieces(self.nodes.ptr, self.weight):
            out[rows] = assign(_heads(self.x, rows, self.weight, *self.linear)).transpose(0, 1)
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


def _heads(x: Tensor, rows: slice, weight: Tensor, linear: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """Features of some nodes [H, T, d], after a linear map where there is one."""
    x = x[rows].to(weight.dtype)
    x = x if linear is None or bias is None else torch.addmm(bias, x, linear.mT)
    return x.unflatten(1, (weight.size(0), -1)).transpose(0, 1)


class _Map:
    """The gradients of a linear map, or of none, of features x [N, C] to [N, H d], piece by piece."""

    def __init__(self, x: Tensor, linear: Tensor | None) -> None:
        self.x, self.linear = x, linear
        self.d_x = torch.empty_like(x)
        self.d_linear = None if linear is None else torch.zeros_like(linear)
        self.d_bias = None if linear is None else linear.new_zeros(linear.size(0))

    def add(self, rows: slice, *gradients: Tensor) -> None:
        """That of the output for some nodes, [H, T, d] or several side by side."""
        flat = torch.cat([gradient.transpose(0, 1).flatten(1) for gradient in gradients], 1)  # [T, H d]
        if self.linear is None or self.d_linear is None or self.d_bias is None:
            self.d_x[rows] = flat
            return
        self.d_x[rows] = flat @ self.linear
        self.d_linear.addmm_(flat.mT, self.x[rows].to(flat.dtype))
        self.d_bias += flat.sum(0)


class _Assign:
    """Weights [H, T, M] of the nodes [H, T, d] of a piece, in one place for all pieces."""

    def __init__(self, ptr: Sequence[int], weight: Tensor) -> None:
        self.weight = weight
        self.room = _room(ptr, weight)
        self.longest = torch.linalg.vector_norm(weight, dim=1).amax(-1)  # [H]

    def __call__(self, x: Tensor) -> Tensor:
        w = torch.bmm(x, self.weight, out=_view(self.room, x.size(0), x.size(1), self.weight.size(2)))
        if not self._small(x):
            return torch.softmax(w, -1, out=w)
        torch.exp(w, out=w)
        return w.mul_(w.sum(-1, keepdim=True).reciprocal_())

    def _small(self, x: Tensor) -> bool:
        """Whether no logit can be so large that its exponential overflows, by Cauchy's inequality.

        Then a softmax needs no maximum. To ask is not worth the wait on other devices than the CPU.
        """
        return x.device.type == "cpu" and bool(
            (torch.linalg.vector_norm(x, dim=-1).amax(-1) * self.longest).amax() < 60
        )


class _Nodes(NamedTuple):
    """What the nodes of a pool bring: x and values [N, .], and the linear maps they go through, if there are some.

    Without values, the map of the values is one of x; without that, too, the values are x after its map.
    """

    x: Tensor
    value: Tensor | None
    x_linear: Tensor | None
    x_bias: Tensor | None
    v_linear: Tensor | None = None
    v_bias: Tensor | None = None

    def __call__(self, rows: slice, weight: Tensor) -> tuple[Tensor, Tensor]:
        """x and the values [H, T, .] of some nodes."""
        q = _heads(self.x, rows, weight, self.x_linear, self.x_bias)
        if self.value is None and self.v_linear is None:
            return q, q
        return q, _heads(self.x if self.value is None else self.value, rows, weight, self.v_linear, self.v_bias)


class _Pool(Function):
    """Sums over nodes of values, weighted by shares and masses, and a link to what is handed back.

    With ``weight`` [H, d, M] and ``mass`` [N] to [B, H, M, e].
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
        left: list[tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, Tensor]:
        heads, _, tokens = weight.shape
        nodes, assign = _Nodes(x, value, x_linear, x_bias, v_linear, v_bias), _Assign(ptr, weight)
        width = nodes(slice(0, 0), weight)[1].size(-1)
        total = weight.new_zeros(len(ptr) - 1, heads, tokens, width)
        for graph, rows in _pieces(ptr, weight):
            q, v = nodes(rows, weight)
            total[graph].baddbmm_(assign(q).mT, v if mass is None else v * mass[rows, None])
        ctx.save_for_backward(*nodes, weight, mass)
        ctx.ptr, ctx.left = ptr, left
        ctx.set_materialize_grads(False)
        return total, weight.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_total: Tensor | None, d_link: Tensor | None) -> tuple[Tensor | None, ...]:
        *nodes, weight, mass = ctx.saved_tensors
        d_y, token = (None, None) if d_link is None else ctx.left.pop()
        d_x, d_value, d_weight, *d_maps = _assignment_backward(
            _Nodes(*nodes), weight, ctx.ptr, d_y, token, d_total, mass
        )
        return d_x, d_value, d_weight, *d_maps, None, None, None


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
        left: list[tuple[Tensor, Tensor]],
    ) -> Tensor:
        y = x.new_empty(len(x), token.size(1) * token.size(3))
        assign = _Assign(ptr, weight)
        for graph, rows in _pieces(ptr, weight):
            w = assign(_heads(x, rows, weight, x_linear, x_bias))
            y[rows].unflatten(1, (w.size(0), -1)).copy_((w @ token[graph]).transpose(0, 1))
        ctx.save_for_backward(token, x, weight, x_linear, x_bias)
        ctx.ptr, ctx.left = ptr, None if link is None else left
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        token, x, weight, x_linear, x_bias = ctx.saved_tensors
        d_token = torch.zeros_like(token)
        assign = _Assign(ctx.ptr, weight)
        for graph, rows in _pieces(ctx.ptr, weight):
            w = assign(_heads(x, rows, weight, x_linear, x_bias))
            d_token[graph].baddbmm_(w.mT, _heads(d_y, rows, weight))
        if ctx.left is not None:
            ctx.left.append((d_y, token))
            return d_token, weight.new_zeros(()), *[None] * 6
        d_x, _, d_weight, d_linear, d_bias, *_ = _assignment_backward(
            _Nodes(x, None, x_linear, x_bias), weight, ctx.ptr, d_y, token
        )
        return d_token, None, d_x, d_weight, d_linear, d_bias, None, None


def _assignment_backward(
    nodes: _Nodes,
    weight: Tensor,
    ptr: list[int],
    d_y: Tensor | None,
    token: Tensor | None,
    d_total: Tensor | None = None,
    mass: Tensor | None = None,
) -> tuple[Tensor | None, ...]:
    r"""Gradients of x, values and W and of the maps, from those of unpooling and of pooling.

    That of the weights is :math:`\partial L / \partial w_{nm} = g_n z_m + m_n v_n \, \partial L / \partial Z_m`, one
    product of the features of the nodes, side by side, with those of the tokens.
    """
    x, value, x_linear, _, v_linear, _ = nodes
    pools, joint = d_total is not None, value is None and v_linear is not None and d_total is not None
    sizes = [len(linear) for linear in (x_linear, v_linear) if linear is not None]
    d_x = _Map(
        x, torch.cat([x_linear, v_linear]) if joint and x_linear is not None and v_linear is not None else x_linear
    )
    d_value = None if value is None or not pools else _Map(value, v_linear)
    d_weight = torch.zeros_like(weight)
    right = torch.cat([t for t in (token, d_total) if t is not None], -1).mT.contiguous()
    back, width = weight.mT.contiguous(), 0 if token is None else token.size(-1)
    assign, other, both = _Assign(ptr, weight), _room(ptr, weight), _room(ptr, weight, right.size(-2))
    for graph, rows in _pieces(ptr, weight):
        q, v = nodes(rows, weight) if pools else (_heads(x, rows, weight, *nodes[2:4]), None)
        w = assign(q)
        left = _view(both, w.size(0), w.size(1), right.size(-2))
        if d_y is not None:
            left[..., :width].copy_(_heads(d_y, rows, weight))
        d_v = None
        if v is not None and d_total is not None:
            d_v = w @ d_total[graph]
            left[..., width:].copy_(v)
            if mass is not None:
                left[..., width:] *= mass[rows, None]
                d_v *= mass[rows, None]
        d_w = torch.bmm(left, right[graph], out=_view(other, *w.shape))
        d_logit = _softmax_backward(d_w, w, -1, w.dtype, grad_input=d_w)
        d_weight.baddbmm_(q.mT, d_logit)
        d_q = d_logit @ back
        if d_v is None:
            d_x.add(rows, d_q)
        elif joint:
            d_x.add(rows, d_q, d_v)
        elif d_value is not None:
            d_x.add(rows, d_q)
            d_value.add(rows, d_v)
        else:
            d_x.add(rows, d_q.add_(d_v))
    if joint and d_x.d_linear is not None and d_x.d_bias is not None:
        d_maps = [d for pair in zip(d_x.d_linear.split(sizes), d_x.d_bias.split(sizes), strict=True) for d in pair]
        return d_x.d_x, None, d_weight, *d_maps
    d_maps = [d_x.d_linear, d_x.d_bias, None, None]
    if d_value is not None:
        d_maps[2:] = [d_value.d_linear, d_value.d_bias]
    return d_x.d_x, None if d_value is None else d_value.d_x, d_weight, *d_maps


class _Attend(Function):
    """Queries [B, H, K, d] over the nodes of their graph, by a softmax that is never whole.

    A running maximum and sums relative to it, as in flash attention (https://arxiv.org/abs/2205.14135). Keys and values
    are linear maps of x [N, C].
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
        room = _room(ptr, shape)
        for graph, rows in _pieces(ptr, shape):
            k, v = _heads(x, rows, shape, k_linear, k_bias), _heads(x, rows, shape, v_linear, v_bias)
            e = torch.bmm(scaled[graph], k.mT, out=_view(room, heads, queries, k.size(1)))
            new = torch.maximum(top[graph], e.amax(-1, keepdim=True))
            shrink = (top[graph] - new).exp_()
            top[graph] = new
            torch.exp(e.sub_(new), out=e)
            if mass is not None:
                e *= mass[rows]
            norm[graph] = norm[graph] * shrink + e.sum(-1, keepdim=True)
            total[graph] *= shrink
            total[graph].baddbmm_(e, v)
        common = all_reduce(top, "max")
        sums = all_reduce(torch.cat([total, norm], -1) * (top - common).exp_(), "sum")
        norm = sums[..., -1:].clamp_min(torch.finfo(query.dtype).tiny)  # of a graph without nodes
        z = sums[..., :-1] / norm
        ctx.save_for_backward(query, x, k_linear, k_bias, v_linear, v_bias, mass, z, common + norm.log())
        ctx.ptr = ptr
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_z: Tensor) -> tuple[Tensor | None, ...]:
        query, x, k_linear, k_bias, v_linear, v_bias, mass, z, log_norm = ctx.saved_tensors
        _, heads, queries, width = query.shape
        shape = query.new_empty(heads, width, queries)
        d_z = d_z.contiguous()
        scaled = query * width**-0.5
        inner = (d_z * z).sum(-1, keepdim=True)
        d_query = torch.zeros_like(query)
        linear, bias = torch.cat([k_linear, v_linear]), torch.cat([k_bias, v_bias])
        d_kv = _Map(x, linear)
        room, other = _room(ctx.ptr, shape), _room(ctx.ptr, shape)
        for graph, rows in _pieces(ctx.ptr, shape):
            kv = torch.addmm(bias, x[rows].to(linear.dtype), linear.mT)
            k, v = (t.unflatten(1, (heads, -1)).transpose(0, 1) for t in kv.split([len(k_linear), len(v_linear)], 1))
            p, d_p = (_view(buffer, heads, queries, k.size(1)) for buffer in (room, other))
            torch.bmm(scaled[graph], k.mT, out=p).sub_(log_norm[graph])
            torch.exp(p, out=p)
            if mass is not None:
                p *= mass[rows]
            d_v = p.mT @ d_z[graph]
            torch.bmm(d_z[graph], v.mT, out=d_p).sub_(inner[graph]).mul_(p)
            d_query[graph].baddbmm_(d_p, k)
            d_k = d_p.mT @ scaled[graph]
            d_kv.add(rows, d_k, d_v)
        d_k_linear, d_v_linear, d_k_bias, d_v_bias = (
            t for d in (d_kv.d_linear, d_kv.d_bias) if d is not None for t in d.split([len(k_linear), len(v_linear)])
        )
        return d_query * width**-0.5, d_kv.d_x, d_k_linear, d_k_bias, d_v_linear, d_v_bias, None, None
