from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, gelu, pad

from meshop.data import InputError
from meshop.nn.feed_forward import FeedForward
from meshop.nn.functional import Nodes
from meshop.nn.shares import Shares, Stored, softmax_shares, weighted_mean, with_ones
from meshop.nn.slice_attention import SliceAttention
from meshop.nn.slices import Assignment


class EideticAttention(nn.Module):
    r"""Physics-Attention with eidetic states, from `"Transolver++: An Accurate Neural Solver for PDEs on Million-Scale
    Geometries" <https://arxiv.org/abs/2502.02414>`_: each node sets how sharply it is assigned.

    With :math:`x_n \in \mathbb{R}^d` a linear map of a node's features in one head and masses :math:`m_n` (1 without a
    measure, see :class:`~meshop.nn.functional.Tiles`),

    .. math::
        \tau_n &= \max\bigl( \mathrm{GELU}(\mathrm{MLP}(x_n)) + b,\; \tau_{\min} \bigr) \\
        w_n &= \mathrm{softmax}_M \bigl( (W_s x_n + b_s + g_n) / \tau_n \bigr) \\
        z_m &= \sum_n m_n w_{nm} x_n \big/ \bigl( \textstyle\sum_n m_n w_{nm} + 10^{-5} \bigr) \\
        z'  &= \mathrm{softmax}_M \bigl( W_q z\, (W_k z)^\top / \sqrt{d} \bigr)\, W_v z \\
        y_n &= W_o\, \mathrm{concat}_h \textstyle\sum_m w_{nm} z'_m

    with Gumbel noise :math:`g_{nm} = -\log(-\log U)`, :math:`U` uniform in (0, 1). The MLP
    (:math:`d \to M \to 1`), :math:`W_s, W_q, W_k, W_v` are shared by the heads; :math:`b` is learned for each.

    Differences from the authors' code:

    1. Noise is drawn in training only; theirs is drawn at inference too (``gumbel="always"``), so that no two
       predictions agree. In its place stands the mean of the noisy assignment, :math:`w_n \approx \mathrm{softmax}_M
       ( (W_s x_n + b_s) / \sqrt{1 + \tau_n^2} )`: a softmax with temperature :math:`\tau` is the choice of the largest
       logit under logistic noise of scale :math:`\tau`, the difference of two Gumbel numbers is logistic of scale 1,
       and variances add. Merely leaving the noise out makes the assignment far sharper than the one that was trained:
       on ``holed_poisson`` the relative L2 was 0.037 with noise, 0.038 with its mean and 0.237 without.
    2. The sums over the nodes of a mesh that is cut over processes enter the result
       (:func:`~meshop.nn.functional.domain_parallel`); they reduce a tensor and go on with the one before.
    3. Graphs may differ in size, and nodes may carry a measure. Then splitting a node changes nothing, and neither
       does the unit of the measure.
    4. Linear maps start as torch's, see :class:`PhysicsAttention`.

    Time is O(N C² + N M C), memory O(N C + M C), with noise O(N C + N H M).

    Args:
        channels: size C of input and output.
        heads: number of heads H.
        num_slices: number of slices M.
        dropout: probability with which entries of the slices' attention and of the output are zeroed in training.
        gumbel: ``"train"`` for noise in training and its mean in evaluation, ``"always"`` for noise in both, ``"off"``
            for none.
        min_temperature: lower bound of the temperature.

    Shapes:
        - **input:** x [N, C], batch [N], measure [N]
        - **output:** [N, C]

    Raises:
        InputError: ``channels`` is no multiple of ``heads``; ``gumbel`` is none of the three; the bound is not
            positive.

    >>> layer = EideticAttention(16, heads=4, num_slices=8)
    >>> layer(torch.ones(7, 16), batch=torch.tensor([0, 0, 1, 1, 1, 1, 1])).shape
    torch.Size([7, 16])
    """

    def __init__(
        self,
        channels: int,
        heads: int = 8,
        num_slices: int = 64,
        dropout: float = 0.0,
        gumbel: Literal["train", "always", "off"] = "train",
        min_temperature: float = 0.01,
    ) -> None:
        super().__init__()
        if channels % heads != 0:
            raise InputError(f"Expected channels to be a multiple of heads (got {channels} and {heads})")
        if gumbel not in ("train", "always", "off"):
            raise InputError(f"Expected gumbel to be 'train', 'always' or 'off' (got '{gumbel}')")
        if not min_temperature > 0:
            raise InputError(f"Expected a positive min_temperature (got {min_temperature})")
        self.channels = channels
        self.heads = heads
        self.num_slices = num_slices
        self.dropout = dropout
        self.gumbel: Literal["train", "always", "off"] = gumbel
        self.min_temperature = min_temperature
        width = channels // heads
        self.lin_x = nn.Linear(channels, channels)
        self.lin_slice = nn.Linear(width, num_slices)
        self.temperature = FeedForward(width, num_slices, 1)
        self.bias = nn.Parameter(torch.empty(heads))
        self.assign = Assignment()
        self.update = SliceAttention(width, dropout)
        self.lin_out = nn.Linear(channels, channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for layer in (self.lin_x, self.lin_slice, self.temperature, self.update, self.lin_out):
            layer.reset_parameters()
        nn.init.constant_(self.bias, 0.5)

    def forward(
        self,
        x: Tensor,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        nodes = Nodes(x, batch, measure, batch_size)
        x = self.lin_x(x)
        own = x.unflatten(1, (self.heads, -1))  # [N, H, d]
        tau = (gelu(self.temperature(own)) + self.bias[:, None]).clamp_min(self.min_temperature)  # [N, H, 1]
        if self.gumbel == "always" or (self.gumbel == "train" and self.training):
            logit = self.lin_slice(own)  # [N, H, M]
            logit = (logit - torch.empty_like(logit, dtype=nodes.dtype).exponential_().log()) / tau
            logit = nodes.tiles.split_heads(logit.flatten(1), self.heads)  # [t, H, T, M]
            shares: Shares = Stored(logit.softmax(-1, dtype=nodes.dtype), nodes)
        else:
            tau = tau if self.gumbel == "off" else (1 + tau.square()).sqrt()
            weight = torch.cat([self.lin_slice.weight, self.lin_slice.bias[:, None]], 1).T  # [d + 1, M]
            scaled = (pad(own, (0, 1), value=1.0) / tau).flatten(1)  # [N, H (d + 1)]
            shares = softmax_shares(scaled, weight.expand(self.heads, *weight.shape), nodes)
        shares = self.assign(shares)
        token = weighted_mean(shares.pool(with_ones(x, self.heads))).to(x.dtype)  # [B, H, M, d]
        y = shares.unpool(self.update(token))  # [N, C]
        return dropout(self.lin_out(y), self.dropout, self.training)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.channels}, heads={self.heads}, num_slices={self.num_slices}, "
            f"gumbel={self.gumbel!r})"
        )
