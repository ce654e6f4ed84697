"""Three published sets of FactFormer: Kolmogorov flow, isotropic turbulence and rising smoke, as trajectories."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from meshop.data import Field, InputError, MeshData
from meshop.datasets.lazy import LazyDataset, Starts, Window, place_windows
from meshop.datasets.official import check_shape, grid_mesh, split_rows
from meshop.io.arrays import Array, read_npy, read_npz


class FactFormerDataset(LazyDataset, ABC):
    """Trajectories of a fluid in a box: a subclass names the box and the fields, and reads the frames.

    Attributes:
        fields: of one frame.
        side: length of the box.
        centres: whether the values belong to the centres of cells, and not to points from 0 on.
        train, test: how many trajectories are for training, the first, and for testing, the last.
    """

    fields: ClassVar[tuple[Field, ...]]
    side: ClassVar[float]
    centres: ClassVar[bool] = False
    train: ClassVar[int]
    test: ClassVar[int]

    def __init__(
        self,
        root: str | os.PathLike[str],
        T_in: int,
        T_out: int,
        train_starts: Starts,
        test_starts: Starts,
        time_stride: int = 1,
        space_stride: int = 1,
        position: bool = True,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
    ) -> None:
        if time_stride < 1 or space_stride < 1:
            raise InputError(
                f"Expected time_stride and space_stride of 1 or more (got {time_stride} and {space_stride})"
            )
        self.train_starts = train_starts
        self.test_starts = test_starts
        self.time_stride = time_stride
        self.space_stride = space_stride
        super().__init__(root, T_in, T_out, position, transform, pre_transform)

    @property
    @abstractmethod
    def trajectories(self) -> list[str]:
        """Their names, those for testing last."""

    @abstractmethod
    def extent(self) -> tuple[int, ...]:
        """The number of frames of which windows are made, and the points of each axis, both before strides."""

    def take(self, array: Array, start: int, stop: int) -> Array:
        """Frames of an array [T, ...grid(, C)] of a file at every ``time_stride`` and ``space_stride``."""
        space = (slice(None, None, self.space_stride),) * self.spec.dim
        return array[(slice(start * self.time_stride, stop * self.time_stride, self.time_stride), *space)]

    def times(self, trajectory: str, start: int, stop: int) -> Array | None:
        return None if self.dt is None else self.dt * self.time_stride * np.arange(start, stop)

    def open(self) -> tuple[MeshData, Sequence[Field], Mapping[str, Sequence[Window]]]:
        count, *points = self.extent()
        axes = [self.side * (np.arange(0, n, self.space_stride) + 0.5 * self.centres) / n for n in points]
        frames, length = -(-count // self.time_stride), self.T_in + self.T_out
        names, starts = self.trajectories, {"train": self.train_starts, "test": self.test_starts}
        rows, parts = split_rows(len(names), self.train, self.test, last=True)
        windows = {
            part: place_windows([names[rows[i]] for i in ids], frames, length, starts[part])
            for part, ids in parts.items()
        }
        return grid_mesh(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)), self.fields, windows


class KF2D(FactFormerDataset):
    r"""Kolmogorov flow at Reynolds number 1,000 on a torus, 120 trajectories of 320 frames of 256 x 256, of FactFormer.

    .. math::
        \partial_t w + u \cdot \nabla w = \tfrac{1}{1000} \Delta w - 0.1\, w - 8 \cos 8y,
        \qquad w = \nabla \times u, \quad \nabla \cdot u = 0 \quad \text{on } [0, 2 \pi]^2

    =============== ======== ======== ==== =============================================
    field           role     channels unit meaning
    =============== ======== ======== ==== =============================================
    vorticity_in    input    T_in     1    frames of a window
    vorticity_out   target   T_out    1    the frames that follow
    =============== ======== ======== ==== =============================================

    Frames are 1/32 of a time unit apart. As in the authors' runs every second frame and every second point of each axis
    is taken, and training sees all windows of 10 frames and the next 4. They roll out over 16 frames, from every
    frame of a test trajectory. Axis 0 is x, axis 1 is y, nodes lie at 2 pi i / n as the period wants (the published
    scripts spread them by linspace(0, 2 pi, n), a little too wide). Cells are the quads between the nodes: what crosses
    the border is left out.

    The first 100 trajectories are the split ``train`` and the last 20 ``test``; of less than 120 the last sixth is.

    Args:
        root: directory of the data set; the file belongs into ``root/raw``.
        T_in, T_out: frames that the model sees and predicts.
        train_starts: where the windows of a trajectory for training begin: ``all`` frames with room for one,
            ``random``, one that is drawn anew each time, or these.
        test_starts: the same for testing.
        time_stride: every how many frames one is taken.
        space_stride: every how many points of an axis one is taken.
        position, transform, pre_transform: see :class:`~meshop.datasets.LazyDataset`.

    Raises:
        InputError: the file is missing, damaged or has another layout; a window does not lie in the frames.
    """

    needs = "kf_2d_re1000_256_120seed.npy (10,066.3 MB)"
    source = "Kmflow 2D of FactFormer (github.com/BaratiLab/FactFormer links it)"
    fields = (Field("vorticity", "point"),)
    side = 2 * np.pi
    dt = 1 / 32
    train, test = 100, 20

    def __init__(
        self,
        root: str | os.PathLike[str],
        T_in: int = 10,
        T_out: int = 4,
        train_starts: Starts = "all",
        test_starts: Starts = "all",
        time_stride: int = 2,
        space_stride: int = 2,
        position: bool = True,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
    ) -> None:
        super().__init__(
            root, T_in, T_out, train_starts, test_starts, time_stride, space_stride, position, transform, pre_transform
        )

    @property
    def raw_file_names(self) -> list[str]:
        return ["kf_2d_re1000_256_120seed.npy"]

    @property
    def trajectories(self) -> list[str]:
        return [f"seed_{row:03d}" for row in range(len(read_npy(self.raw_paths[0])))]

    def extent(self) -> tuple[int, ...]:
        path = self.raw_paths[0]
        array = read_npy(path)
        check_shape(array, (None, None, None, None), "the array", path)
        return array.shape[1:]

    def frames(self, trajectory: str, start: int, stop: int) -> dict[str, Array]:
        row = int(trajectory.removeprefix("seed_"))
        return {"vorticity": self.take(read_npy(self.raw_paths[0])[row], start, stop)}


class IT3D(FactFormerDataset):
    r"""Forced isotropic turbulence in a periodic box, 1,100 trajectories on 60 x 60 x 60 points, of FactFormer.

    .. math::
        \partial_t u + u \cdot \nabla u = - \nabla p + \nu \Delta u + f, \qquad \nabla \cdot u = 0
        \quad \text{on } [0, 2 \pi]^3, \qquad \nu = 50^{-4/3}

    where :math:`f` keeps the energy: it scales the modes :math:`|k| \le 3` in each step. The Reynolds number of the
    Taylor scale is 84.

    ============ ======== ========= ==== ============================================
    field        role     channels  unit meaning
    ============ ======== ========= ==== ============================================
    p_in         input    T_in      1    pressure of the frames of a window
    velocity_in  input    3 T_in    1    vx, vy, vz of each frame
    p_out        target   T_out     1    pressure of the frames that follow
    velocity_out target   3 T_out   1    their velocity
    ============ ======== ========= ==== ============================================

    Training sees a window of 10 frames and the next 2 that begins anywhere in the first 20 frames; files may have
    more, which :meth:`frames` reads. The authors roll out over 10 frames from the first 10. Axes are x, y and z, nodes
    lie at 2 pi i / 60. Cells are the hexahedra between the nodes: what crosses the border is left out.

    The first 1,000 directories, in the order of their names as texts, are the split ``train`` and the last 100
    ``test``; of less than 1,100 the last eleventh is.

    Args:
        root: directory of the data set; a directory a trajectory belongs into ``root/raw``.
        T_in, T_out, train_starts, test_starts: see :class:`KF2D`.
        time_stride, space_stride: see :class:`KF2D`.
        position, transform, pre_transform: see :class:`~meshop.datasets.LazyDataset`.

    Raises:
        InputError: a file is missing, damaged or has another layout; a window does not lie in the frames.
    """

    needs = "a directory with vx.npy, vy.npy, vz.npy and prs.npy for each of 1,100 trajectories (69 MB each)"
    source = "Isotropic 3D of FactFormer (github.com/BaratiLab/FactFormer links it)"
    fields = (Field("p", "point"), Field("velocity", "point", 3))
    side = 2 * np.pi
    train, test = 1000, 100

    def __init__(
        self,
        root: str | os.PathLike[str],
        T_in: int = 10,
        T_out: int = 2,
        train_starts: Starts = "random",
        test_starts: Starts = (0,),
        time_stride: int = 1,
        space_stride: int = 1,
        position: bool = True,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
    ) -> None:
        super().__init__(
            root, T_in, T_out, train_starts, test_starts, time_stride, space_stride, position, transform, pre_transform
        )

    @property
    def raw_file_names(self) -> list[str]:
        return sorted(path.name for path in Path(self.raw_dir).glob("*") if path.is_dir())

    @property
    def trajectories(self) -> list[str]:
        return self.raw_file_names

    def extent(self) -> tuple[int, ...]:
        path = Path(self.raw_dir, self.trajectories[0], "prs.npy")
        p = read_npy(path)
        check_shape(p, (None, None, None, None), "prs", path)
        return (min(len(p), 20), *p.shape[1:])

    def frames(self, trajectory: str, start: int, stop: int) -> dict[str, Array]:
        paths = [Path(self.raw_dir, trajectory, f"{name}.npy") for name in ("prs", "vx", "vy", "vz")]
        p, *velocity = (self.take(read_npy(path), start, stop) for path in paths)
        for array, path in zip(velocity, paths[1:], strict=True):
            check_shape(array, p.shape, f"frames of {path.stem}", path)
        return {"p": p, "velocity": np.stack(velocity, axis=-1)}


class Smoke3D(FactFormerDataset):
    r"""Smoke that rises in a closed box, 2,200 trajectories of 20 frames on 64 x 64 x 64 cells, of FactFormer.

    .. math::
        \partial_t u + u \cdot \nabla u = - \nabla p + 0.003\, \Delta u + 0.5\, d\, e_z, \qquad
        \partial_t d + u \cdot \nabla d = 0, \qquad \nabla \cdot u = 0 \quad \text{in } [0, 8]^3

    from rest and from noise as smoke; frames are 0.75 time units apart, the first 8 are left out.

    ============== ======== ========= ==== =========================================
    field          role     channels  unit meaning
    ============== ======== ========= ==== =========================================
    density_in     input    T_in      1    smoke d in the frames of a window
    velocity_in    input    3 T_in    1    three components of each frame
    density_out    target   T_out     1    smoke in the frames that follow
    velocity_out   target   3 T_out   1    their velocity
    ============== ======== ========= ==== =========================================

    Axes are x, y and z, which points upwards. Nodes are the centres of the 64^3 cells, where the smoke is; the
    authors' grid is staggered, so that component a of the velocity belongs to the lower face of the cell along axis a,
    half a cell away, and is zero in the first layer along it, at the wall.

    Training sees a window of 4 frames and the next 4 that begins anywhere; the authors roll out over 16 from the first
    4. The first 2,000 files, by their number, are the split ``train`` and the last 200 ``test``; of less than 2,200 the
    last eleventh is. The authors take the files in the order in which the file system lists them, so theirs are others.

    Args:
        root: directory of the data set; the files belong into ``root/raw``.
        T_in, T_out, train_starts, test_starts: see :class:`KF2D`.
        time_stride, space_stride: see :class:`KF2D`.
        position, transform, pre_transform: see :class:`~meshop.datasets.LazyDataset`.

    Raises:
        InputError: a file is missing, damaged or has another layout; a window does not lie in the frames.
    """

    needs = "smoke_0.npz to smoke_2199.npz (84 MB each)"
    source = "Smoke 3D of FactFormer (github.com/BaratiLab/FactFormer links it)"
    fields = (Field("density", "point"), Field("velocity", "point", 3))
    side = 8.0
    dt = 0.75
    centres = True
    train, test = 2000, 200

    def __init__(
        self,
        root: str | os.PathLike[str],
        T_in: int = 4,
        T_out: int = 4,
        train_starts: Starts = "random",
        test_starts: Starts = (0,),
        time_stride: int = 1,
        space_stride: int = 1,
        position: bool = True,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
    ) -> None:
        super().__init__(
            root, T_in, T_out, train_starts, test_starts, time_stride, space_stride, position, transform, pre_transform
        )

    @property
    def raw_file_names(self) -> list[str]:
        numbers = [re.fullmatch(r"smoke_(\d+)\.npz", path.name) for path in Path(self.raw_dir).glob("smoke_*.npz")]
        return [f"smoke_{i}.npz" for i in sorted(int(number[1]) for number in numbers if number)]

    @property
    def trajectories(self) -> list[str]:
        return [name.removesuffix(".npz") for name in self.raw_file_names]

    def extent(self) -> tuple[int, ...]:
        path = self.raw_paths[0]
        [density] = read_npz(path, "fluid_field")
        check_shape(density, (None, None, None, None, 1), "fluid_field", path)
        return density.shape[:4]

    def frames(self, trajectory: str, start: int, stop: int) -> dict[str, Array]:
        density, velocity = read_npz(Path(self.raw_dir, f"{trajectory}.npz"), "fluid_field", "velocity")
        return {"density": self.take(density, start, stop), "velocity": self.take(velocity, start, stop)}
