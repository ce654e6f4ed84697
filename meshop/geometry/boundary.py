"""The boundary of a mesh: the facets that belong to one cell alone."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from meshop.geometry.cells import Shape, cell_dim, cells_by_shape, polyhedron_faces
from meshop.geometry.pairs import row_numbers

Facets = tuple[Tensor, Tensor, Tensor]
"""Facets of one kind: their cells [G], the nodes [G, n] around each, and those nodes [G, m] that lie inside it."""


def boundary_facets(
    cell_type: Tensor, cell_size: Tensor, cell_index: Tensor, polyhedra: Tensor | None = None
) -> list[Facets]:
    """The facets that only one cell has: faces of solids, edges of surfaces, ends of lines.

    Only cells of the highest dimension count, so that surfaces and lines which a file holds beside the solids change
    nothing. Facets are compared by their corners; the nodes on the edges and inside the faces of quadratic cells are
    part of them.

    Returns:
        Facets of one kind together: the cell of each [G], the nodes around each [G, n] in order, for edges along it,
        and the nodes inside each [G, m].

    Raises:
        InputError: the facets of a cell are not known.

    >>> [(cells, around, inside)] = boundary_facets(torch.tensor([9]), torch.tensor([4]), torch.tensor([0, 1, 2, 3]))
    >>> around.tolist()
    [[0, 1], [1, 2], [3, 2], [0, 3]]
    """
    dims = cell_dim(cell_type)
    highest = int(dims.max()) if dims.numel() else 0
    kinds: dict[int, list[tuple[Tensor, Tensor, Tensor, Tensor]]] = {}  # number of corners -> corners, and facets
    for shape, cells, nodes in cells_by_shape(cell_type, cell_size, cell_index):
        if shape.dim == highest:
            for ends, rim, inner in _parts(shape):
                kinds.setdefault(len(ends), []).append((nodes[:, ends], cells, nodes[:, rim], nodes[:, inner]))
    for cells, nodes in polyhedron_faces(polyhedra):
        kinds.setdefault(nodes.size(1), []).append((nodes, cells, nodes, nodes[:, :0]))
    out: dict[tuple[int, int], list[Facets]] = {}
    for parts in kinds.values():
        number = row_numbers(torch.cat([corners for corners, *_ in parts]).sort(dim=1).values)
        alone = (number.bincount() == 1)[number].split([len(cells) for _, cells, *_ in parts])
        for (_, cells, around, inside), own in zip(parts, alone, strict=True):
            if bool(own.any()):
                facets = cells[own], around[own], inside[own]
                out.setdefault((around.size(1), inside.size(1)), []).append(facets)
    return [(torch.cat(c), torch.cat(a), torch.cat(i)) for c, a, i in (zip(*own, strict=True) for own in out.values())]


def _parts(shape: Shape) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """Corners of each facet of a shape, the nodes around it and those inside it."""
    whole: dict[frozenset[int], tuple[tuple[int, ...], tuple[int, ...]]] = {}
    whole |= {frozenset((edge[0], edge[-1])): (edge, ()) for edge in shape.edges}
    whole |= {frozenset(face.corners): (face.loop, face.inner) for face in shape.faces if shape.dim == 3}
    for corners in shape.facets:
        around, inside = whole.get(frozenset(corners), (corners, ()))
        yield list(corners), list(around), list(inside)
