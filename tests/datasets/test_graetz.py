"""The Graetz problem: its solutions solved for again, on the channels that they belong to."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch

from meshop.datasets import Graetz

pytestmark = pytest.mark.skipif(find_spec("smithers") is None, reason="needs the package smithers (meshop[data])")


@pytest.fixture(scope="module")
def channels(tmp_path_factory):
    keep = (0, 2, 159, 160, 199)  # the graph of a mesh takes a while
    root = tmp_path_factory.mktemp("graetz")
    return Graetz(root, pre_filter=lambda mesh: int(mesh.name[-3:]) in keep)


def test_items(channels):
    assert channels.splits == {"train": [0, 1, 2], "test": [3, 4]}
    assert channels.spec.params == ("diffusivity",)
    mesh = channels[1]
    assert mesh.validate()
    assert (mesh.name, mesh.num_nodes, mesh.num_cells) == ("channel_002", 5160, 10056)
    length, diffusivity = mesh.field_data["mu"].tolist()
    assert mesh.params.tolist() == [[pytest.approx(diffusivity)]]
    assert float(mesh.points[:, 0].max()) == pytest.approx(1 + length, rel=1e-12)
    assert float(mesh.measure.sum()) == pytest.approx(1 + length, rel=1e-5)
    assert torch.equal(mesh.points[:, :2].float(), mesh.pos)
    assert torch.equal(mesh.y[:, 0], mesh.point_data["T"].float())


def test_boundaries(channels):
    mesh = channels[1]
    x, y = mesh.points[:, :2].T
    cold, hot, outlet = (mesh.point_data[name] == 1 for name in ("cold", "hot", "outlet"))
    wall = (y < 1e-9) | (y > 1 - 1e-9)
    assert torch.equal(cold | hot, wall | (x == 0))
    assert bool((wall & (x < 1 + 1e-9))[cold & (x > 0)].all())
    assert bool((x[hot] > 1 - 1e-9).all())
    assert torch.equal(outlet, (x == x.max()) & ~wall)
    assert not bool((cold & hot).any())


@pytest.mark.parametrize("index", [0, 1, 4])
def test_the_published_solution_is_that_of_linear_finite_elements(channels, index):
    from skfem import Basis, BilinearForm, ElementTriP1, MeshTri, condense, solve
    from skfem.helpers import dot, grad

    mesh = channels[index]
    points = mesh.points[:, :2].double().T.numpy().copy()
    basis = Basis(MeshTri(points, mesh.cell_index.view(-1, 3).T.numpy().copy()), ElementTriP1(), intorder=3)
    kappa = float(mesh.field_data["mu"][1])
    form = BilinearForm(lambda u, v, w: w["profile"] * grad(u)[0] * v + kappa * dot(grad(u), grad(v)))
    matrix = form.assemble(basis, profile=basis.interpolate(points[1] * (1 - points[1])))
    cold, hot = (mesh.point_data[name].numpy() == 1 for name in ("cold", "hot"))
    solution = solve(*condense(matrix, x=hot.astype(float), D=np.flatnonzero(cold | hot)))
    assert np.abs(solution - mesh.point_data["T"].numpy()).max() < 1e-12
