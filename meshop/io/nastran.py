"""Nastran bulk data: grid points and elements, in small, large and free fields.

meshio drops elements in large fields without a word and needs lines that parts of a deck lack; hence our own reader.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from meshop.data import InputError, MeshData
from meshop.geometry import cell_name
from meshop.io.assemble import assemble, positions, to_numpy, warn_left_out

PROPERTY = "property"
_IN_ORDER = range(20)
# element: where its nodes start among the fields, and VTK codes by number of nodes
_ELEMENTS: dict[str, tuple[int, dict[int, int]]] = {
    **dict.fromkeys(("CROD", "CTUBE", "CBAR", "CBEAM", "CBEND", "CBUSH", "CBUSH1D", "CVISC", "CGAP"), (2, {2: 3})),
    "CONROD": (1, {2: 3}),
    "PLOTEL": (1, {2: 3}),
    **dict.fromkeys(("CTRIA3", "CTRIAR"), (2, {3: 5})),
    "CTRIA6": (2, {6: 22}),
    "CTRIAX6": (2, {6: 22}),
    **dict.fromkeys(("CQUAD4", "CQUADR", "CSHEAR"), (2, {4: 9})),
    "CQUAD8": (2, {8: 23}),
    "CTETRA": (2, {4: 10, 10: 24}),
    **dict.fromkeys(("CPYRAM", "CPYRA"), (2, {5: 14, 13: 27})),
    "CPENTA": (2, {6: 13, 15: 26}),
    "CHEXA": (2, {8: 12, 20: 25}),
}
# Nastran's nodes at the places of VTK's
_ORDER = {
    25: [*range(12), *range(16, 20), *range(12, 16)],
    26: [*range(9), *range(12, 15), *range(9, 12)],
}
_NAMES = {
    3: "CROD", 5: "CTRIA3", 22: "CTRIA6", 9: "CQUAD4", 23: "CQUAD8", 10: "CTETRA", 24: "CTETRA", 14: "CPYRAM",
    27: "CPYRAM", 13: "CPENTA", 26: "CPENTA", 12: "CHEXA", 25: "CHEXA",
}  # fmt: skip
NASTRAN_CELLS = frozenset(_NAMES)
_SHAPELESS = re.compile(
    r"C(ORD|ELAS|MASS|ONM|DAMP|SUPER|SUPEXT|SET|REEP|ONV|HBDY|FAST|WELD|SEAM|MARKER|LOAD|YJOIN|YSUP)"
)


def read_bdf(path: Path, dim: int) -> MeshData:
    """Read Nastran bulk data, with or without the sections before it: grid points and elements in file order.

    The numbers of their properties are the cell data ``property``. Masses, springs, rigid elements, loads and
    properties themselves are left out; a warning names elements that are.
    """
    tags: list[int] = []
    points: list[list[float]] = []
    codes: list[int] = []
    nodes: list[list[int]] = []
    owners: list[int] = []
    left: dict[str, None] = {}
    for name, fields in _cards(path, 0):
        if name == "GRID":
            number, system, *place = [*fields, "", "", "", "", ""][:5]
            if system not in ("", "0"):
                raise InputError(
                    f"grid point {number} is in coordinate system {system}; export the mesh in the basic system"
                )
            tags.append(int(number))
            points.append([_real(word) for word in place])
        elif name in ("CBUSH", "CBUSH1D", "CGAP") and "" in [*fields, "", "", "", ""][2:4]:  # to the ground
            left[name] = None
        elif name in _ELEMENTS:
            start, kinds = _ELEMENTS[name]
            code, own = _element(name, fields, start, kinds)
            codes.append(code)
            nodes.append(own)
            owners.append(int(fields[1] or 0) if start == 2 and len(fields) > 1 else 0)
        elif re.match(r"C[A-Z]", name) and name not in ("CEND",):
            left[name] = None
            if not _SHAPELESS.match(name):
                raise InputError(f"element {name} is not supported; convert or delete such elements")
    left = {name: None for name in left if not name.startswith("CORD")}
    if left:
        warnings.warn(
            f"'{path}' holds elements {', '.join(left)}, which have no shape: they are left out", stacklevel=5
        )
    if not tags:
        raise InputError("it holds no grid points (GRID)")
    return assemble(
        np.array(points),
        codes,
        [len(own) for own in nodes],
        positions(np.array(tags), np.array([n for own in nodes for n in own], dtype=int), "grid points"),
        cell_data={PROPERTY: np.array(owners)} if any(owners) else {},
        dim=dim,
    )


def _element(name: str, fields: list[str], start: int, kinds: dict[int, int]) -> tuple[int, list[int]]:
    """VTK code and nodes of an element."""
    words = [*fields[start : start + max(kinds)], *[""] * max(kinds)][: max(kinds)]
    count = max(kinds) if any(words[min(kinds) :]) else min(kinds)
    own = words[:count]
    if "" in own:
        raise InputError(f"{name} {fields[0]} lacks some of its {count} nodes")
    numbers = [int(word) for word in own]
    if name == "CTRIAX6":
        return 22, [numbers[i] for i in (0, 2, 4, 1, 3, 5)]
    code = kinds[count]
    return code, [numbers[i] for i in _ORDER.get(code, range(count))]


def _cards(path: Path, depth: int) -> Iterator[tuple[str, list[str]]]:
    """The name and fields of each card of the bulk data; of files that it includes, too."""
    if not path.is_file() or depth > 20:
        raise InputError(f"it includes '{path}', and there is no such file")
    lines = path.read_text(errors="replace").splitlines()
    begin = [i for i, line in enumerate(lines) if re.match(r"\s*BEGIN\s+BULK", line, re.IGNORECASE)]
    name, fields = "", []
    for raw in lines[begin[-1] + 1 if begin else 0 :]:
        line = raw.partition("$")[0].rstrip()
        if not line.strip():
            continue
        if line.strip().upper().startswith("ENDDATA"):
            break
        if line.strip().upper().startswith("INCLUDE"):
            inner = line.strip()[7:].strip().strip("'\"")
            yield from _cards(path.parent / inner, depth + 1)
            continue
        first, rest = _fields(line)
        if first[:1] in ("", "+", "*"):
            fields += rest
        else:
            if name:
                yield name, fields
            name, fields = first.upper().rstrip("*"), rest
    if name:
        yield name, fields


def _fields(line: str) -> tuple[str, list[str]]:
    """The first field of a line and those that hold data: eight, or four of a large one."""
    if "," in line:
        first, *rest = [word.strip() for word in line.split(",")]
        width = 4 if first.endswith("*") or first.startswith("*") else 8
        return first, (rest + [""] * width)[:width]
    line = line.expandtabs(8)
    first = line[:8].strip()
    size, width = (16, 4) if "*" in first else (8, 8)
    return first, [line[8 + size * i : 8 + size * (i + 1)].strip() for i in range(width)]


def _real(word: str) -> float:
    """A number of Nastran, whose exponent may stand without an E: ``1.5-3``."""
    if not word:
        return 0.0
    return float(
        re.sub(r"(?<=[\d.])([+-])", r"e\1", word.upper().replace("D", "E").replace("E+", "+").replace("E-", "-"))
    )


def write_bdf(path: Path, data: MeshData, binary: bool) -> None:
    """Write Nastran bulk data, which is text with some twelve digits of coordinates; fields are left out.

    Integer cell data ``property`` become the numbers of properties; else all elements have the property 1, which the
    deck must define.

    Raises:
        InputError: Nastran has no such cell.
    """
    data.validate()
    for code in data.cell_type.unique().tolist():
        if code not in _NAMES:
            raise InputError(f"Nastran has no {cell_name(code)}; write VTU instead")
    owners: Any = data.cell_data.get(PROPERTY)
    fits = owners is not None and not owners.is_floating_point() and owners.dim() == 1
    warn_left_out("Nastran", [*data.point_data, *(n for n in data.cell_data if n != PROPERTY or not fits)])
    numbers = owners.long().tolist() if fits else [1] * data.num_cells
    if data.num_points >= 10**8 or data.num_cells >= 10**8 or any(not 0 <= n < 10**8 for n in numbers):
        raise InputError("Nastran holds numbers of up to 8 digits; write VTU instead")
    with path.open("w") as file:
        file.write("BEGIN BULK\n")
        for i, place in enumerate(to_numpy(data.points, "points").tolist(), start=1):
            x, y, z = map(_sixteen, place)
            file.write(f"{'GRID*':<8}{i:<16}{'':<16}{x:<16}{y:<16}*\n{'*':<8}{z:<16}\n")
        cells = data.cell_index.split(data.cell_size.tolist())
        for i, (code, nodes) in enumerate(zip(data.cell_type.tolist(), cells, strict=True)):
            order = np.argsort(_ORDER[code]) if code in _ORDER else _IN_ORDER[: len(nodes)]
            words = [i + 1, numbers[i], *(int(nodes[j]) + 1 for j in order)]
            rows = [words[j : j + 8] for j in range(0, len(words), 8)]
            for row, start in zip(rows, [_NAMES[code], *["+"] * len(rows)], strict=False):
                more = "+" if row is not rows[-1] else ""
                file.write(f"{start:<8}{''.join(f'{word:<8}' for word in row)}{more}".rstrip() + "\n")
        file.write("ENDDATA\n")


def _sixteen(value: float) -> str:
    """A number with as many digits as sixteen characters hold."""
    for digits in range(17, 0, -1):
        text = f"{value:.{digits}g}".replace("e-0", "e-").replace("e+0", "e+")
        if "." not in text and "n" not in text:
            text = text.replace("e", ".e") if "e" in text else f"{text}."
        if len(text) <= 16:
            return text
    return text
