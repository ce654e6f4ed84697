"""Two published sets of REALM: an ignition in turbulence and an evolving jet flame, as trajectories."""

from __future__ import annotations

import os
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from meshop.data import Field, InputError, MeshData
from meshop.datasets.lazy import LazyDataset, Starts, Window, place_windows
from meshop.datasets.official import check_shape, grid_mesh
from meshop.io.arrays import Array, read_npy, read_npz
from meshop.io.files import whole_file
from meshop.transforms import BoxCox

STATE = {"T": ["T"], "rho": ["rho"], "velocity": ["Ux", "Uy"], "p": ["p", "pMax"]}  # what is no species
UNITS = {"T": "K", "rho": "kg/m^3", "velocity": "m/s", "p": "Pa"}


class REALM(LazyDataset, ABC):
    """Windows of trajectories of a reacting flow on one grid; a subclass is one of the cases.

    ``data.npz`` names variables, coordinates and the trajectories of each split. A trajectory is a compressed file
    ``{train,val,test}/GROUP.npz``, which is unpacked to ``root/processed`` when it is first used, so that later only
    the frames of a window are read.

    Attributes:
        box_cox: what is done to the species, ``None`` where ``lam`` is; its ``inverse`` gives mass fractions.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        T_in: int = 1,
        T_out: int = 1,
        train_starts: Starts = "all",
        test_starts: Starts = "all",
        lam: float | None = 0.1,
        position: bool = True,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
    ) -> None:
        self.train_starts = train_starts
        self.test_starts = test_starts
        self.lam = lam
        self.box_cox = None if lam is None else BoxCox(["species_in", "species_out"], lam)
        super().__init__(root, T_in, T_out, position, transform, pre_transform)

    @property
    def raw_file_names(self) -> list[str]:
        return ["data.npz"]

    def open(self) -> tuple[MeshData, Sequence[Field], Mapping[str, Sequence[Window]]]:
        path = self.raw_paths[0]
        parts = ("train", "val", "test")
        coords, times, variables, *groups = read_npz(
            path, "coords", "times", "variables", *(f"{part}_groups" for part in parts)
        )
        check_shape(coords, (2, None, None), "coords", path)
        names = [str(name).removesuffix(".npy") for name in variables]
        known = {"species": [n for n in names if not any(n in group for group in STATE.values())]}
        known |= {field: [n for n in group if n in names] for field, group in STATE.items()}
        self._columns = {field: [names.index(n) for n in group] for field, group in known.items() if group}
        self._parts = {str(name): part for part, group in zip(parts, groups, strict=True) for name in group}
        self._variables = len(names)
        length, starts = self.T_in + self.T_out, {"train": self.train_starts}
        windows = {
            part: place_windows([str(name) for name in group], len(times), length, starts.get(part, self.test_starts))
            for part, group in zip(parts, groups, strict=True)
        }
        mesh = grid_mesh(np.moveaxis(coords, 0, -1))
        mesh.field_data["species"] = np.array(known["species"])
        fields = [Field(f, "point", len(columns), UNITS.get(f, "")) for f, columns in self._columns.items()]
        return mesh, fields, windows

    def frames(self, trajectory: str, start: int, stop: int) -> dict[str, Array]:
        array = np.moveaxis(self._array(trajectory)[start:stop], 1, -1)  # [T, H, W, C]
        fields = {field: array[..., columns] for field, columns in self._columns.items()}
        if self.box_cox and "species" in fields:
            fields["species"] = self.box_cox.encode(torch.tensor(fields["species"])).numpy()
        return fields

    def _array(self, trajectory: str) -> Array:
        """The variables of a trajectory [T, C, H, W], read from disk when they are used."""
        part = self._parts[trajectory]
        packed = Path(self.raw_dir, part, f"{trajectory}.npz")
        unpacked = Path(self.processed_dir, part, f"{trajectory}.npy")
        if not packed.exists():
            raise InputError(f"There is no file '{packed}', a trajectory of '{self.raw_paths[0]}'; get {self.source}")
        if not unpacked.exists() or unpacked.stat().st_mtime < packed.stat().st_mtime:
            [array] = read_npz(packed, "data")
            check_shape(array, (None, self._variables, None, None), "data", packed)
            with whole_file(unpacked) as file, file.open("wb") as opened:
                np.save(opened, array)
        return read_npy(unpacked)


class IgnitHIT(REALM):
    r"""Hydrogen that is ignited in turbulence, 36 trajectories of 30 frames on 128 x 128 points, of REALM.

    .. math::
        \partial_t q + \nabla \cdot F(q) = \nabla \cdot D(q, \nabla q) + S(q), \qquad
        q = (\rho, \rho u, \rho e, \rho Y_1, \dots, \rho Y_n)

    ============ ================ ======== ====== ==================================================
    field        role             channels unit   meaning
    ============ ================ ======== ====== ==================================================
    species      input, target    8 T             mass fractions of H, H2, H2O, H2O2, HO2, O, O2, OH
                                                  after :class:`~meshop.transforms.BoxCox`
    T            input, target    T        K      temperature
    rho          input, target    T        kg/m^3 density
    velocity     input, target    2 T      m/s    Ux, Uy
    ============ ================ ======== ====== ==================================================

    each as ``NAME_in``, ``T_in`` frames, and ``NAME_out``, the ``T_out`` that follow. Frames are 0.01 ms apart; the
    field is 50 mm wide. ``field_data["species"]`` names the species; channels are found by the names of the file.

    The papers train from one frame to the next, roll out from frame 0 of each test trajectory to its end, and report
    the mean squares of species, temperature, density and velocity, each standardised, and their sum. Splits are those
    of the file: 26 trajectories ``train``, 5 ``val``, 5 ``test``.

    Args:
        root: directory of the data set; the files belong into ``root/raw``.
        T_in, T_out: frames that the model sees and predicts.
        train_starts: where the windows of a trajectory for training begin: ``all`` frames with room for one,
            ``random``, one that is drawn anew each time, or these.
        test_starts: the same for validation and testing.
        lam: power of the Box-Cox transformation of the species; ``None`` leaves mass fractions.
        position, transform, pre_transform: see :class:`~meshop.datasets.LazyDataset`.

    Raises:
        InputError: a file is missing, damaged or has another layout; a window does not lie in the frames.
    """

    needs = "data.npz and the directories train, val and test with {26, 5, 5} files GROUP.npz (23.6 MB each, unpacked)"
    source = "IgnitHIT of REALM (realm-bench.org)"
    dt = 1e-5


class EvolveJet(REALM):
    r"""An evolving jet flame, 30 trajectories of 40 frames on 256 x 256 points, of REALM.

    .. math::
        \partial_t q + \nabla \cdot F(q) = \nabla \cdot D(q, \nabla q) + S(q), \qquad
        q = (\rho, \rho u, \rho e, \rho Y_1, \dots, \rho Y_n)

    Fields as in :class:`IgnitHIT`, with as many species as the file names: 35 in the published statistics, of which
    argon is zero everywhere. Frames are 5 microseconds apart. Splits are those of the file: 24 trajectories ``train``,
    3 ``val``, 3 ``test``.

    Args:
        root: directory of the data set; the files belong into ``root/raw``. Unpacked they take another 12 GB.
        T_in, T_out, train_starts, test_starts, lam: see :class:`IgnitHIT`.
        position, transform, pre_transform: see :class:`~meshop.datasets.LazyDataset`.

    Raises:
        InputError: see :class:`IgnitHIT`.
    """

    needs = "data.npz and the directories train, val and test with {24, 3, 3} files GROUP.npz (409 MB each, unpacked)"
    source = "EvolveJet of REALM (realm-bench.org)"
    dt = 5e-6
