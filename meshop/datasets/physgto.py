"""The published transient sets of PhysGTO: a file a case, each on a mesh of its own."""

from __future__ import annotations

import os
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import torch

from meshop.data import Arrays, Field, InputError, MeshData
from meshop.datasets.lazy import LazyDataset, Starts, Window, place_windows
from meshop.datasets.official import check_shape, numbered_mesh
from meshop.datasets.origin import origin
from meshop.io.arrays import Array, open_hdf5, read_hdf5


class PhysGTODataset(LazyDataset, ABC):
    """Windows of transient fields on triangles, one HDF5 file a case, listed in ``train.txt`` and ``test.txt``.

    A file has ``cells`` [C, 3] from 0, ``node_pos`` [N, 2], ``node_type`` [N], ``t`` [frames, 1] and each field
    [frames, N]. A line of a list is the path of a file, seen from ``root/raw``; of a path that is not there, as
    those of the authors' machine, the name counts. The mesh and the frames of a window are read when it is taken.

    Args:
        root: directory of the data set; the lists and the files belong into ``root/raw``.
        fields: names of those that enter and are predicted; by default those of CANO's table.
        T_in: frames that the model sees.
        T_out: frames that it predicts.
        train_starts: where the windows of a case for training begin, frames of the file: ``random``, one that is
            drawn anew each time, ``all`` that have room, or these, from 0; by default one window, at ``first``.
        test_starts: the same for testing.
        position, transform, pre_transform: see :class:`~meshop.datasets.LazyDataset`.

    Attributes:
        units: the fields of a file and their units.
        zero: what is subtracted from a field.
        used: those of CANO's table.
        first, last: the frames that the authors use, from the first to before the last; all without a last.
        numbers: names of the ``conditions`` of a case that the files have.
    """

    needs = "train.txt, test.txt and the cases that they list"
    static = (Field("boundary", "point"),)
    units: ClassVar[dict[str, str]]
    zero: ClassVar[dict[str, float]] = {}
    used: ClassVar[tuple[str, ...]]
    first: ClassVar[int] = 0
    last: ClassVar[int | None] = None
    numbers: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        root: str | os.PathLike[str],
        fields: Sequence[str] | None = None,
        T_in: int = 5,
        T_out: int = 5,
        train_starts: Starts | None = None,
        test_starts: Starts | None = None,
        position: bool = True,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
    ) -> None:
        self.fields = list(self.used if fields is None else fields)
        if not self.fields or not set(self.fields) <= set(self.units):
            raise InputError(f"Expected fields of {', '.join(self.units)} (got {', '.join(self.fields) or 'none'})")
        self.train_starts = (self.first,) if train_starts is None else train_starts
        self.test_starts = (self.first,) if test_starts is None else test_starts
        super().__init__(root, T_in, T_out, position, transform, pre_transform)

    @property
    def raw_file_names(self) -> list[str]:
        return ["train.txt", "test.txt"]

    @property
    def origin(self) -> str:
        return origin(self.raw_dir, [*self.raw_paths, *self.cases.values()])

    def open(self) -> tuple[MeshData, Sequence[Field], Mapping[str, Sequence[Window]]]:
        self.cases: dict[str, Path] = {}
        windows: dict[str, list[Window]] = {}
        for part, path, starts in zip(
            ("train", "test"), self.raw_paths, (self.train_starts, self.test_starts), strict=True
        ):
            names = [
                self._find(line, path) for line in filter(None, map(str.strip, Path(path).read_text().splitlines()))
            ]
            windows[part] = [window for name in names for window in self._place(name, starts)]
        fields = [Field(name, "point", unit=self.units[name]) for name in self.fields]
        return self._mesh(next(iter(self.cases))), fields, windows

    def grid(self, trajectory: str) -> MeshData:
        return self.pre_transform(self._mesh(trajectory))

    def times(self, trajectory: str, start: int, stop: int) -> Array:
        [t] = read_hdf5(self.cases[trajectory], "t", rows=slice(start, stop))
        return t[:, 0]

    def frames(self, trajectory: str, start: int, stop: int) -> dict[str, Array]:
        arrays = read_hdf5(self.cases[trajectory], *self.fields, rows=slice(start, stop))
        return {name: array - self.zero.get(name, 0) for name, array in zip(self.fields, arrays, strict=True)}

    def condition(self, trajectory: str) -> Sequence[float]:
        [values] = read_hdf5(self.cases[trajectory], "conditions")
        check_shape(values, (len(self.numbers),), "conditions", self.cases[trajectory])
        return [float(value) for value in values]

    def _find(self, line: str, listed: str) -> str:
        """The name of the case of a line of a list.

        Raises:
            InputError: its file is not there; two cases have one name.
        """
        places = [Path(self.raw_dir, line), Path(self.raw_dir, Path(line).name)]
        place = next((p for p in places if p.is_file()), None)
        if place is None:
            raise InputError(f"'{listed}' lists {line}, but there is no '{places[1]}'; put the file there")
        if self.cases.setdefault(place.stem, place) != place:
            raise InputError(f"Expected cases of different names (got '{self.cases[place.stem]}' and '{place}')")
        return place.stem

    def _place(self, name: str, starts: Starts) -> list[Window]:
        """The windows of a case; those that are ``random`` or ``all`` lie in the frames that the authors use."""
        path, length = self.cases[name], self.T_in + self.T_out
        with open_hdf5(path, "t", *self.fields) as file:
            check_shape(file["t"], (None, 1), "t", path)
            count = len(file["t"])
        first = self.first if isinstance(starts, str) else 0
        count = count if self.last is None or not isinstance(starts, str) else min(count, self.last)
        needed = length + (first if isinstance(starts, str) else max(starts, default=0))
        if count < needed:
            raise InputError(f"Expected at least {needed} frames in '{path}' (got {count})")
        return [
            (name, range(window.start + first, window.stop + first))
            for _, window in place_windows([name], count - first, length, starts)
        ]

    def _mesh(self, name: str) -> MeshData:
        """The mesh of a case, with what does not change."""
        path = self.cases[name]
        cells, pos, kind = read_hdf5(path, "cells", "node_pos", "node_type")
        check_shape(cells, (None, 3), "cells", path)
        check_shape(pos, (None, 2), "node_pos", path)
        check_shape(kind, (len(pos),), "node_type", path)
        mesh = numbered_mesh(pos, cells, str(path), first=0)
        node_type = torch.from_numpy(kind.astype("int64"))
        mesh.point_data = Arrays({"node_type": node_type, "boundary": (node_type != 0).float()})
        if self.numbers:
            mesh.field_data = Arrays({"conditions": torch.tensor(self.condition(name))})
        return mesh


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
    five numbers     param    1             with ``conditions``: ``inflow``, mean velocity there;
                                            ``warmth`` of the cylinders above the rest, in kelvins;
                                            their ``distance``, ``radius`` and ``angle`` in degrees
    ================ ======== ======== ==== =======================================================

    The files also have ``p`` and ``T``: PhysGTO predicts all four, ``fields=("u", "v", "p", "T")``. T is in kelvins
    above 293.15, as in PhysGTO's errors; the file's own zero would flatter them.

    Frames are 0.02 apart, and 501 from 25 on are used. One item is a window, with its ``times``. CANO trains on random
    windows of 5 frames to 5, ``train_starts="random"``, and tests on 5 to 5 and 5 to 50, ``T_out=50``.
    ``field_data["conditions"]`` [5] holds the numbers of the case; the authors' models do not see them.

    The authors' training replaces the prediction on the nodes of ``boundary`` by the truth at each step, as
    ``--rollout.forced boundary`` does.

    740 cases are listed in ``train.txt`` and 132 in ``test.txt``, each a file.

    Args:
        root: directory of the data set; the lists and the files belong into ``root/raw``.
        fields: of u, v, p and T, those that enter and are predicted; by default u and v.
        T_in: frames that the model sees.
        T_out: frames that it predicts.
        train_starts: where the windows of a case for training begin, frames of the file: ``random``, one that is
            drawn anew each time, ``all`` that have room, or these, from 0; by default one window, at 25.
        test_starts: the same for testing.
        conditions: whether the model is given the five numbers.
        position, transform, pre_transform: see :class:`~meshop.datasets.LazyDataset`.

    Raises:
        InputError: a file is missing, damaged or has another layout; there is no such field or window.
    """

    units: ClassVar[dict[str, str]] = {"u": "", "v": "", "p": "", "T": "K"}
    zero: ClassVar[dict[str, float]] = {"T": 293.15}
    used = ("u", "v")
    first, last = 25, 526
    numbers = ("inflow", "warmth", "distance", "radius", "angle")
    source = "them as github.com/pengwei07/PhysGTO says (872 files of about 40 MB)"

    def __init__(
        self,
        root: str | os.PathLike[str],
        fields: Sequence[str] | None = None,
        T_in: int = 5,
        T_out: int = 5,
        train_starts: Starts | None = None,
        test_starts: Starts | None = None,
        conditions: bool = False,
        position: bool = True,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
    ) -> None:
        self.params = self.numbers if conditions else ()
        super().__init__(root, fields, T_in, T_out, train_starts, test_starts, position, transform, pre_transform)


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

    One item is a window, with its ``times``. CANO trains on random windows of 5 frames to 5,
    ``train_starts="random"``, and tests on 5 to 5 and 5 to 50, ``T_out=50``. 499 cases are listed in ``train.txt`` and
    150 in ``test.txt``. Units are not published.

    Args:
        root: directory of the data set; the lists and the files belong into ``root/raw``.
        fields: of n_e, T_e, v and T_n, those that enter and are predicted; by default all.
        T_in: frames that the model sees.
        T_out: frames that it predicts.
        train_starts, test_starts: see :class:`HeatFlow`; by default one window, at 0.
        position, transform, pre_transform: see :class:`~meshop.datasets.LazyDataset`.

    Raises:
        InputError: a file is missing, damaged or has another layout; there is no such field or window.
    """

    units: ClassVar[dict[str, str]] = {"n_e": "", "T_e": "", "v": "", "T_n": ""}
    used = ("n_e", "T_e", "v", "T_n")
    source = "them from the authors of github.com/pengwei07/PhysGTO"
