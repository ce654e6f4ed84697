"""The scan of selective state-space models, computed as attention inside chunks (state-space duality)."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from meshop.data import InputError
from meshop.nn.functional import full_precision

Discretization = Literal["mamba", "zoh"]


def ssd(
    x: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    initial_state: Tensor | None = None,
    discretization: Discretization = "mamba",
    chunk_size: int = 64,
) -> Tensor:
    r"""Scan sequences with a selective state-space model, from `"Transformers are SSMs" (Mamba-2)
    <https://arxiv.org/abs/2405.21060>`_.

    Each head :math:`h` carries a state :math:`s_t \in \mathbb{R}^{P \times N}` along its sequence,

    .. math::
        s_t = e^{\Delta_t A} s_{t-1} + w_t\, x_t B_t^\top, \qquad y_t = s_t C_t,

    with :math:`w_t = \Delta_t` as in the Mamba code, or :math:`w_t = (e^{\Delta_t A} - 1) / A`, the zero-order hold
    :math:`\bar B = (\Delta A)^{-1} (e^{\Delta A} - 1) \Delta B` of the papers; the two agree to first order in
    :math:`\Delta A`. Unrolled over a chunk of :math:`Q` steps, the recurrence is a masked attention without softmax,

    .. math::
        y_i = \sum_{j \le i} e^{a_{j+1} + \dots + a_i} (C_i^\top B_j)\, w_j x_j + e^{a_1 + \dots + a_i} s_0 C_i,
        \qquad a_t = \Delta_t A,

    and only one state a chunk is passed on sequentially. A sequence of up to two ``chunk_size`` is a single chunk.

    1. Every exponential is one of a sum of :math:`a_t \le 0` over a range of steps, never a quotient of two, so nothing
       overflows however strong the decay; the sums are accumulated range by range and not as differences of running
       sums, which would cancel behind one strong step.
    2. The scan runs in float32 at least, whatever autocast says, and returns the dtype of ``x``.
    3. A last chunk that is not full is padded with :math:`\Delta = 0`, steps that neither decay nor write.

    The cost is :math:`O(L (Q + N) P + L Q N)` a head for :math:`L` steps, the memory :math:`O(L (Q + P + N))`.

    Args:
        x: input sequences.
        delta: step sizes, positive.
        A: decay rate of each head, negative.
        B: input directions; the heads are split into G consecutive groups that share theirs.
        C: output directions, grouped like ``B``.
        initial_state: state before the first step, one for all sequences or one each; zero when not given.
        discretization: ``"mamba"`` or ``"zoh"``.
        chunk_size: steps Q of a chunk.

    Shapes:
        - **x:** :math:`[S, L, H, P]`, **delta:** :math:`[S, L, H]`, **A:** :math:`[H]`
        - **B, C:** :math:`[S, L, G, N]`
        - **initial_state:** :math:`[H, P, N]` or :math:`[S, H, P, N]`
        - **output:** :math:`[S, L, H, P]`

    Raises:
        InputError: ``discretization`` is neither of the two, or the heads do not split into the groups.

    Example:
        >>> x, delta = torch.ones(1, 4, 1, 1), torch.ones(1, 4, 1)
        >>> B = C = torch.ones(1, 4, 1, 1)
        >>> ssd(x, delta, torch.tensor([-0.6931472]), B, C).flatten()  # halves and adds one at each step
        tensor([1.0000, 1.5000, 1.7500, 1.8750])
    """
    if discretization not in ("mamba", "zoh"):
        raise InputError(f"Expected discretization 'mamba' or 'zoh' (got '{discretization}')")
    S, L, H, P = x.shape
    G, N = B.shape[-2:]
    if H % G:
        raise InputError(f"Expected a number of heads that the {G} groups divide (got {H} heads)")
    Q = L if 2 * chunk_size >= L else chunk_size
    K = -(-L // Q)
    with full_precision(x):
        dtype = torch.promote_types(x.dtype, torch.float32)
        delta, A = delta.to(dtype), A.to(dtype)
        log_decay = delta * A  # [S, L, H]
        weight = delta if discretization == "mamba" else torch.expm1(log_decay) / A
        u = x.to(dtype) * weight.unsqueeze(-1)  # [S, L, H, P]

        def chunks(t: Tensor, heads: int) -> Tensor:
            """[S, L, G*heads, ...] -> [S, K, G, heads, Q, ...], the last of the K chunks padded with zeros."""
            t = F.pad(t, (0, 0) * (t.dim() - 2) + (0, K * Q - L))
            return t.reshape(S, K, Q, G, heads, *t.shape[3:]).movedim(2, 4)

        u, a = chunks(u, H // G), chunks(log_decay, H // G)  # [S, K, G, R, Q, P], [S, K, G, R, Q]
        B, C = chunks(B.to(dtype), 1), chunks(C.to(dtype), 1)  # [S, K, G, 1, Q, N]

        decay = _segment_sums(a).exp()  # [S, K, G, R, Q, Q]
        y = (decay * (C @ B.mT)) @ u  # [S, K, G, R, Q, P]

        # What each chunk adds to the state by its end, and the state with which each chunk begins.
        written = (u * decay[..., -1, :, None]).mT @ B  # [S, K, G, R, P, N]
        from_start = a.cumsum(-1).exp()  # [S, K, G, R, Q]
        state = torch.zeros_like(written[:, 0])
        if initial_state is not None:
            state = state + initial_state.to(dtype).reshape(-1, G, H // G, P, N)
        states = [state]
        left = from_start[..., -1, None, None]
        for keep, add in zip(left[:, :-1].unbind(1), written[:, :-1].unbind(1), strict=True):
            states.append(states[-1] * keep + add)
        y = y + from_start.unsqueeze(-1) * (C @ torch.stack(states, dim=1).mT)
        return y.movedim(4, 2).reshape(S, K * Q, H, P)[:, :L].to(x.dtype)


def _segment_sums(a: Tensor) -> Tensor:
    """Sums ``a[j+1] + ... + a[i]`` for ``j <= i``, minus infinity above the diagonal: [..., Q] -> [..., Q, Q]."""
    ones = torch.ones(a.size(-1), a.size(-1), dtype=torch.bool, device=a.device)
    steps = a.unsqueeze(-1).expand(*a.shape, a.size(-1)).masked_fill(ones.triu(), 0.0)
    return steps.cumsum(-2).masked_fill(ones.triu(1), -torch.inf)
