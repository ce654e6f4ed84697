"""A published set: the deformation of a block of nine materials."""

from __future__ import annotations

import torch
from torch.nn.functional import pad

from meshop.data import Arrays, Field, FieldSpec, MeshData
from meshop.datasets.official import split_rows
from meshop.datasets.smithers import SmithersDataset
from meshop.geometry import cell_centroid, cells_to_points


class ElasticBlock(SmithersDataset):
    r"""Plane strain of a unit square of 3 x 3 blocks with their own Young's moduli: 500 snapshots, 1,346 nodes.

    .. math::
        \nabla \cdot \sigma = 0, \qquad \sigma = \frac{E(x)}{1 + \nu} \Bigl( \varepsilon(u)
        + \frac{\nu}{1 - 2 \nu} \operatorname{tr} \varepsilon(u) I \Bigr), \qquad \nu = 0.3

    Block i_x + 3 i_y has the modulus mu[i], from 1 to 100, and the last one has 1. The left side is clamped; the thirds
    of the right side have horizontal tractions of their own, mu[8] to mu[10] from below, between -1 and 1. The authors
    solved it with linear triangles; the test of this class does so again and finds their displacements.

    =============== ======== ========= =================================================================
    field           role     unit      meaning
    =============== ======== ========= =================================================================
    E               input    1         Young's modulus: of a cell in ``cell_data``; at a node the mean of
                                       the cells around it, weighted by their area
    traction        input    1         horizontal; at a node of the right side the mean of the two edges
                                       there, weighted by their length; 0 elsewhere
    left, right     input              1 on the nodes of that side, 0 elsewhere
    displacement    target   1         two components
    =============== ======== ========= =================================================================

    The set is dimensionless. ``field_data`` holds ``mu`` [11]. The first 400 snapshots are the split ``train``, the
    last 100 ``test``.

    Source: package ``smithers`` 0.0.1 (mathLab, SISSA; MIT licence), ``pip install "meshop[data]"``.

    Args:
        root: directory of the data set.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    >>> import tempfile
    >>> blocks = ElasticBlock(tempfile.mkdtemp())
    >>> blocks[0].x.shape, blocks[0].y.shape, len(blocks.split("test"))
    (torch.Size([1346, 6]), torch.Size([1346, 2]), 100)
    """

    folder = "elastic_block"

    def read(self) -> tuple[list[MeshData], FieldSpec, dict[str, list[int]]]:
        mesh, mu, u = self.arrays()
        cells = mesh.cell_type, mesh.cell_size, mesh.cell_index
        block = (cell_centroid(mesh.points, *cells)[:, :2] * 3).long() @ torch.tensor([1, 3])
        modulus = torch.cat([mu[:, :8], mu.new_ones(len(mu), 1)], dim=1)[:, block]  # [S, C]
        at_nodes = cells_to_points(modulus.T, mesh.points, *cells).T  # [S, N]

        left, right = (mesh.points[:, 0] == x for x in (0, 1))
        side = right.nonzero().squeeze(1)
        side = side[mesh.points[side, 1].argsort()]  # upwards
        edges = torch.stack([side[:-1], side[1:]], dim=1)  # [L, 2]
        third = (mesh.points[edges, 1].mean(1) * 3).long()
        lines = torch.full_like(third, 3), torch.full_like(third, 2), edges.flatten()
        traction = cells_to_points(mu[:, 8:].T[third], mesh.points, *lines).nan_to_num(0).T  # [S, N]
        meshes = []
        for i in range(len(mu)):
            case: MeshData = mesh.__copy__()
            case.point_data = Arrays(
                {
                    "E": at_nodes[i],
                    "traction": traction[i],
                    "left": left.float(),
                    "right": right.float(),
                    "displacement": pad(u[i].T, (0, 1)),  # files hold vectors in space
                }
            )
            case.cell_data = Arrays({"E": modulus[i]})
            case.field_data = Arrays({"mu": mu[i]})
            case.name = f"block_{i:03d}"
            meshes.append(case)
        spec = FieldSpec(
            targets=(Field("displacement", "point", 2),),
            inputs=tuple(Field(name, "point") for name in ("E", "traction", "left", "right")),
            dim=2,
        )
        return meshes, spec, split_rows(len(mu), 400, 100)[1]
