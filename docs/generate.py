"""Pages that are made from the code: the table of operators and the table of formats."""

from __future__ import annotations

from pathlib import Path


def write(folder: Path) -> None:
    """Write the generated pages into ``folder``."""
    folder.mkdir(exist_ok=True)
