"""The arrays in a file of any kind: their names, shapes and ranges."""

from __future__ import annotations

import itertools
import math
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch_geometric.data.data import BaseData

from meshop.data import InputError
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
)

BLOCK = 2**26  # bytes of an array that are looked at together


class Leaf(NamedTuple):
    """An array of a file: its name, shape and type, its numbers in blocks (none of texts), and a note."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str
    blocks: Iterable[Array] = ()
    note: str = ""


def entry(leaf: Leaf) -> dict[str, Any]:
    """What is said of an array: ``name``, ``shape``, ``dtype``, range and values that are not finite."""
    low, high, bad = math.inf, -math.inf, 0
    for block in leaf.blocks:
        finite = np.isfinite(block)
        count = int(np.count_nonzero(finite))
        bad += block.size - count
        if count:
            values = block if count == block.size else block[finite]
            low, high = min(low, float(values.min())), max(high, float(values.max()))
    found = {"min": low, "max": high} if low <= high else {"min": None, "max": None}
    told = {"name": leaf.name, "shape": list(leaf.shape), "dtype": leaf.dtype, **found, "not_finite": bad}
    return told | ({"note": leaf.note} if leaf.note else {})


def leaves(value: Any, name: str) -> Iterator[Leaf]:
    """The arrays in dictionaries, lists, PyG's data and MATLAB's structures and cells."""
    if isinstance(value, BaseData):
        value = value.to_dict()
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, _join(name, key))
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
            yield from leaves(value[key], _join(name, key))
    elif isinstance(value, np.ndarray) and value.dtype.hasobject:
        yield from _list(value.ravel().tolist(), name) if value.size != 1 else leaves(value.item(), name)
    elif isinstance(value, np.ndarray):
        yield _leaf(value, name)
    elif isinstance(value, (bool, int, float)):
        yield _leaf(np.asarray(value), name)
    else:
        yield Leaf(name, tuple(getattr(value, "shape", ())), "text" if isinstance(value, str) else type(value).__name__)


def _list(items: Sequence[Any], name: str) -> Iterator[Leaf]:
    """A list as one array with another axis, if its items are alike; otherwise the items by their numbers."""
    parts = [list(leaves(item, "")) for item in items]
    alike = len({tuple((leaf.name, len(leaf.shape)) for leaf in part) for part in parts}) == 1
    if not items:
        yield Leaf(name, (0,), "empty")
    elif alike:
        for same in zip(*parts, strict=True):
            yield _stack(same, _join(name, same[0].name))
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
        yield from leaves(array, name)


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
        yield from leaves(read_npz(path, name)[0], name)


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

    yield from leaves(yaml.safe_load(path.read_text()), "")


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
    yield from leaves(read_json(path), "")


# To add a format, add a row: what a file of it is, and how to find its arrays.
ARRAYS: dict[str, tuple[str, Callable[[Path], Iterator[Leaf]]]] = {
    ".mat": ("a MATLAB file", _mat),
    ".h5": ("an HDF5 file", _hdf5),
    ".hdf5": ("an HDF5 file", _hdf5),
    ".npy": ("an array of numpy", lambda path: leaves(read_npy(path), "")),
    ".npz": ("an archive of arrays of numpy", _npz),
    ".pt": ("a file of torch", lambda path: leaves(read_torch(path), "")),
    ".arrow": ("a stream of Arrow", _arrow),
    ".json": ("a JSON file", _json),
    ".yaml": ("a YAML file", _yaml),
    ".yml": ("a YAML file", _yaml),
    ".csv": ("a table", _csv),
    ".txt": ("a text", _txt),
}
