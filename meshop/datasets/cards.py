"""Where the cards of the data sets lie."""

from __future__ import annotations

from pathlib import Path

from meshop.data import InputError


def card(name: str) -> Path:
    """The directory with the ``README.md`` and the ``recipes.yaml`` of a benchmark.

    It is ``datasets/NAME`` of the repository, which pip installs as ``share/meshop/datasets/NAME``.

    Raises:
        InputError: there is no card of that name.

    >>> (card("elastic_block") / "README.md").read_text().splitlines()[0]
    '# Elastic block'
    """
    for above in Path(__file__).parents:
        for place in (above / "datasets" / name, above / "share" / "meshop" / "datasets" / name):
            if (place / "README.md").is_file():
                return place
    raise InputError(f"There is no data card of the name '{name}'")
