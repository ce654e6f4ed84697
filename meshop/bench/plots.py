"""Pictures of a bench: how errors spread over the test meshes, and how they fall with what is varied."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from meshop.bench.results import Row, by_name, comparable, fields_of, read_rows
from meshop.bench.suite import Trial
from meshop.render import lead_curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Clouds = dict[str, dict[str, list[float]]]  # errors of all test meshes: field, model
Curves = dict[str, dict[str, dict[float, list[float]]]]  # errors of all seeds: field, model, value
Leads = dict[tuple[str, str], tuple[np.ndarray, dict[str, list[np.ndarray]]]]  # times and errors: case and field, model


def draw(rows: Sequence[Row], trials: Sequence[Trial], out: str | Path) -> list[Path]:
    """Write :func:`rainclouds` as ``out/BENCHMARK.png`` and, of a sweep, :func:`curves` as ``BENCHMARK_ARGUMENT.png``.

    Of rollouts there is :func:`~meshop.render.lead_curves` as ``BENCHMARK_FIELD.png``, and for each value of a sweep as
    ``BENCHMARK_ARGUMENT=VALUE_FIELD.png``.

    Rows are taken as by :func:`to_markdown`; the errors on test meshes are those in ``evaluation.csv`` of their runs,
    those of frames in ``leads.csv``.

    Returns:
        The files that were written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figures: dict[str, Figure] = {}
    written: list[Path] = []
    for benchmark in dict.fromkeys(t.benchmark for t in trials):
        clouds: Clouds = {}
        swept: dict[str, Curves] = {}
        leads: Leads = {}
        for name, trial in by_name(trials, benchmark).items():
            for row in rows:
                if not comparable(row, trial) or row["error"]:
                    continue
                for field in fields_of(row) if trial.sweep else ():
                    models = swept.setdefault(trial.sweep, {}).setdefault(field, {})
                    errors = models.setdefault(trial.model, {}).setdefault(trial.value, [])
                    errors.append(float(row[f"relative_l2:{field}"]))
                run = Path(out) / benchmark / name / row["seed"]
                _add_leads(leads, trial, read_rows(run / "leads.csv"))
                for mesh in [] if trial.sweep else read_rows(run / "evaluation.csv"):
                    clouds.setdefault(mesh["field"], {}).setdefault(name, []).append(float(mesh["relative_l2"]))
        figures |= {benchmark: rainclouds(clouds, benchmark)} if clouds else {}
        figures |= {f"{benchmark}_{sweep}": curves(varied, sweep, benchmark) for sweep, varied in swept.items()}
        for (case, field), (times, found) in leads.items():
            written.append(Path(out) / f"{benchmark}{case}_{field}.png")
            over = {model: np.concatenate(runs) for model, runs in found.items()}
            lead_curves(over, times, written[-1], title=benchmark + case)
    for name, figure in figures.items():
        FigureCanvasAgg(figure).print_png(Path(out) / f"{name}.png")
    return [*(Path(out) / f"{name}.png" for name in figures), *written]


def _add_leads(leads: Leads, trial: Trial, rows: Sequence[Row]) -> None:
    """Add the errors of a run, [windows, T] a field, and those of persistence where there are none yet."""
    case = f"_{trial.sweep}={trial.value:g}" if trial.sweep else ""
    for field in dict.fromkeys(row["field"] for row in rows):
        own = [row for row in rows if row["field"] == field]
        count = max(int(row["lead"]) for row in own)
        columns = {
            k: np.array([float(r[k]) for r in own]).reshape(-1, count) for k in ("time", "relative_l2", "persistence")
        }
        _, errors = leads.setdefault((case, field), (columns["time"][0], {"persistence": [columns["persistence"]]}))
        errors.setdefault(trial.model, []).append(columns["relative_l2"])


def rainclouds(errors: Clouds, title: str = "") -> Figure:
    """How the errors of each model spread over the test meshes, a panel a field: density, quartiles and all points.

    Args:
        errors: of every test mesh and seed, by field and model.
        title: what stands above.
    """
    widest = max(len(models) for models in errors.values())
    figure, panels = _panels(list(errors), 1.5 + 0.9 * widest, title)
    for axes, models in zip(panels, errors.values(), strict=True):
        for place, values in enumerate(models.values()):
            _cloud(axes, place, np.array([v for v in values if 0 < v < math.inf]))
        axes.set_yscale("log")
        axes.set_xticks(range(len(models)), list(models), rotation=45, ha="right", rotation_mode="anchor")
        axes.grid(axis="y", which="both", alpha=0.3)
    return figure


def curves(errors: Curves, argument: str, title: str = "") -> Figure:
    """The error over what is varied, log-log, a panel a field: mean over seeds, with bars to the least and greatest.

    Args:
        errors: of every seed, by field, model and value of the argument.
        argument: what is varied.
        title: what stands above.
    """
    figure, panels = _panels(list(errors), 4.5, title)
    for axes, models in zip(panels, errors.values(), strict=True):
        for model, runs in models.items():
            values = sorted(runs)
            means = [statistics.fmean(runs[v]) for v in values]
            below = [mean - min(runs[v]) for v, mean in zip(values, means, strict=True)]
            above = [max(runs[v]) - mean for v, mean in zip(values, means, strict=True)]
            axes.errorbar(values, means, yerr=np.clip([below, above], 0, None), marker="o", capsize=3, label=model)
        axes.set(xscale="log", yscale="log", xlabel=argument)
        ticks = sorted({value for runs in models.values() for value in runs})
        axes.set_xticks(ticks, [f"{value:g}" for value in ticks])
        axes.set_xticks([], minor=True)
        axes.grid(which="both", alpha=0.3)
        axes.legend()
    return figure


def _cloud(axes: Axes, place: int, errors: np.ndarray) -> None:
    """Half a violin to the right of a box, points to its left."""
    from scipy.stats import gaussian_kde

    colour, logs = f"C{place % 10}", np.log10(errors)
    if len(errors) > 1 and np.ptp(logs) > 0:
        heights = np.linspace(logs.min() - 0.2 * np.ptp(logs), logs.max() + 0.2 * np.ptp(logs), 200)
        density = gaussian_kde(logs)(heights)
        axes.fill_betweenx(10**heights, place + 0.1, place + 0.1 + 0.35 * density / density.max(), color=colour, lw=0)
    shift = 0.1 + 0.25 * np.random.default_rng(0).random(len(errors))
    axes.scatter(place - shift, errors, s=4, color=colour, alpha=0.6, lw=0)
    axes.boxplot([errors], positions=[place], widths=0.1, showfliers=False, manage_ticks=False)


def _panels(fields: Sequence[str], width: float, title: str) -> tuple[Figure, Sequence[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure((width * len(fields), 4), layout="constrained")
    figure.suptitle(title)
    panels = list(figure.subplots(1, len(fields), squeeze=False)[0])
    for axes, field in zip(panels, fields, strict=True):
        axes.set(title=field, ylabel="relative L2")
    return figure, panels
