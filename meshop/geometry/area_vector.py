"""Oriented areas of the cells of a surface."""

from __future__ import annotations

import torch
from torch import Tensor

from meshop.data import InputError
from meshop.geometry.cells import POLYHEDRON, cell_name, cells_by_shape


def cell_area_vector(points: Tensor, cell_type: Tensor, cell_size: Tensor, cell_index: Tensor) -> Tensor:
    r"""Area vector of each cell of a surface: its unit normal times its area.

    .. math::
        A = \int_{\text{cell}} n \, \mathrm{d}A = \frac12 \sum_i x_i \times x_{i+1}

    over the nodes around it. It depends on the rim of the cell alone, so that those of a closed surface add up to
    nothing. In the plane the surface is a curve of lines, and :math:`A = (\Delta y, -\Delta x)` from its first node to
    its last.

    Its direction is that of the order of the nodes: seen from the tip of the normal they run counter-clockwise; a curve
    that runs counter-clockwise around a body has normals that point out of it.

    Args:
        points: coordinates [P, D], D = 3 for faces, 2 for lines.
        cell_type: VTK code of each cell [C].
        cell_size: number of nodes of each cell [C].
        cell_index: node numbers of the cells one after another [K].

    Returns:
        [C, D], in the unit of the points to the power of D - 1.

    Raises:
        InputError: a cell is no face (D = 3) or no line (D = 2).

    >>> corners = torch.tensor([[0.0, 0, 0], [2, 0, 0], [2, 1, 0], [0, 1, 0]])
    >>> cell_area_vector(corners, torch.tensor([9]), torch.tensor([4]), torch.tensor([0, 1, 2, 3]))
    tensor([[0., 0., 2.]])
    """
    out = torch.zeros(cell_type.numel(), points.size(1), dtype=points.dtype, device=points.device)
    if POLYHEDRON in cell_type:
        raise InputError(f"Expected the cells of a surface (got a {cell_name(POLYHEDRON)})")
    for shape, cells, nodes in cells_by_shape(cell_type, cell_size, cell_index):
        if shape.dim != points.size(1) - 1 or shape.dim < 1:
            raise InputError(f"Expected the cells of a surface in {points.size(1)}-D (got a {shape.name})")
        x = points[nodes]  # [G, n, D]
        if shape.dim == 1:
            for edge in shape.edges:
                dx, dy = (x[:, edge[-1]] - x[:, edge[0]]).unbind(1)
                out[cells] += torch.stack([dy, -dx], dim=1)
        for face in shape.faces:
            spoke = x[:, list(face.loop)] - x[:, face.loop[:1]]  # differences: no cancellation far from the origin
            out[cells] += torch.linalg.cross(spoke, spoke.roll(-1, 1)).sum(1) / 2
    return out
