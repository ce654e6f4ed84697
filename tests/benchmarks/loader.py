"""How long a loader takes for a batch, and a training step for the same: is it ever the loader that one waits for?

    python tests/benchmarks/loader.py --out loader.csv

A directory of meshes that differ in size, a ``Folder`` in memory and a lazy one, and PyG's ``DataLoader`` with as many
processes as ``--workers`` says, as ``meshop train`` makes it. The model is the CANO of the recipes of small sets: 64
channels, 4 layers, 4 heads, 32 clusters. Columns:

- ``load_ms``: a batch of the loader alone, over an epoch in which nothing is trained;
- ``step_ms``: forward, backward and the optimiser, within an epoch of training;
- ``wait``: the share of that epoch in which training waits for the loader.

Epochs of all loaders take turns; each is the best of the rounds. Exits with 1 where a batch takes longer to load than
to train on.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from measuring import about, markdown, write_rows
from torch import nn
from torch_geometric.loader import DataLoader

from meshop.data import MeshData
from meshop.datasets import Folder
from meshop.io import write_mesh
from meshop.models import CANO
from meshop.nn import call


def write(root: Path, count: int, nodes: int) -> None:
    """Meshes of quads with half to one and a half times as many nodes."""
    rng = np.random.default_rng(0)
    for i, share in enumerate(rng.uniform(0.5, 1.5, count)):
        side = max(2, round((share * nodes) ** 0.5))
        points = np.stack(np.meshgrid(*2 * [np.linspace(0, 1, side)], indexing="ij"), -1).reshape(-1, 2)
        corner = np.arange(side * side).reshape(side, side)[:-1, :-1].ravel()
        cells = np.stack([corner, corner + side, corner + side + 1, corner + 1], 1)
        mesh = MeshData.from_cells(points, cell_type=[9] * len(cells), cells=cells.tolist())
        load = np.sin(3 * points[:, 0] + share)
        write_mesh(root / f"run_{i}.vtu", mesh, point_data={"load": load, "p": load * points[:, 1]})


def epoch(loader: DataLoader, model: nn.Module | None, optimizer: torch.optim.Optimizer) -> tuple[float, float]:
    """Seconds in which the loader is waited for and in which a model is trained, a batch."""
    waiting = training = 0.0
    start = time.perf_counter()
    for batch in loader:
        loaded = time.perf_counter()
        waiting += loaded - start
        if model is not None:
            optimizer.zero_grad()
            (call(model, batch) - batch.y).square().mean().backward()
            optimizer.step()
        start = time.perf_counter()
        training += start - loaded
    return waiting / len(loader), training / len(loader)


def main() -> None:
    """Measure all loaders and print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--meshes", type=int, default=32)
    parser.add_argument("--nodes", nargs="+", type=int, default=[1300, 11000], help="of a mesh, on average")
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--workers", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, default=Path("loader.csv"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows: list[dict[str, Any]] = []
    for nodes in options.nodes:
        with TemporaryDirectory() as root:
            write(Path(root), options.meshes, nodes)
            for size in options.batch_sizes:
                loaders = {
                    (kind, workers): DataLoader(
                        Folder(root, "p", "load", lazy=kind == "lazy"),
                        batch_size=size,
                        shuffle=True,
                        num_workers=workers,
                        persistent_workers=workers > 0,
                    )
                    for kind in ("memory", "lazy")
                    for workers in options.workers
                }
                rows += measure(loaders, nodes, size, options.rounds)
                write_rows(options.out, rows)
    print(markdown(rows, ["nodes", "batch_size", "storage", "workers", "load_ms", "step_ms", "wait"]))
    if slow := [row for row in rows if float(row["load_ms"]) > float(row["step_ms"])]:
        sys.exit("\n".join("loading takes longer than training: {nodes} {storage} {workers}".format(**r) for r in slow))


def measure(loaders: dict[tuple[str, int], DataLoader], nodes: int, size: int, rounds: int) -> list[dict[str, Any]]:
    """A row a loader."""
    first = next(iter(loaders.values()))
    spec = first.dataset.spec
    torch.manual_seed(0)
    model = CANO(spec.in_channels, 64, 4, spec.out_channels, heads=4, num_clusters=32)
    optimizer = torch.optim.AdamW(model.parameters())
    epoch(first, model, optimizer)
    for loader in loaders.values():
        next(iter(loader))  # its processes start
    alone = {key: [epoch(loader, None, optimizer)[0] for _ in range(rounds)] for key, loader in loaders.items()}
    trained: dict[tuple[str, int], list[tuple[float, float]]] = {key: [] for key in loaders}
    for _ in range(rounds):
        for key, loader in loaders.items():
            trained[key].append(epoch(loader, model, optimizer))
    rows = []
    for (kind, workers), times in trained.items():
        waiting, training = min(times, key=sum)
        row = {"nodes": nodes, "batch_size": size, "storage": kind, "workers": workers}
        row |= {"load_ms": f"{1e3 * min(alone[kind, workers]):.4g}", "step_ms": f"{1e3 * training:.4g}"}
        rows.append(row | {"wait": f"{waiting / (waiting + training):.4f}", "rounds": rounds} | about())
    return rows


if __name__ == "__main__":
    main()
