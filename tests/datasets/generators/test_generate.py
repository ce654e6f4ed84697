"""The machinery: samples that depend on seed and number only, in any number of processes, and that resume."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import scipy.io

from meshop.data import InputError
from meshop.datasets.generators import GENERATORS, generate
from meshop.datasets.generators.generator import save_npy, split_rows

DARCY = GENERATORS["darcy"]


def arrays(folder):
    return {
        (path.name, name): value
        for path in sorted(folder.glob("*.mat"))
        for name, value in scipy.io.loadmat(path).items()
        if not name.startswith("__")
    }


def test_any_number_of_processes_makes_the_same_files(tmp_path):
    for workers in (1, 2):
        generate(DARCY, tmp_path / str(workers), samples=4, seed=3, workers=workers, resolution=9)
    one, two = arrays(tmp_path / "1"), arrays(tmp_path / "2")
    assert list(one) == list(two)
    assert all(np.array_equal(one[key], two[key]) for key in one)
    generate(DARCY, tmp_path / "other", samples=4, seed=4, resolution=9)
    other = arrays(tmp_path / "other")
    assert not any(np.array_equal(one[key], other[key]) for key in one)


def test_a_call_continues_where_the_last_one_stopped(tmp_path, caplog):
    def stops(rng, resolution):
        sample = DARCY.sample(rng, resolution)
        if len(list((tmp_path / "a" / "samples").glob("*.npz"))) == 2:
            raise KeyboardInterrupt
        return sample

    with pytest.raises(KeyboardInterrupt):
        generate(replace(DARCY, sample=stops), tmp_path / "a", samples=4, resolution=9)
    assert not list((tmp_path / "a").glob("*.mat"))
    with pytest.raises(InputError, match=r"holds samples made with .*'seed': 0"):
        generate(DARCY, tmp_path / "a", samples=4, seed=1, resolution=9)
    with caplog.at_level(logging.INFO, "meshop"):
        generate(DARCY, tmp_path / "a", samples=4, resolution=9)
    assert "2 of 4 samples are done" in caplog.text
    assert "published None and 0.00388433" in caplog.text
    generate(DARCY, tmp_path / "b", samples=4, resolution=9)
    one, two = arrays(tmp_path / "a"), arrays(tmp_path / "b")
    assert all(np.array_equal(one[key], two[key]) for key in two)
    names = [f"piececonst_r9_N1024_smooth{part}.mat" for part in (1, 2)]
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == names


def test_statistics_are_those_of_the_files(tmp_path):
    found = generate(DARCY, tmp_path, samples=6, resolution=9)
    sol = np.concatenate([v for (_, name), v in arrays(tmp_path).items() if name == "sol"])
    assert sol.shape == (6, 9, 9)
    assert found["sol"] == pytest.approx((sol.mean(), sol.std()), rel=1e-5)


def test_split_rows():
    assert [split_rows(n, 1 / 6) for n in (1200, 6, 2)] == [1000, 5, 1]


def test_errors(tmp_path):
    with pytest.raises(InputError, match="two samples and one process"):
        generate(DARCY, tmp_path, samples=1)
    with pytest.raises(InputError, match=r"options among resolution .*size"):
        generate(DARCY, tmp_path, samples=2, size=3)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Cannot write"):
        save_npy(tmp_path / "file" / "x.npy", np.zeros(1))
