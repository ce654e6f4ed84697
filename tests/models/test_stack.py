import copy

import pytest
import torch
from torch import nn
from torch_geometric.nn import SAGEConv

from meshop.checkpoint import rebuildable
from meshop.data import InputError
from meshop.models import CANO, Stack, TransolverSigma
from meshop.nn import (
    Block,
    ClusterAttention,
    GridSpectralConv,
    Lift,
    PhysicsAttention,
    SliceAttention,
    SliceResidualAttention,
    TimestepEmbedding,
)
from meshop.testing import random_graph


def test_with_the_blocks_of_a_model_it_is_that_model():
    model = CANO(16, 8, 2, 3, heads=2, num_clusters=4)
    stack = Stack(16, 8, 3, model.blocks, model.lift)
    stack.norm, stack.head = model.norm, model.head
    graph, batch = random_graph(9, seed=0), torch.arange(9) % 2
    given = {"batch": batch, "measure": graph.measure, "batch_size": 2}
    assert torch.equal(stack(graph.x, **given), model(graph.x, **given))


def test_layers_of_pyg_torch_and_meshop_alternate():
    blocks = [
        Block(SAGEConv(8, 8), 8),
        nn.Linear(8, 8),
        Block(ClusterAttention(8, heads=2, num_clusters=4), 8),
        Block(GridSpectralConv(8, 8, (2, 2), (4, 4)), 8),
    ]
    stack = Stack(16, 8, 3, blocks, Lift(16, 8, time=TimestepEmbedding(8)))
    graph = random_graph(9, seed=0)
    h = stack.lift(graph.x, time=graph.time)
    h = blocks[0](h, edge_index=graph.edge_index)
    h = blocks[2](blocks[1](h), measure=graph.measure)
    h = blocks[3](h, graph.pos, measure=graph.measure)
    expected = stack.head(stack.norm(h))
    given = {"measure": graph.measure, "time": graph.time}
    assert torch.equal(stack(graph.x, graph.pos, graph.edge_index, **given), expected)
    with pytest.raises(InputError, match="SAGEConv needs the key 'edge_index'"):
        stack(graph.x, graph.pos, **given)


@pytest.mark.parametrize("update", [SliceAttention(8), None, nn.Identity()], ids=["replace", "residual", "none"])
def test_transolver_with_each_update_of_its_slices(update):
    """The comparison of the Transolver-sigma paper within Transolver."""
    blocks = [Block(SliceResidualAttention(16, 2, 4, update=copy.deepcopy(update)), 16) for _ in range(2)]
    reference = [Block(PhysicsAttention(16, 2, 4), 16) for _ in range(2)]
    extra = {"SliceAttention": 0, "ReZero": 1, "Identity": -3 * 8 * 8}[type(blocks[0].mixer.update).__name__]
    ours, theirs = (sum(p.numel() for p in Stack(3, 16, 1, b).parameters()) for b in (blocks, reference))
    assert ours == theirs + 2 * extra


@pytest.mark.parametrize(
    "model",
    [
        Stack(3, 16, 1, [Block(PhysicsAttention(16, 2, 4), 16), Block(SAGEConv(16, 16), 16)]),
        TransolverSigma(3, 16, 2, 1, heads=2, num_slices=4, modes=(2, 2), size=(4, 4)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_checkpoints_rebuild_it(model):
    assert rebuildable(model) is not None


def test_blocks_that_need_more_than_there_is_are_refused():
    with pytest.raises(InputError, match="Bilinear needs input2"):
        Stack(3, 16, 1, [nn.Bilinear(16, 16, 16)])
