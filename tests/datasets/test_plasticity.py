"""Plasticity on a small grid in the layout of the official file, whose values name their case, time and node."""

import numpy as np
import pytest
import scipy.io
import torch
from torch_geometric.loader import DataLoader

from meshop.data import InputError
from meshop.datasets import Plasticity

N1, N2, T = 5, 3, 4


def write(root, rows=49, **replace):
    """The block moves by (row, frame) as a whole; the die's profile is row + i / 10."""
    row, i, j, frame = np.mgrid[:rows, :N1, :N2, :T]
    x, y = 0.35 - i / 2, 14.9 - j / 2
    output = np.stack([x + row, y + frame, row, frame], axis=-1).astype(np.float64)
    content = {"input": row[:, :, 0, 0] + i[:, :, 0, 0] / 10, "output": output} | replace
    (root / "raw").mkdir()
    scipy.io.savemat(root / "raw" / "plas_N987_T20.mat", {k: v for k, v in content.items() if v is not None})
    return content


def test_an_item_is_a_case_at_a_time(tmp_path):
    content = write(tmp_path)
    block = Plasticity(tmp_path)
    assert block.splits == {"train": list(range(45 * T)), "test": list(range(45 * T, 49 * T))}
    assert (block.spec.in_channels, block.spec.out_channels) == (3, 4)
    for index, mesh in enumerate(block.split("test")):
        row, frame = 45 + index // T, index % T
        assert mesh.validate()
        assert (mesh.name, mesh.shape) == (f"plasticity_{row:03d}_{frame:02d}", (N1, N2))
        assert mesh.time.tolist() == pytest.approx([frame / 3])
        assert torch.equal(mesh.y, torch.from_numpy(content["output"][row, :, :, frame]).float().view(-1, 4))
        assert torch.equal(mesh.y, mesh.point_data["state"])
        assert torch.equal(mesh.point_data["displacement"], mesh.y[:, 2:])
        die = torch.from_numpy(content["input"][row]).float()
        assert torch.equal(mesh.x, torch.cat([mesh.pos, die.repeat_interleave(N2)[:, None]], 1))
        # deformed place minus displacement is the place that the data set gives to the node
        assert torch.allclose(mesh.y[:, :2] - mesh.y[:, 2:], mesh.pos, atol=1e-5)
    [batch] = DataLoader(block[:3], batch_size=3)
    assert batch.time.tolist() == pytest.approx([0, 1 / 3, 2 / 3])


def test_the_coordinates_of_the_published_scripts(tmp_path):
    write(tmp_path)
    right, theirs = Plasticity(tmp_path)[7], Plasticity(tmp_path, published_pos=True)[7]
    x, y = np.meshgrid(np.linspace(0, 1, N1), np.linspace(0, 1, N2))  # as they write it
    published = torch.from_numpy(np.c_[x.ravel(), y.ravel()]).float()
    assert torch.equal(theirs.pos, published)
    assert torch.equal(theirs.x[:, :2], published)
    assert published[1].tolist() == [0.25, 0]  # the second row of the data is a step along j
    assert right.points[1].tolist() == [0.35, 14.4, 0]
    for key in ("points", "cell_index", "edge_index", "measure", "y"):
        assert torch.equal(right[key], theirs[key])


def test_the_seven_cases_between_are_not_used(tmp_path):
    output = np.zeros((987, 2, 2, 2, 4))
    output[..., 2] = np.arange(987)[:, None, None, None]
    write(tmp_path, input=np.zeros((987, 2)), output=output)
    block = Plasticity(tmp_path, pre_filter=lambda mesh: float(mesh.point_data["state"][0, 2]) in (0, 899, 907, 986))
    for part, rows in (("train", [0, 0, 899, 899]), ("test", [907, 907, 986, 986])):
        assert [float(mesh.y[0, 2]) for mesh in block.split(part)] == rows
    assert len({mesh.name for mesh in block}) == 8


@pytest.mark.parametrize(
    ("replace", "message"),
    [
        ({"output": None}, r"Expected output in '.*plas_N987_T20.mat' \(it has input\)"),
        ({"input": np.zeros((49, N1, 2))}, r"Expected input of shape \[any, any\]"),
        ({"output": np.zeros((49, N1, N2, 4, T))}, r"Expected output of shape \[49, 5, any, any, 4\]"),
    ],
)
def test_another_layout_is_refused(tmp_path, replace, message):
    if "output" in replace and replace["output"] is not None:
        replace["output"] = replace["output"][..., :3]
    write(tmp_path, **replace)
    with pytest.raises(InputError, match=message):
        Plasticity(tmp_path)


def test_absent_and_truncated_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"^Plasticity needs plas_N987_T20.mat in '.*raw'; get it \(about 2 GB\)"):
        Plasticity(tmp_path)
    path = tmp_path / "raw" / "plas_N987_T20.mat"
    path.write_bytes(b"MATLAB 5.0 MAT-file")
    with pytest.raises(InputError, match=r"'.*plas_N987_T20.mat' is not a MATLAB file, or is damaged"):
        Plasticity(tmp_path)
    for packed in (False, True):
        scipy.io.savemat(path, {"input": np.random.default_rng(0).random((49, N1))}, do_compression=packed)
        path.write_bytes(path.read_bytes()[:1000])
        with pytest.raises(InputError, match=r"'.*plas_N987_T20.mat' is not a MATLAB file, or is damaged"):
            Plasticity(tmp_path)
