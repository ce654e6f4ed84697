import csv
import dataclasses
import math
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml

import meshop.bench as module
from meshop.bench import Trial, bench, choose, epochs_within, measure_step, read_suite, to_markdown
from meshop.cli import main
from meshop.data import InputError

SMALL = {"hidden_channels": 8, "num_layers": 1, "heads": 2}
SUITE: dict[str, Any] = {
    "recipe": {"batch_size": 2, "lr": 0.01},
    "models": {
        "CANO": {"class_path": "meshop.models.CANO", "init_args": SMALL | {"num_clusters": 3}},
        "Missing": {"class_path": "meshop.models.Missing"},
    },
    "data": {"plate_with_holes": {"minutes": 1e-6, "seeds": [0, 1], "data_args": {"num_samples": 4}}},
}


def written(path: Path, **other: Any) -> Path:
    path.write_text(yaml.safe_dump(SUITE | other))
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the suite, ``suite.yaml``, and its results, made in this process."""
    path = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_apart", lambda function, *args: function(*args))
        assert main(call(path)) == 0
    return path


def call(path: Path, *more: str) -> list[str]:
    suite = path / "suite.yaml"
    suite = suite if suite.exists() else written(suite)
    places = ["--out", str(path / "out"), "--root", str(path / "data"), "--device", "cpu"]
    return ["bench", "--suite", str(suite), *places, *more]


def test_a_row_a_run_and_the_rest_goes_on_after_a_failure(done: Path) -> None:
    rows = read(done / "out" / "results.csv")
    assert [(r["model"], r["seed"]) for r in rows] == [(m, s) for m in ("CANO", "Missing") for s in ("0", "1")]
    for row in rows[2:]:
        assert "meshop.models.Missing" in row["error"]
        assert row["epochs"] == ""
    for row in rows[:2]:
        assert row["error"] == ""
        assert row["epochs"] == "1"
        assert 0 < float(row["seconds_a_step"]) < 10
        assert 0 <= float(row["seconds"]) < 60
        assert int(row["parameters"]) > 100
        assert row["machine"]
        for field in ("displacement", "von_mises"):
            evaluation = done / "out" / "plate_with_holes" / "CANO" / row["seed"] / "evaluation.csv"
            (error,) = [r["relative_l2"] for r in read(evaluation) if r["field"] == field]  # one test plate
            assert float(row[f"relative_l2:{field}"]) == pytest.approx(float(error), rel=1e-5)
            assert float(row[f"mean_predictor:{field}"]) > 0
    assert rows[0]["relative_l2:displacement"] != rows[1]["relative_l2:displacement"]
    (step,) = read(done / "out" / "steps.csv")
    assert {row["seconds_a_step"] for row in rows[:2]} == {step["seconds_a_step"]}


def test_the_report_names_all_models(done: Path) -> None:
    lines = (done / "out" / "results.md").read_text().splitlines()
    assert lines[0] == "## plate_with_holes"
    assert lines[2].startswith("| model | displacement | von_mises | parameters | ms a step | epochs | memory")
    assert lines[4].startswith("| CANO | **")
    assert " ± " in lines[4]
    assert lines[5].startswith("| Missing | failed: ")
    assert lines[6].startswith("| mean of the training set | 0.")
    assert {line.count("|") for line in lines[2:7]} == {8}
    assert "1e-06 minutes of training a run, mean ± deviation of seeds 0, 1; 2" in lines[8]
    assert "`meshop bench --suite suite`." in lines[8]


def test_done_runs_stay_and_failed_ones_are_tried_again(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def record(function: Any, trial: Trial, *args: Any) -> dict[str, str]:
        calls.append((function.__name__, trial.model, trial.seed))
        if trial.model == "Missing":
            raise RuntimeError("again\nmissing")
        return {"relative_l2:displacement": "0.1", "seconds": "1"}

    monkeypatch.setattr(module, "_apart", record)
    trials, out = read_suite(done / "suite.yaml"), tmp_path / "out"
    shutil.copytree(done / "out", out)
    bench(trials, out)
    assert calls == [("measure_step", "Missing", 0), ("measure_step", "Missing", 1)]
    assert [r["error"] for r in read(out / "results.csv")][2:] == ["RuntimeError: again missing"] * 2
    calls.clear()
    bench(trials, out, only_steps=True)
    assert calls == [("measure_step", "Missing", 1)]  # once, whatever the seed
    calls.clear()
    bench(choose(trials, models=["CANO"], seeds=[1, 2], minutes=1e-6), out)
    assert calls == [("run_trial", "CANO", 2)]
    calls.clear()
    bench(choose(trials, models=["CANO"], seeds=[0], minutes=3), out)
    assert calls == [("run_trial", "CANO", 0)]
    calls.clear()
    bench([dataclasses.replace(trials[0], recipe={"lr": 0.1})], out, only_steps=True)
    assert calls == [("measure_step", "CANO", 0)]


def test_runs_have_processes_of_their_own(tmp_path: Path) -> None:
    trial = read_suite(written(tmp_path / "suite.yaml"))[0]
    row = module._apart(measure_step, trial, tmp_path / "data", "cpu")
    assert float(row["seconds_a_step"]) > 0
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        module._apart(math.sqrt, -1.0)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="the process was killed; perhaps memory ran out"):
        module._apart(os._exit, 1)


@pytest.mark.parametrize(
    ("minutes", "seconds", "steps", "epochs"),
    [(1, 0.1, 100, 6), (1, 0.11, 100, 5), (0.1, 1.0, 100, 1), (5, 0.03, 4, 2500)],
)
def test_epochs_are_as_many_as_fit(minutes: float, seconds: float, steps: int, epochs: int) -> None:
    assert epochs_within(minutes, seconds, steps) == epochs


def test_memory_of_training_is_what_it_took_beyond_the_rest() -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("needs Linux")
    earlier = bytearray(200_000_000)
    del earlier
    memory = module.Memory()
    memory.on_train_start(None, SimpleNamespace(device=torch.device("cpu")))  # type: ignore[arg-type]
    during = bytearray(50_000_000)
    assert 0.04 < float(memory.text()) < 0.1
    del during


def test_the_table_is_the_mean_over_seeds() -> None:
    trials = [
        Trial("a", model, seed, 2, {"class_path": model}, {}, {})
        for model in ("one", "two", "three")
        for seed in (0, 1)
    ]

    def row(trial: Trial, relative_l2: float, **other: str) -> dict[str, str]:
        numbers = {"relative_l2:u": f"{relative_l2}", "mean_predictor:u": "0.5", "parameters": "12345"}
        numbers |= {"seconds_a_step": "0.0123", "epochs": "7", "training_memory_gb": "0.051"}
        numbers |= {"date": f"2026-01-0{1 + trial.seed}", "machine": "M, 2 threads", "torch": "2.0"}
        about = {"benchmark": "a", "model": trial.model, "seed": f"{trial.seed}", "minutes": f"{trial.minutes:g}"}
        return about | {"settings": trial.settings, "error": ""} | numbers | other

    rows = [row(trials[0], 0.1), row(trials[1], 0.3), row(trials[2], 0.15), row(trials[3], 9.0, error="E: no")]
    rows.append(row(dataclasses.replace(trials[4], minutes=3), 0.01))  # of another budget
    assert to_markdown(rows, trials, "meshop bench") == (
        "## a\n\n"
        "| model | u | parameters | ms a step | epochs | memory, GB |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| one | 0.2000 ± 0.1414 | 12,345 | 12.3 | 7 | 0.051 |\n"
        "| two (1 more failed) | **0.1500** | 12,345 | 12.3 | 7 | 0.051 |\n"
        "| three | not run |  |  |  |  |\n"
        "| mean of the training set | 0.5000 |  |  |  |  |\n\n"
        "Test relative L2; 2 minutes of training a run, mean ± deviation of seeds 0, 1; 2026-01-01 to 2026-01-02; "
        "M, 2 threads; torch 2.0; `meshop bench`.\n"
    )


def test_later_sections_of_a_suite_win(tmp_path: Path) -> None:
    models = {"CANO": SUITE["models"]["CANO"] | {"recipe": {"lr": 2.0}}, "Missing": SUITE["models"]["Missing"]}
    own = {"models": {"CANO": {"init_args": {"heads": 4}}}, "recipe": {"batch_size": 5}}
    data = {"plate_with_holes": SUITE["data"]["plate_with_holes"] | own}
    trials = read_suite(written(tmp_path / "suite.yaml", models=models, data=data))
    assert [(t.model, t.seed) for t in trials] == [(m, s) for m in ("CANO", "Missing") for s in (0, 1)]
    assert trials[0].recipe == {"batch_size": 5, "lr": 2.0}
    assert trials[0].choice["init_args"] == SMALL | {"num_clusters": 3, "heads": 4}
    assert trials[2].recipe == {"batch_size": 5, "lr": 0.01}
    assert len({t.settings for t in trials}) == 2


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"modles": {}}, r"Expected models, data, recipe in .*suite.yaml \(got 'modles'\) \(did you mean 'models'\?\)"),
        ({"models": {"CANO": {"init_args": {}}}}, "Expected class_path in .*, model CANO"),
        ({"models": {"CANO": "CANO"}}, r"Expected class_path, init_args, recipe in .*, model CANO \(got 'CANO'\)"),
        ({"data": {"plate_with_hole": {"minutes": 1, "seeds": [0]}}}, r"no benchmark 'plate_with_hole' \(did you mean"),
        (
            {"data": {"elastic_block": {"minutes": 1, "seeds": [0], "models": {"CAMO": {}}}}},
            r"no model 'CAMO' \(did you mean 'CANO'\?\); there are CANO, Missing",
        ),
    ],
)
def test_errors_in_a_suite(other: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_suite(written(tmp_path / "suite.yaml", **other))


def test_unknown_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(call(tmp_path, "--models", "CANOO")) == 1
    assert "no model 'CANOO' (did you mean 'CANO'?); there are CANO, Missing" in capsys.readouterr().err
    assert main(call(tmp_path, "--data", "elastic_block")) == 1
    assert "no benchmark 'elastic_block'; there are plate_with_holes" in capsys.readouterr().err
    assert main(["bench", "--suite", "reel"]) == 1
    assert "There is no suite 'reel' (did you mean 'real'?)" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_suites_of_the_package_build_their_models() -> None:
    from meshop.checkpoint import build, from_config

    for trial in read_suite("real"):
        description = from_config(trial.choice)
        description["args"] |= {"in_channels": 3, "out_channels": 1}
        assert isinstance(build(description), torch.nn.Module)
