"""Nearest neighbours, against a brute-force search."""

import pytest
import torch
from torch import Tensor
from torch_geometric.utils import is_undirected

from meshop.data import InputError
from meshop.geometry import nearest_neighbors


def by_hand(pos: Tensor, k: int, batch: Tensor | None = None) -> set[tuple[int, int]]:
    """Ordered pairs of the symmetric k-nearest-neighbour graph; distances must differ."""
    batch = torch.zeros(len(pos), dtype=torch.long) if batch is None else batch
    distance = torch.cdist(pos.double(), pos.double())
    distance[batch[:, None] != batch[None, :]] = torch.inf
    distance.fill_diagonal_(torch.inf)
    nearest = [(i, int(j)) for i in range(len(pos)) for j in distance[i].argsort()[:k] if distance[i, j] < torch.inf]
    return set(nearest) | {(j, i) for i, j in nearest}


def listed(edge_index: Tensor) -> list[tuple[int, int]]:
    return list(map(tuple, edge_index.t().tolist()))


@pytest.mark.parametrize("k", [1, 3, 8, 50])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_symmetric_graph_of_the_nearest(k: int, dim: int) -> None:
    pos = torch.rand(34, dim)
    edge_index = nearest_neighbors(pos, k)
    assert listed(edge_index) == sorted(by_hand(pos, k))  # sorted, once each, no loops
    assert is_undirected(edge_index)
    assert int(edge_index[0].bincount(minlength=34).min()) >= min(k, 33)


def test_graphs_of_a_batch_stay_apart_in_any_order() -> None:
    pos = torch.rand(30, 3)
    batch = torch.randint(0, 4, (30,))
    batch[7] = 6  # a graph of one node; graphs 4 and 5 are empty
    assert listed(nearest_neighbors(pos, 4, batch)) == sorted(by_hand(pos, 4, batch))


def test_few_nodes() -> None:
    assert nearest_neighbors(torch.rand(0, 3), 4).shape == (2, 0)
    assert nearest_neighbors(torch.rand(1, 3), 4).shape == (2, 0)
    assert listed(nearest_neighbors(torch.rand(3, 2), 4)) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]


@pytest.mark.parametrize("copies", [2, 5, 40])
def test_nodes_in_the_same_place(copies: int) -> None:
    pos = torch.cat([torch.zeros(copies, 2), torch.tensor([[5.0, 0], [6, 0]])])
    edges = listed(nearest_neighbors(pos, 3))
    assert all(i != j for i, j in edges)
    assert edges == sorted(set(edges))
    degree = torch.tensor([i for i, _ in edges]).bincount()
    assert len(degree) == copies + 2
    assert int(degree.min()) >= 3


def test_distances_are_compared_in_double_precision() -> None:
    pos = torch.tensor([[5e5], [5e5 + 0.002], [5e5 + 0.003], [5e5 + 0.01]], dtype=torch.float64)
    assert listed(nearest_neighbors(pos, 1)) == [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]


def test_what_cannot_be_searched() -> None:
    with pytest.raises(InputError, match=r"at least one neighbour \(got k=0\)"):
        nearest_neighbors(torch.rand(3, 2), 0)
    with pytest.raises(InputError, match=r"finite coordinates \(got 1 nodes without"):
        nearest_neighbors(torch.tensor([[0.0, 0], [1, torch.nan]]), 1)
