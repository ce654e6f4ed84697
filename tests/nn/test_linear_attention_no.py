import pytest
import torch

from meshop.data import InputError
from meshop.nn import LinearAttentionNO

H, M, C = 2, 3, 8
D = C // H


def shaken():
    torch.manual_seed(0)
    layer = LinearAttentionNO(C, heads=H, num_slices=M).double()
    for parameter in layer.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    return layer


def kernel(layer, x, mass, h):
    """Phi Psi^T of one graph and head: [N, N]."""
    xh = (x @ layer.lin_x.weight.T + layer.lin_x.bias)[:, h * D : (h + 1) * D]
    tau_q, tau_k = layer.temperature[:, h].clamp(0.1, 5)
    phi = ((xh @ layer.lin_q.weight.T + layer.lin_q.bias) / tau_q).softmax(1)  # over the slices
    psi = mass[:, None] * (xh @ layer.lin_k.weight.T / tau_k).exp()
    return phi @ (psi / psi.sum(0)).T  # over the nodes


def oracle(layer, x, mass):
    v = x @ layer.lin_v.weight.T + layer.lin_v.bias
    y = [kernel(layer, x, mass, h) @ v[:, h * D : (h + 1) * D] for h in range(H)]
    return torch.cat(y, 1) @ layer.lin_out.weight.T + layer.lin_out.bias


@pytest.mark.parametrize("measured", [False, True])
def test_equals_the_equations(measured):
    layer = shaken()
    batch = torch.tensor([0] * 5 + [3] + [1] * 6)[torch.randperm(12)]
    x = torch.randn(12, C, dtype=torch.float64, requires_grad=True)
    measure = torch.rand(12, dtype=torch.float64) if measured else None
    out = layer(x, batch, measure)
    expected = torch.zeros_like(out)
    for b in (0, 1, 3):
        nodes = batch == b
        expected[nodes] = oracle(layer, x[nodes], torch.ones(12).double()[nodes] if measure is None else measure[nodes])
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)
    direction = torch.randn_like(out)
    leaves = [x, *layer.parameters()]
    ours, theirs = (torch.autograd.grad((y * direction).sum(), leaves) for y in (out, expected))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_constants_stay_constant():
    layer = shaken()
    with torch.no_grad():
        layer.lin_v.weight.zero_()
        layer.lin_v.bias.fill_(2.0)
        layer.lin_out.weight.copy_(torch.eye(C))
        layer.lin_out.bias.zero_()
        out = layer(torch.randn(50, C).double(), torch.arange(50) % 3, torch.rand(50))
    torch.testing.assert_close(out, torch.full_like(out, 2.0), rtol=1e-12, atol=0)


@pytest.mark.parametrize("temperature", [0.0, -1.0, 1e30])
def test_temperatures_are_clamped(temperature):
    layer = shaken()
    torch.nn.init.constant_(layer.temperature, temperature)
    out = layer(torch.randn(9, C, dtype=torch.float64))
    out.square().sum().backward()
    assert out.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_dropout_and_heads():
    layer = LinearAttentionNO(C, heads=H, num_slices=M, dropout=0.5)
    assert (layer(torch.randn(200, C)) == 0).float().mean() == pytest.approx(0.5, abs=0.05)
    with pytest.raises(InputError, match="multiple of heads"):
        LinearAttentionNO(10, heads=4)
