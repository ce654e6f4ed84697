"""Time and memory of every operator from a thousand nodes to four million, and the powers of N by which they grow.

    python tests/benchmarks/scaling.py --out scaling.csv
    python tests/benchmarks/scaling.py --operators PhysicsAttention --largest 65536 --rounds 2

One mesh of 1,024 nodes, then four times as many up to ``--largest``; where an operator needs a grid or edges, the nodes
form a square grid, whose sides are powers of two. Each measurement is a process of its own: the best of the rounds, and
the resident memory that a step adds. A size is left out where all rounds would take more than ``--seconds``, or a step
more than seven tenths of the memory that is free, at four times what the size before took; the column ``note`` says so.

Arrays of more than 32 MB are new pages at every step, whose first touch takes a time of its own that differs between
machines; with ``--keep`` the process keeps what it frees, and a step before the others touches it. Then the memory of
small sizes says little.

The exponents are fitted over the larger half of the sizes. Those of all operators but the Fourier ones (N log N) must
be at most 1.05: the command exits with 1 otherwise.
"""

from __future__ import annotations

import argparse
import math
import sys
from argparse import Namespace
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import torch
from measuring import (
    PASSES,
    about,
    apart,
    clock,
    exponent,
    keep_freed_memory,
    markdown,
    panels,
    peak_memory,
    write_rows,
)
from torch import Tensor, nn

from meshop.io.child import free_memory
from meshop.nn import (
    SS2D,
    ClusterAttention,
    DepthwiseGraphConv,
    EideticAttention,
    FactorizedSpectralConv,
    GridConv,
    GridSpectralConv,
    LatentSSM,
    LinearAttentionNO,
    PhysicsAttention,
    SliceResidualAttention,
    SpectralConv,
)

SMALLEST, FACTOR = 1024, 4
MOST = 1.05

Needs = tuple[str, ...]  # arguments beside x
OPERATORS: dict[str, tuple[Callable[[Namespace], nn.Module], Needs]] = {
    "PhysicsAttention": (lambda o: PhysicsAttention(o.channels, o.heads, o.tokens), ()),
    "ClusterAttention": (lambda o: ClusterAttention(o.channels, o.heads, o.tokens), ()),
    "EideticAttention": (lambda o: EideticAttention(o.channels, o.heads, o.tokens), ()),
    "LinearAttentionNO": (lambda o: LinearAttentionNO(o.channels, o.heads, o.tokens), ()),
    "SliceResidualAttention": (lambda o: SliceResidualAttention(o.channels, o.heads, o.tokens), ()),
    "LatentSSM": (lambda o: LatentSSM(o.channels, o.heads, o.tokens), ()),
    "GridSpectralConv": (lambda o: GridSpectralConv(o.channels, o.channels, (12, 12), (32, 32)), ("pos",)),
    "DepthwiseGraphConv": (lambda o: DepthwiseGraphConv(o.channels, 2), ("pos", "edge_index")),
    "GridConv": (lambda o: GridConv(o.channels, o.channels, 2), ("shape",)),
    "SS2D": (lambda o: SS2D(o.channels), ("shape",)),
    "SpectralConv": (lambda o: SpectralConv(o.channels, o.channels, (12, 12)), ("shape",)),
    "FactorizedSpectralConv": (lambda o: FactorizedSpectralConv(o.channels, o.channels, (12, 12)), ("shape",)),
}
FOURIER = ("SpectralConv", "FactorizedSpectralConv")  # of all nodes; GridSpectralConv's grid has one size


def grid(side: int) -> dict[str, Any]:
    """What nodes on a square grid have."""
    axis = torch.linspace(0, 1, side)
    number = torch.arange(side * side).view(side, side)
    pairs = [
        torch.stack([a.flatten(), b.flatten()]) for a, b in ((number[1:], number[:-1]), (number[:, 1:], number[:, :-1]))
    ]
    edges: Tensor = torch.cat([*pairs, *(p.flip(0) for p in pairs)], dim=1)
    pos = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1).view(-1, 2)
    return {"pos": pos, "edge_index": edges, "shape": (side, side)}


def measure(name: str, nodes: int, what: str, options: Namespace) -> tuple[float, float]:
    """Seconds and MB of a step, in a process of its own."""
    torch.set_num_threads(options.threads)
    if options.keep:
        keep_freed_memory()
    make, needs = OPERATORS[name]
    module = make(options).train(what == "training")

    def step(nodes: int) -> Callable[[], object]:
        everything = grid(math.isqrt(nodes))
        given = {key: everything[key] for key in needs}
        x = torch.randn(nodes, options.channels, requires_grad=what == "training")
        return PASSES[what](module, x, **given)

    step(SMALLEST // FACTOR)()  # what libraries set up once is no step's
    run = step(nodes)
    memory = peak_memory(run)
    return min(clock(run) for _ in range(options.rounds)), memory


def curve(name: str, what: str, options: Namespace) -> list[dict[str, Any]]:
    """The rows of an operator and a pass, with the exponents in each."""
    rows: list[dict[str, Any]] = []
    seconds, memory, nodes = [], [], SMALLEST
    while nodes <= options.largest:
        row = {"operator": name, "pass": what, "nodes": nodes}
        rows.append(row)
        if seconds and FACTOR * seconds[-1] * (options.rounds + 1) > options.seconds:
            row["note"] = f"left out: about {FACTOR * seconds[-1]:.0f} s a step"
            break
        if memory and FACTOR * memory[-1] > 0.7 * free_memory() / 1e6:
            row["note"] = f"left out: about {FACTOR * memory[-1] / 1e3:.0f} GB"
            break
        try:
            time, space = apart(measure, name, nodes, what, options)
        except BrokenProcessPool:
            row["note"] = "its process was killed"
            break
        seconds.append(time)
        memory.append(space)
        row |= {"seconds": f"{time:.5g}", "memory_mb": f"{space:.4g}"}
        nodes *= FACTOR
    if len(seconds) > 3:
        sizes = [row["nodes"] for row in rows[: len(seconds)]]
        fitted = {
            "time_exponent": f"{exponent(sizes, seconds):.3f}",
            "memory_exponent": f"{exponent(sizes, memory):.3f}",
        }
        rows = [row | fitted for row in rows]
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Seconds and memory over nodes; training is a full line, inference a dashed one."""
    figure, axes = panels(2, "Over the number of nodes")
    names = list(dict.fromkeys(row["operator"] for row in rows))
    for one, column, label in zip(axes, ("seconds", "memory_mb"), ("seconds", "memory [MB]"), strict=True):
        for i, name in enumerate(names):
            for what, dashes in (("training", "-"), ("inference", "--")):
                own = [r for r in rows if (r["operator"], r["pass"]) == (name, what) and column in r]
                x, y = [r["nodes"] for r in own], [float(r[column]) for r in own]
                colour, marker = f"C{i % 10}", "os"[i // 10]
                one.plot(x, y, dashes, color=colour, marker=marker, ms=4, label=name if what == "training" else None)
        one.set(xscale="log", yscale="log", xlabel="nodes", ylabel=label)
    axes[0].legend(fontsize=11)
    figure.savefig(path)


def main() -> None:
    """Measure, write after each curve, draw, and check the exponents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", nargs="+", choices=list(OPERATORS), default=list(OPERATORS))
    parser.add_argument("--passes", nargs="+", choices=list(PASSES), default=list(PASSES))
    parser.add_argument("--largest", type=int, default=SMALLEST * FACTOR**6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=300, help="of all rounds of one measurement")
    parser.add_argument("--keep", action="store_true", help="freed memory stays with the process")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=32, help="slices or clusters")
    parser.add_argument("--out", type=Path, default=Path("scaling.csv"))
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in options.operators:
        for what in options.passes:
            same = {"keep": options.keep} | about() | {"threads": options.threads}
            rows += [row | same for row in curve(name, what, options)]
            write_rows(options.out, rows)
            print(f"{name}, {what}", file=sys.stderr, flush=True)
    largest = list({(row["operator"], row["pass"]): row for row in rows if "seconds" in row}.values())
    columns = ["operator", "pass", "nodes", "seconds", "memory_mb", "time_exponent", "memory_exponent"]
    print(markdown(largest, columns))
    draw(rows, options.out.with_suffix(".png"))
    steep = [
        f"{row['operator']}, {row['pass']}: {column} {row[column]}"
        for row in largest
        for column in ("time_exponent", "memory_exponent")
        if row["operator"] not in FOURIER and float(row.get(column, 0)) > MOST
    ]
    if steep:
        sys.exit("\n".join(steep))


if __name__ == "__main__":
    main()
