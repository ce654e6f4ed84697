"""Reading a large tetrahedral VTU: pyvista alone, and meshop with the graph, the measure and a picture; in one process.

python tests/benchmarks/read_million.py --nodes 1000000 --out read_million.csv
"""

import argparse
import csv
import gc
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyvista as pv

from meshop import render
from meshop.io import read_mesh
from meshop.transforms import CellsToEdges, NodeMeasure

COMPRESSIONS = {"raw": None, "zlib": "zlib"}


def box(nodes: int, shuffle: bool) -> pv.UnstructuredGrid:
    """A box of about this many jittered nodes, six tetrahedra to a voxel of them, with the fields of a prediction."""
    n = round(nodes ** (1 / 3))
    axis = np.linspace(0, 1, n, dtype=np.float32)
    mesh = pv.RectilinearGrid(axis, axis, axis).to_tetrahedra(6, pass_data=False)
    draw = np.random.default_rng(0)
    points = np.array(mesh.points)
    inside = ((points > 0) & (points < 1)).all(1)
    points[inside] += draw.uniform(-0.1, 0.1, (int(inside.sum()), 3)).astype(np.float32) / n
    cells = mesh.cells_dict[pv.CellType.TETRA]
    if shuffle:
        order = draw.permutation(len(points))  # of node i is order[i] the new number
        points, cells = points[np.argsort(order)], order[draw.permutation(cells)]
    mesh = pv.UnstructuredGrid({pv.CellType.TETRA: cells}, points)
    x, y, z = points.T
    mesh["p"] = np.sin(6 * x) * np.cos(5 * y) + z
    mesh["p_pred"] = mesh["p"] + 0.05 * np.sin(20 * x * y)
    return mesh


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def peak() -> float:
    """Largest memory of the process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def once(path: Path, picture: Path) -> dict[str, float]:
    """Seconds of each step, one after another; what a step has made is freed where no later step needs it."""
    row = {"pyvista.read": timed(lambda: pv.read(path).n_points)[0]}
    row["read_mesh"], data = timed(lambda: read_mesh(path))
    row["CellsToEdges"], data = timed(lambda: CellsToEdges()(data))
    row["NodeMeasure"], data = timed(lambda: NodeMeasure()(data))
    volume = float(data.measure.double().sum())
    assert abs(volume - 1) < 1e-4, f"a box of volume 1 has measure {volume}"
    meshop = row["read_mesh"] + row["CellsToEdges"] + row["NodeMeasure"]
    row["read + edges + measure"], row["factor"] = meshop, meshop / row["pyvista.read"]
    row["compare"] = timed(lambda: render.compare(data, "p", picture))[0]
    row["peak GB"] = peak()
    return row


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000_000, help="of the mesh, about")
    parser.add_argument("--repeats", type=int, default=3, help="rounds of all steps, of which the median is shown")
    parser.add_argument("--shuffle", action="store_true", help="number nodes and cells at random")
    parser.add_argument("--out", type=Path, default=Path("read_million.csv"), help="CSV with a row a round")
    parser.add_argument("--picture", type=Path, help="PNG of the mesh; a temporary one by default")
    given = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        picture = given.picture or Path(folder, "compare.png")
        mesh = box(given.nodes, given.shuffle)
        about = {"nodes": mesh.n_points, "cells": mesh.n_cells}
        for name, compression in COMPRESSIONS.items():
            mesh.save(Path(folder, f"{name}.vtu"), compression=compression)
        del mesh
        render.can_render()  # asks a process of its own, once
        for _ in range(given.repeats):
            for name in COMPRESSIONS:
                path = Path(folder, f"{name}.vtu")
                rows.append({"file": name, "MB": path.stat().st_size / 1e6, **about, **once(path, picture)})
    with given.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    print(f"{about['nodes']:,} nodes, {about['cells']:,} tetrahedra, median of {given.repeats}, seconds")
    steps = [key for key in rows[0] if key not in ("file", *about)]
    print(f"{'':24}" + "".join(f"{name:>10}" for name in COMPRESSIONS))
    for step in steps:
        medians = [statistics.median(r[step] for r in rows if r["file"] == name) for name in COMPRESSIONS]
        print(f"{step:24}" + "".join(f"{value:10.2f}" for value in medians))
    return rows


if __name__ == "__main__":
    main()
