"""Navier-Stokes on a small grid in the layouts of both official files, whose values name their place."""

import h5py
import numpy as np
import pytest
import scipy.io
import torch

from meshop.data import InputError
from meshop.datasets import NavierStokes

N = 4


def vorticity(rows=6, frames=20):
    row, i, j, frame = np.mgrid[:rows, :N, :N, :frames]
    return (row * 100 + i * 10 + j + frame / 100).astype(np.float32)


def write(root, u):
    """Version 5: axes as in MATLAB."""
    (root / "raw").mkdir(exist_ok=True)
    content = {"a": u[..., 0], "u": u, "t": np.arange(1.0, 1 + u.shape[-1])[None]}
    scipy.io.savemat(root / "raw" / "NavierStokes_V1e-5_N1200_T20.mat", content)


def write_hdf5(root, u):
    """Version 7.3: HDF5 behind a block of MATLAB's own, with axes reversed."""
    (root / "raw").mkdir(exist_ok=True)
    path = root / "raw" / "ns_V1e-4_N10000_T30.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["a"], file["u"], file["t"] = u[..., 0].T, u.T, np.arange(1.0, 1 + u.shape[-1])[:, None]
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


@pytest.mark.parametrize(("viscosity", "frames", "save"), [(1e-5, 20, write), (1e-4, 30, write_hdf5)])
def test_the_default_is_the_block_of_ten_frames_to_ten(tmp_path, viscosity, frames, save):
    u = vorticity(frames=frames)
    save(tmp_path, u)
    flows = NavierStokes(tmp_path, viscosity)
    assert flows.splits == {"train": [0, 1, 2, 3, 4], "test": [5]}
    [mesh] = flows.split("test")
    assert mesh.validate()
    assert (mesh.name, mesh.shape) == ("flow_0005_00", (N, N))
    w = torch.from_numpy(u[5]).view(N * N, frames)
    assert torch.equal(mesh.x, torch.cat([mesh.pos, w[:, :10]], 1))
    assert torch.equal(mesh.y, w[:, 10:20])
    assert torch.equal(mesh.point_data["vorticity_in"], w[:, :10])
    assert torch.equal(mesh.point_data["vorticity_out"], w[:, 10:20])
    assert mesh.edge_index.size(1) == 4 * N * (N - 1)


def test_windows_reach_every_frame(tmp_path):
    u = vorticity()
    write(tmp_path, u)
    flows = NavierStokes(tmp_path, T_out=1, starts=range(10), position=False)
    assert (flows.spec.in_channels, flows.spec.out_channels) == (10, 1)
    assert flows.splits == {"train": list(range(50)), "test": list(range(50, 60))}
    for index, mesh in enumerate(flows):
        row, start = divmod(index, 10)
        w = torch.from_numpy(u[row]).view(N * N, 20)
        assert mesh.name == f"flow_{row:04d}_{start:02d}"
        assert torch.equal(mesh.x, w[:, start : start + 10])
        assert torch.equal(mesh.y, w[:, start + 10 : start + 11])
    last = NavierStokes(tmp_path, T_in=5, T_out=5, starts=[10])[2]
    assert torch.equal(last.y, torch.from_numpy(u[2]).view(N * N, 20)[:, 15:])


def test_the_grid_has_the_period_one_or_the_end_of_the_published_scripts(tmp_path):
    write(tmp_path, vorticity())
    periodic, published = NavierStokes(tmp_path)[0], NavierStokes(tmp_path, published_pos=True)[0]
    for mesh, step in ((periodic, 1 / N), (published, 1 / (N - 1))):
        assert mesh.pos.view(N, N, 2)[:, 0, 0].tolist() == pytest.approx([step * i for i in range(N)])
        assert mesh.pos.view(N, N, 2)[0, :, 1].tolist() == pytest.approx([step * i for i in range(N)])


def test_the_last_200_of_10000_are_for_testing(tmp_path):
    write_hdf5(tmp_path, np.arange(10000, dtype=np.float32)[:, None, None, None] + np.zeros((1, 2, 2, 2), np.float32))
    flows = NavierStokes(tmp_path, 1e-4, T_in=1, T_out=1, pre_transform=lambda mesh: mesh)
    assert [len(flows.split(part)) for part in ("train", "test")] == [1000, 200]
    assert [float(flows[i].y[0, 0]) for i in (0, 999, 1000, 1199)] == [0, 999, 9800, 9999]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"viscosity": 1e-3}, r"Expected a viscosity of 1e-05 or 0.0001 \(got 0.001\)"),
        ({"T_out": 0}, r"Expected T_in, T_out of 1 or more and some starts \(got 10, 0, \[0\]\)"),
        ({"starts": []}, r"some starts \(got 10, 10, \[\]\)"),
        ({"starts": [0, 1]}, r"windows of 20 frames to lie in the 20 of '.*': starts from 0 to 0 \(got \[0, 1\]\)"),
        ({"starts": [-1]}, r"starts from 0 to 0 \(got \[-1\]\)"),
    ],
)
def test_windows_that_do_not_fit_are_refused(tmp_path, arguments, message):
    write(tmp_path, vorticity())
    with pytest.raises(InputError, match=message):
        NavierStokes(tmp_path, **arguments)


def test_absent_damaged_and_other_files_are_refused(tmp_path):
    with pytest.raises(
        InputError, match=r"^NavierStokes needs ns_V1e-4_N10000_T30.mat in '.*raw'; get NavierStokes_V1e"
    ):
        NavierStokes(tmp_path, 1e-4)
    write(tmp_path, vorticity()[0])
    with pytest.raises(InputError, match=r"Expected u of shape \[any, any, any, any\] in .* \(got \[4, 4, 20\]\)"):
        NavierStokes(tmp_path)
    write_hdf5(tmp_path, vorticity())
    path = tmp_path / "raw" / "ns_V1e-4_N10000_T30.mat"
    with h5py.File(path, "r+") as file:
        del file["u"]
    with pytest.raises(InputError, match=r"Expected u in '.*ns_V1e-4_N10000_T30.mat' \(it has a, t\)"):
        NavierStokes(tmp_path, 1e-4)
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(InputError, match=r"'.*ns_V1e-4_N10000_T30.mat' is not an HDF5 file, or is damaged"):
        NavierStokes(tmp_path, 1e-4)
