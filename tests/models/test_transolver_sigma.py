import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, layer_norm

from meshop.data import InputError
from meshop.models import Physolver, Specsolver, Stack, TransolverSigma
from meshop.nn import (
    ConditionalPositionEncoding,
    FactorizedSpectralConv,
    GridConv,
    Lift,
    Parallel,
    PhysicsAttention,
    Residual,
    SliceResidualAttention,
    SwiGLU,
    UnifiedPosition,
)
from meshop.testing import random_graph


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("channels", "slices", "modes", "published"),
    [(128, 32, 4, 1_245_289), (32, 128, 8, 125_161), (256, 128, 8, 6_964_889)],
)
def test_published_parameter_counts(channels, slices, modes, published):
    lift = Lift(1, channels, position=UnifiedPosition(2, ref=8))
    model = TransolverSigma(1, channels, 8, 1, num_slices=slices, modes=(modes, modes), grid_dim=2, lift=lift)
    assert count(model) == published


@pytest.mark.parametrize(
    ("features", "channels", "slices", "modes", "expected"),
    [(1, 64, 128, 8, 462_937), (1, 192, 128, 8, 3_946_377), (10, 256, 32, 4, 4_859_289)],
)
def test_parameter_counts_of_unpublished_sizes(features, channels, slices, modes, expected):
    """What the formula behind the published counts gives for the other widths of the paper, and for Navier-Stokes."""
    lift = Lift(features, channels, position=UnifiedPosition(2, ref=8))
    model = TransolverSigma(features, channels, 8, 1, num_slices=slices, modes=(modes, modes), grid_dim=2, lift=lift)
    assert count(model) == expected


def shaken(model: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    return model.double()


def test_equals_the_equations_on_a_grid():
    C, shape, L = 16, (5, 6), 2
    model = shaken(TransolverSigma(3, C, L, 2, heads=2, num_slices=4, modes=(3, 3), grid_dim=2))
    x = torch.randn(30, 3, dtype=torch.float64)
    h = model.lift(x)
    for layer in range(L):
        encoding, parallel, ffn = model.stack.blocks[3 * layer : 3 * layer + 3]
        grid = h.T.view(1, C, *shape)
        h = h + conv2d(grid, encoding.local.conv.weight, encoding.local.conv.bias, padding=1, groups=C)[0].flatten(1).T
        halves = []
        for half, branch in zip((h[:, : C // 2], h[:, C // 2 :]), parallel.layers, strict=True):
            y = layer_norm(half, (C // 2,), branch.norm.weight, branch.norm.bias)
            halves.append(half + branch.layer(y, shape=shape))
        h = torch.cat(halves, dim=1)
        y, swiglu = layer_norm(h, (C,), ffn.norm.weight, ffn.norm.bias), ffn.layer
        h = h + swiglu.lin3(torch.nn.functional.silu(swiglu.lin1(y)) * swiglu.lin2(y))
    norm, head = model.stack.norm, model.stack.head
    expected = layer_norm(h, (C,), norm.weight, norm.bias) @ head.weight.T + head.bias
    torch.testing.assert_close(model(x, shape=shape), expected, rtol=1e-10, atol=1e-12)
    spectral, physical = (branch.layer for branch in model.stack.blocks[1].layers)
    assert isinstance(spectral.operator, FactorizedSpectralConv)
    assert isinstance(physical, SliceResidualAttention)
    assert physical.local_x.kernel_size == physical.local_f.kernel_size == 5


def test_half_the_channels_cannot_see_the_other_half_within_the_branches():
    parallel = TransolverSigma(3, 16, 1, 1, heads=2, num_slices=4, modes=(2, 2), grid_dim=2).stack.blocks[1]
    x = torch.randn(30, 16)
    changed = x.clone()
    changed[:, :8] += 1 + torch.rand(30, 8)
    before, after = (parallel(t, shape=(5, 6)) for t in (x, changed))
    assert torch.equal(before[:, 8:], after[:, 8:])
    assert not torch.isclose(before[:, :8], after[:, :8]).any()


def encoding(channels: int) -> ConditionalPositionEncoding:
    return ConditionalPositionEncoding(GridConv(channels, channels, 2, groups=channels))


def attention(channels: int) -> Residual:
    return Residual(SliceResidualAttention(channels, heads=2, num_slices=4), channels)


def spectral(channels: int) -> Residual:
    return Residual(FactorizedSpectralConv(channels, channels, (2, 2)), channels)


ABLATIONS = {
    "no encoding": [Parallel([spectral(8), attention(8)]), Residual(SwiGLU(16), 16)],
    "no spectral branch": [encoding(16), Parallel([nn.Identity(), attention(8)]), Residual(SwiGLU(16), 16)],
    "no physical branch": [encoding(16), Parallel([spectral(8), nn.Identity()]), Residual(SwiGLU(16), 16)],
    "sequential": [encoding(16), spectral(16), attention(16), Residual(SwiGLU(16), 16)],
    "grouped SwiGLU": [
        encoding(16),
        Parallel([spectral(8), attention(8)]),
        Residual(Parallel([SwiGLU(8), SwiGLU(8)]), 16),
    ],
    "physics attention": [
        encoding(16),
        Parallel([spectral(8), Residual(PhysicsAttention(8, heads=2, num_slices=4), 8)]),
        Residual(SwiGLU(16), 16),
    ],
}


@pytest.mark.parametrize("name", ABLATIONS)
def test_ablations_are_other_stacks(name):
    model = shaken(Stack(3, 16, 1, ABLATIONS[name]))
    x, batch = torch.randn(60, 3, dtype=torch.float64), torch.tensor([1, 0] * 30)
    out = model(x, batch=batch, shape=(5, 6))
    for b in (0, 1):
        torch.testing.assert_close(out[batch == b], model(x[batch == b], shape=(5, 6)))
    out.square().sum().backward()
    assert all(p.grad.any() for p in model.parameters())


def test_its_halves_as_models_have_full_width():
    C, M, K, H = 32, 16, 4, 8
    rest = 9 * C + C + 4 * C + count(SwiGLU(C))
    ends = count(Lift(3, C)) + 2 * C + C + 1
    attention = 2 * (25 * C + C + C * C + C) + (C // H * M + M) + 3 * (C // H) ** 2 + C * C + C + H + 1
    assert count(Physolver(3, C, 2, 1, num_slices=M, grid_dim=2)) == ends + 2 * (rest + attention)
    assert count(Specsolver(3, C, 2, 1, modes=(K, K), grid_dim=2)) == ends + 2 * (rest + 2 * 2 * C * C * K)


@pytest.mark.parametrize(
    "model",
    [
        TransolverSigma(16, 16, 1, 2, heads=2, num_slices=4, modes=(2, 2)),
        Physolver(16, 16, 1, 2, heads=2, num_slices=4),
        Specsolver(16, 16, 1, 2, modes=(2, 2)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_meshes_need_positions_and_edges(model):
    graph = random_graph(9, seed=0)
    assert model(graph.x, graph.pos, graph.edge_index).shape == (9, 2)
    with pytest.raises(InputError, match="needs the key 'edge_index'"):
        model(graph.x, graph.pos)
    with pytest.raises(InputError, match="needs the key 'pos'"):
        model(graph.x, edge_index=graph.edge_index)


def test_grid_dim_must_be_the_number_of_axes():
    with pytest.raises(InputError, match="number of axes, 3"):
        TransolverSigma(3, 16, 1, 1, modes=(2, 2, 2), grid_dim=2)
    with pytest.raises(InputError, match="number of axes, 3"):
        Physolver(3, 16, 1, 1, dim=3, grid_dim=2)
    with pytest.raises(InputError, match="number of axes, 1"):
        Specsolver(3, 16, 1, 1, modes=(2,), grid_dim=2)


def test_names():
    assert str(TransolverSigma(3, 16, 2, 1, modes=[4, 4])) == (
        "TransolverSigma(3, 16, num_layers=2, out_channels=1, num_slices=64, modes=(4, 4))"
    )
    assert str(Physolver(3, 16, 2, 1)) == "Physolver(3, 16, num_layers=2, out_channels=1, num_slices=64)"
    assert str(Specsolver(3, 16, 2, 1)) == "Specsolver(3, 16, num_layers=2, out_channels=1, modes=(8, 8))"
