"""Pages that are made from the code, and curves that are made from the runs in ``docs/runs``."""

from __future__ import annotations

import ast
import csv
import inspect
import re
import runpy
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import yaml
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import nn

import meshop.models
import meshop.nn
from meshop.data import InputError
from meshop.datasets import BENCHMARKS, card
from meshop.datasets.generators import GENERATORS, Generator
from meshop.datasets.navier_stokes import FILES
from meshop.datasets.official import OfficialDataset
from meshop.datasets.smithers import SmithersDataset
from meshop.geometry import cell_name
from meshop.io import FORMATS, SERIES_FORMATS
from meshop.io.formats import Format
from meshop.io.series import SeriesFormat
from meshop.nn.functional import argument_names, call
from meshop.testing import LAWS, Make

DOCS = Path(__file__).parent
TESTS = DOCS.parent / "tests"
Cases = dict[str, tuple[nn.Module, Make, tuple[str, ...]]]  # module, graphs, laws that do not apply


def write(folder: Path) -> None:
    """Write the generated pages into ``folder``; a page that has not changed keeps its date."""
    pages = {"operators.md": operators()}
    pages |= {
        f"{make.__name__}.md": make((folder / f"{make.__name__}.md").read_text())
        for make in (benchmarks, formats, speed)
    }
    pages |= {f"cards/{name}.md": linked((card(name) / "README.md").read_text()) for name in BENCHMARKS}
    (folder / "cards").mkdir(exist_ok=True)
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    curves(sorted((folder / "runs").glob("*.csv")), folder / "_static" / "curves.png")


def operators() -> str:
    """Tables of the operators, models and building blocks, from the code, its docstrings and its tests."""
    layers, models = (
        [cls for name in module.__all__ if inspect.isclass(cls := getattr(module, name))]
        for module in (meshop.nn, meshop.models)
    )
    mixers, tested = [cls for cls in layers if cost(cls)], cases()
    head = ["what it is", "equation", "graphs", "needs edges", "needs positions", "cost", "parameters", "checks"]
    return (
        INTRODUCTION.format(laws=len(LAWS), names=", ".join(LAWS), standard=STANDARD)
        + table(meshop.nn, [["operator", *head], *(row(cls, tested, models, STANDARD) for cls in mixers)])
        + MODELS_INTRODUCTION
        + table(meshop.models, [["model", *head], *(row(cls, tested, models, MODEL) for cls in models)])
        + "\n## Building blocks\n\n"
        + table(
            meshop.nn, [["layer", "what it is"], *([name(cls), summary(cls)] for cls in layers if cls not in mixers)]
        )
    )


INTRODUCTION = """---
hide-toc: true
---

# Operators

```{{raw}} html
<style>
  .content {{ width: 100%; }}
  .main {{ min-width: 0; }}
  table.operators {{ font-size: 0.8em; }}
  table.operators td {{ vertical-align: top; }}
  table.operators .math-wrapper {{ width: max-content; overflow: visible; }}
  table.operators td:nth-child(2):not(:last-child) {{ min-width: 16em; }}
  table.operators td:nth-child(n + 7) {{ min-width: 11em; }}
</style>
```

Made from the code. An operator is a layer that mixes nodes; its name leads to its arguments, the letters of its
equation and its differences from the paper. Where a row depends on how the layer is made, the variants of
`tests/nn/test_laws.py` follow in brackets.

- Needs: what it does not run without.
- Cost: for N nodes, C channels (C' out), H heads and M slices (K clusters), in d dimensions.
- Parameters: {standard[channels]} channels, {standard[modes][0]} modes along each of two axes, and the defaults:
  8 heads, 64 slices, meshes rather than grids where there is a choice.
- Checks: the {laws} laws of {{mod}}`meshop.testing` ({names}),
  which the tests run over every variant, without those that mean nothing for it; and outputs that the authors' own code
  has computed, files of `tests/conformance`.

"""

MODELS_INTRODUCTION = """
## Models

L is the number of layers, eight in the column of parameters, where a field is predicted from two coordinates as in the
papers' Elasticity ({class}`~meshop.models.LaMOGrid`: on 64 x 64 nodes).

"""

STANDARD: dict[str, Any] = {
    "channels": 128,
    "in_channels": 128,
    "hidden_channels": 128,
    "out_channels": 128,
    "dim": 2,
    "modes": (12, 12),
    "operator": nn.Identity(),
    "local": nn.Identity(),
}
MODEL = STANDARD | {"in_channels": 2, "num_layers": 8, "out_channels": 1, "shape": (64, 64), "blocks": []}


def cases() -> Cases:
    """The modules over which the tests run the laws."""
    return runpy.run_path(str(TESTS / "nn" / "test_laws.py"))["CASES"]


def row(cls: type[nn.Module], tested: Cases, models: list[type[nn.Module]], standard: dict[str, Any]) -> list[str]:
    return [
        name(cls),
        summary(cls),
        equation(cls),
        by_variant(cls, tested, graphs),
        by_variant(cls, tested, partial(needs, "edge_index")),
        by_variant(cls, tested, partial(needs, "pos")),
        cost(cls),
        count(cls, standard),
        checks(cls, tested, models),
    ]


def name(cls: type) -> str:
    return f":class:`~{cls.__module__.rpartition('.')[0]}.{cls.__name__}`"


def description(cls: type) -> str:
    """The docstring down to the arguments."""
    return inspect.cleandoc(cls.__doc__ or "").split("\nArgs:\n")[0]


def summary(cls: type) -> str:
    return " ".join(description(cls).split("\n\n")[0].split())


def equation(cls: type) -> str:
    """All displayed mathematics of the docstring."""
    blocks = re.findall(r"^\.\. math::\n(?:(?: .*)?\n)+", description(cls), re.MULTILINE)
    return "\n\n".join(block.rstrip() for block in blocks)


def cost(cls: type) -> str:
    found = re.search(r"^Time is (O\(.*?), memory (O\(.*?)\.$", description(cls), re.MULTILINE | re.DOTALL)
    return "time {}, memory {}".format(*(" ".join(part.split()) for part in found.groups())) if found else ""


def required(cls: type[nn.Module]) -> list[str]:
    return [k for k, v in inspect.signature(cls).parameters.items() if v.default is v.empty]


def count(cls: type[nn.Module], standard: dict[str, Any]) -> str:
    """The number of parameters, without those of the layers that one has to give."""
    with torch.device("meta"):
        module = cls(**{k: standard[k] for k in required(cls)})
    given = [f"``{k}``" for k in required(cls) if isinstance(standard[k], nn.Module | list)]
    return " and those of ".join([f"{sum(p.numel() for p in module.parameters()):,}", *given])


def by_variant(cls: type, tested: Cases, describe: Callable[[nn.Module, Make, tuple[str, ...]], str]) -> str:
    """What holds for the test cases of a class, each thing followed by the variants that it holds for."""
    found: dict[str, list[str]] = {}
    for key, case in tested.items():
        first, _, variant = key.partition("-")
        if first == cls.__name__:
            found.setdefault(describe(*case), []).append(variant or "plain")
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{what} ({', '.join(variants)})" for what, variants in found.items())


def graphs(module: nn.Module, make: Make, skip: tuple[str, ...]) -> str:
    graph, other = make(7, seed=0), make(90, seed=0)
    if "batch" in skip:
        return "one"
    if graph.num_nodes == other.num_nodes:
        return "grids of one shape"
    return "any sizes" if graph.x.dim() == 2 else "token sequences of one length"


def needs(key: str, module: nn.Module, make: Make, skip: tuple[str, ...]) -> str:
    """Whether a module, or a layer that it was given, does not run without a key."""
    graph = make(20, seed=0)
    if key in graph:
        del graph[key]
    try:
        call(module, graph)
    except InputError as error:
        for argument in required(type(module)):
            given = getattr(module, argument)
            layers = [m for m in (given if isinstance(given, nn.ModuleList) else [given]) if isinstance(m, nn.Module)]
            if any(str(error).startswith(type(m).__name__) for layer in layers for m in layer.modules()):
                return f"if ``{argument}`` does"
        return "yes"
    return "no"


def checks(cls: type[nn.Module], tested: Cases, models: list[type[nn.Module]]) -> str:
    """The laws, and the conformance vectors in the tests of the class or of the models that name it."""

    def laws(module: nn.Module, make: Make, skip: tuple[str, ...]) -> str:
        left_out = [law for law in LAWS if law in skip or (law == "measure" and law not in argument_names(module))]
        return f"all laws but {', '.join(left_out)}" if left_out else "all laws"

    lines = [by_variant(cls, tested, laws)]
    if vectors(cls):
        lines.append(f"Equals the authors' code: {', '.join(f'``{vector}``' for vector in vectors(cls))}.")
    parents = [m for m in models if vectors(m) and f"`~meshop.nn.{cls.__name__}`" in description(m)]
    if parents:
        lines.append(f"Equals the authors' code as part of {', '.join(map(name, parents))}.")
    return "\n\n".join(lines)


def vectors(cls: type) -> list[str]:
    path = Path(inspect.getfile(cls))
    test = (TESTS / path.parent.name / f"test_{path.name}").read_text()
    stems = sorted(file.stem for file in (TESTS / "conformance").glob("*.pt"))
    return [stem for stem in stems if re.search(rf"\b{stem}\b", test)]


def table(module: ModuleType, rows: list[list[str]]) -> str:
    lines = ["```{eval-rst}", f".. py:currentmodule:: {module.__name__}", "", ".. list-table::"]
    lines += ["   :class: operators", "   :header-rows: 1", ""]
    for cells in rows:
        for i, cell in enumerate(cells):
            text = textwrap.indent(cell, " " * 7).lstrip()
            lines.append(f"{'   * -' if i == 0 else '     -'} {text}".rstrip())
    return "\n".join([*lines, "```"]) + "\n"


def benchmarks(page: str) -> str:
    """The page of benchmarks with its tables made anew, each between ``<!-- made: TABLE -->`` and ``<!-- end -->``."""
    return made(page, {"problems": problems, "files": files, "generators": generators, "statistics": statistics})


def formats(page: str) -> str:
    """The page of formats with its tables made anew."""
    return made(page, {"meshes": mesh_formats, "series": series_formats})


def speed(page: str) -> str:
    """The page of speed with its tables made anew from what ``tests/benchmarks`` wrote into ``docs``."""
    return made(page, {"runs": runs} | {name: partial(timed, name) for name in TIMED})


TIMED = {
    "plain": (
        *("subject", "nodes", "batch", "precision", "pass", "seconds", "plain_seconds", "ratio", "share"),
        *("memory_mb", "plain_memory_mb", "saved_mb", "plain_saved_mb"),
    ),
    "peers": ("pair", "pass", "ours_seconds", "theirs_seconds", "ratio", "ours_parameters", "theirs_parameters"),
    "ragged": ("subject", "pass", "equal_us_a_node", "ragged_us_a_node", "ratio"),
    "scaling": ("operator", "pass", "keep", "nodes", "seconds", "memory_mb", "time_exponent", "memory_exponent"),
    "large": ("model", "pass", "nodes", "seconds", "memory_gb", "most_gb"),
    "ranks": ("model", "nodes", "ranks", "one_seconds", "all_seconds", "ratio", "difference"),
    "segments": (
        *("case", "reduce", "pass", "rows", "channels", "segments", "scatter", "index_add", "scatter_reduce"),
        *("index_reduce", "segment_reduce", "torch_scatter", "segment_csr", "quickest", "scatter / quickest"),
    ),
    "loader": ("nodes", "batch_size", "storage", "workers", "load_ms", "step_ms", "wait"),
}
"""Columns of the tables of ``speed_NAME.csv`` that the page shows."""


def timed(name: str) -> list[list[str]]:
    """The table of one benchmark; of scaling, the largest mesh of each curve."""
    rows = speed_rows(name)
    if name == "scaling":
        rows = list({(row["operator"], row["pass"], row["keep"]): row for row in rows if row["seconds"]}.values())
    return [[*TIMED[name]], *([row.get(column, "") for column in TIMED[name]] for row in rows)]


def runs() -> list[list[str]]:
    """Where and when each table was measured."""
    columns = ("machine", "cores", "threads", "torch", "commit", "date")
    rows = [["table", *columns]]
    for name in TIMED:
        last = speed_rows(name)[-1:]
        rows.append([name, *(last[0][c] for c in columns)] if last else [name, "not measured yet", *[""] * 5])
    return rows


def speed_rows(name: str) -> list[dict[str, str]]:
    path = DOCS / f"speed_{name}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def made(page: str, tables: dict[str, Callable[[], list[list[str]]]]) -> str:
    """A page with the tables between ``<!-- made: TABLE -->`` and ``<!-- end -->`` made anew."""
    return re.sub(
        r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)",
        lambda m: f"{m[1]}\n{pipes(tables[m[2]]())}\n{m[3]}",
        page,
        flags=re.DOTALL,
    )


def linked(page: str, folder: str = "") -> str:
    """A page whose links to cards in the repository lead to the pages of these."""
    return re.sub(r"(?:\.\./datasets|\.\.)/(\w+)/README\.md", rf"{folder}\1.md", page)


def pipes(rows: list[list[str]]) -> str:
    """A table of Markdown, the first row its head."""
    head, *rest = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rest))


def problems() -> list[list[str]]:
    """What each benchmark is, as its card, its recipes and the suites say."""
    suites = sorted((DOCS.parent / "datasets" / "suites").glob("*.yaml"))
    compared = {path.stem: yaml.safe_load(path.read_text())["data"] for path in suites}
    rows = [["benchmark", "what it is", "nodes", "train / test", "from", "to", "recipes", "suites"]]
    for name, cls in BENCHMARKS.items():
        text = (card(name) / "README.md").read_text()
        nodes, count, summary = found(
            r"^Nodes (.+?) · (.+)\n\n((?:.|\n)+?\.)(?=\s+[A-Z]|\n\n)", text
        )  # the first sentence of the card
        table = found(r"\n## Fields\n\n(?:\|.*\n){2}((?:\|.*\n)+)", text)[0]
        given, wanted = fields([[cell.strip() for cell in line.split("|")[1:3]] for line in table.splitlines()])
        rows.append(
            [
                f"[{name}](../datasets/{name}/README.md)<br>{{py:class}}`~meshop.datasets.{cls.__name__}`",
                " ".join(summary.split()),
                nodes,
                re.sub(r"^train (.+?) · test ", r"\1 / ", count).removeprefix("train and test "),
                ", ".join(given),
                ", ".join(wanted),
                ", ".join(sorted(path.stem for path in card(name).glob("*.yaml"))),
                ", ".join(suite for suite, data in compared.items() if name in data),
            ]
        )
    return rows


def found(pattern: str, text: str) -> tuple[str, ...]:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise ValueError(f"{text.splitlines()[0]}: expected {pattern}")
    return match.groups()


def fields(rows: list[list[str]]) -> tuple[list[str], list[str]]:
    """The names of what enters and of what is predicted, from names and roles; what an option adds is left out."""
    given, wanted = [], []
    for names, role in rows:
        if role == "input, target":
            first, second = names.split(", ")
            given.append(first)
            wanted.append(second)
        elif role.startswith(("input", "parameter", "key")) and "with `" not in role:
            given.append(names)
        elif role.startswith("target"):
            wanted.append(names)
    return given, wanted


def files() -> list[list[str]]:
    """What lies in ``root/raw`` of each benchmark, and how it gets there."""
    rows = [["benchmark", "comes by", "files in `raw`", "get"]]
    for name, cls in BENCHMARKS.items():
        by, needs, get = "", "", getattr(cls, "source", "")
        if issubclass(cls, SmithersDataset):
            needs = ", ".join(f"`{file}`" for file in SmithersDataset.raw_file_names.fget(None))
            by = '`pip install "meshop[data]"`'
        elif get:
            needs = listed(cls)
            by = " or ".join(["fetching", *(f"`meshop generate {g}`" for g in GENERATORS if benchmark(g) == name)])
        rows.append([f"[{name}](../datasets/{name}/README.md)", by or "itself, at the first use", needs, get])
    return rows


def listed(cls: Any, sizes: bool = True) -> str:
    """The files of a benchmark."""
    if not issubclass(cls, OfficialDataset):
        return cls.needs if sizes else re.sub(r" \(.*?\)", "", cls.needs)
    names = [f"`{file.name}`" + (f" ({file.size / 1e6:,.1f} MB)" if file.size and sizes else "") for file in cls.files]
    return ", ".join(names)


def benchmark(generator: str) -> str:
    """The benchmark that a generator makes."""
    return max((name for name in BENCHMARKS if generator.startswith(name)), key=len)


def measured() -> list[dict[str, str]]:
    """What was measured of the generators, see the page."""
    with (DOCS / "generators.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def generators() -> list[list[str]]:
    rows = [["generator", "samples", "options", "files", "CPU s a sample", "all, hours", "what the tests hold it to"]]
    timed = {row["generator"]: row["seconds"] for row in measured() if row["seconds"]}
    for name, generator in GENERATORS.items():
        seconds = timed.get(name, "")
        hours = [f"{float(number) * generator.samples / 3600:.2g}" for number in seconds.split("-") if number]
        rows.append(
            [
                f"`{name}`",
                f"{generator.samples:,}",
                ", ".join(f"`{option}` {default}" for option, default in generator.options.items()),
                written(name, generator),
                seconds.replace("-", " to "),
                " to ".join(hours),
                checked(generator),
            ]
        )
    return rows


def written(name: str, generator: Generator) -> str:
    """The files that a generator makes: those that the class reads."""
    viscosity = getattr(generator.sample, "keywords", {}).get("viscosity")
    return f"`{FILES[viscosity].name}`" if viscosity else listed(BENCHMARKS[benchmark(name)], sizes=False)


def checked(generator: Generator) -> str:
    """The first line of its tests."""
    module = getattr(generator.sample, "func", generator.sample).__module__.rpartition(".")[2]
    path = TESTS / "datasets" / "generators" / f"test_generate_{module}.py"
    return (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()[0]


def statistics() -> list[list[str]]:
    """Published statistics, and those of generated files."""
    rows = [["generator", "value", "published mean", "published std", "mean", "std", "of"]]
    ours = {(row["generator"], row["value"]): row for row in measured() if row["value"]}
    published = {(name, value): pair for name, g in GENERATORS.items() for value, pair in g.published.items()}
    for name, value in sorted({**published, **ours}, key=lambda key: list(GENERATORS).index(key[0])):
        row = ours.get((name, value))
        rows.append(
            [
                f"`{name}`",
                value,
                *("" if number is None else f"{number:.6g}" for number in published.get((name, value), (None, None))),
                *([row["measured_mean"], row["measured_std"], f"{row['samples']} samples"] if row else [""] * 3),
            ]
        )
    return rows


def mesh_formats() -> list[list[str]]:
    """A row for every kind of mesh file."""
    rows = [["extension", "format", "read", "write", "cells", "fields", "times"]]
    kinds: dict[Format, list[str]] = {}
    for extension, row in FORMATS.items():
        kinds.setdefault(row._replace(read=None) if row.frames else row, []).append(f"`{extension}`")
    for row, extensions in kinds.items():
        cells = "all" if row.cells is None else ", ".join(cell_name(code) for code in sorted(row.cells))
        write, times = ("yes" if row.write else "no"), ("several" if row.frames else "one")
        rows.append([" ".join(extensions), row.name, "yes", write, cells, row.fields, times])
    return rows


def series_formats() -> list[list[str]]:
    """A row for every kind of series."""
    kinds: dict[SeriesFormat, list[str]] = {}
    for extension, row in SERIES_FORMATS.items():
        kinds.setdefault(row, []).append(f"`{extension}`")
    rows = [[" ".join(names), row.name, "yes", "yes" if row.writer else "no"] for row, names in kinds.items()]
    return [["extension", "format", "read", "write"], *rows]


def curves(runs: list[Path], path: Path) -> None:
    """Draw the relative L2 errors in each ``metrics.csv`` over the seconds of training."""
    figure = Figure((4.5 * len(runs), 3.4), layout="constrained")
    for axes, run in zip(figure.subplots(1, len(runs), squeeze=False)[0], runs, strict=True):
        with run.open(newline="") as file:
            rows = list(csv.DictReader(file))
        minutes = [float(r["seconds"]) / 60 for r in rows]
        shown = [k for k in rows[0] if k.startswith("val_") and k != "val_loss"]
        for name, label in [("train_loss", "train"), *((k, f"test {k.removeprefix('val_')}") for k in shown)]:
            axes.semilogy(minutes, [float(r[name]) for r in rows], label=label)
        axes.set(title=run.stem, xlabel="minutes on two cores", ylabel="relative L2")
        axes.grid(which="both", alpha=0.3)
        axes.legend()
    FigureCanvasAgg(figure).print_png(path)
