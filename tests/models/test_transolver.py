from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from meshop.data import InputError
from meshop.models import Transolver
from meshop.nn import Lift, ReZero, SliceAttention, TimestepEmbedding, UnifiedPosition

VECTORS = Path(__file__).parent.parent / "conformance"


def count(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("name", "channels", "features", "out", "slices", "grid", "ref", "time", "published"),
    [
        ("Airfoil", 128, 2, 1, 64, 2, None, False, 3_073_985),
        ("Pipe", 128, 2, 1, 64, 2, None, False, 3_073_985),
        ("Plasticity", 128, 3, 4, 64, 2, None, True, 3_107_652),
        ("Darcy", 128, 1, 1, 64, 2, 8, False, 3_090_113),
        ("Navier-Stokes", 256, 10, 1, 32, 2, 8, False, 12_282_945),
        ("Elasticity", 128, 2, 1, 64, None, None, False, 976_833),
    ],
)
def test_published_parameter_counts(name, channels, features, out, slices, grid, ref, time, published):
    lift = Lift(
        features,
        channels,
        position=None if ref is None else UnifiedPosition(2, ref),
        time=TimestepEmbedding(channels) if time else None,
    )
    model = Transolver(features, channels, 8, out, num_slices=slices, ffn_ratio=2, grid_dim=grid, lift=lift)
    assert count(model) == published


@pytest.mark.parametrize(
    "name",
    [
        "transolver_irregular",
        "transolver_irregular_3d_time",
        "transolver_grid2d",
        "transolver_grid2d_unifiedpos",
        "transolver_grid3d",
    ],
)
def test_equals_the_authors_code(name):
    vector = torch.load(VECTORS / f"{name}.pt", weights_only=True)
    args, inputs, expected = vector["args"], vector["inputs"], vector["output"]
    exact = expected.dtype == torch.float64
    position = UnifiedPosition(args["space_dim"], args["ref"]) if args["unified_pos"] else None
    model = Transolver.from_authors(vector["state_dict"], position).to(expected.dtype).eval()
    pos, x = inputs["pos"].to(expected.dtype), inputs["x"].to(expected.dtype)
    time = inputs["t"].to(expected.dtype) if "t" in inputs else None
    if not args["unified_pos"]:
        x = torch.cat([pos, x], dim=-1)
    graphs, nodes = x.shape[:2]
    tolerance = (1e-8 if exact else 1e-3) * expected.std(1).mean()

    def check(out: Tensor) -> None:
        assert (out - expected.flatten(0, 1)).abs().max() <= tolerance

    given = {"shape": tuple(args["shapelist"]) if args["shapelist"] else None}
    batch = torch.arange(graphs).repeat_interleave(nodes)
    check(model(x.flatten(0, 1), pos.flatten(0, 1), batch, time=time, **given))
    single = [model(x[b], pos[b], time=None if time is None else time[b], **given) for b in range(graphs)]
    check(torch.cat(single))
    if not args["shapelist"]:  # a third graph of another size, its nodes mixed with the others'
        extra = 77
        order = torch.randperm(graphs * nodes + extra)
        many = [torch.cat([t.flatten(0, 1), torch.randn(extra, t.size(-1)).to(t)])[order] for t in (x, pos)]
        batch = torch.cat([batch, torch.full((extra,), graphs)])[order]
        time = None if time is None else torch.cat([time, torch.ones(1, 1)])
        out = torch.empty(len(order), expected.size(-1), dtype=expected.dtype)
        out[order] = model(*many, batch, time=time)
        check(out[: graphs * nodes])


def test_names_of_other_weights_are_listed():
    weights = torch.load(VECTORS / "transolver_irregular.pt", weights_only=True)["state_dict"]
    del weights["blocks.1.Attn.to_q.weight"]
    weights["blocks.1.Attn.gate"] = torch.ones(1)
    with pytest.raises(InputError, match=r"missing: blocks.1.Attn.to_q.weight; unknown: blocks.1.Attn.gate"):
        Transolver.from_authors(weights)
    with pytest.raises(InputError, match=r"not those of a Transolver .*missing: preprocess"):
        Transolver.from_authors({"weight": torch.ones(1)})


def test_a_placeholder_that_the_authors_never_add():
    weights = torch.load(VECTORS / "transolver_grid2d.pt", weights_only=True)["state_dict"]
    model = Transolver.from_authors(weights, placeholder=False)
    with torch.no_grad():
        x = torch.randn(20, 3)
        assert torch.equal(model.lift(x), model.lift.mlp(x))


@pytest.mark.parametrize(
    ("update", "published"),  # of the paper's Table 4: replace, residual, none
    [(None, 976_833), (ReZero(SliceAttention(16)), 976_833 + 8), (nn.Identity(), 976_833 - 8 * 3 * 16**2)],
)
def test_what_the_slices_go_through(update, published):
    model = Transolver(2, 128, 8, 1, update=update)
    assert count(model) == published
    updates = [block.mixer.update for block in model.blocks]
    assert len({id(u) for u in updates}) == 8
    assert {type(u) for u in updates} == {SliceAttention if update is None else type(update)}
    if update is not None and published > 976_833:
        first, second = (u.layer.lin_qkv.weight for u in updates[:2])
        assert not torch.equal(first, second)


def test_srpa_starts_as_the_model_without_attention():
    residual = Transolver(2, 16, 2, 1, heads=4, num_slices=8, update=ReZero(SliceAttention(4)))
    none = Transolver(2, 16, 2, 1, heads=4, num_slices=8, update=nn.Identity())
    none.load_state_dict({k: v for k, v in residual.state_dict().items() if ".update." not in k})
    x = torch.randn(30, 2)
    assert torch.equal(residual(x), none(x))
