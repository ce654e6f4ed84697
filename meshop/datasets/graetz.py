"""A published set: heat carried through a channel whose length varies."""

from __future__ import annotations

from meshop.data import Arrays, Field, FieldSpec, MeshData
from meshop.datasets.official import moved, split_rows
from meshop.datasets.smithers import SmithersDataset


class Graetz(SmithersDataset):
    r"""The Graetz problem: heat in a channel flow at 200 lengths and diffusivities, 5,160 nodes.

    .. math::
        y (1 - y)\, \partial_x T - \kappa \Delta T = 0 \quad \text{in } (0, 1 + L) \times (0, 1)

    T = 0 at the inlet x = 0 and on the walls up to x = 1, T = 1 on the walls behind it, and the outlet is open. The
    published coordinates are those of one reference mesh, L = 1.3627, but the solutions belong to channels of their own
    lengths: the part behind x = 1 is stretched here to the L of each case. The test of this class then solves for the
    temperatures again, with linear elements, and finds them to 1e-12; on the reference mesh no law does.

    ===================== ======== ==== ==============================================================
    field                 role     unit meaning
    ===================== ======== ==== ==============================================================
    cold, hot, outlet     input         1 on the nodes of that boundary, 0 elsewhere
    diffusivity           param    1    :math:`\kappa`, from 0.037 to 9.9; 1 / diffusivity is the Peclet number
    T                     target   1    temperature
    ===================== ======== ==== ==============================================================

    ``field_data`` holds (L, :math:`\kappa`), ``mu`` [2]; the model has to see L in the mesh. The first 160 snapshots
    are the split ``train``, the last 40 ``test``: the authors fix none, and the parameters are random.

    Source: package ``smithers`` 0.0.1 (mathLab, SISSA; MIT licence), ``pip install "meshop[data]"``.

    Args:
        root: directory of the data set.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    >>> import tempfile
    >>> channels = Graetz(tempfile.mkdtemp())
    >>> channels[0].x.shape, channels[0].y.shape, channels[0].params.shape
    (torch.Size([5160, 5]), torch.Size([5160, 1]), torch.Size([1, 1]))
    """

    folder = "graetz"

    def read(self) -> tuple[list[MeshData], FieldSpec, dict[str, list[int]]]:
        mesh, mu, fields = self.arrays()
        x, length = mesh.points[:, 0], mesh.points[:, 0].max() - 1
        temperature = fields[:, 0]
        hot = ((temperature - 1).abs() < 1e-12).all(0)  # in every snapshot
        markers = {
            "cold": (temperature == 0).all(0).float(),
            "hot": hot.float(),
            "outlet": ((x == x.max()) & ~hot).float(),
        }
        meshes = []
        for i in range(len(mu)):
            points = mesh.points[:, :2].clone()
            points[:, 0] += (points[:, 0] - 1).clamp_min(0) * (mu[i, 0] / length - 1)
            case = moved(mesh, points.numpy())
            case.point_data = Arrays({**markers, "T": temperature[i]})
            case.field_data = Arrays({"mu": mu[i]})
            case.params = mu[i : i + 1, 1:]
            case.name = f"channel_{i:03d}"
            meshes.append(case)
        spec = FieldSpec(
            targets=(Field("T", "point"),),
            inputs=tuple(Field(name, "point") for name in markers),
            params=("diffusivity",),
            dim=2,
        )
        return meshes, spec, split_rows(len(mu), 160, 40)[1]
