"""Fields from cells to points."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from meshop.data import Arrays, InputError, MeshData, did_you_mean
from meshop.geometry import cells_to_points


@functional_transform("cells_to_points")
class CellsToPoints(BaseTransform):
    """Move fields from cells to points by measure-weighted means: see :func:`meshop.geometry.cells_to_points`.

    A moved field leaves ``cell_data`` and enters ``point_data`` under its name; the integral is kept, constants come
    out exactly.

    Args:
        names: fields to move; ``None`` moves every field of floats and leaves integers and texts where they are, as
            their means would mean nothing.

    Raises:
        InputError: a named field is not there or is not numeric, or the points have a field of that name.

    >>> mesh = MeshData.from_cells([[0.0, 0], [1, 0], [3, 0]], [3, 3], [[0, 1], [1, 2]], cell_data={"p": [0.0, 3.0]})
    >>> CellsToPoints()(mesh).point_data["p"]
    tensor([0., 2., 3.], dtype=torch.float64)
    """

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self.names = names

    def forward(self, data: MeshData) -> MeshData:
        data.cell_data, data.point_data = moved(data, "cell", "point", self.names, cells_to_points)
        return data

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.names or ''})"


def moved(
    data: MeshData, origin: str, target: str, names: Sequence[str] | None, transfer: Callable[..., Tensor]
) -> tuple[Arrays, Arrays]:
    """Copies of the arrays at both locations after the move."""
    source, sink = Arrays(data[f"{origin}_data"]), Arrays(data[f"{target}_data"])
    points = data.points.double()
    if names is None:
        names = [name for name, array in source.items() if isinstance(array, Tensor) and array.is_floating_point()]
    for name in names:
        if name not in source:
            raise InputError(f"Expected a {origin} field to move (got '{name}'{did_you_mean(name, list(source))})")
        if name in sink:
            raise InputError(f"Cannot move {origin} field '{name}': there is a {target} field of that name; drop one")
        array = source[name]
        if not isinstance(array, Tensor) or array.is_complex():
            raise InputError(f"Cannot move {origin} field '{name}': it does not hold real numbers")
        values = array if array.is_floating_point() else array.double()
        sink[name] = transfer(values, points, data.cell_type, data.cell_size, data.cell_index, data.polyhedra)
        del source[name]
    return source, sink
