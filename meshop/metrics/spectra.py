"""Metrics in Fourier space: of fields on grids, and of fields on meshes after resampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from meshop.data import InputError


def fourier_rmse(pred: Tensor, target: Tensor, shape: Sequence[int], batch_size: int = 1) -> Tensor:
    r"""Error in Fourier space by shells of wave numbers: fRMSE of RealPDEBench, after PDEBench.

    .. math::
        \operatorname{fRMSE}_k = \frac{1}{n} \Bigl( \sum_{\lfloor |m| \rfloor = k}
        \lvert \hat p_m - \hat y_m \rvert^2 \Bigr)^{1/2}, \qquad k < \tfrac12 \min_a n_a

    with the discrete Fourier transform over the frames, where there are any, and the grid, :math:`n` values together.
    As in the authors' code m runs over :math:`0 \le m_a < \lfloor n_a / 2 \rfloor`, an eighth of the wave numbers in
    3-D: the opposite signs of all three are the conjugates of these, the others are not counted.

    The benchmark's number is the mean over shells and channels; low, middle and high are the means of thirds of the
    shells. Where it holds several samples, its code takes the mean over them before the root; this is a sample's own.

    Args:
        pred: [N, C], or [N, T, C] with frames: the nodes of a grid in row-major order, one graph after another.
        target: the same shape.
        shape: points of the grid along each axis.
        batch_size: number of graphs B.

    Returns:
        [B, K, C] in the unit of the field, for K shells.

    Raises:
        InputError: the shapes differ, or are not that of the grid.

    >>> x = torch.arange(8) / 8
    >>> wave = torch.cos(2 * torch.pi * 2 * x)[:, None].expand(8, 8).reshape(64, 1)
    >>> fourier_rmse(wave, torch.zeros(64, 1), (8, 8)).squeeze().round(decimals=4)
    tensor([0.0000, 0.0000, 0.5000, 0.0000])
    """
    if pred.shape != target.shape:
        raise InputError(f"Expected pred and target of one shape (got {list(pred.shape)} and {list(target.shape)})")
    error = _on_grid(pred - target, shape, batch_size)  # [B, *shape, T, C]
    axes = tuple(range(1, error.dim() - 1))
    size = [error.size(axis) for axis in axes]
    power = torch.fft.fftn(error, dim=axes).abs().square()
    for axis in axes:
        power = power.narrow(axis, 0, max(error.size(axis) // 2, 1))
    shell = _radius([torch.arange(max(n // 2, 1), dtype=torch.float64) for n in size]).floor()
    return _by_shell(power, shell, min(size) // 2).sqrt() / math.prod(size)


def energy_spectrum(
    velocity: Tensor, shape: Sequence[int], batch_size: int = 1, extent: Sequence[float] | None = None
) -> Tensor:
    r"""Kinetic energy of each shell of wave numbers of a flow on a grid, per unit mass.

    .. math::
        E_k = \frac12 \sum_{k - \frac12 \le |\kappa| < k + \frac12} \lVert \hat u_\kappa \rVert^2, \qquad
        \hat u_\kappa = \frac1n \sum_x u(x) e^{-i \kappa \cdot x}, \qquad k = 0, \dots, \lfloor n_l / 2 \rfloor

    with wave numbers in units of :math:`2 \pi / L` for the longest edge L of the box, along which the grid has
    :math:`n_l` points. By Parseval the energies of all wave numbers add up to the mean of
    :math:`\frac12 \lVert u \rVert^2`; beyond the last shell lie only the corners of Fourier space. Divide by
    :math:`2 \pi / L` for a density in wave number.

    The box is taken as one period, its last points one spacing before its end. What is not periodic has a tail that
    falls like :math:`k^{-2}` from the jump between its ends.

    Args:
        velocity: [N, D] in m/s, say: the nodes of a grid in row-major order, one graph after another. Any field will
            do: one of a single component gives half its power spectrum.
        shape: points of the grid along each axis.
        batch_size: number of graphs B.
        extent: edges of the box along each axis; all alike if absent.

    Returns:
        [B, K] in the unit of the velocity squared.

    Raises:
        InputError: the shapes do not fit.

    >>> x = torch.arange(16) * 2 * torch.pi / 16
    >>> u = torch.stack([torch.cos(3 * x)[None].expand(16, 16), torch.zeros(16, 16)], dim=-1)
    >>> energy_spectrum(u.reshape(256, 2), (16, 16))[0].round(decimals=4)
    tensor([0.0000, 0.0000, 0.0000, 0.2500, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000])
    """
    edges = [1.0] * len(shape) if extent is None else list(extent)
    if len(edges) != len(shape) or min(edges) <= 0:
        raise InputError(f"Expected a positive extent of each of the {len(shape)} axes (got {edges})")
    grid = _on_grid(velocity, shape, batch_size)
    axes = tuple(range(1, 1 + len(shape)))
    power = torch.fft.fftn(grid, dim=axes, norm="forward").abs().square().flatten(1 + len(shape)).sum(-1, keepdim=True)
    longest = max(range(len(shape)), key=lambda axis: edges[axis])
    waves = [
        torch.fft.fftfreq(n, 1 / n, dtype=torch.float64) * edges[longest] / e for n, e in zip(shape, edges, strict=True)
    ]
    return _by_shell(power, (_radius(waves) + 0.5).floor(), shape[longest] // 2 + 1).squeeze(2) / 2


def spectrum_error(
    pred: Tensor,
    target: Tensor,
    shape: Sequence[int],
    batch_size: int = 1,
    extent: Sequence[float] | None = None,
    bands: Sequence[float] = (1 / 3, 2 / 3, 1.0),
) -> Tensor:
    r"""Relative error of the kinetic energy in bands of wave numbers: large, middle and small eddies.

    .. math::
        \frac{\sum_{k \in b} E_k(p) - \sum_{k \in b} E_k(y)}{\sum_{k \in b} E_k(y)}, \qquad
        b_i = \{ k \ge 1 : \beta_{i - 1} k_N < k \le \beta_i k_N \}, \quad \beta_0 = 0

    with :math:`E_k` of :func:`energy_spectrum` and the Nyquist wave number :math:`k_N = \lfloor n_l / 2 \rfloor`. It is
    negative where the prediction is too smooth, -1 where it has lost all, and 0 for the right energy, also of another
    flow. The mean flow, k = 0, is in no band.

    Where the target has no energy in a band, but for what rounding leaves, that of the prediction is taken relative to
    the target's in all of them.

    Args:
        pred: velocity [N, D], the nodes of a grid in row-major order, one graph after another.
        target: the same shape.
        shape: points of the grid along each axis.
        batch_size: number of graphs B.
        extent: edges of the box along each axis; all alike if absent.
        bands: upper ends :math:`\beta` as shares of the Nyquist wave number, increasing; the thirds by default.

    Returns:
        [B, len(bands)].

    Raises:
        InputError: the shapes do not fit; the bands do not increase from above 0 to 1 at most, or one holds no shell.

    >>> x = torch.arange(24) * 2 * torch.pi / 24
    >>> large, middle, small = (torch.cos(k * x)[:, None].expand(24, 24).reshape(576, 1) for k in (2, 6, 11))
    >>> spectrum_error(2 * large + 3 * middle + 0.5 * small, large + middle + small, (24, 24)).round(decimals=3)
    tensor([[ 3.0000,  8.0000, -0.7500]])
    """
    if pred.shape != target.shape:
        raise InputError(f"Expected pred and target of one shape (got {list(pred.shape)} and {list(target.shape)})")
    spectra = [energy_spectrum(u, shape, batch_size, extent) for u in (pred, target)]
    nyquist = spectra[0].size(1) - 1
    ends = [0, *(math.floor(end * nyquist + 1e-6) for end in bands)]  # the thirds of 12 are 4, 8 and 12
    if len(ends) < 2 or ends[-1] > nyquist or any(b <= a for a, b in pairwise(ends)):
        raise InputError(
            f"Expected increasing ends of bands up to 1, with one of {nyquist} shells in each at least "
            f"(got {list(bands)})"
        )
    p, y = (torch.stack([e[:, a + 1 : b + 1].sum(1) for a, b in pairwise(ends)], 1) for e in spectra)  # [B, bands]
    rounding = (4 * torch.finfo(y.dtype).eps) ** 2 * spectra[1].sum(1, keepdim=True)
    size = torch.where(y > rounding, y, y.sum(1, keepdim=True))
    return (p - y) / torch.where(size > 0, size, 1)


def velocity_from_vorticity(
    vorticity: Tensor, shape: Sequence[int], batch_size: int = 1, extent: Sequence[float] = (1.0, 1.0)
) -> Tensor:
    r"""Velocity of an incompressible flow in a periodic plane, by its stream function.

    .. math::
        -\Delta \psi = w, \qquad u = (\partial_y \psi, -\partial_x \psi), \qquad w = \partial_x u_y - \partial_y u_x

    in Fourier space, exact for what the grid resolves. Neither a mean flow nor a mean vorticity has a part in it: the
    first cannot be known from the vorticity, the second does not exist on a torus. The last wave number of an axis with
    an even number of points has no slope along it.

    Args:
        vorticity: [N, ...] in 1/s, say: the nodes of a grid in row-major order, x along its first axis, one graph after
            another; further axes are those of frames.
        shape: points of the grid along x and y.
        batch_size: number of graphs B.
        extent: edges of the period along x and y; by default those of the unit torus, on which FNO's flows live.

    Returns:
        [N, ..., 2] in the unit of the vorticity times that of the extent.

    Raises:
        InputError: the shapes do not fit; the grid is not plane.

    >>> x = torch.arange(16)[:, None].expand(16, 16).reshape(256) / 16
    >>> u = velocity_from_vorticity(2 * torch.pi * torch.cos(2 * torch.pi * x), (16, 16))
    >>> torch.allclose(u[:, 1], torch.sin(2 * torch.pi * x), atol=1e-5), u[:, 0].abs().max().item() < 1e-5
    (True, True)
    """
    if len(shape) != 2 or len(extent) != 2 or min(extent) <= 0:
        raise InputError(
            f"Expected a grid of two axes with positive extents (got shape {list(shape)} and extent {list(extent)})"
        )
    grid = _on_grid(vorticity.reshape(len(vorticity), math.prod(vorticity.shape[1:])), shape, batch_size)
    waves = [
        2 * torch.pi / edge * torch.fft.fftfreq(n, 1 / n, dtype=torch.float64)
        for n, edge in zip(shape, extent, strict=True)
    ]
    square = _radius(waves).square()
    square[0, 0] = torch.inf
    for n, wave in zip(shape, waves, strict=True):
        if n % 2 == 0:
            wave[n // 2] = 0
    slope = torch.stack([waves[1].expand(*shape), -waves[0][:, None].expand(*shape)], -1)
    factor = (1j * slope / square[..., None])[:, :, None].to(grid.device)  # [n1, n2, 1, 2]
    hat = torch.fft.fft2(grid, dim=(1, 2))[..., None]
    velocity = torch.fft.ifft2(hat * factor.to(hat.dtype), dim=(1, 2)).real
    return velocity.reshape(*vorticity.shape, 2)


def to_grid(x: Tensor, pos: Tensor, shape: Sequence[int], batch: Tensor | None = None) -> Tensor:
    r"""Fields at the points of a regular grid over the bounding box of each graph, for :func:`energy_spectrum`.

    Linear on the Delaunay triangles (tetrahedra) of the nodes, so that linear functions stay as they are and others
    have an error of second order in the spacing of the nodes; outside all triangles the value of the nearest node.
    Holes of the mesh are bridged. The grid has its first points on the lower end of the box and its last ones a
    spacing before the upper end, as one period has.

    Cost: O(N log N) time and O(N) memory for the triangles, on the CPU, by scipy's Qhull.

    Args:
        x: fields [N, ...].
        pos: coordinates [N, D], D = 2 or 3.
        shape: points of the grid along each axis.
        batch: graph of each node [N].

    Returns:
        [B * n1 * ... * nD, ...] in row-major order, one graph after another.

    Raises:
        InputError: the grid has another dimension than the nodes; the nodes of a graph lie on one line (or plane).

    >>> pos = torch.rand(50, 2).double()
    >>> to_grid(pos, pos, (4, 4)).shape
    torch.Size([16, 2])
    """
    from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator
    from scipy.spatial import QhullError

    if pos.size(1) != len(shape) or len(shape) not in (2, 3):
        raise InputError(
            f"Expected a grid and nodes of the same dimension, 2 or 3 (got {tuple(shape)} for {pos.size(1)}-D)"
        )
    batch = torch.zeros(len(pos), dtype=torch.long) if batch is None else batch.cpu()
    values = x.detach().cpu().double().reshape(len(x), math.prod(x.shape[1:])).numpy()
    places = pos.detach().cpu().double().numpy()
    grids = []
    for graph in range(int(batch.max()) + 1 if len(batch) else 0):
        node = (batch == graph).numpy()
        if node.sum() <= len(shape):
            raise InputError(f"Expected nodes that span {len(shape)} dimensions (graph {graph} has {node.sum()})")
        lower, upper = places[node].min(0), places[node].max(0)
        axes = [torch.arange(n, dtype=torch.float64) / n for n in shape]
        unit = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2).numpy()
        own = (places[node] - lower) / (upper - lower).clip(min=1e-300)
        try:
            grid = LinearNDInterpolator(own, values[node])(unit)
        except QhullError as error:
            raise InputError(
                f"Expected nodes that span {len(shape)} dimensions (those of graph {graph} do not)"
            ) from error
        outside = (grid != grid).any(1)
        grid[outside] = NearestNDInterpolator(own, values[node])(unit[outside])
        grids.append(torch.from_numpy(grid))
    whole = torch.cat([*grids, torch.empty(0, values.shape[1], dtype=torch.float64)])
    return whole.to(x).reshape(len(whole), *x.shape[1:])


def _on_grid(x: Tensor, shape: Sequence[int], batch_size: int) -> Tensor:
    if x.dim() < 2 or x.size(0) != batch_size * math.prod(shape):
        points = " x ".join(map(str, shape))
        raise InputError(f"Expected fields [N, C] on {batch_size} grids of {points} points (got {list(x.shape)})")
    return x.to(torch.promote_types(x.dtype, torch.float32)).reshape(batch_size, *shape, *x.shape[1:])


def _radius(waves: Sequence[Tensor]) -> Tensor:
    return torch.stack([w.square() for w in torch.meshgrid(*waves, indexing="ij")]).sum(0).sqrt()


def _by_shell(power: Tensor, shell: Tensor, count: int) -> Tensor:
    """Sum [B, *grid, C] over the points of each of the first shells: [B, count, C]."""
    shell = shell.flatten().long().to(power.device)
    power = power.flatten(1, -2)  # [B, M, C]
    inside = shell < count
    return power.new_zeros(power.size(0), count, power.size(2)).index_add(1, shell[inside], power[:, inside])
