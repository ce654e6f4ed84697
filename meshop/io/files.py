"""Files that are whole or not there, errors that name their file, and the order of files."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from meshop.data import InputError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file to write that takes its name when the block has ended without an error, or never.

    Raises:
        InputError: the name is that of a directory, or there is no directory to hold it.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise InputError("it is a directory" if path.is_dir() else f"there is no directory '{path.parent}'")
    part = path.with_name(f".{path.stem}-{secrets.token_hex(4)}{path.suffix}")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def named(what: str) -> Iterator[None]:
    """Put the file's name before what is wrong with it."""
    try:
        yield
    except (InputError, OSError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise InputError(f"{what}: {reason}") from error


def natural_order(paths: Iterable[Path]) -> list[Path]:
    """Paths in the order in which people count.

    >>> [path.name for path in natural_order([Path("run_10"), Path("run_2")])]
    ['run_2', 'run_10']
    """

    def key(path: Path) -> list[tuple[int, str]]:
        return [(int(part), part) if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.as_posix())]

    return sorted(paths, key=key)
