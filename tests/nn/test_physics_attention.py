import math

import pytest
import torch
from torch.nn.functional import conv2d, conv3d

from meshop.data import InputError
from meshop.nn import PhysicsAttention

H, M, C = 2, 3, 8
D = C // H


def oracle(layer, x, batch, graphs, measure=None, shape=None):
    """Transolver's equations, a graph, a head, a node and a slice at a time."""
    out = torch.zeros_like(x)
    for b in range(graphs):
        nodes = (batch == b).nonzero().flatten()
        if len(nodes) == 0:
            continue
        mass = torch.ones(len(nodes)) if measure is None else 1000 * measure[nodes] / measure[nodes].sum()
        slices = layer.slices
        if shape is None:
            both = [x[nodes] @ lin.weight.T + lin.bias for lin in (slices.lin_x, slices.lin_f)]
        else:
            conv = conv2d if len(shape) == 2 else conv3d
            grid = x[nodes].T.reshape(1, C, *shape)
            lins = (slices.lin_x.conv, slices.lin_f.conv)
            both = [conv(grid, lin.weight, lin.bias, padding=1)[0].flatten(1).T for lin in lins]
        heads = []
        for h in range(H):
            xh, fh = (each[:, h * D : (h + 1) * D] for each in both)
            tau = slices.temperature[h].clamp(0.1, 5)
            weight = [torch.softmax((slices.lin_slice.weight @ v + slices.lin_slice.bias) / tau, 0) for v in xh]
            tokens = []
            for m in range(M):
                top = sum(mass[n] * weight[n][m] * fh[n] for n in range(len(nodes)))
                tokens.append(top / (sum(mass[n] * weight[n][m] for n in range(len(nodes))) + 1e-5))
            wq, wk, wv = layer.update.lin_qkv.weight.split(D)
            mixed = []
            for a in range(M):
                score = torch.stack([(wq @ tokens[a]) @ (wk @ tokens[m]) / math.sqrt(D) for m in range(M)]).softmax(0)
                mixed.append(sum(score[m] * (wv @ tokens[m]) for m in range(M)))
            heads.append(torch.stack([sum(weight[n][m] * mixed[m] for m in range(M)) for n in range(len(nodes))]))
        out[nodes] = torch.cat(heads, dim=1) @ layer.lin_out.weight.T + layer.lin_out.bias
    return out


def shaken(**arguments):
    torch.manual_seed(0)
    layer = PhysicsAttention(C, heads=H, num_slices=M, **arguments).double()
    for parameter in layer.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    return layer


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("shape", [None, (3, 4), (2, 3, 2)])
def test_equals_the_equations(measured, shape):
    layer = shaken(grid_dim=None if shape is None else len(shape))
    batch = torch.tensor([0] * 5 + [3] * 1 + [1] * 6) if shape is None else torch.tensor([1, 0] * 12)
    batch, graphs = (batch[torch.randperm(12)], 4) if shape is None else (batch, 2)
    x = torch.randn(len(batch), C, dtype=torch.float64, requires_grad=True)
    measure = torch.rand(len(batch), dtype=torch.float64) if measured else None
    out = layer(x, batch, measure, shape=shape)
    expected = oracle(layer, x, batch, graphs, measure, shape)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)
    direction = torch.randn_like(out)
    leaves = [x, *layer.parameters()]
    ours, theirs = (torch.autograd.grad((y * direction).sum(), leaves) for y in (out, expected))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_a_thousand_equal_nodes_weigh_the_same_with_and_without_measure():
    layer, x = shaken(), torch.randn(1000, C, dtype=torch.float64)
    torch.testing.assert_close(layer(x, measure=torch.full((1000,), 3e-9)), layer(x), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("temperature", [0.0, -1.0, 1e30])
def test_temperature_is_clamped(temperature):
    layer = shaken()
    torch.nn.init.constant_(layer.slices.temperature, temperature)
    out = layer(torch.randn(9, C, dtype=torch.float64))
    out.square().sum().backward()
    assert out.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_dropout_is_off_in_evaluation_and_on_in_training():
    layer, x = shaken(dropout=0.5), torch.randn(200, C, dtype=torch.float64)
    out = layer(x)
    assert (out == 0).double().mean() == pytest.approx(0.5, abs=0.05)
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    torch.testing.assert_close(layer(x), oracle(layer, x, torch.zeros(200), 1), rtol=1e-9, atol=1e-11)


def test_initialisation_and_name():
    layer = PhysicsAttention(128, heads=8, num_slices=64)
    assert layer.slices.lin_x.weight.std().item() == pytest.approx((3 * 128) ** -0.5, rel=0.05)  # torch's, not 0.02
    assert layer.slices.temperature.tolist() == [0.5] * 8
    assert str(layer) == "PhysicsAttention(128, heads=8, num_slices=64)"


def test_heads_must_divide_channels():
    with pytest.raises(InputError, match="multiple of heads"):
        PhysicsAttention(10, heads=4)
