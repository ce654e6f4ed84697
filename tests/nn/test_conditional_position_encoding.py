import pytest
import torch
from torch import nn
from torch.nn.functional import conv1d, conv2d, conv3d

from meshop.data import InputError
from meshop.nn import ConditionalPositionEncoding, DepthwiseGraphConv, GridConv


@pytest.mark.parametrize("shape", [(7,), (4, 5), (3, 2, 4)])
def test_on_grids_it_is_a_residual_depthwise_convolution(shape):
    dim, size = len(shape), torch.Size(shape).numel()
    local = GridConv(3, 3, dim, groups=3)
    layer, x = ConditionalPositionEncoding(local), torch.randn(2 * size, 3)
    batch = torch.tensor([1, 0] * size)
    grid = torch.stack([x[batch == b].T.view(3, *shape) for b in (0, 1)])
    conv = (conv1d, conv2d, conv3d)[dim - 1]
    expected = grid + conv(grid, local.conv.weight, local.conv.bias, padding=1, groups=3)
    out = layer(x, batch=batch, shape=shape)
    for b in (0, 1):
        torch.testing.assert_close(out[batch == b], expected[b].flatten(1).T)
    assert sum(p.numel() for p in layer.parameters()) == 3 * 3**dim + 3


def test_on_graphs_it_is_a_residual_around_the_continuous_kernel():
    local = DepthwiseGraphConv(3, dim=2)
    x, pos, measure, edge_index = (
        torch.randn(4, 3),
        torch.rand(4, 2),
        torch.rand(4),
        torch.tensor([[0, 1, 3], [1, 0, 0]]),
    )
    out = ConditionalPositionEncoding(local)(x, pos, edge_index, measure=measure)
    assert torch.equal(out, x + local(x, pos, edge_index, measure))


def test_what_the_local_layer_needs_must_be_there():
    layer = ConditionalPositionEncoding(DepthwiseGraphConv(3, dim=2))
    with pytest.raises(InputError, match="DepthwiseGraphConv needs the key 'edge_index'"):
        layer(torch.ones(4, 3), torch.rand(4, 2))
    with pytest.raises(InputError, match="Expected the shape of a 2-D grid"):
        ConditionalPositionEncoding(GridConv(3, 3, dim=2))(torch.ones(4, 3))
    with pytest.raises(InputError, match="Bilinear needs input2"):
        ConditionalPositionEncoding(nn.Bilinear(3, 3, 3))


def test_name():
    layer = ConditionalPositionEncoding(DepthwiseGraphConv(8, dim=3))
    assert str(layer) == "ConditionalPositionEncoding(DepthwiseGraphConv(8, dim=3))"
