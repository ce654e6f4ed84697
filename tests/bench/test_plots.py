import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meshop.bench import Trial, curves, draw, rainclouds
from meshop.bench.results import write_rows


def test_a_raincloud_has_every_error_the_quartiles_and_the_density() -> None:
    rng = np.random.default_rng(0)
    errors = {m: (10 ** rng.normal(c, 0.3, 200)).tolist() for m, c in (("A", -2), ("B", -1))}
    figure = rainclouds({"u": errors, "v": {"A": [0.1, 0.1, math.nan]}}, "title")
    first, second = figure.axes
    assert (first.get_title(), second.get_title(), first.get_yscale()) == ("u", "v", "log")
    assert [label.get_text() for label in first.get_xticklabels()] == ["A", "B"]
    clouds, drops = first.collections[::2], first.collections[1::2]
    for place, (cloud, points, values) in enumerate(zip(clouds, drops, errors.values(), strict=True)):
        assert points.get_offsets()[:, 1].tolist() == pytest.approx(values)
        assert ((points.get_offsets()[:, 0] > place - 0.5) & (points.get_offsets()[:, 0] < place)).all()
        outline = cloud.get_paths()[0].vertices
        assert place < outline[:, 0].min() < outline[:, 0].max() < place + 0.5
        peak = outline[outline[:, 0].argmax(), 1]
        assert np.log10(peak) == pytest.approx([-2, -1][place], abs=0.15)
    levels = [line.get_ydata()[0] for line in first.lines if len(set(line.get_ydata())) == 1]
    for values in errors.values():
        assert min(abs(level / np.median(values) - 1) for level in levels) < 1e-9
    assert len(second.collections) == 1  # equal errors have no density
    assert len(second.collections[0].get_offsets()) == 2


def test_a_curve_is_the_mean_over_seeds_with_the_range() -> None:
    figure = curves({"u": {"A": {32: [0.1, 0.3], 8: [0.4]}, "B": {8: [0.5]}}}, "num_clusters")
    (axes,) = figure.axes
    line, low, high = axes.containers[0]
    assert line.get_xdata().tolist() == [8, 32]
    assert line.get_ydata() == pytest.approx([0.4, 0.2])
    assert [segment[:, 1].tolist() for segment in high[0].get_segments()][1] == pytest.approx([0.1, 0.3])
    assert len(low) == 2
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_xlabel()) == ("log", "log", "num_clusters")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["8", "32"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["A", "B"]


def test_pictures_of_the_rows_that_are_done(tmp_path: Path) -> None:
    def trial(benchmark: str, model: str, **other: Any) -> Trial:
        return Trial(benchmark, model, 0, 2, {"class_path": model}, {}, {}, **other)

    trials = [trial("a", "A"), trial("a", "B"), trial("c", "C")]
    trials += [trial("b", "A", sweep="samples", samples=n, value=n) for n in (10, 20)]
    rows = []
    for t in trials:
        about = {"benchmark": t.benchmark, "model": t.name, "seed": "0", "minutes": "2", "settings": t.settings}
        rows.append(about | {"error": "no" if t.model == "C" else "", "relative_l2:u": "0.1"})
        meshes = [{"name": str(i), "field": "u", "relative_l2": 0.1 + i} for i in range(3)]
        if t.model != "B":  # a run whose directory is gone
            write_rows(tmp_path / t.benchmark / t.name / "0" / "evaluation.csv", meshes)
    assert draw(rows, trials, tmp_path) == [tmp_path / "a.png", tmp_path / "b_samples.png"]
    for name in ("a.png", "b_samples.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert draw([], trials, tmp_path) == []


def test_errors_over_the_lead_of_rollouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = [
        Trial("a", model, seed, 2, {"class_path": model}, {}, {}, sweep="viscosity", value=value)
        for model in ("A", "B")
        for seed in (0, 1)
        for value in (1e-3, 1e-2)
    ]
    rows = []
    for number, t in enumerate(trials):
        about = {"benchmark": "a", "model": t.name, "seed": str(t.seed), "minutes": "2", "settings": t.settings}
        rows.append(about | {"error": "", "relative_l2:u": "0.1"})
        leads = [
            {"field": "u", "lead": n, "time": n / 4, "relative_l2": number + n, "persistence": 10 * n}
            for _ in range(3)
            for n in (1, 2)
        ]
        write_rows(tmp_path / "a" / t.name / str(t.seed) / "leads.csv", leads)
    drawn = {}
    monkeypatch.setattr(
        "meshop.bench.plots.lead_curves", lambda over, times, path, **_: drawn.update({path: (over, times)})
    )
    written = draw(rows, trials, tmp_path)
    assert written == [tmp_path / "a_viscosity.png", *(tmp_path / f"a_viscosity={v}_u.png" for v in (0.001, 0.01))]
    over, times = drawn[written[1]]
    assert times.tolist() == [0.25, 0.5]
    assert {name: curve.tolist() for name, curve in over.items()} == {
        "persistence": [[10, 20]] * 3,
        "A": [[1, 2]] * 3 + [[3, 4]] * 3,
        "B": [[5, 6]] * 3 + [[7, 8]] * 3,
    }
