"""Where the card of a data set and the suites lie."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from meshop.data import InputError, did_you_mean


def card(name: str) -> Path:
    """The directory with the ``README.md`` of a benchmark and its recipes.

    A recipe is a file ``MODEL.yaml`` for ``meshop train NAME --config``. The directory is ``datasets/NAME`` of the
    repository; an installed meshop has a copy.

    Raises:
        InputError: there is no card of that name.

    >>> (card("elastic_block") / "README.md").read_text().splitlines()[0]
    '# Elastic block'
    """
    for place in (directory / name for directory in _places()):
        if (place / "README.md").is_file():
            return place
    raise InputError(f"There is no data card of the name '{name}'")


def sample(name: str, root: str | os.PathLike[str]) -> Path:
    """Copy the sample of a benchmark, a few kB in the layout of its files, to ``root/raw``, and return ``root``.

    The card says what is in it: mostly coarse solutions, or numbers that mean nothing.

    Raises:
        InputError: there is no sample of that name, or ``root/raw`` is there already.

    >>> import tempfile
    >>> from meshop.datasets import Pipe
    >>> Pipe(sample("pipe", tempfile.mkdtemp()))[0].shape
    (9, 9)
    """
    source, raw = card(name) / "sample" / "raw", Path(root, "raw")
    if not source.is_dir():
        raise InputError(f"There is no sample of '{name}'; it is made or installed when it is first used")
    if raw.exists():
        raise InputError(f"Expected a new directory for the sample of '{name}' (got '{root}', which has a raw)")
    shutil.copytree(source, raw)
    return Path(root)


def suite(name: str) -> Path:
    """The file ``datasets/suites/NAME.yaml``, a comparison for ``meshop bench``.

    Raises:
        InputError: there is no suite of that name; the message lists those there are.

    >>> suite("real").name
    'real.yaml'
    """
    files = {f.stem: f for place in _places() for f in sorted((place / "suites").glob("*.yaml"))}
    if name not in files:
        known = ", ".join(files)
        raise InputError(
            f"There is no suite '{name}'{did_you_mean(name, list(files))}; there are {known}, or a YAML file"
        )
    return files[name]


def _places() -> list[Path]:
    package = Path(__file__).parents[1]
    return [package / "cards", package.parent / "datasets"]
