"""Darcy on a small grid in the layout of the official files, whose values name their sample and node."""

import numpy as np
import pytest
import scipy.io
import torch

from meshop.data import InputError
from meshop.datasets import Darcy

N = 13


def fields(rows, first, n=N):
    row, i, j = np.mgrid[:rows, :n, :n]
    coeff = (first + row + i / 100 + j / 10000).astype(np.float32)
    return {"coeff": coeff, "sol": -coeff, "Kcoeff": np.zeros(1), "Kcoeff_x": np.zeros(1), "Kcoeff_y": np.zeros(1)}


def write(root, train=None, test=None):
    (root / "raw").mkdir(exist_ok=True)
    for number, content in ((1, train or fields(5, 0)), (2, test or fields(3, 500))):
        scipy.io.savemat(root / "raw" / f"piececonst_r421_N1024_smooth{number}.mat", content)


@pytest.mark.parametrize(("stride", "side"), [(1, 13), (3, 5), (5, 3)])
def test_fields_grid_and_splits(tmp_path, stride, side):
    write(tmp_path)
    flows = Darcy(tmp_path, stride)
    assert flows.splits == {"train": [0, 1, 2, 3, 4], "test": [5, 6, 7]}
    mesh = flows.split("test")[2]
    assert mesh.validate()
    assert (mesh.name, mesh.shape) == ("darcy_test_0002", (side, side))
    i, j = np.mgrid[0:N:stride, 0:N:stride]
    assert mesh.points[:, :2].tolist() == np.stack([i.ravel() / (N - 1), j.ravel() / (N - 1)], 1).tolist()
    coeff = torch.from_numpy((502 + i / 100 + j / 10000).astype(np.float32).ravel())
    assert torch.equal(mesh.x, torch.cat([mesh.pos, coeff[:, None]], 1))
    assert torch.equal(mesh.y[:, 0], -coeff)
    assert mesh.edge_index.size(1) == 4 * side * (side - 1)
    assert Darcy(tmp_path, stride, position=False)[0].x.shape == (side * side, 1)


def test_files_of_another_resolution_are_read_where_the_published_are_not_there(tmp_path):
    write(tmp_path)
    for number in (1, 2):
        path = tmp_path / "raw" / f"piececonst_r421_N1024_smooth{number}.mat"
        path.rename(path.with_name(f"piececonst_r13_N1024_smooth{number}.mat"))
    assert Darcy(tmp_path, 1).splits["test"] == [5, 6, 7]
    (tmp_path / "raw" / "piececonst_r13_N1024_smooth2.mat").unlink()
    with pytest.raises(InputError, match=r"^Darcy needs piececonst_r421_N1024_smooth1.mat, piececonst_r421"):
        Darcy(tmp_path, 1)
    write(tmp_path, train=fields(2, 0))
    assert Darcy(tmp_path, 1).splits["train"] == [0, 1]


def test_421_nodes_at_stride_5_are_the_85_of_the_papers():
    assert [len(range(0, 421, r)) for r in (1, 2, 3, 4, 5)] == [421, 211, 141, 106, 85]
    assert np.array_equal(np.arange(0, 421, 5) / 420, np.arange(85) / 84)


def test_official_counts_give_the_samples_of_the_papers(tmp_path):
    write(tmp_path, fields(1024, 0, n=2), fields(1024, 5000, n=2))
    edge = {0, 999, 1000, 1023, 5000, 5199, 5200, 6023}
    flows = Darcy(tmp_path, 1, pre_filter=lambda mesh: float(mesh.point_data["coeff"][0]) in edge)
    for part, samples in (("train", [0, 999]), ("test", [5000, 5199])):
        assert [float(mesh.x[0, 2]) for mesh in flows.split(part)] == samples


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"Expected a stride of 1 or more \(got 0\)"):
        Darcy(tmp_path, 0)
    with pytest.raises(
        InputError, match=r"^Darcy needs piececonst_.*1.mat, piececonst_.*2.mat in '.*raw'; get Darcy_421"
    ):
        Darcy(tmp_path)
    write(tmp_path, test=fields(3, 0, n=12))
    with pytest.raises(
        InputError, match=r"Expected coeff of shape \[any, 13, 13\] in '.*smooth2.mat' \(got \[3, 12, 12"
    ):
        Darcy(tmp_path)
    write(tmp_path, train=fields(5, 0) | {"sol": np.zeros((5, N, 12))})
    with pytest.raises(
        InputError, match=r"Expected sol of shape \[5, 13, 13\] in '.*smooth1.mat' \(got \[5, 13, 12\]\)"
    ):
        Darcy(tmp_path)
    write(tmp_path, train={"coeff": np.zeros((5, N, N))})
    with pytest.raises(InputError, match=r"Expected sol in '.*smooth1.mat' \(it has coeff\)"):
        Darcy(tmp_path)
