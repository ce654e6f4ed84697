import math

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, silu, softplus

from meshop.data import InputError
from meshop.nn.hydra import flip_last, init_dt_bias
from meshop.nn.ssd import Discretization, ssd


class BiMamba2(nn.Module):
    r"""`"Transformers are SSMs" (Mamba-2) <https://arxiv.org/abs/2405.21060>`_ along the tokens and against them, the
    core of LaMO's unshared structured variant.

    With :math:`(z, v, \delta) = W_{in} x` and, for either direction :math:`k` (the second on flipped tokens),
    :math:`(u, B, C) = \mathrm{SiLU}(\mathrm{conv}_k(v))`, a depthwise convolution that looks back only,

    .. math::
        \Delta_k &= \mathrm{softplus}(\delta + b_k), \qquad A_k = -e^{\alpha_k} \\
        y_k &= \mathrm{RMSNorm} \bigl[ (\mathrm{SSD}(u; \Delta_k, A_k, B, C) + D_k u) \odot \mathrm{SiLU}(z) \bigr] \\
        y &= W_{out}\, (y_1 + \mathrm{flip}(y_2)) / 2 .

    The directions share :math:`W_{in}`, :math:`W_{out}` and the norm's weight; see :func:`~meshop.nn.ssd.ssd` for the
    scan. In contrast to :class:`Hydra`, the gate comes before the norm, a token's own value passes through both scans,
    and a scan starts from zero.

    Differences from the code that LaMO uses:

    1. Lengths are free; no CUDA kernel is needed.
    2. ``discretization="zoh"`` is the rule of LaMO's paper; its code, and the default here, takes
       :math:`\bar B = \Delta B`.
    3. What the directions do not share is held in one tensor, first forward, then backward.

    Time is O(M C (C + N + Q)), memory O(M (C + N + H Q)), for M tokens, state size N, H heads and chunks of Q ≤ 128
    tokens.

    Args:
        channels: size C of the tokens.
        state_channels: size N of the state of each channel.
        expand: inner size in units of ``channels``.
        head_channels: inner channels that share a decay; by default what ``channels`` and 32 have in common.
        kernel_size: tokens that a convolution spans.
        discretization: see :func:`~meshop.nn.ssd.ssd`.

    Shapes:
        - **input:** tokens [B, M, C]
        - **output:** [B, M, C]

    Raises:
        InputError: the inner channels do not divide into heads.

    >>> BiMamba2(32, state_channels=8)(torch.ones(2, 5, 32)).shape
    torch.Size([2, 5, 32])
    """

    def __init__(
        self,
        channels: int,
        state_channels: int = 64,
        expand: int = 2,
        head_channels: int | None = None,
        kernel_size: int = 3,
        discretization: Discretization = "mamba",
    ) -> None:
        super().__init__()
        self.channels = channels
        self.state_channels = state_channels
        self.expand = expand
        self.head_channels = math.gcd(channels, 32) if head_channels is None else head_channels
        self.kernel_size = kernel_size
        self.discretization: Discretization = discretization
        inner = expand * channels
        if inner % self.head_channels:
            raise InputError(f"Expected head_channels to divide {inner} (got {self.head_channels})")
        self.heads = inner // self.head_channels
        mixed = inner + 2 * state_channels
        self.lin_in = nn.Linear(channels, inner + mixed + self.heads, bias=False)
        self.conv = nn.Conv1d(2 * mixed, 2 * mixed, kernel_size, groups=2 * mixed)
        self.dt_bias = nn.Parameter(torch.empty(2, self.heads))
        self.A_log = nn.Parameter(torch.empty(2, self.heads))
        self.D = nn.Parameter(torch.empty(2, self.heads))
        self.norm = nn.RMSNorm(inner, eps=1e-5)
        self.lin_out = nn.Linear(inner, channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for layer in (self.lin_in, self.conv, self.norm, self.lin_out):
            layer.reset_parameters()
        init_dt_bias(self.dt_bias)
        with torch.no_grad():
            self.A_log.uniform_(1, 16).log_()
        nn.init.ones_(self.D)

    def forward(self, x: Tensor) -> Tensor:
        inner, N = self.expand * self.channels, self.state_channels
        z, v, dt = self.lin_in(x).split([inner, inner + 2 * N, self.heads], dim=-1)
        z, v, dt = (flip_last(torch.stack([t, t], dim=2)) for t in (z, v, dt))  # [B, M, 2, ...]
        v = pad(v.flatten(2).mT, (self.kernel_size - 1, 0))
        u, B, C = silu(self.conv(v).mT.unflatten(-1, (2, -1))).split([inner, N, N], dim=-1)  # [B, M, 2, ...]
        u = u.unflatten(-1, (self.heads, -1))  # [B, M, 2, H, P]
        delta = softplus(dt + self.dt_bias)  # [B, M, 2, H]
        A = -self.A_log.exp().flatten()
        y = ssd(u.flatten(2, 3), delta.flatten(2, 3), A, B, C, discretization=self.discretization)
        y = y.unflatten(2, (2, -1)) + self.D.unsqueeze(-1) * u
        y = self.norm((y.flatten(-2) * silu(z)).to(self.norm.weight.dtype))
        return self.lin_out(flip_last(y).mean(2))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, state_channels={self.state_channels}, expand={self.expand})"
