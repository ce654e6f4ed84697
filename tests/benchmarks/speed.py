"""Layers and models of meshop, and the same written plainly, in turn: seconds, share of the machine's rate, memory.

    python tests/benchmarks/speed.py --layers physics cluster --models Transolver CANO --nodes 11000 --out speed.csv
    python tests/benchmarks/speed.py --against docs/speed.csv        # exits with 1 where 10 % were lost

Rows are layer or model x nodes x batch x precision x pass. Each round runs ours, the plain twin of ``plain.py`` and a
product of two 2048 x 2048 matrices one after the other, in one process. Batches have so many nodes in all:

- ``single``: one mesh, without a batch vector;
- ``one``: one mesh with the batch vector that a loader makes;
- ``equal``: 16 meshes of one size;
- ``ragged``: 16 meshes whose sizes run from 300 to 5,000 in ratio, in mixed order; the plain twin gets them padded.

A training step is forward and backward. Columns:

- ``seconds``, ``seconds_median``: the best and the median of all rounds; ``plain_...`` of the plain twin.
- ``ratio``: how many times as long the plain twin takes, the median over the rounds.
- ``gflop``: useful operations, from the formulas below; ``share``: their rate over that of the product.
- ``products``: the time in units of the product's.
- ``memory_mb``: what a step adds to the resident memory of a process of its own that has made a small step before:
  inputs, parameters, gradients and all that is kept at once. ``--no-memory`` leaves it out.
- ``saved_mb``: what autograd keeps from forward to backward, parameters aside.

Rows of other cases that ``--out`` has stay. ``--against`` compares ``ratio`` (``products`` without a twin) and
``saved_mb`` with those of a file of earlier rows: ratios, since seconds are those of a machine and its day.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import (
    PASSES,
    PRODUCT_GFLOP,
    about,
    alternate,
    apart,
    markdown,
    panels,
    peak_memory,
    product,
    ratio,
    read_rows,
    saved_memory,
    size_arguments,
    write_rows,
)
from plain import plain
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from meshop.models import CANO, LaMO, LinearNO, Transolver, TransolverPlusPlus
from meshop.nn import (
    ClusterAttention,
    EideticAttention,
    LatentSSM,
    LinearAttentionNO,
    PhysicsAttention,
    SliceResidualAttention,
)

GRAPHS, SMALLEST, LARGEST = 16, 300, 5000  # of a batch of several
IN, OUT = 6, 1  # channels of a model
KEY = ("subject", "nodes", "batch", "precision", "pass", "threads", "channels", "heads", "tokens", "depth")
LOSS = 0.10

Make = Callable[[Namespace], nn.Module]

LAYERS: dict[str, Make] = {
    "physics": lambda o: PhysicsAttention(o.channels, o.heads, o.tokens),
    "cluster": lambda o: ClusterAttention(o.channels, o.heads, o.tokens),
    "linear": lambda o: LinearAttentionNO(o.channels, o.heads, o.tokens),
    "eidetic": lambda o: EideticAttention(o.channels, o.heads, o.tokens),
    "residual": lambda o: SliceResidualAttention(o.channels, o.heads, o.tokens),
    "latent": lambda o: LatentSSM(o.channels, o.heads, o.tokens),
}
MODELS: dict[str, Make] = {
    "Transolver": lambda o: Transolver(IN, o.channels, o.depth, OUT, o.heads, o.tokens),
    "CANO": lambda o: CANO(IN, o.channels, o.depth, OUT, o.heads, o.tokens),
    "LinearNO": lambda o: LinearNO(IN, o.channels, o.depth, OUT, o.heads, o.tokens),
    "TransolverPlusPlus": lambda o: TransolverPlusPlus(IN, o.channels, o.depth, OUT, o.heads, o.tokens),
    "LaMO": lambda o: LaMO(IN, o.channels, o.depth, OUT, mixer=LatentSSM(o.channels, o.heads, o.tokens)),
}


def gflop(module: nn.Module, nodes: int, graphs: int) -> float | None:
    """Useful operations of a forward pass: two a multiplication of the matrix products of the plain formulas.

    Softmax, norms, biases and activations are left out, as is what a layer computes twice to save memory. A training
    step counts three times: each product has two gradients.
    """
    if hasattr(module, "blocks"):
        c, r = module.hidden_channels, module.ffn_ratio
        ends = nodes * (module.in_channels * 2 * c + 2 * c * c + c * module.out_channels)  # lift and head
        mixers = [gflop(block.mixer, nodes, graphs) for block in module.blocks]
        if None in mixers:
            return None
        return 2 * (ends + len(mixers) * nodes * 2 * r * c * c) / 1e9 + sum(mixers)
    n, c = nodes, module.channels
    d = c // module.heads
    if isinstance(module, PhysicsAttention):  # x, f, out; slice, pool, unpool; q, k, v, logits and values of slices
        m = module.num_slices
        return 2 * (3 * n * c * c + 3 * n * m * c + graphs * (3 * c * d * m + 2 * m * m * c)) / 1e9
    if isinstance(module, ClusterAttention):  # q, k, v, out; assignment, queries, logits, values, unpool
        return 2 * (4 * n * c * c + 5 * n * module.num_clusters * c) / 1e9
    if isinstance(module, LinearAttentionNO):  # x, v, out; phi, psi, pool, unpool
        return 2 * (3 * n * c * c + 4 * n * module.num_slices * c) / 1e9
    return None


def graph_sizes(batch: str, nodes: int) -> list[int]:
    """Nodes of each graph of a batch.

    >>> graph_sizes("one", 33), set(graph_sizes("equal", 32)), sorted(graph_sizes("ragged", 27782))[::15]
    ([33], {2}, [300, 5000])
    """
    if batch in ("single", "one"):
        return [nodes]
    share = np.geomspace(SMALLEST, LARGEST, GRAPHS) if batch == "ragged" else np.ones(GRAPHS)
    share = np.random.default_rng(0).permutation(share)
    ends = np.rint(np.cumsum(share) / share.sum() * nodes).astype(int)
    return np.diff(ends, prepend=0).tolist()


def subject(name: str, options: Namespace) -> nn.Module:
    torch.manual_seed(0)
    return (LAYERS | MODELS)[name](options).to(options.device)


def ours(module: nn.Module, batch: str, nodes: int, device: str) -> tuple[Tensor, dict[str, Any]]:
    """What the module is called with."""
    torch.manual_seed(1)
    x = torch.randn(nodes, getattr(module, "in_channels", None) or module.channels, device=device)
    if not hasattr(module, "blocks"):
        x.requires_grad_()  # a layer stands in a network
    if batch == "single":
        return x, {}
    sizes = torch.tensor(graph_sizes(batch, nodes), device=device)
    return x, {"batch": torch.arange(len(sizes), device=device).repeat_interleave(sizes), "batch_size": len(sizes)}


def dense(x: Tensor, batch: str) -> tuple[Tensor, dict[str, Tensor]]:
    """The same for a plain twin: padded, with a mask where there is padding."""
    sizes = graph_sizes(batch, x.size(0))
    parts = x.detach().split(sizes)
    full = pad_sequence(list(parts), batch_first=True).requires_grad_(x.requires_grad)
    mask = pad_sequence([torch.ones(len(part), dtype=torch.bool, device=x.device) for part in parts], batch_first=True)
    return full, {} if mask.all() else {"mask": mask}


def call(which: str, name: str, nodes: int, batch: str, options: Namespace) -> tuple[nn.Module, Tensor, dict[str, Any]]:
    """A module and its arguments; ``which`` is ours or plain."""
    module = subject(name, options)
    x, given = ours(module, batch, nodes, options.device)
    if which == "ours":
        return module, x, given
    twin = plain(module)
    assert twin is not None, name
    return twin.to(options.device), *dense(x, batch)


def memory(which: str, name: str, nodes: int, batch: str, precision: str, what: str, options: Namespace) -> float:
    """MB of one step; to be called in a process of its own."""
    torch.set_num_threads(options.threads)

    def step(nodes: int) -> None:
        module, x, given = call(which, name, nodes, batch, options)
        PASSES[what](module.train(what == "training"), x, precision=precision, **given)()

    step(64)
    return peak_memory(lambda: step(nodes), options.device)


def measure(name: str, nodes: int, batch: str, precision: str, what: str, options: Namespace) -> dict[str, Any]:
    """A row."""
    module, x, given = call("ours", name, nodes, batch, options)
    module.train(what == "training")
    twin = plain(module)
    steps = {"ours": PASSES[what](module, x, precision=precision, **given)}
    if twin is not None:
        twin.to(options.device).train(what == "training")
        other, mask = dense(x, batch)
        steps["plain"] = PASSES[what](twin, other, precision=precision, **mask)
    steps["product"] = product(precision, options.device)
    seconds = alternate(steps, options.rounds)
    best = {key: min(values) for key, values in seconds.items()}
    work = gflop(module, nodes, len(graph_sizes(batch, nodes)))
    work = None if work is None else work * (3 if what == "training" else 1)
    row = {
        "subject": name,
        "nodes": nodes,
        "batch": batch,
        "precision": precision,
        "pass": what,
        "seconds": f"{best['ours']:.5g}",
        "seconds_median": f"{statistics.median(seconds['ours']):.5g}",
        "plain_seconds": f"{best['plain']:.5g}" if twin else "",
        "plain_seconds_median": f"{statistics.median(seconds['plain']):.5g}" if twin else "",
        "ratio": f"{ratio(seconds['ours'], seconds['plain']):.3f}" if twin else "",
        "gflop": f"{work:.5g}" if work else "",
        "product_gflops": f"{PRODUCT_GFLOP / best['product']:.4g}",
        "share": f"{work / best['ours'] / (PRODUCT_GFLOP / best['product']):.3f}" if work else "",
        "products": f"{1 / ratio(seconds['ours'], seconds['product']):.4g}",
    }
    if what == "training":
        row["saved_mb"] = f"{saved_memory(module, x, precision=precision, **given):.4g}"
        row["plain_saved_mb"] = f"{saved_memory(twin, other, precision=precision, **mask):.4g}" if twin else ""
    if options.memory:
        case = (name, nodes, batch, precision, what, options)
        row["memory_mb"] = f"{apart(memory, 'ours', *case):.4g}"
        row["plain_memory_mb"] = f"{apart(memory, 'plain', *case):.4g}" if twin else ""
    size = {"channels": options.channels, "heads": options.heads, "tokens": options.tokens, "depth": options.depth}
    return row | size | {"rounds": options.rounds} | about()


def key(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What makes two rows rows of one case."""
    return tuple(str(row[k]) for k in KEY)


def losses(rows: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, str]]) -> list[str]:
    """A line for every row that is 10 % worse than the one of the same case before.

    >>> case = dict.fromkeys(KEY, "x")
    >>> losses([case | {"ratio": "1.7", "saved_mb": "10"}], [case | {"ratio": "2.0", "saved_mb": "10"}])
    ['x x x x x x x x x x: ratio 2.0 before, now 1.7']
    >>> losses([case | {"products": "1.05"}], [case | {"products": "1.0"}])
    []
    """
    earlier = {key(row): row for row in before}
    found = []
    for row in rows:
        old = earlier.get(key(row), {})
        time = "ratio" if row.get("ratio") else "products"
        for column, better in ((time, time == "ratio"), ("saved_mb", False)):
            if not (row.get(column) and old.get(column)):
                continue
            change = float(row[column]) / float(old[column])
            if (1 / change if better else change) > (1 / (1 - LOSS) if better else 1 + LOSS):
                found.append(f"{' '.join(key(row))}: {column} {old[column]} before, now {row[column]}")
    return found


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """How many times the plain twins take and keep, a bar a case."""
    rows = [row for row in rows if row["ratio"]][::-1]
    figure, (time, kept) = panels(2, "Times of the plain formula", height=max(300.0, 130 + 26 * len(rows)))
    names = [f"{r['subject']}, {int(r['nodes']):,}, {r['batch']}, {r['precision']}, {r['pass']}" for r in rows]
    times = [float(r["ratio"]) for r in rows]
    memories = [float(r["plain_memory_mb"]) / float(r["memory_mb"]) if r.get("memory_mb") else 0 for r in rows]
    colours = ["C0" if r["pass"] == "training" else "C1" for r in rows]
    for axes, values, label in zip((time, kept), (times, memories), ("seconds", "peak memory"), strict=True):
        axes.barh(range(len(rows)), values, color=colours)
        axes.axvline(1, color="black", lw=1, ls="--")
        axes.set(yticks=range(len(rows)), yticklabels=names if axes is time else [], xlabel=f"{label}, plain / ours")
        axes.tick_params(axis="y", labelsize=12)
    figure.savefig(path)


def main() -> None:
    """Measure all cases, write after each, draw, and compare with earlier rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", nargs="*", choices=list(LAYERS), default=["physics", "cluster"])
    parser.add_argument("--models", nargs="*", choices=list(MODELS), default=["Transolver", "CANO"])
    parser.add_argument("--nodes", nargs="+", type=int, default=[11000])
    parser.add_argument("--batch", nargs="+", choices=["single", "one", "equal", "ragged"], default=["single"])
    parser.add_argument("--precision", nargs="+", choices=["float32", "bfloat16"], default=["float32"])
    parser.add_argument("--passes", nargs="+", choices=list(PASSES), default=list(PASSES))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=10)
    size_arguments(parser)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--no-memory", dest="memory", action="store_false", help="no processes that measure memory")
    parser.add_argument("--out", type=Path, default=Path("speed.csv"))
    parser.add_argument("--against", type=Path, help="a CSV of earlier rows")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows: list[dict[str, Any]] = []
    before = read_rows(options.out) if options.out.exists() else []
    for name in (*options.layers, *options.models):
        for nodes in options.nodes:
            for batch in options.batch:
                for precision in options.precision:
                    for what in options.passes:
                        rows.append(measure(name, nodes, batch, precision, what, options))
                        written = [*(row for row in before if key(row) not in map(key, rows)), *rows]
                        write_rows(options.out, written)
                        print(f"{name}, {nodes} nodes, {batch}, {precision}, {what}", file=sys.stderr, flush=True)
    shown = ("seconds", "plain_seconds", "ratio", "share", "products", "saved_mb", "plain_saved_mb")
    print(markdown(rows, [*KEY[:5], *shown, *(("memory_mb", "plain_memory_mb") if options.memory else ())]))
    draw(written, options.out.with_suffix(".png"))
    if options.against:
        if found := losses(rows, read_rows(options.against)):
            sys.exit("\n".join(found))
        print(f"No case lost {LOSS:.0%} against {options.against}.")


if __name__ == "__main__":
    main()
