"""Fields from points to cells."""

from __future__ import annotations

from collections.abc import Sequence

from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from meshop.data import MeshData
from meshop.geometry import points_to_cells
from meshop.transforms.cells_to_points import moved


@functional_transform("points_to_cells")
class PointsToCells(BaseTransform):
    """Move fields from points to cells by means over each cell: see :func:`meshop.geometry.points_to_cells`.

    A moved field leaves ``point_data`` and enters ``cell_data`` under its name; linear functions come out as their
    values at the cells' centroids.

    Args:
        names: fields to move; ``None`` moves every field of floats and leaves integers and texts where they are, as
            their means would mean nothing.

    Raises:
        InputError: a named field is not there or is not numeric, or the cells have a field of that name.

    >>> mesh = MeshData.from_cells([[0.0, 0], [1, 0], [3, 0]], [3, 3], [[0, 1], [1, 2]], point_data={"x": [0.0, 1, 3]})
    >>> PointsToCells(["x"])(mesh).cell_data["x"]
    tensor([0.5000, 2.0000], dtype=torch.float64)
    """

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self.names = names

    def forward(self, data: MeshData) -> MeshData:
        data.point_data, data.cell_data = moved(data, "point", "cell", self.names, points_to_cells)
        return data

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.names or ''})"
