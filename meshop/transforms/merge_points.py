"""Points in one place become one."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from meshop.data import Arrays, InputError, MeshData


@functional_transform("merge_points")
class MergePoints(BaseTransform):
    """Make points with exactly equal coordinates one, so that parts of a mesh that touch have a common graph.

    Readers keep the points of a file as they are, in number and order; this is the explicit way to join them. A merged
    point takes the place of the first and the arrays go with it: of floats the mean over the points that became one, of
    masks whether any has it, of integers and texts the value of the first. ``merged`` [P] says which point each point
    of the file became: ``field[data.merged]`` has the file's length and order again.

    Raises:
        InputError: the graph has been built, or is that of the cells.

    >>> two = MeshData.from_cells([[0.0, 0], [1, 0], [1, 0], [2, 0]], [3, 3], [[0, 1], [2, 3]])
    >>> MergePoints()(two).cell_index, MergePoints()(two).merged
    (tensor([0, 1, 1, 2]), tensor([0, 1, 1, 2]))
    """

    def forward(self, data: MeshData) -> MeshData:
        if built := [key for key in ("edge_index", "x", "y", "measure") if key in data]:
            raise InputError(f"MergePoints goes before what makes the graph (the mesh has '{built[0]}')")
        if data.pos.size(0) != data.num_points:
            raise InputError("MergePoints joins the points of a mesh; it cannot follow CellGraph")
        rows = data.points.cpu().numpy() + 0.0  # no negative zeros
        _, first, place = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        order = first.argsort()
        kept = torch.from_numpy(first[order])
        merged = torch.from_numpy(order.argsort()[place.ravel()])
        data.points, data.pos = data.points[kept], data.pos[kept]
        data.cell_index = merged[data.cell_index]
        if data.polyhedra.numel():
            data.polyhedra = torch.stack([*data.polyhedra[:2], merged[data.polyhedra[2]]])
        data.point_data = Arrays({name: _joined(array, merged, kept) for name, array in data.point_data.items()})
        data.merged = merged
        return data


def _joined(array: Tensor | np.ndarray, merged: Tensor, kept: Tensor) -> Tensor | np.ndarray:
    if not isinstance(array, Tensor):
        return array[kept.numpy()]
    shape = (len(kept), *array.shape[1:])
    if array.dtype == torch.bool:
        return torch.zeros(shape, dtype=torch.long).index_add_(0, merged, array.long()) > 0
    if array.is_floating_point():
        total = torch.zeros(shape, dtype=torch.float64).index_add_(0, merged, array.double())
        count = merged.bincount(minlength=len(kept)).view(-1, *[1] * (array.dim() - 1))
        return (total / count).to(array.dtype)
    return array[kept]
