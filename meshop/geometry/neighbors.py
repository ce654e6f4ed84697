"""Nearest neighbours in space."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from meshop.data import InputError
from meshop.geometry.pairs import graph_of, pair_key


def nearest_neighbors(pos: Tensor, k: int, batch: Tensor | None = None) -> Tensor:
    """Join every node to its k nearest nodes of the same graph; undirected and coalesced.

    The relation "is among my k nearest" is not symmetric; the graph is its union with its transpose, so that a node has
    at least min(k, n - 1) neighbours in its graph of n nodes and may have more. Where several nodes are equally far
    away as the k-th, which of them is taken is left to the search. Nodes in the same place are neighbours like others.

    Cost: O(N log N) time by scipy's k-d tree on the CPU, O(N k) memory.

    Args:
        pos: coordinates [N, D].
        k: number of neighbours.
        batch: graph of each node [N], in any order.

    Returns:
        Node pairs [2, E], each in both directions, sorted by first and then second node, without loops.

    Raises:
        InputError: k is not positive or a coordinate is not finite.

    >>> nearest_neighbors(torch.tensor([[0.0], [1.0], [3.0]]), k=1)
    tensor([[0, 1, 1, 2],
            [1, 0, 2, 1]])
    """
    from scipy.spatial import cKDTree

    if k < 1:
        raise InputError(f"Expected at least one neighbour (got k={k})")
    if not bool(pos.isfinite().all()):
        raise InputError(f"Expected finite coordinates (got {int((~pos.isfinite()).any(dim=1).sum())} nodes without)")
    num_nodes = pos.size(0)
    keys = [torch.empty(0, dtype=torch.long)]
    for nodes in _graphs(batch, num_nodes):
        coordinates = pos[nodes].detach().cpu().double().numpy()
        wanted = min(k, len(coordinates) - 1)
        if wanted < 1:
            continue
        _, found = cKDTree(coordinates).query(coordinates, k=wanted + 1)
        own = found == np.arange(len(coordinates))[:, None]
        own[~own.any(axis=1), -1] = True  # more than k nodes in one place can crowd a node out of its own list
        other = torch.from_numpy(found[~own].reshape(-1, wanted))
        nodes = nodes.cpu()
        keys.append(pair_key(nodes.unsqueeze(1), nodes[other], num_nodes).flatten())
    return graph_of(torch.cat(keys), num_nodes).to(pos.device)


def _graphs(batch: Tensor | None, num_nodes: int) -> tuple[Tensor, ...]:
    """The nodes of each graph."""
    if batch is None:
        return (torch.arange(num_nodes),)
    order = batch.argsort(stable=True)
    return order.split(batch.bincount().tolist())
