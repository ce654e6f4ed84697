"""The backward step: a published number certifies the reading of the files and the metric."""

from importlib.util import find_spec

import pytest
import torch

from meshop.datasets import NavierStokesStep
from meshop.metrics import relative_l2

pytestmark = pytest.mark.skipif(find_spec("smithers") is None, reason="needs the package smithers (meshop[data])")


@pytest.fixture(scope="module")
def flows(tmp_path_factory):
    return NavierStokesStep(tmp_path_factory.mktemp("flows"))


def test_the_published_error_of_pod_and_nearest_neighbours(flows):
    """EZyRB, tutorial 2: vx, POD of rank 10, mean of the 5 nearest parameters, 5 unshuffled folds."""
    vx = torch.stack([mesh.point_data["velocity"][:, 0] for mesh in flows])  # [500, N]
    mu = torch.cat([mesh.params for mesh in flows])
    errors = []
    for fold in torch.arange(500).chunk(5):
        rest = torch.ones(500, dtype=torch.bool).index_fill(0, fold, False)
        modes = torch.linalg.svd(vx[rest].T, full_matrices=False)[0][:, :10]
        near = (mu[fold] - mu[rest].T).abs().topk(5, largest=False).indices
        prediction = (vx[rest] @ modes)[near].mean(1) @ modes.T
        case = torch.arange(len(fold)).repeat_interleave(vx.size(1))
        error = relative_l2(prediction.reshape(-1, 1), vx[fold].reshape(-1, 1), batch=case)
        errors.append(error.mean())
    assert f"{torch.stack(errors).mean():.6e}" == "8.032581e-03"


def test_items(flows):
    assert flows.splits == {"train": list(range(400)), "test": list(range(400, 500))}
    assert flows.spec.params == ("inflow",)
    mesh = flows[3]
    assert mesh.validate()
    assert (mesh.num_nodes, mesh.num_cells) == (1639, 3091)
    x, y = mesh.points[:, :2].T
    velocity, inflow = mesh.point_data["velocity"][:, :2], float(mesh.params)
    markers = torch.stack([mesh.point_data[name] for name in ("inlet", "outlet", "wall")])
    assert markers.sum(0).max() == 1
    assert int(markers.sum()) == 185  # all nodes of the boundary
    inlet, outlet, wall = markers == 1
    assert torch.equal(inlet, (x == 0) & (y > 2) & (y < 5))
    assert (x[outlet] == 22).all()
    assert float(velocity[wall].abs().max()) < 1e-9
    profile = 4 * inflow * (y[inlet] - 2) * (5 - y[inlet]) / 9
    assert velocity[inlet, 0].tolist() == pytest.approx(profile.tolist(), rel=1e-6)
    assert torch.equal(mesh.y, torch.cat([velocity, mesh.point_data["p"][:, None]], dim=1).float())
