"""A curved panel that deforms with its temperature, in the layout of NORM's benchmark of a composite part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.linalg import splu

from meshop.datasets.generators.generator import Array, Generator, Sample, save_mat

if TYPE_CHECKING:
    from skfem import MeshHex

YOUNG, POISSON, EXPANSION = 60e9, 0.3, 1e-5  # Pa, 1, 1/K
RADIUS, ANGLE, WIDTH, THICKNESS = 1.0, np.pi / 3, 0.7, 0.12  # m, rad, m, m
WAVES = (6, 4, 2)  # of the temperature along, across and through the panel
MEAN, DEVIATION = 100.0, 20.0  # K, of the temperature above that of no stress
VTK = ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1))


def hexahedra(shape: Sequence[int], corners: Sequence[Sequence[int]] = VTK) -> Array:
    """The cells [C, 8] between nodes on a grid in row-major order; ``corners`` is the order in a cell."""
    number = np.arange(np.prod(shape)).reshape(shape)
    ranges = [[slice(o, n - 1 + o) for o, n in zip(corner, shape, strict=True)] for corner in corners]
    return np.stack([number[tuple(r)].ravel() for r in ranges], axis=1)


def panel(shape: Sequence[int]) -> MeshHex:
    """A piece of a thick cylinder; its first axis runs along the arc, from the face that is held."""
    from skfem import ElementHex1, MeshHex

    s, t, r = np.meshgrid(*[np.linspace(0, 1, n) for n in shape], indexing="ij")
    radius, angle = RADIUS + THICKNESS * r, ANGLE * s
    points = np.stack([radius * np.sin(angle), WIDTH * t, radius * np.cos(angle)])
    cells = hexahedra(shape, ElementHex1.doflocs.astype(int).tolist())
    return MeshHex(points.reshape(3, -1), np.ascontiguousarray(cells.T))


class Thermoelastic:
    r"""Small displacements of a body that is heated, by trilinear elements, for many temperatures of one mesh.

    .. math::
        \nabla \cdot \sigma = 0, \qquad \sigma = \lambda \operatorname{tr} \varepsilon I + 2 \mu \varepsilon
        - (3 \lambda + 2 \mu) \alpha T I, \qquad \varepsilon = \tfrac12 (\nabla u + \nabla u^T)

    Args:
        mesh: hexahedra.
        held: numbers of the nodes where u = 0; the rest of the surface is free.
    """

    def __init__(self, mesh: MeshHex, held: Array) -> None:
        from skfem import Basis, BilinearForm, ElementHex1, ElementVector
        from skfem.helpers import div
        from skfem.models.elasticity import lame_parameters, linear_elasticity

        first, second = lame_parameters(YOUNG, POISSON)
        self.basis = Basis(mesh, ElementVector(ElementHex1()), intorder=3)
        self.free = self.basis.complement_dofs(self.basis.nodal_dofs[:, held].ravel())
        stiffness = linear_elasticity(first, second).assemble(self.basis)[self.free][:, self.free]
        heat = BilinearForm(lambda t, v, _: (3 * first + 2 * second) * EXPANSION * t * div(v))
        self.heat = heat.assemble(self.basis.with_element(ElementHex1()), self.basis)  # [3 N, N]
        self.factors = splu(stiffness.tocsc())

    def __call__(self, temperature: Array, load: Array | float = 0.0) -> Array:
        """The displacement [N, 3] for temperatures of the nodes [N] and nodal forces."""
        u = np.zeros(self.basis.N)
        u[self.free] = self.factors.solve((self.heat @ temperature + load)[self.free])
        return u[self.basis.nodal_dofs].T


@lru_cache
def body(shape: tuple[int, ...]) -> Thermoelastic:
    """The panel, held on the face where its arc begins."""
    return Thermoelastic(panel(shape), np.arange(shape[1] * shape[2]))


def random_temperature(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    r"""A Gaussian random field on the grid of the panel, as a cosine series in its unit cube.

    Its covariance is proportional to :math:`(-\Delta + 3^2)^{-2}`; mean and deviation, over the panel, are constants of
    this module.
    """
    k = np.stack(np.meshgrid(*map(np.arange, WAVES), indexing="ij"))
    deviation = 1 / (np.pi**2 * (k**2).sum(0) + 9)
    deviation[0, 0, 0] = 0
    variance = np.sum(deviation**2 / 2.0 ** (k > 0).sum(0))
    axes = [np.cos(np.pi * np.outer(np.linspace(0, 1, n), np.arange(m))) for n, m in zip(shape, WAVES, strict=True)]
    waves = DEVIATION / np.sqrt(variance) * deviation * rng.standard_normal(WAVES)
    return MEAN + np.einsum("abc,ia,jb,kc->ijk", waves, *axes, optimize=True).ravel()


def sample(rng: np.random.Generator, shape: Sequence[int]) -> Sample:
    """A temperature, and how far each node moves.

    Trilinear elements are stiff in bending: from 22 x 15 x 4 to 43 x 29 x 7 nodes the distances change by 0.5 to 6 %
    in relative L2 (five samples).
    """
    temperature = random_temperature(rng, shape)
    return {"T_field": temperature, "D_field": np.linalg.norm(body(tuple(shape))(temperature), axis=1)}


def write(out: Path, samples: Sequence[Sample], options: Mapping[str, Any]) -> dict[str, Array]:
    """Write the fields, and the mesh into the file of the basis, numbered from 0."""
    fields = {name: np.stack([row[name] for row in samples]) for name in ("T_field", "D_field")}
    save_mat(out / "Composites.mat", **fields)
    basis = out / "Composites_LBO_basis"
    basis.mkdir(exist_ok=True)
    save_mat(basis / "Composites_LBO_basis.mat", Points=panel(options["shape"]).p.T, Faces=hexahedra(options["shape"]))
    return fields


GENERATOR = Generator(sample, write, 500, {"shape": (42, 28, 7)})
