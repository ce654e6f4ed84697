"""Making a benchmark's files by a solver: samples one by one, in any number of processes, then the published layout."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshop import __version__
from meshop.data import InputError
from meshop.datasets.origin import MARK, Record, made, read_mark
from meshop.io.arrays import sha256
from meshop.io.files import whole_file

Array = NDArray[Any]
Sample = dict[str, Array]

log = logging.getLogger("meshop")


@dataclass(frozen=True)
class Generator:
    """How a benchmark is made.

    Args:
        sample: from a random generator and the options, the arrays of one sample; also called in other processes.
        write: writes the samples, one at a time, into files of the published layout in a directory, and returns the
            values whose statistics are published, by name.
        samples: the number that is published.
        options: further arguments of ``sample``, with their defaults.
        published: mean (None where it is not known) and standard deviation of values that ``write`` returns.
        name: that in :data:`meshop.datasets.generators.GENERATORS`.
    """

    sample: Callable[..., Sample]
    write: Callable[[Path, Sequence[Sample], Mapping[str, Any]], dict[str, Array]]
    samples: int
    options: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, tuple[float | None, float]] = field(default_factory=dict)
    name: str = ""


def generate(
    generator: Generator,
    out: str | os.PathLike[str],
    samples: int | None = None,
    seed: int = 0,
    workers: int = 1,
    **options: Any,
) -> dict[str, tuple[float, float]]:
    """Make the files of a benchmark.

    Sample i depends on ``seed``, i and the options only, so that the files are the same for any number of processes.
    A sample that is done lies in ``out/samples`` until the files are complete: the same call continues there. The files
    then take their names, also from files of an earlier call, and last ``out/generated.json`` says how they were made
    (:data:`meshop.datasets.origin.Record`). Other files are never replaced.

    Args:
        generator: one of :data:`meshop.datasets.generators.GENERATORS`.
        out: directory of the files, ``root/raw`` of the data set.
        samples: how many; by default as many as are published.
        seed: of all random numbers.
        workers: processes, each with one thread.
        **options: those of the generator.

    Returns:
        Mean and standard deviation of each value whose statistics are published.

    Raises:
        InputError: an option is unknown, a sample failed, or the directory holds samples of another call or files that
            no such call made.
    """
    samples = generator.samples if samples is None else samples
    if samples < 2 or workers < 1:
        raise InputError(f"Expected two samples and one process at least (got {samples} and {workers})")
    if unknown := [name for name in options if name not in generator.options]:
        known = ", ".join(generator.options) or "none"
        raise InputError(f"Expected options among {known} (got {', '.join(unknown)})")
    settings = dict(generator.options) | options
    out = Path(out)
    folder, files = out / "samples", out / "samples" / "files"
    _only_own(out, [*read_mark(out / MARK), *read_mark(files / MARK)])
    folder.mkdir(parents=True, exist_ok=True)
    _same_call(folder / "settings.json", {"seed": seed, **settings})
    paths = [folder / f"{index:06d}.npz" for index in range(samples)]
    left = [index for index in range(samples) if not paths[index].exists()]
    log.info("%d of %d samples are done", samples - len(left), samples)
    start = said = time.perf_counter()
    make = partial(_make, generator.sample, seed, settings)
    for count, _ in enumerate(_run(make, [(index, paths[index]) for index in left], workers), start=1):
        now = time.perf_counter()
        if now - said > 10 or count == len(left):
            said = now
            rest = (now - start) / count * (len(left) - count)
            log.info("%d of %d samples, %.0f s, %.0f s left", samples - len(left) + count, samples, now - start, rest)
    if not (files / MARK).exists():
        shutil.rmtree(files, ignore_errors=True)
        files.mkdir()
        found = generator.write(files, _Samples(paths), settings)
        table = {name: (float(np.mean(v, dtype=float)), float(np.std(v, dtype=float))) for name, v in found.items()}
        record = _record(files, generator, samples, seed, settings, table)
        names = {file["name"] for file in record["files"]}
        earlier = [
            {**other, "files": kept}
            for other in read_mark(out / MARK)
            if (kept := [file for file in other["files"] if file["name"] not in names])
        ]
        with whole_file(files / MARK) as part:
            part.write_text(json.dumps([*earlier, record], indent=1))
    record = read_mark(files / MARK)[-1]
    for name in [*(file["name"] for file in record["files"]), MARK]:
        if (files / name).exists():  # not moved before the call was stopped
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (files / name).replace(out / name)
    shutil.rmtree(folder)
    for name, values in record["statistics"].items():
        if values["published"]:
            log.info("%s", _check(name, values["mean"], values["std"], *values["published"]))
    return {name: (values["mean"], values["std"]) for name, values in record["statistics"].items()}


def _check(name: str, mean: float, std: float, published_mean: float | None, published_std: float) -> str:
    """How far statistics are from those that are published.

    >>> _check("sol", 0.0057, 0.00383, None, 0.00388433)
    'sol: mean 0.0057, deviation 0.00383; published 0.0038843, -1.4 %'
    >>> _check("x", 0.5, 0.32, 0.4998, 0.3217)
    'x: mean 0.5, deviation 0.32; published 0.4998 (+0.1 % of the deviation) and 0.3217, -0.5 %'
    """
    shift = (
        f"{published_mean:.5g} ({(mean - published_mean) / published_std:+.1%}" if published_mean is not None else ""
    )
    shift = shift.replace("%", " % of the deviation) and ")
    spread = f"{published_std:.5g}, {std / published_std - 1:+.1%}".replace("%", " %")
    return f"{name}: mean {mean:.5g}, deviation {std:.5g}; published {shift}{spread}"


def _only_own(out: Path, records: Sequence[Record]) -> None:
    """Refuse a directory with files that no call made; those of a call that was stopped while it moved them are own."""
    own = {*made(out, records, exactly=True), MARK}
    names = [path.relative_to(out) for path in out.rglob("*") if path.is_file()]
    names = [name for name in names if name.parts[0] != "samples" and not any(p.startswith(".") for p in name.parts)]
    if others := sorted(name.as_posix() for name in names if name.as_posix() not in own):
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise InputError(
            f"'{out}' holds {others[0]}{more}, which meshop generate did not make; choose another directory (--out)"
        )


def _record(
    files: Path,
    generator: Generator,
    samples: int,
    seed: int,
    settings: Mapping[str, Any],
    table: Mapping[str, tuple[float, float]],
) -> Record:
    used, usual = (json.loads(json.dumps(dict(options))) for options in (settings, generator.options))
    return {
        "generator": generator.name,
        "meshop": __version__,
        "seed": seed,
        "samples": samples,
        "published_samples": generator.samples,
        "options": used,
        "changed": {name: value for name, value in used.items() if value != usual[name]},
        "statistics": {
            name: {"mean": mean, "std": std, "published": generator.published.get(name)}
            for name, (mean, std) in table.items()
        },
        "files": [
            {"name": path.relative_to(files).as_posix(), "bytes": path.stat().st_size, "sha256": sha256(path)}
            for path in sorted(files.rglob("*"))
            if path.is_file()
        ],
    }


def _make(sample: Callable[..., Sample], seed: int, options: Mapping[str, Any], index: int, path: Path) -> None:
    arrays = sample(np.random.default_rng([seed, index]), **options)
    with whole_file(path) as part, part.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # its stub takes the names for its own flag


def _run(make: Callable[[int, Path], None], tasks: Sequence[tuple[int, Path]], workers: int) -> Iterator[None]:
    """Run tasks in processes and yield once for each that is done."""
    if workers == 1:
        for task in tasks:
            make(*task)
            yield
        return
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"  # for the processes to come
    try:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            futures = [pool.submit(make, *task) for task in tasks]
            try:
                for future in as_completed(futures):
                    future.result()
                    yield
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    finally:
        os.environ.pop("OMP_NUM_THREADS")
        if threads is not None:
            os.environ["OMP_NUM_THREADS"] = threads


def _same_call(path: Path, settings: Mapping[str, Any]) -> None:
    if path.exists():
        before = json.loads(path.read_text())
        if before != json.loads(json.dumps(settings)):
            raise InputError(
                f"'{path.parent}' holds samples made with {before}, not {dict(settings)}; choose another directory"
            )
    else:
        with whole_file(path) as part:
            part.write_text(json.dumps(dict(settings)))


class _Samples(Sequence[Sample]):
    """The samples in files, read one at a time."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _Samples(self.paths[index])
        with np.load(self.paths[index]) as file:
            return dict(file)


def split_rows(samples: int, share: float) -> int:
    """How many samples come first when this share of them, one at least, comes last.

    >>> split_rows(1200, 1 / 6), split_rows(2, 1 / 6)
    (1000, 1)
    """
    return samples - max(round(samples * share), 1)


def save_mat(path: Path, **arrays: Array) -> None:
    """Write arrays into a MATLAB file of version 5, which appears when it is complete."""
    import scipy.io

    with whole_file(path) as part, part.open("wb") as file:
        scipy.io.savemat(file, arrays)


def save_npy(path: Path, array: Array) -> None:
    """Write an array of numpy, which appears when it is complete."""
    with whole_file(path) as part, part.open("wb") as file:
        np.save(file, array)
