"""Pipe on a small grid in the layout of the official files, whose values name their row, channel and node."""

import numpy as np
import pytest
import torch

from meshop.data import InputError
from meshop.datasets import Pipe

N1, N2 = 5, 4


def write(root, rows=6, channels=3):
    row, channel, i, j = np.mgrid[:rows, :channels, :N1, :N2]
    arrays = {"X": i[:, 0] * 2.5, "Y": j[:, 0] / 3 + row[:, 0], "Q": row + channel / 10 + (i * N2 + j) / 1000}
    (root / "raw").mkdir()
    for name, array in arrays.items():
        np.save(root / "raw" / f"Pipe_{name}.npy", array)
    return arrays


def test_fields_grid_and_splits(tmp_path):
    arrays = write(tmp_path)
    pipes = Pipe(tmp_path)
    assert pipes.splits == {"train": [0, 1, 2, 3, 4], "test": [5]}
    [mesh] = pipes.split("test")
    assert mesh.validate()
    assert (mesh.name, mesh.shape) == ("pipe_0005", (N1, N2))
    assert mesh.points[:, 0].tolist() == arrays["X"][5].ravel().tolist()
    assert mesh.points[:, 1].tolist() == arrays["Y"][5].ravel().tolist()
    assert torch.equal(mesh.x, mesh.pos)
    for channel, name in enumerate(("u", "v", "p")):
        assert torch.equal(mesh.point_data[name], torch.from_numpy(arrays["Q"][5, channel].ravel()).float())
    assert torch.equal(mesh.y[:, 0], mesh.point_data["u"])
    assert mesh.edge_index.size(1) == 2 * (N1 * (N2 - 1) + (N1 - 1) * N2)
    assert float(mesh.measure.sum()) == pytest.approx(10)


def test_absent_files_and_another_layout_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"^Pipe needs Pipe_X.npy \(307.5 MB\), .* \(922.6 MB\) in '.*raw'; get them"):
        Pipe(tmp_path)
    (tmp_path / "raw").rmdir()
    write(tmp_path, channels=2)
    with pytest.raises(
        InputError, match=r"Expected Q of shape \[6, 3, 5, 4\] in '.*Pipe_Q.npy' \(got \[6, 2, 5, 4\]\)"
    ):
        Pipe(tmp_path)
