"""What a bench leaves behind: a CSV with a row a run, and its tables in Markdown."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from meshop.bench.suite import Trial
from meshop.io.files import whole_file

Row = dict[str, str]  # of results.csv or steps.csv


def read_rows(path: Path) -> list[Row]:
    """The rows of a CSV; none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a CSV with the columns of all rows; the file is whole at any time."""
    with whole_file(path) as part, part.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(k for row in rows for k in row)))
        writer.writeheader()
        writer.writerows(rows)


def same_step(row: Row, trial: Trial) -> bool:
    """Whether a row is of the model and the settings of a trial."""
    return (row["benchmark"], row["model"], row["settings"]) == (trial.benchmark, trial.name, trial.settings)


def comparable(row: Row, trial: Trial) -> bool:
    """Whether a row is of the model, the settings and the budget of a trial, with any seed."""
    return same_step(row, trial) and row["minutes"] == trial.budget


def same_run(row: Row, trial: Trial) -> bool:
    """Whether a row is that of a trial."""
    return comparable(row, trial) and row["seed"] == str(trial.seed)


def by_name(trials: Sequence[Trial], benchmark: str) -> dict[str, Trial]:
    """One trial of each model of a benchmark, and of each value that is varied."""
    return {t.name: t for t in trials if t.benchmark == benchmark}


def fields_of(row: Row) -> list[str]:
    """The fields whose error a row has."""
    return [k.partition(":")[2] for k, value in row.items() if k.startswith("relative_l2:") and value]


def to_markdown(rows: Sequence[Row], trials: Sequence[Trial], command: str = "meshop bench") -> str:
    """A table a benchmark with the mean and deviation over seeds, the best in bold; under it how it was made.

    Only rows with the settings and the budget of the trials are taken, of any seed.
    """
    parts = []
    for benchmark in dict.fromkeys(t.benchmark for t in trials):
        own = by_name(trials, benchmark)
        found = {name: [r for r in rows if comparable(r, t)] for name, t in own.items()}
        done = [r for runs in found.values() for r in runs if not r["error"]]
        if done:
            table = _table(found, {name: t.paper for name, t in own.items() if t.paper})
            budget = next(iter(own.values())).budget
            parts += [f"## {benchmark}", table, f"{_caption(done, budget)}; `{command}`."]
    return "\n\n".join([*parts, ""]).rstrip("\n") + "\n"


def _table(found: Mapping[str, Sequence[Row]], papers: Mapping[str, str]) -> str:
    """The runs of each model as a table in Markdown."""
    done = {model: [r for r in runs if not r["error"]] for model, runs in found.items()}
    first = next(runs[0] for runs in done.values() if runs)
    fields = {f"relative_l2:{f}": f for f in fields_of(first)}
    every = [r for runs in done.values() for r in runs]
    last = [k for k in first if k.startswith("last_frame:") and all(r.get(k) for r in every)]  # of rollouts
    fields |= {key: f"{key.partition(':')[2]}, last frame" for key in last}
    best = {key: min(_mean(runs, key) for runs in done.values() if runs) for key in fields}
    columns = ["parameters", "ms a step", "epochs", "memory, GB", *(["published"] if papers else [])]
    lines = [["model", *fields.values(), *columns]]
    lines += [["---"] * len(lines[0])]
    for model, runs in done.items():
        failed = [r["error"] for r in found[model] if r["error"]]
        if not runs:
            cells = [model, f"failed: {failed[0]}" if failed else "not run"]
        else:
            cells = [f"{model} ({len(failed)} more failed)" if failed else model]
            for key in fields:
                text = _spread([float(r[key]) for r in runs])
                cells.append(f"**{text}**" if _mean(runs, key) == best[key] else text)
            cells += [f"{int(runs[0]['parameters']):,}", f"{1e3 * float(runs[0]['seconds_a_step']):.1f}"]
            cells += [runs[0]["epochs"], max((r["training_memory_gb"] for r in runs), key=lambda v: float(v or 0))]
        cells += [""] * (len(fields) + 5 - len(cells))
        lines.append(cells + ([papers.get(model, "")] if papers else []))
    means = [f"{float(first[f'mean_predictor:{f}']):.4f}" for f in fields_of(first)]
    means += [""] * (len(fields) - len(means))
    lines.append(["mean of the training set", *means, *[""] * len(columns)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _caption(done: Sequence[Row], budget: str) -> str:
    """What the numbers are, of which data, when and on what they were made."""
    dates, machines, torches = (sorted({r[k] for r in done}) for k in ("date", "machine", "torch"))
    seeds = sorted({int(r["seed"]) for r in done})
    which = f"mean ± deviation of seeds {', '.join(map(str, seeds))}" if len(seeds) > 1 else f"seed {seeds[0]}"
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    minutes = f"{budget} minute{'' if budget == '1' else 's'} of training a run"
    time = "all epochs of each recipe" if budget == "full" else minutes
    counts = [sorted({int(r[k]) for r in done if r.get(k)}) for k in ("train_meshes", "test_meshes")]
    texts = [" to ".join(f"{n:,}" for n in dict.fromkeys((c[0], c[-1]))) for c in counts if c]
    meshes = f"{texts[0]} training and {texts[1]} test meshes; " if texts else ""
    origins = " and ".join(sorted({r["origin"] for r in done if r.get("origin")}))
    data = f"{origins}; " if origins else ""
    return f"Test relative L2; {data}{meshes}{time}, {which}; {days}; {'; '.join(machines)}; torch {', '.join(torches)}"


def _mean(rows: Sequence[Row], key: str) -> float:
    return statistics.fmean(float(r[key]) for r in rows)


def _spread(values: Sequence[float]) -> str:
    """Mean and, of several, standard deviation.

    >>> _spread([0.0511, 0.0499]), _spread([0.25])
    ('0.0505 ± 0.0008', '0.2500')
    """
    mean = statistics.fmean(values)
    return f"{mean:.4f} ± {statistics.stdev(values):.4f}" if len(values) > 1 else f"{mean:.4f}"
