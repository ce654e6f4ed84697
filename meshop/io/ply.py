"""PLY, the Stanford polygon format, text and binary (http://paulbourke.net/dataformats/ply)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import quote, unquote

import numpy as np
import torch
from numpy.typing import NDArray

from meshop.data import Arrays, InputError, MeshData
from meshop.geometry import cell_name
from meshop.io.assemble import assemble, poly_codes, text_numbers, to_numpy, warn_left_out

Array = NDArray[Any]

_TYPES = {
    f"{name}": code
    for names, code in (
        (("char", "int8"), "i1"),
        (("uchar", "uint8"), "u1"),
        (("short", "int16"), "i2"),
        (("ushort", "uint16"), "u2"),
        (("int", "int32"), "i4"),
        (("uint", "uint32"), "u4"),
        (("float", "float32"), "f4"),
        (("double", "float64"), "f8"),
    )
    for name in names
}
_NAMES = {"i1": "char", "u1": "uchar", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint"}
_NAMES |= {"f4": "float", "f8": "double"}
_NODES = ("vertex_indices", "vertex_index")


class _Property(NamedTuple):
    name: str
    type: str  # of each value, as numpy spells it
    length: str = ""  # type of the number of values, of a list


class _Element(NamedTuple):
    name: str
    rows: int
    properties: list[_Property]


def read_ply(path: Path, dim: int) -> MeshData:
    """Read PLY: vertices and faces in file order, their further properties as point and cell data.

    Scalars ``u_0, u_1, ...`` side by side are the vector ``u`` and percent signs in names are decoded, so that what
    :func:`write_ply` writes comes back. Other elements than vertices and faces, and further lists, are not kept.
    """
    head, _, body = path.read_bytes().partition(b"end_header")
    form, elements = _header(head.decode(errors="replace"))
    body = body.partition(b"\n")[2]
    if form == "ascii":
        body = text_numbers(body).tobytes()
    at = 0
    columns: dict[str, dict[str, Array]] = {}
    for element in elements:
        columns[element.name], at = _columns(element, body, at, form)
    points = columns.get("vertex", {})
    cells = columns.get("face", {})
    if not {"x", "y", "z"} <= set(points):
        raise InputError("its vertices have no x, y and z")
    nodes = next((cells.pop(name) for name in _NODES if name in cells), np.empty(0, int))
    size = next((cells.pop(f"{name} size") for name in _NODES if f"{name} size" in cells), np.empty(0, int))
    return assemble(
        np.stack([points.pop(axis) for axis in "xyz"], axis=1),
        np.select([size == 1, size == 2], [1, 3], poly_codes("Polys", size)),
        size,
        nodes,
        point_data=_vectors(points),
        cell_data=_vectors(cells),
        dim=dim,
    )


def _header(text: str) -> tuple[str, list[_Element]]:
    lines = [line.split() for line in text.splitlines()]
    lines = [words for words in lines if words and words[0] not in ("comment", "obj_info")]
    if len(lines) < 2 or lines[0] != ["ply"] or lines[1][0] != "format":
        raise InputError("it does not start as a PLY file")
    elements: list[_Element] = []
    for word, *rest in lines[2:]:
        if word == "element":
            elements.append(_Element(rest[0], int(rest[1]), []))
        elif word == "property" and rest[-2] in _TYPES:
            count = _TYPES[rest[1]] if rest[0] == "list" else ""
            elements[-1].properties.append(_Property(rest[-1], _TYPES[rest[-2]], count))
        else:
            raise InputError(f"its header has a line that is no PLY ('{' '.join([word, *rest])}')")
    return lines[1][1], elements


def _columns(element: _Element, body: bytes, at: int, form: str) -> tuple[dict[str, Array], int]:
    """The properties of an element, of a list its sizes too, and where the next element starts."""
    order = ">" if form == "binary_big_endian" else "<"
    kind = (lambda _: "f8") if form == "ascii" else (lambda own: order + own)  # text was read as doubles
    runs: list[Array] = []
    done = 0
    while done < element.rows:
        runs.append(_alike(element, body, at, element.rows - done, kind))
        done += len(runs[-1])
        at += runs[-1].nbytes
    out = {}
    for i, p in enumerate(element.properties):
        if p.length and p.name not in _NODES:
            continue
        if p.length:
            out[f"{p.name} size"] = np.concatenate([r[f"n{i}"] for r in runs] or [np.empty(0)]).astype(int)
        out[p.name] = np.concatenate([r[f"v{i}"].ravel() for r in runs] or [np.empty(0)]).astype(p.type)
    return out, at


def _alike(element: _Element, body: bytes, at: int, most: int, kind: Callable[[str], str]) -> Array:
    """The rows from ``at`` on whose lists are as long as those of the first."""
    fields: list[tuple[Any, ...]] = []
    for i, p in enumerate(element.properties):
        if p.length:
            fields.append((f"n{i}", kind(p.length)))
            before = np.dtype(fields).itemsize
            if at + before > len(body):
                raise InputError("the file is shorter than its counts say")
            fields.append((f"v{i}", kind(p.type), (int(np.frombuffer(body, np.dtype(fields), 1, at)[f"n{i}"][0]),)))
        else:
            fields.append((f"v{i}", kind(p.type)))
    dtype = np.dtype(fields)
    lists = [name for name in dtype.names or () if name.startswith("n")]
    take = 1 if lists else most
    while True:  # double the guess until it is too long
        count = min(take, most, (len(body) - at) // dtype.itemsize)
        rows = np.frombuffer(body, dtype, count, at)
        same = np.all([rows[name] == rows[name][:1] for name in lists], axis=0) if lists else np.ones(count, bool)
        if count < take or take == most or not same.all():
            break
        take = min(2 * take, most)
    if count == 0 or not (lists or count == most):
        raise InputError("the file is shorter than its counts say")
    return rows if same.all() else rows[: int(same.argmin())]


def _vectors(columns: dict[str, Array]) -> dict[str, Array]:
    """Put ``u_0, u_1, ...`` together again and decode names."""
    groups: dict[str, list[str]] = {}
    for name in columns:
        stem, _, number = name.rpartition("_")
        begun = groups.get(stem, [])
        if number == "0" and stem not in columns:
            groups[stem] = [name]
        elif begun and begun[0] == f"{stem}_0" and number == str(len(begun)):
            begun.append(name)
        else:
            groups[name] = [name]
    out = {}
    for stem, names in groups.items():
        single = len(names) == 1
        out[unquote(names[0] if single else stem)] = (
            columns[names[0]] if single else np.stack([columns[n] for n in names], axis=1)
        )
    return out


def write_ply(path: Path, data: MeshData, binary: bool) -> None:
    """Write PLY, which holds polygons; those of three and four nodes come back as triangles and quads.

    Names are percent-encoded where they have spaces, vectors become scalars ``u_0, u_1, ...``, integers of 64 bits
    become int where they fit and double otherwise. Texts are left out with a warning.

    Raises:
        InputError: a cell is no polygon.
    """
    data.validate()
    others = data.cell_type[~torch.isin(data.cell_type, torch.tensor([5, 7, 9]))]
    if others.numel():
        raise InputError(f"PLY holds polygons only (got a {cell_name(int(others[0]))}); write VTU instead")
    left: list[str] = []
    points = dict(zip("xyz", to_numpy(data.points, "points").T, strict=True)) | _scalars(data.point_data, left)
    faces = _scalars(data.cell_data, left)
    warn_left_out("PLY", left)
    size = data.cell_size.numpy()
    counts = "uchar" if size.max(initial=0) < 256 else "int"
    head = ["ply", f"format {'binary_little_endian' if binary else 'ascii'} 1.0", f"element vertex {len(data.points)}"]
    head += [f"property {_NAMES[a.dtype.str[1:]]} {name}" for name, a in points.items()]
    head += [f"element face {len(size)}", f"property list {counts} int vertex_indices"]
    head += [f"property {_NAMES[a.dtype.str[1:]]} {name}" for name, a in faces.items()]
    with path.open("wb") as file:
        file.write("\n".join([*head, "end_header", ""]).encode())
        _dump(file, [*points.values()], binary)
        cuts = np.flatnonzero(np.diff(size)) + 1  # a run of faces of one size at a time
        starts = np.concatenate([[0], size.cumsum()])
        for first, last in pairwise(sorted({0, *cuts.tolist(), len(size)})):
            nodes = data.cell_index[starts[first] : starts[last]].reshape(last - first, -1).numpy().astype("i4")
            count = size[first:last].astype(_TYPES[counts])
            _dump(file, [count, *nodes.T, *(a[first:last] for a in faces.values())], binary)


def _scalars(arrays: Arrays, left: list[str]) -> dict[str, Array]:
    """Columns of types that PLY has, by encoded name; names of arrays that it cannot hold are added to ``left``."""
    out: dict[str, Array] = {}
    for name, array in arrays.items():
        values = to_numpy(array, name)
        if values.dtype.kind not in "iuf":
            left.append(name)
            continue
        if values.dtype.itemsize == 8 and values.dtype.kind in "iu":
            short = np.dtype(values.dtype.str[:2] + "4")
            values = values.astype(short if (values == values.astype(short)).all() else "f8")
        columns = [values] if values.ndim == 1 else [*values.T]
        names = [quote(name)] if len(columns) == 1 else [f"{quote(name)}_{i}" for i in range(len(columns))]
        out |= dict(zip(names, columns, strict=True))
    return out


def _dump(file: BinaryIO, columns: list[Array], binary: bool) -> None:
    rows = np.rec.fromarrays(columns)
    if binary:
        file.write(rows.tobytes())
    else:
        np.savetxt(file, rows, fmt=["%.17g" if c.dtype.kind == "f" else "%d" for c in columns])
