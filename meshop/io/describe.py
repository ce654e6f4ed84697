"""What is in a file: points, cells and fields of a mesh, or the arrays of any other file that a benchmark has."""

from __future__ import annotations

import hashlib
import os
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from meshop.data import InputError, MeshData, did_you_mean, in_plane_axes
from meshop.geometry import (
    cell_dim,
    cell_faults,
    cell_name,
    connected_parts,
    duplicate_points,
    orphan_points,
)
from meshop.io.arrays import reading, sha256
from meshop.io.files import natural_order
from meshop.io.formats import FORMATS, read_mesh, without_pieces
from meshop.io.frames import without_frames
from meshop.io.leaves import ARRAYS, entry, leaves
from meshop.io.openfoam import is_case
from meshop.io.parts import BLOCK, BLOCKS, TIME, masks_of
from meshop.io.series import SERIES_FORMATS, read_last

WIDTH = 120  # of lines of text
NAMES = 30  # of boundaries and blocks in text
NO_BREAK = "\N{NO-BREAK SPACE}"
FAR = 1e-5  # share of a mesh by which single precision may move its points, as in meshop.io.assemble


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What is in a file, as plain values that :func:`as_text` prints and JSON holds.

    Of a mesh that of :func:`describe_mesh`; of a file of several times, ``times`` too, and the mesh of the last. Of any
    other file that a benchmark has: its size in ``bytes``, its ``sha256``, and ``arrays`` by their names in the file,
    ``a/b`` for ``b`` in the group or dictionary ``a``. A field or array has its ``shape`` (``None`` where the arrays of
    a list differ), ``dtype``, ``min`` and ``max`` of the values that are finite and the number of those that are
    ``not_finite``. Texts have no range.

    Shapes are those that the data sets of meshop see: axes of MATLAB 7.3 are turned back, which a ``note`` says. Lists
    of arrays, and of dictionaries with the same keys, are one array with another axis.

    64 MB of an array, or one of its chunks if that is more, are in memory at a time; but all of one array of MATLAB
    before 7.3 and of a compressed ``.npz``, and all of a mesh, of JSON, YAML, CSV and texts, and of torch before 1.6.

    Raises:
        InputError: no such file, an unknown extension, or a file that is damaged.
    """
    path = Path(path)
    suffix = ".foam" if is_case(path) else path.suffix.lower()
    if suffix in FORMATS or suffix in SERIES_FORMATS:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "pos, in single precision")  # describe_mesh says it
            times, mesh = read_last(path) if suffix in SERIES_FORMATS else ([], read_mesh(path))
        return {"file": str(path), **describe_mesh(mesh, times)}
    if suffix not in ARRAYS:
        known = [*FORMATS, *SERIES_FORMATS, *ARRAYS]
        raise InputError(
            f"Expected a file with one of the extensions {', '.join(dict.fromkeys(known))} (got '{path}')"
            f"{did_you_mean(suffix, known)}"
        )
    if not path.is_file() or path.stat().st_size == 0:
        raise InputError(f"Cannot read '{path}': {'the file is empty' if path.is_file() else 'there is no such file'}")
    kind, read = ARRAYS[suffix]
    with reading(path, kind):
        digest = sha256(path)
        arrays = [entry(leaf._replace(name=leaf.name or path.stem)) for leaf in read(path)]
    return {"file": str(path), "bytes": path.stat().st_size, "sha256": digest, "arrays": arrays}


def describe_directory(root: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """What is in each file of a directory and below, in natural order; ``file`` and ``error`` of one it cannot read.

    Hidden files and caches of data sets, the directories ``processed``, are left out, and so are files that others
    name as their pieces or frames. An OpenFOAM case is one file.

    Raises:
        InputError: it can read none.
    """
    root = Path(root)
    below = []
    for path in root.rglob("*"):
        if not any(part.startswith(".") or part == "processed" for part in path.relative_to(root).parts):
            below.append(path)
    cases = {path for path in below if is_case(path)}
    files = [path for path in below if path in cases or path.is_file()]
    files = [path for path in files if cases.isdisjoint(path.parents)]
    done = 0
    for path in natural_order(without_frames(without_pieces(files))):
        report = {"file": str(path)}
        if path not in cases and path.suffix.lower() not in (*FORMATS, *SERIES_FORMATS, *ARRAYS):
            report["error"] = f"'{path}' has an extension that meshop does not know"
        else:
            try:
                report = describe(path)
                done += 1
            except (InputError, MemoryError) as error:
                report["error"] = str(error)
        yield report
    if not done:
        raise InputError(f"Expected files that meshop reads in '{root}' or its subdirectories (found none)")


def describe_mesh(mesh: MeshData, times: Sequence[float] = ()) -> dict[str, Any]:
    """What :func:`describe` says of a mesh.

    ====================================== ============================================================================
    key                                    meaning
    ====================================== ============================================================================
    ``points``, ``cells``                  their number; of cells by type
    ``dim``, ``plane``                     highest dimension of a cell, ``None`` without; the axes of the coordinate
                                           plane in which the points lie, or ``None``
    ``box``                                least and greatest coordinate of the points along each axis
    ``times``                              of a file that says any: ``count``, ``first``, ``last``, the least and the
                                           greatest ``step``, and all ``values``; fields are those of the last
    ``fields``                             arrays at ``point``, ``cell`` or ``field``, which is the file, with shape,
                                           type and range
    ``masks``                              named sets of points or cells, which are boundaries and groups: their
                                           ``location`` and how many are in it
    ``blocks``                             parts of which the mesh was put together: name, and number of ``cells``
    ``orphan_points``                      points that are a node of no cell
    ``duplicate_points``                   points with exactly the coordinates of one before them
    ``points_not_finite``                  points with a coordinate that is no finite number
    ``degenerate_cells``                   see :func:`~meshop.geometry.cell_faults`; ``None`` where a cell is of a
    ``inverted_cells``                     kind whose faces are not known
    ``components``                         parts of the mesh that share no node, and the number of cells of the
    ``largest_component``                  largest
    ``rounding``                           largest change of a coordinate by single precision, as a share of the
                                           diagonal of the box
    ``connectivity``                       a digest, equal for meshes with the same cells
    ====================================== ============================================================================

    Args:
        mesh: the mesh.
        times: those of its file, of which this is the last.
    """
    kinds, counts = mesh.cell_type.unique(return_counts=True)
    masks, fields = [], []
    for key in ("point_data", "cell_data", "field_data"):
        location = key.removesuffix("_data")
        sets = {} if location == "field" else masks_of(mesh[key])
        masks += [{"name": name, "location": location, "count": int(mask.sum())} for name, mask in sets.items()]
        for name, array in mesh[key].items():
            if name not in sets and not (location == "field" and name in (TIME, BLOCKS)):
                [leaf] = leaves(array, name)
                fields.append({"name": name, "location": location} | entry(leaf))
    own = mesh.field_data.get(TIME)
    if not len(times) and isinstance(own, torch.Tensor) and own.numel() == 1 and bool(own.isfinite()):
        times = [float(own)]
    return {
        "points": mesh.num_points,
        "cells": {cell_name(int(k)): int(c) for k, c in zip(kinds, counts, strict=True)},
        **_space(mesh),
        **({"times": _times(times)} if len(times) else {}),
        "fields": fields,
        "masks": masks,
        "blocks": _blocks(mesh),
        **_faults(mesh),
        "connectivity": _digest(mesh),
    }


def _space(mesh: MeshData) -> dict[str, Any]:
    try:
        dim = int(cell_dim(mesh.cell_type).max()) if mesh.num_cells else None
    except InputError:
        dim = None
    finite = mesh.points.isfinite().all(1)
    points = mesh.points[finite].double()
    axes = in_plane_axes(points)
    box = [[float(points[:, a].min()), float(points[:, a].max())] for a in range(3)] if len(points) else None
    size = float((points.amax(0) - points.amin(0)).norm()) if len(points) else 0.0
    lost = float((points.float() - points).abs().max()) if len(points) else 0.0
    return {
        "dim": dim,
        "plane": None if axes is None else ["xyz"[axis] for axis in axes],
        "box": box,
        "points_not_finite": int((~finite).sum()),
        "rounding": lost / size if size else 0.0,
    }


def _times(times: Sequence[float]) -> dict[str, Any]:
    steps = np.diff(times)
    span = [float(steps.min()), float(steps.max())] if len(steps) else None
    return {"count": len(times), "first": times[0], "last": times[-1], "step": span, "values": list(times)}


def _blocks(mesh: MeshData) -> list[dict[str, Any]]:
    names, block = mesh.field_data.get(BLOCKS), mesh.cell_data.get(BLOCK)
    if names is None or isinstance(names, torch.Tensor) or not isinstance(block, torch.Tensor) or block.dim() != 1:
        return []
    counts = [int((block == number).sum()) for number in range(len(names))]
    return [{"name": str(name), "cells": count} for name, count in zip(names, counts, strict=True)]


def _faults(mesh: MeshData) -> dict[str, Any]:
    cells = mesh.cell_type, mesh.cell_size, mesh.cell_index, mesh.polyhedra
    try:
        degenerate, inverted = (int(mask.sum()) for mask in cell_faults(mesh.points, *cells))
        faults: dict[str, Any] = {"degenerate_cells": degenerate, "inverted_cells": inverted}
    except InputError as error:
        faults = {"degenerate_cells": None, "inverted_cells": None, "note": str(error)}
    part = connected_parts(mesh.num_points, mesh.cell_size, mesh.cell_index)
    sizes = part[part >= 0].bincount()
    return {
        "orphan_points": int(orphan_points(mesh.num_points, mesh.cell_index).sum()),
        "duplicate_points": int(duplicate_points(mesh.points).sum()),
        **faults,
        "components": sizes.numel(),
        "largest_component": int(sizes.max()) if sizes.numel() else 0,
    }


def _digest(mesh: MeshData) -> str:
    digest = hashlib.sha256()
    for key in ("cell_type", "cell_size", "cell_index", "polyhedra"):
        digest.update(f"{list(mesh[key].shape)}".encode())
        digest.update(mesh[key].contiguous().numpy())
    return digest.hexdigest()[:16]


def as_text(report: Mapping[str, Any]) -> str:
    """A report of :func:`describe` in lines."""
    if "error" in report:
        return f"not read: {report['error']}"
    lines = [report["file"]]
    if "arrays" in report:
        lines.append(f"  {report['bytes']:,} bytes   SHA-256 {report['sha256']}")
    else:
        lines += _mesh_lines(report)
    for field in report.get("arrays", report.get("fields", ())):
        name = f"{field['name']}:{field['location']}" if "location" in field else field["name"]
        shape = ", ".join("any" if n is None else str(n) for n in field["shape"])
        note = f"   ({field['note']})" if field.get("note") else ""
        lines.append(f"  {name}   [{shape}] {field['dtype']}   {_span(field)}{note}")
    return "\n".join(lines)


def _mesh_lines(report: Mapping[str, Any]) -> Iterator[str]:
    cells = ", ".join(f"{count} {name}" for name, count in report["cells"].items()) or "none"
    yield f"  points {report['points']}   cells {cells}   {_dimension(report)}"
    if report["box"]:
        yield f"  box    {_box(report['box'])}"
    if "times" in report:
        more = "; fields are those of the last" if report["times"]["count"] > 1 else ""
        yield f"  times  {_spacing(report['times'])}{more}"
    counts = {"orphan_points": "orphan point", "duplicate_points": "duplicate point"}
    counts |= {"degenerate_cells": "degenerate cell", "inverted_cells": "inverted cell"} if report["cells"] else {}
    told = [_count(report[key], what) for key, what in counts.items() if report[key] is not None]
    if report["cells"]:
        parts = _count(report["components"], "component")
        largest = f" (the largest of {_count(report['largest_component'], 'cell')})" if report["components"] > 1 else ""
        told.insert(0, f"{parts}{largest}")
    yield from _wrapped("checks ", told)
    if "note" in report:
        yield f"  cells were not checked: {report['note']}"
    if report["points_not_finite"]:
        yield f"  {_count(report['points_not_finite'], 'point')} with a coordinate that is no finite number"
    if report["rounding"] > FAR:
        yield (
            f"  far from the origin: single precision moves points by up to {report['rounding']:.1g} of the size of "
            "the mesh; centre it with meshop.transforms.Center"
        )
    sets: dict[str, list[str]] = {}
    for mask in report["masks"]:
        sets.setdefault(mask["name"], []).append(_count(mask["count"], mask["location"]))
    yield from _wrapped("names  ", [f"{name} ({', '.join(told)})" for name, told in sets.items()])
    yield from _wrapped("blocks ", [f"{b['name']} ({_count(b['cells'], 'cell')})" for b in report["blocks"]])


def _wrapped(title: str, items: Sequence[str]) -> list[str]:
    """Items in lines of 120 characters behind a title, the first of them."""
    if not items:
        return []
    more = f", and {len(items) - NAMES} more" if len(items) > NAMES else ""
    text = ", ".join(item.replace(" ", NO_BREAK) for item in items[:NAMES]) + more
    wrapper = textwrap.TextWrapper(
        WIDTH, f"  {title}", " " * (len(title) + 2), break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(NO_BREAK, " ") for line in wrapper.wrap(text)]


def _count(number: int, what: str) -> str:
    """A number of things in words.

    >>> _count(0, "cell"), _count(1, "cell"), _count(2, "cell")
    ('no cells', '1 cell', '2 cells')
    """
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def _dimension(report: Mapping[str, Any]) -> str:
    dim, plane = report["dim"], report["plane"]
    if dim is None or dim == 3 or plane is None:
        return {2: "a surface in 3-D", 1: "lines in 3-D"}.get(dim, "3-D")
    return f"2-D in the plane {', '.join(plane)}"


def _box(box: Sequence[Sequence[float]]) -> str:
    return "   ".join(f"{axis} {low:.6g} to {high:.6g}" for axis, (low, high) in zip("xyz", box, strict=True))


def _spacing(times: Mapping[str, Any]) -> str:
    if times["count"] == 1:
        return f"{times['first']:.6g}"
    low, high = times["step"]
    step = f"by {low:.6g}" if high - low <= 1e-6 * abs(high) else f"in steps of {low:.6g} to {high:.6g}"
    return f"{times['count']}, {times['first']:.6g} to {times['last']:.6g} {step}"


def _span(field: Mapping[str, Any]) -> str:
    bad = f"   {field['not_finite']} not finite" if field["not_finite"] else ""
    return ("no numbers" if field["min"] is None else f"{field['min']:.6g} to {field['max']:.6g}") + bad


def describe_together(reports: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """What the meshes among the reports of a directory have in common; ``None`` without any.

    ``meshes`` is their number, ``points`` and ``cells`` the least and greatest numbers of theirs, ``connectivities``
    how many different sets of cells they have, ``box`` that of all. ``fields`` and ``masks`` say in how many ``files``
    one is, which is the first ``without``, or ``None``, and of fields the ``shape`` at a point or cell, ``None`` where
    it differs, and the range over all. ``times`` are those of files that are numbered and have the same cells, as
    :func:`~meshop.io.read_series` takes them.
    """
    meshes = [report for report in reports if "points" in report]
    if not meshes:
        return None
    together: dict[str, Any] = {
        "meshes": len(meshes),
        "points": [f(report["points"] for report in meshes) for f in (min, max)],
        "cells": [f(sum(report["cells"].values()) for report in meshes) for f in (min, max)],
        "connectivities": len({(report["points"], report["connectivity"]) for report in meshes}),
    }
    boxes = np.array([report["box"] for report in meshes if report["box"]])  # [M, 3, 2]
    if len(boxes):
        together["box"] = np.stack([boxes[:, :, 0].min(0), boxes[:, :, 1].max(0)], axis=1).tolist()
    for key in ("fields", "masks"):
        found: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
        for report in meshes:
            for item in report[key]:
                found.setdefault((item["name"], item["location"]), {})[report["file"]] = item
        together[key] = [_over_files(*place, own, meshes) for place, own in found.items() if place[1] != "field"]
    if (times := _numbered(meshes)) is not None:
        together["times"] = _times(times)
    return together


def _over_files(
    name: str, location: str, own: Mapping[str, Mapping[str, Any]], meshes: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    without = next((report["file"] for report in meshes if report["file"] not in own), None)
    told = {"name": name, "location": location, "files": len(own), "without": without}
    items = list(own.values())
    if "count" in items[0]:
        return told
    shapes = [item["shape"][1:] for item in items]
    return told | {
        "shape": shapes[0] if all(shape == shapes[0] for shape in shapes) else None,
        "min": min((item["min"] for item in items if item["min"] is not None), default=None),
        "max": max((item["max"] for item in items if item["max"] is not None), default=None),
        "not_finite": sum(item["not_finite"] for item in items),
    }


def _numbered(meshes: Sequence[Mapping[str, Any]]) -> list[float] | None:
    """Times of files in one directory with the same cells, whose names differ by their last number alone."""
    names = [re.fullmatch(r"(.*?)(\d+)(\D*)", Path(report["file"]).name) for report in meshes]
    places = {(os.path.dirname(r["file"]), n and (n[1], n[3])) for r, n in zip(meshes, names, strict=True)}
    alike = len(places) == len({report["connectivity"] for report in meshes}) == 1 and None not in names
    if len(meshes) < 2 or not alike or any(report.get("times", {}).get("count", 1) > 1 for report in meshes):
        return None
    own = [report["times"]["first"] if "times" in report else None for report in meshes]
    times = [float(n[2]) if time is None else time for n, time in zip(names, own, strict=True) if n is not None]
    return times if all(a < b for a, b in pairwise(times)) else None


def together_as_text(root: str | os.PathLike[str], reports: Sequence[Mapping[str, Any]]) -> str:
    """The reports of a directory's meshes in a table, what they have in common, what was not read, and a last line."""
    meshes = [report for report in reports if "points" in report]
    lines = []
    together = describe_together(reports)
    if together is not None:
        rows = [("file", "points", "cells", "fields", "times", "remarks"), *(_row(root, r) for r in meshes)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = [c.rjust(w) if i == 1 else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
            lines.append("  ".join(cells).rstrip())
        lines += ["", *_together_lines(root, together)]
    lines += [as_text(report) for report in reports if "error" in report]
    return "\n".join([*lines, summary(reports)])


def _row(root: str | os.PathLike[str], report: Mapping[str, Any]) -> tuple[str, ...]:
    short = {"triangle": "tri", "tetrahedron": "tet", "hexahedron": "hex", "quadratic": "quad."}
    cells = ", ".join(f"{count} {name}" for name, count in report["cells"].items()) or "none"
    for word, less in short.items():
        cells = cells.replace(word, less)
    names = list(dict.fromkeys(field["name"] for field in report["fields"] if field["location"] != "field"))
    fields = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "") or "none"
    counts = {"not finite": sum(field["not_finite"] for field in report["fields"])}
    counts |= {"components": report["components"] if report["components"] > 1 else 0}
    counts |= {word: report[f"{word}_points"] for word in ("orphan", "duplicate")}
    counts |= {word: report[f"{word}_cells"] for word in ("degenerate", "inverted")}
    remarks = [f"{count} {what}" for what, count in counts.items() if count]
    remarks += [f"{report['points_not_finite']} points not finite"] if report["points_not_finite"] else []
    remarks += ["far from the origin"] if report["rounding"] > FAR else []
    remarks += ["cells not checked"] if "note" in report else []
    file = os.path.relpath(report["file"], root)
    times = _spacing(report["times"]) if "times" in report else ""
    return file, str(report["points"]), cells, fields, times, ", ".join(remarks)


def _together_lines(root: str | os.PathLike[str], together: Mapping[str, Any]) -> Iterator[str]:
    number = together["meshes"]
    if number == 1:
        return
    kinds = together["connectivities"]
    cells = "the same cells in all" if kinds == 1 else f"{kinds} different sets of cells"
    yield f"{number} meshes, {cells}"
    if "box" in together:
        yield f"  box    {_box(together['box'])}"
    if "times" in together:
        yield f"  times  {_spacing(together['times'])}, if the files are read as a series"
    for where in ("fields", "masks"):
        everywhere = [item for item in together[where] if item["files"] == number]
        somewhere = [item for item in together[where] if item["files"] < number]
        if where == "fields":
            yield from [f"  {_item(item)} in all" for item in everywhere]
        else:
            yield from _wrapped("names in all  ", [f"{item['name']}:{item['location']}" for item in everywhere])
        for item in somewhere:
            lacking = os.path.relpath(item["without"], root)
            yield f"  {_item(item)} in {item['files']} of {number}, not in {lacking}"


def _item(item: Mapping[str, Any]) -> str:
    name = f"{item['name']}:{item['location']}"
    if "shape" not in item:
        return name
    shape = "shapes differ" if item["shape"] is None else f"{item['shape']}" if item["shape"] else "scalar"
    return f"{name}   {shape}   {_span(item)}  "


def summary(reports: Iterable[Mapping[str, Any]]) -> str:
    """How much the files of a directory hold together, and how many could not be read."""
    reports = list(reports)
    done = [report for report in reports if "error" not in report]
    points = sum(report.get("points", 0) for report in done)
    arrays = sum(len(report.get("arrays", ())) for report in done)
    parts = [f"{len(done)} files"]
    parts += [f"{points} points"] if points else []
    parts += [f"{arrays} arrays, {sum(report.get('bytes', 0) for report in done):,} bytes"] if arrays else []
    parts += [f"{len(reports) - len(done)} not read"] if len(done) < len(reports) else []
    return ", ".join(parts)
