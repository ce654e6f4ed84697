"""The elastic block: its displacements are solved for again from the fields that the data set reads."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch

import meshop.datasets.smithers
from meshop.data import InputError
from meshop.datasets import ElasticBlock

needs_smithers = pytest.mark.skipif(find_spec("smithers") is None, reason="needs the package smithers (meshop[data])")


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    return ElasticBlock(tmp_path_factory.mktemp("blocks"))


def _solve(mesh):
    """Plane strain with linear triangles, from the cells' moduli and the parameters of the traction."""
    from skfem import Basis, BilinearForm, ElementTriP1, ElementVector, LinearForm, MeshTri, condense, solve
    from skfem.helpers import ddot, eye, sym_grad, trace

    triangles = MeshTri(mesh.points[:, :2].T.numpy().copy(), mesh.cell_index.view(-1, 3).T.numpy().copy())
    basis = Basis(triangles, ElementVector(ElementTriP1()))
    nu, third = 0.3, mesh.field_data["mu"][8:].numpy()

    @BilinearForm
    def stiffness(u, v, w):
        strain = sym_grad(u)
        stress = w["E"] / (1 + nu) * (strain + nu / (1 - 2 * nu) * eye(trace(strain), 2))
        return ddot(stress, sym_grad(v))

    @LinearForm
    def load(v, w):
        return third[np.minimum((w.x[1] * 3).astype(int), 2)] * v[0]

    right = basis.boundary(triangles.facets_satisfying(lambda x: x[0] > 1 - 1e-9, boundaries_only=True))
    clamped = basis.get_dofs(lambda x: x[0] < 1e-9)
    modulus = mesh.cell_data["E"].numpy()[:, None]
    u = solve(*condense(stiffness.assemble(basis, E=modulus), load.assemble(right), D=clamped))
    return u[basis.nodal_dofs].T


@needs_smithers
@pytest.mark.parametrize("index", [0, 123, 400, 499])
def test_displacements_are_those_of_linear_finite_elements(blocks, index):
    mesh = blocks[index]
    truth = mesh.point_data["displacement"][:, :2].numpy()
    assert np.abs(_solve(mesh) - truth).max() < 1e-10 * np.abs(truth).max()


@needs_smithers
def test_items(blocks):
    assert len(blocks) == 500
    assert blocks.splits == {"train": list(range(400)), "test": list(range(400, 500))}
    assert [str(f) for f in blocks.spec.inputs] == ["E:point", "traction:point", "left:point", "right:point"]
    mesh = blocks[7]
    assert mesh.validate()
    assert (mesh.num_nodes, mesh.num_cells) == (1346, 2560)
    assert torch.equal(mesh.y, mesh.point_data["displacement"][:, :2].float())
    assert torch.equal(mesh.x[:, 2], mesh.point_data["E"].float())
    assert float(mesh.point_data["displacement"][mesh.point_data["left"] == 1].abs().max()) == 0
    assert float(mesh.measure.sum()) == pytest.approx(1, abs=1e-6)


@needs_smithers
def test_nodal_modulus_and_traction_are_means_of_what_meets_there(blocks):
    mesh = blocks[42]
    x, y = mesh.points[:, :2].T
    mu, data = mesh.field_data["mu"], mesh.point_data
    modulus = torch.cat([mu[:8], torch.ones(1)]).view(3, 3)  # [i_y, i_x]

    def off(v):
        """Whether a coordinate lies off the lines between blocks."""
        return ((v * 3 - (v * 3).round()).abs() > 1e-9) | (v == 0) | (v == 1)

    inside = off(x) & off(y)
    column, row = (x[inside] * 3).long().clamp(max=2), (y[inside] * 3).long().clamp(max=2)
    assert torch.equal(data["E"][inside], modulus[row, column])
    between = ~off(x) & off(y) & (x < 0.5)
    row = (y[between] * 3).long().clamp(max=2)
    pair = modulus[row, :2]
    assert between.sum() > 5
    assert (data["E"][between] > pair.amin(1)).all()
    assert (data["E"][between] < pair.amax(1)).all()
    volume = mesh.measure.double() @ data["E"]  # the integral is kept
    assert float(volume) == pytest.approx(float(modulus.mean()), rel=1e-6)

    assert torch.equal(data["traction"] != 0, x == 1)
    thirds = mu[8:][(y[x == 1] * 3).long().clamp(max=2)]
    at_third = off(y[x == 1])
    assert torch.equal(data["traction"][x == 1][at_third], thirds[at_third])
    assert (~at_third).sum() == 2


def test_without_the_package_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(meshop.datasets.smithers, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r'smithers, which is not installed; pip install "meshop\[data\]"$'):
        ElasticBlock(tmp_path)


@needs_smithers
def test_the_files_are_read_without_importing_the_package(blocks):
    assert "smithers" not in sys.modules
