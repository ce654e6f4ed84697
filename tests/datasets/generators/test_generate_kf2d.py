"""Kolmogorov's flow at rest in itself, its frames, and the published layout; its solver has tests of its own."""

import numpy as np
import pytest

from meshop.datasets.factformer import KF2D
from meshop.datasets.generators import GENERATORS, generate
from meshop.datasets.generators.kf2d import sample

KOLMOGOROV = GENERATORS["kf2d"]


def test_at_a_low_reynolds_number_it_is_laminar():
    """-8 cos 8y against drag and viscosity: -8 cos 8y / (0.1 + 64 / Re), once the random field is gone."""
    options = KOLMOGOROV.options | {"frames": 1, "resolution": 32, "refine": 1, "reynolds": 0.5, "warmup": 4.0}
    [w] = sample(np.random.default_rng(0), **options)["vorticity"]
    y = 2 * np.pi * np.arange(32) / 32
    np.testing.assert_allclose(w, np.broadcast_to(-8 * np.cos(8 * y) / 128.1, w.shape), atol=1e-3)


def test_frames_follow_each_other():
    options = KOLMOGOROV.options | {"frames": 6, "resolution": 32, "refine": 1, "warmup": 0.5}
    frames = sample(np.random.default_rng(0), **options)["vorticity"]
    assert frames.dtype == np.float32
    later = sample(np.random.default_rng(0), **options | {"frames": 1, "warmup": 0.5 + 5 / 32})["vorticity"]
    assert np.linalg.norm(later[0] - frames[5]) < 1e-3 * np.linalg.norm(frames[5])
    change = np.linalg.norm(np.diff(frames, axis=0), axis=(1, 2)) / np.linalg.norm(frames[0])
    assert ((change > 0.01) & (change < 0.5)).all()


def test_its_data_set_reads_the_file(tmp_path):
    options = {"frames": 20, "resolution": 16, "refine": 2, "warmup": 0.1}
    found = generate(KOLMOGOROV, tmp_path / "raw", samples=3, **options)
    files = ["generated.json", "kf_2d_re1000_256_120seed.npy"]
    assert sorted(path.name for path in (tmp_path / "raw").iterdir()) == files
    flows = KF2D(tmp_path, time_stride=1, space_stride=1, test_starts=(6,))
    [test] = flows.split("test")
    wanted = sample(np.random.default_rng([0, 2]), **KOLMOGOROV.options | options)["vorticity"]
    np.testing.assert_array_equal(test.point_data["vorticity_in"].T.reshape(10, 16, 16), wanted[6:16])
    np.testing.assert_array_equal(test.point_data["vorticity_out"].T.reshape(4, 16, 16), wanted[16:])
    assert found["last vorticity"][1] == pytest.approx(3, rel=0.6)
