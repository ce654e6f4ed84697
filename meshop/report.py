"""A page about a run: what it is, how it learnt, how wrong it is on the test set, on which cases, and where."""

from __future__ import annotations

import base64
import csv
import html
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import meshop
from meshop.checkpoint import read_checkpoint
from meshop.data import InputError, MeshData
from meshop.io.files import whole_file
from meshop.render import compare, error_histogram, field, gallery
from meshop.train import Surrogate, evaluate, summarise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]

STYLE = """
  body { font: 16px/1.4 system-ui, sans-serif; color: #202020; max-width: 1100px; margin: 24px auto; padding: 0 16px; }
  table { border-collapse: collapse; margin: 12px 0; }
  th, td { text-align: left; padding: 3px 16px 3px 0; border-bottom: 1px solid #ddd; vertical-align: top; }
  td { overflow-wrap: anywhere; }
  td.number, th.number { text-align: right; white-space: nowrap; }
  img { max-width: 100%; display: block; margin: 8px 0; }
  h1, h2, h3 { margin-bottom: 4px; }
"""


def chosen_checkpoint(run: Path) -> Path:
    """The checkpoint of a run that was evaluated: ``best.ckpt`` where there is a validation split, else ``last.ckpt``.

    Raises:
        InputError: the directory is none of a run, or nothing was saved yet.
    """
    for name in ("best.ckpt", "last.ckpt"):
        if (run / "checkpoints" / name).exists():
            return run / "checkpoints" / name
    if (run / "results.csv").exists():
        raise InputError(f"{run} holds the runs of meshop bench; name one of them, {run}/BENCHMARK/MODEL/SEED")
    raise InputError(f"Expected a run with checkpoints/last.ckpt in {run}; there is none before the first epoch ends")


def write_report(
    run: str | Path,
    path: str | Path,
    surrogate: Surrogate,
    test: Sequence[MeshData] | None,
    about: Mapping[str, str] | None = None,
    absent: str = "",
) -> None:
    """Write a page about a run of :func:`meshop.train.fit`, one HTML file with its pictures in it.

    It has what the run is; the learning curves of ``metrics.csv``; means and distribution of the errors of
    ``evaluation.csv``, or of an evaluation now where the file is absent or of other cases; truth, prediction and error
    of the best, the median and the worst test case, by the mean of their relative L2 errors over the fields; and, where
    the test cases share their cells, the mean of the absolute error over them on the mesh. Of rollouts the pictures
    show the last frame. What is not there is left out, and the page says so.

    Args:
        run: directory of the run.
        path: HTML file; it appears under this name only when it is complete.
        surrogate: what the checkpoint of the run holds.
        test: its test cases, or ``None`` where they are not at hand.
        about: lines for the first table.
        absent: why there are no test cases.

    Raises:
        InputError: a CSV file of the run is damaged; the page cannot be written.
    """
    run = Path(run)
    metrics = _read(run / "metrics.csv")
    rows, told = _errors(run, surrogate, test)
    parts = [_what(run, surrogate, metrics, dict(about or {}))]
    parts += ["<h2>Learning curves</h2>"]
    parts += (
        [_image(_curves(metrics, chosen_checkpoint(run).name == "best.ckpt"))]
        if metrics
        else [_note("The run has no metrics.csv.")]
    )
    parts += ["<h2>Errors on the test set</h2>", told]
    if rows:
        parts += [_table(rows), *_spread(rows)]
    if test is None:
        parts += [_note(f"There are no pictures, for the test cases are not at hand: {absent}.")]
    elif rows:
        parts += ["<h2>Test cases</h2>", *_cases(rows, surrogate, test)]
        parts += ["<h2>Where the error is</h2>", *_where(surrogate, test)]
    title = html.escape(f"{type(surrogate.model).__name__}: {run.resolve().name}")
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    head = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        f'<meta name="generator" content="meshop {meshop.__version__}">',
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>",
    ]
    with whole_file(path) as part:
        part.write_text("\n".join([*head, *parts, "</body>\n</html>\n"]), "utf-8")


# ---------------------------------------------------------------------------------------------------------------------
# parts of the page


def _what(run: Path, surrogate: Surrogate, metrics: list[Row], about: dict[str, str]) -> str:
    checkpoint = chosen_checkpoint(run)
    state = read_checkpoint(checkpoint)
    kept = state["meshop"]
    spec, recipe = surrogate.spec, kept["recipe"]
    arguments = (kept["model"] or {}).get("args", {})
    lines = {"run": str(run), **about}
    inputs = ["position"] * spec.position + [*map(str, spec.inputs), *spec.params]
    lines["fields"] = f"{', '.join(inputs)} → {', '.join(map(str, spec.targets))}"
    lines["model"] = f"{kept['model_class'].rpartition('.')[2]}({_listed(arguments)})"
    lines["parameters"] = f"{sum(p.numel() for p in surrogate.model.parameters()):,}"
    lines["recipe"] = _listed(recipe)
    if kept.get("rollout"):
        lines["rollout"] = _listed(kept["rollout"])
    if metrics:
        last = metrics[-1]
        lines["trained"] = f"{last['epoch']:.0f} of {recipe['epochs']} epochs"
        lines["trained"] += f" in {last['seconds']:.0f} s" if "seconds" in last else ""
        lines["trained"] += f", {last['memory_gb']:g} GB of memory at most" if "memory_gb" in last else ""
    lines["checkpoint"] = f"{checkpoint.name}, after epoch {state['epoch'] + 1}"
    lines["versions"] = _listed(kept["versions"], " ")
    return _grid([[key, value] for key, value in lines.items()])


def _listed(values: Mapping[str, Any], between: str = "=") -> str:
    return ", ".join(f"{key}{between}{value}" for key, value in values.items())


def _errors(run: Path, surrogate: Surrogate, test: Sequence[MeshData] | None) -> tuple[list[Row], str]:
    """A row a test case and field in the order of the test set, and where they come from."""
    rows = _read(run / "evaluation.csv")
    if test is None:
        return rows, "" if rows else _note("The run has no evaluation.csv.")
    names = [str(case.name) if "name" in case else str(i) for i, case in enumerate(test)]
    fields = [target.name for target in surrogate.spec.targets]
    if [(row["name"], row["field"]) for row in rows] == [(name, f) for name in names for f in fields]:
        return rows, ""
    if not names:
        return [], _note("The test split is empty.")
    why = "is of other cases than the test split" if rows else "is absent"
    return evaluate(surrogate, test), _note(f"evaluation.csv {why}, so the checkpoint was evaluated for this page.")


def _table(rows: list[Row]) -> str:
    """A line a field: the means of all columns, and how the relative L2 error spreads."""
    means = summarise([{k: v for k, v in row.items() if v != ""} for row in rows])
    columns = list(next(iter(means.values())))
    head = ["field", "cases", *(f"mean {c}" for c in columns), "least", "median", "largest"]
    lines = []
    for name, values in means.items():
        own = [row["relative_l2"] for row in rows if row["field"] == name]
        spread = (min(own), statistics.median(own), max(own))
        lines.append([name, str(len(own)), *(f"{v:.4g}" for v in (*values.values(), *spread))])
    return _grid(lines, head) + _note(
        "least, median and largest are of relative_l2, in which every node weighs the same."
    )


def _spread(rows: list[Row]) -> list[str]:
    """How the errors of the test cases spread; of rollouts also those of the last frame."""
    labels = {"relative_l2": "relative L2 error", "last_frame": "relative L2 error of the last frame"}
    kept = [(column, label) for column, label in labels.items() if isinstance(rows[0].get(column), float)]
    pictures = [error_histogram(rows, column=column, label=label) for column, label in kept]
    return [_embedded(picture, "histogram") for picture in pictures]


def _cases(rows: list[Row], surrogate: Surrogate, test: Sequence[MeshData]) -> list[str]:
    """Truth, prediction and error of the best, the median and the worst case."""
    fields = len(surrogate.spec.targets)
    ranked = _ranked([statistics.fmean(errors) for errors in zip(*_by_field(rows).values(), strict=True)])
    picked = {"best": ranked[0], "median": ranked[len(ranked) // 2], "worst": ranked[-1]}
    parts = []
    for which, i in picked.items():
        own = ", ".join(f"{r['field']} {r['relative_l2']:.4g}" for r in rows[i * fields : (i + 1) * fields])
        parts.append(f"<h3>{which}: {html.escape(str(rows[i * fields]['name']))}</h3>" + _note(f"relative L2: {own}"))
        seen = _seen(surrogate, test[i])
        parts += [_drawn(compare, seen, name, unit) for name, unit in _shown(surrogate)]
    return parts


def write_pictures(
    out: Path, rows: list[Row], surrogate: Surrogate, cases: Sequence[MeshData], worst: int = 5
) -> list[Path]:
    """Write how the errors of cases spread, and a contact sheet of the worst of each field, as PNG.

    Args:
        out: directory; ``errors.png`` and ``worst_FIELD.png`` are written there.
        rows: what :func:`meshop.train.evaluate` says of the cases.
        surrogate: what predicts.
        cases: in the order of the rows.
        worst: how many are drawn, of rollouts at their last frame.

    Returns:
        the paths of the pictures.
    """
    out.mkdir(parents=True, exist_ok=True)
    written = [out / "errors.png"]
    error_histogram(rows, written[0])
    for (name, unit), errors in zip(_shown(surrogate), _by_field(rows).values(), strict=True):
        chosen = _ranked(errors)[: -worst - 1 : -1]
        titles = [f"{rows[i * len(surrogate.spec.targets)]['name']}: {errors[i]:.3g}" for i in chosen]
        written.append(out / f"worst_{name}.png")
        gallery([_seen(surrogate, cases[i]) for i in chosen], name, written[-1], titles=titles, unit=unit)
    return written


def _by_field(rows: list[Row]) -> dict[str, list[float]]:
    """The relative L2 errors of each field, case after case."""
    errors: dict[str, list[float]] = {}
    for row in rows:
        errors.setdefault(row["field"], []).append(row["relative_l2"])
    return errors


def _ranked(errors: Sequence[float]) -> list[int]:
    """The numbers of cases from the least error to the largest; those that are not finite are last."""
    return sorted(range(len(errors)), key=lambda i: errors[i] if math.isfinite(errors[i]) else math.inf)


def _where(surrogate: Surrogate, test: Sequence[MeshData]) -> list[str]:
    """The mean of the absolute error over the test cases on the mesh of the first."""
    first = test[0]
    if len(test) == 1:
        return [_note("There is one test case; its error is drawn above.")]
    if not all(_same_cells(first, case) for case in test):
        return [_note("The test cases have different meshes, so there is no mean of their errors on a mesh.")]
    key = "point_data" if surrogate.spec.location == "point" else "cell_data"
    means: dict[str, torch.Tensor] = {}
    for case in test:
        arrays = _seen(surrogate, case)[key]
        for name, _ in _shown(surrogate):
            error = torch.as_tensor(arrays[f"{name}_error"]).double()
            size = error.abs() if error.dim() == 1 else error.norm(dim=1)
            means[name] = means.get(name, 0.0) + size / len(test)
    mesh = first.__copy__()
    labels = {name: f"mean |{name}_pred − {name}|" for name in means}
    mesh[key] = type(mesh[key])({labels[name]: value for name, value in means.items()})
    moved = any(not torch.equal(first.pos, case.pos) for case in test)
    told = f"The mean of the absolute error over {len(test)} test cases, which share their cells"
    told += " but not the places of their points; drawn on the first of them." if moved else " and points."
    return [_note(told), *(_drawn(field, mesh, labels[name], unit, "YlOrRd") for name, unit in _shown(surrogate))]


def _same_cells(mesh: MeshData, other: MeshData) -> bool:
    keys = ("cell_type", "cell_index")
    same = mesh.num_nodes == other.num_nodes
    return same and all(torch.equal(mesh[k], other[k]) for k in keys if k in mesh and k in other)


# ---------------------------------------------------------------------------------------------------------------------
# predictions and pictures


def _shown(surrogate: Surrogate) -> list[tuple[str, str]]:
    """Name and unit of the fields that are drawn."""
    names = surrogate.stepper.names if surrogate.stepper else [target.name for target in surrogate.spec.targets]
    return [(name, target.unit) for name, target in zip(names, surrogate.spec.targets, strict=True)]


@torch.inference_mode()
def _seen(surrogate: Surrogate, case: MeshData) -> MeshData:
    """A test case with its fields, FIELD_pred and FIELD_error; of a rollout, those of the last frame."""
    stepper = surrogate.stepper
    if stepper is None:
        return surrogate.predict(case)
    surrogate.eval()
    packed = (surrogate(case.to(surrogate.device)).cpu(), case.y.cpu())
    guess, truth = (stepper.split(stepper.truth(frames)[:, -1]) for frames in packed)
    flat = [{n: v.squeeze(1) if v.size(1) == 1 else v for n, v in fields.items()} for fields in (guess, truth)]
    return surrogate.on_mesh(case.to("cpu"), *flat)


def _drawn(draw: Any, mesh: MeshData, name: str, unit: str, cmap: str = "viridis") -> str:
    try:
        return _embedded(draw(mesh, name, unit=unit, cmap=cmap), name)
    except InputError as error:
        return _note(f"There is no picture of {name}: {error}.")


def _curves(metrics: list[Row], has_val: bool) -> Figure:
    """Loss over the epochs, of training and of validation, or of the test set where it was watched instead."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((1000 / 72, 420 / 72), dpi=72, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    named = {"train_loss": "training", "val_loss": "validation" if has_val else "test"}
    for column, label in named.items():
        kept = [(row["epoch"], row[column]) for row in metrics if isinstance(row.get(column), float)]
        if kept:
            axes.plot(*zip(*kept, strict=True), lw=2.5, label=label, marker="o" if len(kept) == 1 else None)
    axes.set(xlabel="epoch", ylabel="loss", yscale="log")
    axes.legend(fontsize=15)
    axes.tick_params(labelsize=15, length=5)
    axes.grid(which="both", alpha=0.25)
    axes.set_axisbelow(True)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(size=18)
    return figure


# ---------------------------------------------------------------------------------------------------------------------
# HTML


def _embedded(picture: Any, name: str) -> str:
    from matplotlib.image import imsave

    stream = io.BytesIO()
    imsave(stream, picture, format="png")
    return _png(stream, name)


def _image(figure: Figure) -> str:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=72)
    return _png(stream, "")


def _png(stream: io.BytesIO, name: str) -> str:
    data = base64.b64encode(stream.getvalue()).decode("ascii")
    return f'<img alt="{html.escape(name)}" src="data:image/png;base64,{data}">'


def _note(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def _grid(lines: list[list[str]], head: Sequence[str] = ()) -> str:
    """A table; under a head all columns but the first hold numbers."""
    number = ' class="number"' if head else ""

    def line(cells: Sequence[str], tag: str) -> str:
        first, *others = (html.escape(cell) for cell in cells)
        return f"<tr><th>{first}</th>{''.join(f'<{tag}{number}>{cell}</{tag}>' for cell in others)}</tr>"

    return "\n".join(
        ["<table>", *([line(head, "th")] if head else []), *(line(cells, "td") for cells in lines), "</table>"]
    )


def _read(path: Path) -> list[Row]:
    """The rows of a CSV file with numbers as such, none where there is no file."""
    if not path.exists():
        return []
    try:
        with path.open(newline="") as file:
            rows: list[Row] = [dict(row) for row in csv.DictReader(file, strict=True)]
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path} is damaged: {error}") from error
    for row in rows:
        for key, value in row.items():
            if key not in ("name", "field"):
                with suppress(ValueError, TypeError):
                    row[key] = float(value)
    return rows
