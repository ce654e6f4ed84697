"""Every benchmark in time runs through: files in the published layout, windows, the recipe's rollout, training, errors.

Files are those of the tests of the readers; data arguments and rollouts are read from the recipes, models are tiny.
"""

import json
import re
from importlib.util import find_spec

import numpy as np
import pytest
import test_factformer
import test_navier_stokes
import test_physgto
import test_plasticity
import test_realm
import test_realpdebench
import torch
import yaml
from torch import nn
from torch_geometric.loader import DataLoader

from meshop.datasets import BENCHMARKS, ICPPlasma, card
from meshop.metrics import fourier_rmse, grouped_mse, mse, relative_l2
from meshop.rollout import Rollout, out_channels, rollout_on
from meshop.train import Recipe, Surrogate, by_lead, evaluate, lead_errors


def write_navier_stokes(root):
    rng = np.random.default_rng(0)
    test_navier_stokes.write(root, rng.normal(size=(3, 4, 4, 20)).astype(np.float32))


def write_plates(columns):
    """Windows of RealPDEBench: 40 frames a trajectory, room for one window of 20 + 20."""

    def write(root, monkeypatch):
        monkeypatch.setattr(test_realpdebench, "SHAPE", (40, 3, 4))
        test_realpdebench.write_arrow(root, "real", columns)
        test_realpdebench.write_index(root, train=[(0, 0), (1, 0)], val=[(1, 0)], test=[(2, 0)])

    return write


# how the files are written; arguments of the long test; frames of training and of the test, and calls of each
CASES = {
    "navier_stokes/cano": (write_navier_stokes, {}, (10, 10), (10, 10)),
    "heat_flow/cano": (lambda root: test_physgto.write(root, frames=90), {"T_out": 50}, (5, 5), (50, 50)),
    "icp_plasma/cano": (lambda root: test_physgto.write(root, ICPPlasma, 60), {"T_out": 50}, (5, 5), (50, 50)),
    "kf2d/transolver_sigma": (
        lambda root: test_factformer.write_kf2d(root, (3, 56, 4, 4)),
        {"T_out": 16},
        (12, 3),
        (16, 4),
    ),
    "it3d/transolver_sigma": (test_factformer.write_it3d, {"T_out": 10}, (4, 2), (10, 5)),
    "smoke3d/transolver_sigma": (test_factformer.write_smoke, {"T_out": 16}, (8, 2), (16, 4)),
    "controlled_cylinder/transolver_sigma": (write_plates(("u", "v")), {"T_out": 30}, (10, 1), (30, 3)),
    "foil/transolver_sigma": (write_plates(("u", "v")), {}, (20, 1), (20, 1)),
    "fsi/transolver_sigma": (write_plates(("u", "v")), {}, (20, 1), (20, 1)),
    "combustion/transolver_sigma": (write_plates(("observed",)), {}, (20, 1), (20, 1)),
    "ignit_hit/transolver_sigma": (test_realm.write, {"T_out": 4, "test_starts": [0]}, (2, 2), (4, 4)),
    "evolve_jet/transolver_sigma": (test_realm.write, {"T_out": 4, "test_starts": [0]}, (2, 2), (4, 4)),
}
EPOCHS = 10
STEPS = {"heat_flow": 0.02, "icp_plasma": 0.02, "kf2d": 1 / 16, "smoke3d": 0.75, "ignit_hit": 1e-5, "evolve_jet": 5e-6,
         "controlled_cylinder": 2.5e-3, "foil": 2.5e-3, "fsi": 2e-3, "combustion": 2.5e-4}  # fmt: skip


class Counted(nn.Linear):
    """A linear map of the inputs of each node that counts its calls."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)

    def count(self):
        """The calls since it was last asked."""
        calls, self.calls = self.calls, 0
        return calls


def read(recipe):
    """The data arguments and the rollout of a recipe."""
    name, _, model = recipe.partition("/")
    content = yaml.safe_load((card(name) / f"{model}.yaml").read_text())
    return name, content.get("data_args", {}), content["rollout"]


def made(data, given):
    """A surrogate with the linear model, on a data set."""
    rollout = rollout_on(data, given)
    model = Counted(data.spec.in_channels, out_channels(data.spec, rollout))
    surrogate = Surrogate(model, data.spec, data.pre_transform, Recipe(epochs=EPOCHS), None, rollout)
    surrogate.log = lambda *args, **kwargs: None  # there is no trainer
    surrogate.fit_normalizers(data.split("train"))
    return surrogate


def trained(surrogate, data, monkeypatch):
    """Take a step in the first epoch and one in the last; return the calls of each."""
    optimizer = torch.optim.Adam(surrogate.parameters(), 1e-3)
    batch = next(iter(DataLoader(data.split("train"), batch_size=2)))
    calls = []
    for epoch in (0, EPOCHS - 1):
        monkeypatch.setattr(Surrogate, "current_epoch", property(lambda self, epoch=epoch: epoch))
        surrogate.train()
        optimizer.zero_grad()
        loss = surrogate.training_step(batch, 0)
        loss.backward()
        assert float(surrogate.model.weight.grad.norm()) > 0
        optimizer.step()
        calls.append(surrogate.model.count())
    return calls


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """A function that writes the files of a case and opens its data set with arguments."""
    written = set()

    def open_case(recipe, args):
        if recipe not in written:
            write = CASES[recipe][0]
            write(tmp_path, monkeypatch) if write.__qualname__.startswith("write_plates") else write(tmp_path)
            written.add(recipe)
        return BENCHMARKS[recipe.partition("/")[0]](tmp_path, **args)

    return open_case


@pytest.mark.parametrize("recipe", CASES)
def test_a_recipe_trains_and_rolls_out(recipe, opened, monkeypatch):
    _, longer, (frames, calls), (test_frames, test_calls) = CASES[recipe]
    name, args, given = read(recipe)
    data = opened(recipe, args)
    surrogate = made(data, given)
    assert surrogate.stepper.T_out == frames
    first = 1 if given.get("grow") else calls
    assert trained(surrogate, data, monkeypatch) == [first, calls]
    fields = [field.name for field in data.spec.targets]
    assert {row["field"] for row in evaluate(surrogate, data.split("test"))} == set(fields)
    assert surrogate.model.count() == calls * -(-len(data.split("test")) // 4)

    test = opened(recipe, args | longer).split("test")[:1]
    rows = lead_errors(surrogate, test)
    assert surrogate.model.count() == 2 * test_calls - 1  # from predictions, and from the truth but for the first
    error, once = by_lead(rows), given["frames"]
    assert list(error) == [field.removesuffix("_out") for field in fields]
    times = STEPS.get(name, 1) * torch.arange(1.0, test_frames + 1)
    for field, curve in error.items():
        assert curve.shape == (1, test_frames)
        assert bool(curve.isfinite().all())
        torch.testing.assert_close(by_lead(rows, "time")[field][0], times, rtol=1e-4, atol=0.0)
        torch.testing.assert_close(curve[:, :once], by_lead(rows, "injection")[field][:, :once])
        later = by_lead(rows, "propagation")[field]
        assert not later[:, :once].any()
        assert bool((later[:, once:] > 0).all())


@pytest.mark.parametrize("recipe", ["heat_flow/cano", "icp_plasma/cano"])
def test_boundaries_of_physgto_are_forced_at_each_of_fifty_steps(recipe, opened):
    _, args, given = read(recipe)
    surrogate = made(opened(recipe, args), given)
    [window] = opened(recipe, args | {"T_out": 50}).split("test")
    forced = window.point_data["boundary"] != 0
    assert forced.tolist() == [False, *[True] * 6]
    truth = surrogate.stepper.truth(window.y)
    for lead, fields in enumerate(surrogate.rollout(window, 50)):
        frame = torch.stack(list(fields.values()), 1)
        assert torch.equal(frame[forced], truth[forced, lead])
        assert not torch.isclose(frame[~forced], truth[~forced, lead]).any()


def test_windows_of_physgto_are_drawn_anew(opened):
    data = opened("heat_flow/cano", read("heat_flow/cano")[1])
    names = {mesh.name for _ in range(20) for mesh in data.split("train")}
    assert len(names) > 20
    assert [mesh.name for mesh in data.split("test")] == ["case_2_0025"]


def test_navier_stokes_from_random_windows_of_five_frames_to_fifteen(opened, monkeypatch):
    """CANO's long rollouts, by the arguments that its recipe names."""
    _, args, given = read("navier_stokes/cano")
    args = args | {"T_in": 5, "T_out": 5, "starts": list(range(11))}
    data = opened("navier_stokes/cano", args)
    surrogate = made(data, given | {"teacher": False})
    assert len(data.split("train")) == 11 * 2
    assert trained(surrogate, data, monkeypatch) == [5, 5]
    test = opened("navier_stokes/cano", args | {"T_out": 15, "starts": [0]}).split("test")
    error = by_lead(lead_errors(surrogate, test))["vorticity"]
    assert error.shape == (1, 15)
    assert surrogate.model.count() == 29


def test_the_scores_of_the_papers_are_those_of_a_rollout(opened):
    """REALM: standardised, summed over the groups. RealPDEBench: in units. PhysGTO: a mean over all that is single."""
    recipe = "ignit_hit/transolver_sigma"
    _, args, given = read(recipe)
    surrogate = made(opened(recipe, args), given)
    [window] = opened(recipe, args | {"T_out": 4, "test_starts": [0]}).split("test")
    frames = list(surrogate.rollout(window, 4))
    assert list(frames[0]) == ["species", "T", "rho", "velocity"]
    stepper, std = surrogate.stepper, surrogate.y_norm.std
    pred = torch.stack([torch.cat([f.view(len(f), -1) for f in frame.values()], 1) for frame in frames], 1)
    truth = stepper.truth(window.y)
    score = grouped_mse(pred / std, truth / std, stepper.components)
    parts = [((pred[..., c] - truth[..., c]) / std[c]).square().mean() for c in ([0, 1], [2], [3], [4, 5])]
    assert score.item() == pytest.approx(float(sum(parts)), rel=1e-5)
    assert score.item() > 0

    assert mse(pred, truth).mean().sqrt().item() == pytest.approx(float((pred - truth).square().mean().sqrt()))
    assert fourier_rmse(pred, truth, window.shape).mean((1, 2)).shape == (1,)
    single = [(pred[:, t, c] - truth[:, t, c]).norm() / truth[:, t, c].norm() for t in range(4) for c in range(6)]
    assert relative_l2(pred, truth, keep=(1, 2)).mean().item() == pytest.approx(float(sum(single) / 24), rel=1e-5)


def test_plasticity_predicts_any_time_in_one_call(tmp_path, monkeypatch):
    """Conditioned on the time, without recursion: from the same die the states differ by the time alone."""

    class Timed(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x, time, batch):
            return self.linear(torch.cat([x, time[batch, None]], 1))

    test_plasticity.write(tmp_path, rows=3)
    data = BENCHMARKS["plasticity"](tmp_path)
    surrogate = Surrogate(Timed(), data.spec, data.pre_transform, Recipe(epochs=EPOCHS))
    surrogate.fit_normalizers(data.split("train"))
    surrogate.log = lambda *args, **kwargs: None
    batch = next(iter(DataLoader(data.split("train")[[2, 0, 3, 1]], batch_size=4)))
    assert batch.time.tolist() == pytest.approx([2 / 3, 0, 1, 1 / 3])
    surrogate.training_step(batch, 0).backward()
    assert float(surrogate.model.linear.weight.grad[:, 3].abs().sum()) > 0
    rows = evaluate(surrogate, data.split("test"))
    assert len(rows) == len(data.split("test")) == 4
    prediction = surrogate(batch).view(4, -1)
    slope = surrogate.model.linear.weight[:, 3] * surrogate.y_norm.std
    difference = (prediction[2] - prediction[1]).view(-1, 4)
    torch.testing.assert_close(difference, slope.expand_as(difference), rtol=1e-3, atol=1e-3)


@pytest.mark.skipif(find_spec("smithers") is None, reason="needs the package smithers (meshop[data])")
def test_unsteady_heat_rolls_out_on_other_windows_than_it_was_trained_on(tmp_path, monkeypatch):
    kind = BENCHMARKS["unsteady_heat"]
    data = kind(tmp_path, T_in=2, T_out=6, starts=(0, 50))
    surrogate = made(data, {"frames": 2, "increment": True, "gradient": 2})
    assert trained(surrogate, data, monkeypatch) == [3, 3]
    rows = lead_errors(surrogate, kind(tmp_path, T_in=2, T_out=20).split("test")[:2])
    assert by_lead(rows)["u"].shape == (2, 20)
    assert surrogate.model.count() == 19


@pytest.mark.parametrize("recipe", CASES)
def test_the_long_test_is_the_command_of_the_recipe(recipe):
    """The frames of the command that a recipe names are published; only small files are shorter."""
    name, _, model = recipe.partition("/")
    commands = re.findall(r"^# meshop evaluate runs/(\w+)/\S+ --data_args '(.+)'$",
                          (card(name) / f"{model}.yaml").read_text(), re.MULTILINE)  # fmt: skip
    [(run, args)] = commands
    assert run == name
    published = {
        "navier_stokes": 15, "heat_flow": 50, "icp_plasma": 50, "kf2d": 16, "it3d": 10, "smoke3d": 16,
        "ignit_hit": 29, "evolve_jet": 39, "controlled_cylinder": 40,
    }  # fmt: skip
    assert json.loads(args)["T_out"] == published.get(name, 80)
    assert json.loads(args)["T_out"] % Rollout(**read(recipe)[2]).frames == 0
