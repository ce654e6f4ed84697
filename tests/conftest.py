"""Small meshes and a small suite that several test files share."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

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


SMALL = {"hidden_channels": 8, "num_layers": 1, "heads": 2}
SUITE: dict[str, Any] = {
    "recipe": {"batch_size": 2, "lr": 0.01},
    "models": {
        "CANO": {"class_path": "meshop.models.CANO", "init_args": SMALL | {"num_clusters": 3}},
        "Missing": {"class_path": "meshop.models.Missing"},
    },
    "data": {"plate_with_holes": {"minutes": 1e-6, "seeds": [0, 1], "data_args": {"num_samples": 4}}},
}


@pytest.fixture(scope="session")
def small_suite() -> dict[str, Any]:
    """A model that runs and one that does not on four plates, with two seeds."""
    return SUITE


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """A function that writes the suite with other sections and returns the file."""

    def write(**other: Any) -> Path:
        path = tmp_path / "suite.yaml"
        path.write_text(yaml.safe_dump(SUITE | other, sort_keys=False))
        return path

    return write
