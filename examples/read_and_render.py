"""Read a mesh, look at its graph, and draw a field on it: the cells stay what they are in the file."""

import sys
from pathlib import Path

import numpy as np
import pyvista.examples

from meshop.io import read_mesh, write_mesh
from meshop.render import field
from meshop.transforms import CellsToEdges, NodeMeasure


def main(path: str = pyvista.examples.hexbeamfile, out: str = "runs/read_and_render") -> float:
    """Draw the distance from the first point along the mesh, and return the mesh's length, area or volume."""
    mesh = NodeMeasure()(CellsToEdges()(read_mesh(path)))
    size = float(mesh.measure.sum())
    print(
        f"{path}: {mesh.num_nodes} nodes, {mesh.num_cells} cells, {mesh.edge_index.size(1) // 2} edges, size {size:g}"
    )

    steps = np.full(mesh.num_nodes, np.nan)  # edges between each node and node 0; NaN where there is no way
    steps[0], front = 0, np.array([0])
    source, target = mesh.edge_index.numpy()
    while len(front):
        reached = np.unique(target[np.isin(source, front)])
        front = reached[np.isnan(steps[reached])]
        steps[front] = np.nanmax(steps) + 1

    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    write_mesh(folder / "steps.vtu", mesh, point_data={"steps": steps})
    field(read_mesh(folder / "steps.vtu"), "steps", folder / "steps.png", unit="edges", show_edges=True)
    print(f"{folder}/steps.vtu, {folder}/steps.png")
    return size


if __name__ == "__main__":
    main(*sys.argv[1:2])
