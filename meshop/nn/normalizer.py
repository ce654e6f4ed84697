import torch
from torch import Tensor, nn

from meshop.data import InputError
from meshop.domain import all_reduce


class Normalizer(nn.Module):
    r"""Standardise each channel: :math:`(x - \text{mean}) / \text{std}`; :meth:`inverse` undoes it.

    :meth:`fit` may be called again and again with more data. It adds up in float64 by Chan's pairwise update, which
    does not cancel as :math:`E[x^2] - E[x]^2` does. A channel that is constant in the data has std
    :math:`|\text{mean}|`, or 1 where that is zero, so that it goes forth and back too. Unfitted, the normaliser is the
    identity. On several processes the moments are those of the nodes of all (:mod:`meshop.domain`).

    Args:
        channels: number of channels C.

    Shapes:
        - **input:** x [N, C]
        - **output:** [N, C]

    >>> norm = Normalizer(1)
    >>> norm.fit(torch.tensor([[1.0], [3.0]]))
    >>> norm(torch.tensor([[5.0]])).item(), norm.inverse(torch.tensor([[3.0]])).item()
    (3.0, 5.0)
    """

    mean: Tensor
    std: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("std", torch.ones(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Forget what was fitted."""
        self.mean.zero_()
        self.std.fill_(1)
        self._moments = torch.zeros(3, self.channels, dtype=torch.float64)  # weight, mean, sum of squared deviations

    @torch.no_grad()
    def fit(self, x: Tensor, measure: Tensor | None = None) -> None:
        """Add data [N, C] to the statistics, each node by its ``measure`` [N] if there is one.

        Raises:
            InputError: the data has another number of channels, or values that are not finite.
        """
        if x.dim() != 2 or x.size(1) != self.channels:
            raise InputError(f"Expected data of shape [N, {self.channels}] (got {list(x.shape)})")
        x = x.detach().to("cpu", torch.float64)
        if not bool(x.isfinite().all()):
            channels = (~x.isfinite()).any(0).nonzero().flatten().tolist()
            raise InputError(f"Expected finite values (got some that are not in channels {channels})")
        w = x.new_ones(x.size(0), 1) if measure is None else measure.detach().to(x)[:, None]
        if not bool((total := all_reduce(w.sum(), "sum")) > 0):
            return
        shift = all_reduce((w * x).sum(0), "sum") / total
        weight, mean, square = self._moments
        delta = shift - mean
        share = total / (weight + total)
        self._moments = torch.stack(
            [
                weight + total,
                mean + delta * share,
                square + all_reduce((w * (x - shift).square()).sum(0), "sum") + delta.square() * weight * share,
            ]
        )
        weight, mean, square = self._moments
        std = (square / weight).sqrt()
        size = mean.abs()
        std = torch.where(std > 1e-12 * size, std, torch.where(size > 0, size, 1.0))
        self.mean.copy_(mean)
        self.std.copy_(std)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean.to(x.dtype)) / self.std.to(x.dtype)

    def inverse(self, x: Tensor) -> Tensor:
        """From standardised values back to physical ones."""
        return x * self.std.to(x.dtype) + self.mean.to(x.dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels})"
