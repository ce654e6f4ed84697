"""Metrics of curves over time: when one crosses a threshold."""

from __future__ import annotations

import torch
from torch import Tensor

from meshop.data import InputError


def time_to_threshold(curve: Tensor, times: Tensor, threshold: float, falls: bool = True) -> Tensor:
    r"""The first time at which a curve is at or beyond a threshold, between its points by a straight line.

    .. math::
        t_{i - 1} + (t_i - t_{i - 1}) \frac{\theta - c_{i - 1}}{c_i - c_{i - 1}}, \qquad
        i = \min \{ j : c_j \le \theta \}

    with :math:`c_j \ge \theta` for a curve that rises. Of the correlation over lead time it is how long a rollout is
    of use, of the error with ``falls=False`` when it has grown too large.

    A curve that begins beyond the threshold has the first time, one that never gets there infinity: what is known is
    only that it takes longer than the last time. A value that is not finite is beyond it, at its own time, as that of
    a rollout that has blown up.

    Args:
        curve: [..., T], ``pearson(pred, target, batch, keep=1)`` say.
        times: increasing, [T], or [..., T] with a row for each curve.
        threshold: :math:`\theta`, in the unit of the curve.
        falls: whether the curve starts above the threshold, rather than below.

    Returns:
        [...] in the unit of the times.

    Raises:
        InputError: there is not one time for each point; there are no points.

    >>> curve = torch.tensor([[1.0, 0.9, 0.5, 0.7], [1.0, 1.0, 1.0, 1.0]])
    >>> time_to_threshold(curve, torch.tensor([0.0, 1.0, 2.0, 3.0]), 0.8)
    tensor([1.2500,    inf])
    """
    if curve.dim() == 0 or not curve.size(-1) or times.shape not in (curve.shape, curve.shape[-1:]):
        raise InputError(
            f"Expected a curve [..., T] and times [T], or one for each point (got {list(curve.shape)} and "
            f"{list(times.shape)})"
        )
    dtype = torch.promote_types(torch.promote_types(curve.dtype, times.dtype), torch.float32)
    curve, times = curve.to(dtype), times.to(dtype).expand(curve.shape)
    beyond = (curve <= threshold if falls else curve >= threshold) | ~curve.isfinite()
    last = beyond.long().argmax(-1, keepdim=True)
    before = (last - 1).clamp_min(0)
    (c0, c1), (t0, t1) = ((x.gather(-1, before), x.gather(-1, last)) for x in (curve, times))
    share = (threshold - c0) / torch.where(c1 == c0, 1, c1 - c0)
    time = torch.where((last > 0) & c1.isfinite(), t0 + share * (t1 - t0), t1)
    return torch.where(beyond.any(-1, keepdim=True), time, torch.inf).squeeze(-1)
