"""SU2's native meshes (https://su2code.github.io/docs_v7/Mesh-File): elements, and markers of their boundary.

meshio loses the names of markers; hence a reader of our own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from meshop.data import Arrays, InputError, MeshData
from meshop.geometry import cell_dim, cell_name
from meshop.io.assemble import assemble, text_numbers, to_numpy, warn_left_out
from meshop.io.parts import masks_of

_NODES = {1: 1, 3: 2, 5: 3, 9: 4, 10: 4, 12: 8, 13: 6, 14: 5}  # nodes of the cells, whose codes are VTK's
SU2_CELLS = frozenset(_NODES)
_REST = "unmarked"


def read_su2(path: Path, dim: int) -> MeshData:
    """Read SU2: the elements, then those of the markers, each of which is a mask of cells under its name."""
    lines = [line.partition("%")[0].strip() for line in path.read_text(errors="replace").splitlines()]
    lines = [line for line in lines if line]
    axes, at, tag = 0, 0, ""
    points: Any = None
    cells: list[tuple[int, list[int]]] = []
    markers: dict[str, list[tuple[int, int]]] = {}  # first and last cell, exclusive
    while at < len(lines):
        key, equals, value = lines[at].partition("=")
        key, value, at = key.strip().upper(), value.strip(), at + 1
        if not equals:
            raise InputError(f"expected a keyword and '=' (got '{lines[at - 1][:40]}')")
        if key == "NDIME":
            axes = int(value)
        elif key == "NZONE" and int(value) > 1:
            raise InputError(f"it holds {value} zones; save each as its own file")
        elif key == "MARKER_TAG":
            tag = value
        elif key in ("NPOIN", "NELEM", "MARKER_ELEMS"):
            count = int(value.split()[0])
            body, at = lines[at : at + count], at + count
            if not 0 <= count == len(body) or any("=" in line for line in body):
                raise InputError(f"it holds fewer lines than {key} says")
            if key == "NPOIN":
                points = np.stack([text_numbers(line.encode())[:axes] for line in body])
            else:
                first = len(cells)
                cells += [_cell(line) for line in body]
                if key == "MARKER_ELEMS":
                    markers.setdefault(tag, []).append((first, len(cells)))
    if axes not in (2, 3) or points is None:
        raise InputError("it has no NDIME of 2 or 3, or no NPOIN, as an SU2 mesh has")
    masks = {name: np.zeros(len(cells), dtype=bool) for name in markers}
    for name, runs in markers.items():
        for first, last in runs:
            masks[name][first:last] = True
    return assemble(
        points,
        [code for code, _ in cells],
        [len(nodes) for _, nodes in cells],
        [node for _, nodes in cells for node in nodes],
        cell_data=masks,
        dim=dim,
    )


def _cell(line: str) -> tuple[int, list[int]]:
    code, *nodes = map(int, line.split())
    if code not in _NODES or len(nodes) < _NODES[code]:
        raise InputError(f"it has an element that SU2 does not know ('{line[:40]}')")
    return code, nodes[: _NODES[code]]


def write_su2(path: Path, data: MeshData, binary: bool) -> None:
    """Write SU2, which is text: elements, and as markers the masks of cells one dimension lower.

    Cells of the boundary in no mask get the marker ``unmarked``. Fields are left out with a warning.

    Raises:
        InputError: SU2 has no such cell, it would number the cells in another order, or a cell is in two markers.
    """
    data.validate()
    for code in data.cell_type.unique().tolist():
        if code not in _NODES:
            raise InputError(f"SU2 has no {cell_name(code)}; write VTU instead")
    if data.num_cells == 0:
        raise InputError("SU2 holds elements (got a mesh without); write VTU instead")
    dim = cell_dim(data.cell_type)
    top = int(dim.max())
    if top < 2 or bool((dim < top - 1).any()):
        raise InputError("SU2 holds solids with faces, or surfaces with lines (got other cells); write VTU instead")
    if top == 2 and bool((data.points[:, 2] != 0).any()):
        raise InputError("SU2 holds surfaces in the plane z = 0 only (got one in space); write VTU instead")
    markers, lost = _markers(data.cell_data, dim < top)
    tag = torch.full((data.num_cells,), -1)
    tag[dim < top] = len(markers)
    for number, mask in enumerate(markers.values()):
        if bool((tag[mask] < len(markers)).any()):
            raise InputError("SU2 holds a cell in one marker only (got one in two); write VTU instead")
        tag[mask] = number
    used = tag.unique_consecutive().tolist()
    if len(used) > len(set(used)) or (len(used) > 1 and used[0] != -1):
        raise InputError("SU2 numbers elements before markers, one after another, not as the mesh; write VTU instead")
    warn_left_out("SU2", [*data.point_data, *lost])
    names = [*markers, _REST]
    cells = [
        f"{code} {' '.join(map(str, nodes.tolist()))}\n"
        for code, nodes in zip(data.cell_type.tolist(), data.cell_index.split(data.cell_size.tolist()), strict=True)
    ]
    with path.open("w") as file:
        file.write(f"NDIME= {top}\nNELEM= {int((tag < 0).sum())}\n")
        file.writelines(cells[: int((tag < 0).sum())])
        file.write(f"NPOIN= {data.num_points}\n")
        np.savetxt(file, to_numpy(data.points, "points")[:, :top], fmt="%.17g")
        file.write(f"NMARK= {len(used) - 1}\n")
        for number in used[1:]:
            own = (tag == number).nonzero().squeeze(1).tolist()
            file.write(f"MARKER_TAG= {names[number]}\nMARKER_ELEMS= {len(own)}\n")
            file.writelines(cells[i] for i in own)


def _markers(arrays: Arrays, boundary: torch.Tensor) -> tuple[dict[str, torch.Tensor], list[str]]:
    """The masks that lie on the boundary, and the names of all other arrays."""
    markers = {name: mask for name, mask in masks_of(arrays).items() if bool(mask.any()) and bool(boundary[mask].all())}
    return markers, [name for name in arrays if name not in markers]
