import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, pad, softplus

from meshop.data import InputError
from meshop.nn.ss2d import SS2D


def oracle(layer: SS2D, grid: Tensor) -> Tensor:
    """The equations of the docstring for one grid [n1, n2, C], node by node along the four lines."""
    n1, n2, _ = grid.shape
    inner, S, R, K = layer.expand * layer.channels, layer.state_channels, layer.heads, layer.kernel_size
    x, z = (grid @ layer.lin_in.weight.T).chunk(2, dim=-1)
    padded = pad(x, (0, 0, *[K // 2] * 4))
    u = layer.conv.bias.expand(n1, n2, inner)
    for i in range(K):
        for j in range(K):
            u = u + layer.conv.weight[:, 0, i, j] * padded[i : i + n1, j : j + n2]
    u = gelu(u)
    rows = [(i, j) for i in range(n1) for j in range(n2)]
    columns = [(i, j) for j in range(n2) for i in range(n1)]
    y = torch.zeros(n1, n2, R, inner // R, dtype=grid.dtype)
    for k, line in enumerate((rows, columns, rows[::-1], columns[::-1])):
        state = torch.zeros(R, inner // R, S, dtype=grid.dtype)
        for node in line:
            dt, B, C = (layer.scan[k] @ u[node]).split([R, S, S])
            delta = softplus(dt + layer.dt_bias[k])[:, None, None]
            value = u[node].view(R, -1)
            state = (-delta * layer.A_log[k].exp()[:, None, None]).exp() * state + delta * value[..., None] * B
            y[node] += state @ C + layer.D[k] * value
    y = layer_norm(y.flatten(2), (inner,), layer.norm.weight, layer.norm.bias)
    return (y * gelu(z)) @ layer.lin_out.weight.T


@pytest.mark.parametrize("args", [(6, 3), (4, 2, 3, 4, 5)])
def test_equals_the_equations(args):
    layer = SS2D(*args).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    grids = torch.randn(2, 3, 5, layer.channels, dtype=torch.float64)
    with torch.no_grad():
        y = layer(grids.flatten(0, 2), torch.arange(2).repeat_interleave(15), shape=(3, 5))
        assert (y.view_as(grids) - torch.stack([oracle(layer, g) for g in grids])).abs().max() < 1e-12


def test_a_transposed_grid_with_exchanged_rows_and_columns_gives_the_transposed_output():
    layer, other = SS2D(6, 3), SS2D(6, 3)
    other.load_state_dict(layer.state_dict())
    with torch.no_grad():
        for p in (other.scan, other.dt_bias, other.A_log, other.D):
            p.copy_(p[[1, 0, 3, 2]])
        other.conv.weight.copy_(layer.conv.weight.mT)
        x = torch.randn(4, 7, 6)
        y = other(x.transpose(0, 1).flatten(0, 1), shape=(7, 4)).view(7, 4, 6).transpose(0, 1)
        assert (y.flatten(0, 1) - layer(x.flatten(0, 1), shape=(4, 7))).abs().max() < 1e-6


@pytest.mark.parametrize(("channels", "published"), [(64, 94_240), (256, 696_448)])
def test_published_parameter_counts(channels, published):
    assert sum(p.numel() for p in SS2D(channels).parameters()) == published


def test_errors():
    with pytest.raises(InputError, match="divide the 32 inner channels"):
        SS2D(16, heads=5)
    with pytest.raises(InputError, match="odd kernel_size"):
        SS2D(16, kernel_size=2)
    with pytest.raises(InputError, match="graphs of 6 nodes"):
        SS2D(16)(torch.ones(7, 16), shape=(2, 3))
