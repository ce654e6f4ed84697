import pytest
import torch
from torch import Tensor
from torch.nn.functional import sigmoid, softplus

from meshop.data import InputError
from meshop.nn.bi_mamba2 import BiMamba2


def oracle(layer: BiMamba2, x: Tensor) -> Tensor:
    """The equations of the docstring for one sequence [M, C], token by token and head by head."""
    M, inner = x.size(0), layer.expand * layer.channels
    N, H, P, K = layer.state_channels, layer.heads, layer.head_channels, layer.kernel_size
    z, v, dt = (x @ layer.lin_in.weight.T).split([inner, inner + 2 * N, H], dim=1)
    kernels, biases = layer.conv.weight[:, 0].chunk(2), layer.conv.bias.chunk(2)
    total = torch.zeros(M, inner, dtype=x.dtype)
    for direction, step in enumerate((1, -1)):
        order = range(M)[::step]
        state = torch.zeros(H, P, N, dtype=x.dtype)
        for t in order:
            conv = biases[direction].clone()
            for back in range(K):
                if 0 <= t - step * back < M:
                    conv += kernels[direction][:, K - 1 - back] * v[t - step * back]
            conv = conv * sigmoid(conv)
            u, B, C = conv[:inner].view(H, P), conv[inner : inner + N], conv[inner + N :]
            y = torch.empty(H, P, dtype=x.dtype)
            for h in range(H):
                delta = softplus(dt[t, h] + layer.dt_bias[direction, h])
                decay = (-delta * layer.A_log[direction, h].exp()).exp()
                state[h] = decay * state[h] + delta * torch.outer(u[h], B)
                y[h] = state[h] @ C + layer.D[direction, h] * u[h]
            y = y.flatten() * z[t] * sigmoid(z[t])
            total[t] += y / (y.square().mean() + 1e-5).sqrt() * layer.norm.weight
    return total / 2 @ layer.lin_out.weight.T


@pytest.mark.parametrize("args", [(16, 3), (12, 2, 3, 4, 5), (8, 1, 1, 8, 1)])
def test_equals_the_equations(args):
    layer = BiMamba2(*args).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    x = torch.randn(2, 7, layer.channels, dtype=torch.float64)
    with torch.no_grad():
        assert (layer(x) - torch.stack([oracle(layer, s) for s in x])).abs().max() < 1e-12


def test_reversed_tokens_with_exchanged_directions_give_the_reversed_output():
    layer, other = BiMamba2(16, 3), BiMamba2(16, 3)
    other.load_state_dict(layer.state_dict())
    with torch.no_grad():
        for p in (other.dt_bias, other.A_log, other.D, other.conv.weight, other.conv.bias):
            p.copy_(torch.cat(p.chunk(2)[::-1]))
        x = torch.randn(2, 9, 16)
        assert (other(x.flip(1)).flip(1) - layer(x)).abs().max() < 1e-6


def test_published_parameter_count():
    assert sum(p.numel() for p in BiMamba2(128).parameters()) == 119_088


def test_initial_decay_rates_are_between_1_and_16():
    rate = BiMamba2(512, 1, head_channels=1).A_log.exp()
    assert 1 <= rate.min() < 1.2
    assert 15.8 < rate.max() <= 16


def test_errors():
    with pytest.raises(InputError, match="divide 32"):
        BiMamba2(16, head_channels=5)
