"""Which case is which: a directory's table of parameters and lists of splits, joined to its mesh files."""

from __future__ import annotations

import logging
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from meshop.data import InputError
from meshop.io import FORMATS, SERIES_FORMATS
from meshop.io.arrays import read_csv

log = logging.getLogger("meshop")

PATH, SPLIT = "path", "split"  # columns of a CSV that say which files are cases, and which part each is in


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
    table: str | os.PathLike[str],
    paths: Sequence[Path],
    complete: bool = True,
    bad: dict[Path, str] | None = None,
) -> tuple[list[str], list[list[float]]]:
    """Names of the parameters in a CSV and their values for each mesh file.

    Args:
        table: the CSV, with a header; separated by commas, semicolons or tabs.
        paths: the mesh files.
        complete: whether every row must be that of a file.
        bad: where given, gets what is wrong with the row of a file instead of an error, and rows without a file are
            only warned of; the values of such files are left out.

    Raises:
        InputError: no column names the cases; rows and files do not match; a value is not a number.
    """
    header, column, row_of, twice, stray = _join(table, paths)
    bare = [path for path in paths if path not in row_of]
    extra = [*twice.values(), *stray]
    if bad is None and (bare or (extra and complete)):
        raise InputError(
            f"Expected one row in '{table}' for every mesh file (files without a row, {len(bare)}: {shortened(bare)}; "
            f"rows without a file of their own, {len(extra)}: {shortened(extra)})"
        )
    wrong = {} if bad is None else bad
    wrong |= dict.fromkeys(bare, f"it has no row in '{table}'")
    wrong |= dict.fromkeys(twice, f"it has several rows in '{table}'")
    if bad is not None and stray:
        log.warning("rows of '%s' without a mesh file (%d): %s", table, len(stray), shortened(stray))
    names: list[str] = []
    values: list[list[float]] = [[] for _ in paths]
    for i, name in enumerate(header):
        numbers = {path: _number(row_of[path][i]) for path in paths if path in row_of}
        if i == column or name in ("", PATH) or all(v is None for v in numbers.values()):
            continue
        for path, number in numbers.items():
            if number is None:
                text = f"numbers in column '{name}' of '{table}' (got '{row_of[path][i]}' for '{path}')"
                if bad is None:
                    raise InputError(f"Expected {text}")
                wrong[path] = f"expected {text}"
        names.append(name)
        for own, path in zip(values, paths, strict=True):
            own.append(number if (number := numbers.get(path)) is not None else math.nan)
    return names, values


def listed_cases(table: str | os.PathLike[str], root: str | os.PathLike[str]) -> list[Path]:
    """The mesh files that the column ``path`` of a CSV lists, from the CSV or from ``root`` on; none without it.

    Raises:
        InputError: a row has more or fewer columns than the header, or a file is listed twice.
    """
    header, *rows = _rows(table)
    if PATH not in header:
        return []
    paths = []
    for text in (row[header.index(PATH)].strip() for row in rows):
        beside = Path(table).parent / text
        paths.append(beside if beside.exists() or not Path(root, text).exists() else Path(root, text))
    twice = [str(path) for path, count in Counter(map(os.path.abspath, paths)).items() if count > 1]
    if twice:
        raise InputError(f"Expected every file once in the column '{PATH}' of '{table}' (got {shortened(twice)} again)")
    return paths


def listed_split(table: str | os.PathLike[str], paths: Sequence[Path]) -> dict[str, list[int]]:
    """Numbers of the mesh files in each split of the column ``split`` of a CSV; none without such a column of texts.

    Files without a row, and those of rows with nothing in it, are in none.

    Raises:
        InputError: it holds another word than train, val and test, or not train and test.
    """
    header, _, row_of, _, _ = _join(table, paths)
    if SPLIT not in header:
        return {}
    words = {path: row[header.index(SPLIT)].strip() for path, row in row_of.items()}
    if all(not word or _number(word) is not None for word in words.values()):
        return {}
    for path, word in words.items():
        if word not in ("", "train", "val", "test"):
            raise InputError(
                f"Expected train, val or test in the column '{SPLIT}' of '{table}' (got '{word}' for '{path}')"
            )
    splits = {name: [i for i, path in enumerate(paths) if words.get(path) == name] for name in ("train", "val", "test")}
    if not splits["train"] or not splits["test"]:
        raise InputError(f"Expected cases of train and of test in the column '{SPLIT}' of '{table}'")
    return {name: part for name, part in splits.items() if part}


def shortened(names: Iterable[object], most: int = 5) -> str:
    """A list of names in words, with the first of many.

    >>> shortened("abcdefgh"), shortened([])
    ('a, b, c, d, e and 3 more', 'none')
    """
    texts = list(map(str, names))
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more if texts else "none"


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


def _rows(table: str | os.PathLike[str]) -> list[list[str]]:
    """The rows of a CSV, of one length, its header first.

    Raises:
        InputError: there is no such file, or a row is longer or shorter than the header.
    """
    header, *rows = read_csv(table_file(table)) or [[]]
    for row in rows:
        if len(row) != len(header):
            listed = ", ".join(row)
            raise InputError(f"Expected {len(header)} columns in every row of '{table}' (got {len(row)}: {listed})")
    return [header, *rows]


class _Join(NamedTuple):
    """A CSV and mesh files: its header, the column that names the cases, the row of each file, what names files with
    several rows, and what rows without a file name."""

    header: list[str]
    column: int
    row_of: dict[Path, list[str]]
    twice: dict[Path, str]
    stray: list[str]


def _join(table: str | os.PathLike[str], paths: Sequence[Path]) -> _Join:
    header, *rows = read_csv(table_file(table)) or [[]]
    keys = _keys(paths)
    column = _case_column(rows, keys)
    if column is None:
        raise InputError(f"Expected a column of '{table}' to name the cases, '{paths[0].stem}' among them")
    row_of: dict[Path, list[str]] = {}
    twice: dict[Path, str] = {}
    stray = []
    for row in _rows(table)[1:]:
        files = keys.get(_key(row[column]), [])
        free = [file for file in files if file not in row_of]
        if len(free) == 1:
            row_of[free[0]] = row
        elif len(files) == 1:
            twice[files[0]] = row[column]
        else:
            stray.append(row[column])
    return _Join(header, column, row_of, twice, stray)


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
    """The name of a case without a file's extension, and without the way to a directory above."""
    parts = bare(Path(os.path.normpath(text.strip()))).parts
    return "/".join(part for part in parts if part not in ("..", os.sep))


def _case_column(rows: Sequence[Sequence[str]], keys: Mapping[str, object]) -> int | None:
    """The first column that names a mesh file."""
    return min((i for row in rows for i, value in enumerate(row) if _key(value) in keys), default=None)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
