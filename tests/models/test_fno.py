from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import pad

from meshop.models import FNO

VECTORS = Path(__file__).parent.parent / "conformance"


class Given(nn.Module):
    """In the place of a lift that has been done."""

    def forward(self, x, *_):
        return x


@pytest.mark.parametrize("name", ["fno_grid2d", "fno_grid3d"])
def test_equals_the_authors_code(name):
    """Neural-Solver-Library's FNO, which pads grids to multiples of 16 after the lift; its numbers are float32."""
    vector = torch.load(VECTORS / f"{name}.pt", weights_only=True)
    theirs, args, expected = vector["state_dict"], vector["args"], vector["output"]
    channels, dim, shape = args["n_hidden"], args["space_dim"], args["shapelist"]
    model = FNO(dim + args["fun_dim"], channels, 4, args["out_dim"], [args["modes"]] * dim)
    ours = {"lift.placeholder": torch.zeros(channels)}  # theirs has none
    for kind in ("weight", "bias"):
        ours[f"lift.mlp.lin1.{kind}"] = theirs[f"preprocess.linear_pre.0.{kind}"]
        ours[f"lift.mlp.lin2.{kind}"] = theirs[f"preprocess.linear_post.{kind}"]
        ours[f"head.lin1.{kind}"], ours[f"head.lin2.{kind}"] = theirs[f"fc1.{kind}"], theirs[f"fc2.{kind}"]
        for i in range(4):
            ours[f"layers.{i}.lin.{kind}"] = (
                theirs[f"w{i}.{kind}"].flatten(1) if kind == "weight" else theirs[f"w{i}.bias"]
            )
    for i in range(4):
        blocks = torch.stack([theirs[f"conv{i}.weights{k}"] for k in range(1, 1 + 2 ** (dim - 1))])
        ours[f"layers.{i}.resample.operator.weight"] = torch.view_as_real(blocks)
    model.load_state_dict(ours)
    x = torch.cat([vector["inputs"]["pos"], vector["inputs"]["x"]], dim=-1)
    graphs = len(x)
    extra = [(0, -n % 16) for n in reversed(shape)]
    h = pad(model.lift(x.flatten(0, 1)).view(graphs, *shape, channels), (0, 0, *sum(extra, ())))
    batch = torch.arange(graphs).repeat_interleave(h[0, ..., 0].numel())
    model.lift = Given()
    out = model(h.flatten(0, -2), batch=batch, shape=h.shape[1:-1]).view(*h.shape[:-1], -1)
    out = out[(slice(None), *map(slice, shape))].reshape(expected.shape)
    assert (out - expected).abs().max() <= 1e-3 * expected.std(1).mean()


def test_a_fine_mesh_gives_what_the_grid_gives():
    """On a latent grid, from nodes dense enough, FNO is FNO on the grid of the same points."""
    torch.manual_seed(0)
    model = FNO(2, 8, 2, 1, modes=(3, 3), size=(24, 24)).double()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter) / parameter.shape[0] ** 0.5
    axis = torch.linspace(0, 1, 24, dtype=torch.float64)

    def field(pos):
        return torch.stack([(3 * pos[:, 0]).sin() * pos[:, 1], (2 * pos).sum(1).cos()], 1)

    grid = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1).flatten(0, 1)
    expected = model(field(grid), shape=(24, 24))
    assert torch.allclose(model(field(grid), grid), expected, atol=1e-9)  # its own points: resampling is the identity
    mesh = torch.cat([grid, torch.rand(20000, 2, dtype=torch.float64)])
    out = model(field(mesh), mesh)[: len(grid)]
    assert (out - expected).norm() / (expected - expected.mean()).norm() < 0.05


def test_name():
    assert str(FNO(3, 8, 4, 1, [12, 12])) == ("FNO(3, 8, num_layers=4, out_channels=1, modes=(12, 12), size=None)")
