from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import gelu, linear

from meshop.nn.shares import PIECE

_gelu_backward = torch.ops.aten.gelu_backward


class FeedForward(nn.Module):
    r"""The two-layer perceptron of a transformer, on each node by itself: :math:`W_2\, \mathrm{GELU}(W_1 x)`.

    The nodes are taken in pieces that fit into the cache. What is between the two maps is made anew for the backward
    pass, which keeps x alone.

    Args:
        in_channels: size of the input.
        hidden_channels: size between the two maps.
        out_channels: size of the output.

    Shapes:
        - **input:** x [..., in_channels]
        - **output:** [..., out_channels]

    >>> import torch
    >>> FeedForward(3, 8, 2)(torch.ones(5, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.out_channels = out_channels
        self.lin1 = nn.Linear(in_channels, hidden_channels)
        self.lin2 = nn.Linear(hidden_channels, out_channels)

    def reset_parameters(self) -> None:
        self.lin1.reset_parameters()
        self.lin2.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        device = x.device.type
        lower = device != "meta" and torch.is_autocast_enabled(device) and x.dtype != torch.float64
        dtype = torch.get_autocast_dtype(device) if lower else x.dtype
        layers = (self.lin1, self.lin2)
        own = all(type(lin) is nn.Linear and not (lin._forward_hooks or lin._forward_pre_hooks) for lin in layers)
        if torch.compiler.is_compiling() or not own or not (lower or dtype == self.lin1.weight.dtype):
            return self.lin2(gelu(self.lin1(x)))
        weights = (self.lin1.weight, self.lin1.bias, self.lin2.weight, self.lin2.bias)
        with torch.autocast(device, enabled=False):
            y: Tensor = _FeedForward.apply(x.reshape(-1, x.size(-1)), *weights, dtype)
        return y.view(*x.shape[:-1], self.out_channels)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, {self.out_channels})"


class _FeedForward(Function):
    """x [N, C] to [N, C'] in a precision, with gradients of weights in their own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.save_for_backward(x, w1, b1, w2, b2)
        ctx.dtype = dtype
        w1, b1, w2, b2 = (w.to(dtype) for w in (w1, b1, w2, b2))
        y = x.new_empty(len(x), len(w2), dtype=dtype)
        for rows in _pieces(x, len(w1)):
            torch.addmm(b2, gelu(torch.addmm(b1, x[rows].to(dtype), w1.mT)), w2.mT, out=y[rows])
        return y

    @staticmethod
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights, last = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again
            inputs = (x, *weights, last)
            with torch.enable_grad():
                y = linear(gelu(linear(*(t.to(ctx.dtype) for t in inputs[:3]))), *(t.to(ctx.dtype) for t in inputs[3:]))
            needed = [t for t in inputs if t.requires_grad]
            found = iter(torch.autograd.grad(y, needed, d_y, create_graph=True))
            return *(next(found) if t.requires_grad else None for t in inputs), None
        w1, b1, w2 = (w.to(ctx.dtype) for w in weights)
        d_x = torch.empty_like(x)
        exact = torch.promote_types(w1.dtype, torch.float32)
        d_w1, d_b1, d_w2 = (torch.zeros_like(w, dtype=exact) for w in weights)
        d_b2 = d_y.sum(0, dtype=exact)
        for rows in _pieces(x, len(w1)):
            some, d_some = x[rows].to(ctx.dtype), d_y[rows]
            h = torch.addmm(b1, some, w1.mT)
            d_w2 += d_some.mT @ gelu(h)
            d_h = _gelu_backward(d_some @ w2, h)
            d_w1 += d_h.mT @ some
            d_b1 += d_h.sum(0, dtype=d_b1.dtype)
            d_x[rows] = d_h @ w1
        d_weights = (d.to(weights[0].dtype) for d in (d_w1, d_b1, d_w2, d_b2))
        return d_x, *d_weights, None


def _pieces(x: Tensor, hidden: int) -> Iterator[slice]:
    size = max(PIECE.get(x.device.type, 2**27) // hidden, 64)
    for first in range(0, len(x), size):
        yield slice(first, min(first + size, len(x)))
