"""The square with a moving hole: the layout of the published file, and its solution solved for again."""

import os

import numpy as np
import pytest
import torch

from meshop.data import InputError
from meshop.datasets import HoledPoisson

REAL = os.environ.get("MESHOP_HOLED_POISSON", "")


def write(root):
    """Five geometries of a square ring of eight triangles, in the layout of the file."""
    corners = torch.tensor([[0.0, 0], [1, 0], [1, 1], [0, 1]])
    mu = torch.tensor([[0.1, 0.1], [0.2, 0.1], [0.3, 0.1], [0.4, 0.1], [0.5, 0.1]])
    points = torch.stack([torch.cat([corners, m + 0.3 * corners, 0.05 + 0 * m[None]]) for m in mu], dim=2)  # [9, 2, 5]
    ring = [[i, (i + 1) % 4, 4 + i] for i in range(4)] + [[(i + 1) % 4, 4 + (i + 1) % 4, 4 + i] for i in range(4)]
    ring[3:4] = [[3, 0, 8], [3, 8, 7], [0, 7, 8]]  # node 8 lies inside
    data = {
        "x": points[:, 0], "y": points[:, 1], "u": torch.arange(45.0).view(9, 5), "mu": mu,
        "triang": torch.tensor(ring), "edge_index": torch.zeros(2, 0, dtype=torch.long),
    }  # fmt: skip
    (root / "raw").mkdir()
    torch.save(data, root / "raw" / "holed_poisson.pt")
    return root, data


@pytest.fixture
def tiny(tmp_path):
    return write(tmp_path)


def test_layout(tiny):
    root, data = tiny
    holes = HoledPoisson(root)
    assert len(holes) == 5
    assert (len(holes.splits["train"]), len(holes.splits["test"])) == (4, 1)
    assert sorted(holes.splits["train"] + holes.splits["test"]) == [0, 1, 2, 3, 4]
    mesh = holes[3]
    assert mesh.validate()
    assert torch.equal(mesh.pos, torch.stack([data["x"][:, 3], data["y"][:, 3]], 1))
    assert torch.equal(mesh.points[:, :2], mesh.pos)
    assert torch.equal(mesh.y[:, 0], data["u"][:, 3])
    assert torch.equal(mesh.field_data["mu"], data["mu"][3])
    assert mesh.point_data["boundary"].tolist() == [1, 1, 1, 1, 1, 1, 1, 1, 0]
    assert torch.equal(mesh.x, torch.cat([mesh.pos, mesh.point_data["boundary"][:, None]], 1))
    assert torch.equal(mesh.cell_index.view(-1, 3), data["triang"])


def test_the_file_may_lie_elsewhere(tiny, tmp_path_factory):
    root, _ = tiny
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    holes = HoledPoisson(elsewhere, path=root / "raw" / "holed_poisson.pt")
    assert torch.equal(holes[0].y, HoledPoisson(root)[0].y)
    assert [p.name for p in elsewhere.iterdir()] == ["processed"]


def test_without_the_file_the_error_says_where_it_comes_from(tmp_path):
    message = (
        r"^HoledPoisson needs holed_poisson.pt \(2.1 MB, SHA-256 1fda41d108aa9901...\) as '.*raw/holed_poisson.pt'; "
        r"get it from tutorials/tutorial22 of github.com/mathLab/PINA, or give its path$"
    )
    with pytest.raises(InputError, match=message):
        HoledPoisson(tmp_path)
    with pytest.raises(InputError, match=r"as 'nowhere.pt'; get it"):
        HoledPoisson(tmp_path, path="nowhere.pt")


def test_another_layout_is_refused(tmp_path):
    torch.save({"x": torch.zeros(3, 1), "u": torch.zeros(3, 1)}, tmp_path / "other.pt")
    with pytest.raises(InputError, match=r"Expected x, y, u, triang and mu in '.*other.pt' \(without mu, triang, y\)"):
        HoledPoisson(tmp_path, path=tmp_path / "other.pt")
    torch.save([1], tmp_path / "list.pt")
    with pytest.raises(InputError, match=r"\(without mu, triang, u, x, y\)"):
        HoledPoisson(tmp_path, path=tmp_path / "list.pt")


@pytest.mark.skipif(not REAL, reason="needs the published file: MESHOP_HOLED_POISSON=path/to/holed_poisson.pt")
def test_the_published_solution_is_that_of_linear_finite_elements(tmp_path):
    from skfem import Basis, ElementTriP1, MeshTri, condense, solve
    from skfem.models.poisson import laplace, unit_load

    holes = HoledPoisson(tmp_path, path=REAL)
    assert (len(holes.split("train")), len(holes.split("test"))) == (100, 21)
    for index in (0, 60, 120):
        mesh = holes[index]
        assert mesh.num_nodes == 1352
        triangles = MeshTri(mesh.points[:, :2].double().T.numpy().copy(), mesh.cell_index.view(-1, 3).T.numpy().copy())
        basis = Basis(triangles, ElementTriP1())
        fixed = np.flatnonzero(mesh.point_data["boundary"].numpy())
        u = solve(*condense(0.1 * laplace.assemble(basis), unit_load.assemble(basis), D=fixed))
        assert np.abs(u - mesh.y[:, 0].numpy()).max() < 1e-6 * u.max()
        assert float(mesh.measure.sum()) == pytest.approx(1 - 0.3**2, rel=1e-6)
