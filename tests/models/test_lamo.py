from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from meshop.data import InputError
from meshop.models.lamo import LaMO
from meshop.nn import Lift, TimestepEmbedding, UnifiedPosition
from meshop.nn.bi_mamba2 import BiMamba2
from meshop.nn.hydra import Hydra
from meshop.nn.latent_ssm import LatentSSM

VECTORS = Path(__file__).parent.parent / "conformance"


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("name", "features", "out", "ratio", "shared", "core", "grid", "time", "published"),
    [
        ("Elasticity", 2, 1, 1, True, Hydra(128), None, False, 1_953_577),
        ("Airfoil", 2, 1, 1, True, Hydra(128, 1, 1), 2, False, 1_144_825),
        ("Airfoil of the paper", 2, 1, 1, True, Hydra(128), 2, False, 2_215_721),
        ("Pipe", 2, 1, 2, False, BiMamba2(128), 2, False, 4_020_545),
        ("Plasticity", 3, 4, 1, False, BiMamba2(128), 2, True, 3_791_044),
    ],
)
def test_published_parameter_counts(name, features, out, ratio, shared, core, grid, time, published):
    lift = Lift(features, 128, time=TimestepEmbedding(128) if time else None)
    model = LaMO(features, 128, 8, out, ratio, shared, LatentSSM(128, core=core, grid_dim=grid), lift)
    assert count(model) == published


def read(name: str) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Weights, x [B, N, F] and output [B, N, O] of a conformance vector."""
    vector = torch.load(VECTORS / f"{name}.pt", weights_only=True)
    weights = {key: value.double() for key, value in vector["state_dict"].items()}
    return weights, torch.cat([vector["inputs"]["pos"], vector["inputs"]["x"]], dim=-1), vector["output"]


@pytest.mark.parametrize("name", ["lamo_irregular_shared", "lamo_irregular_unshared"])
def test_equals_the_authors_code(name):
    weights, x, expected = read(name)
    model = LaMO.from_authors(weights).double()
    assert model.shared == (name == "lamo_irregular_shared")
    assert count(model) == sum(w.numel() for w in weights.values())
    tolerance = 1e-8 * expected.std(1).mean()
    # the two graphs and a third of another size, their nodes mixed
    graphs, nodes = x.shape[:2]
    batch = torch.tensor([0] * nodes + [1] * nodes + [2] * 77)
    order = torch.randperm(len(batch))
    out = torch.empty(len(batch), expected.size(-1), dtype=expected.dtype)
    out[order] = model(torch.cat([x.flatten(0, 1), torch.randn(77, x.size(-1))])[order], batch=batch[order])
    assert (out[: graphs * nodes] - expected.flatten(0, 1)).abs().max() <= tolerance
    assert (model(x[1]) - expected[1]).abs().max() <= tolerance


def test_structured_variant_equals_the_irregular_one_where_convolutions_are_pointwise():
    weights, x, _ = read("lamo_irregular_shared")
    irregular = LaMO.from_authors(weights | {"placeholder": 0 * weights["placeholder"]}).double()
    for name in ("in_project_x.weight", "in_project_fx.weight"):
        weights[name] = nn.functional.pad(weights[name][..., None, None], (1, 1, 1, 1))
    structured = LaMO.from_authors(weights).double()  # adds no placeholder: there is a field beside the coordinates
    assert structured.mixer.grid_dim == 2
    assert (structured(x[0], shape=(6, 10)) - irregular(x[0])).abs().max() < 1e-12


def test_from_authors_reads_time_and_position():
    weights, x, _ = read("lamo_irregular_shared")
    for i in (0, 2):
        weights |= {f"time_fc.{i}.weight": torch.randn(64, 64).double(), f"time_fc.{i}.bias": torch.randn(64).double()}
    model = LaMO.from_authors(weights).double()
    assert torch.equal(model.lift.time.lin2.weight, weights["time_fc.2.weight"])
    weights["preprocess.linear_pre.0.weight"] = torch.randn(128, 4 + 1).double()
    model = LaMO.from_authors(weights, position=UnifiedPosition(2, ref=2)).double()
    assert model.in_channels == 1
    h = model.lift.mlp(torch.cat([model.lift.position(x[0, :, :2]), x[0, :, 2:]], dim=1))
    time = torch.rand(1, dtype=torch.float64)
    h = h + weights["placeholder"] + model.lift.time(time)
    assert torch.equal(model.lift(x[0, :, 2:], x[0, :, :2], time=time), h)


def test_from_authors_lists_what_is_missing_and_unknown():
    weights, _, _ = read("lamo_irregular_shared")
    broken = {k: v for k, v in weights.items() if k not in ("placeholder", "blocks.0.ln_2.bias")}
    with pytest.raises(InputError, match=r"missing: blocks.0.ln_2.bias, placeholder; unknown: a, b"):
        LaMO.from_authors(broken | {"a": torch.ones(1), "b": torch.ones(1)})
    with pytest.raises(InputError, match=r"missing: blocks.0.Attn.hydra.init_states"):
        LaMO.from_authors({k: v for k, v in weights.items() if "init_states" not in k})
    with pytest.raises(InputError, match=r"missing: preprocess.linear_pre.0.weight, blocks.0.mlp.linear_pre"):
        LaMO.from_authors({})
    with pytest.raises(InputError, match=r"Expected \[64\] in blocks.0.ln_1.weight \(got \[65\]\)"):
        LaMO.from_authors(weights | {"blocks.0.ln_1.weight": torch.ones(65)})


@pytest.mark.parametrize("shared", [True, False])
def test_blocks_share_the_encoder_and_nothing_else(shared):
    model = LaMO(3, 16, 3, 1, shared=shared, mixer=LatentSSM(16, 4, 8, Hydra(16, 4)))
    one, two, three = (block.mixer for block in model.blocks)
    assert (one.slices is two.slices) == (two.slices is three.slices) == shared
    assert not torch.equal(one.core.lin_in.weight, two.core.lin_in.weight)
    assert not torch.equal(two.lin_out.weight, three.lin_out.weight)
    assert model.mixer is one


def test_errors():
    with pytest.raises(InputError, match="at least one layer"):
        LaMO(3, 16, 0, 1)
