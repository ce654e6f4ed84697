"""FactFormer's sets: tiny files in the published layout, whose values tell where they stood."""

import numpy as np
import pytest
import torch

from meshop.cli import main
from meshop.data import InputError
from meshop.datasets import IT3D, KF2D, Smoke3D


def numbered(*shape, dtype=np.float32):
    """An array whose values are the numbers of its places."""
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def write_kf2d(root, shape=(6, 40, 8, 4)):
    (root / "raw").mkdir()
    array = numbered(*shape)
    np.save(root / "raw" / "kf_2d_re1000_256_120seed.npy", array)
    return array


def write_it3d(root, names=("run_1", "run_10", "run_2"), shape=(22, 3, 4, 5)):
    arrays = {}
    for i, name in enumerate(names):
        (root / "raw" / name).mkdir(parents=True)
        arrays[name] = {key: numbered(*shape) + 1e4 * (4 * i + k) for k, key in enumerate(("prs", "vx", "vy", "vz"))}
        for key, array in arrays[name].items():
            np.save(root / "raw" / name / f"{key}.npy", array.astype(np.float32))
    return arrays


def write_smoke(root, numbers=(0, 1, 2, 10), shape=(20, 3, 4, 5)):
    (root / "raw").mkdir()
    arrays = {}
    for i in numbers:
        arrays[i] = numbered(*shape, 1) + 5e3 * i, numbered(*shape, 3) + 1e4 * i
        density, velocity = (array.astype(np.float32) for array in arrays[i])
        np.savez(root / "raw" / f"smoke_{i}.npz", fluid_field=density, velocity=velocity)
    return arrays


def channels(*arrays):
    """Frames [T, ...grid] of scalars as channels [N, T]."""
    return torch.from_numpy(np.stack([a.reshape(-1) for a in arrays], 1).astype(np.float32))


def test_kf2d_at_every_second_frame_and_point(tmp_path):
    raw = write_kf2d(tmp_path)
    flows = KF2D(tmp_path)
    assert {k: len(v) for k, v in flows.splits.items()} == {"train": 5 * 7, "test": 7}  # 20 frames, windows of 14
    mesh = flows.split("test")[3]
    assert (mesh.name, mesh.shape) == ("seed_005_0003", (4, 2))
    frames = raw[5, 6:34:2, ::2, ::2]
    assert torch.equal(mesh.x[:, 2:], channels(*frames[:10]))
    assert torch.equal(mesh.y, channels(*frames[10:]))
    assert np.allclose(mesh.pos.view(4, 2, 2)[:, 0, 0], np.arange(4) * np.pi / 2)
    assert np.allclose(mesh.pos.view(4, 2, 2)[0, :, 1], np.arange(2) * np.pi)
    assert mesh.num_cells == 3
    assert float(mesh.measure.sum()) == pytest.approx(1.5 * np.pi * np.pi)
    assert mesh.validate()


def test_kf2d_at_other_windows_and_strides(tmp_path):
    raw = write_kf2d(tmp_path)
    flows = KF2D(
        tmp_path, T_in=3, T_out=2, train_starts="random", test_starts=(0, 7), time_stride=3, space_stride=1,
        position=False,
    )  # fmt: skip
    assert {k: len(v) for k, v in flows.splits.items()} == {"train": 5, "test": 2}
    mesh = flows.split("test")[1]
    assert torch.equal(torch.cat([mesh.x, mesh.y], 1), channels(*raw[5, 21:36:3]))
    assert np.array_equal(flows.frames("seed_002", 12, 14)["vorticity"], raw[2, 36:42:3])
    with pytest.raises(InputError, match="starts from 0 to 9 for windows of 5 frames"):
        KF2D(tmp_path, T_in=3, T_out=2, time_stride=3, test_starts=(10,))
    with pytest.raises(InputError, match=r"Expected time_stride and space_stride of 1 or more \(got 0 and 2\)"):
        KF2D(tmp_path, time_stride=0)


def test_kf2d_of_another_layout_is_refused(tmp_path):
    write_kf2d(tmp_path, (6, 40, 8))
    with pytest.raises(
        InputError, match=r"Expected the array of shape \[any, any, any, any\] in .* \(got \[6, 40, 8\]"
    ):
        KF2D(tmp_path)
    file = tmp_path / "raw" / "kf_2d_re1000_256_120seed.npy"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(InputError, match="not an array of numpy, or is damaged"):
        KF2D(tmp_path)
    np.save(file, np.zeros((1, 40, 8, 4)))
    with pytest.raises(InputError, match="at least two samples"):
        KF2D(tmp_path)


def test_it3d(tmp_path):
    raw = write_it3d(tmp_path)
    flows = IT3D(tmp_path)
    assert [name for name, _ in flows.windows] == ["run_1", "run_10", "run_2"]
    assert flows.splits == {"train": [0, 1], "test": [2]}
    assert flows.windows[0][1] == range(9)  # of the first 20 frames
    mesh = flows.split("test")[0]
    assert (mesh.name, mesh.shape, mesh.dim) == ("run_2_0000", (3, 4, 5), 3)
    run = raw["run_2"]
    velocity = [run[key][t] for t in range(12) for key in ("vx", "vy", "vz")]
    assert torch.equal(mesh.x[:, 3:], channels(*run["prs"][:10], *velocity[:30]))
    assert torch.equal(mesh.y, channels(*run["prs"][10:12], *velocity[30:]))
    assert np.allclose(mesh.pos[1], [0, 0, 2 * np.pi / 5])
    assert np.allclose(mesh.pos[-1], [4 * np.pi / 3, 3 * np.pi / 2, 8 * np.pi / 5])
    assert mesh.num_cells == 2 * 3 * 4
    assert float(mesh.measure.sum()) == pytest.approx(4 * np.pi / 3 * 3 * np.pi / 2 * 8 * np.pi / 5)
    assert np.array_equal(flows.frames("run_1", 20, 22)["velocity"][..., 1], raw["run_1"]["vy"][20:])
    every = IT3D(tmp_path, space_stride=2, train_starts="all")
    assert every[1].shape == (2, 2, 3)
    assert torch.equal(every[1].y[:, 0], channels(raw["run_1"]["prs"][11, ::2, ::2, ::2])[:, 0])


def test_it3d_with_a_broken_trajectory(tmp_path):
    write_it3d(tmp_path)
    (tmp_path / "raw" / "run_2" / "vy.npy").unlink()
    flows = IT3D(tmp_path)
    with pytest.raises(InputError, match=r"run_2/vy.npy' is not an array of numpy, or is damaged \(.*No such file"):
        flows.split("test")[0]
    np.save(tmp_path / "raw" / "run_2" / "vy.npy", np.zeros((22, 3, 4, 6), np.float32))
    with pytest.raises(
        InputError, match=r"Expected frames of vy of shape \[12, 3, 4, 5\] in '.*run_2/vy.npy' \(got \[12, 3, 4, 6\]\)"
    ):
        flows.split("test")[0]
    np.save(tmp_path / "raw" / "run_1" / "prs.npy", np.zeros((22, 3, 4), np.float32))
    with pytest.raises(InputError, match=r"Expected prs of shape \[any, any, any, any\] in '.*run_1/prs.npy'"):
        IT3D(tmp_path)


def test_smoke3d(tmp_path):
    raw = write_smoke(tmp_path)
    smoke = Smoke3D(tmp_path)
    assert [name for name, _ in smoke.windows] == ["smoke_0", "smoke_1", "smoke_2", "smoke_10"]
    assert smoke.splits == {"train": [0, 1, 2], "test": [3]}
    assert smoke.windows[0][1] == range(13)
    mesh = smoke.split("test")[0]
    assert (mesh.name, mesh.shape) == ("smoke_10_0000", (3, 4, 5))
    density, velocity = raw[10]
    parts = [velocity[t, ..., c] for t in range(8) for c in range(3)]
    assert torch.equal(mesh.x[:, 3:], channels(*density[:4], *parts[:12]))
    assert torch.equal(mesh.y, channels(*density[4:8], *parts[12:]))
    assert np.allclose(mesh.pos[1], [8 / 3 / 2, 8 / 4 / 2, 8 / 5 * 1.5])
    assert [str(f) for f in smoke.spec.targets] == ["density_out:point", "velocity_out:point"]


def test_smoke3d_of_another_layout_is_refused(tmp_path):
    write_smoke(tmp_path)
    smoke = Smoke3D(tmp_path)
    np.savez(tmp_path / "raw" / "smoke_10.npz", fluid_field=np.zeros((20, 3, 4, 5, 1), np.float32))
    with pytest.raises(InputError, match=r"Expected velocity in '.*smoke_10.npz' \(it has fluid_field\)"):
        smoke.split("test")[0]
    np.savez(tmp_path / "raw" / "smoke_0.npz", fluid_field=np.zeros((20, 3, 4, 5), np.float32))
    with pytest.raises(InputError, match=r"Expected fluid_field of shape \[any, any, any, any, 1\]"):
        Smoke3D(tmp_path)


@pytest.mark.parametrize(
    ("kind", "what"),
    [(IT3D, r"a directory with vx.npy, vy.npy, vz.npy and prs.npy for each of 1,100"), (Smoke3D, r"smoke_0.npz to ")],
)
def test_absent_files_are_asked_for(tmp_path, kind, what):
    with pytest.raises(InputError, match=rf"^{kind.__name__} needs {what}.* in '.*raw'; get .* of FactFormer"):
        kind(tmp_path)


def test_the_command_line_does_not_read_all_windows_to_describe_them(tmp_path, capsys, monkeypatch):
    write_kf2d(tmp_path)
    read = []
    frames = KF2D.frames
    monkeypatch.setattr(KF2D, "frames", lambda self, *window: read.append(window) or frames(self, *window))
    command = ["train", "kf2d", "--root", str(tmp_path), "--dry-run", "--data_args.train_starts", "[0]"]
    assert main([*command, "--model.num_layers", "1", "--model.hidden_channels", "8"]) == 0
    printed = capsys.readouterr().out
    assert "5 train, 7 test; 8 nodes in the first" in printed
    assert "origin     official files\n" in printed
    assert len(read) == 1 + 5 + 1  # described, normalised, one batch
