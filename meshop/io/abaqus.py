"""Abaqus input files: nodes, elements, and their sets.

meshio knows few of Abaqus's element types and puts element sets onto other blocks than theirs; hence our own reader.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from meshop.data import InputError, MeshData
from meshop.geometry import cell_name
from meshop.io.assemble import assemble, positions, to_numpy, warn_left_out, with_dim
from meshop.io.parts import add_masks, joined, masks_of

Array = NDArray[Any]

_SOLIDS = {4: 10, 5: 14, 6: 13, 8: 12, 10: 24, 15: 26, 20: 25}
_SURFACES = {3: 5, 4: 9, 6: 22, 8: 23, 9: 28}
_LINES = {2: 3, 3: 21}
# names of element types, whose group is the number of nodes, and VTK codes by it
_TYPES: list[tuple[str, dict[int, int]]] = [
    (r"(?:C3D|DC3D|DCC3D|AC3D|EC3D|Q3D|COH3D|SC|CSS|CCL)(\d+)", _SOLIDS),
    (r"STRI(?:(3)|(6)5)", _SURFACES),
    (r"(?:CPS|CPE|CPEG|CAX|CGAX|DC2D|DCC2D|DCAX|DCCAX|AC2D|ACAX|COH2D|M3D|R3D|S|SFM3D|DS|SF)(\d)", _SURFACES),
    (r"(?:T2D|T3D|DC1D|AC1D|R2D|RAX|MAX|SFMAX|SAX|DSAX)(\d)", _LINES),
    (r"(?:B|PIPE|ELBOW)[23]()[13]", _LINES),
    (r"(?:B|PIPE|ELBOW)[23]([2])", _LINES),
    (r"(?:FRAME[23]D|SPRING[A2]|DASHPOT[A2]|CONN[23]D2|GAPUNI)()", _LINES),
    (r"(?:MASS|ROTARYI|HEATCAP|SPRING1|DASHPOT1)()", {}),
]
_ORDER = {21: [0, 2, 1]}  # the middle node of a line is Abaqus's second and VTK's third
_WRITTEN = {
    1: "MASS", 3: "T3D2", 21: "T3D3", 5: "S3", 9: "S4", 22: "STRI65", 23: "S8R", 28: "S9R5",
    10: "C3D4", 14: "C3D5", 13: "C3D6", 12: "C3D8", 24: "C3D10", 26: "C3D15", 25: "C3D20",
}  # fmt: skip
ABAQUS_CELLS = frozenset(_WRITTEN)


class _Block(NamedTuple):
    """Elements of one type that follow each other."""

    code: int
    tags: Array  # [n]
    nodes: Array  # [n, k], node tags in VTK's order


@dataclass
class _Part:
    """Nodes and elements with numbers of their own."""

    tags: list[int] = field(default_factory=list)
    points: list[list[float]] = field(default_factory=list)
    blocks: list[_Block] = field(default_factory=list)
    sets: dict[tuple[str, str], list[int | str | range]] = field(
        default_factory=dict
    )  # (NSET or ELSET, name) -> members


def read_inp(path: Path, dim: int) -> MeshData:
    """Read an Abaqus input file: nodes and elements in file order, node sets and element sets as masks.

    Names of sets are in the file's letters, which Abaqus itself does not tell from capitals. The instances of an
    assembly stand where it puts them, one after another, as blocks; sets of the assembly go before those of its parts.
    """
    parts: dict[str, _Part] = {"": _Part()}
    part = parts[""]
    instances: list[tuple[str, str, list[list[float]]]] = []
    assembly: list[tuple[str, str, str, list[int | str | range]]] = []  # kind, name, instance, members
    inside = ""
    for keyword, options, rows in _keywords(path):
        if keyword == "PART":
            part = parts.setdefault(options.get("NAME", "").upper(), _Part())
        elif keyword == "ENDPART":
            part = parts[""]
        elif keyword == "INSTANCE":
            inside = options.get("NAME", "")
            instances.append((inside, options.get("PART", "").upper(), [_floats(row) for row in rows]))
            part = parts.setdefault(f"*{inside}", _Part())
        elif keyword == "ENDINSTANCE":
            part, inside = parts[""], ""
        elif keyword == "NODE":
            _nodes(part, options, rows)
        elif keyword == "ELEMENT":
            _elements(part, options, rows)
        elif keyword in ("NSET", "ELSET"):
            name, instance = options.get(keyword, ""), options.get("INSTANCE", "")
            members = _members(options, rows)
            if instance and not inside:
                assembly.append((keyword, name, instance, members))
            else:
                part.sets.setdefault((keyword, name), []).extend(members)
    if not instances:
        filled = {name: one for name, one in parts.items() if one.tags}
        return with_dim(joined([_mesh(one) for one in filled.values()], list(filled)), dim)
    meshes = []
    for name, of, placement in instances:
        one = parts[f"*{name}"] if parts[f"*{name}"].tags else parts.get(of, _Part())
        own = _Part(one.tags, one.points, one.blocks, dict(one.sets))
        for kind, key, instance, members in assembly:
            if instance.upper() == name.upper():
                own.sets[kind, key] = members
        mesh = _mesh(own)
        mesh.points = torch.from_numpy(_placed(mesh.points.numpy(), placement))
        mesh.pos = mesh.points.float()
        meshes.append(mesh)
    return with_dim(joined(meshes, [name for name, _, _ in instances]), dim)


def _keywords(path: Path, depth: int = 0) -> Iterator[tuple[str, dict[str, str], list[str]]]:
    """Each keyword, its options and the lines below it; of files that it includes, too."""
    if not path.is_file() or depth > 20:
        raise InputError(f"it includes '{path}', and there is no such file")
    keyword = ""
    options: dict[str, str] = {}
    rows: list[str] = []
    lines = iter(path.read_text(errors="replace").splitlines())
    for raw in lines:
        line = raw.strip()
        if not line or line.startswith("**"):
            continue
        if not line.startswith("*"):
            rows.append(line)
            continue
        if keyword:
            yield keyword, options, rows
        while line.endswith(",") and (more := next(lines, None)) is not None:
            line += more.strip()
        name, *pairs = line[1:].split(",")
        keyword, rows = re.sub(r"\s", "", name).upper(), []
        options = {key.strip().upper(): value.strip().strip('"') for key, _, value in (p.partition("=") for p in pairs)}
        if keyword == "INCLUDE":
            yield from _keywords(path.parent / options.get("INPUT", ""), depth + 1)
            keyword = ""
    if keyword:
        yield keyword, options, rows
    elif depth == 0 and rows:
        raise InputError("it has no keyword of Abaqus, such as *NODE")


def _floats(row: str) -> list[float]:
    return [float(word.upper().replace("D", "E")) for word in row.split(",") if word.strip()]


def _nodes(part: _Part, options: dict[str, str], rows: list[str]) -> None:
    if options.get("SYSTEM", "R").upper() != "R":
        raise InputError("its nodes are in cylindrical or spherical coordinates; export rectangular ones")
    tags = []
    for row in rows:
        number, *place = _floats(row)
        tags.append(int(number))
        part.points.append([*place, 0.0, 0.0, 0.0][:3])
    part.tags += tags
    if "NSET" in options:
        part.sets.setdefault(("NSET", options["NSET"]), []).extend(tags)


def _elements(part: _Part, options: dict[str, str], rows: list[str]) -> None:
    code, count = _type(options.get("TYPE", "").upper())
    numbers = np.array([int(word) for row in rows for word in row.split(",") if word.strip()], dtype=int)
    if len(numbers) % (count + 1):
        raise InputError(f"an element of type {options['TYPE']} has not {count} nodes")
    table = numbers.reshape(-1, count + 1)
    order = _ORDER.get(code, list(range(count)))
    part.blocks.append(_Block(code, table[:, 0], table[:, 1:][:, order]))
    if "ELSET" in options:
        part.sets.setdefault(("ELSET", options["ELSET"]), []).extend(table[:, 0].tolist())


def _type(name: str) -> tuple[int, int]:
    """VTK code and number of nodes of an element type."""
    for pattern, codes in _TYPES:
        if found := re.match(pattern, name):
            number = next((group for group in found.groups() if group), "")
            if not codes:
                return 1, 1
            count = int(number) if number else 2
            if codes is _LINES and pattern.endswith("([2])"):
                count = 3
            if count in codes:
                return codes[count], count
    raise InputError(f"element type '{name}' is not supported; export elements of order 1 or 2")


def _members(options: dict[str, str], rows: list[str]) -> list[int | str | range]:
    """Numbers, runs of numbers, and names of other sets."""
    words = [[word.strip() for word in row.split(",") if word.strip()] for row in rows]
    if "GENERATE" in options:
        ranges = [[int(word) for word in row] for row in words]
        return [range(first, last + 1, *(step or [1])) for first, last, *step in ranges]
    return [int(word) if word.lstrip("-").isdecimal() else word.strip('"') for row in words for word in row]


def _mesh(part: _Part) -> MeshData:
    tags = np.array(part.tags, dtype=int)
    nodes = np.concatenate([np.empty(0, int), *(block.nodes.ravel() for block in part.blocks)])
    elements = np.concatenate([np.empty(0, int), *(block.tags for block in part.blocks)])
    count = [len(block.tags) for block in part.blocks]
    mesh = assemble(
        np.array(part.points).reshape(-1, 3),
        np.repeat([block.code for block in part.blocks], count),
        np.repeat([block.nodes.shape[1] for block in part.blocks], count),
        positions(tags, nodes, "nodes"),
    )
    for kind, all_tags, arrays in (("NSET", tags, mesh.point_data), ("ELSET", elements, mesh.cell_data)):
        masks = {}
        for own, name in part.sets:
            if own == kind:
                mask = np.zeros(len(all_tags), dtype=bool)
                members = _resolved(part, kind, name, ())
                mask[positions(all_tags, np.array(sorted(members), dtype=int), "members of sets")] = True
                masks[name] = mask
        add_masks(arrays, masks)
    return mesh


def _resolved(part: _Part, kind: str, name: str, above: tuple[str, ...]) -> set[int]:
    """The numbers of a set and of the sets that it names."""
    found = [members for (own, key), members in part.sets.items() if own == kind and key.upper() == name.upper()]
    if not found and kind == "NSET":  # an element set stands for its nodes
        elements = np.array(sorted(_resolved(part, "ELSET", name, above)), dtype=int)
        return {int(n) for b in part.blocks for n in b.nodes[np.isin(b.tags, elements)].ravel()}
    if not found or name.upper() in above:
        raise InputError(f"it refers to the set '{name}' that it does not hold")
    most = len(part.tags) if kind == "NSET" else sum(len(block.tags) for block in part.blocks)
    out: set[int] = set()
    for member in (member for members in found for member in members):
        if isinstance(member, range) and len(member) > most:
            raise InputError(f"the set '{name}' has more members than there are")
        if isinstance(member, str):
            out |= _resolved(part, kind, member, (*above, name.upper()))
        else:
            out |= {member} if isinstance(member, int) else {*member}
    return out


def _placed(points: Array, placement: list[list[float]]) -> Array:
    """Points moved by a line of three numbers, then turned by one of two points on an axis and an angle in degrees."""
    for row in placement:
        if len(row) == 7:
            start, end, angle = np.array(row[:3]), np.array(row[3:6]), math.radians(row[6])
            axis = (end - start) / np.linalg.norm(end - start)
            away = points - start
            along = np.outer(away @ axis, axis)
            turned = np.cross(axis, away) * math.sin(angle) + (away - along) * math.cos(angle) + along
            points = start + turned
        else:
            points = points + np.array([*row, 0.0, 0.0, 0.0][:3])
    return points


def write_inp(path: Path, data: MeshData, binary: bool) -> None:
    """Write an Abaqus input file, which is text: masks become node sets and element sets, fields are left out.

    Surface elements are written as shells and lines as trusses; change the types to those of the analysis.

    Raises:
        InputError: Abaqus has no such cell.
    """
    data.validate()
    for code in data.cell_type.unique().tolist():
        if code not in _WRITTEN:
            raise InputError(f"Abaqus has no {cell_name(code)}; write VTU instead")
    sets = {"NSET": masks_of(data.point_data), "ELSET": masks_of(data.cell_data)}
    odd = [n for masks in sets.values() for n in masks if re.search(r"[,=*\n\"]", n) or n != n.strip() or n.isdecimal()]
    for masks in sets.values():
        for name in odd:
            masks.pop(name, None)
    written = {"NSET": data.point_data, "ELSET": data.cell_data}
    warn_left_out("Abaqus", [name for kind, arrays in written.items() for name in arrays if name not in sets[kind]])
    kinds, counts = data.cell_type.unique_consecutive(return_counts=True)
    points = to_numpy(data.points, "points")
    first = at = 0
    with path.open("w") as file:
        file.write("*HEADING\nmeshop\n*NODE\n")
        np.savetxt(file, np.column_stack([np.arange(1, len(points) + 1), points]), fmt="%d, %.17g, %.17g, %.17g")
        for code, count in zip(kinds.tolist(), counts.tolist(), strict=True):
            size = int(data.cell_size[first])
            nodes = data.cell_index[at : at + size * count].reshape(count, size).numpy() + 1
            nodes = nodes[:, np.argsort(_ORDER[code])] if code in _ORDER else nodes
            file.write(f"*ELEMENT, TYPE={_WRITTEN[code]}\n")
            for number, row in enumerate(nodes.tolist(), start=first + 1):
                file.write(_lines([number, *row]))
            first, at = first + count, at + size * count
        for kind, masks in sets.items():
            for name, mask in masks.items():
                members = (mask.nonzero().squeeze(1) + 1).tolist()
                file.write(f'*{kind}, {kind}="{name}"\n' if " " in name else f"*{kind}, {kind}={name}\n")
                file.writelines(_lines(members[i : i + 8]) for i in range(0, len(members), 8))


def _lines(numbers: list[int]) -> str:
    """Numbers in lines of at most sixteen, each but the last of which ends in a comma."""
    rows = [", ".join(map(str, numbers[i : i + 15])) for i in range(0, len(numbers), 15)]
    return ",\n".join(rows) + "\n"
