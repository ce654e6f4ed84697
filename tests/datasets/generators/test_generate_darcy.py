"""The solver on a manufactured solution, the field on its law, the files in the published layout."""

import numpy as np
import pytest
import scipy.io
from scipy.ndimage import gaussian_filter

from meshop.datasets.generators import GENERATORS, generate
from meshop.datasets.generators.darcy import random_field, sample, solve


def test_the_error_is_of_second_order():
    errors = []
    for n in (17, 33, 65):
        x, y = np.meshgrid(*[np.linspace(0, 1, n)] * 2, indexing="ij")
        u, a = np.sin(np.pi * x) * np.sin(2 * np.pi * y), 2 + np.sin(3 * x) * np.cos(2 * y)
        u_x, u_y = (
            np.pi * np.cos(np.pi * x) * np.sin(2 * np.pi * y),
            2 * np.pi * np.sin(np.pi * x) * np.cos(2 * np.pi * y),
        )
        a_x, a_y = 3 * np.cos(3 * x) * np.cos(2 * y), -2 * np.sin(3 * x) * np.sin(2 * y)
        force = 5 * np.pi**2 * a * u - a_x * u_x - a_y * u_y
        errors.append(np.abs(solve(a, force) - u).max())
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert orders == pytest.approx(2, abs=0.02)


def test_the_field_has_its_covariance():
    """The coefficients of its cosine series have the variance of the law."""
    fields = np.stack([random_field(np.random.default_rng(i), (32, 32)) for i in range(400)])
    x = (np.arange(32) + 0.5) / 32
    for k, l in ((0, 1), (1, 1), (2, 0)):
        mode = np.sqrt(2) ** ((k > 0) + (l > 0)) * np.outer(np.cos(np.pi * k * x), np.cos(np.pi * l * x))
        variance = ((fields * mode).mean((1, 2))).var()
        assert variance == pytest.approx(9 / (np.pi**2 * (k**2 + l**2) + 9) ** 2, rel=0.2)
    assert np.abs(fields.mean((1, 2))).max() < 1e-12


def test_a_sample_solves_its_equation():
    made = sample(np.random.default_rng(1), 33)
    assert set(np.unique(made["coeff"])) == {3, 12}
    assert made["sol"].dtype == np.float32
    assert made["sol"].min() >= 0
    edge = np.r_[made["sol"][0], made["sol"][-1], made["sol"][:, 0], made["sol"][:, -1]]
    assert not edge.any()


def test_the_layout(tmp_path):
    generate(GENERATORS["darcy"], tmp_path, samples=6, resolution=21)
    for part, rows in (("smooth1", 5), ("smooth2", 1)):
        content = scipy.io.loadmat(tmp_path / f"piececonst_r21_N1024_{part}.mat")
        for name, dtype in (("coeff", "f4"), ("sol", "f4"), ("Kcoeff", "f8"), ("Kcoeff_x", "f8"), ("Kcoeff_y", "f8")):
            assert content[name].shape == (rows, 21, 21)
            assert content[name].dtype == dtype
        smooth = gaussian_filter(content["coeff"][0].astype(float), 0.21, mode="nearest")
        np.testing.assert_allclose(content["Kcoeff"][0], smooth)
        np.testing.assert_allclose(content["Kcoeff_y"][0], np.gradient(smooth, 1 / 20, axis=1))


@pytest.mark.slow
def test_published_statistics(tmp_path):
    found = generate(GENERATORS["darcy"], tmp_path, samples=100, workers=2, resolution=85)
    for name, (mean, std) in GENERATORS["darcy"].published.items():
        assert found[name][1] == pytest.approx(std, rel=0.04)
        assert mean is None or found[name][0] == pytest.approx(mean, rel=0.04)
