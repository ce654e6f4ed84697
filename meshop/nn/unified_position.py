from collections.abc import Sequence

import torch
from torch import Tensor, nn

from meshop.data import InputError
from meshop.domain import scatter


class UnifiedPosition(nn.Module):
    r"""Position as the distances to a fixed lattice, Transolver's "unified position".

    .. math::
        e_{ni} = \lVert \hat p_n - l_i \rVert_2, \qquad
        \hat p_n = (p_n - \text{lower}) / (\text{upper} - \text{lower})

    with :math:`l_i` the ``ref ** dim`` points of a lattice on the unit cube. The box is that of each graph, unless one
    is given for all.

    Args:
        dim: number of coordinates.
        ref: lattice points along each axis.
        box: lower and upper corner of a box for all graphs, such as ``((0, 0), (1, 1))``.

    Shapes:
        - **input:** pos [N, dim], batch [N]
        - **output:** [N, ref ** dim]

    Raises:
        InputError: the coordinates are not ``dim``-dimensional.

    >>> UnifiedPosition(2, ref=2)(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))[0].tolist()
    [0.0, 1.0, 1.0, 1.4142135381698608]
    """

    lattice: Tensor

    def __init__(self, dim: int, ref: int = 8, box: Sequence[Sequence[float]] | None = None) -> None:
        super().__init__()
        self.dim = dim
        self.ref = ref
        self.box = box
        self.out_channels = ref**dim
        axes = [torch.arange(ref)] * dim
        lattice = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)  # [ref ** dim, dim]
        self.register_buffer("lattice", lattice, persistent=False)

    def reset_parameters(self) -> None:
        """There are none."""

    def forward(self, pos: Tensor, batch: Tensor | None = None, batch_size: int | None = None) -> Tensor:
        if pos.size(-1) != self.dim:
            raise InputError(f"Expected {self.dim} coordinates (got {pos.size(-1)})")
        exact = pos.to(torch.promote_types(pos.dtype, torch.float32))
        if self.box is not None:
            lower, upper = exact.new_tensor(self.box)
        else:
            if batch is None:
                batch, batch_size = torch.zeros(pos.size(0), dtype=torch.long, device=pos.device), 1
            batch = batch.long()
            lower, upper = (scatter(exact, batch, dim_size=batch_size, reduce=how)[batch] for how in ("min", "max"))
        extent = torch.where(upper > lower, upper - lower, 1)
        lattice = self.lattice.to(exact.dtype) / max(self.ref - 1, 1)
        distance = torch.cdist((exact - lower) / extent, lattice, compute_mode="donot_use_mm_for_euclid_dist")
        return distance.to(pos.dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dim}, ref={self.ref})"
