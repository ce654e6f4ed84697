"""A mesh on one process and cut over several, each with one thread on a core of its own: seconds of a training step.

    python tests/benchmarks/ranks.py --out ranks.csv
    python tests/benchmarks/ranks.py --models Transolver --ranks 4 --nodes 500000

The first process does the whole mesh while the others wait, then all do their parts at once, and so on in turn. Nodes
are random points, cut along the Hilbert curve; a step is forward, backward and the mean of the gradients over the
processes, as in ``meshop train --strategy domain``. ``difference`` is that of the two gradients, relative to their
norm. Exits with 1 where a pair of processes is less than 1.6 times as fast as one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from measuring import about, clock, markdown, ratio, size_arguments, write_rows
from speed import IN, MODELS, subject
from torch import Tensor, nn
from torch_geometric.data import Data

from meshop.domain import all_reduce, cut, domain_parallel, partition
from meshop.nn import call

LEAST = 1.6  # of two processes


def work(rank: int, options: Namespace, queue: Any, meeting: str) -> None:
    """What each process does."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=options.ranks)
    for name in options.models:
        model = subject(name, options).train()
        torch.manual_seed(0)
        whole = Data(x=torch.randn(options.nodes, IN), pos=torch.rand(options.nodes, 3))
        whole.owner = partition(whole, options.ranks)
        part = cut(whole, rank, options.ranks)

        found = compare(model, whole, part, rank, options)
        if rank == 0:
            queue.put((name, *found))
    dist.barrier()
    dist.destroy_process_group()


def compare(
    model: nn.Module, whole: Data, part: Data, rank: int, options: Namespace
) -> tuple[list[float], list[float], float]:
    """Seconds of one process and of all in each round, and the difference of their gradients."""

    def step(data: Data) -> None:
        model.zero_grad()
        total = all_reduce(call(model, data).square().sum(), "sum")
        (total / options.nodes).backward()

    def shared() -> None:
        with domain_parallel(dist.group.WORLD):
            step(part)
        mean = gradient(model) / options.ranks
        dist.all_reduce(mean)
        nn.utils.vector_to_parameters(mean, [p.grad for p in model.parameters() if p.grad is not None])

    one, several, alone = [], [], Tensor()
    for _ in range(options.rounds + 1):
        dist.barrier()
        if rank == 0:
            one.append(clock(lambda: step(whole)))
            alone = gradient(model)
        dist.barrier()
        several.append(clock(shared))
    difference = (gradient(model) - alone).norm() / alone.norm() if rank == 0 else 0.0
    return one[1:], several[1:], float(difference)  # the first warms up


def gradient(model: nn.Module) -> Tensor:
    """The gradients of all parameters in one row."""
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def main() -> None:
    """Measure, write, and check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=["Transolver", "CANO"])
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    size_arguments(parser)
    parser.set_defaults(device="cpu")
    parser.add_argument("--out", type=Path, default=Path("ranks.csv"))
    options = parser.parse_args()
    queue = mp.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (options, queue, f"{folder}/meeting"), nprocs=options.ranks)
    rows: list[dict[str, Any]] = []
    while not queue.empty():
        name, one, several, difference = queue.get()
        row = {"model": name, "nodes": options.nodes, "ranks": options.ranks, "rounds": options.rounds}
        row |= {"one_seconds": f"{statistics.median(one):.4g}", "all_seconds": f"{statistics.median(several):.4g}"}
        row |= {"ratio": f"{ratio(several, one):.3f}", "difference": f"{difference:.1e}"}
        rows.append(row | about() | {"threads": 1})
    write_rows(options.out, rows)
    print(markdown(rows, ["model", "nodes", "ranks", "one_seconds", "all_seconds", "ratio", "difference"]))
    if options.ranks == 2 and (slow := [f"{r['model']}: {r['ratio']}" for r in rows if float(r["ratio"]) < LEAST]):
        sys.exit("\n".join(slow))


if __name__ == "__main__":
    main()
