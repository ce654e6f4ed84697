"""A published set: Poisson's equation on a square with a hole that moves."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import torch

from meshop.data import Arrays, Field, FieldSpec, InputError, MeshData
from meshop.datasets.official import OfficialDataset, RawFile
from meshop.io.arrays import read_torch


class HoledPoisson(OfficialDataset):
    r"""Poisson's equation on 121 geometries: the unit square without a square hole of side 0.3; 1,352 nodes each.

    .. math::
        -\tfrac{1}{10} \Delta u = 1, \qquad u = 0 \text{ on the border and on the hole}

    The lower left corner of the hole takes the positions of an 11 x 11 grid in [0.1, 0.6]^2. The nodes move with it,
    the triangles stay the same. The authors solved it with linear elements.

    ========= ======== ==== ===========================================================
    field     role     unit meaning
    ========= ======== ==== ===========================================================
    boundary  input         1 on the nodes of the border and of the hole, 0 elsewhere
    u         target   1    the solution
    ========= ======== ==== ===========================================================

    ``field_data`` holds the corner of the hole, ``mu`` [2]; the model has to see it in the mesh. A random 100 of the
    geometries are the split ``train``, the other 21 ``test``: the authors fix none, and the file is sorted by ``mu``.

    Source: ``tutorials/tutorial22/holed_poisson.pt`` of github.com/mathLab/PINA (SISSA; MIT licence).

    Args:
        root: directory of the data set; the file belongs into ``root/raw``.
        path: the file, if it lies elsewhere.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    Raises:
        InputError: the file is not there, is damaged or has another layout.
    """

    files = (
        RawFile("holed_poisson.pt", 2_089_821, "1fda41d108aa9901e16081b01f74e2a496f7b6340ed733e7a2df01bd943d71d1"),
    )
    source = "it from tutorials/tutorial22 of github.com/mathLab/PINA"

    def __init__(
        self,
        root: str | os.PathLike[str],
        path: str | os.PathLike[str] | None = None,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
        pre_filter: Callable[[MeshData], bool] | None = None,
        force_reload: bool = False,
    ) -> None:
        self.path = path
        super().__init__(root, transform, pre_transform, pre_filter, force_reload)

    @property
    def raw_paths(self) -> list[str]:
        return super().raw_paths if self.path is None else [os.fspath(self.path)]

    def download(self) -> None:
        """Say what to put where.

        Raises:
            InputError: always.
        """
        raise InputError(
            f"HoledPoisson needs {self.files[0]} as '{self.raw_paths[0]}'; get {self.source}, or give its path"
        )

    def read(self) -> tuple[list[MeshData], FieldSpec, dict[str, list[int]]]:
        raw = read_torch(self.raw_paths[0])
        missing = {"x", "y", "u", "triang", "mu"} - set(raw if isinstance(raw, dict) else ())
        if missing:
            raise InputError(
                f"Expected x, y, u, triang and mu in '{self.raw_paths[0]}' (without {', '.join(sorted(missing))})"
            )
        triangles, count = raw["triang"], raw["u"].size(1)
        edges = torch.cat([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]).sort(1)[0]
        edges, cells_at = edges.unique(dim=0, return_counts=True)
        boundary = torch.zeros(raw["u"].size(0)).index_fill(0, edges[cells_at == 1].flatten(), 1)
        mesh = MeshData.from_cells(raw["x"].new_zeros(len(boundary), 2), [5] * len(triangles), triangles.tolist())
        meshes = []
        for i in range(count):
            case: MeshData = mesh.__copy__()
            case.pos = torch.stack([raw["x"][:, i], raw["y"][:, i]], dim=1)
            case.points = torch.nn.functional.pad(case.pos, (0, 1))
            case.point_data = Arrays({"boundary": boundary, "u": raw["u"][:, i].contiguous()})
            case.field_data = Arrays({"mu": raw["mu"][i]})
            case.name = f"hole_{i:03d}"
            meshes.append(case)
        spec = FieldSpec(targets=(Field("u", "point"),), inputs=(Field("boundary", "point"),), dim=2)
        order = np.random.default_rng(0).permutation(count)
        train = round(count * 100 / 121)
        return meshes, spec, {"train": sorted(order[:train].tolist()), "test": sorted(order[train:].tolist())}
