"""A published set of FNO: decaying and forced vorticity on the torus."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from meshop.data import Arrays, Field, FieldSpec, InputError, MeshData
from meshop.datasets.official import OfficialDataset, RawFile, check_shape, grid_mesh, split_rows, tensor
from meshop.io.arrays import read_mat

FILES = {
    1e-5: RawFile("NavierStokes_V1e-5_N1200_T20.mat"),
    1e-4: RawFile("ns_V1e-4_N10000_T30.mat"),
}


class NavierStokes(OfficialDataset):
    r"""Vorticity of a forced incompressible flow on the unit torus, from the past to what follows; 64 x 64, of FNO.

    .. math::
        \partial_t w + u \cdot \nabla w = \nu \Delta w + 0.1 \bigl( \sin 2 \pi (x + y) + \cos 2 \pi (x + y) \bigr),
        \qquad w = \nabla \times u, \quad \nabla \cdot u = 0

    ================ ======== ======== ==== ==========================================
    field            role     channels unit meaning
    ================ ======== ======== ==== ==========================================
    vorticity_in     input    T_in     1    ``T_in`` frames from ``start`` on
    vorticity_out    target   T_out    1    the ``T_out`` frames that follow
    ================ ======== ======== ==== ==========================================

    A file holds 20 frames (30 for 1e-4), of the times 1, 2, and so on. One item is a window in them; ``starts`` are the
    first frames of the windows of each trajectory, counted from 0. The defaults are the block of the papers' tables,
    10 frames to 10. Their training by single steps from the true past sees the windows
    ``T_out=1, starts=range(10)``, and the random windows of 5 frames to 5 of CANO are those of
    ``T_in=5, T_out=5, starts=range(11)``.

    ``shape`` is that of the grid; nodes lie at i / 64, as its period wants. ``published_pos`` gives those of the
    published scripts, linspace(0, 1, 64), in which the last row is as far away as the first. Cells are the quads
    between the nodes, so edges and measures end at the last row: what crosses the border is left out.

    The first 1,000 trajectories are the split ``train`` and the last 200 ``test``, of 1,200 (10,000 for 1e-4), as in
    the papers; a file of less than 1,200 is divided 5 to 1.

    Args:
        root: directory of the data set; the file belongs into ``root/raw``. That of 1e-4 takes 5 GB of memory once.
        viscosity: 1e-5 or 1e-4.
        T_in: frames that the model sees.
        T_out: frames that it predicts.
        starts: the first frames of the windows.
        position: whether ``x`` starts with the coordinates; Transolver has their unified position instead.
        published_pos: coordinates of the published scripts.
        transform, pre_transform, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    Raises:
        InputError: the file is missing, damaged or has another layout; there is none of this viscosity; a window is
            empty or does not lie in the frames.
    """

    files = tuple(FILES.values())  # of an instance, that of its viscosity
    source = (
        "NavierStokes_V1e-5_N1200_T20.zip (0.4 GB unpacked) or NavierStokes_V1e-4_N10000_T30.zip (5 GB unpacked) "
        "from the data folder of FNO's authors and unpack it"
    )

    def __init__(
        self,
        root: str | os.PathLike[str],
        viscosity: float = 1e-5,
        T_in: int = 10,
        T_out: int = 10,
        starts: Sequence[int] = (0,),
        position: bool = True,
        published_pos: bool = False,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
        force_reload: bool = False,
    ) -> None:
        if viscosity not in FILES:
            raise InputError(f"Expected a viscosity of {' or '.join(map(str, FILES))} (got {viscosity})")
        if T_in < 1 or T_out < 1 or not len(starts):
            raise InputError(f"Expected T_in, T_out of 1 or more and some starts (got {T_in}, {T_out}, {list(starts)})")
        self.files = (FILES[viscosity],)
        self.viscosity = viscosity
        self.T_in = T_in
        self.T_out = T_out
        self.starts = list(starts)
        self.position = position
        self.published_pos = published_pos
        super().__init__(root, transform, pre_transform, force_reload=force_reload)

    @property
    def options(self) -> dict[str, object]:
        names = ("viscosity", "T_in", "T_out", "starts", "position", "published_pos")
        return super().options | {name: getattr(self, name) for name in names}

    def read(self) -> tuple[list[MeshData], FieldSpec, dict[str, list[int]]]:
        path = self.raw_paths[0]
        [u] = read_mat(path, "u")
        check_shape(u, (None, None, None, None), "u", path)
        n1, n2, frames = u.shape[1:]
        length = self.T_in + self.T_out
        if min(self.starts) < 0 or max(self.starts) + length > frames:
            raise InputError(
                f"Expected windows of {length} frames to lie in the {frames} of '{path}': starts from 0 to "
                f"{frames - length} (got {self.starts})"
            )
        rows, splits = split_rows(len(u), 1000, 200, last=True)

        axes = [np.linspace(0, 1, n, endpoint=self.published_pos) for n in (n1, n2)]
        mesh = grid_mesh(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1))
        meshes = []
        for row in rows:
            w = tensor(u[row]).view(-1, frames)  # [N, T]; its windows share it
            for start in self.starts:
                case: MeshData = mesh.__copy__()
                past, future = w[:, start : start + length].split([self.T_in, self.T_out], dim=1)
                case.point_data = Arrays({"vorticity_in": past, "vorticity_out": future})
                case.name = f"flow_{row:04d}_{start:02d}"
                meshes.append(case)
        spec = FieldSpec(
            targets=(Field("vorticity_out", "point", self.T_out),),
            inputs=(Field("vorticity_in", "point", self.T_in),),
            dim=2,
            position=self.position,
        )
        windows = len(self.starts)
        return meshes, spec, {p: [k * windows + s for k in ids for s in range(windows)] for p, ids in splits.items()}
