"""A published set of Geo-FNO: forging with a die."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import torch

from meshop.data import Arrays, Field, FieldSpec, MeshData
from meshop.datasets.official import OfficialDataset, RawFile, check_shape, grid_mesh, split_rows, tensor
from meshop.io.arrays import read_mat


class Plasticity(OfficialDataset):
    r"""A block under a die of any profile, elastic and perfectly plastic, at 20 times on 101 x 31 nodes, of Geo-FNO.

    .. math::
        \rho\, \ddot u = \nabla \cdot \sigma, \qquad \sigma = C : (\varepsilon - \varepsilon_p), \qquad
        \dot \varepsilon_p = \lambda\, \partial_\sigma f, \qquad f = \sqrt{3/2}\, |\sigma_\text{dev}| - \sigma_Y \le 0

    50 mm x 15 mm of :math:`E` = 200 GPa, :math:`\nu` = 0.3, :math:`\sigma_Y` = 70 MPa, clamped below; the die comes
    down at 3 m/s. One item is one case at one ``time``, from 0 to 1: the operator maps die and time to the state, it
    does not step. The 20 items of a case follow each other.

    ============= ======== ==== ================================================================================
    field         role     unit meaning
    ============= ======== ==== ================================================================================
    die           input         profile of the die above the node, the same for all j
    state         target   mm   deformed x and y, then displacement u_x and u_y: four components, in whose common
                                norm the papers state errors
    displacement           mm   the last two of them
    ============= ======== ==== ================================================================================

    Axis i of ``shape`` runs along the die, axis j from the die (0) to the clamped side (30). ``points`` are those of
    the undeformed block, :math:`x = 0.35 - i/2` and :math:`y = 14.9 - j/2`; cells are the quads between them.

    The scripts of Transolver and LaMO give every node the coordinates of another one: in the unit square, and with x
    running fastest, while the fields are stored with j running fastest. ``published_pos`` makes ``pos``, and with it
    ``x``, the same; ``points``, cells, edges and measures stay right.

    Of the 987 rows, the first 900 are the split ``train`` and the last 80 ``test``, as in the papers; the 7 between are
    not used. A file of less than 980 rows is divided 45 to 4.

    Args:
        root: directory of the data set; the file belongs into ``root/raw``. Making the cache takes 8 GB of memory.
        published_pos: give nodes the coordinates of the published scripts, to compare numbers.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    Raises:
        InputError: the file is missing, damaged or has another layout.
    """

    files = (RawFile("plas_N987_T20.mat"),)
    source = (
        "it (about 2 GB) from the data folder of Geo-FNO, which github.com/neuraloperator/Geo-FNO links; Geo-FNO's own "
        "scripts call it buri_plas_N987_time.mat"
    )

    def __init__(
        self,
        root: str | os.PathLike[str],
        published_pos: bool = False,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
        pre_filter: Callable[[MeshData], bool] | None = None,
        force_reload: bool = False,
    ) -> None:
        self.published_pos = published_pos
        super().__init__(root, transform, pre_transform, pre_filter, force_reload)

    @property
    def options(self) -> dict[str, object]:
        return super().options | {"published_pos": self.published_pos}

    def read(self) -> tuple[list[MeshData], FieldSpec, dict[str, list[int]]]:
        path = self.raw_paths[0]
        die, output = read_mat(path, "input", "output")
        check_shape(die, (None, None), "input", path)
        check_shape(output, (*die.shape, None, None, 4), "output", path)
        n1, n2, frames = output.shape[1:4]
        rows, splits = split_rows(len(die), 900, 80, last=True)

        i, j = np.mgrid[:n1, :n2]
        mesh = grid_mesh(np.stack([0.35 - i / 2, 14.9 - j / 2], axis=-1))
        if self.published_pos:
            x, y = np.meshgrid(np.linspace(0, 1, n1), np.linspace(0, 1, n2))
            mesh.pos = tensor(np.stack([x.ravel(), y.ravel()], axis=1))
        times = torch.linspace(0, 1, frames)
        meshes = []
        for row in rows:
            above = tensor(die[row]).repeat_interleave(n2)  # [N]
            states = tensor(np.moveaxis(output[row], 2, 0)).view(frames, -1, 4)  # [T, N, 4]
            for frame, state in enumerate(states):
                case: MeshData = mesh.__copy__()
                case.point_data = Arrays({"die": above, "state": state, "displacement": state[:, 2:]})
                case.time = times[frame : frame + 1]
                case.name = f"plasticity_{row:03d}_{frame:02d}"
                meshes.append(case)
        spec = FieldSpec(targets=(Field("state", "point", 4, "mm"),), inputs=(Field("die", "point"),), dim=2)
        return (
            meshes,
            spec,
            {part: [k * frames + t for k in ids for t in range(frames)] for part, ids in splits.items()},
        )
