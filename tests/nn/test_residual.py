import pytest
import torch
from torch import nn
from torch_geometric.nn import SAGEConv

from meshop.data import InputError
from meshop.nn import Block, FeedForward, Parallel, PhysicsAttention, Residual, ReZero, SwiGLU


def test_block_is_two_residuals():
    block = Block(PhysicsAttention(8, heads=2, num_slices=4), 8)
    first, second = Residual(block.mixer, 8), Residual(block.ffn, 8)
    first.norm, second.norm = block.norm1, block.norm2
    x, batch, measure = torch.randn(9, 8), torch.tensor([0, 1, 0] * 3), torch.rand(9)
    given = {"batch": batch, "measure": measure, "batch_size": 2}
    assert torch.equal(second(first(x, **given), **given), block(x, **given))


def test_layers_get_what_they_take():
    conv, x, edge_index = SAGEConv(8, 8), torch.randn(3, 8), torch.tensor([[0, 1], [1, 2]])
    layer = Residual(conv, 8)
    assert torch.equal(layer(x, edge_index=edge_index, batch=torch.zeros(3)), x + conv(layer.norm(x), edge_index))
    with pytest.raises(InputError, match="SAGEConv needs the key 'edge_index'"):
        layer(x)
    with pytest.raises(InputError, match="Bilinear needs input2"):
        Residual(nn.Bilinear(8, 8, 8), 8)


def test_parallel_gives_each_layer_its_channels():
    conv, linear = SAGEConv(2, 3), nn.Linear(2, 1)
    layer, x, edge_index = Parallel([conv, nn.Identity(), linear]), torch.randn(3, 6), torch.tensor([[0, 1], [1, 2]])
    expected = torch.cat([conv(x[:, :2], edge_index), x[:, 2:4], linear(x[:, 4:])], dim=1)
    assert torch.equal(layer(x, edge_index=edge_index), expected)
    assert (
        str(layer)
        == "Parallel(SAGEConv(2, 3, aggr=mean), Identity(), Linear(in_features=2, out_features=1, bias=True))"
    )
    with pytest.raises(InputError, match="3 equal shares"):
        layer(torch.randn(3, 7), edge_index=edge_index)


def test_rezero_is_the_identity_at_the_start_and_learns():
    layer, x = ReZero(FeedForward(4, 8, 4)), torch.randn(5, 4)
    assert torch.equal(layer(x), x)
    layer(x).square().sum().backward()
    assert layer.gamma.grad != 0
    assert not any(p.grad.any() for p in layer.layer.parameters())
    nn.init.constant_(layer.gamma, -2.0)
    torch.testing.assert_close(layer(x), x - 2 * layer.layer(x))
    layer.reset_parameters()
    assert layer.gamma == 0


def test_names():
    assert str(Residual(SwiGLU(6), 6)) == "Residual(SwiGLU(6, hidden_channels=8))"
    assert str(ReZero(SwiGLU(6))) == "ReZero(SwiGLU(6, hidden_channels=8))"
