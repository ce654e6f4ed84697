"""Models compared at equal budgets: every benchmark x model x seed of a suite, each trained for the same minutes."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import itertools
import json
import logging
import math
import os
import platform
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import yaml

import meshop.models  # noqa: F401
from meshop.checkpoint import build, from_config
from meshop.data import InputError, did_you_mean
from meshop.datasets import BENCHMARKS, MeshDataset, suite
from meshop.train import Recipe, Surrogate, evaluate, fit, summarise

log = logging.getLogger("meshop")

WARM_UP, STEPS = 5, 20  # steps that are not timed, and that are

Row = dict[str, str]  # of results.csv or steps.csv


@dataclass(frozen=True)
class Trial:
    """One run of a suite: a model on a benchmark with a seed and a budget.

    Args:
        benchmark: name in :data:`meshop.datasets.BENCHMARKS`.
        model: its name in the suite.
        seed: of weights and order.
        minutes: of training.
        choice: the model's class and arguments, ``class_path`` and ``init_args``.
        recipe: arguments of :class:`~meshop.train.Recipe`, without epochs and seed.
        data_args: arguments of the data set, without its root.
    """

    benchmark: str
    model: str
    seed: int
    minutes: float
    choice: dict[str, Any]
    recipe: dict[str, Any]
    data_args: dict[str, Any]

    @property
    def settings(self) -> str:
        """A digest of what is trained and how, without seed and budget."""
        return hashlib.sha256(json.dumps([self.choice, self.recipe, self.data_args]).encode()).hexdigest()[:8]

    def __str__(self) -> str:
        return f"{self.benchmark} {self.model}"


def read_suite(name: str | Path) -> list[Trial]:
    """All trials of a suite: a YAML file, or the name of one in ``datasets/suites``.

    ``models`` names each model with its ``class_path`` and ``init_args``; ``data`` names each benchmark with its
    ``minutes`` and ``seeds``. A ``recipe`` may stand in the suite, a model and a benchmark, the last of which wins. A
    benchmark may also have ``data_args``, and ``models`` with ``init_args`` of its own.

    Raises:
        InputError: there is no such suite; it has unknown keys, benchmarks or models; it lacks one that is needed.
    """
    path = Path(name) if Path(name).suffix in (".yaml", ".yml") else suite(str(name))
    with path.open() as file:
        content = yaml.safe_load(file)
    whole = _section(content, str(path), ("models", "data"), ("recipe",))
    models = {
        model: _section(choice, f"{path}, model {model}", ("class_path",), ("init_args", "recipe"))
        for model, choice in whole["models"].items()
    }
    trials = []
    for benchmark, given in whole["data"].items():
        where = f"{path}, data {benchmark}"
        own = _section(given, where, ("minutes", "seeds"), ("recipe", "data_args", "models"))
        _known(benchmark, list(BENCHMARKS), "benchmark")
        for model in own.get("models", {}):
            _known(model, list(models), "model")
        for model, choice in models.items():
            other = _section(own.get("models", {}).get(model, {}), f"{where}, model {model}", (), ("init_args",))
            arguments = choice.get("init_args", {}) | other.get("init_args", {})
            whole_choice = {"class_path": choice["class_path"], "init_args": arguments}
            recipe = whole.get("recipe", {}) | choice.get("recipe", {}) | own.get("recipe", {})
            rest = (own["minutes"], whole_choice, recipe, own.get("data_args", {}))
            trials += [Trial(benchmark, model, seed, *rest) for seed in own["seeds"]]
    return trials


def choose(
    trials: Sequence[Trial],
    data: Sequence[str] = (),
    models: Sequence[str] = (),
    seeds: Sequence[int] = (),
    minutes: float | None = None,
) -> list[Trial]:
    """The trials of these benchmarks and models, with these seeds and minutes; nothing given keeps the suite's own.

    Raises:
        InputError: the suite has no benchmark or model of that name.
    """
    for what, names in (("benchmark", data), ("model", models)):
        for name in names:
            _known(name, list(dict.fromkeys(getattr(t, what) for t in trials)), what)
    chosen = [t for t in trials if t.benchmark in (data or [t.benchmark]) and t.model in (models or [t.model])]
    if seeds:
        chosen = [t for t in chosen if t.seed == next(o.seed for o in trials if o.benchmark == t.benchmark)]
        chosen = [dataclasses.replace(t, seed=seed) for t in chosen for seed in seeds]
    return chosen if minutes is None else [dataclasses.replace(t, minutes=minutes) for t in chosen]


def bench(
    trials: Sequence[Trial],
    out: str | Path,
    root: str | Path = "data",
    device: str = "auto",
    only_steps: bool = False,
) -> list[Row]:
    """Run trials that are not done yet, one after the other, each in a process of its own.

    The budget becomes a number of epochs before training: minutes by the seconds of a step, which are measured once a
    benchmark and model and kept in ``out/steps.csv``. So what else the machine does during training changes how long
    it takes, and not what comes out. There is no validation; the test split is evaluated once, after the last epoch.

    ``out/results.csv`` has a row a run and is rewritten after each; a trial with a row of the same settings is done. A
    run that fails leaves a row with its ``error`` and is tried again by the next call. ``out/BENCHMARK/MODEL/SEED``
    has the run, with the error on every test mesh in ``evaluation.csv``.

    Args:
        trials: what to run, from :func:`read_suite` and :func:`choose`.
        out: directory of the results.
        root: directory with that of each benchmark, ``root/NAME``.
        device: see :func:`meshop.train.fit`.
        only_steps: measure the seconds of a step and train nothing.

    Returns:
        The rows of ``results.csv``, of these trials and of others.
    """
    out, root = Path(out), Path(root)
    steps, results = _read(out / "steps.csv"), _read(out / "results.csv")
    if only_steps:
        trials = list({(t.benchmark, t.model): t for t in trials}.values())
        left = [t for t in trials if not any(_same_step(row, t) for row in steps)]
    else:
        left = [t for t in trials if not any(_same_run(row, t) and not row["error"] for row in results)]
    log.info("%d of %d are done", len(trials) - len(left), len(trials))
    for trial in left:
        row = {"benchmark": trial.benchmark, "model": trial.model}
        step = next((row for row in steps if _same_step(row, trial)), None)
        try:
            if step is None:
                step = row | {"settings": trial.settings} | _apart(measure_step, trial, root, device)
                steps = [*(s for s in steps if (s["benchmark"], s["model"]) != (trial.benchmark, trial.model)), step]
                _write(out / "steps.csv", steps)
                log.info("%s: %.1f ms a step", trial, 1e3 * float(step["seconds_a_step"]))
            if only_steps:
                continue
            numbers = _apart(run_trial, trial, float(step["seconds_a_step"]), root, out, device)
            numbers |= {"machine": step["machine"]}  # on which the budget was measured
            errors = ", ".join(f"{k} {v}" for k, v in numbers.items() if k.startswith("relative_l2:"))
            log.info("%s, seed %d: %s after %s s", trial, trial.seed, errors, numbers["seconds"])
        except Exception as error:
            kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
            numbers = {"error": f"{kind}{' '.join(str(error).split())}"}
            log.info("%s, seed %d failed: %s", trial, trial.seed, numbers["error"])
            if only_steps:
                continue
        row |= {"seed": str(trial.seed), "minutes": f"{trial.minutes:g}", "settings": trial.settings, "error": ""}
        results = [*(r for r in results if not _same_run(r, trial)), row | numbers]
        _write(out / "results.csv", results)
    return results


def epochs_within(minutes: float, seconds_a_step: float, steps: int) -> int:
    """Epochs of so many steps that fit into a budget, at least one.

    >>> epochs_within(minutes=2, seconds_a_step=0.012, steps=100)
    100
    """
    return max(1, int(60 * minutes / (seconds_a_step * steps) + 1e-9))


def measure_step(trial: Trial, root: Path, device: str = "auto") -> Row:
    """Train a little and take the median time from one step to the next, all that training does included."""
    data = _open(trial, root)
    size = Recipe(**trial.recipe).batch_size
    train = data.split("train")
    some = train[:: max(1, len(train) // (size * (WARM_UP + STEPS)))]
    epochs = math.ceil((WARM_UP + STEPS) / math.ceil(len(some) / size))
    clock = Clock()
    with tempfile.TemporaryDirectory() as out:
        fit(_surrogate(trial, data, epochs), some, out=out, device=device, callbacks=[clock])
    return {"seconds_a_step": f"{clock.median():.6g}", "date": f"{date.today()}", "machine": _machine(device)}


def run_trial(trial: Trial, seconds_a_step: float, root: Path, out: Path, device: str = "auto") -> Row:
    """Train for the epochs of the budget, evaluate on the test split, and return the numbers of a row."""
    data = _open(trial, root)
    train = data.split("train")
    epochs = epochs_within(trial.minutes, seconds_a_step, math.ceil(len(train) / Recipe(**trial.recipe).batch_size))
    surrogate = _surrogate(trial, data, epochs)
    directory = out / trial.benchmark / trial.model / str(trial.seed)
    shutil.rmtree(directory, ignore_errors=True)
    memory, start = Memory(), time.perf_counter()
    fit(surrogate, train, out=directory, device=device, callbacks=[memory])
    seconds = time.perf_counter() - start
    errors = evaluate(surrogate, data.split("test"), surrogate.recipe.batch_size)
    _write(directory / "evaluation.csv", errors)
    table = summarise(errors)
    row = {f"relative_l2:{field}": f"{numbers['relative_l2']:.6g}" for field, numbers in table.items()}
    row |= {f"mean_predictor:{field}": f"{numbers['mean_predictor']:.6g}" for field, numbers in table.items()}
    return row | {
        "parameters": str(sum(p.numel() for p in surrogate.parameters())),
        "seconds_a_step": f"{seconds_a_step:.6g}",
        "epochs": str(epochs),
        "seconds": f"{seconds:.1f}",
        "training_memory_gb": memory.text(),
        "date": f"{date.today()}",
        "torch": torch.__version__,
    }


class Clock(pl.Callback):
    """The time from the start of one step to that of the next."""

    def __init__(self) -> None:
        self.starts: list[float] = []

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self.starts.append(time.perf_counter())

    def median(self) -> float:
        """The median in seconds, without the first steps."""
        starts = self.starts[WARM_UP:]
        return statistics.median(b - a for a, b in itertools.pairwise(starts))


class Memory(pl.Callback):
    """The memory that training took beyond what the process held before the first step.

    On a GPU it is the peak of what torch allocated there. On other systems than Linux nothing tells it.
    """

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.device = pl_module.device
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        elif Path("/proc/self/clear_refs").exists():
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
            self.before = _resident("VmRSS")

    def text(self) -> str:
        """In GB, or nothing where it is not known."""
        if self.device.type == "cuda":
            return f"{torch.cuda.max_memory_allocated(self.device) / 1e9:.3f}"
        return f"{_resident('VmHWM') - self.before:.3f}" if hasattr(self, "before") else ""


def to_markdown(rows: Sequence[Row], trials: Sequence[Trial], command: str = "meshop bench") -> str:
    """A table a benchmark with the mean and deviation over seeds, the best in bold; under it how it was made.

    Only rows with the settings and the budget of the trials are taken, of any seed.
    """
    parts = []
    for benchmark in dict.fromkeys(t.benchmark for t in trials):
        own = {t.model: t for t in trials if t.benchmark == benchmark}
        found = {model: [r for r in rows if _comparable(r, t)] for model, t in own.items()}
        done = [r for runs in found.values() for r in runs if not r["error"]]
        if done:
            minutes = next(iter(own.values())).minutes
            parts += [f"## {benchmark}", _table(found), f"{_origin(done, minutes)}; `{command}`."]
    return "\n\n".join([*parts, ""]).rstrip("\n") + "\n"


def _table(found: Mapping[str, Sequence[Row]]) -> str:
    """The runs of each model as a table in Markdown."""
    done = {model: [r for r in runs if not r["error"]] for model, runs in found.items()}
    first = next(runs[0] for runs in done.values() if runs)
    fields = [k.partition(":")[2] for k, value in first.items() if k.startswith("relative_l2:") and value]
    best = {f: min(_mean(runs, f"relative_l2:{f}") for runs in done.values() if runs) for f in fields}
    lines = [["model", *fields, "parameters", "ms a step", "epochs", "memory, GB"]]
    lines += [["---"] * len(lines[0])]
    for model, runs in done.items():
        failed = [r["error"] for r in found[model] if r["error"]]
        if not runs:
            cells = [model, f"failed: {failed[0]}" if failed else "not run"]
        else:
            cells = [f"{model} ({len(failed)} more failed)" if failed else model]
            for f in fields:
                text = _spread([float(r[f"relative_l2:{f}"]) for r in runs])
                cells.append(f"**{text}**" if _mean(runs, f"relative_l2:{f}") == best[f] else text)
            cells += [f"{int(runs[0]['parameters']):,}", f"{1e3 * float(runs[0]['seconds_a_step']):.1f}"]
            cells += [runs[0]["epochs"], max((r["training_memory_gb"] for r in runs), key=lambda v: float(v or 0))]
        lines.append(cells + [""] * (len(lines[0]) - len(cells)))
    lines.append(
        ["mean of the training set", *(f"{float(first[f'mean_predictor:{f}']):.4f}" for f in fields), *[""] * 4]
    )
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _origin(done: Sequence[Row], minutes: float) -> str:
    """What the numbers are, when and on what they were made."""
    dates, machines, torches = (sorted({r[k] for r in done}) for k in ("date", "machine", "torch"))
    seeds = sorted({int(r["seed"]) for r in done})
    which = f"mean ± deviation of seeds {', '.join(map(str, seeds))}" if len(seeds) > 1 else f"seed {seeds[0]}"
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    budget = f"{minutes:g} minutes of training a run, {which}"
    return f"Test relative L2; {budget}; {days}; {'; '.join(machines)}; torch {', '.join(torches)}"


def _open(trial: Trial, root: Path) -> MeshDataset:
    return BENCHMARKS[trial.benchmark](root=root / trial.benchmark, **trial.data_args)


def _surrogate(trial: Trial, data: MeshDataset, epochs: int) -> Surrogate:
    torch.manual_seed(trial.seed)
    description = from_config(trial.choice)
    description["args"] |= {"in_channels": data.spec.in_channels, "out_channels": data.spec.out_channels}
    recipe = Recipe(**trial.recipe, epochs=epochs, seed=trial.seed)
    return Surrogate(build(description), data.spec, data.pre_transform, recipe, description)


def _apart(function: Callable[..., Row], *args: Any) -> Row:
    """Call a function in a new process: nothing of one run, its memory least of all, reaches another."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return pool.submit(function, *args).result()
        except BrokenProcessPool:
            raise RuntimeError("the process was killed; perhaps memory ran out") from None


def _section(value: Any, where: str, needed: Sequence[str], allowed: Sequence[str]) -> dict[str, Any]:
    """A mapping of the suite with these keys."""
    if not isinstance(value, dict):
        raise InputError(f"Expected {', '.join([*needed, *allowed])} in {where} (got {value!r})")
    for key in value:
        if key not in (*needed, *allowed):
            hint = did_you_mean(str(key), [*needed, *allowed])
            raise InputError(f"Expected {', '.join([*needed, *allowed])} in {where} (got '{key}'){hint}")
    for key in needed:
        if key not in value:
            raise InputError(f"Expected {key} in {where}")
    return value


def _known(name: str, names: list[str], what: str) -> None:
    if name not in names:
        raise InputError(f"There is no {what} '{name}'{did_you_mean(name, names)}; there are {', '.join(names)}")


def _same_run(row: Row, trial: Trial) -> bool:
    return _comparable(row, trial) and row["seed"] == str(trial.seed)


def _comparable(row: Row, trial: Trial) -> bool:
    return _same_step(row, trial) and row["minutes"] == f"{trial.minutes:g}"


def _same_step(row: Row, trial: Trial) -> bool:
    return (row["benchmark"], row["model"], row["settings"]) == (trial.benchmark, trial.model, trial.settings)


def _read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".csv.part")
    with partial.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(k for row in rows for k in row)))
        writer.writeheader()
        writer.writerows(rows)
    os.replace(partial, path)


def _resident(key: str) -> float:
    """VmRSS, what the process holds of the memory now, or VmHWM, the most it held; in GB."""
    kibibytes = re.search(rf"{key}:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(kibibytes[1]) * 1024 / 1e9 if kibibytes else math.nan


def _machine(device: str) -> str:
    if device != "cpu" and torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    info = Path("/proc/cpuinfo")
    name = re.search(r"model name\s*: (.+)", info.read_text()) if info.exists() else None
    return f"{name[1] if name else platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"


def _mean(rows: Sequence[Row], key: str) -> float:
    return statistics.fmean(float(r[key]) for r in rows)


def _spread(values: Sequence[float]) -> str:
    """Mean and, of several, standard deviation.

    >>> _spread([0.0511, 0.0499]), _spread([0.25])
    ('0.0505 ± 0.0008', '0.2500')
    """
    mean = statistics.fmean(values)
    return f"{mean:.4f} ± {statistics.stdev(values):.4f}" if len(values) > 1 else f"{mean:.4f}"
