"""Meshes of a million nodes and more on one machine: a training step, and inference in chunks.

    python tests/benchmarks/large.py --out large.csv
    python tests/benchmarks/large.py --passes inference --nodes 10000000 --gigabytes 12

Each row is a process of its own that holds nothing else. A training step is forward and backward, with activation
checkpointing; inference takes one chunk of the nodes after the other. ``memory_gb`` is the largest resident memory of
the process: mesh, parameters, gradients, torch itself. Exits with 1 where it exceeds what the pass may take.
"""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from measuring import about, apart, clock, high_water, markdown, size_arguments, write_rows
from speed import IN, MODELS, subject
from torch_geometric.data import Data

from meshop.chunks import call_in_chunks
from meshop.nn import call, checkpoint_activations

NODES = {"training": 1_000_000, "inference": 10_000_000}
MOST = {"training": 20.0, "inference": 12.0}  # GB


def measure(name: str, what: str, nodes: int, options: Namespace) -> tuple[float, float]:
    """Seconds and GB of a step, in a process of its own."""
    torch.set_num_threads(options.threads)
    model = subject(name, options).train(what == "training")
    data = Data(x=torch.randn(nodes, IN))
    if what == "training":
        checkpoint_activations(model)
        return clock(lambda: call(model, data).square().mean().backward()), high_water() / 1e6
    return clock(lambda: call_in_chunks(model, data, options.chunk)), high_water() / 1e6


def main() -> None:
    """Measure, write after each row, and check the memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=["Transolver", "CANO"])
    parser.add_argument("--passes", nargs="+", choices=list(NODES), default=list(NODES))
    parser.add_argument("--nodes", type=int, help="instead of a million in training and ten in inference")
    parser.add_argument("--gigabytes", type=float, help="instead of 20 in training and 12 in inference")
    parser.add_argument("--chunk", type=int, default=2**17, help="nodes of a chunk")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    size_arguments(parser)
    parser.set_defaults(device="cpu")
    parser.add_argument("--out", type=Path, default=Path("large.csv"))
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    heavy = []
    for name in options.models:
        for what in options.passes:
            nodes, most = options.nodes or NODES[what], options.gigabytes or MOST[what]
            seconds, memory = apart(measure, name, what, nodes, options)
            row = {"model": name, "pass": what, "nodes": nodes, "seconds": f"{seconds:.4g}"}
            rows.append(row | {"memory_gb": f"{memory:.3g}", "most_gb": most} | about() | {"threads": options.threads})
            write_rows(options.out, rows)
            print(f"{name}, {what}", file=sys.stderr, flush=True)
            if memory > most:
                heavy.append(f"{name}, {what}: {memory:.3g} GB of {most}")
    print(markdown(rows, ["model", "pass", "nodes", "seconds", "memory_gb", "most_gb"]))
    if heavy:
        sys.exit("\n".join(heavy))


if __name__ == "__main__":
    main()
