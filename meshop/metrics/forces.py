"""Forces of a flow on a surface, and their coefficients."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from meshop.data import InputError


def surface_force(
    pressure: Tensor,
    area: Tensor,
    shear: Tensor | None = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> Tensor:
    r"""Force of a flow on the surface of a body, by pressure and wall shear stress.

    .. math::
        F = \oint (-p \, n + \tau) \, \mathrm{d}A \approx \sum_c \bigl( -p_c A_c + \tau_c \lVert A_c \rVert \bigr)

    with the area vectors :math:`A_c` of the cells (:func:`meshop.geometry.cell_area_vector`), which point out of the
    body into the flow. Of a closed surface it does not depend on a constant in the pressure; with the pressure at the
    cells' centres it converges with the square of their size. A pressure at points becomes one at cells by
    :func:`meshop.geometry.points_to_cells`.

    Args:
        pressure: of each cell [C], in Pa.
        area: area vector of each cell [C, D], in m2 (m in 2-D, for a force per metre of span).
        shear: wall shear stress of each cell [C, D], in Pa: the stress that the flow exerts on the body.
        batch: body of each cell [C]; one body if absent.
        batch_size: number of bodies B.

    Returns:
        [B, D] in N, float32 at least. With a kinematic pressure, p / rho in m2/s2, it is the force over the density.

    Raises:
        InputError: the shapes do not fit.

    >>> surface_force(torch.tensor([3.0, 1.0]), torch.tensor([[-2.0, 0.0, 0.0], [2.0, 0.0, 0.0]]))
    tensor([[4., 0., 0.]])
    """
    if area.dim() != 2 or pressure.shape != area.shape[:1] or (shear is not None and shear.shape != area.shape):
        got = " and ".join(str(list(x.shape)) for x in (pressure, area, shear) if x is not None)
        raise InputError(f"Expected pressure [C], area vectors [C, D] and shear [C, D] of the same cells (got {got})")
    dtype = torch.promote_types(torch.promote_types(pressure.dtype, area.dtype), torch.float32)
    area = area.to(dtype)
    force = -pressure.to(dtype)[:, None] * area
    if shear is not None:
        force = force + shear.to(dtype) * area.norm(dim=1, keepdim=True)
    if batch is None:
        return force.sum(0, keepdim=True)
    return scatter(force, batch.long(), dim_size=batch_size)


def force_coefficient(
    force: Tensor, direction: Tensor, speed: Tensor | float, area: Tensor | float, density: Tensor | float = 1.0
) -> Tensor:
    r"""Coefficient of a force along a direction: of drag along the flow, of lift across it.

    .. math::
        C = \frac{F \cdot e}{\frac12 \rho U^2 A}, \qquad e = d / \lVert d \rVert

    Args:
        force: of each body [B, D], in N.
        direction: d, [D] or [B, D], of any length.
        speed: U of the free flow, in m/s; one for all or [B].
        area: reference area A, in m2: the frontal area of a car; the chord (m) in 2-D. One for all or [B].
        density: rho, in kg/m3; 1 with kinematic pressures. One for all or [B].

    Returns:
        [B], without unit.

    >>> force_coefficient(torch.tensor([[9.0, 1.0]]), torch.tensor([2.0, 0.0]), speed=3.0, area=2.0)
    tensor([1.])
    """
    along = (force * (direction / direction.norm(dim=-1, keepdim=True)).to(force)).sum(-1)
    return along / (0.5 * density * speed**2 * area)
