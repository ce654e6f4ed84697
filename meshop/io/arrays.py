"""Files of arrays and texts as benchmarks publish them: MATLAB, HDF5, numpy, torch, Arrow, JSON and CSV."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from meshop.data import InputError

Array = NDArray[Any]
PathLike = str | os.PathLike[str]


@contextmanager
def reading(path: PathLike, kind: str) -> Iterator[None]:
    """Say which file, and of which kind, could not be read; an :class:`~meshop.data.InputError` passes."""
    try:
        yield
    except InputError:
        raise
    except ImportError as error:
        raise InputError(f"'{path}' needs {error.name}; pip install \"meshop[data]\"") from error
    except Exception as error:  # whatever a parser stumbles over
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"'{path}' is not {kind}, or is damaged ({reason})") from error


def sha256(path: PathLike) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_mat(path: PathLike, *names: str) -> list[Array]:
    """Arrays of a MATLAB file of any version, with MATLAB's order of axes.

    Version 7.3 is HDF5, in which the axes stand reversed; they are turned back (as a view).

    Raises:
        InputError: the file is damaged, or lacks one of the names; the message lists those it has.
    """
    import scipy.io

    with reading(path, "a MATLAB file"):
        try:
            content = scipy.io.loadmat(path, variable_names=names)
        except NotImplementedError:  # scipy's answer to version 7.3
            return [array.T for array in read_hdf5(path, *names)]
        if missing := [name for name in names if name not in content]:
            known = ", ".join(name for name, *_ in scipy.io.whosmat(path))
            raise InputError(f"Expected {', '.join(missing)} in '{path}' (it has {known})")
        return [content[name] for name in names]


@contextmanager
def open_hdf5(path: PathLike, *names: str) -> Iterator[Any]:
    """An HDF5 file that has the named arrays, open until the block ends.

    Raises:
        InputError: h5py is missing, the file is damaged, or lacks one of the names; the message lists those it has.
    """
    with reading(path, "an HDF5 file"):
        import h5py

        with h5py.File(path) as file:
            if missing := [name for name in names if name not in file]:
                raise InputError(f"Expected {', '.join(missing)} in '{path}' (it has {', '.join(file)})")
            yield file


def read_hdf5(path: PathLike, *names: str, rows: slice | None = None) -> list[Array]:
    """Arrays of an HDF5 file, or some of their rows.

    Raises:
        InputError: see :func:`open_hdf5`.
    """
    with open_hdf5(path, *names) as file:
        return [file[name][() if rows is None else rows] for name in names]


def read_npy(path: PathLike) -> Array:
    """The array of an ``.npy`` file, read from disk when it is used.

    Raises:
        InputError: the file is damaged.
    """
    with reading(path, "an array of numpy"):
        array: Array = np.load(path, mmap_mode="r")
        return array


def read_npz(path: PathLike, *names: str) -> list[Array]:
    """Arrays of an ``.npz`` file; those that are not compressed are read from disk when they are used.

    Raises:
        InputError: the file is damaged, or lacks one of the names; the message lists those it has.
    """
    with reading(path, "an archive of arrays of numpy"), zipfile.ZipFile(path) as archive:
        known = [name.removesuffix(".npy") for name in archive.namelist()]
        if missing := [name for name in names if name not in known]:
            raise InputError(f"Expected {', '.join(missing)} in '{path}' (it has {', '.join(known)})")
        return [_member(path, archive, f"{name}.npy") for name in names]


def _member(path: PathLike, archive: zipfile.ZipFile, name: str) -> Array:
    info = archive.getinfo(name)
    with archive.open(info) as file:
        if info.compress_type != zipfile.ZIP_STORED:
            array: Array = np.lib.format.read_array(file)
            return array
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        if dtype.hasobject:
            raise ValueError(f"{name} holds objects of Python")
        header = file.tell()
    with open(path, "rb") as raw:  # its place in the archive: after a header with a name and more of their own lengths
        raw.seek(info.header_offset + 26)
        lengths = int.from_bytes(raw.read(2), "little") + int.from_bytes(raw.read(2), "little")
    place = info.header_offset + 30 + lengths + header
    return np.memmap(path, dtype, "r", place, shape, order="F" if fortran else "C")


_PARTS_OF_DATA: list[Any] = [DataEdgeAttr, DataTensorAttr, GlobalStorage]  # which PyG does not declare safe itself


def read_torch(path: PathLike) -> Any:
    """What ``torch.save`` wrote: tensors, lists and dictionaries of them, and PyG's data; no other code is run.

    Tensors are read from disk when they are used, if the file is an archive, as those of torch since 1.6 are.

    Raises:
        InputError: the file is damaged, or holds objects of other classes.
    """
    with reading(path, "a file of torch"), torch.serialization.safe_globals(_PARTS_OF_DATA):
        try:
            return torch.load(path, "cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
        except Exception as error:
            if name := re.search(r"GLOBAL (\S+)", str(error)):
                raise InputError(
                    f"'{path}' holds an object of {name[1]}, which would run code of its own; expected tensors, lists "
                    "and dictionaries of them, or PyG's data"
                ) from error
            raise InputError(f"'{path}' is not a file of torch, or is damaged") from error  # torch's reason is a page


def read_arrow(path: PathLike) -> list[Any]:
    """The record batches of a stream of Arrow, read from disk when they are used.

    Raises:
        InputError: pyarrow is missing, or the file is damaged.
    """
    with reading(path, "a stream of Arrow"):
        import pyarrow

        return list(pyarrow.ipc.open_stream(pyarrow.memory_map(os.fspath(path))))


def read_json(path: PathLike) -> Any:
    """The content of a JSON file.

    Raises:
        InputError: the file is damaged.
    """
    with reading(path, "a JSON file"):
        return json.loads(Path(path).read_text())


def read_csv(path: PathLike) -> list[list[str]]:
    """The rows of a table that are not empty; values are separated by commas, semicolons or tabs."""
    lines = Path(path).read_text(encoding="utf-8-sig", errors="replace").splitlines()
    delimiter = max(",;\t", key=(lines or [""])[0].count)
    rows = [[value.strip() for value in row] for row in csv.reader(lines, delimiter=delimiter)]
    return [row for row in rows if any(row)]
