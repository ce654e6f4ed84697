"""Pages that are made from the code, and curves that are made from the runs in ``docs/runs``."""

from __future__ import annotations

import csv
import inspect
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import meshop.models
import meshop.nn
from meshop.io import FORMATS
from meshop.nn.functional import argument_names


def write(folder: Path) -> None:
    """Write the generated pages into ``folder``; a page that has not changed keeps its date."""
    for name, text in (("operators.md", operators()), ("formats.md", formats())):
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    curves(sorted((folder / "runs").glob("*.csv")), folder / "_static" / "curves.png")


def operators() -> str:
    """A row for everything in ``meshop.nn`` and ``meshop.models``."""
    lines = [
        "# Operators",
        "",
        "Made from `meshop.nn.__all__` and `meshop.models.__all__`. All take ragged batches; the laws of",
        "{mod}`meshop.testing` are checked for every row.",
        "",
        "```{eval-rst}",
        ".. list-table::",
        "   :header-rows: 1",
        "",
    ]
    rows = [["name", "what it is", "needs", "takes"]]
    for module in (meshop.nn, meshop.models):
        for name in module.__all__:
            cls = getattr(module, name)
            if inspect.isclass(cls):
                summary = inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].replace("\n", " ")
                arguments = {a: required for a, required in argument_names(cls).items() if a != "self"}
                needs = ", ".join(f"``{a}``" for a, required in arguments.items() if required)
                takes = ", ".join(f"``{a}``" for a, required in arguments.items() if not required)
                rows.append([f":class:`~{module.__name__}.{name}`", summary, needs, takes])
    for first, *others in rows:
        lines += [f"   * - {first}", *(f"     - {cell}" for cell in others)]
    return "\n".join([*lines, "```"]) + "\n"


def formats() -> str:
    """A row for every extension that can be read or written."""
    lines = [
        "# Formats",
        "",
        "Made from `meshop.io.FORMATS`. Cells come in the order of the file, point and cell data under their names.",
        "",
        "| extension | format | read | write |",
        "|---|---|---|---|",
    ]
    for extension, row in FORMATS.items():
        lines.append(f"| `{extension}` | {row.name} | {'yes' if row.read else ''} | {'yes' if row.write else ''} |")
    return "\n".join(lines) + "\n"


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
