"""Where the card of a data set lies."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from meshop.data import InputError


def card(name: str) -> Path:
    """The directory with the ``README.md`` and the ``recipes.yaml`` of a benchmark.

    It is ``datasets/NAME`` of the repository; an installed meshop has a copy.

    Raises:
        InputError: there is no card of that name.

    >>> (card("elastic_block") / "README.md").read_text().splitlines()[0]
    '# Elastic block'
    """
    beside = Path(__file__).parents[2] / "datasets" / name
    if (beside / "README.md").is_file():
        return beside
    try:
        installed = files("meshop") or []
    except PackageNotFoundError:
        installed = []
    for file in installed:
        if file.parts[-3:] == ("datasets", name, "README.md"):
            return Path(str(file.locate())).resolve().parent
    raise InputError(f"There is no data card of the name '{name}'")
