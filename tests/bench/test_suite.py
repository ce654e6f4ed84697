import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from meshop.bench import choose, read_suite
from meshop.checkpoint import build, from_config
from meshop.data import InputError
from meshop.datasets import BENCHMARKS
from meshop.datasets import cards as places

SUITES = sorted(path.stem for path in (Path(__file__).parents[2] / "datasets" / "suites").glob("*.yaml"))
PLATE = {"minutes": 1, "seeds": [0]}


def test_later_sections_win(written: Any, small_suite: dict[str, Any]) -> None:
    given, plate = small_suite["models"], small_suite["data"]["plate_with_holes"]
    own = {"models": {"CANO": {"init_args": {"heads": 4}, "recipe": {"clip": 0.5}}}, "recipe": {"batch_size": 5}}
    models = {"CANO": given["CANO"] | {"recipe": {"lr": 2.0}}, "Missing": given["Missing"]}
    trials = read_suite(written(models=models, data={"plate_with_holes": plate | own}))
    assert [(t.model, t.seed) for t in trials] == [(m, s) for m in ("CANO", "Missing") for s in (0, 1)]
    assert trials[0].recipe == {"batch_size": 5, "lr": 2.0, "clip": 0.5}
    assert trials[0].choice["init_args"] == given["CANO"]["init_args"] | {"heads": 4}
    assert trials[2].recipe == {"batch_size": 5, "lr": 0.01}
    assert len({t.settings for t in trials}) == 2


def test_a_model_may_be_the_recipes_of_the_benchmarks(written: Any) -> None:
    data = {
        "darcy": {"models": {"LaMO": {"data_args": {"stride": 2}}}, "data_args": {"stride": 3}, "minutes": 2},
        "airfoil": None,
        "darcy_small": {"seeds": [7]},
    }
    path = written(models={"LaMO": "lamo", "FNO": "fno"}, seeds=[3, 4], data=data)
    trials = read_suite(path)
    assert [(str(t), t.seed, t.budget) for t in trials] == [
        ("darcy LaMO", 3, "2"),
        ("darcy LaMO", 4, "2"),
        ("airfoil LaMO", 3, "full"),
        ("airfoil LaMO", 4, "full"),
        ("darcy_small FNO", 7, "full"),
    ]
    recipe = yaml.safe_load((places.card("darcy") / "lamo.yaml").read_text())
    assert trials[0].choice == recipe["model"]
    assert trials[0].recipe == {k: recipe[k] for k in ("epochs", "batch_size", "lr", "weight_decay", "clip", "h1")}
    assert trials[0].data_args == {"stride": 2}
    assert trials[2].recipe["epochs"] == 500


def test_a_recipe_may_say_what_train_knows(written: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cards" / "darcy"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# Darcy")
    recipe = {"model": {"class_path": "a.B"}, "seed": 5, "epochs": 3}
    (folder / "own.yaml").write_text(yaml.safe_dump(recipe))
    monkeypatch.setattr(places, "_places", lambda: [tmp_path / "cards"])
    path = written(models={"B": "own"}, data={"darcy": {"seeds": [0]}}, recipe={})
    assert read_suite(path)[0].recipe == {"epochs": 3}
    (folder / "own.yaml").write_text(yaml.safe_dump(recipe | {"knn": 8}))
    with pytest.raises(InputError, match=r"Expected model, data_args, rollout, epochs, .* in .*own.yaml \(got 'knn'\)"):
        read_suite(path)


def test_a_sweep_sets_the_argument_wherever_it_stands(written: Any) -> None:
    lift = {"class_path": "meshop.nn.Lift", "init_args": {"in_channels": 8, "hidden_channels": 16}}
    models = {
        "A": {"class_path": "m.A", "init_args": {"hidden_channels": 16, "lift": lift, "num_clusters": 4}},
        "B": {"class_path": "m.B", "init_args": {"width": 16}, "recipe": {"lr": 1.0}},
    }
    sweep = {"hidden_channels": [8, 32], "samples": [2], "lr": [0.5]}
    data = {"plate_with_holes": PLATE | {"paper": {"A-hidden_channels=8": "0.1 (here)"}}}
    trials = read_suite(written(models=models, sweep=sweep, data=data, recipe={"batch_size": 1}))
    assert [(t.name, t.value, t.samples) for t in trials] == [
        ("A-hidden_channels=8", 8, None),
        ("A-hidden_channels=32", 32, None),
        ("A-samples=2", 2, 2),
        ("B-samples=2", 2, 2),
        ("B-lr=0.5", 0.5, None),
    ]
    for trial, width in zip(trials, (8, 32, 16), strict=False):
        arguments = trial.choice["init_args"]
        assert (arguments["hidden_channels"], arguments["lift"]["init_args"]["hidden_channels"]) == (width, width)
    assert trials[4].recipe == {"batch_size": 1, "lr": 0.5}
    assert [t.paper for t in trials] == ["0.1 (here)", "", "", "", ""]
    assert len({t.settings for t in trials}) == 5
    assert choose(trials, models=["B"]) == trials[3:]


def test_settings_are_those_of_earlier_results(written: Any) -> None:
    trials = read_suite("real")
    digests = {(t.benchmark, t.model): t.settings for t in trials}
    assert digests["holed_poisson", "CANO"] == digests["elastic_block", "CANO"] == "2f757f8a"
    assert digests["elastic_block", "FNO"] == "36e3b9a3"
    assert trials[0].settings == dataclasses.replace(trials[0], minutes=3, seed=9, paper="0.1").settings


def test_choice_of_trials(written: Any) -> None:
    trials = read_suite(written())
    chosen = choose(trials, models=["CANO"], seeds=[5, 6], minutes=math.inf)
    assert [(t.model, t.seed, t.budget) for t in chosen] == [("CANO", 5, "full"), ("CANO", 6, "full")]
    assert choose(trials) == trials


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"modles": {}},
            r"Expected models, data, recipe, rollout, seeds, minutes, sweep in .*yaml \(got 'modles'\) \(did you mean",
        ),
        ({"models": {"CANO": {"init_args": {}}}}, "Expected class_path in .*, model CANO"),
        (
            {"models": {"CANO": ["CANO"]}},
            r"Expected class_path, init_args, recipe, rollout in .*, model CANO \(got \['CANO'\]",
        ),
        ({"models": {"CANO": "canoo"}}, "None of the benchmarks of .*suite.yaml has a recipe canoo.yaml for CANO"),
        ({"data": {"plate_with_hole": PLATE}}, r"no benchmark 'plate_with_hole' \(did you mean 'plate_with_holes'"),
        ({"data": {"plate_with_holes": {"minutes": 1}}}, "Expected seeds in .*, data plate_with_holes"),
        ({"data": {"plate_with_holes": 3}}, r"Expected seeds, minutes, .*, data plate_with_holes \(got 3\)"),
        (
            {"data": {"elastic_block": PLATE | {"models": {"CAMO": {}}}}},
            r"no model 'CAMO' \(did you mean 'CANO'\?\); there are CANO, Missing",
        ),
        ({"data": {"elastic_block": PLATE | {"paper": {"CAMO": "0.1"}}}}, "no model 'CAMO'"),
        ({"sweep": {"num_slices": [1]}}, "None of the models of .* has the argument num_slices to sweep"),
        ({"sweep": {"lr": [1, "2"]}}, r"Expected a list of positive numbers for sweep lr in .* \(got \[1, '2'\]\)"),
        ({"sweep": {"lr": 1}}, r"Expected a list of positive numbers for sweep lr in .* \(got 1\)"),
    ],
)
def test_errors_in_a_suite(other: dict[str, Any], message: str, written: Any) -> None:
    with pytest.raises(InputError, match=message):
        read_suite(written(**other))


@pytest.mark.parametrize("suite", SUITES)
def test_the_suites_of_the_package_build_their_models(suite: str) -> None:
    trials = read_suite(suite)
    assert all(t.benchmark in BENCHMARKS and (t.budget != "full" or t.recipe["epochs"] > 1) for t in trials)
    for trial in {(t.benchmark, t.model, t.sweep): t for t in reversed(trials)}.values():
        description = from_config(trial.choice)
        lift = description["args"].get("lift", {"args": {}})["args"]
        description["args"] |= {"in_channels": lift.get("in_channels", 3), "out_channels": 1}
        with torch.device("meta"):
            assert isinstance(build(description), torch.nn.Module)
