"""A published set: the pressure on cars of DrivAerNet++."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from meshop.data import FieldSpec, MeshData
from meshop.datasets.designs import DesignDataset
from meshop.io import read_mesh

PARTS = ("train", "val", "test")


class DrivAerNetPlusPlus(DesignDataset):
    r"""Pressure on 8,118 cars of DrivAerNet++ (Elrefaie et al. 2024), from the shape alone.

    Reynolds-averaged flow around parametric variants of the DrivAer body at 30 m/s. The files are surfaces.

    ============ ======== ======= ==========================================
    field        role     unit    meaning
    ============ ======== ======= ==========================================
    p            target   m2/s2   pressure over density
    ============ ======== ======= ==========================================

    ``p`` lives at points, as the authors' loader reads it, or at cells in files that have it only there.

    The splits ``train``, ``val`` and ``test`` are the designs of the authors' lists of which there is a file: 5,818,
    1,147 and 1,153 in a whole copy. What was not fetched is left out, as in the authors' code.

    Their models see 10,000 points of each car, drawn at random; this class gives whole surfaces.

    Args:
        root: directory of the data set: ``root/raw`` with the three lists and, there or in directories below, a file
            ``DESIGN.vtk`` for each design.
        transform, pre_transform: see :class:`~meshop.datasets.DesignDataset`.
    """

    needs = "train_design_ids.txt, val_design_ids.txt, test_design_ids.txt and the files DESIGN.vtk of PressureVTK"
    source = (
        "the lists from https://github.com/Mohamedelrefaie/DrivAerNet (train_val_test_splits) "
        "and the surfaces from https://dataverse.harvard.edu/dataverse/DrivAerNet"
    )

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
    ) -> None:
        super().__init__(root, transform, pre_transform)

    @property
    def raw_file_names(self) -> list[str]:
        return [f"{part}_design_ids.txt" for part in PARTS]

    def parts(self) -> dict[str, list[str]]:
        self.files = {path.stem: path for path in sorted(Path(self.raw_dir).rglob("*.vtk"))}
        lists = [Path(path).read_text().split() for path in self.raw_paths]
        parts = {
            part: [design for design in designs if design in self.files]
            for part, designs in zip(PARTS, lists, strict=True)
        }
        for design in [design for part in parts.values() for design in part][:1]:
            mesh = self.read(design)
            at_points = "p" in mesh.point_data
            self.spec = FieldSpec.resolve(
                mesh, ["p:point" if at_points else "p"], units={"p": "m2/s2"}, where=str(self.files[design])
            )
        return parts

    def read(self, case: str) -> MeshData:
        return read_mesh(self.files[case])
