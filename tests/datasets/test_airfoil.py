"""Airfoil on a small C-grid in the layout of the official files, whose values name their row, channel and node."""

import numpy as np
import pytest
import torch

from meshop.data import InputError
from meshop.datasets import Airfoil
from meshop.datasets.official import split_rows

N1, N2 = 13, 4  # wake nodes 0 to 3 and 12 to 9, the trailing edge among them


def write(root, rows=12, n1=N1, **replace):
    """A flat C: up the wake, around a half circle, back down the wake; q = row + channel / 10 + node / 1000."""
    i = np.arange(n1)
    wake = np.minimum(i, n1 - 1 - i)
    angle = np.pi * (2 * np.clip((i - 3) / (n1 - 7), 0, 1) - 1)  # -pi at one side of the trailing edge, pi at the other
    inner = np.stack([np.where(wake < 3, 5.0 - wake, 1 - np.cos(angle)), np.sin(angle) * (wake > 3)], 1)
    normal = np.where(wake > 3, [-np.cos(angle), np.sin(angle)], [0 * angle, np.sign(i - (n1 - 1) / 2)]).T
    grid = inner[:, None] + 0.5 * np.arange(N2)[None, :, None] * normal[:, None]
    row, channel, a, b = np.mgrid[:rows, :5, :n1, :N2]
    arrays = {
        "X": np.repeat(grid[None, ..., 0], rows, 0) + np.arange(rows)[:, None, None],
        "Y": np.repeat(grid[None, ..., 1], rows, 0),
        "Q": row + channel / 10 + (a * N2 + b) / 1000,
    } | replace
    (root / "raw").mkdir()
    for name, array in arrays.items():
        np.save(root / "raw" / f"NACA_Cylinder_{name}.npy", array)
    return arrays


def test_fields_grid_and_splits(tmp_path):
    arrays = write(tmp_path)
    flows = Airfoil(tmp_path)
    assert flows.splits == {"train": list(range(10)), "test": [10, 11]}
    mesh = flows.split("test")[1]
    assert mesh.name == "airfoil_0011"
    assert mesh.validate()
    assert mesh.shape == (N1, N2)
    assert torch.equal(mesh.x, mesh.pos)
    assert mesh.points[:, 0].tolist() == arrays["X"][11].ravel().tolist()
    assert mesh.points[:, 1].tolist() == arrays["Y"][11].ravel().tolist()
    assert torch.equal(mesh.y[:, 0], torch.from_numpy(arrays["Q"][11, 4].ravel()).float())
    for channel, name in enumerate(("rho", "u", "v", "p", "mach")):
        assert torch.equal(mesh.point_data[name], torch.from_numpy(arrays["Q"][11, channel].ravel()).float())
    assert mesh.cell_index.view(-1, 4)[N2 - 1].tolist() == [N2, 2 * N2, 2 * N2 + 1, N2 + 1]
    assert mesh.edge_index.size(1) == 2 * (N1 * (N2 - 1) + (N1 - 1) * N2)


def test_the_sides_of_the_wake_are_joined_on_request(tmp_path):
    arrays = write(tmp_path)
    cut, joined = Airfoil(tmp_path)[3], Airfoil(tmp_path, join_wake=True)[3]
    pairs = [(i * N2, (N1 - 1 - i) * N2) for i in range(4)]
    assert all(torch.equal(cut.points[a], cut.points[b]) for a, b in pairs)
    assert joined.validate()
    assert "shape" not in joined
    assert joined.num_nodes == cut.num_nodes - 4
    assert joined.num_cells == cut.num_cells
    # the cells lie where they lay, and have the values of their corners, or the mean of both sides
    assert torch.equal(joined.points[joined.cell_index], cut.points[cut.cell_index])
    mach = arrays["Q"][3, 4].ravel().copy()
    for a, b in pairs:
        mach[[a, b]] = (mach[a] + mach[b]) / 2
    assert torch.equal(joined.y[joined.cell_index, 0], torch.from_numpy(mach).float()[cut.cell_index])
    # the cut is gone: neighbours of the wake's nodes on both sides, and the measure of both
    number = {tuple(p): n for n, p in enumerate(joined.points.tolist())}
    of = [number[tuple(cut.points[n].tolist())] for n in range(cut.num_nodes)]
    below, above = pairs[1]
    edges = {tuple(e) for e in joined.edge_index.T.tolist()}
    assert {b for a, b in edges if a == of[below]} == {of[0], of[2 * N2], of[below + 1], of[above + 1]}
    assert float(joined.measure[of[below]]) == pytest.approx(float(cut.measure[below] + cut.measure[above]))
    assert float(joined.measure.sum()) == pytest.approx(float(cut.measure.sum()))


def test_a_grid_without_a_wake_cannot_be_joined(tmp_path):
    write(tmp_path, Y=np.random.default_rng(0).random((12, N1, N2)))
    with pytest.raises(InputError, match=r"nodes i and 12 - i of '.*NACA_Cylinder_X.npy' in one place .* \(got none\)"):
        Airfoil(tmp_path, join_wake=True)


def test_a_grid_that_is_a_wake_only(tmp_path):
    write(tmp_path, X=np.ones((12, N1, N2)), Y=np.ones((12, N1, N2)))
    assert Airfoil(tmp_path, join_wake=True)[0].num_nodes == N1 * N2 - N1 // 2


def test_official_counts_give_the_rows_of_the_papers():
    rows, splits = split_rows(2490, 1000, 200)
    assert rows == list(range(1200))
    assert splits == {"train": list(range(1000)), "test": list(range(1000, 1200))}
    rows, splits = split_rows(987, 900, 80, last=True)
    assert (rows[899], rows[900], len(rows)) == (899, 907, 980)
    assert splits["test"] == list(range(900, 980))
    with pytest.raises(InputError, match=r"at least two samples, one to train and one to test on \(got 1\)"):
        split_rows(1, 1000, 200)


def test_without_the_files_the_error_says_what_to_put_where(tmp_path):
    message = (
        r"^Airfoil needs NACA_Cylinder_X.npy \(224.5 MB\), NACA_Cylinder_Y.npy \(224.5 MB\), "
        r"NACA_Cylinder_Q.npy \(1,122.6 MB\) in '.*raw'; get them from the data folder of Geo-FNO"
    )
    with pytest.raises(InputError, match=message):
        Airfoil(tmp_path)


@pytest.mark.parametrize(
    ("replace", "message"),
    [
        ({"X": np.zeros((12, N1))}, r"Expected X of shape \[any, any, any\] in '.*X.npy' \(got \[12, 13\]\)"),
        ({"Y": np.zeros((11, N1, N2))}, r"Expected Y of shape \[12, 13, 4\] in '.*Y.npy' \(got \[11, 13, 4\]\)"),
        ({"Q": np.zeros((12, 4, N1, N2))}, r"Expected Q of shape \[12, 5, 13, 4\] in '.*Q.npy'"),
    ],
)
def test_another_layout_is_refused(tmp_path, replace, message):
    write(tmp_path, **replace)
    with pytest.raises(InputError, match=message):
        Airfoil(tmp_path)


def test_a_truncated_file_is_refused(tmp_path):
    write(tmp_path)
    path = tmp_path / "raw" / "NACA_Cylinder_Q.npy"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"'.*Q.npy' is not an array of numpy, or is damaged"):
        Airfoil(tmp_path)
