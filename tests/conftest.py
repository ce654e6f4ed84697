"""Small meshes that several test files share."""

import numpy as np
import pytest
import torch

from meshop.data import Arrays, MeshData


def strip(rows: int, columns: int, seed: int = 0, dim: int = 2) -> MeshData:
    """A sheared strip of quads [rows x columns] with a scalar ``p`` and a vector ``u`` on points, ``q`` on cells."""
    rng = np.random.default_rng(seed)
    i, j = np.meshgrid(np.arange(rows + 1), np.arange(columns + 1), indexing="ij")
    points = np.stack([i / rows + 0.1 * rng.random() * j / columns, j / columns], -1).reshape(-1, 2)
    corner = (i[:-1, :-1] * (columns + 1) + j[:-1, :-1]).ravel()
    quads = np.stack([corner, corner + columns + 1, corner + columns + 2, corner + 1], 1)
    load = float(rng.random())
    p = load * np.sin(3 * points[:, 0]) + points[:, 1]
    u = np.stack([p, points[:, 0] * load, 0 * p], 1)
    points = points if dim == 2 else np.pad(points, ((0, 0), (0, 1)))
    return MeshData.from_cells(
        points,
        cell_type=[9] * len(quads),
        cells=quads.tolist(),
        point_data=Arrays({"p": p, "u": u, "load": np.full(len(p), load)}),
        cell_data=Arrays({"q": p[quads].mean(1)}),
    )


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
