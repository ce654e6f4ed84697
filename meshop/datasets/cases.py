"""Which case is which: a directory's table of parameters and lists of splits, joined to its mesh files."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from meshop.data import InputError
from meshop.io import FORMATS, SERIES_FORMATS
from meshop.io.arrays import read_csv


def table_file(path: str | os.PathLike[str]) -> Path:
    """The path of a CSV that is there.

    Raises:
        InputError: there is no such file.
    """
    if not Path(path).is_file():
        raise InputError(f"Expected a CSV of parameters (there is no file '{path}')")
    return Path(path)


def find_table(root: str | os.PathLike[str], paths: Sequence[Path]) -> Path | None:
    """The CSV in a directory of which a column names some of its cases, if there is one.

    Raises:
        InputError: there are several.
    """
    keys = _keys(paths)
    tables = [t for t in sorted(Path(root).glob("*.csv")) if _case_column(read_csv(t), keys) is not None]
    if len(tables) > 1:
        raise InputError(f"Expected one CSV of parameters (got {', '.join(map(str, tables))}); name it (--params)")
    return tables[0] if tables else None


def read_table(
    table: str | os.PathLike[str], paths: Sequence[Path], complete: bool = True
) -> tuple[list[str], list[list[float]]]:
    """Names of the parameters in a CSV and their values for each mesh file.

    Args:
        table: the CSV, with a header; separated by commas, semicolons or tabs.
        paths: the mesh files.
        complete: whether every row must be that of a file.

    Raises:
        InputError: no column names the cases; rows and files do not match; a value is not a number.
    """
    header, *rows = read_csv(table_file(table)) or [[]]
    keys = _keys(paths)
    column = _case_column(rows, keys)
    if column is None:
        raise InputError(f"Expected a column of '{table}' to name the cases, '{paths[0].stem}' among them")
    for row in rows:
        if len(row) != len(header):
            listed = ", ".join(row)
            raise InputError(f"Expected {len(header)} columns in every row of '{table}' (got {len(row)}: {listed})")
    row_of: dict[Path, list[str]] = {}
    stray = []
    for row in rows:
        files = [f for f in keys.get(_key(row[column]), []) if f not in row_of]
        if len(files) == 1:
            row_of[files[0]] = row
        else:
            stray.append(row[column])
    bare = [str(path) for path in paths if path not in row_of]
    if bare or (stray and complete):
        raise InputError(
            f"Expected one row in '{table}' for every mesh file (files without a row: {', '.join(bare) or 'none'}; "
            f"rows without a file of their own: {', '.join(stray) or 'none'})"
        )
    names, columns = [], []
    for i, name in enumerate(header):
        values = [_number(row_of[path][i]) for path in paths]
        if i == column or not name or all(v is None for v in values):
            continue
        if None in values:
            path = paths[values.index(None)]
            raise InputError(f"Expected numbers in column '{name}' of '{table}' (got '{row_of[path][i]}' for '{path}')")
        names.append(name)
        columns.append(values)
    return names, [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in paths]


def split_files(split: str) -> dict[str, Path]:
    """The list files of a directory by the name of the split; none where ``split`` says fractions.

    Raises:
        InputError: ``split`` is neither fractions nor a directory with lists.
    """
    if _fractions(split):
        return {}
    lists = {name: Path(split, f"{name}.txt") for name in ("train", "val", "test")}
    lists = {name: path for name, path in lists.items() if path.exists()}
    if "train" not in lists or "test" not in lists:
        raise InputError(
            "Expected a split such as 0.8/0.1/0.1 (train/val/test) or 0.8/0.2 (train/test), or a directory with "
            f"train.txt and test.txt (got '{split}')"
        )
    return lists


def split_cases(split: str | Mapping[str, Sequence[str]], paths: Sequence[Path], seed: int = 0) -> dict[str, list[int]]:
    """Numbers of the mesh files in each split; see :class:`Folder`.

    Raises:
        InputError: see :func:`split_files`; also fewer files than splits, a listed case that is not there, and one
            that is listed twice.
    """
    fractions = _fractions(split) if isinstance(split, str) else ()
    if fractions:
        names = ("train", "val", "test") if len(fractions) == 3 else ("train", "test")
        order = np.random.default_rng(seed).permutation(len(paths)).tolist()
        counts = [max(round(f * len(paths)), 1) if f else 0 for f in fractions[1:]]
        if sum(counts) >= len(paths):
            raise InputError(f"Expected at least {sum(counts) + 1} mesh files for the split {split} (got {len(paths)})")
        ends = np.cumsum([len(paths) - sum(counts), *counts])
        return {
            n: sorted(order[end - count : end]) for n, end, count in zip(names, ends, [ends[0], *counts], strict=True)
        }
    lists = {n: p.read_text().splitlines() for n, p in split_files(split).items()} if isinstance(split, str) else split
    keys = _keys(paths)
    number = {path: i for i, path in enumerate(paths)}
    splits: dict[str, list[int]] = {name: [] for name in lists}
    for name, cases in lists.items():
        for case in filter(None, map(str.strip, cases)):
            files = keys.get(_key(case), [])
            if len(files) != 1:
                raise InputError(
                    f"Expected one mesh file for the case '{case}' of the split '{name}' (got {len(files)})"
                )
            if files[0] not in number:
                raise InputError(f"Expected every case in one split, once (got '{case}' of the split '{name}' again)")
            splits[name].append(number.pop(files[0]))
    return splits


def bare(path: Path) -> Path:
    """A path without the extension of a mesh file or series.

    >>> [bare(Path(name)).name for name in ("a.vtu", "a.vtu.series", "Re_0.5")]
    ['a', 'a', 'Re_0.5']
    """
    path = path.with_suffix("") if path.suffix.lower() in SERIES_FORMATS else path
    return path.with_suffix("") if path.suffix.lower() in FORMATS else path


def _fractions(split: str) -> tuple[float, ...]:
    """The fractions that ``0.8/0.1/0.1`` says, or nothing."""
    numbers = [_number(part) for part in split.split("/")]
    fractions = tuple(n for n in numbers if n is not None and 0 <= n < 1)
    whole = len(fractions) == len(numbers) in (2, 3) and abs(sum(fractions) - 1) < 1e-6
    return fractions if whole and fractions[0] > 0 else ()


def _keys(paths: Sequence[Path]) -> dict[str, list[Path]]:
    """The mesh files by what may name them: the end of the path without extension, or of a directory with one file."""
    keys: dict[str, list[Path]] = {}
    siblings = Counter(path.parent for path in paths)
    for path in paths:
        full = path.absolute()
        for parts in (bare(full).parts, full.parent.parts if siblings[path.parent] == 1 else ()):
            for i in range(1, len(parts)):
                keys.setdefault("/".join(parts[i:]), []).append(path)
    return keys


def _key(text: str) -> str:
    """The name of a case without a file's extension."""
    return bare(Path(text.strip())).as_posix()


def _case_column(rows: Sequence[Sequence[str]], keys: Mapping[str, object]) -> int | None:
    """The first column that names a mesh file."""
    return min((i for row in rows for i, value in enumerate(row) if _key(value) in keys), default=None)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
