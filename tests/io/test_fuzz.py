"""A damaged file is read as a mesh or refused in a sentence; it ends nothing, hangs nothing, and eats no memory."""

from pathlib import Path

import fuzzing
import pytest

from meshop.io import FORMATS, SERIES_FORMATS


def check(numbers: range, folder: Path) -> None:
    counts, faults = fuzzing.fuzz(numbers, folder)
    listed = "\n".join(f"{number}: {fault}" for number, fault in faults.items())
    assert not faults, f"replay with fuzzing.fuzz([number], folder):\n{listed}"
    came = {kind: sum(count for (_, said), count in counts.items() if said == kind) for kind in ("read", "refused")}
    assert sum(came.values()) == len(numbers)
    assert min(came.values()) > len(numbers) / 20, came  # mutations that spare, or spoil, all files would try nothing


def test_every_format_is_damaged(tmp_path: Path) -> None:
    suffixes = {Path(files.path).suffix for files in fuzzing.whole(tmp_path).values()}
    assert suffixes >= (set(FORMATS) | set(SERIES_FORMATS)) - {".series"}  # a list of file names in JSON


def test_damaged_files(tmp_path: Path) -> None:
    check(range(120), tmp_path)


@pytest.mark.slow
def test_2000_damaged_files(tmp_path: Path) -> None:
    check(range(1000, 3000), tmp_path)
