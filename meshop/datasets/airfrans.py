"""A published set: the flow around NACA airfoils."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn.functional import pad

from meshop.data import Field, FieldSpec, InputError, MeshData
from meshop.datasets.designs import DesignDataset, point_array
from meshop.io import read_mesh
from meshop.io.arrays import read_json

TASKS = {
    "full": ("full_train", "full_test"),
    "scarce": ("scarce_train", "full_test"),
    "reynolds": ("reynolds_train", "reynolds_test"),
    "aoa": ("aoa_train", "aoa_test"),
}


class AirfRANS(DesignDataset):
    r"""Air around 1,000 NACA airfoils (Bonnet et al. 2022): Reynolds-averaged, incompressible, some 180,000 nodes each.

    .. math::
        (u \cdot \nabla) u = -\nabla p + \nabla \cdot \bigl( (\nu + \nu_t) (\nabla u + \nabla u^T) \bigr), \qquad
        \nabla \cdot u = 0

    with the SST model for :math:`\nu_t`, chord 1 m, :math:`\nu = 1.56 \cdot 10^{-5}` m2/s, Reynolds numbers from 2 to 6
    million and angles of attack from -5 to 15 degrees. Inflow speed and angle are the third and fourth part of the
    name of a case, ``airFoil2D_SST_43.597_5.932_...``.

    ======================= ======== ======= ===========================================================
    field                   role     unit    meaning
    ======================= ======== ======= ===========================================================
    sdf                     input    m       distance to the airfoil: ``implicit_distance`` with its sign turned
    normal                  input            on the airfoil, out of it; 0 elsewhere
    inlet_x, inlet_y        param    m/s     velocity of the free flow
    U                       target   m/s     velocity, two components
    p                       target   m2/s2   pressure over density
    nut                     target   m2/s    turbulent viscosity
    surface                                  1 on the airfoil, 0 elsewhere
    ======================= ======== ======= ===========================================================

    Unlike :class:`torch_geometric.datasets.AirfRANS`, which is a cloud of points, this one has the cells of the mesh;
    a prediction can be written back on them. The order of the features is another one.

    The authors' code holds the last tenth of the training cases back for validation; here ``train`` has them all.

    Args:
        root: directory of the data set: ``root/raw/manifest.json`` and a directory for each case.
        task: ``full``, 800 cases to train and 200 to test; ``scarce``, 200 and the same 200; ``reynolds`` and ``aoa``,
            extrapolation in Reynolds number and angle of attack.
        transform, pre_transform: see :class:`~meshop.datasets.DesignDataset`.
    """

    needs = "manifest.json and the directories of the cases (9.3 GB)"
    source = "Dataset.zip from https://data.isir.upmc.fr/extrality/NeurIPS_2022/Dataset.zip"
    spec = FieldSpec(
        targets=(Field("U", "point", 2, "m/s"), Field("p", "point", 1, "m2/s2"), Field("nut", "point", 1, "m2/s")),
        inputs=(Field("sdf", "point", 1, "m"), Field("normal", "point", 2)),
        params=("inlet_x", "inlet_y"),
        dim=2,
    )

    def __init__(
        self,
        root: str | os.PathLike[str],
        task: str = "full",
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
    ) -> None:
        if task not in TASKS:
            raise InputError(f"Expected one of the tasks {', '.join(TASKS)} (got '{task}')")
        self.task = task
        super().__init__(root, transform, pre_transform)

    @property
    def raw_file_names(self) -> list[str]:
        return ["manifest.json"]

    def parts(self) -> dict[str, list[str]]:
        path = self.raw_paths[0]
        manifest = read_json(path)
        if missing := [name for name in TASKS[self.task] if name not in manifest]:
            raise InputError(f"Expected {' and '.join(missing)} in '{path}' (it has {', '.join(manifest)})")
        return {part: manifest[name] for part, name in zip(("train", "test"), TASKS[self.task], strict=True)}

    def read(self, case: str) -> MeshData:
        from scipy.spatial import cKDTree

        try:
            speed, angle = map(float, case.split("_")[2:4])
        except ValueError as error:
            raise InputError(
                f"Expected names of cases like airFoil2D_SST_43.597_5.932_..., with speed and angle (got '{case}')"
            ) from error
        paths = [Path(self.raw_dir, case, f"{case}_{name}") for name in ("internal.vtu", "aerofoil.vtp")]
        mesh, airfoil = map(read_mesh, paths)
        mesh.pos = mesh.points[:, :2].float()
        distance, node = cKDTree(mesh.points[:, :2].numpy()).query(airfoil.points[:, :2].numpy())
        if distance.max(initial=0) > 1e-6:
            raise InputError(
                f"Expected the points of '{paths[1]}' among those of '{paths[0]}' (one is {distance.max():.3g} m away)"
            )
        data = mesh.point_data
        for name in ("U", "p", "nut"):
            data[name] = point_array(mesh, name, paths[0])
        data["U"] = pad(data["U"][:, :2], (0, 1))  # the slice may keep a trace of a third component
        data["sdf"] = -point_array(mesh, "implicit_distance", paths[0])
        data["normal"] = torch.zeros(mesh.num_points, 3)
        data["normal"][node, :2] = -point_array(airfoil, "Normals", paths[1])[:, :2]  # the file's point inwards
        data["surface"] = torch.zeros(mesh.num_points)
        data["surface"][node] = 1
        mesh.params = speed * torch.tensor([[math.cos(math.radians(angle)), math.sin(math.radians(angle))]])
        return mesh
