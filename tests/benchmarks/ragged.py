"""16 meshes of 300 to 5,000 nodes in one batch against 16 equal ones with as many nodes in all: time a node.

    python tests/benchmarks/ragged.py --out ragged.csv

Sizes are evenly spaced in logarithm and in mixed order; both batches run in turn. ``--mixed`` shuffles the nodes of the
graphs among each other, which a loader never does. Exits with 1 where the ragged batch takes more than 1.15 times as
long.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import PASSES, about, alternate, markdown, ratio, size_arguments, write_rows
from speed import GRAPHS, LARGEST, LAYERS, MODELS, SMALLEST, ours, subject

MOST = 1.15


def main() -> None:
    """Measure all and print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    subjects = ["physics", "cluster", "linear", "Transolver", "CANO"]
    parser.add_argument("--subjects", nargs="+", choices=[*LAYERS, *MODELS], default=subjects)
    parser.add_argument("--passes", nargs="+", choices=list(PASSES), default=list(PASSES))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    size_arguments(parser)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--mixed", action="store_true", help="nodes of different graphs among each other")
    parser.add_argument("--out", type=Path, default=Path("ragged.csv"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    nodes = round(np.geomspace(SMALLEST, LARGEST, GRAPHS).sum())
    rows: list[dict[str, Any]] = []
    for name in options.subjects:
        module = subject(name, options)
        for what in options.passes:
            module.train(what == "training")
            steps = {}
            for batch in ("equal", "ragged"):
                x, given = ours(module, batch, nodes, options.device)
                if options.mixed:
                    given["batch"] = given["batch"][torch.randperm(nodes)]
                steps[batch] = PASSES[what](module, x, **given)
            seconds = alternate(steps, options.rounds)
            row: dict[str, Any] = {"subject": name, "pass": what, "nodes": nodes, "graphs": GRAPHS}
            for batch, values in seconds.items():
                row[f"{batch}_us_a_node"] = f"{1e6 * min(values) / nodes:.4g}"
                row[f"{batch}_us_a_node_median"] = f"{1e6 * statistics.median(values) / nodes:.4g}"
            row["ratio"] = f"{ratio(seconds['equal'], seconds['ragged']):.3f}"
            rows.append(row | {"rounds": options.rounds, "mixed": options.mixed} | about())
            write_rows(options.out, rows)
    print(markdown(rows, ["subject", "pass", "equal_us_a_node", "ragged_us_a_node", "ratio"]))
    if slow := [f"{row['subject']}, {row['pass']}: {row['ratio']}" for row in rows if float(row["ratio"]) > MOST]:
        sys.exit(f"More than {MOST} times the time a node of equal meshes:\n" + "\n".join(slow))


if __name__ == "__main__":
    main()
