"""STL: triangles that do not know their neighbours, until their equal corners are made one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch

from meshop.data import InputError, MeshData
from meshop.geometry import cell_name
from meshop.geometry.pairs import row_numbers
from meshop.io.assemble import assemble, text_numbers, warn_left_out

_FACET = np.dtype([("rows", "<f4", (4, 3)), ("attribute", "<u2")])  # the normal and three corners


def read_stl(path: Path, dim: int) -> MeshData:
    """Read text or binary STL, welded: corners with equal coordinates are one point, in the order of appearance.

    The triangles stay as many as in the file, and in order.
    """
    content = path.read_bytes()
    count = int.from_bytes(content[80:84], "little")
    if len(content) == 84 + count * _FACET.itemsize:
        corners = np.frombuffer(content, _FACET, count, 84)["rows"][:, 1:].reshape(-1, 3)
    else:
        words = content.split(None, 1)[0].lower(), content.rstrip().rpartition(b"\n")[2].strip()[:8].lower()
        if words != (b"solid", b"endsolid"):
            raise InputError("it is neither a whole text nor as long as its count of triangles says")
        lines = re.findall(rb"vertex\s+(\S+\s+\S+\s+\S+)", content, re.IGNORECASE)
        corners = text_numbers(b" ".join(lines)).astype(np.float32).reshape(-1, 3)
    if len(corners) % 3 or len(corners) == 0:
        raise InputError("it holds no triangles, or one without three corners")
    places = [torch.from_numpy(x).unique(return_inverse=True)[1] for x in corners.T.copy()]
    _, first, point = np.unique(row_numbers(torch.stack(places, 1)).numpy(), return_index=True, return_inverse=True)
    order = first.argsort()
    count = len(corners) // 3
    return assemble(
        corners[first[order]],
        np.full(count, 5),
        np.full(count, 3),
        order.argsort()[point],
        dim=dim,
    )


def write_stl(path: Path, data: MeshData, binary: bool) -> None:
    """Write triangles as STL, which holds float32 and no fields.

    Raises:
        InputError: a cell is no triangle.
    """
    data.validate()
    others = data.cell_type[data.cell_type != 5]
    if others.numel():
        raise InputError(f"STL holds triangles only (got a {cell_name(int(others[0]))}); write VTU or VTP instead")
    if data.num_cells == 0:
        raise InputError("STL holds triangles only (got a mesh without); write VTU instead")
    warn_left_out("STL", [*data.point_data, *data.cell_data])
    corners = data.points[data.cell_index].reshape(-1, 3, 3)
    normal = torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normal = torch.nn.functional.normalize(normal, dim=1, eps=torch.finfo(normal.dtype).tiny)
    rows = torch.cat([normal.unsqueeze(1), corners], dim=1).float().cpu().numpy()  # [C, 4, 3]
    if binary:
        facets = np.zeros(len(rows), _FACET)
        facets["rows"] = rows
        path.write_bytes(b"meshop".ljust(80) + np.uint32(len(rows)).tobytes() + facets.tobytes())
    else:
        vertex = "vertex %.9g %.9g %.9g\n"
        facet = "facet normal %.9g %.9g %.9g\nouter loop\n" + 3 * vertex + "endloop\nendfacet"
        with path.open("w") as file:
            np.savetxt(
                file, rows.reshape(-1, 12), fmt=facet, header="solid meshop", footer="endsolid meshop", comments=""
            )
