"""The distance to the boundary."""

from __future__ import annotations

import torch
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from meshop.data import Arrays, InputError, Location, MeshData, did_you_mean
from meshop.geometry import boundary_facets, cell_centroid, cell_dim, facet_distance
from meshop.transforms.markers import marked, names_of


@functional_transform("boundary_distance")
class BoundaryDistance(BaseTransform):
    r"""Add the distance to the boundary of the mesh, or to a named part of it, as the field :attr:`field`.

    .. math::
        d(x) = \min_{y \in \partial\Omega} \lVert x - y \rVert

    in the unit of the coordinates, at the points or at the centroids of the cells. The boundary are the facets that
    one cell alone has (:func:`meshop.geometry.boundary_facets`); of a named part those whose nodes are all in it, or
    where it holds no such facet, its nodes. Curved facets are taken as polygons through their nodes.

    Args:
        marker: a named set, group, patch or marker (see :class:`Markers`); ``None`` takes the whole boundary.
        location: where the field lives, ``point`` or ``cell``.

    Raises:
        InputError: the mesh has no boundary, or no such part of it.

    >>> mesh = MeshData.from_cells([[0.0, 0], [4, 0], [2, 1], [4, 2], [0, 2]], [5] * 4,
    ...     [[0, 1, 2], [1, 3, 2], [3, 4, 2], [4, 0, 2]])
    >>> BoundaryDistance()(mesh).point_data["boundary_distance"]
    tensor([0., 0., 1., 0., 0.])
    """

    def __init__(self, marker: str | None = None, location: Location = "point") -> None:
        self.marker = marker
        self.location = location

    @property
    def field(self) -> str:
        """Name of the field: ``boundary_distance``, or ``wall_distance`` for the marker ``wall``."""
        return f"{self.marker or 'boundary'}_distance"

    def forward(self, data: MeshData) -> MeshData:
        cells = data.cell_type, data.cell_size, data.cell_index, data.polyhedra
        points = data.points.double()
        facets = [around for _, around, _ in boundary_facets(*cells)]
        dim = int(cell_dim(data.cell_type).max()) - 1 if data.num_cells else 0
        if self.marker is not None:
            mask = marked(data, self.marker, "point")
            if mask is None or not bool(mask.any()):
                known = sorted(names_of(data))
                raise InputError(
                    f"Expected points marked '{self.marker}' to measure the distance from (got none)"
                    f"{did_you_mean(self.marker, known)}; the mesh has {', '.join(known) or 'no named parts'}"
                )
            facets = [own for around in facets if len(own := around[mask[around].all(dim=1)])]
            facets, dim = (facets, dim) if facets else ([mask.nonzero()], 0)
        if not facets:
            raise InputError(
                "Expected a mesh with a boundary to measure the distance from (got one that is closed or has no cells)"
            )
        places = points if self.location == "point" else cell_centroid(points, *cells)
        key = f"{self.location}_data"
        data[key] = Arrays(data[key])
        data[key][self.field] = facet_distance(places, points, facets, dim).to(torch.float32)
        return data

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.marker!r}, '{self.location}')"
