from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from meshop.data import InputError
from meshop.models.lamo_grid import LaMOGrid
from meshop.nn.ss2d import SS2D


def read() -> tuple[dict[str, Tensor], dict[str, Any]]:
    vector = torch.load(Path(__file__).parent.parent / "conformance" / "lamo_grid.pt", weights_only=True)
    return {key: value.double() for key, value in vector["state_dict"].items()}, vector


@pytest.mark.parametrize(
    ("name", "features", "channels", "shape", "published"),
    [("Darcy", 3, 64, (88, 88), 1_145_986), ("Navier-Stokes", 12, 256, (64, 64), 10_061_314)],
)
def test_published_parameter_counts(name, features, channels, shape, published):
    assert sum(p.numel() for p in LaMOGrid(features, channels, 8, 1, shape).parameters()) == published


def test_equals_the_authors_code():
    weights, vector = read()
    model = LaMOGrid.from_authors(weights, shape=(8, 12)).double()
    assert sum(p.numel() for p in model.parameters()) == sum(w.numel() for w in weights.values())
    x, expected = torch.cat([vector["inputs"]["pos"], vector["inputs"]["x"]], dim=-1), vector["output"]
    batch = torch.arange(2).repeat_interleave(63)
    order = batch[torch.randperm(126)].argsort(stable=True).argsort()  # mixes the graphs, keeps the order of each
    out = model(x.flatten(0, 1)[order], batch=batch[order], shape=(7, 9))
    assert (out - expected.flatten(0, 1)[order]).abs().max() <= 1e-8 * expected.std(1).mean()


def test_the_placeholder_is_added_where_there_are_only_coordinates():
    weights, _ = read()
    x = torch.randn(96, 2, dtype=torch.float64)
    with_fields = LaMOGrid.from_authors(weights, (8, 12))
    assert with_fields.placeholder.tolist() == [0, 0]
    weights["patch_embed1.WE"] = weights["patch_embed1.WE"][:, :2]
    shift = torch.tensor([0.5, -2.0], dtype=torch.float64)
    moved = LaMOGrid.from_authors(weights | {"placeholder": shift}, (8, 12)).double()
    still = LaMOGrid.from_authors(weights | {"placeholder": 0 * shift}, (8, 12)).double()
    assert torch.equal(moved(x, shape=(8, 12)), still(x + shift, shape=(8, 12)))


def test_blocks_are_initialised_apart():
    model = LaMOGrid(3, 16, 2, 1, (4, 6), mixer=SS2D(16, 4))
    one, two = (block.mixer for block in model.blocks)
    assert model.mixer is one
    assert not torch.equal(one.lin_in.weight, two.lin_in.weight)


def test_padding_is_with_zeros_at_the_high_ends():
    model = LaMOGrid(3, 16, 2, 1, (4, 6), mixer=SS2D(16, 4))
    nn.init.normal_(model.embedding)
    x = torch.randn(3, 5, 3)
    padded = nn.functional.pad(x, (0, 0, 0, 1, 0, 1))
    y = model(padded.flatten(0, 1), shape=(4, 6)).view(4, 6, 1)[:3, :5]
    assert (model(x.flatten(0, 1), shape=(3, 5)) - y.flatten(0, 1)).abs().max() < 1e-6


def test_from_authors_lists_what_is_missing_and_unknown():
    weights, _ = read()
    with pytest.raises(InputError, match=r"unknown: patch_embed2.bE"):
        LaMOGrid.from_authors(weights | {"patch_embed2.bE": torch.ones(1)}, (8, 12))
    with pytest.raises(InputError, match=r"missing: patch_embed1.WE"):
        LaMOGrid.from_authors({}, (8, 12))


def test_errors():
    with pytest.raises(InputError, match="at least one layer"):
        LaMOGrid(3, 16, 0, 1, (4, 4))
    with pytest.raises(InputError, match="two coordinates at least"):
        LaMOGrid(1, 16, 1, 1, (4, 4))
    with pytest.raises(InputError, match="multiples of the patch size 2"):
        LaMOGrid(3, 16, 1, 1, (4, 5))
    model = LaMOGrid(3, 16, 1, 1, (4, 4))
    with pytest.raises(InputError, match=r"at most \(4, 4\) nodes"):
        model(torch.ones(24, 3), shape=(4, 6))
    with pytest.raises(InputError, match="with 3 channels"):
        model(torch.ones(16, 2), shape=(4, 4))
