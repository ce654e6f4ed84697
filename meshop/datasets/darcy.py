"""A published set of FNO: Darcy flow."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from meshop.data import Arrays, Field, FieldSpec, InputError, MeshData
from meshop.datasets.official import OfficialDataset, RawFile, check_shape, grid_mesh, tensor
from meshop.io.arrays import read_mat


class Darcy(OfficialDataset):
    r"""Darcy flow through two materials on the unit square, 421 x 421 nodes or every so many of them, of FNO.

    .. math::
        -\nabla \cdot (a \nabla u) = 1, \qquad u = 0 \text{ on the border}

    The permeability is 12 where a Gaussian random field is positive and 3 elsewhere.

    ========= ======== ==== ==================
    field     role     unit meaning
    ========= ======== ==== ==================
    coeff     input    1    permeability a
    sol       target   1    pressure u
    ========= ======== ==== ==================

    ``shape`` is that of the grid; cells are its quads. ``stride`` 1, 2, 3, 4, 5 gives 421, 211, 141, 106 and 85 nodes
    a side. Files of another resolution, as the published ones of 241 nodes a side and those that ``meshop generate``
    makes, have it in their names and are read where those of 421 are not there.

    The first 1,000 samples of the first file are the split ``train`` and the first 200 of the second ``test``, as in
    the papers; of a smaller file, all.

    Args:
        root: directory of the data set; the files belong into ``root/raw``.
        stride: which nodes of the file to take along each axis: every so manyth.
        position: whether ``x`` starts with the coordinates; Transolver has their unified position instead.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    Raises:
        InputError: a file is missing, damaged or has another layout; ``stride`` is not positive.
    """

    files = (RawFile("piececonst_r421_N1024_smooth1.mat"), RawFile("piececonst_r421_N1024_smooth2.mat"))
    source = "Darcy_421.zip (up to 6 GB a file) from the data folder of FNO's authors and unpack it"

    def __init__(
        self,
        root: str | os.PathLike[str],
        stride: int = 5,
        position: bool = True,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
        pre_filter: Callable[[MeshData], bool] | None = None,
        force_reload: bool = False,
    ) -> None:
        if stride < 1:
            raise InputError(f"Expected a stride of 1 or more (got {stride})")
        self.stride = stride
        self.position = position
        super().__init__(root, transform, pre_transform, pre_filter, force_reload)

    @property
    def raw_file_names(self) -> list[str]:
        there = sorted(path.name for path in Path(self.raw_dir).glob("piececonst_r*_N1024_smooth[12].mat"))
        expected = super().raw_file_names
        return there if len(there) == 2 and not set(expected) & set(there) else expected

    @property
    def options(self) -> dict[str, object]:
        return super().options | {"stride": self.stride, "position": self.position}

    def read(self) -> tuple[list[MeshData], FieldSpec, dict[str, list[int]]]:
        meshes: list[MeshData] = []
        splits: dict[str, list[int]] = {}
        shape: tuple[int | None, ...] = (None, None)
        for path, part, count in zip(self.raw_paths, ("train", "test"), (1000, 200), strict=True):
            coeff, sol = read_mat(path, "coeff", "sol")
            check_shape(coeff, (None, *shape), "coeff", path)
            check_shape(sol, coeff.shape, "sol", path)
            if not meshes:
                shape = coeff.shape[1:]
                axes = [np.arange(0, n, self.stride) / (n - 1) for n in coeff.shape[1:]]
                mesh = grid_mesh(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1))
            rows = range(min(count, len(coeff)))
            splits[part] = [len(meshes) + row for row in rows]
            for row in rows:
                case: MeshData = mesh.__copy__()
                case.point_data = Arrays(
                    {
                        name: tensor(values[row, :: self.stride, :: self.stride]).flatten()
                        for name, values in (("coeff", coeff), ("sol", sol))
                    }
                )
                case.name = f"darcy_{part}_{row:04d}"
                meshes.append(case)
        spec = FieldSpec(
            targets=(Field("sol", "point"),), inputs=(Field("coeff", "point"),), dim=2, position=self.position
        )
        return meshes, spec, splits
