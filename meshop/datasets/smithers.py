"""The published finite-element snapshots inside the package ``smithers``."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from meshop.data import InputError, MeshData
from meshop.datasets.dataset import MeshDataset
from meshop.io.files import whole_file


class SmithersDataset(MeshDataset):
    """Snapshots on one triangle mesh, one a row of parameters, copied from the installed ``smithers`` to ``root/raw``.

    The files are read without importing the package, which would load matplotlib. A subclass says which of its data
    sets it is.
    """

    folder: str

    @property
    def raw_file_names(self) -> list[str]:
        return ["coords.npy", "triangles.npy", "params.npy", "snapshots.npy"]

    def download(self) -> None:
        """Copy the files; with the extra ``data``, pip has fetched them already.

        Raises:
            InputError: the package is not installed.
        """
        package = find_spec("smithers")
        if package is None or not package.submodule_search_locations:
            raise InputError(
                f"{type(self).__name__} reads the files of the package smithers, which is not installed; "
                'pip install "meshop[data]"'
            )
        source = Path(package.submodule_search_locations[0], "dataset", "datasets", self.folder)
        for path in map(Path, self.raw_paths):
            with whole_file(path) as part:
                shutil.copyfile(source / path.name, part)

    def arrays(self) -> tuple[MeshData, Tensor, Tensor]:
        """The mesh, the parameters [S, P] and the snapshots [S, K, N] of K scalar fields."""
        points, triangles, params, snapshots = map(np.load, self.raw_paths)
        if points.shape[1] != 2:  # most of its sets lay coordinates out as [2, N]
            points = points.T
        mesh = MeshData.from_cells(points, [5] * len(triangles), triangles)
        fields = snapshots.reshape(len(snapshots), -1, mesh.num_points)
        return mesh, torch.from_numpy(params), torch.from_numpy(fields)
