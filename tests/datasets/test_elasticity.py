"""Elasticity on a small cloud of points in the layout of the official files."""

import numpy as np
import pytest
import torch

from meshop.data import InputError
from meshop.datasets import Elasticity
from meshop.transforms import KNNGraph

ANGLES = np.linspace(0, 2 * np.pi, 42)


def void(row):
    """Radii [42]: an egg that grows with the row."""
    return 0.22 + 0.01 * row + 0.05 * np.cos(ANGLES)


def write(root, count=12, **replace):
    """An O-grid between the void and the square, the points of a case in random order."""
    rng = np.random.default_rng(0)
    turn = np.arange(40) * 2 * np.pi / 40
    xy, sigma = [], []
    for row in range(count):
        inner = np.interp(turn, ANGLES, void(row)) + 0.01
        outer = 0.49 / np.maximum(abs(np.cos(turn)), abs(np.sin(turn)))
        r = inner + np.linspace(0, 1, 5)[:, None] * (outer - inner)
        points = np.stack([0.5 + r * np.cos(turn), 0.5 + r * np.sin(turn)], -1).reshape(-1, 2)
        xy.append(points[rng.permutation(len(points))])
        sigma.append(row + np.arange(len(points)) / 1000)
    arrays = {
        "XY": np.transpose(xy, (1, 2, 0)),  # [N, 2, S]
        "sigma": np.transpose(sigma),  # [N, S]
        "rr": np.stack([void(row) for row in range(count)], 1),  # [42, S]
    } | replace
    (root / "raw").mkdir(exist_ok=True)
    for name, array in arrays.items():
        np.save(root / "raw" / f"Random_UnitCell_{name}_10.npy", array)
    return arrays


def test_fields_and_splits(tmp_path):
    arrays = write(tmp_path)
    blocks = Elasticity(tmp_path)
    assert blocks.splits == {"train": list(range(10)), "test": [10, 11]}
    mesh = blocks.split("test")[0]
    assert mesh.validate()
    assert mesh.name == "elasticity_0010"
    assert mesh.points[:, :2].tolist() == arrays["XY"][:, :, 10].tolist()
    assert torch.equal(mesh.x, mesh.pos)
    assert torch.equal(mesh.y[:, 0], torch.from_numpy(arrays["sigma"][:, 10]).float())
    assert torch.equal(mesh.field_data["rr"], torch.from_numpy(arrays["rr"][:, 10]).float())


def test_cells_fill_the_square_and_leave_the_void(tmp_path):
    write(tmp_path)
    for row, mesh in enumerate(Elasticity(tmp_path)):
        triangles = mesh.points[mesh.cell_index.view(-1, 3), :2] - 0.5
        a, b = triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
        area = (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / 2
        assert (area > 0).all()
        radius = void(row) + 0.01  # of the innermost points
        polygon = np.stack([radius * np.cos(ANGLES), radius * np.sin(ANGLES)], 1)
        hole = 0.5 * np.sum(polygon[:-1, 0] * polygon[1:, 1] - polygon[1:, 0] * polygon[:-1, 1])
        assert float(area.sum()) == pytest.approx(0.98**2 - hole, rel=0.02)
        assert float(mesh.measure.sum()) == pytest.approx(float(area.sum()), rel=1e-5)
        assert float(mesh.measure.min()) > 0
        middle = (mesh.points[mesh.edge_index, :2] - 0.5).mean(0).numpy()
        edge = np.interp(np.arctan2(middle[:, 1], middle[:, 0]) % (2 * np.pi), ANGLES, void(row))
        assert (np.hypot(*middle.T) > 0.95 * edge).all()


def test_the_nearest_neighbours_are_another_graph_of_the_same_mesh(tmp_path):
    write(tmp_path)
    mesh, near = Elasticity(tmp_path)[0], Elasticity(tmp_path, pre_transform=KNNGraph(8))[0]
    assert torch.equal(mesh.cell_index, near.cell_index)
    assert near.edge_index.size(1) > mesh.edge_index.size(1)
    assert int(near.edge_index[0].bincount().min()) >= 8


def test_official_counts_give_the_samples_of_the_papers(tmp_path):
    write(tmp_path, XY=np.random.default_rng(0).random((5, 2, 2000)), rr=np.zeros((42, 2000)),
          sigma=np.arange(2000.0) + np.zeros((5, 1)))  # fmt: skip
    edge = {0, 999, 1000, 1799, 1800, 1999}
    blocks = Elasticity(tmp_path, pre_filter=lambda mesh: float(mesh.point_data["sigma"][0]) in edge)
    for part, samples in (("train", [0, 999]), ("test", [1800, 1999])):
        assert [float(mesh.y[0, 0]) for mesh in blocks.split(part)] == samples


def test_absent_files_and_another_layout_are_refused(tmp_path):
    message = (
        r"^Elasticity needs .*XY_10.npy \(31.1 MB\), .*sigma_10.npy \(15.6 MB\), .*rr_10.npy \(0.7 MB\) in '.*raw'; get"
    )
    with pytest.raises(InputError, match=message):
        Elasticity(tmp_path)
    write(tmp_path, XY=np.zeros((12, 200, 2)))
    with pytest.raises(InputError, match=r"Expected XY of shape \[any, 2, any\] in '.*' \(got \[12, 200, 2\]\)"):
        Elasticity(tmp_path)
    write(tmp_path, sigma=np.zeros((12, 200)))
    with pytest.raises(InputError, match=r"Expected sigma of shape \[200, 12\] in '.*' \(got \[12, 200\]\)"):
        Elasticity(tmp_path)
    write(tmp_path, rr=np.zeros((12, 42)))
    with pytest.raises(InputError, match=r"Expected rr of shape \[any, 12\] in '.*' \(got \[12, 42\]\)"):
        Elasticity(tmp_path)
