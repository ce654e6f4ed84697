import itertools
import math

import pytest
import torch

from meshop.data import InputError
from meshop.nn import SpectralConv
from meshop.nn.grid import grid_to_rows, rows_to_grid

C, D = 3, 2  # channels in and out
SIZES = [(1,), (2,), (7,), (8,), (1, 1), (7, 5), (4, 6), (5, 8), (3, 4, 5), (2, 1, 6)]


def shaken(modes):
    torch.manual_seed(0)
    layer = SpectralConv(C, D, modes).double()
    torch.nn.init.normal_(layer.weight)
    return layer


def wave(k, shape):
    """exp(2 pi i k . n / N) at every node n, row-major."""
    nodes = itertools.product(*map(range, shape))
    phase = [sum(a * b / n for a, b, n in zip(k, node, shape, strict=True)) for node in nodes]
    return torch.exp(2j * math.pi * torch.tensor(phase, dtype=torch.float64))


def oracle(layer, x, shape):
    """The definition, one frequency at a time, by sums over all nodes."""
    out = torch.zeros(len(x), D, dtype=torch.float64)
    two_sided = [
        [k for k in range(-m, m) if -(n // 2) <= k < (n + 1) // 2]
        for n, m in zip(shape[:-1], layer.modes[:-1], strict=True)
    ]
    one_sided = [k for k in range(layer.modes[-1]) if k <= shape[-1] // 2]
    for k in itertools.product(*two_sided, one_sided):
        block = sum((a < 0) << axis for axis, a in enumerate(k[:-1]))
        place = [a if a >= 0 else m + a for a, m in zip(k, layer.modes, strict=True)]
        weight = torch.view_as_complex(layer.weight)[(block, ..., *place)]
        coefficient = (x * wave(k, shape).conj()[:, None]).sum(0) @ weight / len(x)
        twice = 1 if 2 * k[-1] in (0, shape[-1]) else 2  # the others stand for the frequency -k too
        out += twice * (wave(k, shape)[:, None] * coefficient).real
    return out


@pytest.mark.parametrize("modes", [2, 5])  # 5 are more than most of these grids have
@pytest.mark.parametrize("shape", SIZES)
def test_equals_the_definition(shape, modes):
    layer = shaken([modes, modes - 1, modes][: len(shape)])
    x = torch.randn(2 * math.prod(shape), C, dtype=torch.float64, requires_grad=True)
    batch = torch.tensor([1, 0] * math.prod(shape))
    out = layer(x, batch, shape=shape)
    expected = torch.empty_like(out)
    for graph in (0, 1):
        expected[batch == graph] = oracle(layer, x[batch == graph], shape)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)
    direction = torch.randn_like(out)
    ours, theirs = (torch.autograd.grad((y * direction).sum(), [x, layer.weight]) for y in (out, expected))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("shape", SIZES)
def test_all_frequencies_with_unit_weights_are_the_identity(shape):
    layer = SpectralConv(C, C, [8] * len(shape)).double()
    torch.nn.init.zeros_(layer.weight)
    for channel in range(C):
        layer.weight.data[:, channel, channel, ..., 0] = 1
    x = torch.randn(math.prod(shape), C, dtype=torch.float64)
    torch.testing.assert_close(layer(x, shape=shape), x, rtol=1e-12, atol=1e-12)


def test_a_resolved_field_gives_the_same_on_every_grid():
    layer, outputs = shaken((3, 3)), []
    for n in (8, 13, 48):
        x, y = torch.meshgrid(*[torch.arange(n, dtype=torch.float64) / n] * 2, indexing="ij")
        field = torch.stack([torch.sin(2 * torch.pi * (x - 2 * y)), torch.cos(4 * torch.pi * x), 1 + 0 * x], -1)
        out = layer(field.view(-1, C), shape=(n, n)).view(n, n, D)
        outputs.append(torch.fft.fft2(out, dim=(0, 1), norm="forward")[:3, :3])
    for other in outputs[1:]:
        torch.testing.assert_close(other, outputs[0], rtol=1e-10, atol=1e-12)


def test_commutes_with_shifts():
    layer, x = shaken((3, 3)), torch.randn(7, 6, C, dtype=torch.float64)
    out = layer(x.view(-1, C), shape=(7, 6)).view(7, 6, D)
    shifted = layer(x.roll((3, 2), (0, 1)).reshape(-1, C), shape=(7, 6)).view(7, 6, D)
    torch.testing.assert_close(shifted, out.roll((3, 2), (0, 1)), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_never_transforms_in_half_precision(dtype):
    layer, x = SpectralConv(C, D, (12, 12)), torch.randn(400, C)
    with torch.autocast("cpu", dtype=dtype):
        assert torch.equal(layer(x, shape=(20, 20)), layer.eval()(x, shape=(20, 20)))
        half = layer(x.to(dtype), shape=(20, 20))
    assert half.dtype == dtype
    torch.testing.assert_close(half, layer(x.to(dtype).float(), shape=(20, 20)).to(dtype))


def test_size_initialisation_and_name():
    layer = SpectralConv(32, 16, (12, 10, 8))
    assert sum(p.numel() for p in layer.parameters()) == 2 * 2**2 * 32 * 16 * 12 * 10 * 8
    assert 0 <= layer.weight.min() < layer.weight.max() <= 1 / 512
    assert str(layer) == "SpectralConv(32, 16, modes=(12, 10, 8))"


@pytest.mark.parametrize("modes", [(), (0,), (2, 2, 2, 2)])
def test_modes_must_be_positive_and_of_one_to_three_axes(modes):
    with pytest.raises(InputError, match="positive number of modes"):
        SpectralConv(C, D, modes)


def test_rows_and_grids_are_inverse_in_any_order():
    batch = torch.tensor([1, 0, 2] * 6)
    x = torch.randn(18, C)
    grid, order = rows_to_grid(x, 2, batch, None, (2, 3))
    assert torch.equal(grid[2, :, 1, 2], x[batch == 2][5])
    assert torch.equal(grid_to_rows(grid, order), x)


@pytest.mark.parametrize(
    ("shape", "batch", "message"),
    [
        (None, None, "Expected the shape of a 2-D grid"),
        ((6,), None, "Expected the shape of a 2-D grid"),
        ((2, 2), None, "graphs of 4 nodes each"),
        ((3, 1), torch.tensor([0, 0, 1, 1, 1, 1]), "graphs of 3 nodes each"),
    ],
)
def test_nodes_must_be_the_grid(shape, batch, message):
    with pytest.raises(InputError, match=message):
        SpectralConv(C, D, (2, 2))(torch.randn(6, C), batch, shape=shape)
