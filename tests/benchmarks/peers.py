"""meshop's models and those of PhysicsNeMo and neuraloperator at the same sizes, in turn.

    python tests/benchmarks/peers.py --peer peers/bin/python --out peers.csv

``peers/bin/python`` is the Python of an environment of its own, whose torch is that of meshop's:

    python -m venv peers
    peers/bin/pip install -c constraints.txt torch numpy neuraloperator==2.0.0
    echo "torch==2.13.0" > torch.txt
    peers/bin/pip install -c torch.txt nvidia-physicsnemo==2.2.2

(PhysicsNeMo excludes some of the versions in ``constraints.txt``.) Both interpreters stay; in each round ours makes a
step and then theirs, so that what else the machine does meets both.

===========  ==============================  =============================================================
pair         theirs                          ours
===========  ==============================  =============================================================
transolver   PhysicsNeMo's ``Transolver``    ``Transolver``
fno          neuraloperator's ``FNO``        ``FNO`` on nodes that form the grid
gino         neuraloperator's ``GINO``       ``FNO`` on scattered nodes: a linear splat, where theirs has radius
                                             kernels
===========  ==============================  =============================================================

Theirs get what makes them run on a CPU: ``use_te=False`` (Transformer Engine is for GPUs), ``gno_use_open3d=False`` and
``gno_use_torch_scatter=False`` (Open3D and torch-scatter are no dependencies of theirs), and the schemas of two
operators of torchvision, whose binary does not load beside a torch without CUDA.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measuring import PASSES, Step, about, clock, markdown, ratio, write_rows
from torch import nn

IN, OUT = 6, 1
MODES = 12  # kept along each axis, positive and negative
PAIRS = ("transolver", "fno", "gino")
Case = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]  # a model and its arguments


def theirs(pair: str, options: Namespace) -> Case:
    """A peer's model, dense [1, N, C]."""
    n, c = options.nodes, options.channels
    if pair == "transolver":
        schemas = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            schemas.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        from physicsnemo.models.transolver import Transolver

        model = Transolver(
            functional_dim=IN - 3,
            embedding_dim=3,
            out_dim=OUT,
            n_layers=options.depth,
            n_hidden=c,
            n_head=options.heads,
            slice_num=options.tokens,
            mlp_ratio=2,
            use_te=False,
        )
        return model, (torch.randn(1, n, IN - 3),), {"embedding": torch.randn(1, n, 3)}
    from neuralop.models import FNO, GINO

    if pair == "fno":
        side = math.isqrt(n)
        model = FNO((MODES, MODES), IN, OUT, options.fourier_channels, n_layers=options.fourier_depth)
        return model, (torch.randn(1, IN, side, side),), {}
    model = GINO(
        IN,
        OUT,
        gno_coord_dim=2,
        fno_in_channels=IN,
        in_gno_radius=options.radius,
        out_gno_radius=options.radius,
        fno_n_modes=(MODES, MODES),
        fno_hidden_channels=options.fourier_channels,
        fno_n_layers=options.fourier_depth,
        gno_use_open3d=False,
        gno_use_torch_scatter=False,
    )
    pos = torch.rand(n, 2)
    axis = torch.linspace(0, 1, options.grid)
    grid = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1)
    return model, (pos[None], grid[None], pos), {"x": torch.randn(1, n, IN)}


def ours(pair: str, options: Namespace) -> Case:
    """The model of meshop, on nodes [N, C]."""
    from meshop.models import FNO, Transolver

    n, c = options.nodes, options.channels
    if pair == "transolver":
        return Transolver(IN, c, options.depth, OUT, options.heads, options.tokens), (torch.randn(n, IN),), {}
    kept = (MODES // 2, MODES // 2 + 1)
    if pair == "fno":
        side = math.isqrt(n)
        model = FNO(IN, options.fourier_channels, options.fourier_depth, OUT, kept)
        return model, (torch.randn(side * side, IN),), {"shape": (side, side)}
    model = FNO(IN, options.fourier_channels, options.fourier_depth, OUT, kept, (options.grid, options.grid))
    return model, (torch.randn(n, IN), torch.rand(n, 2)), {}


def serve(make: Callable[[str, Namespace], Case], options: Namespace) -> None:
    """Answer each line ``PAIR PASS`` with the seconds of a step, or with why there is none."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    torch.set_num_threads(options.threads)
    steps: dict[tuple[str, str], Step] = {}
    cases: dict[str, Case] = {}
    for line in sys.stdin:
        pair, what = line.split()
        try:
            if pair not in cases:
                torch.manual_seed(0)
                cases[pair] = make(pair, options)
            model, args, given = cases[pair]
            if (pair, what) not in steps:
                steps[pair, what] = PASSES[what](model, *args, **given)
                steps[pair, what]()
            count = sum(p.numel() * (1 + p.is_complex()) for p in model.parameters())
            model.train(what == "training")
            answer = {"seconds": clock(steps[pair, what]), "parameters": count}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(answer), file=answers, flush=True)


def measure(pair: str, what: str, servers: dict[str, Any], rounds: int) -> dict[str, Any]:
    """A row."""
    row: dict[str, Any] = {"pair": pair, "pass": what}
    seconds: dict[str, list[float]] = {who: [] for who in servers}
    for _ in range(rounds):
        for who, server in servers.items():
            print(pair, what, file=server.stdin, flush=True)
            answer = json.loads(server.stdout.readline())
            if "error" in answer:
                return row | {"error": f"{who}: {answer['error']}"}
            seconds[who].append(answer["seconds"])
            row[f"{who}_parameters"] = answer["parameters"]
    for who, values in seconds.items():
        row |= {f"{who}_seconds": f"{min(values):.5g}", f"{who}_seconds_median": f"{statistics.median(values):.5g}"}
    return row | {"ratio": f"{ratio(seconds['ours'], seconds['theirs']):.3f}"}


def main() -> None:
    """Start both interpreters, let them take turns, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True, help="Python with nvidia-physicsnemo 2.2.2 and neuraloperator 2.0.0")
    parser.add_argument("--pairs", nargs="+", choices=PAIRS, default=list(PAIRS))
    parser.add_argument("--passes", nargs="+", choices=list(PASSES), default=list(PASSES))
    parser.add_argument("--nodes", type=int, default=11000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--channels", type=int, default=128)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--fourier-channels", type=int, default=64, help="width of fno and gino")
    parser.add_argument("--fourier-depth", type=int, default=4, help="layers of fno and gino")
    parser.add_argument("--grid", type=int, default=32, help="points of the latent grid along each axis")
    parser.add_argument("--radius", type=float, default=0.05, help="of GINO's neighbourhoods in the unit square")
    parser.add_argument("--out", type=Path, default=Path("peers.csv"))
    parser.add_argument("--serve", choices=["ours", "theirs"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve({"ours": ours, "theirs": theirs}[options.serve], options)
        return
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    call = [__file__, *sys.argv[1:], "--serve"]
    pythons = {"ours": sys.executable, "theirs": options.peer}
    servers = {who: subprocess.Popen([python, *call, who], **pipes) for who, python in pythons.items()}
    rows = []
    for pair in options.pairs:
        for what in options.passes:
            size = {"nodes": options.nodes, "rounds": options.rounds}
            rows.append(measure(pair, what, servers, options.rounds) | size | about())
            write_rows(options.out, rows)
    for server in servers.values():
        server.stdin.close()
        server.wait()
    columns = ["pair", "pass", "ours_seconds", "theirs_seconds", "ratio", "ours_parameters", "theirs_parameters"]
    print(markdown(rows, [*columns, *(["error"] if any("error" in row for row in rows) else [])]))


if __name__ == "__main__":
    main()
