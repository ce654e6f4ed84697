"""Pairs and rows of numbers: what graphs are made of."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def pair_key(a: Tensor, b: Tensor, count: int) -> Tensor:
    """One number for each unordered pair of numbers below ``count``."""
    return torch.minimum(a, b) * count + torch.maximum(a, b)


def graph_of(keys: Tensor, count: int) -> Tensor:
    """The undirected, coalesced graph [2, E] of :func:`pair_key` numbers: each pair both ways, sorted, without loops.

    >>> graph_of(pair_key(torch.tensor([2, 0, 1, 1]), torch.tensor([0, 2, 0, 1]), 3), 3)
    tensor([[0, 0, 1, 2],
            [1, 2, 0, 0]])
    """
    low, high = _parts(sorted_unique(keys), count)
    apart = low != high
    low, high = low[apart], high[apart]
    return torch.stack(_parts(_sorted(torch.cat([low * count + high, high * count + low])), count))


def sorted_unique(keys: Tensor) -> Tensor:
    """Distinct values in ascending order."""
    keys = _sorted(keys)
    distinct = torch.ones_like(keys, dtype=torch.bool)
    distinct[1:] = keys[1:] != keys[:-1]
    return keys[distinct]


def row_numbers(rows: Tensor) -> Tensor:
    """A number [R] for each row [R, n] of non-negative integers, equal where rows are equal.

    >>> row_numbers(torch.tensor([[5, 0], [3, 1], [5, 0]]))
    tensor([1, 0, 1])
    """
    number = rows[:, 0]
    for column in rows.unbind(1)[1:]:
        number = (number * (int(column.max()) + 1) + column).unique(return_inverse=True)[1]
    return number


def _sorted(keys: Tensor) -> Tensor:
    # numpy sorts integers four times as fast as torch does on a CPU, where meshes are read
    return torch.from_numpy(np.sort(keys.numpy())) if keys.device.type == "cpu" else keys.sort().values


def _parts(key: Tensor, count: int) -> tuple[Tensor, Tensor]:
    first = key.div(max(count, 1), rounding_mode="floor")
    return first, key - first * count
