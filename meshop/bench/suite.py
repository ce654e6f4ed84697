"""What is compared: a YAML file that names benchmarks, models, seeds, a budget and what is varied."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from meshop.data import InputError, did_you_mean
from meshop.datasets import BENCHMARKS, card, suite
from meshop.train import Recipe

BUDGETS = {"full": math.inf, "hour": 60.0, "minutes": 5.0}
"""Minutes of training a run; ``full`` is all epochs of its recipe."""


@dataclass(frozen=True)
class Trial:
    """One run of a suite: a model on a benchmark with a seed and a budget.

    Args:
        benchmark: name in :data:`meshop.datasets.BENCHMARKS`.
        model: its name in the suite.
        seed: of weights and order.
        minutes: of training, and no more epochs than its recipe has; infinite for all of them.
        choice: the model's class and arguments, ``class_path`` and ``init_args``.
        recipe: arguments of :class:`~meshop.train.Recipe`, without seed.
        data_args: arguments of the data set, without its root.
        test_args: those of the data set whose test split counts, where they differ: more frames of a rollout, say.
        rollout: arguments of :class:`~meshop.rollout.Rollout`, without ``T_in``; ``None`` for none.
        samples: how many of the training meshes are used, the first; ``None`` for all.
        sweep: the argument that is varied, if one is.
        value: what it is in this trial.
        paper: the published error, with its source, data and budget.
    """

    benchmark: str
    model: str
    seed: int
    minutes: float
    choice: dict[str, Any]
    recipe: dict[str, Any]
    data_args: dict[str, Any]
    test_args: dict[str, Any] | None = None
    rollout: dict[str, Any] | None = None
    samples: int | None = None
    sweep: str = ""
    value: float = math.nan
    paper: str = ""

    @property
    def name(self) -> str:
        """The model, with the argument that is varied."""
        return f"{self.model}-{self.sweep}={self.value:g}" if self.sweep else self.model

    @property
    def budget(self) -> str:
        """The minutes, or ``full``."""
        return "full" if math.isinf(self.minutes) else f"{self.minutes:g}"

    @property
    def settings(self) -> str:
        """A digest of what is trained and how, without seed and minutes."""
        parts: list[Any] = [self.choice, self.recipe, self.data_args]
        parts += [part for part in (self.rollout, self.samples, self.test_args) if part is not None]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:8]

    def __str__(self) -> str:
        return f"{self.benchmark} {self.name}"


def read_suite(name: str | Path) -> list[Trial]:
    """All trials of a suite: a YAML file, or the name of one in ``datasets/suites``.

    ``models`` names each model with its ``class_path`` and ``init_args``, or with the stem of its recipes: ``cano``
    stands for ``datasets/BENCHMARK/cano.yaml``, and benchmarks without that file leave the model out. ``data`` names
    each benchmark. ``seeds`` and ``minutes`` stand in the suite or a benchmark; without minutes training is full.

    A ``recipe`` may stand in the suite, a model, a benchmark, the file of a recipe and the ``models`` of a benchmark,
    the last of which wins. A benchmark may also have ``data_args``, ``test_args``, ``samples``, and published errors as
    ``paper``.

    ``sweep`` names arguments and the values that each takes in turn. An argument is ``samples``, or is set wherever it
    stands in the model, in modules given to it, in the recipe and in ``data_args``; only models with it take part.

    Raises:
        InputError: there is no such suite; it has unknown keys, benchmarks or models; it lacks one that is needed.
    """
    path = Path(name) if Path(name).suffix in (".yaml", ".yml") else suite(str(name))
    whole = _section(_load(path), str(path), ("models", "data"), ("recipe", "rollout", "seeds", "minutes", "sweep"))
    models = {
        model: choice
        if isinstance(choice, str)
        else _section(choice, f"{path}, model {model}", ("class_path",), ("init_args", "recipe", "rollout"))
        for model, choice in whole["models"].items()
    }
    trials: list[Trial] = []
    without = set(models)
    for benchmark, given in whole["data"].items():
        _known(benchmark, list(BENCHMARKS), "benchmark")
        where = f"{path}, data {benchmark}"
        defaults = {key: whole[key] for key in ("seeds", "minutes") if key in whole}
        needed = () if "seeds" in whole else ("seeds",)
        allowed = ("seeds", "minutes", "recipe", "data_args", "test_args", "rollout", "samples", "models", "paper")
        own = defaults | _section({} if given is None else given, where, needed, allowed)
        for model in own.get("models", {}):
            _known(model, list(models), "model")
        plain = [_trial(benchmark, model, choice, whole, own, where) for model, choice in models.items()]
        found = [t for t in plain if t is not None]
        without -= {t.model for t in found}
        if "sweep" in whole:
            found = [swept for t in found for swept in _swept(t, whole["sweep"], where)]
        papers = own.get("paper", {})
        for row in papers:
            _known(row, [t.name for t in found], "model")
        found = [dataclasses.replace(t, paper=str(papers.get(t.name, ""))) for t in found]
        trials += [dataclasses.replace(t, seed=seed) for t in found for seed in own["seeds"]]
    for model in sorted(without):
        raise InputError(f"None of the benchmarks of {path} has a recipe {models[model]}.yaml for {model}")
    for name in whole.get("sweep", {}):
        if name not in {t.sweep for t in trials}:
            raise InputError(f"None of the models of {path} has the argument {name} to sweep")
    return trials


def choose(
    trials: Sequence[Trial],
    data: Sequence[str] = (),
    models: Sequence[str] = (),
    seeds: Sequence[int] = (),
    minutes: float | None = None,
) -> list[Trial]:
    """The trials of these benchmarks and models, with these seeds and minutes; nothing given keeps the suite's own.

    Raises:
        InputError: the suite has no benchmark or model of that name.
    """
    for what, names in (("benchmark", data), ("model", models)):
        for name in names:
            _known(name, list(dict.fromkeys(getattr(t, what) for t in trials)), what)
    chosen = [t for t in trials if t.benchmark in (data or [t.benchmark]) and t.model in (models or [t.model])]
    if seeds:
        chosen = [t for t in chosen if t.seed == next(o.seed for o in trials if o.benchmark == t.benchmark)]
        chosen = [dataclasses.replace(t, seed=seed) for t in chosen for seed in seeds]
    return chosen if minutes is None else [dataclasses.replace(t, minutes=minutes) for t in chosen]


def _trial(
    benchmark: str, model: str, choice: Any, whole: Mapping[str, Any], own: Mapping[str, Any], where: str
) -> Trial | None:
    """A model on a benchmark, from all sections that speak of it; none where its recipe is not there."""
    given = _read_recipe(benchmark, choice) if isinstance(choice, str) else choice
    if given is None:
        return None
    special = own.get("models", {}).get(model, {})
    special = _section(special, f"{where}, model {model}", (), ("init_args", "recipe", "data_args", "rollout"))
    sections = [whole, own, given, special] if isinstance(choice, str) else [whole, given, own, special]

    def merged(key: str) -> dict[str, Any]:
        return {name: value for section in sections for name, value in section.get(key, {}).items()}

    whole_choice = {"class_path": given["class_path"], "init_args": merged("init_args")}
    rollout = merged("rollout") if any("rollout" in section for section in sections) else None
    rest = (whole_choice, merged("recipe"), merged("data_args"), own.get("test_args"), rollout, own.get("samples"))
    return Trial(benchmark, model, 0, own.get("minutes", math.inf), *rest)


def _read_recipe(benchmark: str, stem: str) -> dict[str, Any] | None:
    """The recipe ``datasets/BENCHMARK/STEM.yaml``, where there is one, in the sections of a suite."""
    path = card(benchmark) / f"{stem}.yaml"
    if not path.exists():
        return None
    arguments = [field.name for field in dataclasses.fields(Recipe)]
    content = _section(_load(path), str(path), ("model",), ("data_args", "rollout", *arguments))
    recipe = {key: value for key, value in content.items() if key in arguments and key != "seed"}
    rest = {key: content[key] for key in ("data_args", "rollout") if key in content}
    return content["model"] | {"recipe": recipe} | rest


def _swept(trial: Trial, sweep: Mapping[str, Sequence[float]], where: str) -> Iterator[Trial]:
    """The trial with each value of each argument that it has."""
    for name, values in sweep.items():
        if not (isinstance(values, list) and all(isinstance(v, int | float) and v > 0 for v in values)):
            raise InputError(f"Expected a list of positive numbers for sweep {name} in {where} (got {values!r})")
        parts = (trial.choice, trial.recipe, trial.data_args)
        for value in values:
            changed = dataclasses.replace(trial, sweep=name, value=value)
            if name == "samples":
                yield dataclasses.replace(changed, samples=int(value))
            elif any(name in _arguments(part) for part in parts):
                choice, recipe, data_args = (_with(part, name, value) for part in parts)
                yield dataclasses.replace(changed, choice=choice, recipe=recipe, data_args=data_args)


def _arguments(part: Any) -> Iterator[str]:
    """The names of all arguments, those of modules in modules too."""
    for key, value in part.items() if isinstance(part, dict) else ():
        yield key
        yield from _arguments(value)


def _with(part: Any, name: str, value: float) -> Any:
    """A copy in which every argument of that name has the value."""
    if not isinstance(part, dict):
        return part
    return {key: value if key == name else _with(inner, name, value) for key, inner in part.items()}


def _load(path: Path) -> Any:
    with path.open() as file:
        return yaml.safe_load(file)


def _section(value: Any, where: str, needed: Sequence[str], allowed: Sequence[str]) -> dict[str, Any]:
    """A mapping of the suite with these keys."""
    known = list(dict.fromkeys((*needed, *allowed)))
    if not isinstance(value, dict):
        raise InputError(f"Expected {', '.join(known)} in {where} (got {value!r})")
    for key in value:
        if key not in known:
            raise InputError(f"Expected {', '.join(known)} in {where} (got '{key}'){did_you_mean(str(key), known)}")
    for key in needed:
        if key not in value:
            raise InputError(f"Expected {key} in {where}")
    return value


def _known(name: str, names: list[str], what: str) -> None:
    if name not in names:
        raise InputError(f"There is no {what} '{name}'{did_you_mean(name, names)}; there are {', '.join(names)}")
