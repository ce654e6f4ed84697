"""Between :class:`~meshop.data.MeshData` and meshio's meshes; the one place that knows meshio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from meshop.data import InputError, MeshData
from meshop.geometry import POLYHEDRON, cell_name
from meshop.geometry.cells import faces_of
from meshop.io.assemble import assemble, integers, to_numpy

if TYPE_CHECKING:
    import meshio

# the cells that a meshio.Mesh accepts and VTK's codes; the nodes of each stand in the same order in both
_CODES = {
    "vertex": 1,
    "line": 3,
    "triangle": 5,
    "polygon": 7,
    "quad": 9,
    "tetra": 10,
    "hexahedron": 12,
    "wedge": 13,
    "pyramid": 14,
    "line3": 21,
    "triangle6": 22,
    "quad8": 23,
    "tetra10": 24,
    "hexahedron20": 25,
    "quad9": 28,
    "hexahedron27": 29,
    "wedge18": 32,
    "line4": 35,
    "VTK_LAGRANGE_CURVE": 68,
    "VTK_LAGRANGE_TRIANGLE": 69,
    "VTK_LAGRANGE_QUADRILATERAL": 70,
    "VTK_LAGRANGE_TETRAHEDRON": 71,
    "VTK_LAGRANGE_HEXAHEDRON": 72,
    "VTK_LAGRANGE_WEDGE": 73,
}
_NAMES = {code: name for name, code in _CODES.items()}


def from_meshio(mesh: meshio.Mesh, dim: int = 3) -> MeshData:
    """Copy a ``meshio.Mesh``: the cells of its blocks in order, all arrays under their names.

    Point sets and cell sets become boolean point and cell data under their names.

    Args:
        mesh: the mesh; it is left as it is.
        dim: number of coordinates in ``pos``; 2 takes the two axes of the coordinate plane in which the points lie.

    Raises:
        InputError: a mesh without points, a cell type VTK does not have, or a mesh that lies in no coordinate plane
            where ``dim`` is 2.

    >>> import meshio
    >>> mesh = meshio.Mesh([[0.0, 0], [1, 0], [1, 1], [0, 1]], [("line", [[0, 1]]), ("quad", [[0, 1, 2, 3]])])
    >>> from_meshio(mesh, dim=2).cell_type
    tensor([3, 9])
    """
    codes, sizes, nodes, triples = [], [], [], []
    first = faces = 0
    for block in mesh.cells:
        if block.type.startswith("polyhedron"):
            for cell, polyhedron in enumerate(block.data, start=first):
                triples += [(cell, faces + i, node) for i, face in enumerate(polyhedron) for node in face]
                faces += len(polyhedron)
                members = np.unique(np.concatenate(polyhedron))
                nodes.append(members)
                sizes.append([len(members)])
            codes.append([POLYHEDRON] * len(block))
        elif block.type in _CODES:
            codes.append([_CODES[block.type]] * len(block))
            sizes.append([block.data.shape[1]] * len(block))
            nodes.append(integers(block.data, "node numbers").flatten().numpy())
        else:
            raise InputError(f"Expected cells that VTK has, too (got meshio's '{block.type}')")
        first += len(block)
    masks = {name: _mask(len(mesh.points), members) for name, members in mesh.point_sets.items()}
    cell_masks = {
        name: np.concatenate([_mask(len(block), m) for block, m in zip(mesh.cells, members, strict=True)])
        for name, members in mesh.cell_sets.items()
    }
    empty = np.empty(0, int)
    return assemble(
        mesh.points,
        np.concatenate([empty, *codes]),
        np.concatenate([empty, *sizes]),
        np.concatenate([empty, *nodes]),
        np.array(triples).T if triples else None,
        masks | mesh.point_data,
        cell_masks | {name: np.concatenate(blocks) for name, blocks in mesh.cell_data.items() if blocks},
        mesh.field_data,
        dim,
    )


def to_meshio(data: MeshData) -> meshio.Mesh:
    """Copy a mesh to a ``meshio.Mesh``: file order is kept by a block for each run of cells of one type and size.

    float16 becomes float32 and bool uint8, as in :func:`~meshop.io.to_pyvista`.

    Raises:
        InputError: the mesh contradicts itself, meshio has no such cell, or an array is complex.

    >>> square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], cell_type=[9], cells=[[0, 1, 2, 3]])
    >>> to_meshio(square).cells
    [<meshio CellBlock, type: quad, num cells: 1, tags: []>]
    """
    import meshio

    data.validate()
    kinds, counts = torch.stack([data.cell_type, data.cell_size], dim=1).unique_consecutive(dim=0, return_counts=True)
    polyhedra = _polyhedra(data)
    blocks: list[tuple[str, Any]] = []
    first = at = 0
    for (code, size), count in zip(kinds.tolist(), counts.tolist(), strict=True):
        if code == POLYHEDRON:
            blocks.append((f"polyhedron{size}", [polyhedra[cell] for cell in range(first, first + count)]))
        elif code in _NAMES:
            nodes = data.cell_index[at : at + size * count].reshape(count, size)
            blocks.append((_NAMES[code], nodes.cpu().numpy().copy()))
        else:
            raise InputError(f"meshio has no {cell_name(code)}; use to_pyvista instead")
        first, at = first + count, at + size * count
    cuts = counts.cumsum(0)[:-1].tolist()
    return meshio.Mesh(
        to_numpy(data.points, "points").copy(),
        blocks,
        {name: to_numpy(array, name).copy() for name, array in data.point_data.items()},
        {name: np.split(to_numpy(array, name).copy(), cuts)[: len(blocks)] for name, array in data.cell_data.items()},
        {name: to_numpy(array, name).copy() for name, array in data.field_data.items()},
    )


def _mask(count: int, members: Any) -> np.ndarray[Any, Any]:
    mask = np.zeros(count, dtype=bool)
    if members is not None:  # meshio's "none of this block"
        mask[members] = True
    return mask


def _polyhedra(data: MeshData) -> dict[int, list[np.ndarray[Any, Any]]]:
    """The faces of each polyhedral cell."""
    cell, size, nodes = faces_of(data.polyhedra)
    out: dict[int, list[np.ndarray[Any, Any]]] = {}
    for number, face in zip(cell.tolist(), nodes.split(size.tolist()), strict=True):
        out.setdefault(number, []).append(face.cpu().numpy().copy())
    return out
