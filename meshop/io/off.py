"""OFF: the points and polygons of a text file (http://www.geomview.org/docs/html/OFF.html)."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from meshop.data import InputError, MeshData
from meshop.geometry import cell_name
from meshop.io.assemble import assemble, text_numbers, to_numpy, warn_left_out

_CODES = {1: 1, 2: 3, 3: 5, 4: 9}  # VTK codes by number of nodes; more are a polygon
OFF_CELLS = frozenset({1, 3, 5, 7, 9})


def read_off(path: Path, dim: int) -> MeshData:
    """Read OFF, also with colours of vertices (COFF) or faces, which are the data ``RGB`` or ``RGBA``."""
    content = re.sub(rb"#[^\n]*", b"", path.read_bytes())
    head = re.match(rb"\s*(ST)?(C?)(N?)OFF\b(\s+BINARY)?", content)
    if head is None or head[4]:
        raise InputError("it does not start with OFF, as the text files of this format do")
    lines = [line for line in content[head.end() :].splitlines() if line.strip()]
    count, faces = np.append(text_numbers(lines[0] if lines else b"").astype(int), [0, 0])[:2].tolist()
    if min(count, faces) < 0 or len(lines) < 1 + count + faces:
        raise InputError("the file is shorter than its counts say")
    vertices = text_numbers(b"\n".join(lines[1 : 1 + count])).reshape(count, -1)
    cells = [text_numbers(line) for line in lines[1 + count : 1 + count + faces]]
    size = np.array([cell[0] if len(cell) else 0 for cell in cells], dtype=int)
    if any(n < 1 or len(cell) <= n for n, cell in zip(size.tolist(), cells, strict=True)):
        raise InputError("a face has fewer nodes than its count says")
    nodes = [cell[1 : n + 1] for n, cell in zip(size.tolist(), cells, strict=True)]
    colours = [cell[n + 1 :] for n, cell in zip(size.tolist(), cells, strict=True)]
    widths = {len(colour) for colour in colours}
    first = 3 + 3 * bool(head[3])
    own = vertices[:, first:] if head[2] else np.empty((0, 0))
    return assemble(
        vertices[:, :3],
        [_CODES.get(n, 7) for n in size.tolist()],
        size,
        np.concatenate([np.empty(0), *nodes]).astype(int),
        point_data={"RGBA"[: own.shape[1]]: own} if own.shape[1] in (3, 4) else {},
        cell_data={"RGBA"[: min(widths)]: np.stack(colours)} if widths in ({3}, {4}) else {},
        dim=dim,
    )


def write_off(path: Path, data: MeshData, binary: bool) -> None:
    """Write OFF, which is text and holds no fields; polygons of three and four nodes come back as triangles and quads.

    Raises:
        InputError: a cell is neither point, line nor polygon.
    """
    data.validate()
    for code in data.cell_type.unique().tolist():
        if code not in OFF_CELLS:
            raise InputError(f"OFF holds points, lines and polygons (got a {cell_name(code)}); write VTU instead")
    warn_left_out("OFF", [*data.point_data, *data.cell_data])
    with path.open("w") as file:
        file.write(f"OFF\n{data.num_points} {data.num_cells} 0\n")
        np.savetxt(file, to_numpy(data.points, "points"), fmt="%.17g")
        for nodes in data.cell_index.split(data.cell_size.tolist()):
            file.write(f"{len(nodes)} {' '.join(map(str, nodes.tolist()))}\n")
