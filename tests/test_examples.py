"""Each example runs as a user would run it, and gives the number that its documentation promises."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_short() -> None:
    for path in EXAMPLES.glob("*.py"):
        assert len(path.read_text().splitlines()) < 110, path


def test_read_and_render(tmp_path: Path) -> None:
    assert load("read_and_render").main(out=str(tmp_path)) == pytest.approx(5.0)  # a beam of 1 x 1 x 5
    assert (tmp_path / "steps.png").stat().st_size > 5_000


def test_pyg_stack(tmp_path: Path) -> None:
    assert load("pyg_stack").main(root=str(tmp_path)) > 1.5


def test_own_meshes(tmp_path: Path) -> None:
    assert load("own_meshes").main(str(tmp_path)) < 0.1
    assert (tmp_path / "new_pred.png").stat().st_size > 10_000
