"""Run what a suite names: every trial in a process of its own, one after the other, side by side, or on Ray."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import logging
import math
import platform
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import pytorch_lightning as pl
import torch
import yaml

import meshop.models  # noqa: F401
from meshop.bench.results import Row, read_rows, same_run, same_step, write_rows
from meshop.bench.suite import Trial
from meshop.checkpoint import build, from_config
from meshop.data import InputError
from meshop.datasets import BENCHMARKS
from meshop.io.files import alone, whole_file
from meshop.rollout import out_channels, rollout_on
from meshop.train import Recipe, Surrogate, evaluate, fit, lead_errors, summarise

log = logging.getLogger("meshop")

WARM_UP, STEPS = 5, 20  # steps that are not timed, and that are


def bench(
    trials: Sequence[Trial],
    out: str | Path,
    root: str | Path = "data",
    device: str = "auto",
    only_steps: bool = False,
    workers: int | Literal["ray"] = 1,
) -> list[Row]:
    """Run trials that are not done yet, each in a process of its own.

    The budget becomes a number of epochs before training: minutes by the seconds of a step, which are measured once a
    benchmark and model, one after the other before anything is trained, and kept in ``out/steps.csv``. So what else the
    machine does during training changes how long it takes, and not what comes out. There is no validation; the test
    split is evaluated once, after the last epoch.

    ``out/results.csv`` has a row a run and is rewritten after each; a trial with a row of the same settings is done. A
    run that fails leaves a row with its ``error`` and is tried again by the next call. ``out/BENCHMARK/MODEL/SEED``
    has the run, with the error on every test mesh in ``evaluation.csv``, and that of every frame of a rollout in
    ``leads.csv``.

    Args:
        trials: what to run, from :func:`read_suite` and :func:`choose`.
        out: directory of the results.
        root: directory with that of each benchmark, ``root/NAME``.
        device: see :func:`meshop.train.fit`.
        only_steps: measure the seconds of a step and train nothing.
        workers: runs side by side on this machine; or ``ray``, as many as the Ray cluster that is running has room
            for, each with one core (and one GPU where this machine has some). ``out`` and ``root`` must then be the
            same directories on all of its machines.

    Returns:
        The rows of ``results.csv``, of these trials and of others.

    Raises:
        InputError: a trial is to train in full and its recipe has no epochs; there are no workers; Ray is not there;
            another process is at work in ``out``.
    """
    for trial in trials:
        if math.isinf(trial.minutes) and "epochs" not in trial.recipe:
            raise InputError(f"Expected epochs in the recipe of {trial} to train in full; give it minutes otherwise")
    if workers != "ray" and workers < 1:
        raise InputError(f"Expected one worker or more, or ray (got {workers})")
    apart = _ray() if workers == "ray" else _apart
    out, root = Path(out).resolve(), Path(root).resolve()
    out.mkdir(parents=True, exist_ok=True)
    with alone(out):
        return _rows(trials, out, root, device, only_steps, workers, apart)


def _rows(
    trials: Sequence[Trial],
    out: Path,
    root: Path,
    device: str,
    only_steps: bool,
    workers: int | Literal["ray"],
    apart: Callable[..., Row],
) -> list[Row]:
    """What :func:`bench` returns."""
    steps, results = read_rows(out / "steps.csv"), read_rows(out / "results.csv")
    left = [t for t in trials if only_steps or not any(same_run(row, t) and not row["error"] for row in results)]
    log.info("%d of %d are done", len(trials) - len(left), len(trials))

    timed: dict[str, Row | Exception] = {}
    for trial in {str(t): t for t in left}.values():
        found = next((row for row in steps if same_step(row, trial)), None)
        try:
            if found is None:
                found = {"benchmark": trial.benchmark, "model": trial.name, "settings": trial.settings}
                found |= apart(measure_step, trial, root, device)
                others = [s for s in steps if (s["benchmark"], s["model"]) != (trial.benchmark, trial.name)]
                steps = [*others, found]
                write_rows(out / "steps.csv", steps)
                log.info("%s: %.1f ms a step", trial, 1e3 * float(found["seconds_a_step"]))
            timed[str(trial)] = found
        except Exception as error:
            log.info("%s failed: %s", trial, _reason(error))
            timed[str(trial)] = error
    if only_steps or not left:
        return results

    def train(trial: Trial) -> Row:
        step = timed[str(trial)]
        if isinstance(step, Exception):
            raise step
        numbers = apart(run_trial, trial, float(step["seconds_a_step"]), root, out, device)
        return numbers | {"machine": step["machine"]}  # on which the budget was measured

    with ThreadPoolExecutor(len(left) if workers == "ray" else workers) as pool:
        runs = {pool.submit(train, trial): trial for trial in left}
        try:
            for run in as_completed(runs):
                trial = runs[run]
                try:
                    numbers = run.result()
                    errors = ", ".join(f"{k} {v}" for k, v in numbers.items() if k.startswith("relative_l2:"))
                    log.info("%s, seed %d: %s after %s s", trial, trial.seed, errors, numbers["seconds"])
                except Exception as error:
                    numbers = {"error": _reason(error)}
                    log.info("%s, seed %d failed: %s", trial, trial.seed, numbers["error"])
                row = {"benchmark": trial.benchmark, "model": trial.name, "seed": str(trial.seed)}
                row |= {"minutes": trial.budget, "settings": trial.settings, "error": "", "paper": trial.paper}
                results = [*(r for r in results if not same_run(r, trial)), row | numbers]
                write_rows(out / "results.csv", results)
        finally:
            pool.shutdown(cancel_futures=True)  # after Ctrl-C, what waits does not start
    return results


def epochs_within(minutes: float, seconds_a_step: float, steps: int, most: float = math.inf) -> int:
    """Epochs of so many steps that fit into a budget, at least one, and no more than there may be.

    >>> epochs_within(minutes=2, seconds_a_step=0.012, steps=100)
    100
    >>> epochs_within(minutes=float("inf"), seconds_a_step=0.012, steps=100, most=500)
    500
    """
    return max(1, int(min(60 * minutes / (seconds_a_step * steps) + 1e-9, most)))


def measure_step(trial: Trial, root: Path, device: str = "auto") -> Row:
    """Train a little and take the median time from one step to the next, all that training does included.

    A step of a rollout that grows is one of its full length.
    """
    trial = trial if trial.rollout is None else dataclasses.replace(trial, rollout=trial.rollout | {"grow": 0.0})
    data = _open(trial, root)
    size = Recipe(**trial.recipe).batch_size
    train = _training_set(trial, data)
    some = train[:: max(1, len(train) // (size * (WARM_UP + STEPS)))]
    epochs = math.ceil((WARM_UP + STEPS) / math.ceil(len(some) / size))
    clock = Clock()
    with tempfile.TemporaryDirectory() as out:
        fit(_surrogate(trial, data, epochs), some, out=out, device=device, callbacks=[clock])
    return {"seconds_a_step": f"{clock.median():.6g}", "date": f"{date.today()}", "machine": _machine(device)}


def run_trial(trial: Trial, seconds_a_step: float, root: Path, out: Path, device: str = "auto") -> Row:
    """Train for the epochs of the budget, evaluate on the test split, and return the numbers of a row."""
    data = _open(trial, root)
    train, tested = _training_set(trial, data), _open(trial, root, testing=True)
    test = tested.split("test")
    steps = math.ceil(len(train) / Recipe(**trial.recipe).batch_size)
    epochs = epochs_within(trial.minutes, seconds_a_step, steps, trial.recipe.get("epochs", math.inf))
    surrogate = _surrogate(trial, data, epochs)
    directory = out / trial.benchmark / trial.name / str(trial.seed)
    shutil.rmtree(directory, ignore_errors=True)
    memory, start = Memory(), time.perf_counter()
    fit(surrogate, train, out=directory, device=device, callbacks=[memory])
    about = {"data": trial.benchmark, "root": str(root / trial.benchmark), "data_args": _data_args(trial, testing=True)}
    with whole_file(directory / "config.yaml") as part:
        part.write_text(yaml.safe_dump(about, sort_keys=False))
    seconds = time.perf_counter() - start
    if surrogate.stepper is not None:
        surrogate.set_windows(tested.spec)
        write_rows(directory / "leads.csv", lead_errors(surrogate, test, surrogate.recipe.batch_size))
    errors = evaluate(surrogate, test, surrogate.recipe.batch_size)
    write_rows(directory / "evaluation.csv", errors)
    table = summarise(errors)
    row = {f"relative_l2:{field}": f"{numbers['relative_l2']:.6g}" for field, numbers in table.items()}
    row |= {f"mean_predictor:{field}": f"{numbers['mean_predictor']:.6g}" for field, numbers in table.items()}
    for score in ("frame_mean", "last_frame") if surrogate.stepper is not None else ():
        row |= {f"{score}:{field}": f"{numbers[score]:.6g}" for field, numbers in table.items()}
    return row | {
        "parameters": str(sum(p.numel() for p in surrogate.parameters())),
        "seconds_a_step": f"{seconds_a_step:.6g}",
        "epochs": str(epochs),
        "seconds": f"{seconds:.1f}",
        "training_memory_gb": memory.text(),
        "origin": data.origin,
        "train_meshes": str(len(train)),
        "test_meshes": str(len(test)),
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


def _open(trial: Trial, root: Path, testing: bool = False) -> Any:
    return BENCHMARKS[trial.benchmark](root=root / trial.benchmark, **_data_args(trial, testing))


def _data_args(trial: Trial, testing: bool) -> dict[str, Any]:
    return trial.data_args | ((trial.test_args or {}) if testing else {})


def _training_set(trial: Trial, data: Any) -> Any:
    train = data.split("train")
    if trial.samples is not None and not 0 < trial.samples <= len(train):
        raise InputError(f"Expected from 1 to {len(train)} samples of {trial.benchmark} (got {trial.samples})")
    return train[: trial.samples]


def _surrogate(trial: Trial, data: Any, epochs: int) -> Surrogate:
    torch.manual_seed(trial.seed)
    description = from_config(trial.choice)
    rollout = rollout_on(data, trial.rollout)
    description["args"] |= {"in_channels": data.spec.in_channels, "out_channels": out_channels(data.spec, rollout)}
    recipe = Recipe(**trial.recipe | {"epochs": epochs, "seed": trial.seed})
    return Surrogate(build(description), data.spec, data.pre_transform, recipe, description, rollout)


def _apart(function: Callable[..., Row], *args: Any) -> Row:
    """Call a function in a new process: nothing of one run, its memory least of all, reaches another."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return pool.submit(function, *args).result()
        except BrokenProcessPool:
            raise RuntimeError("the process was killed; perhaps memory ran out") from None


def _ray() -> Callable[..., Row]:
    """The same on Ray: a task, which has a process of its own somewhere in the cluster."""
    try:
        ray = importlib.import_module("ray")
    except ModuleNotFoundError as error:
        raise InputError("--workers ray needs the package ray: pip install 'meshop[ray]'") from error
    if not ray.is_initialized():
        ray.init()

    def apart(function: Callable[..., Row], *args: Any) -> Row:
        task = ray.remote(num_cpus=1, num_gpus=int(torch.cuda.is_available()), max_calls=1)(function)
        try:
            row: Row = ray.get(task.remote(*args))
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        return row

    return apart


def _reason(error: Exception) -> str:
    """Why a run failed, in one line."""
    kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
    return f"{kind}{' '.join(str(error).split())}"


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
