"""Models compared at equal budgets: every benchmark x model x seed of a suite, in one results file, with pictures."""

from meshop.bench.plots import curves, draw, rainclouds
from meshop.bench.results import to_markdown
from meshop.bench.run import bench, epochs_within, measure_step, run_trial
from meshop.bench.suite import BUDGETS, Trial, choose, read_suite

__all__ = [
    "BUDGETS",
    "Trial",
    "bench",
    "choose",
    "curves",
    "draw",
    "epochs_within",
    "measure_step",
    "rainclouds",
    "read_suite",
    "run_trial",
    "to_markdown",
]
