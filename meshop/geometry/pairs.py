"""Pairs and rows of numbers: what graphs are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor


def pair_key(a: Tensor, b: Tensor, count: int) -> Tensor:
    """One number for each unordered pair of numbers below ``count``, in the order of the lower and then the higher."""
    bits = count.bit_length()
    if a.device.type == "cpu":  # without the threads of torch, whose start costs more than a block of pairs
        one, other = a.numpy(), b.numpy()
        return torch.from_numpy(np.minimum(one, other) << bits | np.maximum(one, other))
    return torch.minimum(a, b) << bits | torch.maximum(a, b)


def edge_keys(nodes: Tensor, links: Sequence[tuple[int, int]], count: int) -> Tensor:
    """The distinct :func:`pair_key` numbers, ascending, of some pairs of the nodes of cells, a row of nodes a place."""
    keys = torch.empty(len(links), nodes.size(1), dtype=torch.long, device=nodes.device)
    for key, (i, j) in zip(keys, links, strict=True):
        key.copy_(pair_key(nodes[i], nodes[j], count))
    return sorted_unique(keys.flatten())


def side_by_side(work: Callable[[Tensor], Tensor], blocks: Iterable[Tensor]) -> Iterable[Tensor]:
    """What work makes of each block, in threads where torch has several: sorting does not hold Python up."""
    threads = torch.get_num_threads()
    if threads == 1:
        return list(map(work, blocks))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, blocks))


def graph_of(keys: Tensor, count: int) -> Tensor:
    """The undirected, coalesced graph [2, E] of :func:`pair_key` numbers: each pair both ways, sorted, without loops.

    The keys are not kept: they may be sorted in place.

    >>> graph_of(pair_key(torch.tensor([2, 0, 1, 1]), torch.tensor([0, 2, 0, 1]), 3), 3)
    tensor([[0, 0, 1, 2],
            [1, 2, 0, 0]])
    """
    bits = count.bit_length()
    keys = sorted_unique(keys)
    pairs = keys.numel()
    # numpy asks the system for large pages, torch does not
    graph = torch.from_numpy(np.empty((2, 2 * pairs), np.int64)).to(keys.device)
    first, second = graph
    second[:pairs] = keys
    torch.bitwise_left_shift(keys & ((1 << bits) - 1), bits, out=second[pairs:])
    second[pairs:] |= keys >> bits
    _sort(second)
    torch.bitwise_right_shift(second, bits, out=first)
    second &= (1 << bits) - 1
    apart = first != second
    return graph if bool(apart.all()) else graph[:, apart]


def sorted_unique(keys: Tensor) -> Tensor:
    """Distinct values in ascending order. The keys are not kept: they may be sorted in place."""
    _sort(keys)
    if keys.device.type != "cpu":
        return keys.unique_consecutive()
    values = keys.numpy()
    distinct = np.ones(values.shape, dtype=bool)
    np.not_equal(values[1:], values[:-1], out=distinct[1:])
    return torch.from_numpy(values[distinct])


def row_numbers(rows: Tensor) -> Tensor:
    """A number [R] for each row [R, n] of non-negative integers, equal where rows are equal.

    >>> row_numbers(torch.tensor([[5, 0], [3, 1], [5, 0]]))
    tensor([1, 0, 1])
    """
    number = rows[:, 0]
    for column in rows.unbind(1)[1:]:
        number = (number * (int(column.max()) + 1) + column).unique(return_inverse=True)[1]
    return number


def _sort(keys: Tensor) -> None:
    """Sort in place."""
    if keys.device.type == "cpu":  # where meshes are read: numpy sorts integers four times as fast as torch
        keys.numpy().sort()
    else:
        keys.copy_(keys.sort().values)
