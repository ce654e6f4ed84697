import math

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, silu


class TimestepEmbedding(nn.Module):
    r"""Sines and cosines of time through a two-layer perceptron, as in Transolver.

    .. math::
        e = W_2\, \mathrm{SiLU}\bigl( W_1\, [\cos \omega_k s t, \sin \omega_k s t] \bigr), \qquad
        \omega_k = 10^{-4 k / \lfloor C/2 \rfloor}

    Args:
        channels: size C of the embedding.
        scale: factor s of the time. The frequencies suit time steps of 0 to 1,000; the authors leave the scale at 1
            even for times in [0, 1], where almost all channels are constant.

    Shapes:
        - **input:** time [B] or [B, 1], one value a graph
        - **output:** [B, channels]

    >>> TimestepEmbedding(8)(torch.tensor([0.0, 0.5])).shape
    torch.Size([2, 8])
    """

    def __init__(self, channels: int, scale: float = 1.0) -> None:
        super().__init__()
        self.channels = channels
        self.scale = scale
        self.lin1 = nn.Linear(channels, channels)
        self.lin2 = nn.Linear(channels, channels)

    def reset_parameters(self) -> None:
        self.lin1.reset_parameters()
        self.lin2.reset_parameters()

    def forward(self, time: Tensor) -> Tensor:
        half = self.channels // 2
        dtype = torch.promote_types(time.dtype, torch.float32)
        rate = -math.log(1e4) / max(half, 1)
        omega = torch.arange(half, device=time.device, dtype=dtype).mul(rate).exp()  # [C / 2]
        angle = self.scale * time.reshape(-1, 1).to(dtype) * omega  # [B, C / 2]
        wave = pad(torch.cat([angle.cos(), angle.sin()], dim=1), (0, self.channels % 2))  # [B, C]
        wave = wave.to(self.lin1.weight.dtype)
        return self.lin2(silu(self.lin1(wave)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels})"
