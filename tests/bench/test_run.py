import csv
import dataclasses
import math
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml

import meshop.bench.run as module
from meshop.bench import bench, choose, epochs_within, measure_step, read_suite
from meshop.cli import main
from meshop.data import InputError


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, small_suite: dict[str, Any]) -> Path:
    """A directory with the suite, ``suite.yaml``, and its results, made in this process."""
    path = tmp_path_factory.mktemp("bench")
    (path / "suite.yaml").write_text(yaml.safe_dump(small_suite, sort_keys=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_apart", lambda function, *args: function(*args))
        assert main(call(path)) == 0
    return path


def call(path: Path, *more: str) -> list[str]:
    places = ["--out", str(path / "out"), "--root", str(path / "data"), "--device", "cpu"]
    return ["bench", "--suite", str(path / "suite.yaml"), *places, *more]


def test_a_row_a_run_and_the_rest_goes_on_after_a_failure(done: Path) -> None:
    rows = sorted(read(done / "out" / "results.csv"), key=lambda row: (row["model"], row["seed"]))
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
        assert (row["train_meshes"], row["test_meshes"]) == ("3", "1")
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
    assert (
        "; 3 training and 1 test meshes; 1e-06 minutes of training a run, mean ± deviation of seeds 0, 1;" in lines[8]
    )
    assert "`meshop bench --suite suite`." in lines[8]
    assert (done / "out" / "plate_with_holes.png").read_bytes().startswith(b"\x89PNG")


def test_done_runs_stay_and_failed_ones_are_tried_again(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def record(function: Any, trial: Any, *args: Any) -> dict[str, str]:
        calls.append((function.__name__, trial.model, trial.seed))
        if trial.model == "Missing":
            raise RuntimeError("again\nmissing")
        return {"relative_l2:displacement": "0.1", "seconds": "1", "seconds_a_step": "1", "machine": "M"}

    monkeypatch.setattr(module, "_apart", record)
    trials, out = read_suite(done / "suite.yaml"), tmp_path / "out"
    shutil.copytree(done / "out", out)
    bench(trials, out)
    assert calls == [("measure_step", "Missing", 1)]  # once, whatever the seed
    assert [r["error"] for r in read(out / "results.csv")][2:] == ["RuntimeError: again missing"] * 2
    calls.clear()
    bench(trials, out, only_steps=True)
    assert calls == [("measure_step", "Missing", 1)]
    calls.clear()
    bench(choose(trials, models=["CANO"], seeds=[1, 2], minutes=1e-6), out)
    assert calls == [("run_trial", "CANO", 2)]
    calls.clear()
    bench(choose(trials, models=["CANO"], seeds=[0], minutes=3), out)
    assert calls == [("run_trial", "CANO", 0)]
    calls.clear()
    bench([dataclasses.replace(trials[0], recipe={"lr": 0.1})], out, only_steps=True)
    assert calls == [("measure_step", "CANO", 0)]
    calls.clear()
    bench([dataclasses.replace(trials[0], samples=2, sweep="samples", value=2)], out)
    assert calls == [("measure_step", "CANO", 0), ("run_trial", "CANO", 0)]
    assert read(out / "results.csv")[-1]["model"] == "CANO-samples=2"


def test_steps_are_timed_alone_and_runs_are_side_by_side(
    written: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(2, timeout=30)
    running: list[str] = []

    def record(function: Any, trial: Any, *args: Any) -> dict[str, str]:
        running.append(function.__name__)
        if function.__name__ == "measure_step":
            time.sleep(0.01)
            assert running == ["measure_step"]
        else:
            together.wait()  # for the other, or an error
        running.remove(function.__name__)
        return {"seconds_a_step": "1", "machine": "M", "seconds": "1"}

    monkeypatch.setattr(module, "_apart", record)
    rows = bench(read_suite(written()), tmp_path / "out", workers=2)
    assert sorted((r["model"], r["seed"], r["error"]) for r in rows) == [
        (model, seed, "") for model in ("CANO", "Missing") for seed in ("0", "1")
    ]
    assert {r["machine"] for r in rows} == {"M"}


def test_on_ray_a_trial_is_a_task(written: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class RayTaskError(Exception):
        def __init__(self, cause: Exception) -> None:
            super().__init__("traceback of the worker")
            self.cause = cause

    class Ray(SimpleNamespace):
        """What is used of Ray's interface, in this process."""

        exceptions = SimpleNamespace(RayTaskError=RayTaskError)
        begun = 0

        def is_initialized(self) -> bool:
            return self.begun > 0

        def init(self) -> None:
            self.begun += 1

        def remote(self, **options: Any) -> Any:
            assert options == {"num_cpus": 1, "num_gpus": int(torch.cuda.is_available()), "max_calls": 1}
            return lambda function: SimpleNamespace(remote=lambda *args: (function, args))

        def get(self, task: Any) -> dict[str, str]:
            function, (trial, *_) = task
            if trial.model == "Missing":
                raise RayTaskError(InputError("no such model"))
            return {"seconds_a_step": "1", "machine": function.__name__, "seconds": "1"}

    ray = Ray()
    monkeypatch.setitem(sys.modules, "ray", ray)  # type: ignore[arg-type]
    rows = bench(read_suite(written()), tmp_path / "out", workers="ray")
    assert sorted((r["model"], r["error"], r.get("machine")) for r in rows) == [
        *[("CANO", "", "measure_step")] * 2,
        *[("Missing", "no such model", None)] * 2,
    ]
    bench(read_suite(written()), tmp_path / "out", workers="ray")
    assert ray.begun == 1
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"--workers ray needs the package ray: pip install 'meshop\[ray\]'"):
        bench(read_suite(written()), tmp_path / "out", workers="ray")


def test_what_cannot_be_run(written: Any, tmp_path: Path) -> None:
    trials = read_suite(written())
    with pytest.raises(InputError, match=r"Expected one worker or more, or ray \(got 0\)"):
        bench(trials, tmp_path / "out", workers=0)
    with pytest.raises(InputError, match="Expected epochs in the recipe of plate_with_holes CANO to train in full"):
        bench(choose(trials, minutes=math.inf), tmp_path / "out")
    some = dataclasses.replace(trials[0], samples=4)
    with pytest.raises(InputError, match=r"Expected from 1 to 3 samples of plate_with_holes \(got 4\)"):
        measure_step(some, tmp_path / "data", "cpu")


def test_runs_have_processes_of_their_own(written: Any, tmp_path: Path) -> None:
    trial = dataclasses.replace(read_suite(written())[0], samples=2)
    row = module._apart(measure_step, trial, tmp_path / "data", "cpu")
    assert float(row["seconds_a_step"]) > 0
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        module._apart(math.sqrt, -1.0)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="the process was killed; perhaps memory ran out"):
        module._apart(os._exit, 1)


@pytest.mark.parametrize(
    ("minutes", "seconds", "steps", "most", "epochs"),
    [
        (1, 0.1, 100, math.inf, 6),
        (1, 0.11, 100, math.inf, 5),
        (0.1, 1.0, 100, math.inf, 1),
        (5, 0.03, 4, math.inf, 2500),
        (5, 0.03, 4, 500, 500),
        (math.inf, 0.03, 4, 500, 500),
    ],
)
def test_epochs_are_as_many_as_fit(minutes: float, seconds: float, steps: int, most: float, epochs: int) -> None:
    assert epochs_within(minutes, seconds, steps, most) == epochs


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


def test_unknown_names(written: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written()
    assert main(call(tmp_path, "--models", "CANOO")) == 1
    assert "no model 'CANOO' (did you mean 'CANO'?); there are CANO, Missing" in capsys.readouterr().err
    assert main(call(tmp_path, "--data", "elastic_block")) == 1
    assert "no benchmark 'elastic_block'; there are plate_with_holes" in capsys.readouterr().err
    assert main(["bench", "--suite", "reel"]) == 1
    assert "There is no suite 'reel' (did you mean 'real'?)" in capsys.readouterr().err
    assert main(call(tmp_path, "--minutes", "1", "--budget", "hour")) == 1
    assert "Give --budget or --minutes, not both" in capsys.readouterr().err
    assert main(call(tmp_path, "--budget", "full")) == 1
    assert "Expected epochs in the recipe of plate_with_holes CANO to train in full" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
