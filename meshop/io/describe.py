"""What is in a file: points, cells and fields of a mesh, or the arrays of any other file that a benchmark has."""

from __future__ import annotations

import itertools
import math
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch_geometric.data.data import BaseData

from meshop.data import InputError, MeshData, did_you_mean
from meshop.geometry import cell_name
from meshop.io.arrays import (
    Array,
    open_hdf5,
    read_arrow,
    read_csv,
    read_json,
    read_mat,
    read_npy,
    read_npz,
    read_torch,
    reading,
    sha256,
)
from meshop.io.formats import FORMATS, read_mesh
from meshop.io.openfoam import is_case

BLOCK = 2**26  # bytes of an array that are looked at together


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What is in a file, as plain values that :func:`as_text` prints and JSON holds.

    Of a mesh: ``points``, ``cells`` by type, the ``box`` and ``fields``. Of any other file that a benchmark has: its
    size in ``bytes``, its ``sha256``, and ``arrays`` by their names in the file, ``a/b`` for ``b`` in the group or
    dictionary ``a``. A field or array has its ``shape`` (``None`` where the arrays of a list differ), ``dtype``,
    ``min`` and ``max`` of the values that are finite and the number of those that are ``not_finite``. Texts have no
    range.

    Shapes are those that the data sets of meshop see: axes of MATLAB 7.3 are turned back, which a ``note`` says. Lists
    of arrays, and of dictionaries with the same keys, are one array with another axis.

    64 MB of an array, or one of its chunks if that is more, are in memory at a time; but all of one array of MATLAB
    before 7.3 and of a compressed ``.npz``, and all of a mesh, of JSON, YAML, CSV and texts, and of torch before 1.6.

    Raises:
        InputError: no such file, an unknown extension, or a file that is damaged.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in FORMATS or is_case(path):
        return {"file": str(path), **describe_mesh(read_mesh(path))}
    if suffix not in ARRAYS:
        known = [*FORMATS, *ARRAYS]
        raise InputError(
            f"Expected a file with one of the extensions {', '.join(known)} (got '{path}'){did_you_mean(suffix, known)}"
        )
    if not path.is_file() or path.stat().st_size == 0:
        raise InputError(f"Cannot read '{path}': {'the file is empty' if path.is_file() else 'there is no such file'}")
    kind, read = ARRAYS[suffix]
    with reading(path, kind):
        digest = sha256(path)
        arrays = [_entry(leaf._replace(name=leaf.name or path.stem)) for leaf in read(path)]
    return {"file": str(path), "bytes": path.stat().st_size, "sha256": digest, "arrays": arrays}


def describe_directory(root: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """What is in each file of a directory and below, in natural order; ``file`` and ``error`` of one it cannot read.

    Hidden files and caches of data sets, the directories ``processed``, are left out.

    Raises:
        InputError: it can read none.
    """
    done = 0
    for path in natural_order(path for path in Path(root).rglob("*") if path.is_file()):
        if any(part.startswith(".") or part == "processed" for part in path.relative_to(root).parts):
            continue
        report = {"file": str(path)}
        if path.suffix.lower() not in (*FORMATS, *ARRAYS):
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


def natural_order(paths: Iterable[Path]) -> list[Path]:
    """Paths in the order in which people count.

    >>> [path.name for path in natural_order([Path("run_10"), Path("run_2")])]
    ['run_2', 'run_10']
    """

    def key(path: Path) -> list[tuple[int, str]]:
        return [(int(part), part) if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.as_posix())]

    return sorted(paths, key=key)


def as_text(report: Mapping[str, Any]) -> str:
    """A report of :func:`describe` in lines."""
    if "error" in report:
        return f"not read: {report['error']}"
    lines = [report["file"]]
    if "arrays" in report:
        lines.append(f"  {report['bytes']:,} bytes   SHA-256 {report['sha256']}")
    else:
        cells = ", ".join(f"{count} {name}" for name, count in report["cells"].items()) or "none"
        box = "   ".join(
            f"{axis} {low:.6g} to {high:.6g}" for axis, (low, high) in zip("xyz", report["box"], strict=True)
        )
        lines += [f"  points {report['points']}   cells {cells}", f"  box    {box}"]
    for field in report.get("arrays", report.get("fields", ())):
        name = f"{field['name']}:{field['location']}" if "location" in field else field["name"]
        shape = ", ".join("any" if n is None else str(n) for n in field["shape"])
        span = "no numbers" if field["min"] is None else f"{field['min']:.6g} to {field['max']:.6g}"
        bad = f"   {field['not_finite']} not finite" if field["not_finite"] else ""
        note = f"   ({field['note']})" if field.get("note") else ""
        lines.append(f"  {name}   [{shape}] {field['dtype']}   {span}{bad}{note}")
    return "\n".join(lines)


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


def describe_mesh(mesh: MeshData) -> dict[str, Any]:
    """What :func:`describe` says of a mesh."""
    kinds, counts = mesh.cell_type.unique(return_counts=True)
    points = mesh.points.double()
    fields = []
    for key in ("point_data", "cell_data", "field_data"):
        for name, array in mesh[key].items():
            [leaf] = _leaves(array, name)
            fields.append({"name": name, "location": key.removesuffix("_data")} | _entry(leaf))
    return {
        "points": mesh.num_points,
        "cells": {cell_name(int(k)): int(c) for k, c in zip(kinds, counts, strict=True)},
        "box": [[float(points[:, a].min()), float(points[:, a].max())] for a in range(3)],
        "fields": fields,
    }


class Leaf(NamedTuple):
    """An array of a file: its name, shape and type, its numbers in blocks (none of texts), and a note."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str
    blocks: Iterable[Array] = ()
    note: str = ""


def _entry(leaf: Leaf) -> dict[str, Any]:
    low, high, bad = math.inf, -math.inf, 0
    for block in leaf.blocks:
        finite = np.isfinite(block)
        count = int(np.count_nonzero(finite))
        bad += block.size - count
        if count:
            values = block if count == block.size else block[finite]
            low, high = min(low, float(values.min())), max(high, float(values.max()))
    found = {"min": low, "max": high} if low <= high else {"min": None, "max": None}
    entry = {"name": leaf.name, "shape": list(leaf.shape), "dtype": leaf.dtype, **found, "not_finite": bad}
    return entry | ({"note": leaf.note} if leaf.note else {})


def _leaves(value: Any, name: str) -> Iterator[Leaf]:
    """The arrays in dictionaries, lists, PyG's data and MATLAB's structures and cells."""
    if isinstance(value, BaseData):
        value = value.to_dict()
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, _join(name, key))
    elif isinstance(value, (list, tuple)):
        yield from _list(value, name)
    elif isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        if value.layout != torch.strided or value.is_quantized:
            yield Leaf(name, tuple(value.shape), f"{dtype}, {str(value.layout).removeprefix('torch.')}")
        else:
            plain = value.detach()
            array = (plain.float() if dtype.startswith(("bfloat", "float8")) else plain.resolve_conj()).numpy()
            yield _leaf(array, name)._replace(dtype=dtype)
    elif isinstance(value, np.ndarray) and value.dtype.names:
        for key in value.dtype.names:
            yield from _leaves(value[key], _join(name, key))
    elif isinstance(value, np.ndarray) and value.dtype.hasobject:
        yield from _list(value.ravel().tolist(), name) if value.size != 1 else _leaves(value.item(), name)
    elif isinstance(value, np.ndarray):
        yield _leaf(value, name)
    elif isinstance(value, (bool, int, float)):
        yield _leaf(np.asarray(value), name)
    else:
        yield Leaf(name, tuple(getattr(value, "shape", ())), "text" if isinstance(value, str) else type(value).__name__)


def _list(items: Sequence[Any], name: str) -> Iterator[Leaf]:
    """A list as one array with another axis, if its items are alike; otherwise the items by their numbers."""
    parts = [list(_leaves(item, "")) for item in items]
    alike = len({tuple((leaf.name, len(leaf.shape)) for leaf in part) for part in parts}) == 1
    if not items:
        yield Leaf(name, (0,), "empty")
    elif alike:
        for leaves in zip(*parts, strict=True):
            yield _stack(leaves, _join(name, leaves[0].name))
    else:
        for i, part in enumerate(parts):
            yield from (leaf._replace(name=_join(name, i, leaf.name)) for leaf in part)


def _join(*names: Any) -> str:
    return "/".join(str(name) for name in names if name != "")


def _stack(leaves: Sequence[Leaf], name: str) -> Leaf:
    axes = zip(*(leaf.shape for leaf in leaves), strict=True)
    shape = (len(leaves), *(sizes[0] if len(set(sizes)) == 1 else None for sizes in axes))
    types = {leaf.dtype for leaf in leaves}
    dtype = types.pop() if len(types) == 1 else "mixed"
    blocks = itertools.chain.from_iterable(leaf.blocks for leaf in leaves)
    if len(shape) == 1:  # numbers one by one: a block together
        numbers = list(blocks)
        together = np.stack(numbers) if numbers else np.empty(0)
        return Leaf(name, shape, together.dtype.name if len(numbers) == len(leaves) else dtype, (together,))
    return Leaf(name, shape, dtype, blocks)


def _leaf(array: Any, name: str) -> Leaf:
    """An array of numpy or h5py."""
    kind, dtype = array.dtype.kind, array.dtype.name
    if kind not in "biuf" or array.shape is None:  # HDF5 knows arrays without a shape, which hold nothing
        return Leaf(name, tuple(array.shape or ()), "text" if kind in "US" else dtype)
    return Leaf(name, tuple(array.shape), dtype, _blocks(array))


def _blocks(array: Any) -> Iterator[Array]:
    """The numbers of an array in blocks of whole chunks, the last axes first, as they lie in the file."""
    if isinstance(array, np.ndarray) and array.flags.fnc:
        array = array.T
    if 0 in array.shape:
        return
    size = list(getattr(array, "chunks", None) or [1] * len(array.shape))
    for axis in reversed(range(len(size))):
        room = BLOCK // (math.prod(size) * array.dtype.itemsize)
        size[axis] = min(array.shape[axis], size[axis] * max(room, 1))
    for starts in itertools.product(*(range(0, n, step) for n, step in zip(array.shape, size, strict=True))):
        yield np.asarray(array[tuple(slice(at, at + step) for at, step in zip(starts, size, strict=True))])


def _mat(path: Path) -> Iterator[Leaf]:
    from scipy.io import matlab, whosmat

    if matlab.matfile_version(path)[0] == 2:
        for leaf in _hdf5(path):
            yield leaf._replace(shape=leaf.shape[::-1], note="MATLAB 7.3, axes turned back")
        return
    for name, *_ in whosmat(path):
        [array] = read_mat(path, name)
        yield from _leaves(array, name)


def _hdf5(path: Path) -> Iterator[Leaf]:
    with open_hdf5(path) as file:
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") else None)
        for name in names:
            yield _leaf(file[name], name)


def _npz(path: Path) -> Iterator[Leaf]:
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    for name in names:
        yield from _leaves(read_npz(path, name)[0], name)


def _arrow(path: Path) -> Iterator[Leaf]:
    """Columns of numbers and texts; arrays of floats as the bytes that RealPDEBench's are, for each trajectory."""
    columns: dict[str, list[Any]] = {}
    for batch in read_arrow(path):
        place = {name: batch.column(name) for name in batch.schema.names}
        sizes = [name for name in ("shape_t", "shape_h", "shape_w") if name in place]
        for name, column in place.items():
            if "binary" not in str(column.type):
                columns.setdefault(name, []).extend(column.to_pylist())
                continue
            for i in range(len(column)):
                values = np.frombuffer(column[i].as_buffer(), np.uint8)
                shape = [place[size][i].as_py() for size in sizes]
                components, rest = divmod(values.size, 4 * math.prod(shape) or 1)
                if shape and components and not rest:
                    values = values.view(np.float32).reshape(*shape, *([components] if components > 1 else []))
                yield _leaf(values, f"{place['sim_id'][i].as_py() if 'sim_id' in place else i}/{name}")
    for name, items in columns.items():
        yield from _list(items, name)


def _yaml(path: Path) -> Iterator[Leaf]:
    import yaml

    yield from _leaves(yaml.safe_load(path.read_text()), "")


def _csv(path: Path) -> Iterator[Leaf]:
    rows = read_csv(path)
    for row in rows:
        if len(row) != len(rows[0]):
            raise InputError(f"Expected {len(rows[0])} columns in every row of '{path}' (got {len(row)})")
    if all(map(_is_number, rows[0])):  # no header
        values = [value for row in rows for value in row]
        yield _column(values, "", (len(rows), len(rows[0])))
    else:
        for i, (name, *values) in enumerate(zip(*rows, strict=True)):
            yield _column(values, name or str(i), (len(values),))


def _txt(path: Path) -> Iterator[Leaf]:
    lines = [line.strip() for line in path.read_text().splitlines() if line.strip()]
    yield _column(lines, "", (len(lines),))


def _column(values: Sequence[str], name: str, shape: tuple[int, ...]) -> Leaf:
    """Numbers, if all that are there are, or texts."""
    if not values or not all(map(_is_number, values)):
        return Leaf(name, shape, "text")
    return _leaf(np.array([float(value or "nan") for value in values]).reshape(shape), name)


def _is_number(text: str) -> bool:
    try:
        float(text or "nan")
    except ValueError:
        return False
    return True


def _json(path: Path) -> Iterator[Leaf]:
    yield from _leaves(read_json(path), "")


# To add a format, add a row: what a file of it is, and how to find its arrays.
ARRAYS: dict[str, tuple[str, Callable[[Path], Iterator[Leaf]]]] = {
    ".mat": ("a MATLAB file", _mat),
    ".h5": ("an HDF5 file", _hdf5),
    ".hdf5": ("an HDF5 file", _hdf5),
    ".npy": ("an array of numpy", lambda path: _leaves(read_npy(path), "")),
    ".npz": ("an archive of arrays of numpy", _npz),
    ".pt": ("a file of torch", lambda path: _leaves(read_torch(path), "")),
    ".arrow": ("a stream of Arrow", _arrow),
    ".json": ("a JSON file", _json),
    ".yaml": ("a YAML file", _yaml),
    ".yml": ("a YAML file", _yaml),
    ".csv": ("a table", _csv),
    ".txt": ("a text", _txt),
}
