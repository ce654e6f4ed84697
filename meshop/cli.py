"""The command line: from mesh files to trained models, predictions and pictures."""

from __future__ import annotations

import contextlib
import csv
import json
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

from jsonargparse import ArgumentError, ArgumentParser, Namespace

import meshop
from meshop.data import InputError, MeshData, split_name
from meshop.launch import LOST, connected, first_alone, launch, lost_another, processes


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 an error in the data or the run, 2 a wrong call."""
    argv = sys.argv[1:] if argv is None else argv
    parser = _parser(argv)
    try:
        options = parser.parse_args(argv)
    except ArgumentError as error:
        print(f"meshop: {_one_sentence(error)}", file=sys.stderr)
        return 2
    if options.version:
        print(f"meshop {meshop.__version__}")
        return 0
    if not options.verb:
        parser.print_help()
        return 2
    choice = options[options.verb]
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("meshop")
    logger.addHandler(handler)
    rank, ranks = processes()
    logger.setLevel(logging.ERROR if rank else logging.INFO)
    try:
        if options.verb == "train" and choice.devices > ranks == 1 and not choice.dry_run:
            return _launch(choice, argv)
        with contextlib.redirect_stdout(None if rank else sys.stdout):
            VERBS[options.verb][1](choice)
    except KeyboardInterrupt as stop:
        print(f"meshop: {stop or 'interrupted'}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # meshop info ... | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if choice.debug:
            raise
        if ranks > 1 and lost_another(error):
            if "TORCHELASTIC_RUN_ID" in os.environ:  # ours says itself which one it was
                print(f"meshop: another process than {rank} is gone; continue with --resume", file=sys.stderr)
            return LOST
        print(f"meshop: {_one_sentence(error)}", file=sys.stderr)
        return 1
    finally:
        logger.removeHandler(handler)
    return 0


# ---------------------------------------------------------------------------------------------------------------------
# info, convert, render


def _info_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("path", type=str, help="a mesh file, a file of arrays, a directory of such, or a benchmark")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def info(options: Namespace) -> None:
    """Print what is in a file: a mesh, with its fields and what may be wrong with it, or the arrays of raw data."""
    from meshop.datasets import BENCHMARKS, card
    from meshop.io.describe import as_text, describe, describe_directory, describe_together, together_as_text
    from meshop.io.openfoam import is_case

    path = Path(options.path)
    if options.path in BENCHMARKS and not path.exists():
        print((card(options.path) / "README.md").read_text())
        for recipe in sorted(card(options.path).glob("*.yaml")):
            print(f"meshop train {options.path} --config {recipe}")
        return
    if not path.is_dir() or is_case(path):
        report = describe(path)
        print(json.dumps(report, indent=2) if options.json else as_text(report))
        return
    reports = []
    for report in describe_directory(path):
        reports.append(report)
        if "arrays" in report and not options.json:
            print(as_text(report), flush=True)
    if options.json:
        together = describe_together(reports)
        print(json.dumps(reports if together is None else [*reports, {"directory": str(path), **together}], indent=2))
    else:
        print(together_as_text(path, reports))


def _convert_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("source", type=str, help="the file to read")
    parser.add_argument("target", type=str, help="the file to write; its ending chooses the format")


def convert(options: Namespace) -> None:
    """Read a mesh in one format and write it in another, cells and fields in the same order."""
    from meshop.io import read_mesh, write_mesh

    if Path(options.source).resolve() == Path(options.target).resolve():
        raise InputError(f"{options.source} is both source and target; name another target")
    mesh = read_mesh(options.source)
    write_mesh(options.target, mesh)
    print(f"{options.target}: {mesh.num_points} points, {mesh.num_cells} cells")


def _render_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=str, help="mesh files; of several a contact sheet with one colour bar")
    parser.add_argument("--field", type=str | None, default=None, help="the field to draw: p, p:cell")
    parser.add_argument("--out", type=str | None, default=None, help="PNG to write (default: FILE_FIELD.png)")
    parser.add_argument(
        "--html", type=str | None, default=None, metavar="OUT.html",
        help="write a page that shows the mesh in a browser instead: --field, or all fields",
    )  # fmt: skip
    parser.add_argument("--component", type=str | None, default=None, help="magnitude, x, y, z or all")
    parser.add_argument("--edges", action="store_true", help="draw the edges of the cells")
    parser.add_argument("--unit", type=str, default="", help="unit shown on the colour bar")
    parser.add_argument("--clim", nargs=2, type=float, default=None, metavar=("LOW", "HIGH"), help="colour range")
    parser.add_argument("--cmap", type=str, default="viridis", help="a matplotlib colour map")
    for name, (help_, _) in _FILTERS.items():
        parser.add_argument(f"--{name}", action="append", type=str, default=[], metavar=name.upper(), help=help_)
    parser.add_argument(
        "--view", type=str | None, default=None, help="iso, xy, xz, yz, yx, zx, zy or a direction to the viewer: 1,-1,2"
    )
    parser.add_argument(
        "--camera", nargs=9, type=float, default=None, metavar="X",
        help="instead of --view: position, point looked at and direction up, as pyvista's camera: 3 -2 1 0 0 0 0 0 1",
    )  # fmt: skip
    parser.add_argument("--columns", type=int, default=4, help="meshes a row of a contact sheet")
    parser.add_argument("--show", action="store_true", help="open a window instead of writing a picture")
    parser.add_argument(
        "--regions", action="store_true", help="draw regions and boundaries with their names; --field numbers them"
    )
    for view, (_, draws) in _INSIDE.items():
        parser.add_argument(
            f"--{view}", action="append", type=str, default=[], metavar="CHECKPOINT", help=f"draw {draws}; repeatable"
        )
    parser.add_argument("--layer", type=int, default=-1, help="for --assignment; from 0, -1 is the last")
    parser.add_argument("--head", type=int, default=0, help="for --assignment and --attention; from 0")
    parser.add_argument("--top", type=int, default=12, help="for --assignment; slices to draw, the largest first")
    parser.add_argument(
        "--params", type=str | None, default=None, help="CSV with a row of values a case, for a checkpoint"
    )


def render(options: Namespace) -> None:
    """Draw a field, with FIELD_pred in the file beside truth and error, or inside a trained model; --html: a page."""
    asked = [view for view in _INSIDE if options[view]]
    if len(asked) + options.regions > 1 or not (asked or options.field or options.regions or options.html):
        raise InputError(
            f"Name a --field to draw, or --regions, --html, or one of --{', --'.join(_INSIDE)} with a checkpoint"
        )
    if options.html and (asked or options.out or options.component or options.regions):
        raise InputError(
            "Give --html without --out, --component, --regions and checkpoints: the page has all components"
        )
    if options.html and options.unit and not options.field:
        raise InputError("Name the --field that has the --unit")
    if len(options.files) > 1 and (asked or options.regions or options.show or options.html):
        raise InputError(
            f"Expected one mesh file (got {len(options.files)}); several make a contact sheet of a --field"
        )
    options.path = options.files[0]
    source = Path(options.path)
    if options.html:
        out = options.html
        _render_page(options)
    elif asked:
        out = options.out or str(source.with_name(f"{source.stem}_{asked[0]}.png"))
        _INSIDE[asked[0]][0](options, out)
    elif options.regions:
        out = options.out or str(source.with_name(f"{source.stem}_regions.png"))
        _render_regions(options, out)
    else:
        name = split_name(options.field)[0]
        out = options.out or str(source.with_name(f"{source.stem}_{name.replace('/', '_')}.png"))
        _render_field(options, name, out)
    if not options.show:
        print(out)


def _render_field(options: Namespace, name: str, out: str) -> None:
    from meshop.io import read_mesh
    from meshop.render import compare, field, gallery, show

    meshes = [read_mesh(path) for path in options.files]
    mesh = meshes[0]
    look = {"component": options.component, "unit": options.unit, "clim": options.clim and tuple(options.clim),
            "cmap": options.cmap, "view": _view(options), "filters": _filters(options),
            "show_edges": options.edges}  # fmt: skip
    if options.show:
        show(mesh, options.field, **look)
        return
    if len(meshes) > 1:
        stems = [Path(path).stem for path in options.files]
        gallery(meshes, options.field, out, titles=stems, columns=options.columns, **look)
        return
    predicted = f"{name}_pred" in mesh.point_data or f"{name}_pred" in mesh.cell_data
    draw: Callable[..., Any] = compare if predicted else field
    draw(mesh, options.field, out, **look)


def _render_regions(options: Namespace, out: str) -> None:
    from meshop.io import read_mesh
    from meshop.render import regions

    mesh = read_mesh(options.path)
    name = options.field and split_name(options.field)[0]
    regions(mesh, name, out, title=Path(options.path).name, view=_view(options), show_edges=options.edges)


def _view(options: Namespace) -> Any:
    """The viewer of --view or --camera."""
    if options.camera is not None:
        return [options.camera[i : i + 3] for i in (0, 3, 6)]
    return _numbers(options.view) if options.view and "," in options.view else options.view


def _filters(options: Namespace) -> list[Any]:
    """The filters asked for, in the order of their table."""
    made = []
    for name, (help_, make) in _FILTERS.items():
        for text in options[name]:
            try:
                made.append(make(text))
            except ValueError as error:
                raise InputError(f"Expected --{name} as {help_.split(': ')[-1]} (got '{text}')") from error
    return made


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.split(",")]


def _plane(text: str) -> tuple[Any, Any]:
    """Normal and position of ``x=0.5``, ``x`` or ``1,1,0=0,0,0``."""
    normal, _, at = text.partition("=")
    place = _numbers(at) if at else None
    return (_numbers(normal) if "," in normal else normal), place[0] if place and len(place) == 1 else place


def _field_and(text: str, needed: bool = False) -> tuple[str, str]:
    """Field and what follows the equals sign."""
    name, _, rest = text.partition("=")
    if not name or (needed and not rest):
        raise ValueError(text)
    return name, rest


def _threshold(text: str) -> Any:
    from meshop.render import Threshold

    name, bounds = _field_and(text, needed=True)
    low, _, high = bounds.partition(":")
    return Threshold(name, float(low or "-inf"), float(high or "inf"))


def _plain(filter_: str, number: Callable[[str], Any]) -> Callable[[str], Any]:
    """A filter of a field and, after an equals sign, a number."""

    def make(text: str) -> Any:
        from meshop import render

        name, rest = _field_and(text)
        return getattr(render, filter_)(name, *([number(rest)] if rest else []))

    return make


def _planar(filter_: str) -> Callable[[str], Any]:
    def make(text: str) -> Any:
        from meshop import render

        return getattr(render, filter_)(*_plane(text))

    return make


_FILTERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "warp": ("displace the mesh by a vector field, times a factor: u=10", _plain("Warp", float)),
    "threshold": ("cells with values in a range, without a bound if it is left out: p=0.5:2", _threshold),
    "clip": ("what lies below a plane, above it with a minus, as --clip=-x=0.5: x=0.5 or 1,1,0=0,0,0", _planar("Clip")),
    "slice": ("the cut along a plane, in the middle if no place is given: x=0.5 or z or 1,1,0=0,0,0", _planar("Slice")),
    "iso": ("surfaces on which a field has these values, five if none are given: p=0.5,1,2",
            _plain("Contour", _numbers)),
    "arrows": ("arrows along a vector field, with their distance as a share of the diagonal: u or u=0.04",
               _plain("Arrows", float)),
    "streamlines": ("lines along a vector field, with the distance of their starts: u or u=0.15",
                    _plain("Streamlines", float)),
}  # fmt: skip


def _render_page(options: Namespace) -> None:
    from meshop.io import read_mesh
    from meshop.render import page

    fields = [options.field] if options.field else []
    units = {split_name(field)[0]: options.unit for field in fields}
    page(read_mesh(options.path), options.html, fields, units=units, show_edges=options.edges)


def _render_assignment(options: Namespace, out: str) -> None:
    from meshop.probe import assignments
    from meshop.render import assignment, side_by_side

    pictures = []
    for name, surrogate, mesh in _surrogates(options.assignment, options):
        spec = surrogate.spec
        layers = assignments(surrogate, mesh)
        if not layers:
            raise InputError(
                f"{name} has no slices or clusters to draw; the layers with them are ClusterAttention, "
                "PhysicsAttention, SliceResidualAttention, EideticAttention, LinearAttentionNO and LatentSSM"
            )
        layer = _choose("layer", options.layer, len(layers), name)
        head = _choose("head", options.head, layers[layer].size(1), name)
        target = spec.targets[0].name if options.field is None else split_name(options.field)[0]
        unit = options.unit or next((t.unit for t in spec.targets if t.name == target), "")
        pictures.append(
            assignment(
                surrogate.predict(mesh), layers[layer][:, head], location=spec.location, name=target, top=options.top,
                component=options.component, unit=unit, show_edges=options.edges, view=_view(options),
                filters=_filters(options), title=f"{name}, layer {layer}, head {head}",
            )
        )  # fmt: skip
    side_by_side(pictures, out)


def _render_attention(options: Namespace, out: str) -> None:
    from meshop.probe import slice_attention
    from meshop.render import matrices

    found: dict[str, Any] = {}
    for name, surrogate, mesh in _surrogates(options.attention, options):
        layers = slice_attention(surrogate, mesh)
        if not layers:
            raise InputError(
                f"{name} has no attention between slices to draw; Transolver, Transolver++ and Transolver-sigma have"
            )
        head = _choose("head", options.head, min(matrix.size(1) for matrix in layers), name)
        found |= {f"{name}, layer {i}, head {head}": matrix[0, head] for i, matrix in enumerate(layers)}
    matrices(found, out, label="attention of the row's slice to the column's")


def _render_similarity(options: Namespace, out: str) -> None:
    from meshop.probe import layer_similarity
    from meshop.render import matrices

    found = {name: layer_similarity(s, mesh) for name, s, mesh in _surrogates(options.similarity, options)}
    low = min(0.0, *(float(matrix.min()) for matrix in found.values()))
    matrices(found, out, label="cosine", clim=(low, 1.0))


_INSIDE: dict[str, tuple[Callable[[Namespace, str], None], str]] = {
    "assignment": (
        _render_assignment,
        "the slices or clusters of a trained model on the mesh, below its prediction and error",
    ),
    "attention": (_render_attention, "how the slices of a trained model attend to each other, a matrix a layer"),
    "similarity": (_render_similarity, "how alike the layers of a trained model are, the cosine of their features"),
}


def _surrogates(checkpoints: Sequence[str], options: Namespace) -> Iterator[tuple[str, Any, MeshData]]:
    """Each trained model with the name of its class, numbered where two share it, and the mesh as it sees it."""
    from meshop.datasets import read_case
    from meshop.train import Surrogate

    surrogates = [Surrogate.load(checkpoint) for checkpoint in checkpoints]
    names = [type(surrogate.model).__name__ for surrogate in surrogates]
    for i, (name, surrogate) in enumerate(zip(names, surrogates, strict=True)):
        mesh = surrogate.prepare(read_case(options.path, surrogate.spec, options.params), options.path)
        yield f"{name} {i}" if names.count(name) > 1 else name, surrogate, mesh


def _choose(what: str, index: int, count: int, name: str) -> int:
    """An index that may count from the end, as one that does not."""
    if not -count <= index < count:
        raise InputError(f"Expected a --{what} from 0 to {count - 1} of {name} (got {index})")
    return index % count


# ---------------------------------------------------------------------------------------------------------------------
# train, evaluate, predict


def _data_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--target", nargs="+", type=str, default=[], help="fields to predict: p:point U:cell")
    parser.add_argument(
        "--input", nargs="+", type=str, default=[], help="fields and named sets that enter the model, beside position"
    )
    parser.add_argument(
        "--features", nargs="+", type=str, default=[],
        help="geometric inputs: distance (to the boundary), distance=MARKER, signed_distance=SURFACE.stl, normals",
    )  # fmt: skip
    parser.add_argument(
        "--params", type=str | None, default=None, help="CSV with a row of values a case; for series also time,dt"
    )
    parser.add_argument(
        "--split",
        type=str | None,
        default=None,
        help="fractions, or a directory with train.txt, ... (default: the column split of the CSV, or 0.8/0.1/0.1)",
    )
    parser.add_argument(
        "--on-error", type=Literal["fail", "skip"], default="fail", help="what a bad file of a directory does"
    )
    parser.add_argument("--lazy", action="store_true", help="read meshes of a directory when they are needed")
    parser.add_argument(
        "--dim", type=Literal[2, 3] | None, default=None, help="2 for meshes in a plane (default: look)"
    )
    parser.add_argument(
        "--knn", type=int | None, default=None, help="edges to this many neighbours, not those of cells"
    )
    parser.add_argument("--root", type=str | None, default=None, help="where a benchmark's files lie (data/NAME)")
    parser.add_argument("--data_args", type=dict[str, Any], default={}, help="further arguments of the data set")


def _train_arguments(parser: ArgumentParser) -> None:
    import torch_geometric.nn  # noqa: F401  (its models can be named: --model GraphSAGE)
    from torch import nn

    import meshop.models  # noqa: F401
    from meshop.datasets import BENCHMARKS
    from meshop.rollout import Rollout
    from meshop.train import Recipe, Strategy

    names = ", ".join(BENCHMARKS)
    parser.add_argument("data", type=str, help=f"a directory of mesh files or series, or a benchmark: {names}")
    parser.add_argument("--config", action="config", help="YAML file with any of these options")
    _data_arguments(parser)
    parser.add_subclass_arguments(nn.Module, "model", skip={"in_channels", "out_channels"}, instantiate=False)
    parser.set_defaults({"model": {"class_path": "meshop.models.CANO", "init_args": MODEL_DEFAULTS}})
    parser.add_class_arguments(Recipe, nested_key=None)
    parser.add_argument(
        "--rollout",
        type=Rollout | None,
        default=None,
        help="predict a few frames a call and step: --rollout.frames 1 (T_in is that of the data set)",
    )
    parser.add_argument(
        "--subsample", type=int | None, default=None, metavar="N",
        help="nodes of a mesh that a training step sees, drawn anew each time (default: all)",
    )  # fmt: skip
    parser.add_argument("--out", type=str | None, default=None, help="directory of the run (default: runs/DATA)")
    parser.add_argument("--resume", action="store_true", help="continue the run in --out")
    parser.add_argument("--device", type=str, default="auto", help="auto, cpu, cuda, cuda:1, mps")
    parser.add_argument(
        "--devices", type=int, default=1, help="processes on this machine, each with a GPU where there are any"
    )
    parser.add_argument(
        "--strategy", type=Strategy, default="ddp",
        help="of several processes: ddp deals out the meshes of a batch, fsdp also shards the weights, domain cuts "
        "every mesh",
    )  # fmt: skip
    parser.add_argument("--workers", type=int, default=0, help="processes that load meshes")
    parser.add_argument("--logger", nargs="*", type=Literal["tensorboard", "wandb"], default=[], help="beside the CSV")
    parser.add_argument("--dry-run", action="store_true", help="build everything, run one batch, report, stop")


MODEL_DEFAULTS = {"hidden_channels": 64, "num_layers": 4, "heads": 4}


def open_data(options: Namespace) -> Any:
    """The data set that DATA and its options name."""
    from torch_geometric.transforms import Compose

    from meshop.data import did_you_mean
    from meshop.datasets import BENCHMARKS, Folder, SeriesFolder, holds_series
    from meshop.transforms import KNNGraph, NodeMeasure

    extra = dict(options.data_args)
    own = {
        key: options[key]
        for key in ("features", "on_error", "lazy")
        if options.get(key, "fail") not in ([], "fail", False)
    }
    if options.knn:
        extra["pre_transform"] = Compose([KNNGraph(options.knn), NodeMeasure()])
    if Path(options.data).is_dir():
        if not options.target:
            raise InputError(
                f"Name the fields to predict from {options.data}, as in --target p:point (meshop info lists them)"
            )
        series = bool({"T_in", "T_out"} & extra.keys()) or holds_series(options.data)
        if not series:
            extra |= own
        elif own:
            raise InputError(f"{options.data} holds series; only directories of single meshes take {_flags(own)}")
        if options.split is not None:
            extra["split"] = options.split
        kind = SeriesFolder if series else Folder
        return kind(
            options.data, options.target, options.input, options.params, seed=options.get("seed", 0), dim=options.dim,
            **extra,
        )  # fmt: skip
    if options.data not in BENCHMARKS:
        raise InputError(
            f"{options.data} is neither a directory nor a benchmark{did_you_mean(options.data, list(BENCHMARKS))}; "
            f"the benchmarks are {', '.join(BENCHMARKS)}"
        )
    if own:
        raise InputError(f"{options.data} is a benchmark; only directories of mesh files take {_flags(own)}")
    return BENCHMARKS[options.data](root=options.root or f"data/{options.data}", **extra)


def _flags(names: Iterable[str]) -> str:
    return " and ".join(f"--{name.replace('on_error', 'on-error')}" for name in names)


def _launch(options: Namespace, argv: Sequence[str]) -> int:
    """Run this command in as many processes as it asks for."""
    import torch

    gpus = torch.cuda.device_count()
    if ":" in options.device:
        raise InputError(f"--device {options.device} is one GPU; name --device cuda for --devices {options.devices}")
    if _device(options.device).type == "cuda" and options.devices > gpus:
        raise InputError(f"Expected at most --devices {gpus}, the GPUs of this machine (got {options.devices})")
    return launch([sys.executable, "-m", "meshop.cli", *argv], options.devices)


def train(options: Namespace) -> None:
    """Train a model on a directory of mesh files or on a benchmark, and evaluate it on the test split."""
    with connected(options.device):
        _train(options)


def _train(options: Namespace) -> None:
    import torch
    from torch_geometric.loader import DataLoader
    from torch_geometric.transforms import Compose

    from meshop.checkpoint import build, from_config
    from meshop.io.files import alone
    from meshop.rollout import out_channels, rollout_on
    from meshop.train import Recipe, Surrogate, estimate_memory, evaluate, fit
    from meshop.transforms import SubsampleNodes

    recipe = Recipe(**{k: options[k] for k in Recipe.__dataclass_fields__})
    rank, ranks = processes()
    with first_alone():
        data = open_data(options)
    rollout = rollout_on(data, options.rollout)
    torch.manual_seed(recipe.seed)
    description = from_config(options.model.as_dict())
    description["args"] |= {"in_channels": data.spec.in_channels, "out_channels": out_channels(data.spec, rollout)}
    model = build(description)
    surrogate = Surrogate(model, data.spec, data.pre_transform, recipe, description, rollout)
    parameters = sum(p.numel() for p in model.parameters())
    sizes = ", ".join(f"{len(ids)} {name}" for name, ids in data.splits.items())
    nodes = [d.num_nodes for d in (data[:1] if data.lazy else data)]  # not all files are read only to count
    span = f"{nodes[0]} nodes in the first" if data.lazy else f"{min(nodes)} to {max(nodes)} nodes"
    print(f"data       {options.data}: {sizes}; {span}")
    print(f"origin     {data.origin}")
    out = Path(options.out or f"runs/{Path(options.data).name}")
    _tell_skipped(data, Path(data.processed_dir if options.dry_run else out, "skipped.csv"))
    print(f"fields     {_names(data.spec)}")
    channels = f"{data.spec.in_channels} -> {out_channels(data.spec, rollout)} channels"
    print(f"model      {type(model).__name__}, {channels}, {parameters} parameters")
    if ranks > 1:
        print(f"processes  {ranks}, {options.strategy}")
    if options.dry_run:
        surrogate.fit_normalizers(data.split("train"))
        batch = next(iter(DataLoader(data.split("train"), batch_size=recipe.batch_size)))
        memory = estimate_memory(surrogate, batch)
        print(f"batch      x {list(batch.x.shape)}, y {list(batch.y.shape)}, edges {batch.edge_index.size(1)}")
        print(
            f"memory     {memory['weights']:.3f} GB weights and optimiser, {memory['activations']:.3f} GB activations"
        )
        print(f"loss       {memory['loss']:.4g} before training; nothing was written")
        return
    out.mkdir(parents=True, exist_ok=True)
    has_val = bool(data.splits.get("val"))
    if not has_val:
        print("no validation split: the curve is that of the test set, and the last epoch counts")
    part = data.split("train")
    if options.subsample is not None:
        part.transform = Compose([*([part.transform] if part.transform else []), SubsampleNodes(options.subsample)])
    with alone(out) if rank == 0 else nullcontext():
        if rank == 0 and not (options.resume and (out / "config.yaml").exists()):
            _refuse_other_run(out)
            _write_run(out, options, data)
        start = time.perf_counter()
        fit(
            surrogate, part, data.split("val" if has_val else "test"), out, select=has_val,
            resume=options.resume, device=options.device, strategy=options.strategy, workers=options.workers,
            loggers=_loggers(options.logger, out),
        )  # fmt: skip
        seconds = time.perf_counter() - start
    chosen = out / "checkpoints" / ("best.ckpt" if has_val else "last.ckpt")
    best = Surrogate.load(chosen).to(surrogate.device if ranks == 1 else _device(options.device))
    if surrogate.shares_meshes:
        best.share_meshes(rank, ranks)
    elif rank:
        return
    rows = evaluate(best, data.split("test"), recipe.batch_size)
    if rank:
        return
    _report(rows, out / "evaluation.csv")
    print(f"trained    {seconds:.0f} seconds, {parameters} parameters")
    print(f"run        {out}: metrics.csv, evaluation.csv, config.yaml, checkpoints")
    print(f"next       meshop predict {chosen} FILE... --out {out}/predictions")


def _evaluate_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=str, help="RUN/checkpoints/last.ckpt or best.ckpt")
    parser.add_argument(
        "data", nargs="?", type=str | None, default=None, help="a directory or benchmark (default: the run's own)"
    )
    _data_arguments(parser)
    parser.add_argument("--part", type=str, default="test", help="train, val, test or all")
    parser.add_argument("--batch_size", type=int, default=4, help="meshes at a time")
    parser.add_argument("--device", type=str, default="auto", help="auto, cpu, cuda, cuda:1, mps")
    parser.add_argument("--out", type=str | None, default=None, help="CSV with a row a mesh and field")
    parser.add_argument(
        "--pictures", type=str | None, default=None, metavar="DIR",
        help="draw how the errors spread, and the worst meshes of each field",
    )  # fmt: skip
    parser.add_argument("--worst", type=int, default=5, help="meshes to draw a field")


def evaluate_(options: Namespace) -> None:
    """Print the error of a checkpoint on the test split of its run, or on other data with the same fields."""
    from meshop.report import write_pictures
    from meshop.train import Surrogate, evaluate

    if options.worst < 1:
        raise InputError(f"Expected --worst of at least 1 (got {options.worst})")

    surrogate = Surrogate.load(options.checkpoint).to(_device(options.device))
    if options.data is None:
        given = dict(options.data_args)
        options.update(_own_data(options.checkpoint))
        options.data_args = dict(options.data_args) | given
    else:
        spec, stepper = surrogate.spec, surrogate.stepper
        names = stepper.names if stepper else [field.name for field in spec.targets]
        histories = {f"{name}_in" for name in names} if stepper else set()
        options.target = options.target or [f"{name}:{spec.location}" for name in names]
        options.input = options.input or [str(f) for f in spec.inputs if f.name not in histories]
        options.dim = options.dim or spec.dim
        if stepper and Path(options.data).is_dir():
            options.data_args = {"T_in": stepper.rollout.T_in, "T_out": stepper.T_out} | options.data_args
        elif Path(options.data).is_dir() and not options.knn:
            options.data_args = {"pre_transform": surrogate.transform} | options.data_args
    data = open_data(options)
    ours, theirs = _names(surrogate.spec), _names(data.spec)
    if surrogate.stepper:
        surrogate.set_windows(data.spec)
    elif ours != theirs:
        raise InputError(f"The checkpoint was trained on {ours}; {options.data} has {theirs}")
    print(f"origin     {data.origin}")
    _tell_skipped(data, Path(data.processed_dir, "skipped.csv"))
    part = data if options.part == "all" else data.split(options.part)
    rows = evaluate(surrogate, part, options.batch_size)
    _report(rows, options.out)
    if options.pictures:
        for written in write_pictures(Path(options.pictures), rows, surrogate, part, options.worst):
            print(written)


def _tell_skipped(data: Any, path: Path) -> None:
    """Print how many cases were left out, and where it says why."""
    if skipped := getattr(data, "skipped", []):
        print(f"skipped    {len(skipped)} of {len(data.cases)} cases, see {path}")


_DATA_KEYS = (
    "data", "target", "input", "features", "params", "split", "dim", "knn", "root", "data_args", "seed", "on_error",
    "lazy",
)  # fmt: skip


def _own_data(checkpoint: str) -> Namespace:
    """The options of the data that a checkpoint was trained on."""
    import yaml

    run = Path(checkpoint).resolve().parent.parent
    if not (run / "config.yaml").exists():
        raise InputError(f"{run} has no config.yaml to say what it was trained on; name the data after the checkpoint")
    with (run / "config.yaml").open() as file:
        # a bench says what it needs alone
        own = {"target": [], "knn": None, "root": None, "data_args": {}} | yaml.safe_load(file)
    return Namespace({k: v for k, v in own.items() if k in _DATA_KEYS})


def _report_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=str, help="directory of a run of meshop train, or BENCHMARK/MODEL/SEED of a bench")
    parser.add_argument("--out", type=str | None, default=None, help="HTML to write (default: RUN/report.html)")
    parser.add_argument("--root", type=str | None, default=None, help="where a benchmark's files lie, if they moved")
    parser.add_argument("--device", type=str, default="auto", help="auto, cpu, cuda, cuda:1, mps")


def report_(options: Namespace) -> None:
    """Write a page about a run: what it is, learning curves, test errors, best and worst cases, where it is wrong."""
    from meshop.report import chosen_checkpoint, write_report
    from meshop.train import Surrogate

    run = Path(options.run)
    checkpoint = chosen_checkpoint(run)
    surrogate = Surrogate.load(checkpoint).to(_device(options.device))
    out = options.out or str(run / "report.html")
    about: dict[str, str] = {}
    test: Any = None
    absent = ""
    try:
        if not (run / "config.yaml").exists():
            raise InputError(f"{run} has no config.yaml to say what it was trained on")
        own = _own_data(str(checkpoint))
        own.root = options.root or own.root
        data = open_data(own)
        if surrogate.stepper:
            surrogate.set_windows(data.spec)
        elif _names(surrogate.spec) != _names(data.spec):
            raise InputError(f"the checkpoint predicts other fields: {_names(surrogate.spec)}, not {_names(data.spec)}")
        sizes = ", ".join(f"{len(ids)} {name}" for name, ids in data.splits.items() if ids)
        extra = ", ".join(f"{key}={value}" for key, value in own.data_args.items())
        about = {"data": f"{own.data}{f' ({extra})' if extra else ''}: {sizes}", "origin": str(data.origin)}
        test = data.split("test")
    except (InputError, OSError) as error:
        absent = _one_sentence(error)
        print(f"no test cases: {absent}", file=sys.stderr)
    write_report(run, out, surrogate, test, about, absent)
    print(out)


def _predict_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=str, help="RUN/checkpoints/last.ckpt or best.ckpt")
    parser.add_argument("files", nargs="+", type=str, help="mesh files or directories of them")
    parser.add_argument("--out", type=str, required=True, help="directory for VTU and PNG")
    parser.add_argument("--params", type=str | None, default=None, help="CSV with a row of values a case")
    parser.add_argument("--pictures", type=bool, default=True, help="draw PNG beside the VTU")
    parser.add_argument("--device", type=str, default="auto", help="auto, cpu, cuda, cuda:1, mps")


def predict(options: Namespace) -> None:
    """Predict on mesh files and write FIELD_pred, and FIELD_error where the file knows the truth, on the same cells."""
    from meshop.datasets import mesh_files, read_case
    from meshop.train import Surrogate

    surrogate = Surrogate.load(options.checkpoint).to(_device(options.device))
    paths = [p for f in map(Path, options.files) for p in (mesh_files(f) if f.is_dir() else [f])]
    stems = [p.stem for p in paths]
    if len(set(stems)) < len(stems):
        twice = next(s for s in stems if stems.count(s) > 1)
        raise InputError(
            f"Two files are called '{twice}' and both would become {options.out}/{twice}.vtu; predict them apart"
        )
    out = Path(options.out)
    for path in paths:
        if (out / f"{path.stem}.vtu").resolve() == path.resolve():
            raise InputError(f"--out {out} would write the prediction over {path}; choose another directory")
        mesh = surrogate.prepare(read_case(path, surrogate.spec, options.params), str(path))
        for written in write_prediction(surrogate, mesh, out, path.stem, options.pictures):
            print(written)


def write_prediction(surrogate: Any, mesh: MeshData, out: Path, stem: str, pictures: bool = True) -> list[Path]:
    """Write the prediction on a prepared mesh as ``out/stem.vtu``, with pictures one PNG a target; return the paths."""
    from meshop.io import write_mesh
    from meshop.render import compare

    out.mkdir(parents=True, exist_ok=True)
    result = surrogate.predict(mesh)
    written = [out / f"{stem}.vtu"]
    write_mesh(written[0], result)
    for target in surrogate.spec.targets if pictures else ():
        many = len(surrogate.spec.targets) > 1
        written.append(out / (f"{stem}_{target.name}.png" if many else f"{stem}.png"))
        compare(result, str(target), written[-1], unit=target.unit)
    return written


def _rollout_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=str, help="RUN/checkpoints/last.ckpt or best.ckpt, trained with --rollout")
    parser.add_argument(
        "files", nargs="*", type=str, help="series: PVD, XDMF, Exodus, directories (default: test cases of the run)"
    )
    parser.add_argument("--steps", type=int | None, default=None, help="frames to predict (default: as the truth has)")
    parser.add_argument("--out", type=str, required=True, help="directory for PVD, CSV and GIF")
    parser.add_argument("--start", type=int, default=0, help="frame of a series at which the history begins; from 0")
    parser.add_argument("--cases", type=int, default=1, help="test cases of the run, where no file is given")
    parser.add_argument("--params", type=str | None, default=None, help="CSV with a row of values a case")
    parser.add_argument("--pictures", type=bool, default=True, help="draw an animation beside the PVD")
    parser.add_argument("--device", type=str, default="auto", help="auto, cpu, cuda, cuda:1, mps")


def rollout_(options: Namespace) -> None:
    """Step through time from the first frames of a series: write the predictions as a series, and their errors."""
    from meshop.train import Surrogate

    surrogate = Surrogate.load(options.checkpoint).to(_device(options.device))
    if surrogate.stepper is None:
        raise InputError(f"{options.checkpoint} was trained without --rollout: it predicts all of its frames at once")
    if options.steps is not None and options.steps < 1:
        raise InputError(f"Expected at least one step (got {options.steps})")
    windows = _series(options, surrogate) if options.files else _test_windows(options, surrogate)
    for window, truth in windows:
        steps = truth.size(1) if options.steps is None else options.steps
        if not steps:
            raise InputError(f"{window.name} has no frames after the history; say how many to predict with --steps")
        for written in write_rollout(surrogate, window, truth, steps, Path(options.out), options.pictures):
            print(written)


def _series(options: Namespace, surrogate: Any) -> Iterator[tuple[MeshData, Any]]:
    """The history of each series as a packed window, and the frames [N, T, C] after it."""
    import torch

    from meshop.datasets.cases import read_table
    from meshop.io import read_series
    from meshop.transforms import Window

    stepper, spec = surrogate.stepper, surrogate.spec
    static = [str(field) for field in spec.inputs if field.name.removesuffix("_in") not in stepper.names]
    moving = [f"{name}:{spec.location}" for name in stepper.names]
    paths, T_in = [Path(file) for file in options.files], stepper.rollout.T_in
    names, rows = read_table(options.params, paths) if options.params else ([], [[]] * len(paths))
    for path, row in zip(paths, rows, strict=True):
        end = None if options.steps is None else options.start + T_in + options.steps
        trajectory = read_series(path, [*moving, *static], slice(options.start, end), spec.dim)
        after = trajectory.times.size(1) - T_in
        if after < 0:
            raise InputError(f"Expected {T_in} frames of {path} from {options.start} on (got {after + T_in})")
        window = Window(T_in, after, moving)(trajectory)
        window.name = path.stem
        values = dict(zip(names, row, strict=True))
        if missing := [name for name in spec.params if name not in (*values, "time", "dt")]:
            raise InputError(f"Expected the parameters {', '.join(missing)} of {path}; give them with --params")
        if spec.params:
            window.params = torch.tensor([[values.get(name, 0.0) for name in spec.params]])
        arrays = window.point_data if spec.location == "point" else window.cell_data
        parts = zip(stepper.names, stepper.components, strict=True)
        frames = [arrays[f"{name}_out"].reshape(-1, after, size).float() for name, size in parts] if after else []
        nodes = len(window.points) if spec.location == "point" else window.num_cells
        truth = torch.cat(frames, dim=2) if after else torch.empty(nodes, 0, stepper.channels)
        for name in stepper.names:  # as many frames as there are, not those of the windows of training
            del arrays[f"{name}_out"]
        yield surrogate.prepare(window, str(path)), truth


def _test_windows(options: Namespace, surrogate: Any) -> Iterator[tuple[MeshData, Any]]:
    """The first test cases of the run's own data, and the frames that follow the history of each."""
    options.update(_own_data(options.checkpoint))
    test = open_data(options).split("test")
    for window in test[: options.cases]:
        yield window, surrogate.stepper.truth(window.y)


def write_rollout(
    surrogate: Any, window: MeshData, truth: Any, steps: int, out: Path, pictures: bool = True
) -> list[Path]:
    """Write a rollout as ``out/NAME.pvd``, its errors as ``NAME.csv`` and an animation a field; return the paths.

    Every frame has the fields, FIELD_pred and, where there is truth, FIELD_error. What stops it leaves the frames and
    the errors so far.
    """
    import torch

    from meshop.io import SeriesWriter
    from meshop.metrics import relative_l2

    out.mkdir(parents=True, exist_ok=True)
    stepper, stem = surrogate.stepper, str(window.name).replace("/", "_")
    bare: MeshData = window.__copy__()
    key = "point_data" if surrogate.spec.location == "point" else "cell_data"
    own = [f"{name}{end}" for name in stepper.names for end in ("_in", "_out")]
    bare[key] = type(bare[key])({name: array for name, array in bare[key].items() if name not in own})
    last = stepper.split(stepper.history(window.x)[:, -1].cpu())
    written = [out / f"{stem}.pvd", out / f"{stem}.csv"]
    ranges: dict[str, tuple[float, float, float]] = {}  # least, greatest, and largest error
    with SeriesWriter(written[0]) as writer, written[1].open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["step", "time", "field", "relative_l2", "persistence"])
        for step, frame in enumerate(_kept(surrogate.rollout(window, steps, truth), written[0]), start=1):
            now = float(stepper.time(window, step)) if "times" in window else float(step)
            guess = {name: value.cpu() for name, value in frame.items()}
            true = stepper.split(truth[:, step - 1].cpu()) if step <= truth.size(1) else {}
            true = {name: value.view_as(guess[name]) for name, value in true.items()}
            writer.write(surrogate.on_mesh(bare, guess, true), now)
            for name, value in guess.items():
                known = true.get(name, value)
                sizes = torch.stack([v if v.dim() == 1 else v.norm(dim=1) for v in (value, known)])
                off = float((value - known).view(len(value), -1).norm(dim=1).max())
                low, high, worst = ranges.get(name, (math.inf, -math.inf, 0.0))
                ranges[name] = (min(low, float(sizes.min())), max(high, float(sizes.max())), max(worst, off))
                if name in true:
                    errors = [float(relative_l2(v.view_as(value), true[name])) for v in (value, last[name])]
                    table.writerow([step, f"{now:.9g}", name, *(f"{error:.6g}" for error in errors)])
            file.flush()
    if pictures:
        place = surrogate.spec.location
        written += [_animate(written[0], f"{name}:{place}", (low, high), w) for name, (low, high, w) in ranges.items()]
    return written


def _kept(frames: Iterator[Any], series: Path) -> Iterator[Any]:
    """The frames of a rollout; an error that ends it says where those before are."""
    try:
        yield from frames
    except InputError as error:
        raise InputError(f"{error}; the frames before are in {series}") from error


def _animate(series: Path, field: str, clim: tuple[float, float], worst: float) -> Path:
    """Draw a field of a series, in at most 100 frames, as an animation beside it."""
    import pyvista as pv

    from meshop.render import animate, limits

    reader = pv.get_reader(series)
    chosen = range(0, len(reader.time_values), math.ceil(len(reader.time_values) / 100))

    def frames() -> Iterator[Any]:
        for number in chosen:
            reader.set_active_time_point(number)
            yield reader.read()[0]

    path = series.with_name(f"{series.stem}_{split_name(field)[0]}.gif")
    times = [reader.time_values[number] for number in chosen]
    animate(frames(), field, path, clim=limits(clim), worst=worst or None, times=times)
    return path


# ---------------------------------------------------------------------------------------------------------------------
# bench, demo


def _bench_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--suite", type=str, default="real", help="a file of datasets/suites, or a YAML file")
    parser.add_argument("--data", nargs="+", type=str, default=[], help="benchmarks of the suite (default: all)")
    parser.add_argument("--models", nargs="+", type=str, default=[], help="models of the suite (default: all)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[], help="instead of the suite's")
    parser.add_argument("--minutes", type=float | None, default=None, help="of training a run, instead of the suite's")
    parser.add_argument(
        "--budget",
        type=Literal["full", "hour", "minutes"] | None,
        default=None,
        help="instead of --minutes: all epochs of the recipes, 60 minutes or 5",
    )
    parser.add_argument("--out", type=str, default="runs/bench", help="directory of the results")
    parser.add_argument("--root", type=str, default="data", help="where the benchmarks' files lie, in ROOT/NAME")
    parser.add_argument("--device", type=str, default="auto", help="auto, cpu, cuda, cuda:1, mps")
    parser.add_argument("--only-steps", action="store_true", help="measure the seconds of a step and train nothing")
    parser.add_argument("--workers", type=int | Literal["ray"], default=1, help="runs side by side, or on Ray: ray")


def bench_(options: Namespace) -> None:
    """Compare models on benchmarks, each run with the same budget of training; runs that are done are kept."""
    from meshop.bench import BUDGETS, bench, choose, draw, read_suite, to_markdown
    from meshop.io.files import whole_file

    if options.budget is not None and options.minutes is not None:
        raise InputError("Give --budget or --minutes, not both")
    minutes = options.minutes if options.budget is None else BUDGETS[options.budget]
    suite = read_suite(options.suite)
    trials = choose(suite, options.data, options.models, options.seeds, minutes)
    rows = bench(trials, options.out, options.root, options.device, options.only_steps, options.workers)
    if not rows:
        return
    command = f"meshop bench --suite {Path(options.suite).stem}"
    command += f" --budget {options.budget}" if options.budget else ""
    command += f" --minutes {options.minutes:g}" if options.minutes is not None else ""
    report, shown = Path(options.out) / "results.md", choose(suite, minutes=minutes)
    with whole_file(report) as part:
        part.write_text(to_markdown(rows, shown, command))
    print(f"results    {report}, {report.with_suffix('.csv')}")
    for picture in draw(rows, shown, options.out):
        print(f"picture    {picture}")


def _generate_arguments(parser: ArgumentParser) -> None:
    from meshop.datasets.generators import GENERATORS

    parser.add_argument("name", type=str, help=f"a benchmark: {', '.join(GENERATORS)}")
    parser.add_argument("--out", type=str | None, default=None, help="directory of the files (default: data/NAME/raw)")
    parser.add_argument("--samples", type=int | None, default=None, help="how many (default: as many as are published)")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers")
    parser.add_argument("--workers", type=int, default=1, help="processes, each with one thread")
    parser.add_argument("--options", type=dict[str, Any], default={}, help="of the solver: --options.resolution 85")


def generate(options: Namespace) -> None:
    """Make the files of a benchmark by a solver, in the published layout; a call that was stopped is continued."""
    from meshop.data import did_you_mean
    from meshop.datasets.generators import GENERATORS
    from meshop.datasets.generators import generate as make
    from meshop.datasets.origin import MARK

    if options.name not in GENERATORS:
        raise InputError(
            f"There is no generator '{options.name}'{did_you_mean(options.name, list(GENERATORS))}; "
            f"there are {', '.join(GENERATORS)}"
        )
    out = options.out or f"data/{options.name}/raw"
    found = make(GENERATORS[options.name], out, options.samples, options.seed, options.workers, **options.options)
    for value, (mean, std) in found.items():
        print(f"{value:<10} mean {mean:.5g}, deviation {std:.5g}")
    names = sorted(path.name for path in Path(out).iterdir() if path.name != MARK)
    print(f"files      {out}: {', '.join(names)}; how they were made: {MARK}")


def _demo_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--out", type=str, default="runs/demo", help="directory of the run")
    parser.add_argument("--samples", type=int | None, default=None, help="plates to make")
    parser.add_argument("--epochs", type=int | None, default=None, help="passes over the training plates")
    parser.add_argument("--device", type=str, default="auto", help="auto, cpu, cuda, cuda:1, mps")


def demo(options: Namespace) -> None:
    """Make plates with holes, train CANO on their displacement and stress, and draw where it is wrong."""
    from meshop.datasets import card
    from meshop.train import Surrogate

    out = Path(options.out)
    begun = (out / "checkpoints" / "last.ckpt").exists()
    print(f"{'continuing' if begun else 'starting'} in {out}: plates with holes, each with its own triangle mesh")
    call = ["train", "plate_with_holes", "--config", str(card("plate_with_holes") / "cano.yaml"), "--out", str(out)]
    call += ["--root", str(out / "data"), "--device", options.device]
    call += ["--data_args.num_samples", str(options.samples)] if options.samples else []
    call += ["--epochs", str(options.epochs)] if options.epochs else []
    call += ["--resume"] if begun else []
    run = _parser(call).parse_args(call).train
    train(run)

    surrogate = Surrogate.load(out / "checkpoints" / "last.ckpt")
    with (out / "evaluation.csv").open(newline="") as file:
        error: dict[str, float] = {}
        for row in csv.DictReader(file):
            error[row["name"]] = error.get(row["name"], 0.0) + float(row["relative_l2"])
    ranked = sorted(error, key=error.__getitem__)
    cases = {ranked[0]: "best", ranked[len(ranked) // 2]: "median", ranked[-1]: "worst"}
    for mesh in open_data(run).split("test"):
        write_prediction(surrogate, mesh, out / "predictions", mesh.name, pictures=False)
        if mesh.name in cases:
            _draw(surrogate, mesh, out / "figures", cases[mesh.name])
    print(f"pictures   {out}/figures: the best, the median and the worst plate of the test set")
    print(f"meshes     {out}/predictions: VTU for ParaView, with the fields, FIELD_pred and FIELD_error")


def _draw(surrogate: Any, mesh: MeshData, out: Path, prefix: str) -> None:
    from meshop.render import compare

    out.mkdir(parents=True, exist_ok=True)
    for target in surrogate.spec.targets:
        compare(surrogate.predict(mesh), str(target), out / f"{prefix}_{target.name}.png", unit=target.unit)


# ---------------------------------------------------------------------------------------------------------------------
# what the verbs share


VERBS: dict[str, tuple[Callable[[ArgumentParser], None], Callable[[Namespace], None], str]] = {
    "info": (_info_arguments, info, "meshop info wing.vtu"),
    "convert": (_convert_arguments, convert, "meshop convert part.msh part.vtu"),
    "train": (_train_arguments, train, "meshop train cases/ --target p:point --model CANO --epochs 50 --out runs/a"),
    "evaluate": (_evaluate_arguments, evaluate_, "meshop evaluate runs/a/checkpoints/best.ckpt"),
    "report": (_report_arguments, report_, "meshop report runs/a"),
    "predict": (_predict_arguments, predict, "meshop predict runs/a/checkpoints/best.ckpt new.vtu --out predictions"),
    "rollout": (_rollout_arguments, rollout_, "meshop rollout runs/a/checkpoints/last.ckpt run.pvd --out rollouts"),
    "render": (_render_arguments, render, "meshop render predictions/new.vtu --field p --slice x=0.5 --view iso"),
    "bench": (_bench_arguments, bench_, "meshop bench --suite real --models CANO Transolver --out runs/real"),
    "generate": (_generate_arguments, generate, "meshop generate darcy --samples 120 --options.resolution 85"),
    "demo": (_demo_arguments, demo, "meshop demo"),
}


def _parser(argv: Sequence[str]) -> ArgumentParser:
    parser = ArgumentParser(prog="meshop", description=__doc__, exit_on_error=False, allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="print the version")
    verbs = parser.add_subcommands(required=False, dest="verb")
    for verb, (add_arguments, run, example) in VERBS.items():
        summary = (run.__doc__ or "").splitlines()[0]
        sub = ArgumentParser(description=summary, epilog=f"example: {example}", exit_on_error=False, allow_abbrev=False)
        if verb in argv:  # the others' arguments would import torch, Lightning and VTK for nothing
            add_arguments(sub)
        sub.add_argument("--debug", action="store_true", help="show the traceback of an error")
        verbs.add_subcommand(verb, sub, help=summary)
    return parser


def _one_sentence(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    if isinstance(error, InputError):
        return text
    if isinstance(error, ArgumentError):
        lines = [line.strip(" -:") for line in text.splitlines()]
        telling = [
            s for s in lines if s.startswith(("Option", "Problem", "Expected a dot", "Key", "Unrecognized", "Failed"))
        ]
        return (
            "; ".join(telling[-2:] if telling else [s for s in lines if s]) + " (meshop VERB --help lists the options)"
        )
    if isinstance(error, OSError):
        return f"{error.strerror or text}{f': {error.filename}' if error.filename else ''}"
    return f"{type(error).__name__}: {' '.join(text.split())} (--debug shows where)"


def _names(spec: Any) -> str:
    inputs = ["position"] * spec.position + [*map(str, spec.inputs), *spec.params]
    return f"{', '.join(inputs)} -> {', '.join(map(str, spec.targets))}"


def _device(name: str) -> Any:
    import torch

    return torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)


def _loggers(names: Sequence[str], out: Path) -> list[Any]:
    from pytorch_lightning import loggers

    made = []
    for name in names:
        try:
            made.append(
                loggers.TensorBoardLogger(out, name="tensorboard", version="")
                if name == "tensorboard"
                else loggers.WandbLogger(save_dir=out)
            )
        except ModuleNotFoundError as error:
            raise InputError(f"--logger {name} needs the package {name}: pip install {name}") from error
    return made


def _refuse_other_run(out: Path) -> None:
    if (out / "checkpoints" / "last.ckpt").exists():
        raise InputError(f"{out} holds a run already; continue it with --resume or choose another --out")


def _write_run(out: Path, options: Namespace, data: Any) -> None:
    """Write what the run is before it starts: its options, the split by case name, and the versions."""
    import yaml

    from meshop.io.files import whole_file
    from meshop.train import versions

    plain = {k: v for k, v in options.as_dict().items() if k not in ("config", "debug", "dry_run", "resume")}
    if hasattr(data, "windows"):  # of trajectories that are read when they are needed
        every = [name for name, _ in data.windows]
    else:
        every = data.names if hasattr(data, "names") else data.cases
    names = {part: list(dict.fromkeys(every[i] for i in ids)) for part, ids in data.splits.items()}
    environment = versions() | {"data": data.origin}
    for file, text in (
        ("config.yaml", yaml.safe_dump(plain, sort_keys=False)),
        ("splits.json", json.dumps(names, indent=1)),
        ("environment.txt", "".join(f"{k} {v}\n" for k, v in environment.items())),
    ):
        with whole_file(out / file) as part:
            part.write_text(text)
    if getattr(data, "skipped", []):
        data.write_skipped(out / "skipped.csv")


def _report(rows: list[dict[str, Any]], path: str | Path | None) -> None:
    """Print the mean error of each field and write all rows to a CSV."""
    from meshop.io.files import whole_file
    from meshop.train import summarise

    table = summarise(rows)
    columns = list(next(iter(table.values())))
    print(f"{'test error':<20}" + "".join(f"{c:>22}" for c in columns))
    for name, values in table.items():
        print(f"{name:<20}" + "".join(f"{values[c]:>22.4g}" for c in columns))
    if path is not None:
        with whole_file(path) as part, part.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
