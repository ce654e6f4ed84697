"""A folder of VTU files of one's own: train on some, predict on one that was never seen, open the result in ParaView.

The files stand for a solver's output: brackets of hexahedra, wedges and tetrahedra, each of another size, with the
pressure ``p`` on their points. What follows after `write_cases` needs nothing but the files.
"""

import sys
from pathlib import Path

import numpy as np
import pyvista as pv

from meshop.datasets import Folder
from meshop.io import read_mesh, write_mesh
from meshop.models import CANO
from meshop.render import compare
from meshop.train import Recipe, Surrogate, evaluate, fit, summarise


def write_cases(folder: Path, count: int) -> None:
    """Write ``count`` brackets of different lengths and sizes, with a pressure that depends on the whole part."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for i in range(count):
        length, n = rng.uniform(1, 2), int(rng.integers(4, 9))
        x, y, z = np.meshgrid(
            np.linspace(0, length, 2 * n), np.linspace(0, 1, n), np.linspace(0, 0.5, n), indexing="ij"
        )
        block = pv.StructuredGrid(x, y, z).cast_to_unstructured_grid()
        cells = block.cells_dict[pv.CellType.HEXAHEDRON]
        half = block.cell_centers().points[:, 0] < length / 2
        wedges = cells[~half][:, [[0, 1, 2, 4, 5, 6], [0, 2, 3, 4, 6, 7]]].reshape(-1, 6)
        body = pv.UnstructuredGrid({pv.CellType.HEXAHEDRON: cells[half], pv.CellType.WEDGE: wedges}, block.points)
        roof = pv.StructuredGrid(x[:, :, :2], y[:, :, :2], 0.5 + z[:, :, :2]).triangulate()  # tetrahedra
        mesh = body.merge(roof, merge_points=True)
        px, py, pz = mesh.points.T
        mesh.point_data["p"] = 1e5 * (length * np.cos(np.pi * px / length) + py * pz)
        mesh.save(folder / f"part_{i}.vtu")


def main(root: str = "runs/own_meshes", count: int = 24, epochs: int = 40) -> float:
    """Return the relative L2 error of the pressure on the part that was held back."""
    root_path = Path(root)
    write_cases(root_path / "cases", count)
    new = root_path / "new.vtu"
    (root_path / "cases" / f"part_{count - 1}.vtu").replace(new)

    data = Folder(root_path / "cases", target=["p:point"], split="0.9/0.1/0")
    model = CANO(data.spec.in_channels, 32, 2, data.spec.out_channels, heads=4, num_clusters=16)
    surrogate = Surrogate(model, data.spec, data.pre_transform, Recipe(epochs=epochs, batch_size=4, lr=4e-3))
    fit(surrogate, data.split("train"), data.split("val"), root_path / "run", device="cpu")

    loaded = Surrogate.load(root_path / "run" / "checkpoints" / "last.ckpt")  # all that prediction needs
    mesh = loaded.prepare(read_mesh(new))
    result = loaded.predict(mesh)
    write_mesh(root_path / "new_pred.vtu", result)
    compare(result, "p", root_path / "new_pred.png", unit="Pa")
    error = summarise(evaluate(loaded, [mesh]))["p"]["relative_l2"]
    print(f"relative L2 {error:.3f} on {new}, {mesh.num_cells} cells; open {root_path}/new_pred.vtu in ParaView")
    return error


if __name__ == "__main__":
    main(*sys.argv[1:2])
