"""Where the card of a data set lies."""

from __future__ import annotations

from pathlib import Path

from meshop.data import InputError


def card(name: str) -> Path:
    """The directory with the ``README.md`` of a benchmark and its recipes.

    A recipe is a file ``MODEL.yaml`` for ``meshop train NAME --config``. The directory is ``datasets/NAME`` of the
    repository; an installed meshop has a copy.

    Raises:
        InputError: there is no card of that name.

    >>> (card("elastic_block") / "README.md").read_text().splitlines()[0]
    '# Elastic block'
    """
    package = Path(__file__).parents[1]
    for place in (package.parent / "datasets" / name, package / "cards" / name):
        if (place / "README.md").is_file():
            return place
    raise InputError(f"There is no data card of the name '{name}'")
