from pathlib import Path

import pytest
import torch
from torch import Tensor

from meshop.models import Transolver
from meshop.nn import Lift, TimestepEmbedding, UnifiedPosition

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


def from_authors(vector: dict) -> Transolver:
    """Build the model of a conformance vector and give it the authors' weights."""
    args, theirs = vector["args"], vector["state_dict"]
    channels = args["n_hidden"]
    features = args["fun_dim"] + (0 if args["unified_pos"] else args["space_dim"])
    lift = Lift(
        features,
        channels,
        position=UnifiedPosition(args["space_dim"], args["ref"]) if args["unified_pos"] else None,
        time=TimestepEmbedding(channels) if args["time_input"] else None,
    )
    model = Transolver(
        features,
        channels,
        args["n_layers"],
        args["out_dim"],
        heads=args["n_heads"],
        num_slices=args["slice_num"],
        ffn_ratio=args["mlp_ratio"],
        grid_dim=len(args["shapelist"]) if args["shapelist"] else None,
        lift=lift,
    )
    ours: dict[str, Tensor] = {"lift.placeholder": theirs["placeholder"]}

    def copy(name: str, *their_names: str) -> None:
        for kind in ("weight", "bias"):
            if f"{their_names[0]}.{kind}" in theirs:
                ours[f"{name}.{kind}"] = torch.cat([theirs[f"{n}.{kind}"] for n in their_names])

    copy("lift.mlp.lin1", "preprocess.linear_pre.0")
    copy("lift.mlp.lin2", "preprocess.linear_post")
    copy("lift.time.lin1", "time_fc.0")
    copy("lift.time.lin2", "time_fc.2")
    for i in range(args["n_layers"]):
        block, attn = f"blocks.{i}", f"blocks.{i}.Attn"
        ours[f"{block}.mixer.temperature"] = theirs[f"{attn}.temperature"].flatten()
        conv = ".conv" if args["shapelist"] else ""
        copy(f"{block}.mixer.lin_in{conv}", f"{attn}.in_project_x", f"{attn}.in_project_fx")
        copy(f"{block}.mixer.lin_slice", f"{attn}.in_project_slice")
        copy(f"{block}.mixer.lin_qkv", f"{attn}.to_q", f"{attn}.to_k", f"{attn}.to_v")
        copy(f"{block}.mixer.lin_out", f"{attn}.to_out.0")
        copy(f"{block}.norm1", f"{block}.ln_1")
        copy(f"{block}.norm2", f"{block}.ln_2")
        copy(f"{block}.ffn.lin1", f"{block}.mlp.linear_pre.0")
        copy(f"{block}.ffn.lin2", f"{block}.mlp.linear_post")
    copy("norm", f"blocks.{args['n_layers'] - 1}.ln_3")
    copy("head", f"blocks.{args['n_layers'] - 1}.mlp2")
    assert len(torch.cat([p.flatten() for p in ours.values()])) == sum(p.numel() for p in theirs.values())
    model.load_state_dict(ours)
    return model.eval()


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
    model = from_authors(vector).to(expected.dtype)
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
