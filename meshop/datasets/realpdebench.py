"""Four published sets of RealPDEBench: flows and a flame, measured and simulated, as trajectories."""

from __future__ import annotations

import os
import re
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from meshop.data import Field, InputError, MeshData
from meshop.datasets.lazy import LazyDataset, Window
from meshop.datasets.official import grid_mesh
from meshop.io.arrays import Array, open_hdf5, read_arrow, read_json

SUBSETS = {"in_dist_test_params": "in_dist", "out_dist_test_params": "out_dist", "remain_params": "seen"}


class RealPDEBench(LazyDataset, ABC):
    """Windows of measured or simulated trajectories; a subclass is one of the experiments.

    Their index files say where windows begin and to which split they belong. The trajectories are Arrow files in
    ``root/raw/hf_dataset`` or, where there are none, HDF5 files.

    The grid has ``shape`` (H, W), rows by columns of the picture; node (i, j) lies at (j, i) / W, in widths of the
    picture, since the files have no coordinates.

    Attributes:
        measured: the field that is measured, and simulated too.
        columns: the arrays of its components.
        simulated: the field that is only simulated.
        column: its array.
        steps: frames that the authors' models see, and that they predict.
        strides: every how many points of an HDF5 file the authors take, in measured and in simulated ones.
    """

    measured: ClassVar[Field] = Field("velocity", "point", 2)
    columns: ClassVar[tuple[str, ...]] = ("u", "v")
    simulated: ClassVar[Field] = Field("p", "point")
    column: ClassVar[str] = "p"
    steps: ClassVar[int] = 20
    strides: ClassVar[tuple[int, int]] = (2, 2)

    def __init__(
        self,
        root: str | os.PathLike[str],
        kind: Literal["real", "numerical"] = "real",
        T_in: int | None = None,
        T_out: int | None = None,
        unmeasured: bool = False,
        space_stride: int | None = None,
        position: bool = True,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
    ) -> None:
        if kind not in ("real", "numerical"):
            raise InputError(f"Expected the kind real or numerical (got '{kind}')")
        if space_stride is not None and space_stride < 1:
            raise InputError(f"Expected a space_stride of 1 or more (got {space_stride})")
        self.kind = kind
        self.unmeasured = unmeasured
        self.space_stride = space_stride
        self._extents: dict[str, tuple[int, ...]] = {}
        super().__init__(root, T_in or self.steps, T_out or self.steps, position, transform, pre_transform)
        self.splits |= self._subsets()

    @property
    def raw_file_names(self) -> list[str]:
        arrow = Path("hf_dataset", self.kind)
        hdf5 = Path(self.raw_dir, self.kind).is_dir() and not Path(self.raw_dir, arrow).is_dir()
        return [f"hf_dataset/train_index_{self.kind}.json", self.kind if hdf5 else str(arrow)]

    def open(self) -> tuple[MeshData, Sequence[Field], Mapping[str, Sequence[Window]]]:
        train, store = map(Path, self.raw_paths)
        self._rows = _arrow_rows(store) if store.parent == train.parent else None
        self.stride = self.space_stride or (1 if self._rows is not None else self.strides[self.kind == "numerical"])
        length = self.T_in + self.T_out
        windows: dict[str, list[Window]] = {}
        for part in ("train", "val", "test"):
            path = train.with_name(f"{part}_index_{self.kind}.json")
            entries = _read_index(path) if path.exists() else []
            found = [(name, range(i, i + 1)) for name, i in entries if i + length <= self.extent(name)[0]]
            windows |= {part: found} if found else {}
        if "train" not in windows:
            raise InputError(f"Expected windows of {length} frames in '{train}' (no trajectory has so many after one)")
        _, *size = self.extent(windows["train"][0][0])
        height, width = (-(-n // self.stride) for n in size)
        y, x = np.meshgrid(np.arange(height) / width, np.arange(width) / width, indexing="ij")
        fields = (self.measured, self.simulated) if self.unmeasured else (self.measured,)
        return grid_mesh(np.stack([x, y], axis=-1)), fields, windows

    def frames(self, trajectory: str, start: int, stop: int) -> dict[str, Array]:
        parts = [self.read(trajectory, column, start, stop) for column in self.columns]
        fields = {self.measured.name: np.stack(parts, axis=-1)}
        if self.unmeasured and self.kind == "numerical":
            fields[self.simulated.name] = self.read(trajectory, self.column, start, stop)
        elif self.unmeasured:
            fields[self.simulated.name] = np.zeros((*parts[0].shape, self.simulated.components), np.float32)
        return fields

    def read(self, trajectory: str, column: str, start: int, stop: int) -> Array:
        """Frames of one array of a trajectory: [T, H, W], or [T, H, W, C]."""
        space = slice(None, None, self.stride)
        if self._rows is None:
            path, key = self.place(trajectory, column)
            with open_hdf5(path, key) as file:
                return file[key][start:stop, space, space]
        components = self.simulated.components if column == self.column else 1
        return _arrow_array(self._rows[trajectory], column, components)[start:stop, space, space]

    def place(self, trajectory: str, column: str) -> tuple[Path, str]:
        """The HDF5 file of an array, and its key."""
        return Path(self.raw_dir, self.kind, f"{trajectory}.h5"), f"measured_data/{column}"

    def extent(self, trajectory: str) -> tuple[int, ...]:
        """Frames, rows and columns of a trajectory, before ``space_stride``."""
        if trajectory not in self._extents:
            if self._rows is None:
                path, key = self.place(trajectory, self.columns[0])
                with open_hdf5(path, key) as file:
                    extent = file[key].shape
            elif trajectory in self._rows:
                extent = self._rows[trajectory].shape
            else:
                raise InputError(
                    f"Expected the trajectory '{trajectory}' of the index files in '{self.raw_paths[1]}' (it has "
                    f"{len(self._rows)} others)"
                )
            self._extents[trajectory] = extent
        return self._extents[trajectory]

    def _subsets(self) -> dict[str, list[int]]:
        """Parts of ``test`` by trajectory, where the files that tell them are there."""
        parts: dict[str, list[int]] = {}
        for file, subset in SUBSETS.items():
            path = Path(self.raw_dir, f"{file}_{self.kind}.json")
            if path.exists():
                names = {str(name).removesuffix(".h5") for name in read_json(path)}
                parts[f"test_{subset}"] = [i for i in self.splits.get("test", []) if self.windows[i][0] in names]
        if {"test_in_dist", "test_out_dist"} <= parts.keys():
            parts["test_unseen"] = sorted({*parts["test_in_dist"], *parts["test_out_dist"]})
        return parts


class _Row(NamedTuple):
    path: str
    batch: int
    number: int
    shape: tuple[int, int, int]


def _read_index(path: Path) -> list[tuple[str, int]]:
    """Trajectory and first frame of each window of an index file."""
    content = read_json(path)
    try:
        return [(str(entry["sim_id"]).removesuffix(".h5"), int(entry["time_id"])) for entry in content]
    except (TypeError, KeyError, ValueError) as error:
        raise InputError(f"Expected a list of windows with sim_id and time_id in '{path}'") from error


def _arrow_rows(directory: Path) -> dict[str, _Row]:
    """The trajectories of the Arrow files of a directory, and where each lies."""
    rows = {}
    for path in sorted(map(str, directory.glob("*.arrow"))):
        for number, batch in enumerate(read_arrow(path)):
            names = ("sim_id", "shape_t", "shape_h", "shape_w")
            if missing := [name for name in names if name not in batch.schema.names]:
                raise InputError(
                    f"Expected {', '.join(missing)} in '{path}' (it has {', '.join(batch.schema.names)}); data before "
                    "version 2, with one row a window, are not read"
                )
            for i, (name, *shape) in enumerate(zip(*(batch.column(c).to_pylist() for c in names), strict=True)):
                rows[str(name).removesuffix(".h5")] = _Row(path, number, i, tuple(shape))
    return rows


def _arrow_array(row: _Row, column: str, components: int) -> Array:
    """An array [T, H, W], or [T, H, W, C] of several components, of a row; it is read from disk when it is used."""
    batch = read_arrow(row.path)[row.batch]
    if column not in batch.schema.names:
        raise InputError(f"Expected {column} in '{row.path}' (it has {', '.join(batch.schema.names)})")
    values = np.frombuffer(batch.column(column)[row.number].as_buffer(), dtype=np.uint8)
    shape = row.shape if components == 1 else (*row.shape, components)
    if values.size != 4 * np.prod(shape):
        raise InputError(f"Expected {column} of {list(shape)} float32 in '{row.path}' (got {values.size} bytes)")
    return values.view(np.float32).reshape(shape)


class ControlledCylinder(RealPDEBench):
    r"""The wake of a cylinder that is shaken, measured and simulated: 96 trajectories each, of 3,990 frames.

    =============== ======== ======== ======== =======================================================
    field           role     channels unit     meaning
    =============== ======== ======== ======== =======================================================
    velocity_in     input    2 T_in            u, v of each frame of a window
    reynolds        param    1        1        Reynolds number, from the name of the trajectory
    frequency       param    1        Hz       of the shaking, from the name of the trajectory
    velocity_out    target   2 T_out           u, v of each of the frames that follow
    p_in, p_out              T                 pressure, with ``unmeasured``
    =============== ======== ======== ======== =======================================================

    Frames are 2.5 ms apart. Of the four sets this is the only one whose parameters the authors give to their models.

    The splits are those of the index files: ``train``, ``val``, ``test``; and, where the files that tell them are
    there, the parts of ``test`` with parameters that training saw and did not see: ``test_seen``, ``test_unseen``,
    ``test_in_dist``, ``test_out_dist``. Windows that do not lie in their trajectory are left out.

    Args:
        root: directory of the data set; the files belong into ``root/raw``.
        kind: ``real``, measured, or ``numerical``, simulated.
        T_in, T_out: frames that the model sees and predicts; by default the authors' 10.
        unmeasured: whether there is the field that only the simulation has; 0 in measured data, as the authors do.
        space_stride: every how many points of an axis one is taken; by default all of Arrow files, which have been
            thinned already, and as many of HDF5 files as the authors take: all measured and every second simulated.
        position, transform, pre_transform: see :class:`~meshop.datasets.LazyDataset`.

    Raises:
        InputError: the files are missing, damaged or have another layout; a trajectory has another name or is missing;
            no window lies in its trajectory.
    """

    needs = (
        "hf_dataset/{train,val,test}_index_{real,numerical}.json and, of 187 GB, the Arrow files of "
        "hf_dataset/{real,numerical} or the HDF5 files of {real,numerical}"
    )
    source = "controlled_cylinder of the Hugging Face data set AI4Science-WestlakeU/RealPDEBench"
    dt = 2.5e-3
    params = ("reynolds", "frequency")
    steps = 10
    strides = (1, 2)

    def condition(self, trajectory: str) -> Sequence[float]:
        match = re.fullmatch(r"(\d+)_(\d+\.?\d*)", trajectory)
        if not match:
            raise InputError(
                f"Expected a trajectory called by Reynolds number and frequency, 1781_0.5 say (got '{trajectory}')"
            )
        return [float(match[1]), float(match[2])]


class FSI(RealPDEBench):
    r"""Two cylinders in a row, the second on a spring, measured and simulated: 51 trajectories each, of 2,173 frames.

    =============== ======== ======== ==== ==========================================
    field           role     channels unit meaning
    =============== ======== ======== ==== ==========================================
    velocity_in     input    2 T_in        u, v of each frame of a window
    velocity_out    target   2 T_out       u, v of each of the frames that follow
    p_in, p_out              T             pressure, with ``unmeasured``
    =============== ======== ======== ==== ==========================================

    Frames are 2 ms apart. Splits as in :class:`ControlledCylinder`.

    Args:
        root: directory of the data set; the files belong into ``root/raw``.
        kind, unmeasured: see :class:`ControlledCylinder`.
        T_in, T_out: frames that the model sees and predicts; by default the authors' 20.
        space_stride: every how many points of an axis one is taken; by default all of Arrow files, which have been
            thinned already, and every second of HDF5 files, as the authors do.
        position, transform, pre_transform: see :class:`~meshop.datasets.LazyDataset`.

    Raises:
        InputError: see :class:`ControlledCylinder`.
    """

    needs = ControlledCylinder.needs.replace("187", "95")
    source = "fsi of the Hugging Face data set AI4Science-WestlakeU/RealPDEBench"
    dt = 2e-3


class Foil(RealPDEBench):
    r"""The flow around a hydrofoil NACA 0025, measured and simulated: 99 trajectories each, of 3,990 frames.

    =============== ======== ======== ==== ==========================================
    field           role     channels unit meaning
    =============== ======== ======== ==== ==========================================
    velocity_in     input    2 T_in        u, v of each frame of a window
    velocity_out    target   2 T_out       u, v of each of the frames that follow
    p_in, p_out              T             pressure, with ``unmeasured``
    =============== ======== ======== ==== ==========================================

    Frames are 2.5 ms apart. Splits as in :class:`ControlledCylinder`.

    Args:
        root: directory of the data set; the files belong into ``root/raw``.
        kind, T_in, T_out, unmeasured, space_stride, position, transform, pre_transform: see :class:`FSI`.

    Raises:
        InputError: see :class:`ControlledCylinder`.
    """

    needs = ControlledCylinder.needs.replace("187", "336")
    source = "foil of the Hugging Face data set AI4Science-WestlakeU/RealPDEBench"
    dt = 2.5e-3


class Combustion(RealPDEBench):
    r"""A swirling flame of ammonia, methane and air, measured and simulated: 30 trajectories each, of 2,001 frames.

    ======================= ======== ======== ==== ================================================
    field                   role     channels unit meaning
    ======================= ======== ======== ==== ================================================
    intensity_in            input    T_in          light of OH*, measured or made from the simulation
    intensity_out           target   T_out         in the frames that follow
    state_in, state_out              15 T          what was simulated, with ``unmeasured``
    ======================= ======== ======== ==== ================================================

    ``state`` has, in each frame, absolute pressure, heat release, the mole fractions of CH4, CO, CO2, H2O, NH2, NH3 and
    OH, temperature, u, v, w, p and the magnitude of the velocity. Frames are 0.25 ms apart. Splits as in
    :class:`ControlledCylinder`.

    Args:
        root: directory of the data set; the files belong into ``root/raw``. The intensity of simulated trajectories is
            in HDF5 files of their own, in ``surrogate``.
        kind, T_in, T_out, unmeasured, space_stride, position, transform, pre_transform: see :class:`FSI`.

    Raises:
        InputError: see :class:`ControlledCylinder`.
    """

    needs = ControlledCylinder.needs.replace("187", "110") + " and of surrogate"
    source = "combustion of the Hugging Face data set AI4Science-WestlakeU/RealPDEBench"
    dt = 2.5e-4
    measured = Field("intensity", "point")
    columns = ("observed",)
    simulated = Field("state", "point", 15)
    column = "numerical"

    def place(self, trajectory: str, column: str) -> tuple[Path, str]:
        directory = "surrogate" if (self.kind, column) == ("numerical", "observed") else self.kind
        return Path(
            self.raw_dir, directory, f"{trajectory}.h5"
        ), "trajectory" if self.kind == "real" else "measured_data"
