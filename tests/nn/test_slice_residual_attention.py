import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d

from meshop.data import InputError
from meshop.nn import (
    Block,
    DepthwiseGraphConv,
    GridConv,
    PhysicsAttention,
    ReZero,
    SliceAttention,
    SliceResidualAttention,
)

H, M, C = 2, 3, 8
D = C // H
SHAPE = (3, 4)


def shaken(**arguments):
    torch.manual_seed(0)
    layer = SliceResidualAttention(C, heads=H, num_slices=M, **arguments).double()
    for parameter in layer.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    return layer


def on_grid(**arguments):
    return shaken(**{f"local_{a}": GridConv(C, C, 2, kernel_size=5, groups=C) for a in "xf"}, **arguments)


def oracle(layer, x, mass):
    """The paper's matrices for one grid: S = P^T F / (P^T 1 + eps), S+ = S + gamma A S V, P S+."""
    grid = x.T.reshape(1, C, *SHAPE)
    rows = [
        conv2d(grid, c.weight, c.bias, padding=2, groups=C)[0].flatten(1).T
        for c in (layer.local_x.conv, layer.local_f.conv)
    ]
    slices = layer.slices
    r, f = (row @ lin.weight.T + lin.bias for row, lin in zip(rows, (slices.lin_x, slices.lin_f), strict=True))
    heads, change, size = [], 0, 0
    for h in range(H):
        rh, fh = r[:, h * D : (h + 1) * D], f[:, h * D : (h + 1) * D]
        logit = rh @ slices.lin_slice.weight.T + slices.lin_slice.bias
        P = (logit / slices.temperature[h].clamp(0.1, 5)).softmax(1)
        P_mass = P * mass[:, None]
        Z = P_mass.T @ fh / (P_mass.sum(0)[:, None] + 1e-5)
        Wq, Wk, Wv = (w.T for w in layer.update.layer.lin_qkv.weight.split(D))
        A = ((Z @ Wq) @ (Z @ Wk).T / D**0.5).softmax(1)
        step = layer.update.gamma * (A @ Z @ Wv)
        heads.append(P @ (Z + step))
        change, size = change + step.square().sum(), size + Z.square().sum()
    return torch.cat(heads, 1) @ layer.lin_out.weight.T + layer.lin_out.bias, (change / size).sqrt()


@pytest.mark.parametrize("measured", [False, True])
def test_equals_the_equations(measured):
    layer = on_grid()
    batch = torch.tensor([1, 0] * 12)
    x = torch.randn(24, C, dtype=torch.float64, requires_grad=True)
    measure = torch.rand(24, dtype=torch.float64) if measured else None
    out, correction = layer(x, batch=batch, measure=measure, shape=SHAPE, return_correction=True)
    expected = torch.zeros_like(out)
    for b in (0, 1):
        nodes = batch == b
        mass = torch.ones(12) if measure is None else 1000 * measure[nodes] / measure[nodes].sum()
        expected[nodes], ratio = oracle(layer, x[nodes], mass)
        torch.testing.assert_close(correction[b], ratio, rtol=1e-10, atol=0)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)
    direction = torch.randn_like(out)
    leaves = [x, *layer.parameters()]
    ours, theirs = (torch.autograd.grad((y * direction).sum(), leaves) for y in (out, expected))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_starts_as_the_layer_without_attention_and_leaves_it_in_one_step():
    layer = SliceResidualAttention(C, heads=H, num_slices=M)
    without = SliceResidualAttention(C, heads=H, num_slices=M, update=nn.Identity())
    without.load_state_dict(layer.state_dict(), strict=False)
    x = torch.randn(50, C)
    assert torch.equal(layer(x), without(x))
    layer(x).square().sum().backward()
    assert layer.update.gamma.grad != 0
    _, correction = layer(x, return_correction=True)
    assert correction.tolist() == [0]


@pytest.mark.parametrize("measured", [False, True])
def test_replacing_the_slices_is_physics_attention(measured):
    layer = shaken(update=SliceAttention(D))
    reference = PhysicsAttention(C, heads=H, num_slices=M).double()
    reference.load_state_dict(layer.state_dict())
    x, batch = torch.randn(30, C, dtype=torch.float64), torch.arange(30) % 3
    measure = torch.rand(30, dtype=torch.float64) if measured else None
    torch.testing.assert_close(layer(x, batch=batch, measure=measure), reference(x, batch, measure))


def test_local_layers_on_meshes():
    layer = shaken(local_x=DepthwiseGraphConv(C, 2), local_f=DepthwiseGraphConv(C, 2))
    x, pos = torch.randn(5, C, dtype=torch.float64), torch.rand(5, 2, dtype=torch.float64)
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    plain = shaken()
    plain.load_state_dict({k: v for k, v in layer.state_dict().items() if not k.startswith("local")})
    plain.local_x, plain.local_f = (_Fixed(local(x, pos, edge_index)) for local in (layer.local_x, layer.local_f))
    torch.testing.assert_close(layer(x, pos, edge_index), plain(x))
    with pytest.raises(InputError, match="needs the key 'edge_index'"):
        layer(x, pos)


class _Fixed(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, x):
        return self.value


@pytest.mark.parametrize("update", [None, SliceAttention(D), ReZero(SliceAttention(D, dropout=0.5)), nn.Identity()])
def test_every_update_fits_a_block(update):
    block = Block(SliceResidualAttention(C, heads=H, num_slices=M, update=update), C)
    assert block(torch.randn(9, C), batch=torch.arange(9) % 2).shape == (9, C)


def test_dropout_is_off_in_evaluation_and_on_in_training():
    layer, x = shaken(dropout=0.5), torch.randn(200, C, dtype=torch.float64)
    assert (layer(x) == 0).double().mean() == pytest.approx(0.5, abs=0.05)
    layer.eval()
    assert not (layer(x) == 0).any()


def test_parameters_and_name():
    layer = SliceResidualAttention(64, heads=8, num_slices=32)
    assert sum(p.numel() for p in layer.parameters()) == 3 * (64**2 + 64) + (8 * 32 + 32) + 3 * 8**2 + 8 + 1
    assert str(layer) == "SliceResidualAttention(64, heads=8, num_slices=32)"
    with pytest.raises(InputError, match="multiple of heads"):
        SliceResidualAttention(10, heads=4)
