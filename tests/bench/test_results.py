import dataclasses
import math
from typing import Any

from meshop.bench import Trial, to_markdown


def trial(model: str, seed: int = 0, minutes: float = 2, **other: Any) -> Trial:
    return Trial("a", model, seed, minutes, {"class_path": model}, {}, {}, **other)


def row(trial: Trial, relative_l2: float, **other: str) -> dict[str, str]:
    numbers = {"relative_l2:u": f"{relative_l2}", "mean_predictor:u": "0.5", "parameters": "12345"}
    numbers |= {"seconds_a_step": "0.0123", "epochs": "7", "training_memory_gb": "0.051"}
    numbers |= {"date": f"2026-01-0{1 + trial.seed}", "machine": "M, 2 threads", "torch": "2.0"}
    about = {"benchmark": "a", "model": trial.name, "seed": f"{trial.seed}", "minutes": trial.budget}
    return about | {"settings": trial.settings, "error": ""} | numbers | other


def test_the_table_is_the_mean_over_seeds() -> None:
    trials = [trial(model, seed) for model in ("one", "two", "three") for seed in (0, 1)]
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


def test_published_errors_stand_beside_ours_with_data_and_budget() -> None:
    trials = [trial("one", minutes=math.inf, paper="4e-3 (P; 500 epochs)"), trial("two", minutes=math.inf)]
    swept = [trial("two", sweep="samples", value=n, samples=n, minutes=math.inf) for n in (200, 1000)]
    counts = [{"train_meshes": str(t.samples or 1000), "test_meshes": "200"} for t in (*trials, *swept)]
    rows = [row(t, 0.1 + i, **counts[i]) for i, t in enumerate((*trials, *swept)) if i != 1]
    lines = to_markdown(rows, trials + swept).splitlines()
    assert lines[2] == "| model | u | parameters | ms a step | epochs | memory, GB | published |"
    assert lines[4] == "| one | **0.1000** | 12,345 | 12.3 | 7 | 0.051 | 4e-3 (P; 500 epochs) |"
    assert lines[5] == "| two | not run |  |  |  |  |  |"
    assert lines[6].startswith("| two-samples=200 | 2.1000 | 12,345 |")
    assert {line.count("|") for line in lines[2:9]} == {8}
    assert lines[10].startswith(
        "Test relative L2; 200 to 1,000 training and 200 test meshes; all epochs of each recipe, seed 0; 2026-01-01; "
    )
