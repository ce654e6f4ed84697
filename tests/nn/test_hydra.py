import pytest
import torch
from torch import Tensor
from torch.nn.functional import sigmoid, softplus

from meshop.data import InputError
from meshop.nn.hydra import Hydra


def oracle(layer: Hydra, x: Tensor) -> Tensor:
    """The equations of the docstring for one sequence [M, C], token by token and head by head."""
    M, inner = x.size(0), layer.expand * layer.channels
    G, N, H, P = layer.groups, layer.state_channels, layer.heads, layer.head_channels
    z, v, dt = (x @ layer.lin_in.weight.T).split([inner, inner + 4 * G * N, 2 * H], dim=1)
    half = layer.kernel_size // 2
    conv = torch.zeros_like(v)
    for t in range(M):
        conv[t] = layer.conv.bias
        for k in range(-half, half + 1):
            if 0 <= t + k < M:
                conv[t] = conv[t] + layer.conv.weight[:, 0, k + half] * v[t + k]
    conv = conv * sigmoid(conv)
    u = conv[:, :inner].view(M, H, P)
    BC = conv[:, inner:].view(M, 2, 2, G, N)  # direction, B or C
    r = torch.zeros(M, H, P, dtype=x.dtype)
    for direction, order in enumerate((range(M), range(M)[::-1])):
        for h in range(H):
            state, before = layer.initial_state[h], torch.zeros(P, dtype=x.dtype)
            for t in order:
                r[t, h] += before  # what the scan gave for the token before it
                delta = softplus(dt[t, direction * H + h] + layer.dt_bias[h])
                B, C = BC[t, direction, :, h * G // H]
                state = (-delta * layer.A_log[h].exp()).exp() * state + delta * torch.outer(u[t, h], B)
                before = state @ C
    r = r + (u.flatten(1) @ layer.lin_skip.weight.T + layer.lin_skip.bias)[..., None] * u
    r = r.flatten(1)
    r = r / (r.square().mean(1, keepdim=True) + 1e-5).sqrt() * layer.norm.weight
    return (r * z * sigmoid(z)) @ layer.lin_out.weight.T


@pytest.mark.parametrize("args", [(16, 3), (16, 3, 1, 4, 4), (12, 1, 3, 3, 1, 5)])
def test_equals_the_equations(args):
    layer = Hydra(*args).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    x = torch.randn(2, 7, layer.channels, dtype=torch.float64)
    with torch.no_grad():
        assert (layer(x) - torch.stack([oracle(layer, s) for s in x])).abs().max() < 1e-12


@pytest.mark.parametrize(("args", "published"), [((128,), 185_612), ((128, 64, 1), 126_342), ((128, 1, 1), 51_750)])
def test_published_parameter_counts(args, published):
    assert sum(p.numel() for p in Hydra(*args).parameters()) == published


def test_initial_step_sizes_are_between_a_thousandth_and_a_tenth():
    step = softplus(Hydra(1024, 1, expand=1, head_channels=1, groups=1).dt_bias)
    assert 1e-3 <= step.min() < 1.1e-3
    assert 0.09 < step.max() <= 0.1 + 1e-6
    assert abs(step.log().mean() - torch.tensor([1e-3, 1e-1]).log().mean()) < 0.2


def test_errors():
    with pytest.raises(InputError, match="48 inner channels to make a multiple of 2 heads"):
        Hydra(48, expand=1)
    with pytest.raises(InputError, match="head_channels=5"):
        Hydra(16, head_channels=5)
    with pytest.raises(InputError, match="odd kernel_size"):
        Hydra(16, kernel_size=4)
