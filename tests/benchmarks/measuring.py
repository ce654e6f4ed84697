"""What the benchmarks of speed share: clocks in alternation, memory, and how results are written."""

from __future__ import annotations

import csv
import ctypes
import os
import re
import statistics
import subprocess
import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Step = Callable[[], object]
LEAST = 0.02  # seconds of a sample; quicker steps are repeated within it


def alternate(steps: Mapping[str, Step], rounds: int) -> dict[str, list[float]]:
    """Seconds of each step in each round: A B C, A B C, ..., so that what else the machine does meets all of them."""
    repeats = {name: _repeats(step) for name, step in steps.items()}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            seconds[name].append(clock(step, repeats[name]))
    return seconds


def _repeats(step: Step) -> int:
    step()
    return max(1, int(LEAST / clock(step)))


def clock(step: Step, repeats: int = 1) -> float:
    """Seconds of a step."""
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats


def ratio(seconds: Sequence[float], others: Sequence[float]) -> float:
    """How many times the others take: the median over rounds, each compared within itself."""
    return statistics.median(other / own for own, other in zip(seconds, others, strict=True))


def training(module: nn.Module, *args: Any, precision: str = "float32", **kwargs: Any) -> Step:
    """A step of forward and backward; the optimiser's part depends on no node and is left out."""
    device, dtype = args[0].device.type, getattr(torch, precision)

    def step() -> None:
        module.zero_grad()
        args[0].grad = None
        with torch.autocast(device, dtype, enabled=precision != "float32"):
            out = module(*args, **kwargs)
        out.float().square().mean().backward()

    return step


def inference(module: nn.Module, *args: Any, precision: str = "float32", **kwargs: Any) -> Step:
    """A step of forward without gradients."""
    device, dtype = args[0].device.type, getattr(torch, precision)

    def step() -> None:
        with torch.inference_mode(), torch.autocast(device, dtype, enabled=precision != "float32"):
            module(*args, **kwargs)

    return step


PASSES: dict[str, Callable[..., Step]] = {"training": training, "inference": inference}


def product(precision: str, device: str = "cpu", size: int = 2048) -> Step:
    """The matrix product whose rate is the machine's: 2 ``size``^3 operations."""
    a, b = (torch.randn(size, size, device=device, dtype=getattr(torch, precision)) for _ in range(2))
    return lambda: a @ b


PRODUCT_GFLOP = 2 * 2048**3 / 1e9


def apart(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of a script in a process of its own; raises BrokenProcessPool where the process was killed.

    The processes are forks of one that has imported the script and done nothing else.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["__main__"])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *args).result()


def peak_memory(step: Step, device: str = "cpu") -> float:
    """MB that a step needs at most beyond what is there before it; NaN on systems other than Linux."""
    if device != "cpu":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step()
        return (torch.cuda.max_memory_allocated() - before) / 1e6
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        return float("nan")
    reset.write_text("5")  # ru_maxrss would keep the peak of the imports, and of the process that started this one
    before = high_water()
    step()
    return (high_water() - before) / 1e3


def keep_freed_memory() -> None:
    """Let glibc keep what is freed for what comes next; by default large arrays are new pages every time."""
    mmap_max, trim_threshold = -4, -1
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(mmap_max, 0)
        libc.mallopt(trim_threshold, -1)


def high_water() -> float:
    """Largest resident memory of this process since its start or the last reset, in thousands of bytes."""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return 1.024 * float(found[1]) if found else float("nan")


def saved_memory(module: nn.Module, *args: Any, precision: str = "float32", **kwargs: Any) -> float:
    """MB that autograd keeps from forward to backward, parameters aside: it depends on no clock and no allocator."""
    parameters = {p.untyped_storage().data_ptr() for p in module.parameters()}
    saved: dict[int, int] = {}

    def pack(x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return x

    dtype = getattr(torch, precision)
    with (
        torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x),
        torch.autocast(args[0].device.type, dtype, enabled=precision != "float32"),
    ):
        out = module(*args, **kwargs)
    del out
    return sum(size for place, size in saved.items() if place not in parameters) / 1e6


def size_arguments(parser: ArgumentParser) -> None:
    """How large layers and models are."""
    parser.add_argument("--channels", type=int, default=128)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64, help="slices or clusters")
    parser.add_argument("--depth", type=int, default=8, help="blocks of a model")


def about() -> dict[str, str]:
    """The columns that say where and when a row was measured."""
    info = Path("/proc/cpuinfo")
    name = re.search(r"model name\s*: (.+)", info.read_text()) if info.exists() else None
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    return {
        "threads": str(torch.get_num_threads()),
        "machine": name[1] if name else "unknown",
        "cores": str(os.cpu_count()),
        "torch": torch.__version__,
        "commit": commit,
        "date": f"{date.today()}",
    }


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a CSV with the columns of all rows."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(k for row in rows for k in row)))
        writer.writeheader()
        writer.writerows(rows)


def markdown(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """A table of some columns."""
    lines = [columns, ["---"] * len(columns), *([str(row.get(c, "")) for c in columns] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The power of the size by which values grow: least squares of logarithms over the larger half of the sizes.

    >>> round(exponent([1, 10, 100, 1000], [7, 9, 100, 1000]), 9)
    1.0
    """
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(values[half:]), 1)[0])


def panels(count: int, title: str = "", height: float = 680) -> tuple[Any, Any]:
    """A figure with panels side by side in the manner of :mod:`meshop.render`, and their axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((1100 / 72, height / 72), dpi=72, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, count, squeeze=False)[0]
    for one in axes:
        one.grid(which="major", alpha=0.25)
        one.tick_params(labelsize=15)
        one.xaxis.label.set(size=17)
        one.yaxis.label.set(size=17)
    figure.suptitle(title, size=21)
    return figure, axes
