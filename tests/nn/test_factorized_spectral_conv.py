import math
from pathlib import Path

import pytest
import torch
from torch.nn.functional import gelu, linear, pad

from meshop.nn import FactorizedSpectralConv

VECTORS = Path(__file__).parent.parent / "conformance"
C, D = 3, 2  # channels in and out
SIZES = [(1,), (2,), (7,), (8,), (1, 1), (7, 5), (4, 6), (3, 4, 5), (2, 1, 6)]


def shaken(modes):
    torch.manual_seed(0)
    layer = FactorizedSpectralConv(C, D, modes).double()
    for weight in layer.weights:
        torch.nn.init.normal_(weight)
    return layer


def oracle(layer, x, shape):
    """The definition with dense matrices of the discrete Fourier transform along each axis."""
    grid, out = x.view(*shape, C).to(torch.complex128), 0
    for axis, (n, weight) in enumerate(zip(shape, layer.weights, strict=True)):
        k = torch.arange(min(len(weight[0, 0]), n // 2 + 1), dtype=torch.float64)
        wave = torch.exp(2j * math.pi * torch.outer(torch.arange(n, dtype=torch.float64), k) / n)  # [n, K]
        line = torch.tensordot(grid.movedim(axis, -2).transpose(-1, -2), wave.conj(), 1)  # [..., C, K]
        mixed = torch.stack([line[..., j] @ torch.view_as_complex(weight)[:, :, j] for j in range(len(k))], -1)
        twice = torch.tensor([1 if 2 * j in (0, n) else 2 for j in range(len(k))], dtype=torch.float64)
        back = torch.tensordot(mixed, (twice * wave / n).mT, 1).real  # [..., D, n]
        out = out + back.transpose(-1, -2).movedim(-2, axis)
    return out.reshape(-1, D)


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
    ours, theirs = (torch.autograd.grad((y * direction).sum(), [x, *layer.parameters()]) for y in (out, expected))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("shape", SIZES)
def test_all_frequencies_with_unit_weights_are_the_identity_once_an_axis(shape):
    layer = FactorizedSpectralConv(C, C, [8] * len(shape)).double()
    for weight in layer.weights:
        weight.data[:] = torch.stack([torch.eye(C), torch.zeros(C, C)], -1)[:, :, None]
    x = torch.randn(math.prod(shape), C, dtype=torch.float64)
    torch.testing.assert_close(layer(x, shape=shape), len(shape) * x, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["ffno_grid2d", "ffno_grid3d"])
def test_equals_the_authors_code(name):
    vector = torch.load(VECTORS / f"{name}.pt", weights_only=True)
    theirs = {key: value.double() for key, value in vector["state_dict"].items()}
    args, expected = vector["args"], vector["output"]
    shape, channels = args["shapelist"], args["n_hidden"]
    padded = [16] * len(shape)  # their model pads with zeros to a multiple of 16
    x = torch.cat([vector["inputs"]["pos"], vector["inputs"]["x"]], dim=-1)
    x = gelu(linear(x, theirs["preprocess.linear_pre.0.weight"], theirs["preprocess.linear_pre.0.bias"]))
    x = linear(x, theirs["preprocess.linear_post.weight"], theirs["preprocess.linear_post.bias"])
    x = x.view(-1, *shape, channels)
    x = pad(x, [0, 0, *(end for n in reversed(shape) for end in (0, 16 - n))]).view(-1, channels)
    batch = torch.arange(len(expected)).repeat_interleave(math.prod(padded))
    for i in range(args["n_layers"]):
        layer = FactorizedSpectralConv(channels, channels, [args["modes"]] * len(shape)).double()
        layer.load_state_dict(
            {f"weights.{a}": theirs[f"spectral_layers.{i}.fourier_weight.{a}"] for a in range(len(shape))}
        )
        x = x + layer(x, batch, shape=padded)
    x = x.view(-1, *padded, channels)[(slice(None), *map(slice, shape))].reshape(len(expected), -1, channels)
    y = linear(gelu(linear(x, theirs["fc1.weight"], theirs["fc1.bias"])), theirs["fc2.weight"], theirs["fc2.bias"])
    assert (y - expected).abs().max() <= 1e-8 * expected.std(1).mean()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_never_transforms_in_half_precision(dtype):
    layer, x = FactorizedSpectralConv(C, D, (12, 12)), torch.randn(400, C)
    with torch.autocast("cpu", dtype=dtype):
        half = layer(x.to(dtype), shape=(20, 20))
    assert half.dtype == dtype
    torch.testing.assert_close(half, layer(x.to(dtype).float(), shape=(20, 20)).to(dtype))


def test_size_initialisation_and_name():
    layer = FactorizedSpectralConv(64, 32, (12, 10))
    assert sum(p.numel() for p in layer.parameters()) == 2 * 64 * 32 * (12 + 10)
    assert layer.weights[1].std().item() == pytest.approx(1 / math.sqrt(10 * 96), rel=0.02)
    assert str(layer) == "FactorizedSpectralConv(64, 32, modes=(12, 10))"
