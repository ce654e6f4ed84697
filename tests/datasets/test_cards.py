"""The cards: each benchmark has one, and a correct copy has the numbers that it states."""

import os
import re
from importlib.util import find_spec

import pytest
import yaml

import meshop.datasets.cards as module
from meshop.cli import main
from meshop.data import InputError
from meshop.datasets import BENCHMARKS, card, statistics
from meshop.io import read_mesh

needs_smithers = pytest.mark.skipif(find_spec("smithers") is None, reason="needs the package smithers (meshop[data])")


def _stated(name):
    text = (card(name) / "README.md").read_text()
    table = text.split("| value | min | mean | max | std |\n|---|---|---|---|---|\n")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(.+?)` \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", table, re.MULTILINE)
    return {row[0]: dict(zip(("min", "mean", "max", "std"), map(float, row[1:]), strict=True)) for row in rows}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_has_a_card(name):
    text = (card(name) / "README.md").read_text()
    for heading in ("Equation", "Fields", "Splits", "Source and licence", "A correct copy"):
        assert f"\n## {heading}\n" in text
    assert f"`meshop.datasets.{BENCHMARKS[name].__name__}` · `meshop train {name}`" in text


@pytest.mark.parametrize(
    "recipe",
    [p for name in BENCHMARKS for p in sorted(card(name).glob("*.yaml"))],
    ids=lambda p: f"{p.parent.name}-{p.stem}",
)
def test_recipes_are_configurations_of_the_command_line(recipe, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", recipe.parent.name, "--config", str(recipe), "--print_config"])
    assert stop.value.code == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    for key, value in yaml.safe_load(recipe.read_text()).items():
        if key != "model":
            assert printed[key] == value


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param("elastic_block", {}, marks=needs_smithers),
        pytest.param("navier_stokes_step", {}, marks=needs_smithers),
        pytest.param("graetz", {}, marks=needs_smithers),
        pytest.param("unsteady_heat", {"T_in": 1, "T_out": 3}, marks=needs_smithers),
        pytest.param("plate_with_holes", {}, marks=pytest.mark.slow),
        pytest.param(
            "holed_poisson",
            {"path": os.environ.get("MESHOP_HOLED_POISSON")},
            marks=pytest.mark.skipif("MESHOP_HOLED_POISSON" not in os.environ, reason="needs the published file"),
        ),
    ],
)
def test_a_correct_copy_has_the_stated_numbers(name, options, tmp_path):
    rows, stated = statistics(BENCHMARKS[name](tmp_path, **options)), _stated(name)
    assert list(stated) == list(rows)
    for value, row in rows.items():
        assert row == pytest.approx(stated[value], rel=1e-4, abs=1e-4 * row["std"]), value


def test_the_sample_has_the_fields_of_its_card():
    sample = read_mesh(card("plate_with_holes") / "sample.vtu", dim=2)
    assert list(sample.point_data) == ["left", "right", "hole", "distance", "to_hole", "displacement", "von_mises"]
    assert sample.validate()


def test_an_installed_meshop_finds_its_cards(tmp_path, monkeypatch):
    installed = tmp_path / "meshop" / "cards" / "elastic_block"
    installed.mkdir(parents=True)
    (installed / "README.md").write_text("# Elastic block\n")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "meshop" / "datasets" / "cards.py"))
    assert card("elastic_block") == installed
    with pytest.raises(InputError, match="no data card of the name 'plates'"):
        card("plates")
