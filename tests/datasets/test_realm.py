"""REALM's sets: tiny files in the published layout, whose values tell where they stood."""

import os

import numpy as np
import pytest
import torch

from meshop.data import InputError
from meshop.datasets import EvolveJet, IgnitHIT
from meshop.transforms import BoxCox

NAMES = ("H", "O2", "T", "rho", "Ux", "Uy")
GROUPS = {"train": ["phi=s_1", "phi=c_2"], "val": ["phi=_t_3"], "test": ["phi=s_4"]}
FRAMES, H, W = 5, 3, 4


def values(group, names=NAMES):
    """[T, C, H, W] with values from 0 to 1 that tell trajectory and place."""
    number = [g for part in GROUPS.values() for g in part].index(group)
    size = FRAMES * len(names) * H * W
    return ((np.arange(size) + number * size) / (4 * size)).reshape(FRAMES, len(names), H, W).astype(np.float32)


def write(root, names=NAMES, **change):
    (root / "raw").mkdir(exist_ok=True)
    coords = np.stack(np.meshgrid(np.arange(H) * 0.1, np.arange(W) * 0.2, indexing="ij")).astype(np.float32)
    groups = {f"{part}_groups": ids for part, ids in GROUPS.items()}
    data = {"coords": coords, "times": ["1e-05", "2e-05", "3e-05", "4e-05", "5e-05"], "spatial_size": (H, W)}
    data |= {"variables": [f"{n}.npy" for n in names], "num_chemical": 2, **groups}
    np.savez_compressed(root / "raw" / "data.npz", **{k: v for k, v in (data | change).items() if v is not None})
    for part, ids in GROUPS.items():
        (root / "raw" / part).mkdir(exist_ok=True)
        for group in ids:
            np.savez_compressed(root / "raw" / part / f"{group}.npz", data=values(group, names))


def channels(*frames):
    return torch.from_numpy(np.stack([f.reshape(-1) for f in frames], 1))


def test_windows_of_a_trajectory(tmp_path):
    write(tmp_path)
    flames = IgnitHIT(tmp_path, lam=None)
    assert {part: len(ids) for part, ids in flames.splits.items()} == {"train": 8, "val": 4, "test": 4}
    assert [f.name for f in flames.spec.targets] == ["species_out", "T_out", "rho_out", "velocity_out"]
    assert [f.unit for f in flames.spec.targets] == ["", "K", "kg/m^3", "m/s"]
    mesh = flames.split("test")[2]
    assert mesh.validate()
    assert (mesh.name, mesh.shape) == ("phi=s_4_0002", (3, 4))
    truth = values("phi=s_4")
    assert torch.equal(mesh.x[:, 2:], channels(*truth[2]))
    assert torch.equal(mesh.y, channels(*truth[3]))
    assert torch.allclose(mesh.pos, torch.tensor([[0.1 * i, 0.2 * j] for i in range(3) for j in range(4)]))
    assert mesh.field_data["species"].tolist() == ["H", "O2"]
    assert float(mesh.measure.sum()) == pytest.approx(0.2 * 0.6)


def test_frames_of_a_vector_stand_side_by_side(tmp_path):
    write(tmp_path)
    mesh = IgnitHIT(tmp_path, T_in=2, T_out=3, lam=None, train_starts="random", test_starts=(0,)).split("test")[0]
    truth = values("phi=s_4")
    assert torch.equal(mesh.point_data["velocity_in"], channels(*truth[0, 4:], *truth[1, 4:]))
    assert torch.equal(mesh.point_data["species_out"], channels(*truth[2, :2], *truth[3, :2], *truth[4, :2]))


def test_species_are_transformed_and_come_back(tmp_path):
    write(tmp_path)
    flames = EvolveJet(tmp_path)
    mesh = flames[0]
    raw = channels(*values("phi=s_1")[0, :2])
    expected = (raw.double().clamp_min(1e-8) ** 0.1 - 1) / 0.1
    assert torch.allclose(mesh.x[:, 2:4].double(), expected, atol=1e-5)
    assert torch.equal(mesh.x[:, 4:], channels(*values("phi=s_1")[0, 2:]))
    assert isinstance(flames.box_cox, BoxCox)
    assert torch.allclose(flames.box_cox.inverse(mesh).point_data["species_in"], raw.clamp_min(1e-8), rtol=1e-4)


def test_channels_are_found_by_their_names(tmp_path):
    names = ("p", "Uy", "H", "T", "Ux")
    write(tmp_path, names)
    flames = IgnitHIT(tmp_path, lam=None)
    assert [(f.name, f.components) for f in flames.spec.inputs] == [
        ("species_in", 1), ("T_in", 1), ("velocity_in", 2), ("p_in", 1),
    ]  # fmt: skip
    truth = values("phi=s_1", names)[0]
    assert torch.equal(flames[0].x[:, 2:], channels(*truth[[2, 3, 4, 1, 0]]))


def test_a_trajectory_is_unpacked_once(tmp_path):
    write(tmp_path)
    flames = IgnitHIT(tmp_path, lam=None)
    assert not (tmp_path / "processed").exists()
    flames[0], flames[1]
    assert [p.name for p in (tmp_path / "processed").rglob("*.npy")] == ["phi=s_1.npy"]
    packed, unpacked = tmp_path / "raw/train/phi=s_1.npz", tmp_path / "processed/train/phi=s_1.npy"
    assert np.array_equal(np.load(unpacked), values("phi=s_1"))
    np.savez_compressed(packed, data=-values("phi=s_1"))
    os.utime(packed, (unpacked.stat().st_mtime + 1,) * 2)
    assert torch.equal(flames[0].x[:, 2:], channels(*-values("phi=s_1")[0]))


def test_errors(tmp_path):
    with pytest.raises(InputError, match=r"^IgnitHIT needs data.npz .* in '.*raw'; get IgnitHIT of REALM"):
        IgnitHIT(tmp_path)
    write(tmp_path, val_groups=None)
    with pytest.raises(InputError, match=r"Expected val_groups in '.*data.npz' \(it has coords, times, "):
        IgnitHIT(tmp_path)
    write(tmp_path, coords=np.zeros((3, H, W)))
    with pytest.raises(InputError, match=r"Expected coords of shape \[2, any, any\]"):
        IgnitHIT(tmp_path)
    write(tmp_path)
    with pytest.raises(InputError, match=r"T_in \+ T_out of at most the 5 frames"):
        IgnitHIT(tmp_path, T_out=5)
    flames = IgnitHIT(tmp_path)
    packed = tmp_path / "raw/train/phi=s_1.npz"
    np.savez_compressed(packed, data=values("phi=s_1")[:, 1:])
    with pytest.raises(InputError, match=r"Expected data of shape \[any, 6, any, any\] in '.*phi=s_1.npz' \(got"):
        flames[0]
    packed.write_bytes(packed.read_bytes()[:50])
    with pytest.raises(InputError, match=r"phi=s_1.npz' is not an archive of arrays"):
        flames[0]
    packed.unlink()
    with pytest.raises(InputError, match=r"^There is no file '.*phi=s_1.npz', a trajectory of '.*data.npz'; get Ignit"):
        flames[0]
