import math

import pytest
import torch
from torch.nn.functional import gelu

from meshop.data import InputError
from meshop.nn import EideticAttention

H, M, C = 2, 3, 8
D = C // H


def shaken(**arguments):
    torch.manual_seed(0)
    layer = EideticAttention(C, heads=H, num_slices=M, **arguments).double()
    for parameter in layer.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    return layer


def oracle(layer, x, mass):
    """The equations for one graph, a head and a node at a time."""
    x = x @ layer.lin_x.weight.T + layer.lin_x.bias
    heads = []
    for h in range(H):
        xh = x[:, h * D : (h + 1) * D]
        weight = []
        for row in xh:
            hidden = gelu(layer.temperature.lin1.weight @ row + layer.temperature.lin1.bias)
            tau = gelu(layer.temperature.lin2.weight @ hidden + layer.temperature.lin2.bias) + layer.bias[h]
            weight.append(((layer.lin_slice.weight @ row + layer.lin_slice.bias) / tau.clamp_min(0.01)).softmax(0))
        weight = torch.stack(weight)  # [N, M]
        token = (mass[:, None] * weight).T @ xh / ((mass @ weight)[:, None] + 1e-5)
        q, k, v = (token @ w.T for w in layer.update.lin_qkv.weight.split(D))
        heads.append(weight @ ((q @ k.T / math.sqrt(D)).softmax(1) @ v))
    return torch.cat(heads, 1) @ layer.lin_out.weight.T + layer.lin_out.bias


@pytest.mark.parametrize("measured", [False, True])
def test_equals_the_equations(measured):
    layer = shaken(gumbel="off").eval()
    batch = torch.tensor([0] * 5 + [3] + [1] * 6)[torch.randperm(12)]
    x = torch.randn(12, C, dtype=torch.float64, requires_grad=True)
    measure = torch.rand(12, dtype=torch.float64) if measured else None
    out = layer(x, batch, measure)
    expected = torch.zeros_like(out)
    for b in (0, 1, 3):
        nodes = batch == b
        mass = torch.ones(12).double()[nodes] if measure is None else 1000 * measure[nodes] / measure[nodes].sum()
        expected[nodes] = oracle(layer, x[nodes], mass)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)
    direction = torch.randn_like(out)
    leaves = [x, *layer.parameters()]
    ours, theirs = (torch.autograd.grad((y * direction).sum(), leaves) for y in (out, expected))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("gumbel", "training", "noisy"), [
    ("train", True, True), ("train", False, False), ("always", False, True), ("off", True, False),
])  # fmt: skip
def test_when_there_is_noise(gumbel, training, noisy):
    layer = shaken(gumbel=gumbel).train(training)
    x = torch.randn(50, C, dtype=torch.float64)
    assert torch.equal(layer(x), layer(x)) != noisy


def test_noise_is_gumbel():
    """The largest of logits with Gumbel noise is each of them as often as their softmax says."""
    layer = EideticAttention(4, heads=1, num_slices=3).train()
    torch.nn.init.zeros_(layer.lin_slice.weight)
    layer.lin_slice.bias.data = torch.tensor([0.0, 1.0, 2.0])
    seen = []
    layer.assign.register_forward_hook(lambda module, given, shares: seen.append(shares.weights()))
    torch.manual_seed(0)
    layer(torch.zeros(20_000, 4))
    often = seen[0].flatten(0, -2)[:20_000].argmax(-1).bincount(minlength=3) / 20_000
    torch.testing.assert_close(often, torch.tensor([0.0, 1.0, 2.0]).softmax(0), rtol=0, atol=0.01)


def test_evaluation_takes_the_mean_of_the_noisy_assignment():
    layer = shaken()
    with torch.no_grad():
        layer.lin_slice.weight.mul_(3)
    seen = []
    layer.assign.register_forward_hook(lambda module, given, shares: seen.append(shares.weights()))
    x = torch.randn(40, C, dtype=torch.float64)
    with torch.no_grad():
        for _ in range(2000):
            layer(x)
        noisy = torch.stack(seen).mean(0)
        layer.eval()(x)
        mean = seen[-1]
        layer.gumbel = "off"
        layer(x)
    assert (mean - noisy).abs().max() < 0.05  # of shares between 0 and 1
    assert (mean - noisy).square().mean() < 0.05 * (seen[-1] - noisy).square().mean()


def test_temperature_is_bounded():
    layer = shaken(min_temperature=0.2, gumbel="off").eval()
    seen = []
    layer.assign.register_forward_hook(lambda module, given, shares: seen.append(shares.weights()))
    torch.nn.init.constant_(layer.bias, -100.0)
    x = torch.randn(30, C, dtype=torch.float64)
    out = layer(x)
    expected = layer.lin_slice((layer.lin_x(x)).view(1, 30, H, D).transpose(1, 2)) / 0.2
    torch.testing.assert_close(seen[0], expected[0].transpose(0, 1).softmax(-1))
    assert out.isfinite().all()


def test_wrong_arguments():
    with pytest.raises(InputError, match="multiple of heads"):
        EideticAttention(10, heads=4)
    with pytest.raises(InputError, match="'train', 'always' or 'off'"):
        EideticAttention(16, gumbel="never")
    with pytest.raises(InputError, match="positive min_temperature"):
        EideticAttention(16, min_temperature=0)
