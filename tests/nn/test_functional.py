import math
import re

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCN, PointTransformerConv, SAGEConv, Sequential

from meshop.data import InputError
from meshop.models import CANO, Transolver
from meshop.nn import ClusterAttention, call
from meshop.nn.functional import (
    NODES,
    TILE,
    Tiles,
    argument_names,
    segment_attention,
    soft_pool,
    soft_unpool,
)
from meshop.testing import random_graph, random_grid

H, M, D = 2, 5, 3


# call


def test_call_fills_the_arguments_of_pyg_and_torch_layers():
    batch = Batch.from_data_list([random_graph(7, seed=0, dim=3), random_graph(9, seed=1, dim=3)])
    x, edge_index, pos = batch.x, batch.edge_index, batch.pos
    conv, gcn, point = SAGEConv(16, 4), GCN(16, 8, 2, 4), PointTransformerConv(16, 4)
    assert torch.equal(call(conv, batch), conv(x, edge_index))
    assert torch.equal(call(gcn, batch), gcn(x, edge_index, batch=batch.batch, batch_size=2))
    assert torch.equal(call(point, batch), point(x, pos, edge_index))
    linear = nn.Sequential(nn.Linear(16, 4), nn.ReLU())
    assert torch.equal(call(linear, batch), linear(x))


def test_call_passes_what_a_batch_has():
    class Spy(nn.Module):
        def forward(self, x, batch=None, measure=None, batch_size=None, shape=None, absent=None, *args, **kwargs):
            return x, batch, measure, batch_size, shape, absent, args, kwargs

    batch = Batch.from_data_list([random_grid(30, seed=0), random_grid(30, seed=1)])
    assert call(Spy(), batch) == (batch.x, batch.batch, batch.measure, 2, (5, 6), None, (), {})
    single = random_grid(30, seed=0)
    assert call(Spy(), single) == (single.x, None, single.measure, None, (5, 6), None, (), {})


def test_call_runs_a_stack_and_a_compiled_module():
    stack = Sequential(
        "x, edge_index, batch",
        [
            (SAGEConv(16, 16), "x, edge_index -> x"),
            nn.ReLU(),
            (ClusterAttention(16, heads=2, num_clusters=4), "x, batch -> x"),
            nn.Linear(16, 1),
        ],
    )
    batch = Batch.from_data_list([random_graph(7, seed=0), random_graph(9, seed=1)])
    out = call(stack, batch)
    assert torch.equal(out, stack(batch.x, batch.edge_index, batch.batch))
    assert argument_names(torch.compile(stack, backend="eager")) == argument_names(stack)


@pytest.mark.parametrize(
    ("module", "key", "maker"),
    [
        (SAGEConv(2, 2), "edge_index", "CellsToEdges"),
        (nn.Linear(2, 2), "x", "FieldSpec.pack"),
        (PointTransformerConv(2, 2), "pos", "read_mesh"),
    ],
)
def test_a_missing_key_is_named(module, key, maker):
    data = Data(x=torch.ones(3, 2), edge_index=torch.zeros(2, 0).long(), pos=torch.ones(3, 2))
    del data[key]
    with pytest.raises(InputError, match=f"{type(module).__name__} needs the key '{key}'.*{maker}"):
        call(module, data)


def test_a_missing_key_of_the_users_own():
    class Own(nn.Module):
        def forward(self, x, wall_distance):
            raise NotImplementedError

    with pytest.raises(InputError, match=r"Own needs the key 'wall_distance', which was not given$"):
        call(Own(), Data(x=torch.ones(3, 2)))


def test_grids_of_two_shapes_do_not_share_a_batch():
    batch = Batch.from_data_list([random_grid(0, seed=0), random_grid(0, seed=1, shape=(6, 5))])
    with pytest.raises(InputError, match="grids of one shape"):
        call(CANO(16, 16, 1, 1, heads=2, num_clusters=4, grid_dim=2), batch)


# sums over the nodes of each graph, against loops


def ragged(sizes, sort=True):
    """Batch vector, and node features, of graphs of these sizes."""
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes, dtype=torch.long))
    if not sort:
        batch = batch[torch.randperm(len(batch))]
    return batch, torch.randn(len(batch), H * D, dtype=torch.float64)


SIZES = [[5], [0, 3, 0], [1, TILE, TILE + 1, 3 * TILE - 1, 0], [TILE] * 3, []]


@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("sizes", SIZES)
def test_tiles_hold_every_node_once_and_no_two_graphs(sizes, sort):
    batch, x = ragged(sizes, sort)
    tiles = Tiles.of(x, batch, batch_size=len(sizes))
    assert torch.equal(tiles.merge(tiles.split(x)), x)
    assert tiles.mass.sum() == len(x)
    owner = tiles.split(batch.double()[:, None] + 1)[..., 0]  # 0 for padding
    assert torch.equal(owner, (tiles.graph[:, None] + 1) * tiles.mass)
    expected = torch.stack([x[batch == b].sum(0) for b in range(len(sizes))]) if sizes else torch.zeros(0, H * D)
    torch.testing.assert_close(tiles.sum(tiles.split(x).sum(1)), expected.double())
    assert len(tiles.graph) <= len(x) // TILE + len(sizes)


def test_interleaved_graphs_are_not_mixed():
    x, batch = torch.arange(6.0)[:, None], torch.tensor([0, 1, 0, 1, 1, 0])
    tiles = Tiles.of(x, batch)
    rows = [part[mass > 0, 0].tolist() for part, mass in zip(tiles.split(x), tiles.mass, strict=True)]
    assert [row for row in rows if row] == [[0, 2, 5], [1, 3, 4]]
    assert tiles.sum(tiles.split(x).sum(1)).tolist() == [[7], [8]]
    assert torch.equal(tiles.merge(tiles.split(x)), x)


def test_tiles_find_the_number_of_graphs():
    x = torch.ones(3, 1)
    assert Tiles.of(x, torch.tensor([0, 4, 1], dtype=torch.int32)).num_graphs == 5
    assert Tiles.of(x[:0], torch.empty(0).long()).num_graphs == 0
    assert Tiles.of(x, None).num_graphs == 1


def test_mass_is_one_a_node_or_a_thousand_a_graph():
    batch = torch.tensor([1, 0, 1, 1])
    x = torch.ones(4, 1, dtype=torch.bfloat16)
    counted = Tiles.of(x, batch)
    assert counted.merge(counted.mass[..., None]).flatten().tolist() == [1, 1, 1, 1]
    weighed = Tiles.of(x, batch, measure=torch.tensor([1e-12, 5.0, 3e-12, 0.0], dtype=torch.float64))
    assert weighed.mass.dtype == torch.float32
    torch.testing.assert_close(
        weighed.merge(weighed.mass[..., None]).flatten(), torch.tensor([0.25, 1, 0.75, 0]) * NODES
    )


@pytest.mark.parametrize("key", ["batch", "measure"])
def test_batch_and_measure_are_one_value_a_node(key):
    x = torch.ones(3, 2)
    for value in (torch.zeros(4).long(), torch.zeros(3, 1).long()):
        with pytest.raises(InputError, match=rf"one {key} a node, \[3\] \(got {re.escape(str(list(value.shape)))}"):
            Tiles.of(x, **{"batch": None, key: value})


def loops(weight, query, key, value, mass, batch, graphs, mean):
    """Pool, attend and unpool from the equations: one graph, head, token and node at a time."""
    pooled = torch.zeros(graphs, H, M, D, dtype=torch.float64)
    attended = torch.zeros(graphs, H, M, D, dtype=torch.float64)
    handed = torch.zeros(len(batch), H, D, dtype=torch.float64)
    for b in range(graphs):
        nodes = (batch == b).nonzero().flatten().tolist()
        for h in range(H):
            for m in range(M):
                total = sum((mass[n] * weight[n, h, m] * value[n, h] for n in nodes), torch.zeros(D))
                share = sum(mass[n] * weight[n, h, m] for n in nodes) + 1e-5 if mean else 1
                pooled[b, h, m] = total / share
                score = {n: mass[n] * torch.exp(query[b, h, m] @ key[n, h] / math.sqrt(D)) for n in nodes}
                if nodes:
                    attended[b, h, m] = sum(s * value[n, h] for n, s in score.items()) / sum(score.values())
            for n in nodes:
                handed[n, h] = sum(weight[n, h, m] * query[b, h, m] for m in range(M))
    return pooled, attended, handed


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("sizes", [None, [3, 0, 7, 1], [2, TILE + 2]])
def test_sums_equal_loops(sizes, measured):
    torch.manual_seed(0)
    batch, x = ragged(sizes or [9], sort=False)
    graphs, count = len(sizes or [9]), len(batch)
    weight = torch.rand(count, H, M, dtype=torch.float64)
    key, value = torch.randn(2, count, H, D, dtype=torch.float64)
    query = torch.randn(graphs, H, M, D, dtype=torch.float64)
    measure = torch.rand(count, dtype=torch.float64) if measured else None
    mass = torch.ones(count, dtype=torch.float64)
    if measured:
        mass = torch.stack([1000 * measure[n] / measure[batch == batch[n]].sum() for n in range(count)])
    tiles = Tiles.of(x, None if sizes is None else batch, measure, graphs)
    w, k, v = (tiles.split(t.flatten(1)).unflatten(-1, (H, -1)).transpose(1, 2) for t in (weight, key, value))
    empty = torch.tensor([not bool((batch == b).any()) for b in range(graphs)])
    for mean in (True, False):
        pooled, attended, handed = loops(weight, query, key, value, mass, batch, graphs, mean)
        torch.testing.assert_close(soft_pool(w, v, tiles, mean), pooled, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(
            segment_attention(query, k, v, tiles)[~empty], attended[~empty], rtol=1e-12, atol=1e-12
        )
        y = tiles.merge(soft_unpool(w, query, tiles).transpose(1, 2).flatten(-2))
        torch.testing.assert_close(y, handed.flatten(1), rtol=1e-12, atol=1e-12)


def test_attention_neither_overflows_nor_sees_padding():
    key = torch.tensor([[1.0], [2.0], [-1.0]])
    tiles = Tiles.of(key, torch.tensor([0, 0, 1]))
    k = tiles.split(key)[:, None] - 1e4 * (tiles.mass == 0)[:, None, :, None].float()
    query = torch.tensor([[[[1e4]]], [[[-1e4]]]])  # the largest logit of padding would be 1e8
    out = segment_attention(query, k, tiles.split(key)[:, None], tiles)
    assert out.flatten().tolist() == [2, -1]


def test_a_graph_that_is_not_a_number_stays_alone():
    batch, x = ragged([3, TILE + 1, 2, 0])
    x[batch == 1] = float("nan")
    for model in (CANO(H * D, 16, 2, 1, 2, 4).double(), Transolver(H * D, 16, 2, 1, 2, 4).double()):
        assert torch.equal(model(x, batch=batch, batch_size=4).isnan().any(1), batch == 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("autocast", [False, True])
def test_70000_nodes_in_one_slice(dtype, autocast):
    """Sums in half precision would stop at 256 or overflow (a sum of ones in float16 at 65,504)."""
    count = 70_000
    x = torch.ones(count, 1, dtype=torch.float32 if autocast else dtype)
    for batch in (None, torch.zeros(count).long()):
        tiles = Tiles.of(x, batch)
        one = tiles.split(x)[:, None]  # [t, 1, T, 1]
        with torch.autocast("cpu", dtype=dtype, enabled=autocast):
            total = soft_pool(one, one, tiles, mean=False)
            mean = soft_pool(one, one, tiles)
            seen = segment_attention(total, one, one, tiles)
        assert total.item() == count
        assert mean.item() == pytest.approx(1)
        assert seen.item() == pytest.approx(1)


# models


@pytest.mark.parametrize("model", [CANO, Transolver])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_of_a_large_mesh_in_one_slice(model, dtype):
    """All 70,000 nodes are the same, so all of them choose the same slice."""
    torch.manual_seed(0)
    net = model(2, 16, 1, 16, 2, 4).eval()
    for p in net.parameters():
        p.data += 0.3 * torch.randn_like(p)
    x = torch.ones(70_000, 2)
    with torch.no_grad():
        expected = net(x)
        with torch.autocast("cpu", dtype=dtype):
            mixed = net(x)
        half = net.to(dtype)(x.to(dtype))
    assert (mixed.float() - expected).norm() <= 0.02 * expected.norm()
    assert (half.float() - expected).norm() <= 0.05 * expected.norm()  # the residual stream is half, too


def test_accumulating_four_graphs_is_a_batch_of_four():
    """Gradients of a mean over graphs, for three steps of training."""
    graphs = [random_graph(n, seed=n) for n in (7, 90, 300, 1)]
    for model in (CANO(16, 16, 2, 1, heads=2, num_clusters=8), Transolver(16, 16, 2, 1, heads=2, num_slices=8)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            for graph in graphs:
                (call(model, graph).square().mean() / 4).backward()
            apart = [p.grad.clone() for p in model.parameters()]
            optimizer.zero_grad()
            batch = Batch.from_data_list(graphs)
            out = call(model, batch)
            torch.stack([out[batch.batch == b].square().mean() for b in range(4)]).mean().backward()
            scale = max(g.abs().max() for g in apart)
            for a, p in zip(apart, model.parameters(), strict=True):
                assert (a - p.grad).abs().max() <= 1e-5 * scale
            optimizer.step()
