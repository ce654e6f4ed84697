from pathlib import Path
from typing import Any

import pytest
import yaml

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
