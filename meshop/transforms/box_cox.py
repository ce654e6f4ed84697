"""A power that makes fields of many orders of magnitude comparable."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from meshop.data import InputError, MeshData


@functional_transform("mesh_box_cox")
class BoxCox(BaseTransform):
    r"""Box and Cox's transformation of fields that are nowhere negative, mass fractions say; :meth:`inverse` undoes it.

    .. math::
        z = \frac{\max(y, \text{least})^\lambda - 1}{\lambda}, \qquad y = (\lambda z + 1)^{1 / \lambda};
        \qquad z = \ln \max(y, \text{least}), \quad y = e^z \quad \text{where } \lambda = 0

    With :math:`\lambda = 0.1` the mass fractions of a flame from 1e-8 to 1 lie between -8.4 and 0. Values below
    ``least`` come back as ``least``.

    Args:
        names: fields, wherever they live.
        lam: the power :math:`\lambda`, from 0 to 1.
        least: what smaller values are taken for; more than 0.

    Raises:
        InputError: ``lam`` or ``least`` is out of range; the mesh has no field of that name.

    >>> import torch
    >>> mesh = MeshData.from_cells([[0.0, 0], [1, 0]], [3], [[0, 1]], point_data={"Y": torch.tensor([1.0, 1e-5])})
    >>> flat = BoxCox(["Y"])(mesh)
    >>> flat.point_data["Y"]
    tensor([ 0.0000, -6.8377])
    >>> BoxCox(["Y"]).inverse(flat).point_data["Y"]
    tensor([1.0000e+00, 1.0000e-05])
    """

    def __init__(self, names: Sequence[str], lam: float = 0.1, least: float = 1e-8) -> None:
        if not 0 <= lam <= 1 or least <= 0:
            raise InputError(f"Expected lam from 0 to 1 and least above 0 (got {lam} and {least})")
        self.names = list(names)
        self.lam = lam
        self.least = least

    def encode(self, y: Tensor) -> Tensor:
        """Transformed values."""
        y = y.clamp_min(self.least)
        return (y**self.lam - 1) / self.lam if self.lam else y.log()

    def decode(self, z: Tensor) -> Tensor:
        """Values of before; ``least`` for what no value of before is transformed to."""
        y = (self.lam * z + 1).clamp_min(0) ** (1 / self.lam) if self.lam else z.exp()
        return y.clamp_min(self.least)

    def forward(self, data: MeshData) -> MeshData:
        return self._apply(data, self.encode)

    def inverse(self, data: MeshData) -> MeshData:
        """A copy with the fields of before."""
        return self._apply(data.__copy__(), self.decode)

    def _apply(self, data: MeshData, function: Callable[[Tensor], Tensor]) -> MeshData:
        for name in self.names:
            keys = [key for key in ("point_data", "cell_data") if name in data[key]]
            if not keys:
                raise InputError(f"BoxCox expects the field '{name}', which the mesh does not have")
            for key in keys:
                data[key] = data[key].__copy__()
                data[key][name] = function(data[key][name])
        return data

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.names}, lam={self.lam}, least={self.least})"
