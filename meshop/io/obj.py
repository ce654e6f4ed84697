"""Wavefront OBJ: the points, lines and polygons of a text file."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from meshop.data import InputError, MeshData
from meshop.geometry import cell_name
from meshop.io.assemble import assemble, poly_codes, text_numbers, to_numpy, warn_left_out

_KINDS = {"p": "Verts", "l": "Lines", "f": "Polys"}
_LETTERS = {1: "p", 2: "p", 3: "l", 4: "l", 5: "f", 7: "f", 9: "f"}


def read_obj(path: Path, dim: int) -> MeshData:
    """Read OBJ: vertices as they are and where they are, elements in file order.

    Vertex colours, if all vertices have them, are the point data ``RGB``. Normals, texture coordinates (which have an
    order of their own), groups and materials are not kept.
    """
    vertices: list[bytes] = []
    letters: list[str] = []
    elements: list[bytes] = []
    before: list[int] = []  # vertices before each element, from which negative numbers count
    for line in path.read_bytes().replace(b"\\\n", b" ").splitlines():
        word, *rest = line.partition(b"#")[0].split(None, 1)[:2] or [b""]
        if word == b"v":
            vertices += rest
        elif word in (b"p", b"l", b"f"):
            letters.append(word.decode())
            elements += rest
            before.append(len(vertices))
    rows = text_numbers(b" ".join(vertices)).reshape(len(vertices), -1) if vertices else np.empty((0, 3))
    numbers = [re.sub(rb"/\S*", b"", element) for element in elements]
    size = np.array([len(element.split()) for element in numbers], dtype=int)
    index = text_numbers(b" ".join(numbers)).astype(int)
    index = np.where(index < 0, index + np.repeat(before, size), index - 1)
    code = np.empty(len(size), dtype=int)
    for letter, kind in _KINDS.items():
        own = np.array(letters) == letter
        code[own] = poly_codes(kind, size[own])
    return assemble(
        rows[:, :3], code, size, index, point_data={"RGB": rows[:, 3:6]} if rows.shape[1] == 6 else {}, dim=dim
    )


def write_obj(path: Path, data: MeshData, binary: bool) -> None:
    """Write OBJ, which is text and holds no fields; polygons of three and four nodes come back as triangles and quads.

    Raises:
        InputError: a cell is neither point, line nor polygon.
    """
    data.validate()
    for code in data.cell_type.unique().tolist():
        if code not in _LETTERS:
            raise InputError(f"OBJ holds points, lines and polygons (got a {cell_name(code)}); write VTU instead")
    warn_left_out("OBJ", [*data.point_data, *data.cell_data])
    cells = (data.cell_index + 1).split(data.cell_size.tolist())
    with path.open("w") as file:
        np.savetxt(file, to_numpy(data.points, "points"), fmt="v %.17g %.17g %.17g")
        for code, nodes in zip(data.cell_type.tolist(), cells, strict=True):
            file.write(f"{_LETTERS[code]} {' '.join(map(str, nodes.tolist()))}\n")
