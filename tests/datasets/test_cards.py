"""The cards: each benchmark has one, and a correct copy has the numbers that it states; and the samples beside them."""

import hashlib
import json
import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

import meshop.datasets.cards as module
from meshop.cli import main
from meshop.data import InputError
from meshop.datasets import BENCHMARKS, card, sample, statistics
from meshop.datasets.official import OfficialDataset
from meshop.datasets.smithers import SmithersDataset
from meshop.io import read_mesh

needs_smithers = pytest.mark.skipif(find_spec("smithers") is None, reason="needs the package smithers (meshop[data])")


FETCHED = [name for name, cls in BENCHMARKS.items() if hasattr(cls, "source")]
SAMPLED = [name for name in BENCHMARKS if name != "plate_with_holes"]


def _read(name):
    return (card(name) / "README.md").read_text()


def _stated(name):
    text = _read(name)
    table = text.split("| value | min | mean | max | std |\n|---|---|---|---|---|\n")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(.+?)` \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", table, re.MULTILINE)
    return {row[0]: dict(zip(("min", "mean", "max", "std"), map(float, row[1:]), strict=True)) for row in rows}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_has_a_card(name):
    text = _read(name)
    for heading in ("Equation", "Fields", "Splits", "Source and licence", "A correct copy"):
        assert f"\n## {heading}\n" in text
    assert f"`meshop.datasets.{BENCHMARKS[name].__name__}` · `meshop train {name}`" in text
    assert re.search(r"^Nodes .+ · train .+", text, re.MULTILINE)
    assert re.search(r"dimensionless|\bunits\b|\| unit \||\bm2?/s|\bm \|", text, re.IGNORECASE)
    assert re.search(r"\bMIT\b|CC\s+BY|licence is stated|nor a licence|no licence|Open Database License", text)
    assert re.search(
        r"SHA-256|[Cc]hecksums\s(are\s)?not\s+published|nor\s+checksums|no checksums|no files to check", text
    )


@pytest.mark.parametrize("name", FETCHED)
def test_a_card_says_what_to_get_and_where_to_put_it(name):
    text, cls = _read(name), BENCHMARKS[name]
    assert f"`data/{name}/raw/`" in text
    if name != "icp_plasma":  # whose files nobody has described
        assert re.search(r"\d [kMGT]B\b|\| bytes \|", text)
    for file in cls.files if issubclass(cls, OfficialDataset) else ():
        assert Path(file.name).name.removeprefix("NACA_Cylinder") in text


def _checksums(name):
    rows = re.findall(r"^\| `(.+?)` \| ([\d,]+) \| `([0-9a-f]{64})` \|$", _read(name), re.MULTILINE)
    return [(file, int(size.replace(",", "")), digest) for file, size, digest in rows]


def test_checksums_are_those_of_the_code():
    for name, cls in BENCHMARKS.items():
        if issubclass(cls, OfficialDataset):
            assert _checksums(name) == [(f.name, f.size, f.sha256) for f in cls.files if f.sha256], name


@needs_smithers
def test_checksums_are_those_of_the_installed_files():
    package = Path(find_spec("smithers").submodule_search_locations[0], "dataset", "datasets")
    for name, cls in BENCHMARKS.items():
        if issubclass(cls, SmithersDataset):
            files = [
                package / cls.folder / file for file in ("coords.npy", "triangles.npy", "params.npy", "snapshots.npy")
            ]
            found = [(f.name, f.stat().st_size, hashlib.sha256(f.read_bytes()).hexdigest()) for f in files]
            assert _checksums(name) == found, name


@pytest.mark.parametrize("name", SAMPLED)
def test_a_sample_is_small_and_has_the_fields_of_its_card(name, tmp_path):
    folder = card(name) / "sample"
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 30e3
    assert "`sample/`" in _read(name)
    [record] = json.loads((folder / "raw" / "generated.json").read_text())
    files = [file for file in (folder / "raw").rglob("*") if file.is_file() and file.name != "generated.json"]
    assert {(file["name"], file["bytes"]) for file in record["files"]} == {
        (file.relative_to(folder / "raw").as_posix(), file.stat().st_size) for file in files
    }
    data = BENCHMARKS[name](sample(name, tmp_path))
    assert data.splits["train"]
    assert data.splits["test"]
    assert data[0].validate()
    with pytest.raises(InputError, match=f"new directory for the sample of '{name}'"):
        sample(name, tmp_path)

    inputs, targets, params = set(), set(), set()
    for names, role in re.findall(r"^\| (`.+?`) \| (.+?) \|", _read(name).split("\n## Fields\n")[1], re.MULTILINE):
        names = re.findall("`(.+?)`", names)
        if role == "input, target":
            inputs.add(names[0])
            targets.add(names[1])
        elif role in ("input", "target"):
            (inputs if role == "input" else targets).update(names)
        elif role.startswith("parameter"):
            params.update(names)
    assert {f.name for f in data.spec.inputs} == inputs
    assert {f.name for f in data.spec.targets} == targets
    if name != "blood_flow":  # names 3 of its 726
        assert set(data.spec.params) == params


def test_a_benchmark_without_a_sample(tmp_path):
    with pytest.raises(InputError, match="no sample of 'plate_with_holes'; it is made or installed"):
        sample("plate_with_holes", tmp_path)


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
    data = BENCHMARKS[name](tmp_path, **options)
    rows, stated = statistics(data), _stated(name)
    assert f" · train {len(data.splits['train'])} · test {len(data.splits['test'])}\n" in _read(name)
    assert list(stated) == list(rows)
    for value, row in rows.items():
        assert row == pytest.approx(stated[value], rel=1e-4, abs=1e-4 * row["std"]), value


def test_the_sample_has_the_fields_of_its_card():
    plate = read_mesh(card("plate_with_holes") / "sample.vtu", dim=2)
    assert list(plate.point_data) == ["left", "right", "hole", "distance", "to_hole", "displacement", "von_mises"]
    assert plate.validate()


def test_an_installed_meshop_finds_its_cards(tmp_path, monkeypatch):
    installed = tmp_path / "meshop" / "cards" / "elastic_block"
    installed.mkdir(parents=True)
    (installed / "README.md").write_text("# Elastic block\n")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "meshop" / "datasets" / "cards.py"))
    assert card("elastic_block") == installed
    with pytest.raises(InputError, match="no data card of the name 'plates'"):
        card("plates")
