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
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from meshop.nn.functional import Nodes, all_reduce, full_precision, segment_attention, soft_pool, soft_unpool

PIECE = {"cpu": 2**18}  # weights H M of a piece together: 1 MB; on other devices 512 MB
_softmax_backward = torch.ops.aten._softmax_backward_data.out


class Shares(ABC):
    r"""How much of each node belongs to each token: :math:`w_n \in [0, 1]^M` in each head."""

    @abstractmethod
    def pool(self, value: Tensor) -> Tensor:
        r"""Sums [B, H, M, d] of values [N, H d] over each graph: :math:`\sum_n m_n w_{nm} v_n`.

        Of values :func:`with_ones`, :func:`weighted_mean` makes means.
        """

    @abstractmethod
    def unpool(self, token: Tensor) -> Tensor:
        r"""Tokens [B, H, M, d] handed back to nodes [N, H d]: :math:`y_n = \sum_m w_{nm} z_m`."""

    @abstractmethod
    def weights(self) -> Tensor:
        """All weights [N, H, M]."""


def softmax_shares(x: Tensor, weight: Tensor, nodes: Nodes) -> Shares:
    r"""The assignment :math:`w_n = \mathrm{softmax}_M(x_n W)`, in each head.

    Args:
        x: [N, H d]; a bias is the last row of W where the last of d is one, see :func:`with_ones`.
        weight: W [H, d, M]
        nodes: the graphs of the nodes.
    """
    if torch.compiler.is_compiling():
        tiles = nodes.tiles
        logit = tiles.split_heads(x, weight.size(0)) @ weight  # [t, H, T, M]
        return Stored(logit.softmax(-1, dtype=tiles.mass.dtype), nodes)
    return Remade(x, weight, nodes)


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


def with_ones(x: Tensor, heads: int) -> Tensor:
    """Features [N, H d] with a one behind those of each head: [N, H (d + 1)]."""
    return pad(x.unflatten(-1, (heads, -1)), (0, 1), value=1.0).flatten(-2)


def weighted_mean(total: Tensor) -> Tensor:
    """Means [..., d] of sums [..., d + 1] whose last is that of the weights; the constant is Transolver's."""
    return total[..., :-1] / (total[..., -1:] + 1e-5)


class Stored(Shares):
    """Weights in tiles [t, H, T, M]."""

    def __init__(self, weight: Tensor, nodes: Nodes) -> None:
        self.weight = weight
        self.tiles = nodes.tiles

    def pool(self, value: Tensor) -> Tensor:
        return soft_pool(self.weight, self.tiles.split_heads(value, self.weight.size(1)), self.tiles, mean=False)

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

    def __init__(self, x: Tensor, weight: Tensor, nodes: Nodes) -> None:
        self.x = nodes.in_order(x)
        self.weight = weight.to(nodes.dtype)
        self.nodes = nodes
        self.small = _is_small(self.x, self.weight)
        self.link: Tensor | None = None
        self.left: list[tuple[Tensor, Tensor]] = []

    def pool(self, value: Tensor) -> Tensor:
        with full_precision(value):
            value = self.nodes.in_order(value)
            left: list[tuple[Tensor, Tensor]] = []
            total, link = _Pool.apply(self.x, value, self.weight, self.nodes.mass, self.nodes.ptr, self.small, left)
            if torch.is_grad_enabled():
                self.link, self.left = link, left
            return all_reduce(total, "sum")

    def unpool(self, token: Tensor) -> Tensor:
        with full_precision(token):
            link, self.link = self.link, None  # for one
            token = token.to(self.nodes.dtype)
            y = _Unpool.apply(token, link, self.x, self.weight, self.nodes.ptr, self.small, self.left)
            return self.nodes.as_given(y)

    @torch.no_grad()
    def weights(self) -> Tensor:
        out = self.x.new_empty(len(self.x), self.weight.size(0), self.weight.size(2), dtype=self.weight.dtype)
        x, room = _by_head(self.x, self.weight), _room(self.weight)
        for _, rows in _pieces(self.nodes.ptr, self.weight):
            out[rows] = _softmax(x[:, rows], self.weight, room, self.small).transpose(0, 1)
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


def _room(weight: Tensor, width: int = 0) -> Tensor:
    """Room for the weights of a piece, or for features of a width of its nodes."""
    return weight.new_empty(weight.size(0) * _size(weight) * (width or weight.size(2)))


def _view(room: Tensor, *shape: int) -> Tensor:
    return room[: math.prod(shape)].view(shape)


def _by_head(x: Tensor, weight: Tensor) -> Tensor:
    """Features [N, H d] as [H, N, d], a view."""
    return x.unflatten(1, (weight.size(0), -1)).transpose(0, 1)


def _is_small(x: Tensor, weight: Tensor) -> bool:
    """Whether no logit can be so large that its exponential is not a number, by Cauchy's inequality.

    Then a softmax needs no maximum. It is not worth the wait on other devices than the CPU.
    """
    if x.device.type != "cpu" or x.dtype != weight.dtype or not len(x):
        return False
    longest = torch.linalg.vector_norm(x.detach().unflatten(1, (weight.size(0), -1)), dim=-1).amax(0)  # [H]
    return bool((longest * torch.linalg.vector_norm(weight.detach(), dim=1).amax(-1)).amax() < 60)


def _softmax(x: Tensor, weight: Tensor, room: Tensor, small: bool) -> Tensor:
    """Weights [H, T, M] of nodes [H, T, d]."""
    w = _view(room, x.size(0), x.size(1), weight.size(2))
    torch.bmm(x.to(weight.dtype), weight, out=w)
    if not small:
        return torch.softmax(w, -1, out=w)
    torch.exp(w, out=w)
    return w.mul_(w.sum(-1, keepdim=True).reciprocal_())


class _Pool(Function):
    """Sums over nodes of values, weighted by shares and masses, and what takes the gradient of unpooling.

    ``x`` [N, H d], ``value`` [N, H e], ``weight`` [H, d, M], ``mass`` [N] to [B, H, M, e].
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        value: Tensor,
        weight: Tensor,
        mass: Tensor | None,
        ptr: list[int],
        small: bool,
        left: list[tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, Tensor]:
        heads, _, tokens = weight.shape
        total = weight.new_zeros(len(ptr) - 1, heads, tokens, value.size(1) // heads)
        xs, vs, room = _by_head(x, weight), _by_head(value, weight), _room(weight)
        for graph, rows in _pieces(ptr, weight):
            w = _softmax(xs[:, rows], weight, room, small)
            v = vs[:, rows] if mass is None else vs[:, rows] * mass[rows, None]
            total[graph].baddbmm_(w.mT, v.to(w.dtype))
        ctx.save_for_backward(x, value, weight, mass)
        ctx.ptr, ctx.small, ctx.left = ptr, small, left
        ctx.set_materialize_grads(False)
        return total, weight.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_total: Tensor | None, d_link: Tensor | None) -> tuple[Tensor | None, ...]:
        x, value, weight, mass = ctx.saved_tensors
        d_y, token = (None, None) if d_link is None else ctx.left.pop()
        d_x, d_weight, d_value = _assignment_backward(x, weight, ctx.ptr, ctx.small, d_y, token, value, mass, d_total)
        return d_x, d_value, d_weight, None, None, None, None


class _Unpool(Function):
    """Tokens [B, H, M, d] to nodes [N, H d]."""

    @staticmethod
    def forward(
        ctx: Any,
        token: Tensor,
        link: Tensor | None,
        x: Tensor,
        weight: Tensor,
        ptr: list[int],
        small: bool,
        left: list[tuple[Tensor, Tensor]],
    ) -> Tensor:
        y = x.new_empty(len(x), token.size(1) * token.size(3))
        xs, ys, room = _by_head(x, weight), _by_head(y, weight), _room(weight)
        for graph, rows in _pieces(ptr, weight):
            ys[:, rows] = _softmax(xs[:, rows], weight, room, small) @ token[graph]
        ctx.save_for_backward(token, x, weight)
        ctx.ptr, ctx.small, ctx.left = ptr, small, None if link is None else left
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        token, x, weight = ctx.saved_tensors
        d_token = torch.zeros_like(token)
        xs, d_ys, room = _by_head(x, weight), _by_head(d_y, weight), _room(weight)
        for graph, rows in _pieces(ctx.ptr, weight):
            w = _softmax(xs[:, rows], weight, room, ctx.small)
            d_token[graph].baddbmm_(w.mT, d_ys[:, rows].to(w.dtype))
        if ctx.left is not None:
            ctx.left.append((d_y, token))
            return d_token, weight.new_zeros(()), None, None, None, None, None
        d_x, d_weight, _ = _assignment_backward(x, weight, ctx.ptr, ctx.small, d_y, token)
        return d_token, None, d_x, d_weight, None, None, None


def _assignment_backward(
    x: Tensor,
    weight: Tensor,
    ptr: list[int],
    small: bool,
    d_y: Tensor | None,
    token: Tensor | None,
    value: Tensor | None = None,
    mass: Tensor | None = None,
    d_total: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    r"""Gradients of x, W and the values, from those of unpooling and of pooling.

    That of the weights is :math:`\partial L / \partial w_{nm} = g_n z_m + m_n v_n \, \partial L / \partial Z_m`, one
    product of the features of the nodes, side by side, with those of the tokens.
    """
    d_x, d_weight = torch.empty_like(x), torch.zeros_like(weight)
    d_value = None if value is None else torch.zeros_like(value) if d_total is None else torch.empty_like(value)
    left = [
        (features, scale)
        for features, other, scale in ((d_y, token, None), (value, d_total, mass))
        if other is not None
    ]
    right = torch.cat([t for t in (token, d_total) if t is not None], -1).mT.contiguous()
    back = weight.mT.contiguous()
    room, other, both = _room(weight), _room(weight), _room(weight, right.size(-2))
    xs, d_xs = _by_head(x, weight), _by_head(d_x, weight)
    parts = [(_by_head(features, weight), scale) for features, scale in left if features is not None]
    d_vs = None if d_value is None else _by_head(d_value, weight)
    for graph, rows in _pieces(ptr, weight):
        w = _softmax(xs[:, rows], weight, room, small)
        product = _view(both, w.size(0), w.size(1), right.size(-2))
        at = 0
        for part, scale in parts:
            target = product[..., at : at + part.size(2)]
            target.copy_(part[:, rows])
            if scale is not None:
                target *= scale[rows, None]
            at += part.size(2)
        d_w = torch.bmm(product, right[graph], out=_view(other, *w.shape))
        if d_vs is not None and d_total is not None:
            d_v = w @ d_total[graph]
            d_vs[:, rows] = d_v if mass is None else d_v.mul_(mass[rows, None])
        d_logit = _softmax_backward(d_w, w, -1, w.dtype, grad_input=d_w)
        d_xs[:, rows] = d_logit @ back
        d_weight.baddbmm_(xs[:, rows].to(w.dtype).mT, d_logit)
    return d_x, d_weight, d_value


class _Attend(Function):
    """Queries [B, H, K, d] over the nodes of their graph, keys and values [N, H d], by a softmax that is never whole.

    A running maximum and sums relative to it, as in flash attention (https://arxiv.org/abs/2205.14135).
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mass: Tensor | None, ptr: list[int]) -> Tensor:
        _, heads, queries, width = query.shape
        shape = query[0].mT if len(query) else query.new_zeros(heads, width, queries)  # [H, d, K]
        scaled = query * width**-0.5
        total = query.new_zeros(*query.shape[:3], value.size(1) // heads)
        norm = query.new_zeros(*query.shape[:3], 1)
        top = torch.full_like(norm, torch.finfo(query.dtype).min)
        keys, values, room = _by_head(key, shape), _by_head(value, shape), _room(shape)
        for graph, rows in _pieces(ptr, shape):
            k, v = keys[:, rows].to(query.dtype), values[:, rows].to(query.dtype)
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
        shrink = (top - common).exp_()
        sums = all_reduce(torch.cat([total, norm], -1) * shrink, "sum")
        norm = sums[..., -1:].clamp_min(torch.finfo(query.dtype).tiny)  # of a graph without nodes
        z = sums[..., :-1] / norm
        ctx.save_for_backward(query, key, value, mass, z, common + norm.log())
        ctx.ptr = ptr
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_z: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, mass, z, log_norm = ctx.saved_tensors
        _, heads, queries, width = query.shape
        shape = query[0].mT if len(query) else query.new_zeros(heads, width, queries)
        d_z = all_reduce(d_z.contiguous(), "sum")
        scaled = query * width**-0.5
        inner = (d_z * z).sum(-1, keepdim=True)
        d_query, d_key, d_value = torch.zeros_like(query), torch.empty_like(key), torch.empty_like(value)
        keys, values, d_keys, d_values = (_by_head(t, shape) for t in (key, value, d_key, d_value))
        room, other = _room(shape), _room(shape)
        for graph, rows in _pieces(ctx.ptr, shape):
            k, v = keys[:, rows].to(query.dtype), values[:, rows].to(query.dtype)
            p, d_p = (_view(buffer, heads, queries, k.size(1)) for buffer in (room, other))
            torch.bmm(scaled[graph], k.mT, out=p).sub_(log_norm[graph])
            torch.exp(p, out=p)
            if mass is not None:
                p *= mass[rows]
            d_values[:, rows] = p.mT @ d_z[graph]
            torch.bmm(d_z[graph], v.mT, out=d_p).sub_(inner[graph]).mul_(p)
            d_query[graph].baddbmm_(d_p, k)
            d_keys[:, rows] = d_p.mT @ scaled[graph]
        return d_query * width**-0.5, d_key, d_value, None, None
