import math

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, silu, softplus

from meshop.data import InputError
from meshop.nn.ssd import Discretization, ssd


class Hydra(nn.Module):
    r"""The bidirectional state-space mixer of `"Hydra: Bidirectional State Space Models Through Generalized Matrix
    Mixers" <https://arxiv.org/abs/2407.09941>`_, the core of LaMO on meshes: a quasiseparable matrix over the tokens.

    With :math:`(z, v, \delta) = W_{in} x` and a depthwise convolution along the tokens that looks both ways,
    :math:`(u, B^\to, C^\to, B^\gets, C^\gets) = \mathrm{SiLU}(\mathrm{conv}(v))`,

    .. math::
        \Delta &= \mathrm{softplus}(\delta + b) \quad \text{in either direction}, \qquad A = -e^{\alpha} \\
        r &= \mathrm{shift}(\mathrm{SSD}(u; \Delta^\to, A, B^\to, C^\to))
           + \mathrm{flip}(\mathrm{shift}(\mathrm{SSD}(\mathrm{flip}(u; \Delta^\gets, B^\gets, C^\gets), A))) \\
        y &= W_{out} \bigl[ \mathrm{RMSNorm}(r + (W_D u + D)\, u) \odot \mathrm{SiLU}(z) \bigr]

    with :func:`~meshop.nn.ssd.ssd` started from a learned state. The shift by one token along each scan (a zero enters)
    takes a token's own value out of both, so that only :math:`W_D u + D`, one number a head, weighs it.

    Differences from the code that LaMO uses:

    1. Lengths and groups are free; no CUDA kernel is needed.
    2. ``discretization="zoh"`` is the rule of LaMO's paper; its code, and the default here, takes
       :math:`\bar B = \Delta B`.

    Time is O(M C (C + N + Q)), memory O(M (C + N + H Q)), for M tokens, state size N, H heads and chunks of Q ≤ 128
    tokens.

    Args:
        channels: size C of the tokens.
        state_channels: size N of the state of each channel.
        expand: inner size in units of ``channels``.
        head_channels: inner channels that share a decay; by default what ``channels`` and 64 have in common.
        groups: number of groups of heads that share B and C.
        kernel_size: tokens that the convolution spans, an odd number.
        discretization: see :func:`~meshop.nn.ssd.ssd`.

    Shapes:
        - **input:** tokens [B, M, C]
        - **output:** [B, M, C]

    Raises:
        InputError: the inner channels do not divide into heads, or these into groups; ``kernel_size`` is even.

    >>> Hydra(32, state_channels=8)(torch.ones(2, 5, 32)).shape
    torch.Size([2, 5, 32])
    """

    def __init__(
        self,
        channels: int,
        state_channels: int = 64,
        expand: int = 2,
        head_channels: int | None = None,
        groups: int = 2,
        kernel_size: int = 3,
        discretization: Discretization = "mamba",
    ) -> None:
        super().__init__()
        self.channels = channels
        self.state_channels = state_channels
        self.expand = expand
        self.head_channels = math.gcd(channels, 64) if head_channels is None else head_channels
        self.groups = groups
        self.kernel_size = kernel_size
        self.discretization: Discretization = discretization
        inner = expand * channels
        self.heads = inner // self.head_channels
        if inner % self.head_channels or self.heads % groups:
            raise InputError(
                f"Expected {inner} inner channels to make a multiple of {groups} heads (got head_channels="
                f"{self.head_channels}); choose head_channels so that head_channels * groups divides {inner}"
            )
        if kernel_size % 2 == 0:
            raise InputError(f"Expected an odd kernel_size (got {kernel_size})")
        mixed = inner + 4 * groups * state_channels
        self.lin_in = nn.Linear(channels, inner + mixed + 2 * self.heads, bias=False)
        self.conv = nn.Conv1d(mixed, mixed, kernel_size, padding=kernel_size // 2, groups=mixed)
        self.dt_bias = nn.Parameter(torch.empty(self.heads))
        self.A_log = nn.Parameter(torch.empty(self.heads))
        self.initial_state = nn.Parameter(torch.empty(self.heads, self.head_channels, state_channels))
        self.lin_skip = nn.Linear(inner, self.heads)
        self.norm = nn.RMSNorm(inner, eps=1e-5)
        self.lin_out = nn.Linear(inner, channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for layer in (self.lin_in, self.conv, self.lin_skip, self.norm, self.lin_out):
            layer.reset_parameters()
        init_dt_bias(self.dt_bias)
        nn.init.zeros_(self.A_log)
        nn.init.zeros_(self.initial_state)
        nn.init.ones_(self.lin_skip.bias)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.expand * self.channels
        z, v, dt = self.lin_in(x).split([inner, self.conv.in_channels, 2 * self.heads], dim=-1)
        u, BC = silu(self.conv(v.mT).mT).split([inner, self.conv.in_channels - inner], dim=-1)
        u = u.unflatten(-1, (self.heads, -1))  # [B, M, H, P]
        # The directions are scanned side by side, the backward one over flipped tokens.
        B, C = flip_last(BC.unflatten(-1, (2, 2, self.groups, -1))).unbind(3)  # [B, M, 2, G, N]
        y = ssd(
            flip_last(torch.stack([u, u], dim=2)).flatten(2, 3),  # [B, M, 2 H, P]
            softplus(flip_last(dt.unflatten(-1, (2, -1))) + self.dt_bias).flatten(2, 3),  # [B, M, 2 H]
            -self.A_log.exp().repeat(2),
            B.flatten(2, 3),
            C.flatten(2, 3),
            self.initial_state.repeat(2, 1, 1),
            self.discretization,
        )
        y = pad(y, (0, 0, 0, 0, 1, -1)).unflatten(2, (2, -1))  # [B, M, 2, H, P]
        y = flip_last(y).sum(2) + self.lin_skip(u.flatten(-2)).unsqueeze(-1) * u
        return self.lin_out(self.norm(y.flatten(-2).to(self.norm.weight.dtype)) * silu(z))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, state_channels={self.state_channels}, expand={self.expand})"


def flip_last(x: Tensor) -> Tensor:
    """Reverse the tokens of the second direction: [B, M, 2, ...] -> [B, M, 2, ...]."""
    return torch.stack([x[:, :, 0], x[:, :, 1].flip(1)], dim=2)


def init_dt_bias(bias: Tensor) -> None:
    """Fill a bias so that its softplus, the step size, is log-uniform in [0.001, 0.1]."""
    with torch.no_grad():
        step = torch.empty_like(bias).uniform_(math.log(1e-3), math.log(1e-1)).exp()
        bias.copy_(step + torch.log(-torch.expm1(-step)))
