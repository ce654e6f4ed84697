"""Gmsh's MSH files, versions 2.2 and 4.1, text and binary (https://gmsh.info/doc/texinfo/gmsh.html#Gmsh-file-formats).

meshio reads neither node and element tags with gaps, nor cell data of a mesh with several cell types, nor a file whose
counts are wrong; hence a reader of our own.
"""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from meshop.data import InputError, MeshData
from meshop.geometry import cell_dim, cell_name
from meshop.io.assemble import assemble, positions, text_numbers, to_numpy, warn_left_out

Array = NDArray[Any]

# gmsh type: VTK type, nodes in gmsh's order at the places of VTK's order
_TYPES: dict[int, tuple[int, list[int]]] = {
    15: (1, [0]),
    1: (3, [*range(2)]),
    2: (5, [*range(3)]),
    3: (9, [*range(4)]),
    4: (10, [*range(4)]),
    5: (12, [*range(8)]),
    6: (13, [*range(6)]),
    7: (14, [*range(5)]),
    8: (21, [*range(3)]),
    9: (22, [*range(6)]),
    16: (23, [*range(8)]),
    11: (24, [*range(8), 9, 8]),
    17: (25, [*range(9), 11, 13, 9, 16, 18, 19, 17, 10, 12, 14, 15]),
    18: (26, [*range(7), 9, 7, 12, 14, 13, 8, 10, 11]),
    19: (27, [*range(6), 8, 10, 6, 7, 9, 11, 12]),
    10: (28, [*range(9)]),
    12: (29, [*range(9), 11, 13, 9, 16, 18, 19, 17, 10, 12, 14, 15, 22, 23, 21, 24, 20, 25, 26]),
    13: (32, [*range(7), 9, 7, 12, 14, 13, 8, 10, 11, 15, 17, 16]),
    26: (35, [*range(4)]),
}
_GMSH = {code: (gmsh, np.argsort(order)) for gmsh, (code, order) in _TYPES.items()}
GMSH_CELLS = frozenset(_GMSH)
_PHYSICAL, _ENTITY = "gmsh:physical", "gmsh:geometrical"


class _Block(NamedTuple):
    """Elements of one type that follow each other."""

    kind: int
    tags: Array  # [n]
    nodes: Array  # [n, k], node tags
    physical: Array  # [n]
    entity: Array  # [n]


class _Field(NamedTuple):
    """Values of some nodes or elements at one step."""

    name: str
    step: int
    tags: Array  # [n]
    values: Array  # [n, components]


def read_msh(path: Path, dim: int) -> MeshData:
    """Read MSH 2.2 or 4.1.

    Nodes and elements stay in file order, whether used or not. Where elements belong to physical groups, cell data
    ``gmsh:physical`` and ``gmsh:geometrical`` hold their tags (of several groups the first) and field data hold
    [tag, dimension] under the name of each group. Nodes and elements for which a field has no value get NaN; of a field
    given at several steps each step is a field, ``name step``.
    """
    cursor = _Cursor(path.read_bytes())
    if cursor.line() != "$MeshFormat":
        raise InputError("it does not start with $MeshFormat, so it is no MSH file of version 2 or 4")
    version = cursor.start()
    if version not in ("2.2", "4.1"):
        raise InputError(f"MSH version {version} is not supported; save it from gmsh as 4.1 or 2.2")
    names: dict[str, Array] = {}
    points, point_tags = np.empty((0, 3)), np.empty(0, int)
    physical: dict[tuple[int, int], int] = {}
    blocks: list[_Block] = []
    fields: dict[str, list[_Field]] = {"NodeData": [], "ElementData": []}
    found = set()
    while (line := cursor.line()) is not None:
        section = line[1:]
        found.add(section)
        if section == "PhysicalNames":
            names = _physical_names(cursor)
        elif section == "Entities":
            physical = _entities(cursor)
        elif section == "Nodes":
            points, point_tags = _nodes_2(cursor) if version == "2.2" else _nodes_4(cursor)
        elif section == "Elements":
            blocks = _elements_2(cursor) if version == "2.2" else _elements_4(cursor, physical)
        elif section in fields:
            fields[section].append(_field(cursor))
        else:
            cursor.skip(f"$End{section}")
        cursor.finish(section)
    if missing := {"Nodes", "Elements"} - found:
        raise InputError(f"it has no section {min(missing)}")
    size = [len(_TYPES[b.kind][1]) for b in blocks]
    tags = np.concatenate([b.tags for b in blocks] or [np.empty(0, int)])
    nodes = np.concatenate([b.nodes[:, _TYPES[b.kind][1]].ravel() for b in blocks] or [np.empty(0, int)])
    groups = {
        _PHYSICAL: np.concatenate([b.physical for b in blocks] or [np.empty(0, int)]),
        _ENTITY: np.concatenate([b.entity for b in blocks] or [np.empty(0, int)]),
    }
    count = [len(b.tags) for b in blocks]
    return assemble(
        points,
        np.repeat([_TYPES[b.kind][0] for b in blocks], count),
        np.repeat(size, count),
        positions(point_tags, nodes, "nodes"),
        point_data=_spread(fields["NodeData"], point_tags, "nodes"),
        cell_data=(groups if groups[_PHYSICAL].any() else {}) | _spread(fields["ElementData"], tags, "elements"),
        field_data=names,
        dim=dim,
    )


class _Cursor:
    """Reads lines, and numbers in text or binary, from front to back; never more of them than the file holds."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0
        self.text = True
        self.order = "<"
        self.numbers: Array = np.empty(0)  # of the section, where it is text
        self.used = 0

    def line(self) -> str | None:
        """The next line that is not blank; ``None`` at the end of the file."""
        while self.at < len(self.content):
            end = self.content.find(b"\n", self.at)
            end = len(self.content) if end < 0 else end
            line = self.content[self.at : end].decode(errors="replace").strip()
            self.at = end + 1
            if line:
                return line
        return None

    def start(self) -> str:
        """Read the section MeshFormat: version, text or binary, byte order."""
        version, binary, size = [*(self.line() or "").split(), "", "", ""][:3]
        if binary not in ("0", "1") or size != "8":
            raise InputError(f"expected a version, 0 or 1, and 8 after $MeshFormat (got '{version} {binary} {size}')")
        if binary == "1":
            self.order = "<" if self.content[self.at : self.at + 4] == b"\1\0\0\0" else ">"
            self.at += 4
        self.finish("MeshFormat")
        self.text = binary == "0"
        return version

    def count(self) -> int:
        """A line that holds the number of things that follow."""
        return self.fits(self.number())

    def fits(self, count: int) -> int:
        """The number of things, each of a byte or more, that are to follow."""
        if not 0 <= count <= len(self.content) - self.at:
            raise InputError("the file is shorter than its counts say")
        return count

    def number(self) -> int:
        """A line that holds one integer."""
        line = self.line() or ""
        try:
            return int(line)
        except ValueError:
            raise InputError(f"expected a number (got '{line[:40]}')") from None

    def rows(self, count: int, kinds: str) -> Array:
        """Rows of numbers [count, len(kinds)]: i an int, u a size, d a double."""
        if not self.text:
            dtype = _dtype(kinds, self.order)
            if not 0 <= count * dtype.itemsize <= len(self.content) - self.at:
                raise InputError("the file is shorter than its counts say")
            out = np.frombuffer(self.content, dtype, count, self.at)
            self.at += count * dtype.itemsize
            return np.stack([out[name].astype(float) for name in dtype.names or ()], axis=1)
        if self.used == len(self.numbers):
            self._parse()
        size = count * len(kinds)
        if not 0 <= size <= len(self.numbers) - self.used:
            raise InputError("the file is shorter than its counts say")
        self.used += size
        return self.numbers[self.used - size : self.used].reshape(count, len(kinds))

    def rest(self) -> Array:
        """All numbers left in the section, in text."""
        self._parse()
        self.used = len(self.numbers)
        return self.numbers

    def _parse(self) -> None:
        end = self.content.find(b"$", self.at)
        end = len(self.content) if end < 0 else end
        self.numbers, self.used = text_numbers(self.content[self.at : end]), 0
        self.at = end

    def skip(self, end: str) -> None:
        found = self.content.find(end.encode(), self.at)
        self.at = len(self.content) if found < 0 else found

    def finish(self, section: str) -> None:
        if self.used != len(self.numbers) or self.line() != f"$End{section}":
            raise InputError(f"the section '{section}' does not end where its counts say")


def _physical_names(cursor: _Cursor) -> dict[str, Array]:
    names = {}
    for _ in range(cursor.count()):
        dimension, tag, name = shlex.split(cursor.line() or "")
        names[name] = np.array([int(tag), int(dimension)])
    return names


def _entities(cursor: _Cursor) -> dict[tuple[int, int], int]:
    """First physical tag of each (dimension, entity) that has one."""
    physical = {}
    for dimension, count in enumerate(cursor.rows(1, "uuuu")[0]):
        for _ in range(int(count)):
            entity = int(cursor.rows(1, "i")[0, 0])
            cursor.rows(1, "ddd" if dimension == 0 else "dddddd")
            groups = cursor.rows(int(cursor.rows(1, "u")[0, 0]), "i")
            if len(groups):
                physical[dimension, entity] = int(groups[0, 0])
            if dimension > 0:
                cursor.rows(int(cursor.rows(1, "u")[0, 0]), "i")
    return physical


def _nodes_2(cursor: _Cursor) -> tuple[Array, Array]:
    rows = cursor.rows(cursor.number(), "iddd")
    return rows[:, 1:], rows[:, 0].astype(int)


def _nodes_4(cursor: _Cursor) -> tuple[Array, Array]:
    blocks, total, _, _ = cursor.rows(1, "uuuu")[0].astype(int)
    points, tags = [np.empty((0, 3))], [np.empty(0, int)]
    for _ in range(blocks):
        dimension, _, parametric = cursor.rows(1, "iii")[0].astype(int)
        if dimension not in range(4) or parametric not in (0, 1):
            raise InputError(f"expected nodes of dimension 0 to 3, parametric 0 or 1 (got {dimension}, {parametric})")
        count = int(cursor.rows(1, "u")[0, 0])
        tags.append(cursor.rows(count, "u")[:, 0].astype(int))
        points.append(cursor.rows(count, "ddd" + "d" * (dimension * parametric))[:, :3])
    _expect(total, sum(map(len, tags)), "nodes")
    return np.concatenate(points), np.concatenate(tags)


def _elements_2(cursor: _Cursor) -> list[_Block]:
    total = cursor.number()
    blocks = []
    if cursor.text:
        numbers = cursor.rest().astype(int)
        at = 0
        while at < len(numbers):
            kind, groups = (*numbers[at + 1 : at + 3], 0, 0)[:2]
            width = 3 + groups + len(_type(kind))
            rows = _alike(numbers[at:], width)
            blocks.append(_block(kind, rows[:, 0], rows[:, 3 : 3 + groups], rows[:, 3 + groups :]))
            at += rows.size
    else:
        found = 0
        while found < total:
            kind, count, groups = cursor.rows(1, "iii")[0].astype(int)
            rows = cursor.rows(count, "i" * (1 + cursor.fits(groups) + len(_type(kind)))).astype(int)
            blocks.append(_block(kind, rows[:, 0], rows[:, 1 : 1 + groups], rows[:, 1 + groups :]))
            found += count
    _expect(total, sum(len(b.tags) for b in blocks), "elements")
    return blocks


def _alike(numbers: Array, width: int) -> Array:
    """The rows [n, width] from the front on that have the type and number of groups of the first."""
    take = 1
    while True:  # double the guess until it is too long
        rows = numbers[: min(take, len(numbers) // width) * width].reshape(-1, width)
        same = (rows[:, 1:3] == numbers[1:3]).all(axis=1)
        if len(rows) < take or not same.all():
            break
        take *= 2
    if len(rows) == 0:
        raise InputError("an element has fewer nodes than its type")
    return rows[: int(same.argmin())] if not same.all() else rows


def _block(kind: int, tags: Array, groups: Array, nodes: Array) -> _Block:
    zeros = np.zeros(len(tags), int)
    return _Block(kind, tags, nodes, *(groups[:, i] if groups.shape[1] > i else zeros for i in range(2)))


def _elements_4(cursor: _Cursor, physical: dict[tuple[int, int], int]) -> list[_Block]:
    count_blocks, total, _, _ = cursor.rows(1, "uuuu")[0].astype(int)
    blocks = []
    for _ in range(count_blocks):
        dimension, entity, kind = cursor.rows(1, "iii")[0].astype(int)
        count = int(cursor.rows(1, "u")[0, 0])
        rows = cursor.rows(count, "u" * (1 + len(_type(kind)))).astype(int)
        group = physical.get((dimension, entity), 0)
        blocks.append(_Block(kind, rows[:, 0], rows[:, 1:], np.full(count, group), np.full(count, entity)))
    _expect(total, sum(len(b.tags) for b in blocks), "elements")
    return blocks


def _field(cursor: _Cursor) -> _Field:
    name, *_ = [(cursor.line() or "").strip('"') for _ in range(cursor.count())]
    for _ in range(cursor.count()):
        cursor.line()
    step, components, count, *_ = [cursor.number() for _ in range(cursor.count())]
    if not 1 <= components <= 9:
        raise InputError(f"expected a field of 1, 3 or 9 components (got {components})")
    rows = cursor.rows(count, "i" + "d" * components)
    return _Field(name, step, rows[:, 0].astype(int), rows[:, 1:])


def _spread(fields: list[_Field], tags: Array, what: str) -> dict[str, Array]:
    """Fields over all nodes or elements, NaN where they have no value."""
    often = Counter(f.name for f in fields)
    out = {}
    for field in fields:
        values = np.full((len(tags), field.values.shape[1]), np.nan)
        values[positions(tags, field.tags, what)] = field.values
        name = field.name if often[field.name] == 1 else f"{field.name} {field.step}"
        out[name] = values[:, 0] if values.shape[1] == 1 else values
    return out


def _type(kind: int) -> list[int]:
    if kind not in _TYPES:
        raise InputError(f"gmsh element type {kind} is not supported; save the mesh with order 1 or 2")
    return _TYPES[kind][1]


def _expect(declared: int, found: int, what: str) -> None:
    if declared != found:
        raise InputError(f"it declares {declared} {what} but holds {found}")


class _Run(NamedTuple):
    """Cells that follow each other and agree in type and tags."""

    dim: int
    entity: int
    physical: int
    kind: int
    first: int  # number of the first cell
    nodes: Array  # [n, k], node numbers in gmsh's order


def write_msh_4(path: Path, data: MeshData, binary: bool) -> None:
    """Write MSH 4.1; see :func:`write_msh_2` for what it carries.

    An entity of MSH 4.1 has one set of physical groups: the elements of one ``gmsh:geometrical`` tag that differ in
    ``gmsh:physical`` become several entities.
    """
    runs, fields = _runs(data), _carried(data)
    points = to_numpy(data.points, "points").astype(float)
    entities: dict[tuple[int, int], tuple[int, int, int]] = {}  # (dimension, tag) -> (dimension, entity, physical)
    for key in dict.fromkeys((r.dim, r.entity, r.physical) for r in runs) or [(0, 1, 0)]:
        tag = key[1]
        while (key[0], tag) in entities:
            tag += 1
        entities[key[0], tag] = key
    tags = {key: tag for (_, tag), key in entities.items()}
    with path.open("wb") as file:
        out = _Out(file, binary)
        out.start("4.1", data, runs)
        out.line("$Entities")
        out.rows("uuuu", [[sum(dim == d for dim, _ in entities) for d in range(4)]])
        for (dim, tag), key in sorted(entities.items()):
            own = [r.nodes.ravel() for r in runs if (r.dim, r.entity, r.physical) == key]
            x = points[np.concatenate(own)] if own else points
            box = [*x.min(0)] if dim == 0 else [*x.min(0), *x.max(0)]
            groups = [key[2]] if key[2] else []
            row = [tag, *box, len(groups), *groups] + ([0] if dim else [])
            out.rows("i" + "d" * len(box) + "u" + "i" * len(groups) + "u" * (dim > 0), [row])
        out.line("$EndEntities")
        count = len(points)
        dim, tag = max(entities)
        out.line("$Nodes")
        out.rows("uuuu", [[1, count, 1, count]])
        out.rows("iiiu", [[dim, tag, 0, count]])
        out.rows("u", np.arange(1, count + 1)[:, None])
        out.rows("ddd", points)
        out.line("$EndNodes")
        out.line("$Elements")
        out.rows("uuuu", [[len(runs), data.num_cells, 1, data.num_cells]])
        for run in runs:
            out.rows("iiiu", [[run.dim, tags[run.dim, run.entity, run.physical], run.kind, len(run.nodes)]])
            number = run.first + np.arange(1, len(run.nodes) + 1)
            out.rows("u" * (1 + run.nodes.shape[1]), np.column_stack([number, run.nodes + 1]))
        out.line("$EndElements")
        out.fields(fields)


def write_msh_2(path: Path, data: MeshData, binary: bool) -> None:
    """Write MSH 2.2.

    Values become float64. Vectors of two components get a third, zero one; gmsh's fields have 1, 3 or 9, others are
    left out with a warning, as are texts. Cell data ``gmsh:physical`` and ``gmsh:geometrical`` become the elements'
    tags, field data [tag, dimension] the names of physical groups.

    Raises:
        InputError: gmsh has no such cell.
    """
    runs, fields = _runs(data), _carried(data)
    points = to_numpy(data.points, "points").astype(float)
    with path.open("wb") as file:
        out = _Out(file, binary)
        out.start("2.2", data, runs)
        out.line(f"$Nodes\n{len(points)}")
        out.rows("iddd", np.column_stack([np.arange(1, len(points) + 1), points]))
        out.line("$EndNodes")
        out.line(f"$Elements\n{data.num_cells}")
        for run in runs:
            count = len(run.nodes)
            groups = np.tile([run.physical, run.entity], (count, 1))
            rows = np.column_stack([run.first + np.arange(1, count + 1), groups, run.nodes + 1])
            if binary:
                out.rows("iii", [[run.kind, count, 2]])
            else:
                rows = np.column_stack([rows[:, :1], np.tile([run.kind, 2], (count, 1)), rows[:, 1:]])
            out.rows("i" * rows.shape[1], rows)
        out.line("$EndElements")
        out.fields(fields)


class _Out:
    """Writes lines, and numbers in text or binary."""

    def __init__(self, file: BinaryIO, binary: bool) -> None:
        self.file = file
        self.binary = binary

    def line(self, text: str) -> None:
        self.file.write(text.encode() + b"\n")

    def rows(self, kinds: str, rows: ArrayLike) -> None:
        rows = np.asarray(rows, dtype=float).reshape(-1, len(kinds))
        if self.binary:
            self.file.write(np.rec.fromarrays(rows.T, _dtype(kinds, "<")).tobytes())
        else:
            np.savetxt(self.file, rows, fmt=["%.17g" if k == "d" else "%d" for k in kinds])

    def start(self, version: str, data: MeshData, runs: list[_Run]) -> None:
        self.line(f"$MeshFormat\n{version} {int(self.binary)} 8")
        if self.binary:
            self.rows("i", [[1]])
        self.line("$EndMeshFormat")
        used = {(run.physical, run.dim) for run in runs}
        names = [(n, tuple(a.tolist())) for n, a in data.field_data.items() if isinstance(a, Tensor) and a.dim() == 1]
        lines = [f'{group[1]} {group[0]} "{name}"' for name, group in names if group in used]
        if lines:
            self.line("\n".join(["$PhysicalNames", str(len(lines)), *lines, "$EndPhysicalNames"]))

    def fields(self, fields: list[tuple[str, str, Array]]) -> None:
        for section, name, values in fields:
            count, components = values.shape
            self.line(f'${section}\n1\n"{name}"\n1\n0.0\n3\n0\n{components}\n{count}')
            self.rows("i" + "d" * components, np.column_stack([np.arange(1, count + 1), values]))
            self.line(f"$End{section}")


def _runs(data: MeshData) -> list[_Run]:
    data.validate()
    dim = cell_dim(data.cell_type)
    tags = [data.cell_data[name].long() if name in data.cell_data else None for name in (_ENTITY, _PHYSICAL)]
    entity = torch.ones_like(dim) if tags[0] is None else tags[0]
    physical = torch.zeros_like(dim) if tags[1] is None else tags[1]
    keys = torch.stack([data.cell_type, dim, entity, physical], dim=1)
    distinct, count = keys.unique_consecutive(dim=0, return_counts=True)
    runs, first, at = [], 0, 0
    for (code, dimension, group, name), n in zip(distinct.tolist(), count.tolist(), strict=True):
        if code not in _GMSH:
            raise InputError(f"gmsh has no {cell_name(code)}; write VTU instead")
        kind, order = _GMSH[code]
        size = n * len(order)
        nodes = data.cell_index[at : at + size].reshape(n, -1).cpu().numpy()[:, order]
        runs.append(_Run(dimension, group, name, kind, first, nodes))
        first, at = first + n, at + size
    return runs


def _carried(data: MeshData) -> list[tuple[str, str, Array]]:
    """The (section, name, values) of the fields that gmsh can hold."""
    out, left = [], []
    for section, arrays in (("NodeData", data.point_data), ("ElementData", data.cell_data)):
        for name, array in arrays.items():
            if name in (_PHYSICAL, _ENTITY) and section == "ElementData":
                continue
            values = to_numpy(array, name)
            values = values[:, None] if values.ndim == 1 else values
            if values.shape[1] == 2:
                values = np.pad(values, ((0, 0), (0, 1)))
            if values.dtype.kind in "iuf" and values.shape[1] in (1, 3, 9) and not {'"', "\n"} & set(name):
                out.append((section, name, values))
            else:
                left.append(name)
    warn_left_out("gmsh", left)
    return out


def _dtype(kinds: str, order: str) -> np.dtype[Any]:
    return np.dtype([(f"f{i}", order + {"i": "i4", "u": "u8", "d": "f8"}[kind]) for i, kind in enumerate(kinds)])
