"""Soft assignments of nodes to tokens, and attention of tokens to nodes, without a weight that is stored.

A layer with H heads and M tokens has N H M weights, many times its features. Here the nodes are taken in pieces of one
graph that fit into the cache; the weights of a piece live for as long as it is looked at, and the backward pass makes
them anew. Where the whole is compiled or exported, :class:`Stored` weights take their place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from meshop.nn.functional import Nodes, all_reduce, full_precision, segment_attention, soft_pool, soft_unpool

PIECE = {"cpu": 2**18}  # weights H M of a piece together: 1 MB; on other devices 512 MB
_softmax_backward = torch.ops.aten._softmax_backward_data.out


class Shares(ABC):
    r"""How much of each node belongs to each token: :math:`w_n \in [0, 1]^M` in each head."""

    @abstractmethod
    def pool(self, value: Tensor, mean: bool = True) -> Tensor:
        r"""Tokens [B, H, M, d] of values [N, H d]: :math:`z_m = \sum_n m_n w_{nm} v_n / (\sum_n m_n w_{nm} + 10^{-5})`.

        The numerator alone, if not ``mean``; see :func:`~meshop.nn.functional.soft_pool`.
        """

    @abstractmethod
    def unpool(self, token: Tensor) -> Tensor:
        r"""Tokens [B, H, M, d] handed back to nodes [N, H d]: :math:`y_n = \sum_m w_{nm} z_m`."""

    @abstractmethod
    def weights(self) -> Tensor:
        """All weights [N, H, M]."""


def softmax_shares(x: Tensor, weight: Tensor, bias: Tensor | None, nodes: Nodes) -> Shares:
    r"""The assignment :math:`w_n = \mathrm{softmax}_M(x_n W + b)`, in each head.

    Args:
        x: [N, H d]
        weight: W [H, d, M]
        bias: b [H, M], if there is one.
        nodes: the graphs of the nodes.
    """
    if torch.compiler.is_compiling():
        tiles = nodes.tiles
        logit = tiles.split_heads(x, weight.size(0)) @ weight  # [t, H, T, M]
        logit = logit if bias is None else logit + bias[:, None]
        return Stored(logit.softmax(-1, dtype=tiles.mass.dtype), nodes)
    return Remade(x, weight, bias, nodes)


def attend(query: Tensor, key: Tensor, value: Tensor, nodes: Nodes) -> Tensor:
    """Attention of queries [B, H, K, d] of each graph to its nodes, keys and values [N, H d]: [B, H, K, d].

    See :func:`~meshop.nn.functional.segment_attention`.
    """
    if torch.compiler.is_compiling():
        tiles, heads = nodes.tiles, query.size(1)
        return segment_attention(query, tiles.split_heads(key, heads), tiles.split_heads(value, heads), tiles)
    with full_precision(value):
        query = query.to(nodes.dtype)
        return _Attend.apply(query, nodes.in_order(key), nodes.in_order(value), nodes.mass, nodes.ptr)


class Stored(Shares):
    """Weights in tiles [t, H, T, M]."""

    def __init__(self, weight: Tensor, nodes: Nodes) -> None:
        self.weight = weight
        self.tiles = nodes.tiles

    def pool(self, value: Tensor, mean: bool = True) -> Tensor:
        return soft_pool(self.weight, self.tiles.split_heads(value, self.weight.size(1)), self.tiles, mean)

    def unpool(self, token: Tensor) -> Tensor:
        return self.tiles.merge_heads(soft_unpool(self.weight, token, self.tiles))

    def weights(self) -> Tensor:
        return self.tiles.merge(self.weight.transpose(1, 2))


class Remade(Shares):
    r"""Weights that are made where they are needed, from x [N, H d], W [H, d, M] and b [H, M].

    With g the gradient of :math:`y_n = \sum_m w_{nm} z_m`, that of the weights is :math:`g_n z_m`. It is never formed:
    :meth:`unpool` gives its two factors to :meth:`pool`, as the gradients of two outputs that hold nothing. So the
    weights are made once in the backward pass of each, and the softmax is differentiated once.
    """

    def __init__(self, x: Tensor, weight: Tensor, bias: Tensor | None, nodes: Nodes) -> None:
        dtype = nodes.dtype
        self.x = nodes.in_order(x)
        self.weight = weight.to(dtype)
        self.bias = None if bias is None else bias.to(dtype)[:, None]
        self.nodes = nodes
        self.link: tuple[Tensor | None, Tensor | None] = None, None

    def pool(self, value: Tensor, mean: bool = True) -> Tensor:
        with full_precision(value):
            value = self.nodes.in_order(value)
            total, norm, *link = _Pool.apply(self.x, value, self.weight, self.bias, self.nodes.mass, self.nodes.ptr)
            if torch.is_grad_enabled():
                self.link = link[0], link[1]
            total = all_reduce(total, "sum")
            return total / (all_reduce(norm, "sum") + 1e-5)[..., None] if mean else total

    def unpool(self, token: Tensor) -> Tensor:
        with full_precision(token):
            token = token.to(self.nodes.dtype)
            link, self.link = self.link, (None, None)  # what takes the gradient takes one
            y = _Unpool.apply(token, *link, self.x, self.weight, self.bias, self.nodes.ptr)
            return self.nodes.as_given(y)

    @torch.no_grad()
    def weights(self) -> Tensor:
        heads, _, tokens = self.weight.shape
        out = self.x.new_empty(len(self.x), heads, tokens, dtype=self.weight.dtype)
        buffer = _buffer(self.weight)
        for _, rows in _pieces(self.nodes.ptr, self.weight):
            out[rows] = _softmax(_heads(self.x, rows, self.weight), self.weight, self.bias, buffer).transpose(0, 1)
        return self.nodes.as_given(out)


# ---------------------------------------------------------------------------------------------------------------------
# sums over pieces; a piece is a graph and a slice of its nodes


def _pieces(ptr: Sequence[int], weight: Tensor) -> Iterator[tuple[int, slice]]:
    size = _size(weight)
    for graph, (start, stop) in enumerate(pairwise(ptr)):
        for first in range(start, stop, size):
            yield graph, slice(first, min(first + size, stop))


def _size(weight: Tensor) -> int:
    """Nodes of a piece for weights [H, d, M], or queries [B, H, M, d]."""
    many = weight.size(0) * weight.size(2) if weight.dim() == 3 else weight.size(1) * weight.size(2)
    return max(PIECE.get(weight.device.type, 2**27) // many, 64)


def _buffer(weight: Tensor) -> Tensor:
    """Room for the weights of a piece."""
    many = weight.size(0) * weight.size(2) if weight.dim() == 3 else weight.size(1) * weight.size(2)
    return weight.new_empty(_size(weight) * many)


def _room(buffer: Tensor, *shape: int) -> Tensor:
    count = 1
    for size in shape:
        count *= size
    return buffer[:count].view(shape)


def _heads(x: Tensor, rows: slice, weight: Tensor) -> Tensor:
    """Features [N, H d] of some nodes as [H, T, d], a view where the type is that of the weights."""
    return (
        x[rows]
        .unflatten(1, (weight.size(0) if weight.dim() == 3 else weight.size(1), -1))
        .transpose(0, 1)
        .to(weight.dtype)
    )


def _put(x: Tensor, rows: slice, values: Tensor) -> None:
    """Write values [H, T, d] into features [N, H d]."""
    x[rows].unflatten(1, (values.size(0), -1)).copy_(values.transpose(0, 1))


def _softmax(x: Tensor, weight: Tensor, bias: Tensor | None, buffer: Tensor) -> Tensor:
    """Weights [H, T, M] of nodes [H, T, d]."""
    w = _room(buffer, x.size(0), x.size(1), weight.size(2))
    torch.bmm(x, weight, out=w) if bias is None else torch.baddbmm(bias, x, weight, out=w)
    return torch.softmax(w, -1, out=w)


class _Pool(Function):
    """Sums over nodes of values and of ones, weighted by shares and masses, and what takes the gradient of unpooling.

    ``x`` [N, H d], ``value`` [N, H e], ``weight`` [H, d, M], ``bias`` [H, 1, M], ``mass`` [N] to [B, H, M, e] and
    [B, H, M].
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None, mass: Tensor | None, ptr: list[int]
    ) -> tuple[Tensor, ...]:
        heads, _, tokens = weight.shape
        total = weight.new_zeros(len(ptr) - 1, heads, tokens, value.size(1) // heads)
        norm = weight.new_zeros(len(ptr) - 1, heads, tokens)
        buffer = _buffer(weight)
        for graph, rows in _pieces(ptr, weight):
            w = _softmax(_heads(x, rows, weight), weight, bias, buffer)
            v = _heads(value, rows, weight)
            if mass is None:
                norm[graph] += w.sum(1)
            else:
                m = mass[rows, None]
                norm[graph] += (w.mT @ m).squeeze(-1)
                v = v * m
            total[graph].baddbmm_(w.mT, v)
        ctx.save_for_backward(x, value, weight, bias, mass)
        ctx.ptr = ptr
        nothing = weight.new_zeros(())
        ctx.set_materialize_grads(False)
        return total, norm, nothing.expand(value.shape), nothing.expand(total.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_total: Tensor, d_norm: Tensor, d_y: Tensor, token: Tensor) -> tuple[Tensor | None, ...]:
        x, value, weight, bias, mass = ctx.saved_tensors
        d_x, d_weight, d_bias, d_value = _assignment_backward(
            x, weight, bias, ctx.ptr, d_y, token, (value, mass, d_total, d_norm)
        )
        return d_x, d_value, d_weight, d_bias, None, None


class _Unpool(Function):
    """Tokens [B, H, M, d] to nodes [N, H d]."""

    @staticmethod
    def forward(
        ctx: Any,
        token: Tensor,
        link_y: Tensor | None,
        link_token: Tensor | None,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        ptr: list[int],
    ) -> Tensor:
        y = x.new_empty(len(x), token.size(1) * token.size(3))
        buffer = _buffer(weight)
        for graph, rows in _pieces(ptr, weight):
            w = _softmax(_heads(x, rows, weight), weight, bias, buffer)
            _put(y, rows, torch.bmm(w, token[graph]))
        ctx.save_for_backward(token, x, weight, bias)
        ctx.ptr, ctx.linked = ptr, link_y is not None
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        token, x, weight, bias = ctx.saved_tensors
        d_token = torch.zeros_like(token)
        buffer = _buffer(weight)
        for graph, rows in _pieces(ctx.ptr, weight):
            w = _softmax(_heads(x, rows, weight), weight, bias, buffer)
            d_token[graph].baddbmm_(w.mT, _heads(d_y, rows, weight))
        if ctx.linked:
            return d_token, d_y, token, None, None, None, None
        d_x, d_weight, d_bias, _ = _assignment_backward(x, weight, bias, ctx.ptr, d_y, token, None)
        return d_token, None, None, d_x, d_weight, d_bias, None


def _assignment_backward(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    ptr: list[int],
    d_y: Tensor | None,
    token: Tensor | None,
    pooled: tuple[Tensor, Tensor | None, Tensor | None, Tensor | None] | None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Gradients of x, W, b and of the values that were pooled, from those of unpooling and pooling."""
    heads, _, tokens = weight.shape
    graphs = len(ptr) - 1
    d_x, d_weight, d_bias, d_value = torch.empty_like(x), torch.zeros_like(weight), None, None
    if bias is not None:
        d_bias = torch.zeros_like(bias)
    left: list[tuple[Tensor, Tensor | None]] = []  # dL/dw is a sum of products of these, of the nodes ...
    right: list[Tensor] = []  # ... with these, of the tokens
    mass = d_norm = d_total = None
    if d_y is not None and token is not None:
        left.append((d_y, None))
        right.append(token)
    if pooled is not None:
        value, mass, d_total, d_norm = pooled
        d_value = torch.zeros_like(value) if d_total is None else torch.empty_like(value)
        if d_total is not None:
            left.append((value, mass))
            right.append(d_total)
    factors = torch.cat(right, -1).mT.contiguous() if right else weight.new_zeros(graphs, heads, 1, tokens)
    d_norm = weight.new_zeros(graphs, heads, tokens) if d_norm is None else d_norm
    d_norm = d_norm.unsqueeze(-2).contiguous()
    back = weight.mT.contiguous()
    room, other = _buffer(weight), _buffer(weight)
    both = weight.new_zeros(heads * _size(weight) * factors.size(-2))
    for graph, rows in _pieces(ptr, weight):
        xs = _heads(x, rows, weight)
        w = _softmax(xs, weight, bias, room)
        product = _room(both, heads, w.size(1), factors.size(-2))
        at = 0
        for features, scale in left:
            part = _heads(features, rows, weight)
            target = product[..., at : at + part.size(2)]
            target.copy_(part) if scale is None else torch.mul(part, scale[rows, None], out=target)
            at += part.size(2)
        d_w = _room(other, *w.shape)
        if mass is None:
            torch.baddbmm(d_norm[graph], product, factors[graph], out=d_w)
        else:
            torch.mul(mass[rows, None], d_norm[graph], out=d_w).baddbmm_(product, factors[graph])
        if d_value is not None and d_total is not None:
            d_v = torch.bmm(w, d_total[graph])
            _put(d_value, rows, d_v if mass is None else d_v.mul_(mass[rows, None]))
        d_logit = _softmax_backward(d_w, w, -1, w.dtype, grad_input=d_w)
        _put(d_x, rows, torch.bmm(d_logit, back))
        d_weight.baddbmm_(xs.mT, d_logit)
        if d_bias is not None:
            d_bias += d_logit.sum(1, keepdim=True)
    return d_x, d_weight, d_bias, d_value


class _Attend(Function):
    """Queries [B, H, K, d] over the nodes of their graph, keys and values [N, H d], by a softmax that is never whole.

    A running maximum and sums relative to it, as in flash attention (https://arxiv.org/abs/2205.14135).
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mass: Tensor | None, ptr: list[int]) -> Tensor:
        _, heads, queries, width = query.shape
        scaled = query * width**-0.5
        total = query.new_zeros(*query.shape[:3], value.size(1) // heads)
        norm = query.new_zeros(*query.shape[:3], 1)
        top = torch.full_like(norm, torch.finfo(query.dtype).min)
        buffer = _buffer(query)
        for graph, rows in _pieces(ptr, query):
            keys = _heads(key, rows, query)
            e = _room(buffer, heads, queries, keys.size(1))
            torch.bmm(scaled[graph], keys.mT, out=e)
            new = torch.maximum(top[graph], e.amax(-1, keepdim=True))
            shrink = (top[graph] - new).exp_()
            top[graph] = new
            torch.exp(e.sub_(new), out=e)
            if mass is not None:
                e *= mass[rows]
            norm[graph] = norm[graph] * shrink + e.sum(-1, keepdim=True)
            total[graph] *= shrink
            total[graph].baddbmm_(e, _heads(value, rows, query))
        common = all_reduce(top, "max")
        shrink = (top - common).exp_()
        norm = all_reduce(norm * shrink, "sum").clamp_min(torch.finfo(query.dtype).tiny)  # of a graph without nodes
        z = all_reduce(total * shrink, "sum") / norm
        ctx.save_for_backward(query, key, value, mass, z, common + norm.log())
        ctx.ptr = ptr
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_z: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, mass, z, log_norm = ctx.saved_tensors
        _, heads, queries, width = query.shape
        d_z = all_reduce(d_z.contiguous(), "sum")
        scaled = query * width**-0.5
        inner = (d_z * z).sum(-1, keepdim=True)
        d_query, d_key, d_value = torch.zeros_like(query), torch.empty_like(key), torch.empty_like(value)
        room, other = _buffer(query), _buffer(query)
        for graph, rows in _pieces(ctx.ptr, query):
            keys = _heads(key, rows, query)
            p, d_p = (_room(buffer, heads, queries, keys.size(1)) for buffer in (room, other))
            torch.baddbmm(log_norm[graph], scaled[graph], keys.mT, beta=-1, out=p).exp_()
            if mass is not None:
                p *= mass[rows]
            _put(d_value, rows, torch.bmm(p.mT, d_z[graph]))
            torch.baddbmm(inner[graph], d_z[graph], _heads(value, rows, query).mT, beta=-1, out=d_p)
            d_p *= p
            d_query[graph].baddbmm_(d_p, keys)
            _put(d_key, rows, torch.bmm(d_p.mT, scaled[graph]))
        return d_query * width**-0.5, d_key, d_value, None, None
