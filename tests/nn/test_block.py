import pytest
import torch
from torch import nn
from torch_geometric.nn import GATConv, PointNetConv, SAGEConv

from meshop.data import InputError
from meshop.nn import Block, ClusterAttention, GridConv, call, checkpoint_activations
from meshop.testing import random_graph, random_grid


def norm(x):
    """LayerNorm without its scale and shift."""
    return (x - x.mean(1, keepdim=True)) / (x.var(1, correction=0, keepdim=True) + 1e-5).sqrt()


def test_equals_the_equations():
    torch.manual_seed(0)
    graph, mixer = random_graph(20, seed=0), ClusterAttention(16, heads=2, num_clusters=4)
    block = Block(mixer, 16, ffn_ratio=3)
    for parameter in block.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    h = graph.x
    h = h + mixer(norm(h) * block.norm1.weight + block.norm1.bias, measure=graph.measure)
    first, second = block.ffn.lin1, block.ffn.lin2
    inner = nn.functional.gelu((norm(h) * block.norm2.weight + block.norm2.bias) @ first.weight.T + first.bias)
    h = h + inner @ second.weight.T + second.bias
    torch.testing.assert_close(call(block, graph), h)
    assert first.out_features == 48


@pytest.mark.parametrize(
    "mixer",
    [
        nn.Linear(16, 16),
        nn.Identity(),
        SAGEConv(16, 16),
        GATConv(16, 8, heads=2),
        PointNetConv(nn.Linear(18, 16)),
        ClusterAttention(16, heads=2, num_clusters=4),
    ],
)
def test_takes_layers_of_meshop_pyg_and_torch(mixer):
    graph, block = random_graph(20, seed=0), Block(mixer, 16)
    with torch.no_grad():
        block.ffn.lin2.weight.zero_()
        block.ffn.lin2.bias.zero_()
    graph_of_norm = graph.clone()
    graph_of_norm.x = norm(graph.x)
    torch.testing.assert_close(call(block, graph), graph.x + call(mixer, graph_of_norm))


def test_passes_the_shape_of_a_grid():
    grid = random_grid(0, seed=0)
    assert call(Block(GridConv(16, 16, dim=2), 16), grid).shape == grid.x.shape


def test_reset_reaches_the_mixer():
    block = Block(SAGEConv(16, 16), 16)
    before = [p.clone() for p in block.mixer.parameters()]
    block.reset_parameters()
    assert not any(map(torch.equal, before, block.mixer.parameters()))


def test_what_the_mixer_needs_is_asked_for():
    with pytest.raises(InputError, match=r"SAGEConv needs the key 'edge_index'.*CellsToEdges"):
        Block(SAGEConv(16, 16), 16)(torch.ones(3, 16))

    class Own(nn.Module):
        def forward(self, h, wall_distance):
            raise NotImplementedError

    with pytest.raises(InputError, match="Own needs wall_distance; it is given x, pos, edge_index"):
        Block(Own(), 16)


def test_name():
    mixer = ClusterAttention(16, heads=2, num_clusters=4)
    assert str(Block(mixer, 16)) == f"Block({mixer}, ffn_ratio=2)"


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_checkpointed_activations_change_nothing_but_what_is_kept(dropout):
    graph, results = random_graph(2000, seed=0), []
    model = nn.Sequential(*(Block(ClusterAttention(16, 2, 4, dropout=dropout), 16) for _ in range(3)))
    for on in (False, True):
        checkpoint_activations(model, on)
        kept = {}
        torch.manual_seed(1)
        x = graph.x.clone().requires_grad_()

        def keep(t, kept=kept):
            kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
            return t

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            y = model(x)
        grads = torch.autograd.grad(y.square().sum(), [x, *model.parameters()])
        results.append((y, sum(kept.values()), grads))
    (one, much, a), (other, little, b) = results
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(a, b)
    assert little <= 3 * x.nbytes < much / 5
    with pytest.raises(InputError, match=r"\(got Linear\)"):
        checkpoint_activations(nn.Linear(2, 2))
