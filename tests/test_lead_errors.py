"""Errors of rollouts over the leads: of w' = a w and a model w' = b w all are known, and the two sources add up."""

import math
from itertools import islice

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from meshop.data import Field, FieldSpec, InputError
from meshop.metrics import relative_l2
from meshop.models import CANO
from meshop.rollout import Rollout
from meshop.train import Recipe, Surrogate, by_lead, evaluate, lead_errors


class Powers(nn.Module):
    """The last frame of the history times b, b^2, and so on to the number of frames of a call."""

    def __init__(self, b: float, frames: int = 1) -> None:
        super().__init__()
        self.powers = nn.Parameter(b ** torch.arange(1.0, frames + 1))

    def forward(self, x: Tensor) -> Tensor:
        return x[:, -1:] * self.powers


def made(model: nn.Module, T_out: int = 2, **rollout: object) -> Surrogate:
    chosen = Rollout(**rollout)  # type: ignore[arg-type]
    inputs = (Field("wall", "point"), Field("w_in", "point", chosen.T_in))
    spec = FieldSpec((Field("w_out", "point", T_out),), inputs, dim=2, position=False)
    return Surrogate(model, spec, None, Recipe(), None, chosen)


def growing(a: float, count: int, frames: int, T_in: int = 1, **keys: object) -> Data:
    """A window of w_n = a^n w_0 on some nodes."""
    w = torch.randn(count, 1) * a ** torch.arange(T_in + frames)
    x = torch.cat([torch.zeros(count, 1), w[:, :T_in]], 1)
    return Data(x=x, y=w[:, T_in:], pos=torch.rand(count, 2), num_nodes=count, **keys)


def test_the_sources_of_a_linear_model() -> None:
    """e_n = (b^n - a^n) w_0, of which (b - a) a^(n - 1) w_0 is new and b e_(n - 1) is what the last has become."""
    a, b = 1.5, 2.0
    data = growing(a, 7, 6)
    model = made(Powers(b))  # trained on windows of two frames
    w = data.x[:, 1:]
    for n, (before, injection, propagation) in enumerate(model.stepper.sources(model.call, data), start=1):
        torch.testing.assert_close(before, (b ** (n - 1) - a ** (n - 1)) * w)
        torch.testing.assert_close(injection[:, 0], (b - a) * a ** (n - 1) * w)
        torch.testing.assert_close(propagation[:, 0], b * (b ** (n - 1) - a ** (n - 1)) * w)
    assert n == 6


def test_errors_over_the_leads_of_a_linear_model() -> None:
    a, b = 1.5, 2.0
    rows = lead_errors(made(Powers(b)), [growing(a, count, 6) for count in (7, 1, 4)], batch_size=2)
    assert [(r["name"], r["field"], r["lead"], r["time"]) for r in rows] == [
        (name, "w", lead, lead) for name in "012" for lead in range(1, 7)
    ]
    n = torch.arange(1.0, 7)
    expected = {
        "relative_l2": (b / a) ** n - 1,
        "persistence": 1 - a**-n,
        "injection": torch.full((6,), b / a - 1),
        "propagation": b / a * ((b / a) ** (n - 1) - 1),
        "amplification": torch.tensor([math.nan, b, b, b, b, b]),
    }
    for column, curve in expected.items():
        torch.testing.assert_close(by_lead(rows, column)["w"], curve.expand(3, 6), equal_nan=True)
    torch.testing.assert_close(by_lead(rows, "correlation")["w"], Tensor([[1.0], [0.0], [1.0]]).expand(3, 6))


def test_the_frames_of_a_call_grow_from_the_last_of_its_history() -> None:
    a, b = 0.5, 2.0
    (data,) = [growing(a, 5, 5)]
    rows = lead_errors(made(Powers(b, frames=2), frames=2), [data])
    growth = by_lead(rows, "amplification")["w"][0]
    torch.testing.assert_close(growth, torch.tensor([math.nan, math.nan, b, b * b, b]), equal_nan=True)
    torch.testing.assert_close(by_lead(rows)["w"][0], (b / a) ** torch.arange(1.0, 6) - 1)
    n, m = torch.arange(1.0, 6), torch.tensor([0.0, 0, 2, 2, 4])  # frame of the error, and of the history it comes from
    torch.testing.assert_close(by_lead(rows, "injection")["w"][0], (b / a) ** (n - m) - 1)


def network(frames: int, **rollout: object) -> Surrogate:
    """A network of two fields, a vector and a scalar, that carries three frames to two."""
    chosen = Rollout(T_in=3, frames=frames, **rollout)  # type: ignore[arg-type]
    spec = FieldSpec(
        (Field("v_out", "point", 8), Field("p_out", "point", 4)),
        (Field("p_in", "point", 3), Field("wall", "point"), Field("v_in", "point", 6)),
        dim=2,
    )
    model = CANO(12, 16, 2, out_channels=3 * frames, heads=2, num_clusters=4)
    return Surrogate(model, spec, None, Recipe(), None, chosen).eval()


def windows(frames: int = 5) -> list[Data]:
    return [
        Data(
            x=torch.cat([torch.randn(n, 5), (torch.rand(n, 1) < 0.3).float(), torch.randn(n, 6)], 1),
            y=torch.randn(n, 3 * frames),
            pos=torch.randn(n, 2),
            measure=torch.rand(n),
            name=f"mesh {n}",
            times=torch.tensor([[0.0, 1, 3, 4, 6, 9, 9.5, 11][: 3 + frames]]),
        )
        for n in (40, 3, 17)
    ]


@pytest.mark.parametrize("rollout", [{}, {"increment": True}, {"forced": "wall"}])
def test_the_sources_add_up_to_the_error(rollout: dict[str, object]) -> None:
    """Of a nonlinear model: w^ - w itself, and the injection is the error of calls on windows of true frames."""
    torch.manual_seed(1)
    model, data = network(2, **rollout), windows()[0]
    stepper = model.stepper
    with torch.no_grad():
        truth, history = stepper.truth(data.y), stepper.history(data.x)
        rolled = torch.cat(list(islice(stepper.march(model.call, data, truth), 3)), 1)[:, :5]
        parts = list(stepper.sources(model.call, data))
        error = torch.cat([injection + propagation for _, injection, propagation in parts], 1)
        torch.testing.assert_close(error, rolled - truth)
        known = torch.cat([history, truth], 1)
        for number, (before, injection, propagation) in enumerate(parts):
            torch.testing.assert_close(before, (torch.cat([history[:, -1:], rolled], 1) - known[:, 2:])[:, 2 * number])
            past, frames = data.__copy__(), known[:, 2 * number : 2 * number + 3]
            past.x = torch.cat([data.x[:, :2], frames[..., 2], data.x[:, 5:6], frames[..., :2].flatten(1)], 1)
            count = injection.size(1)
            once = next(stepper.march(model.call, past, truth[:, 2 * number :]))[:, :count]
            torch.testing.assert_close(injection, once - truth[:, 2 * number :][:, :2])
            assert propagation.any() == (number > 0)
    if "forced" in rollout:
        assert not error[data.x[:, 5] != 0].any()


def test_rows_are_the_metrics_of_the_rollout_whatever_the_batch() -> None:
    torch.manual_seed(2)
    model, data = network(2, forced="wall"), windows()
    rows = lead_errors(model, data, batch_size=3)
    alone = lead_errors(model, data, batch_size=1)
    assert [{k: r[k] for k in ("name", "field", "lead")} for r in rows] == [
        {"name": f"mesh {n}", "field": field, "lead": lead}
        for n in (40, 3, 17)
        for field in "vp"
        for lead in range(1, 6)
    ]
    for column in set(rows[0]) - {"name", "field", "lead"}:
        for field in "vp":
            one, other = (by_lead(r, column)[field] for r in (rows, alone))
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6, equal_nan=True)
    assert by_lead(rows, "time")["p"][0].tolist() == [1.0, 3.0, 6.0, 6.5, 8.0]
    for i, mesh in enumerate(data):
        with torch.no_grad():
            truth = model.stepper.truth(mesh.y)
            rolled = torch.cat(list(islice(model.stepper.march(model.call, mesh, truth), 3)), 1)[:, :5]
        held = torch.where(mesh.x[:, 5, None, None] != 0, truth, model.stepper.history(mesh.x)[:, -1:])
        for field, part in (("v", slice(0, 2)), ("p", slice(2, 3))):
            p, y, last = rolled[..., part], truth[..., part], held[..., part]
            torch.testing.assert_close(by_lead(rows)[field][i], relative_l2(p, y, keep=1)[0])
            weighted = relative_l2(p, y, measure=mesh.measure, keep=1)[0]
            torch.testing.assert_close(by_lead(rows, "relative_l2_measure")[field][i], weighted)
            torch.testing.assert_close(by_lead(rows, "persistence")[field][i], relative_l2(last, y, keep=1)[0])
    error, injection, propagation = (by_lead(rows, c)["p"] for c in ("relative_l2", "injection", "propagation"))
    assert (error <= injection + propagation + 1e-6).all()
    assert (error >= (injection - propagation).abs() - 1e-6).all()


def test_persistence_of_increments_is_no_change() -> None:
    model, (mesh, *_) = network(2, increment=True), windows()
    (batch,) = DataLoader([mesh], batch_size=1)
    blocks = list(islice(model.stepper.persistence(batch), 2))
    for block in blocks:
        torch.testing.assert_close(block, model.stepper.history(mesh.x)[:, -1:].expand(-1, 2, -1))


def test_a_rollout_that_blows_up_has_rows_to_the_end() -> None:
    rows = lead_errors(made(Powers(1e20)), [growing(1.0, 5, 4)])
    curve = by_lead(rows)["w"][0]
    assert curve[:1].isfinite().all()
    assert not curve[3:].isfinite().any()


def test_what_cannot_be_rolled_out() -> None:
    spec = FieldSpec((Field("w_out", "point", 2),), (Field("w_in", "point"),), dim=2, position=False)
    with pytest.raises(InputError, match="Expected a model with a rollout"):
        lead_errors(Surrogate(Powers(1.0, 2), spec), [growing(1.0, 5, 2)])
    with pytest.raises(InputError, match=r"targets of a multiple of 3 channels \(got 7\)"):
        network(2).stepper.truth(torch.zeros(4, 7))


def test_windows_may_have_more_frames_than_those_of_training() -> None:
    a, b = 1.5, 2.0
    model, windows = made(Powers(b)), [growing(a, count, 6) for count in (7, 4)]
    model.set_windows(made(Powers(b), T_out=6).spec)
    assert model(windows[0]).shape == (7, 6)
    rows = evaluate(model, windows)
    errors = [(b / a) ** n - 1 for n in range(1, 7)]
    for row in rows:
        whole = math.sqrt(sum((b**n - a**n) ** 2 for n in range(1, 7)) / sum(a ** (2 * n) for n in range(1, 7)))
        assert row["relative_l2"] == pytest.approx(whole, rel=1e-5)
        assert row["frame_mean"] == pytest.approx(sum(errors) / 6, rel=1e-5)
        assert row["last_frame"] == pytest.approx(errors[-1], rel=1e-5)


def test_windows_of_other_fields_are_refused() -> None:
    model = made(Powers(2.0))
    with pytest.raises(InputError, match="trained on windows of"):
        model.set_windows(made(Powers(2.0), T_in=2).spec)
    spec = FieldSpec((Field("w_out", "point"),), (Field("w_in", "point"),), dim=2)
    with pytest.raises(InputError, match="Expected a model with a rollout"):
        Surrogate(Powers(2.0), spec).set_windows(spec)
