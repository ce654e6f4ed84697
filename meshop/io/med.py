"""MED files of Salome and Code_Aster, which are HDF5 (https://docs.salome-platform.org/latest/dev/MEDCoupling).

meshio reads neither meshes of which some cells are in no group nor fields of some cells; hence a reader of our own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from meshop.data import InputError, MeshData
from meshop.geometry import cell_name
from meshop.io.assemble import assemble, to_numpy, warn_left_out
from meshop.io.child import in_child
from meshop.io.parts import Frames, add_masks, masks_of

Array = NDArray[Any]

# MED's name, VTK code, and MED's nodes at the places of VTK's: most solids stand the other way round
_TYPES: dict[str, tuple[int, list[int]]] = {
    "PO1": (1, [0]),
    "SE2": (3, [0, 1]),
    "SE3": (21, [0, 1, 2]),
    "TR3": (5, [*range(3)]),
    "TR6": (22, [*range(6)]),
    "QU4": (9, [*range(4)]),
    "QU8": (23, [*range(8)]),
    "QU9": (28, [*range(9)]),
    "TE4": (10, [0, 2, 1, 3]),
    "T10": (24, [0, 2, 1, 3, 6, 5, 4, 7, 9, 8]),
    "HE8": (12, [0, 3, 2, 1, 4, 7, 6, 5]),
    "H20": (25, [0, 3, 2, 1, 4, 7, 6, 5, 11, 10, 9, 8, 15, 14, 13, 12, 16, 19, 18, 17]),
    "PE6": (13, [*range(6)]),
    "P15": (26, [*range(15)]),
    "PY5": (14, [0, 3, 2, 1, 4]),
    "P13": (27, [0, 3, 2, 1, 4, 8, 7, 6, 5, 9, 12, 11, 10]),
}
_NAMES = {code: name for name, (code, _) in _TYPES.items() if name not in ("QU9", "P15", "P13")}  # meshio has none
_WHOLE = "MED_NO_PROFILE_INTERNAL"
MED_CELLS = frozenset(_NAMES)


@in_child("h5py")
@contextmanager
def open_med(path: Path) -> Iterator[Frames]:
    """The times of the fields of a MED file: its cells type by type, as the file has them.

    Groups are masks of points and of cells under their names. A field of some cells only is not a number in the
    others; fields at Gauss points or at the nodes of each cell are arrays of a cell, [C, points, components].
    """
    with hdf5():
        import h5py
    with hdf5(), h5py.File(path) as file:
        meshes = list(file.get("ENS_MAA", ()))
        if len(meshes) != 1:
            raise InputError(f"Expected one mesh (got {', '.join(meshes) or 'none'}); save each as its own file")
        mesh = file["ENS_MAA"][meshes[0]]
        axes = int(mesh.attrs["ESP"])
        while "NOE" not in mesh:  # the steps of a mesh that changes; the last is taken
            if not len(mesh):
                raise InputError("its mesh has no nodes")
            mesh = mesh[sorted(mesh)[-1]]
        kinds = list(mesh.get("MAI", ()))
        if unknown := [kind for kind in kinds if kind not in _TYPES]:
            raise InputError(f"cells of MED's type {unknown[0]} are not supported; save linear or quadratic ones")
        families = _families(file, meshes[0])
        fields = file.get("CHA", {})
        times = sorted({_time(step) for content in fields.values() for step in content.values()})
        out, still = _mesh(mesh, kinds, axes, families)

        def read(number: int) -> tuple[float, MeshData]:
            data: MeshData = out.__copy__()
            data.point_data, data.cell_data = data.point_data.__copy__(), data.cell_data.__copy__()
            for name, content in fields.items():
                for step in content.values():
                    if _time(step) == times[number]:
                        _add_field(data, name, step, mesh, kinds, file.get("PROFILS", {}))
            return (times[number] if times else nan), data

        yield Frames(len(times), read, times, frozenset(still))


def _time(step: Any) -> float:
    return float(step.attrs.get("PDT", 0.0))


def _mesh(mesh: Any, kinds: list[str], axes: int, families: dict[int, list[str]]) -> tuple[MeshData, list[str]]:
    """The mesh with masks of its groups, and their names."""
    points = mesh["NOE"]["COO"][()].reshape(axes, -1).T
    nodes = [mesh["MAI"][kind]["NOD"][()].reshape(len(_TYPES[kind][1]), -1).T - 1 for kind in kinds]
    count = [len(block) for block in nodes]
    out = assemble(
        points,
        np.repeat([_TYPES[kind][0] for kind in kinds], count),
        np.repeat([len(_TYPES[kind][1]) for kind in kinds], count),
        np.concatenate([np.empty(0, int), *(n[:, _TYPES[k][1]].ravel() for k, n in zip(kinds, nodes, strict=True))]),
    )
    still = []
    own = [mesh["NOE"], *(mesh["MAI"][kind] for kind in kinds)]
    of = [g["FAM"][()] if "FAM" in g else np.zeros(n, int) for g, n in zip(own, [len(points), *count], strict=True)]
    for tags, arrays in ((of[0], out.point_data), (np.concatenate([np.empty(0, int), *of[1:]]), out.cell_data)):
        masks: dict[str, Array] = {}
        for family in np.unique(tags).tolist():
            for name in families.get(family, ()):
                masks[name] = masks.get(name, np.zeros(len(tags), dtype=bool)) | (tags == family)
        still += add_masks(arrays, masks)
    return out, still


def _families(file: Any, mesh: str) -> dict[int, list[str]]:
    """Names of the groups of each family."""
    out: dict[int, list[str]] = {}
    families = file["FAS"][mesh] if mesh in file.get("FAS", ()) else {}
    for kind in ("NOEUD", "ELEME"):
        for family in families.get(kind, {}).values():
            rows = family["GRO"]["NOM"][()] if "GRO" in family else []
            names = [bytes(np.asarray(row, dtype=np.int8).tobytes()).split(b"\0")[0].decode().strip() for row in rows]
            out[int(family.attrs["NUM"])] = names
    return out


def _add_field(data: MeshData, name: str, step: Any, mesh: Any, kinds: list[str], profiles: Any) -> None:
    """Add what a step of a field says of points and of cells."""
    blocks: dict[str, Array] = {}
    for support, content in step.items():
        place, _, kind = support.partition(".")
        profile = content.attrs.get("PFL", _WHOLE.encode())
        profile = profile.decode() if isinstance(profile, bytes) else str(profile)
        if profile not in content:
            raise InputError(f"field '{name}' has a profile '{profile}' that the file does not hold")
        values = content[profile]["CO"][()]
        inner = int(content[profile].attrs.get("NGA", 1))
        size = data.num_points if place == "NOE" and not kind else len(mesh["MAI"][kind]["NOD"]) // len(_TYPES[kind][1])
        rows = np.arange(size) if profile == _WHOLE else profiles[profile]["PFL"][()] - 1
        values = np.moveaxis(values.reshape(-1, len(rows), inner), 0, 2)  # [rows, inner, components]
        values = values[:, 0] if inner == 1 else values
        values = values[..., 0] if values.shape[-1] == 1 else values
        if len(rows) < size:
            full = np.full((size, *values.shape[1:]), nan)
            full[rows] = values
            values = full
        if not kind:
            data.point_data[name] = values
        elif kind in kinds:
            if kind in blocks:
                raise InputError(
                    f"field '{name}' has several values on the cells {kind}; save them as their own fields"
                )
            blocks[kind] = values
    if blocks:
        shape = max((block.shape[1:] for block in blocks.values()), key=len)
        if any(block.shape[1:] != shape for block in blocks.values()):
            raise InputError(f"field '{name}' has not as many values on all types of cells; save it on each by itself")
        codes = data.cell_type.numpy()
        whole = np.full((len(codes), *shape), nan)
        for kind, block in blocks.items():
            whole[codes == _TYPES[kind][0]] = block
        data.cell_data[name] = whole


def write_med(path: Path, data: MeshData, binary: bool) -> None:
    """Write MED: masks become groups; other values become float64 and are those of time 0.

    Raises:
        InputError: MED has no such cell, it would number the cells in another order, or h5py is missing.
    """
    data.validate()
    codes = data.cell_type.unique_consecutive().tolist()
    for code in codes:
        if code not in _NAMES:
            raise InputError(f"MED has no {cell_name(code)}; write VTU instead")
    names = [_NAMES[code] for code in codes]
    if names != sorted(set(names)):
        raise InputError("MED numbers the cells by type, in the order of its names, not as the mesh; write VTU instead")
    groups = [masks_of(data.point_data), masks_of(data.cell_data)]
    long = [name for masks in groups for name in masks if len(name.encode()) > 80 or not name.isascii()]
    fields = [
        {name: a for name, a in arrays.items() if name not in masks}
        for arrays, masks in zip((data.point_data, data.cell_data), groups, strict=True)
    ]
    bad = [
        n for one in fields for n, a in one.items() if not isinstance(a, torch.Tensor) or "/" in n or not n.strip(".")
    ]
    twice = [n for n in fields[0] if n in fields[1]]  # which MED would hold as one field
    warn_left_out("MED", [*long, *bad, *twice])
    with hdf5():
        import h5py  # noqa: F401 (meshio imports it)
        import meshio
    cells, at = [], 0
    for code, count in zip(*(t.tolist() for t in data.cell_type.unique_consecutive(return_counts=True)), strict=True):
        order = _TYPES[_NAMES[code]][1]
        nodes = data.cell_index[at : at + len(order) * count].reshape(count, -1).numpy()[:, order]
        cells.append((meshio.med._med.med_to_meshio_type[_NAMES[code]], nodes))
        at += nodes.size
    cuts = np.cumsum([len(nodes) for _, nodes in cells])[:-1]
    point_data, cell_data = (
        {n: to_numpy(a, n).astype(float) for n, a in one.items() if n not in (*bad, *twice)} for one in fields
    )
    out = meshio.Mesh(
        to_numpy(data.points, "points").astype(float),
        cells,
        point_data,
        {name: np.split(values, cuts)[: len(cells)] for name, values in cell_data.items()},
    )
    for masks, sign, key in ((groups[0], 1, "point_tags"), (groups[1], -1, "cell_tags")):
        kept = {name: mask.numpy() for name, mask in masks.items() if name not in long}
        if not kept:
            continue
        rows, family = np.unique(np.stack(list(kept.values()), axis=1), axis=0, return_inverse=True)
        number = np.where(rows.any(axis=1), sign * np.arange(1, len(rows) + 1), 0)
        tags = {
            int(n): [m for m, on in zip(kept, row, strict=True) if on] for n, row in zip(number, rows, strict=True) if n
        }
        setattr(out, key, tags)
        if key == "point_tags":
            out.point_data[key] = number[family.ravel()]
        else:
            out.cell_data[key] = np.split(number[family.ravel()], cuts)[: len(cells)]
    with hdf5():
        meshio.med.write(path, out)


@contextmanager
def hdf5(what: str = "it is no valid HDF5 file") -> Iterator[None]:
    """Put into one sentence what HDF5 stumbles over, and what to install where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(f'it needs {error.name}; pip install "meshop[data]"') from error
    except OSError as error:
        raise InputError(f"{what}: {' '.join(str(error).split())}") from error
