"""Distances to facets and to closed surfaces, measured by VTK."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from meshop.data import InputError


def facet_distance(query: Tensor, points: Tensor, facets: Sequence[Tensor], dim: int) -> Tensor:
    """Distance [Q] of coordinates to the nearest facet, by VTK's cell locator.

    Args:
        query: coordinates [Q, 3].
        points: coordinates [P, 3] of the mesh.
        facets: nodes [G, n] around the facets, those of one kind together.
        dim: of the facets: 0 for points, 1 for lines, 2 for faces, which are triangulated.

    Raises:
        InputError: there are no facets.

    >>> points = torch.tensor([[0.0, 0, 0], [2, 0, 0]])
    >>> facet_distance(torch.tensor([[1.0, 3, 0], [5, 4, 0]]), points, [torch.tensor([[0, 1]])], 1)
    tensor([3., 5.])
    """
    if not any(len(nodes) for nodes in facets):
        raise InputError("Expected facets to measure the distance from (got none)")
    where, to = query.double().numpy(), points.double().numpy()
    if dim == 0:
        from scipy.spatial import cKDTree

        nodes = torch.cat([nodes.flatten() for nodes in facets]).unique().numpy()
        return torch.from_numpy(cKDTree(to[nodes]).query(where)[0]).to(query)
    import pyvista as pv

    sized = [torch.nn.functional.pad(nodes, (1, 0), value=nodes.size(1)).flatten().numpy() for nodes in facets]
    surface = pv.PolyData(to, **{"lines" if dim == 1 else "faces": np.concatenate(sized)})
    surface = surface if dim == 1 else surface.triangulate()
    _, nearest = surface.find_closest_cell(where, return_closest_point=True)
    return torch.from_numpy(np.linalg.norm(nearest.reshape(where.shape) - where, axis=1)).to(query)


def surface_distance(query: Tensor, vertices: Tensor, triangles: Tensor) -> Tensor:
    """Signed distance [Q] to a closed surface, negative inside, by VTK's implicit distance.

    Args:
        query: coordinates [Q, 3].
        vertices: of the surface [V, 3], none of them twice.
        triangles: their vertices [F, 3], counter-clockwise seen from outside.

    >>> corners = torch.tensor([[0.0, 0, 0], [3, 0, 0], [0, 3, 0], [0, 0, 3]])
    >>> triangles = torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> surface_distance(torch.tensor([[0.5, 0.5, 0.25], [0.5, 0.5, -2]]), corners, triangles)
    tensor([-0.2500,  2.0000])
    """
    import pyvista as pv

    surface = pv.PolyData.from_regular_faces(vertices.double().numpy(), triangles.numpy())
    found = pv.PolyData(query.double().numpy()).compute_implicit_distance(surface)["implicit_distance"]
    return torch.from_numpy(np.array(found)).to(query)
