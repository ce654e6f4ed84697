"""Files that are whole or not there, errors that name their file, and the order of files."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from meshop.data import InputError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file to write that takes its name when the block has ended without an error, or never.

    What a killed process leaves ends in ``.part``, which nothing reads. Of two that write one file at the same time the
    later one's stays.

    Raises:
        InputError: the name is that of a directory, or there is no directory to hold it.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise InputError("it is a directory" if path.is_dir() else f"there is no directory '{path.parent}'")
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}.part")
    try:
        yield part
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink()


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The same with a sentence about what the system refuses, and directories made where there are none.

    Raises:
        InputError: the file cannot be written; the message says why.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as part:
            yield part
    except OSError as error:
        raise InputError(f"Cannot write '{path}': {error.strerror or error}") from error


_HELD: set[Path] = set()  # directories of this process


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a directory for what this process writes into it; the system frees it when the process ends, even killed.

    A block inside that of the same directory holds it already.

    Raises:
        InputError: another process holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    place = folder.resolve()
    if place in _HELD:
        yield
        return
    handle = os.open(place, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"Another process is writing a run into {folder}; wait until it has ended or choose another --out"
            ) from None
        _HELD.add(place)
        yield
    finally:
        _HELD.discard(place)
        os.close(handle)


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
