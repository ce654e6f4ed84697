"""Coordinates about an origin of their own."""

from __future__ import annotations

from collections.abc import Sequence

from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from meshop.data import InputError, MeshData, in_plane_axes


@functional_transform("mesh_center")
class Center(BaseTransform):
    """Set ``pos`` [N, D] to the points about an origin, subtracted in double precision.

    Single precision resolves 5e5 m to centimetres; about an origin nearby it resolves them to nanometres. Unlike
    :class:`torch_geometric.transforms.Center` this starts from ``points``, which keep the file's precision and its
    frame, so that what is written back lies where it lay.

    Args:
        origin: three coordinates, the same for every mesh of a data set; ``None`` takes the middle of each mesh's own
            bounding box, with which a model no longer sees where a mesh lies. Points of no cell do not count, unless
            there are no cells.

    Raises:
        InputError: the origin has not three coordinates, or the nodes of the graph are not the points of the mesh.

    >>> mesh = MeshData.from_cells([[5e5, 0.0], [5e5 + 0.002, 0.0]], [3], [[0, 1]])
    >>> Center()(mesh).pos
    tensor([[-0.0010,  0.0000],
            [ 0.0010,  0.0000]])
    """

    def __init__(self, origin: Sequence[float] | None = None) -> None:
        if origin is not None and len(origin) != 3:
            raise InputError(f"Expected an origin of three coordinates (got {list(origin)})")
        self.origin = origin

    def forward(self, data: MeshData) -> MeshData:
        if data.pos.size(0) != data.num_points:
            raise InputError(
                f"Center moves the {data.num_points} points of a mesh, but the graph has {data.pos.size(0)} nodes; "
                "it cannot follow CellGraph"
            )
        points = data.points.double()
        used = points[data.cell_index.unique()] if data.num_cells else points
        middle = (used.amin(0) + used.amax(0)) / 2
        origin = middle if self.origin is None else points.new_tensor(self.origin)
        axes = [0, 1, 2] if data.dim == 3 else in_plane_axes(data.points) or [0, 1]
        data.pos = (points - origin)[:, axes].to(data.pos.dtype)
        return data

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({'' if self.origin is None else list(self.origin)})"
