"""The small Darcy data of neuraloperator: layout, and what is true of the published files."""

import os
from pathlib import Path

import pytest
import torch

from meshop.data import InputError
from meshop.datasets import DarcySmall, card, statistics

REAL = os.environ.get("MESHOP_DARCY_SMALL", "")


def write(root, train=5, test=2, n=4):
    """Files in the published layout; u tells its case and its place."""
    raw = Path(root, "raw")
    raw.mkdir()
    for name, count, size in (("train_16", train, n), ("test_16", test, n), ("test_32", test, 2 * n)):
        u = torch.arange(float(count * size * size)).view(count, size, size)
        torch.save({"x": u % 3 == 0, "y": u}, raw / f"darcy_{name}.pt")
    return Path(root)


def test_layout(tmp_path):
    flows = DarcySmall(write(tmp_path))
    assert flows.splits == {"train": [0, 1, 2, 3, 4], "test": [5, 6], "test_32": [7, 8]}
    mesh = flows[3]
    assert mesh.validate()
    assert (mesh.name, mesh.shape, mesh.num_cells) == ("train_0003", (4, 4), 9)
    assert mesh.point_data["u"].tolist() == list(range(48, 64))
    assert mesh.point_data["a"].tolist() == [float(i % 3 == 0) for i in range(48, 64)]
    assert mesh.pos.view(4, 4, 2)[1, 3].tolist() == [0.25, 0.75]
    assert mesh.edge_index.size(1) == 2 * 24  # no diagonals
    assert torch.equal(mesh.x, torch.cat([mesh.pos, mesh.point_data["a"][:, None]], dim=1))
    fine = flows.split("test_32")[1]
    assert (fine.shape, fine.num_nodes) == ((8, 8), 64)
    assert torch.equal(fine.pos.view(8, 8, 2)[::2, ::2].reshape(-1, 2), mesh.pos)


def test_without_the_files_the_error_says_where_they_come_from(tmp_path):
    message = (
        r"^DarcySmall needs darcy_train_16.pt \(1.3 MB, SHA-256 0be6.*\), darcy_test_16.pt \(0.1 MB, .*\), "
        r"darcy_test_32.pt \(0.3 MB, .*\) in '.*raw'; "
        r"get them from neuralop/data/datasets/data of github.com/neuraloperator/neuraloperator$"
    )
    with pytest.raises(InputError, match=message):
        DarcySmall(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1], r"^Expected the tensors x and y in '.*darcy_test_16.pt'$"),
        ({"x": torch.zeros(2, 4, 4)}, r"^Expected the tensors x and y in"),
        (
            {"x": torch.zeros(2, 4, 4), "y": torch.zeros(2, 4)},
            r"^Expected x and y of the same shape \[samples, n, n\] in '.*' \(got \[2, 4, 4\] and \[2, 4\]\)$",
        ),
        (b"", r"^'.*darcy_test_16.pt' is not a file of torch, or is damaged$"),
        (b"no file of torch", r"^'.*darcy_test_16.pt' is not a file of torch, or is damaged$"),
    ],
)
def test_another_layout_is_refused(tmp_path, content, message):
    file = write(tmp_path) / "raw" / "darcy_test_16.pt"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        torch.save(content, file)
    with pytest.raises(InputError, match=message):
        DarcySmall(tmp_path)


@pytest.mark.skipif(not REAL, reason="needs the published files: MESHOP_DARCY_SMALL=directory that holds them")
def test_the_published_files(tmp_path):
    (tmp_path / "raw").symlink_to(Path(REAL).resolve())
    flows = DarcySmall(tmp_path)
    assert {name: len(part) for name, part in flows.splits.items()} == {"train": 1000, "test": 50, "test_32": 50}
    for coarse, fine in zip(flows.split("test"), flows.split("test_32"), strict=True):
        assert torch.equal(fine.x.view(32, 32, 3)[::2, ::2].reshape(-1, 3), coarse.x)
        assert torch.equal(fine.y.view(32, 32)[::2, ::2].flatten(), coarse.y[:, 0])
    first, last = (torch.stack([m.y.view(16, 16)[i] for m in flows.split("test")]).abs().mean() for i in (0, -1))
    assert float(first) < 0.02 * float(last)  # one side belongs to the grid, the other lies a step behind it
    text = (card("darcy_small") / "README.md").read_text()
    for name, row in statistics(flows).items():
        assert f"| `{name}` | {row['min']:.5g} | {row['mean']:.5g} | {row['max']:.5g} | {row['std']:.5g} |" in text
