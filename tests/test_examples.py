"""Each example runs as a user would run it, and gives the number that its documentation promises."""

import importlib
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)  # PyG's Sequential imports the module that built it by name


def test_every_example_is_short() -> None:
    for path in EXAMPLES.glob("*.py"):
        assert len(path.read_text().splitlines()) < 110, path


def test_read_and_render(tmp_path: Path) -> None:
    assert importlib.import_module("read_and_render").main(out=str(tmp_path)) == pytest.approx(
        5.0
    )  # a beam of 1 x 1 x 5
    assert (tmp_path / "steps.png").stat().st_size > 5_000


def test_pyg_stack(tmp_path: Path) -> None:
    assert importlib.import_module("pyg_stack").main(root=str(tmp_path)) > 1.5


def test_own_meshes(tmp_path: Path) -> None:
    assert importlib.import_module("own_meshes").main(str(tmp_path)) < 0.1
    assert (tmp_path / "new_pred.png").stat().st_size > 10_000
