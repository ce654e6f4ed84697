import pytest
import torch
from torch import Tensor, nn

from meshop.data import InputError
from meshop.nn.bi_mamba2 import BiMamba2
from meshop.nn.hydra import Hydra
from meshop.nn.latent_ssm import LatentSSM, hilbert_key


def shaken(layer: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return layer.double()


def oracle(layer: LatentSSM, x: Tensor, mass: Tensor) -> Tensor:
    """The equations of the docstring for one graph, dense."""
    H, d = layer.heads, layer.channels // layer.heads
    s = layer.slices
    maps = [x @ lin.weight.T + lin.bias for lin in (s.lin_x, s.lin_f)]
    weights, tokens = [], []
    for h in range(H):
        g, f = (each[:, h * d : (h + 1) * d] for each in maps)
        w = torch.softmax((g @ s.lin_slice.weight.T + s.lin_slice.bias) / s.temperature[h].clamp(0.1, 5), dim=1)
        weights.append(w)
        tokens.append(w.T @ (mass[:, None] * f) / ((mass @ w)[:, None] + 1e-5))
    token = layer.core(torch.cat(tokens, dim=1)[None])[0]
    y = torch.cat([w @ t for w, t in zip(weights, token.split(d, dim=1), strict=True)], dim=1)
    return y @ layer.lin_out.weight.T + layer.lin_out.bias


@pytest.mark.parametrize("core", [Hydra(12, 4), BiMamba2(12, 4), nn.Identity()])
def test_equals_the_equations(core):
    layer = shaken(LatentSSM(12, heads=3, num_slices=5, core=core))
    sizes = (1, 7, 200)
    graphs = [torch.randn(n, 12, dtype=torch.float64) for n in sizes]
    measures = [torch.rand(n, dtype=torch.float64) for n in sizes]
    batch = torch.arange(3).repeat_interleave(torch.tensor(sizes))
    with torch.no_grad():
        y = layer(torch.cat(graphs), batch=batch)
        assert (y - torch.cat([oracle(layer, x, torch.ones(len(x)).double()) for x in graphs])).abs().max() < 1e-12
        y = layer(torch.cat(graphs), batch=batch, measure=torch.cat(measures))
        expected = [oracle(layer, x, 1000 * m / m.sum()) for x, m in zip(graphs, measures, strict=True)]
        assert (y - torch.cat(expected)).abs().max() < 1e-12


def test_temperature_is_bounded():
    layer = shaken(LatentSSM(12, heads=3, num_slices=5, core=nn.Identity()))
    x = torch.randn(9, 12, dtype=torch.float64)
    for given, bound in ((-1.0, 0.1), (0.0, 0.1), (9.0, 5.0)):
        y = [layer(x) for value in (given, bound) if nn.init.constant_(layer.slices.temperature, value) is not None]
        assert torch.equal(*y)


def test_shared_slices_count_once_and_decode_for_both():
    first, second = LatentSSM(12, 3, 5, Hydra(12, 4)), LatentSSM(12, 3, 5, Hydra(12, 4))
    apart = sum(p.numel() for p in nn.ModuleList([first, second]).parameters())
    second.slices = first.slices
    shared = sum(p.numel() for p in nn.ModuleList([first, second]).parameters())
    assert apart - shared == 2 * (12 * 12 + 12) + 4 * 5 + 5 + 3
    second.core, second.lin_out = first.core, first.lin_out
    x = torch.randn(9, 12)
    assert torch.equal(first(x), second(x))


def relabelled(layer: LatentSSM, order: Tensor) -> None:
    with torch.no_grad():
        for parameter in (layer.slices.lin_slice.weight, layer.slices.lin_slice.bias):
            parameter.copy_(parameter[order])


@pytest.mark.parametrize("dim", [2, 3])
def test_geometric_order_does_not_depend_on_the_labels_of_the_slices(dim):
    x, pos = torch.randn(90, 12, dtype=torch.float64), torch.rand(90, dim, dtype=torch.float64)
    batch = torch.arange(3).repeat_interleave(30)
    for geometric in (True, False):
        layer = shaken(LatentSSM(12, heads=3, num_slices=16, core=Hydra(12, 4), geometric_order=geometric))
        expected = layer(x, pos, batch)
        relabelled(layer, torch.randperm(16))
        change = (layer(x, pos, batch) - expected).abs().max()
        assert change < 1e-12 if geometric else change > 1e-3


def test_geometric_order_is_that_of_the_centroids():
    # Hard slices, one a node: the tokens are the nodes, and the core sees them along the line on which they lie.
    class First(nn.Module):  # marks the first token of the sequence
        def forward(self, token: Tensor) -> Tensor:
            return torch.cat([torch.ones_like(token[:, :1]), torch.zeros_like(token[:, 1:])], dim=1)

    layer = LatentSSM(8, heads=1, num_slices=8, core=First(), geometric_order=True)
    with torch.no_grad():
        layer.slices.lin_x.weight.copy_(torch.eye(8))
        layer.slices.lin_slice.weight.copy_(100 * torch.eye(8))
        layer.lin_out.weight.copy_(torch.eye(8))
        for lin in (layer.slices.lin_x, layer.slices.lin_f, layer.slices.lin_slice, layer.lin_out):
            lin.bias.zero_()
    pos = torch.tensor([[3.0], [7], [1], [0], [5], [2], [6], [4]])
    assert layer(torch.eye(8), pos)[:, 0].tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert layer(torch.eye(8), -pos)[:, 0].tolist() == [0, 1, 0, 0, 0, 0, 0, 0]


def test_geometric_order_depends_neither_on_origin_nor_on_unit():
    layer = shaken(LatentSSM(12, heads=3, num_slices=16, core=Hydra(12, 4), geometric_order=True))
    x, pos = torch.randn(40, 12, dtype=torch.float64), torch.rand(40, 3, dtype=torch.float64)
    assert torch.equal(layer(x, 1e-3 * pos + 5), layer(x, pos))
    assert torch.equal(layer(x, 1e6 * pos - 1e6), layer(x, pos))


@pytest.mark.parametrize(("dim", "bits"), [(1, 5), (2, 1), (2, 5), (3, 1), (3, 4)])
def test_hilbert_curve_visits_every_cell_once_and_never_jumps(dim, bits):
    side = torch.arange(2.0**bits)
    cells = torch.stack(torch.meshgrid(*[side] * dim, indexing="ij"), dim=-1).flatten(0, -2)
    key = hilbert_key(cells, bits)
    assert torch.equal(key.sort().values, torch.arange(len(cells)))
    assert (cells[key.argsort()].diff(dim=0).abs().sum(1) == 1).all()


def test_points_that_differ_by_rounding_only_lie_at_the_same_place():
    pos = torch.full((2, 9, 3), 1 / 3) + 1e-8 * torch.randn(2, 9, 3)
    assert hilbert_key(pos).unique().numel() == 1
    assert (hilbert_key(torch.zeros(4, 2)) == 0).all()


def test_errors():
    with pytest.raises(InputError, match="multiple of heads"):
        LatentSSM(12, heads=5)
    layer, x = LatentSSM(12, 3, 5, nn.Identity(), geometric_order=True), torch.ones(4, 12)
    with pytest.raises(InputError, match="key 'pos'"):
        layer(x)
    with pytest.raises(
        InputError, match="coordinates as pos"
    ):  # as in Sequential("x, batch", [(layer, "x, batch -> x")])
        layer(x, torch.tensor([0, 0, 1, 1]))
