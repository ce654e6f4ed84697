"""The published transient sets of PhysGTO: a file a case, each on a mesh of its own."""

from __future__ import annotations

import os
from abc import ABC
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from meshop.data import Arrays, Field, FieldSpec, InputError, MeshData
from meshop.datasets.official import OfficialDataset, RawFile, check_shape, numbered_mesh, tensor
from meshop.io.arrays import read_hdf5


class PhysGTODataset(OfficialDataset, ABC):
    """Windows of transient fields on triangles, one HDF5 file a case, listed in ``train.txt`` and ``test.txt``.

    A file has ``cells`` [C, 3] from 0, ``node_pos`` [N, 2], ``node_type`` [N], ``t`` [frames, 1] and each field
    [frames, N]. A line of a list is the path of a file, seen from ``root/raw``; of a path that is not there, as
    those of the authors' machine, the name counts. Only the frames of the windows are read.

    Args:
        root: directory of the data set; the lists and the files belong into ``root/raw``.
        fields: names of those that enter and are predicted; by default those of CANO's table.
        T_in: frames that the model sees.
        T_out: frames that it predicts.
        starts: the first frames of the windows of each case, from 0; by default one window, at ``first``.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    Attributes:
        units: the fields of a file and their units.
        zero: what is subtracted from a field.
        used: those of CANO's table.
        first: the first frame that the authors use.
        conditions: whether the files have the numbers of the case.
    """

    files = (RawFile("train.txt"), RawFile("test.txt"))
    units: ClassVar[dict[str, str]]
    zero: ClassVar[dict[str, float]] = {}
    used: ClassVar[tuple[str, ...]]
    first: ClassVar[int] = 0
    conditions: ClassVar[int] = 0

    def __init__(
        self,
        root: str | os.PathLike[str],
        fields: Sequence[str] | None = None,
        T_in: int = 5,
        T_out: int = 5,
        starts: Sequence[int] | None = None,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
        pre_filter: Callable[[MeshData], bool] | None = None,
        force_reload: bool = False,
    ) -> None:
        self.fields = list(self.used if fields is None else fields)
        self.T_in = T_in
        self.T_out = T_out
        self.starts = [self.first] if starts is None else list(starts)
        if not self.fields or not set(self.fields) <= set(self.units):
            raise InputError(f"Expected fields of {', '.join(self.units)} (got {', '.join(self.fields) or 'none'})")
        if min(T_in, T_out) < 1 or not self.starts or min(self.starts) < 0:
            raise InputError(
                f"Expected T_in and T_out of 1 or more, and starts from 0 on (got {T_in}, {T_out} and {self.starts})"
            )
        super().__init__(root, transform, pre_transform, pre_filter, force_reload)

    @property
    def options(self) -> dict[str, Any]:
        return super().options | {name: getattr(self, name) for name in ("fields", "T_in", "T_out", "starts")}

    @property
    def sources(self) -> list[str]:
        return [*self.raw_paths, *(path for paths in self.listed().values() for path in paths)]

    def listed(self) -> dict[str, list[str]]:
        """The files of each split.

        Raises:
            InputError: one is not there.
        """
        found: dict[str, list[str]] = {}
        for split, path in zip(("train", "test"), self.raw_paths, strict=True):
            found[split] = []
            for line in filter(None, map(str.strip, Path(path).read_text().splitlines())):
                places = [Path(self.raw_dir, line), Path(self.raw_dir, Path(line).name)]
                place = next((p for p in places if p.is_file()), None)
                if place is None:
                    raise InputError(f"'{path}' lists {line}, but there is no '{places[1]}'; put the file there")
                found[split].append(str(place))
        return found

    def read(self) -> tuple[list[MeshData], FieldSpec, dict[str, list[int]]]:
        meshes: list[MeshData] = []
        splits = {}
        for split, paths in self.listed().items():
            begin = len(meshes)
            meshes += [window for path in paths for window in self._windows(path)]
            splits[split] = list(range(begin, len(meshes)))
        spec = FieldSpec(
            targets=tuple(Field(f"{name}_out", "point", self.T_out, self.units[name]) for name in self.fields),
            inputs=(
                Field("boundary", "point"),
                *(Field(f"{name}_in", "point", self.T_in, self.units[name]) for name in self.fields),
            ),
            dim=2,
        )
        return meshes, spec, splits

    def _windows(self, path: str) -> list[MeshData]:
        """The windows of a case."""
        cells, pos, kind = read_hdf5(path, "cells", "node_pos", "node_type")
        check_shape(cells, (None, 3), "cells", path)
        check_shape(pos, (None, 2), "node_pos", path)
        check_shape(kind, (len(pos),), "node_type", path)
        mesh = numbered_mesh(pos, cells, path, first=0)
        length = self.T_in + self.T_out
        first, last = min(self.starts), max(self.starts) + length
        t, *arrays = read_hdf5(path, "t", *self.fields, rows=slice(first, last))
        if len(t) < last - first:
            raise InputError(f"Expected at least {last} frames in '{path}' (got {first + len(t)})")
        check_shape(t, (last - first, 1), "t", path)
        for name, array in zip(self.fields, arrays, strict=True):
            check_shape(array, (last - first, len(pos)), name, path)
        numbers = {}
        if self.conditions:
            [conditions] = read_hdf5(path, "conditions")
            check_shape(conditions, (self.conditions,), "conditions", path)
            numbers["conditions"] = tensor(conditions)
        node_type = torch.from_numpy(kind.astype("int64"))
        windows = []
        for start in self.starts:
            case: MeshData = mesh.__copy__()
            case.point_data = Arrays({"node_type": node_type, "boundary": (node_type != 0).float()})
            rows = slice(start - first, start - first + length)
            for name, array in zip(self.fields, arrays, strict=True):
                values = tensor(array[rows] - self.zero.get(name, 0)).T  # [N, T]
                case.point_data[f"{name}_in"] = values[:, : self.T_in]
                case.point_data[f"{name}_out"] = values[:, self.T_in :]
            case.field_data = Arrays({"t": tensor(t[rows, 0]), **numbers})
            case.name = f"{Path(path).stem}_{start:03d}"
            windows.append(case)
        return windows


class HeatFlow(PhysGTODataset):
    r"""Flow and heat around two hot cylinders in a channel, each case on a mesh of about 4,887 nodes, of PhysGTO.

    .. math::
        \partial_t u + (u \cdot \nabla) u = -\nabla p + \nu \Delta u, \qquad \nabla \cdot u = 0, \qquad
        \partial_t T + u \cdot \nabla T = \kappa \Delta T

    in a channel of 3 x 1; viscosity and diffusivity are not published.

    ================ ======== ======== ==== =======================================================
    field            role     channels unit meaning
    ================ ======== ======== ==== =======================================================
    boundary         input    1             1 on the nodes whose ``node_type`` is not 0, 0 elsewhere
    u_in, v_in       input    T_in          velocity at ``T_in`` frames from a start on
    u_out, v_out     target   T_out         velocity at the ``T_out`` frames that follow
    ================ ======== ======== ==== =======================================================

    The files also have ``p`` and ``T``: PhysGTO predicts all four, ``fields=("u", "v", "p", "T")``. T is in kelvins
    above 293.15, as in PhysGTO's errors; the file's own zero would flatter them.

    Frames are 0.02 apart. One item is a window; ``starts`` are the first frames of the windows of each case. PhysGTO
    uses 501 frames from 25 on. CANO trains on random windows of 5 frames to 5 and tests on 5 to 5 and 5 to 50:
    ``T_out=50``. ``field_data`` holds the times ``t`` of the window and ``conditions`` [5]: mean velocity of the
    inflow, temperature of the cylinders above the rest, their distance, radius and angle in degrees; the authors'
    models do not see these.

    The authors' training replaces the prediction on the nodes of ``boundary`` by the truth at each step.

    740 cases are listed in ``train.txt`` and 132 in ``test.txt``, each a file. With two fields and one window of 10
    frames all take 0.7 GB of memory.

    Args:
        root: directory of the data set; the lists and the files belong into ``root/raw``.
        fields: of u, v, p and T, those that enter and are predicted; by default u and v.
        T_in: frames that the model sees.
        T_out: frames that it predicts.
        starts: the first frames of the windows of each case, from 0; by default one window, at 25.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    Raises:
        InputError: a file is missing, damaged or has another layout; there is no such field or window.
    """

    units: ClassVar[dict[str, str]] = {"u": "", "v": "", "p": "", "T": "K"}
    zero: ClassVar[dict[str, float]] = {"T": 293.15}
    used = ("u", "v")
    first = 25
    conditions = 5
    source = "them, with the case files that they list, as github.com/pengwei07/PhysGTO says (872 files of about 40 MB)"


class ICPPlasma(PhysGTODataset):
    """An inductively coupled plasma on meshes of 3,424 nodes, of PhysGTO.

    **The layout of these files is not published.** This reads that of the same authors' heat flow, without
    ``conditions``, with the names that CANO gives the fields; we have not seen a file.

    ============================== ======== ======== ==== ================================================
    field                          role     channels unit meaning
    ============================== ======== ======== ==== ================================================
    boundary                       input    1             1 on the nodes whose ``node_type`` is not 0
    n_e_in, T_e_in, v_in, T_n_in   input    T_in          electrons' density and temperature, velocity and
                                                          temperature of the neutrals, from a start on
    n_e_out, ...                   target   T_out         the same at the ``T_out`` frames that follow
    ============================== ======== ======== ==== ================================================

    One item is a window; ``starts`` are the first frames of the windows of each case. CANO trains on random windows of
    5 frames to 5 and tests on 5 to 5 and 5 to 50. ``field_data`` holds the times ``t`` of the window. 499 cases are
    listed in ``train.txt`` and 150 in ``test.txt``. Units are not published.

    Args:
        root: directory of the data set; the lists and the files belong into ``root/raw``.
        fields: of n_e, T_e, v and T_n, those that enter and are predicted; by default all.
        T_in: frames that the model sees.
        T_out: frames that it predicts.
        starts: the first frames of the windows of each case, from 0; by default one window, at 0.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    Raises:
        InputError: a file is missing, damaged or has another layout; there is no such field or window.
    """

    units: ClassVar[dict[str, str]] = {"n_e": "", "T_e": "", "v": "", "T_n": ""}
    used = ("n_e", "T_e", "v", "T_n")
    source = "them, with the case files that they list, from the authors of github.com/pengwei07/PhysGTO"
