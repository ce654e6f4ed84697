"""A published set: Darcy flow on small grids."""

from __future__ import annotations

import numpy as np

from meshop.data import Arrays, Field, FieldSpec, InputError, MeshData
from meshop.datasets.official import OfficialDataset, RawFile, grid_mesh
from meshop.io.arrays import read_torch


class DarcySmall(OfficialDataset):
    r"""Darcy flow through two materials on grids of 16 x 16 and 32 x 32 nodes: the examples' data of neuraloperator.

    .. math::
        -\nabla \cdot (a \nabla u) = 1, \qquad u = 0 \text{ on the boundary of } [0, 1]^2

    The grids are samples of a finer one: their node i lies at i / n, so that the sides x = 0 and y = 0 belong to them
    and the sides x = 1 and y = 1 do not, and every second node of a grid of 32 is that of 16. The cases of ``test_32``
    are those of ``test``. Which two coefficients there were, and the factor of u, are not published.

    ===== ======== ==== =========================================
    field role     unit meaning
    ===== ======== ==== =========================================
    a     input         which material: 0 or 1
    u     target        the solution, scaled
    ===== ======== ==== =========================================

    Splits are ``train`` (1,000 cases) and ``test`` (50) on 16 x 16 nodes and ``test_32`` (50), a resolution that the
    training has not seen. ``shape`` is that of the grid, row-major; the cells are its quads.

    Source: ``neuralop/data/datasets/data`` of github.com/neuraloperator/neuraloperator (MIT licence), which version
    0.3.0 of its package has inside and 2.0.0 has not.

    Args:
        root: directory of the data set; the files belong into ``root/raw``.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    Raises:
        InputError: a file is not there, is damaged or has another layout.
    """

    files = (
        RawFile("darcy_train_16.pt", 1_280_999, "0be662acdb1dab7dfd1a1da0b140e97f75cc94f98a14edcf768abe6968b3b418"),
        RawFile("darcy_test_16.pt", 64_999, "d2b19af9d4a6ae04ba2de54b8ecccc8b89766472faf6ce7f506c0b2a60f69a4c"),
        RawFile("darcy_test_32.pt", 256_999, "bcbd10622373e94df84a17fcdb72ac4317d76e024c2499d21fd1fd34d0742cfd"),
    )
    source = "them from neuralop/data/datasets/data of github.com/neuraloperator/neuraloperator"

    def read(self) -> tuple[list[MeshData], FieldSpec, dict[str, list[int]]]:
        meshes: list[MeshData] = []
        splits = {}
        for split, path in zip(("train", "test", "test_32"), self.raw_paths, strict=True):
            raw = read_torch(path)
            if not isinstance(raw, dict) or not {"x", "y"} <= set(raw):
                raise InputError(f"Expected the tensors x and y in '{path}'")
            if raw["x"].dim() != 3 or raw["x"].shape != raw["y"].shape:
                shapes = f"{list(raw['x'].shape)} and {list(raw['y'].shape)}"
                raise InputError(f"Expected x and y of the same shape [samples, n, n] in '{path}' (got {shapes})")
            count, *shape = raw["x"].shape
            grid = grid_mesh(np.stack(np.meshgrid(*(np.arange(n) / n for n in shape), indexing="ij"), axis=-1))
            splits[split] = list(range(len(meshes), len(meshes) + count))
            for i in range(count):
                case: MeshData = grid.__copy__()
                case.point_data = Arrays({"a": raw["x"][i].float().flatten(), "u": raw["y"][i].flatten()})
                case.name = f"{split}_{i:04d}"
                meshes.append(case)
        return meshes, FieldSpec((Field("u", "point"),), (Field("a", "point"),), dim=2), splits
