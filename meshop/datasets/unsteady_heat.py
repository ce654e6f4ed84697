"""A published set: transient heat on a square."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

from meshop.data import Arrays, Field, FieldSpec, InputError, MeshData
from meshop.datasets.official import split_rows
from meshop.datasets.smithers import SmithersDataset


class UnsteadyHeat(SmithersDataset):
    r"""Transient heat in the unit square: 100 trajectories of 100 frames on a grid of 21 x 21 nodes in triangles.

    The boundary stays at 0 and sources inside swing. Neither the law nor the meaning of the two parameters, which lie
    between 0 and 10, nor the time between frames are documented.

    ========== ======== ======== ==== ===============================================
    field      role     channels unit meaning
    ========== ======== ======== ==== ===============================================
    u_in       input    T_in     1    temperature at ``T_in`` frames from a start on
    mu_0, mu_1 param             1
    u_out      target   T_out    1    temperature at the ``T_out`` frames that follow
    ========== ======== ======== ==== ===============================================

    One item is such a window; ``starts`` are the first frames of the windows of each trajectory, counted from 0.

    ``shape`` is (21, 21), row-major. The first 80 trajectories are the split ``train``, the last 20 ``test``: the
    authors fix none, and the parameters are random.

    Source: package ``smithers`` 0.0.1 (mathLab, SISSA; MIT licence), ``pip install "meshop[data]"``.

    Args:
        root: directory of the data set.
        T_in: frames that the model sees.
        T_out: frames that it predicts.
        starts: the first frames of the windows.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    Raises:
        InputError: a window is empty or does not lie in the frames.

    >>> import tempfile
    >>> heat = UnsteadyHeat(tempfile.mkdtemp(), T_in=1, T_out=99)
    >>> heat[0].x.shape, heat[0].y.shape
    (torch.Size([441, 3]), torch.Size([441, 99]))
    """

    folder = "unsteady_heat"

    def __init__(
        self,
        root: str | os.PathLike[str],
        T_in: int = 10,
        T_out: int = 10,
        starts: Sequence[int] = (0,),
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
        pre_filter: Callable[[MeshData], bool] | None = None,
        force_reload: bool = False,
    ) -> None:
        self.T_in = T_in
        self.T_out = T_out
        self.starts = list(starts)
        super().__init__(root, transform, pre_transform, pre_filter, force_reload)

    @property
    def options(self) -> dict[str, Any]:
        return {**super().options, "T_in": self.T_in, "T_out": self.T_out, "starts": self.starts}

    def read(self) -> tuple[list[MeshData], FieldSpec, dict[str, list[int]]]:
        mesh, mu, fields = self.arrays()
        mesh.shape = (math.isqrt(mesh.num_points),) * 2
        last = fields.size(1) - self.T_in - self.T_out
        if min(self.T_in, self.T_out) < 1 or not all(0 <= s <= last for s in self.starts or (-1,)):
            raise InputError(
                f"Expected T_in and T_out of 1 or more, and starts of windows within the {fields.size(1)} frames of a "
                f"trajectory (got {self.T_in}, {self.T_out} and {self.starts})"
            )
        meshes = []
        for i, start in itertools.product(range(len(mu)), self.starts):
            case: MeshData = mesh.__copy__()
            window = fields[i, start : start + self.T_in + self.T_out].T
            case.point_data = Arrays({"u_in": window[:, : self.T_in], "u_out": window[:, self.T_in :]})
            case.params = mu[i : i + 1]
            case.name = f"heat_{i:03d}_{start:02d}"
            meshes.append(case)
        spec = FieldSpec(
            targets=(Field("u_out", "point", self.T_out),),
            inputs=(Field("u_in", "point", self.T_in),),
            params=("mu_0", "mu_1"),
            dim=2,
        )
        windows = len(self.starts)
        parts = split_rows(len(mu), 80, 20)[1]
        return meshes, spec, {p: [k * windows + s for k in ids for s in range(windows)] for p, ids in parts.items()}
