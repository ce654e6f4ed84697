"""A published set: steady flow behind a step."""

from __future__ import annotations

import torch
from torch.nn.functional import pad

from meshop.data import Arrays, Field, FieldSpec, MeshData
from meshop.datasets.official import split_rows
from meshop.datasets.smithers import SmithersDataset


class NavierStokesStep(SmithersDataset):
    r"""Steady incompressible flow over a backward-facing step at 500 inflow velocities, on one mesh of 1,639 nodes.

    .. math::
        (u \cdot \nabla) u - \nu \Delta u + \nabla p = 0, \qquad \nabla \cdot u = 0

    in a channel 22 long and 5 high that is 3 high at the inflow, x = 0, where u_x has a parabolic profile whose peak
    ``inflow`` is the parameter, from 1 to 80. The authors do not say which viscosity they took.

    =================== ======== ==== ==============================================
    field               role     unit meaning
    =================== ======== ==== ==============================================
    inlet, outlet, wall input         1 on the nodes of that boundary, 0 elsewhere
    inflow              param    1    peak of u_x at the inlet
    velocity            target   1    two components
    p                   target   1    pressure
    =================== ======== ==== ==============================================

    The first 400 snapshots are the split ``train``, the last 100 ``test``. A published number certifies the reading:
    ``vx`` by proper orthogonal decomposition (rank 10) and the mean of the five nearest parameters has a mean relative
    L2 of 8.032581e-03 over five unshuffled folds (EZyRB, tutorial 2), to all digits.

    Source: package ``smithers`` 0.0.1 (mathLab, SISSA; MIT licence), ``pip install "meshop[data]"``.

    Args:
        root: directory of the data set.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    >>> import tempfile
    >>> flows = NavierStokesStep(tempfile.mkdtemp())
    >>> flows[0].x.shape, flows[0].y.shape, flows[0].params.shape
    (torch.Size([1639, 5]), torch.Size([1639, 3]), torch.Size([1, 1]))
    """

    folder = "navier_stokes"

    def read(self) -> tuple[list[MeshData], FieldSpec, dict[str, list[int]]]:
        mesh, mu, fields = self.arrays()
        cells = mesh.cell_index.view(-1, 3)
        edges, cells_at = (
            torch.cat([cells[:, [0, 1]], cells[:, [1, 2]], cells[:, [2, 0]]])
            .sort(1)[0]
            .unique(dim=0, return_counts=True)
        )
        border = torch.zeros(mesh.num_points, dtype=torch.bool)
        border[edges[cells_at == 1].flatten()] = True
        still = (fields[:, :2].abs() < 1e-9).all(0).all(0)  # no velocity in any snapshot
        x = mesh.points[:, 0]
        markers = {
            "inlet": (border & ~still & (x == 0)).float(),
            "outlet": (border & ~still & (x == x.max())).float(),
            "wall": (border & still).float(),
        }
        meshes = []
        for i in range(len(mu)):
            case: MeshData = mesh.__copy__()
            case.point_data = Arrays({**markers, "velocity": pad(fields[i, :2].T, (0, 1)), "p": fields[i, 2]})
            case.params = mu[i : i + 1]
            case.name = f"flow_{i:03d}"
            meshes.append(case)
        spec = FieldSpec(
            targets=(Field("velocity", "point", 2), Field("p", "point")),
            inputs=tuple(Field(name, "point") for name in markers),
            params=("inflow",),
            dim=2,
        )
        return meshes, spec, split_rows(len(mu), 400, 100)[1]
