"""The solver on exact solutions and under refinement, the mesh, the files in the published layout."""

import h5py
import numpy as np
import pytest
from skfem import MeshTri, MeshTri2

from meshop.datasets.generators import GENERATORS, generate
from meshop.datasets.generators.heat_flow import (
    CYLINDER,
    INLET,
    INSIDE,
    OUTLET,
    WALL,
    channel,
    quadratic,
    sample,
    solve,
)
from meshop.datasets.physgto import HeatFlow


def rectangle(n, left=0.0, right=1.0):
    return MeshTri2.from_mesh(MeshTri.init_tensor(np.linspace(left, right, n + 1), np.linspace(0, 1, n + 1)))


def everywhere(basis, values):
    """Prescribe values on all of the border."""
    border = np.full(values.shape, np.nan)
    nodes = basis.get_dofs().flatten()
    border[nodes] = values[nodes]
    return border


def test_errors_in_space_are_of_third_order():
    """Kovasznay's flow behind a grid; its vorticity is carried and diffused as heat is."""
    nu, errors = 1 / 40, []
    rate = 20 - np.sqrt(400 + 4 * np.pi**2)
    for n in (4, 8, 16):
        mesh = rectangle(n, -0.5, 1)
        x, y = (basis := quadratic(mesh)).doflocs
        wave, slope = np.exp(rate * x), 2 * np.pi
        exact = np.stack(
            [
                1 - wave * np.cos(slope * y),
                rate / slope * wave * np.sin(slope * y),
                (rate**2 / slope - slope) * wave * np.sin(slope * y),
            ],
            axis=1,
        )
        states = solve(mesh, everywhere(basis, exact), exact, nu, nu, 0.008, 250, 250)
        u, v, p, T = states[-1].T
        pressure = -(wave**2) / 2
        found, wanted = np.stack([u, v, T, p - p[0]], axis=1), np.c_[exact, pressure - pressure[0]]
        errors.append(np.sqrt(((found - wanted) ** 2).mean(0)) / wanted.std(0))
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (orders[-1] > [2.8, 2.8, 2.8, 1.8]).all(), orders
    assert (errors[-1] < [2e-4, 2e-4, 2e-4, 1e-2]).all(), errors


def test_errors_in_time_are_of_second_order():
    """A vortex in a closed box that stirs heat."""
    mesh = rectangle(5)
    x, y = np.pi * (basis := quadratic(mesh)).doflocs
    start = np.stack([np.sin(x) ** 2 * np.sin(2 * y), -np.sin(2 * x) * np.sin(y) ** 2, np.cos(x) * np.sin(y)], axis=1)
    border = everywhere(basis, start)
    counts = (10, 20, 40, 320)
    final = [solve(mesh, border, start, 0.05, 0.02, 0.5 / n, n, n)[-1, :, [0, 1, 3]] for n in counts]
    errors = [np.abs(values - final[-1]).max(1) for values in final[:-1]]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert orders == pytest.approx(2, abs=0.25)


def test_flow_between_plates_is_exact_and_leaves_freely():
    mesh = rectangle(4)
    x, y = (basis := quadratic(mesh)).doflocs
    start = np.stack([4 * y * (1 - y), 0 * y, y + np.sin(np.pi * y)], axis=1)
    border = np.full(start.shape, np.nan)
    prescribed = (x == 0) | (y == 0) | (y == 1)
    border[prescribed, :2] = start[prescribed, :2]
    border[(y == 0) | (y == 1), 2] = start[(y == 0) | (y == 1), 2]
    states = solve(mesh, border, start, 0.1, 0.2, 0.01, 20, 10)
    assert states.shape == (3, basis.N, 4)
    for u, v, p, _ in states[1:].transpose(0, 2, 1):
        np.testing.assert_allclose(u, start[:, 0], atol=1e-12)
        np.testing.assert_allclose(v, 0, atol=1e-12)
        np.testing.assert_allclose(p, 0.8 * (1 - x), atol=1e-10)
    np.testing.assert_allclose(states[-1, :, 3], y + np.sin(np.pi * y) * np.exp(-0.2 * np.pi**2 * 0.2), atol=3e-3)


def test_the_mesh_follows_the_circles():
    centres = np.array([[0.6, 0.4], [1, 0.6]])
    basis = quadratic(channel(centres, 0.07, 0.1))
    assert basis.dx.sum() == pytest.approx(3 - 2 * np.pi * 0.07**2, rel=1e-6)
    x, y = basis.doflocs[:, basis.get_dofs().flatten()]
    inner = (x > 1e-9) & (x < 3 - 1e-9) & (y > 1e-9) & (y < 1 - 1e-9)
    near = np.hypot(*(np.stack([x, y], 1)[inner, None] - centres).T).min(0)
    np.testing.assert_allclose(near, 0.07, rtol=1e-9)
    assert len(near) >= 80


def test_its_data_set_reads_the_files(tmp_path):
    raw = tmp_path / "raw"
    options = {"frames": 36, "size": 0.3, "dt": 0.01}
    found = generate(GENERATORS["heat_flow"], raw, samples=3, seed=2, **options)
    assert sorted(p.name for p in raw.iterdir()) == [
        "case_0000.h5",
        "case_0001.h5",
        "case_0002.h5",
        "generated.json",
        "test.txt",
        "train.txt",
    ]
    assert (raw / "train.txt").read_text() == "case_0000.h5\ncase_0001.h5\n"
    assert (raw / "test.txt").read_text() == "case_0002.h5\n"
    wanted = sample(np.random.default_rng([2, 1]), **GENERATORS["heat_flow"].options | options)
    with h5py.File(raw / "case_0001.h5") as file:
        content = {key: value[()] for key, value in file.items()}
    assert content.keys() == wanted.keys()
    for key, value in wanted.items():
        np.testing.assert_array_equal(content[key], value)
    nodes, kind = content["node_pos"], content["node_type"]
    speed, warmth, _, radius, _ = content["conditions"]
    assert all(content[name].shape == (36, len(nodes)) for name in "uvpT")
    assert content["t"][:, 0] == pytest.approx(0.02 * np.arange(36))
    assert set(kind) == {INSIDE, INLET, OUTLET, WALL, CYLINDER}
    assert content["T"][-1, kind == CYLINDER] == pytest.approx(293.15 + warmth, rel=1e-6)
    assert content["u"][-1, kind == INLET].max() == pytest.approx(1.5 * speed, rel=0.02)
    assert not content["u"][:, (kind == WALL) | (kind == CYLINDER)].any()
    assert not content["u"][0, kind == INSIDE].any()
    assert content["u"][-1, kind == OUTLET].mean() > speed / 2
    lower = nodes[(kind == CYLINDER) & (nodes[:, 1] < nodes[kind == CYLINDER, 1].mean())]
    assert np.ptp(lower[:, 1]) == pytest.approx(2 * radius, rel=0.05)
    corners = nodes[content["cells"]]
    area = np.linalg.det(corners[:, 1:] - corners[:, :1]) / 2
    assert area.min() > 0
    assert area.sum() == pytest.approx(3 - 2 * np.pi * radius**2, rel=1e-3)
    assert (np.bincount(content["cells"].ravel()) > 0).all()
    assert found["u"][0] > 0
    flows = HeatFlow(tmp_path)
    assert flows.splits == {"train": [0, 1], "test": [2]}
    flow = flows[1]
    np.testing.assert_array_equal(flow.point_data["u_in"].T, content["u"][25:30])
    np.testing.assert_array_equal(flow.point_data["v_out"].T, content["v"][30:35])
    np.testing.assert_array_equal(flow.point_data["boundary"], kind != INSIDE)


@pytest.mark.slow
def test_the_fastest_flow_on_the_finest_mesh_stays_in_bounds():
    class Extreme:
        def uniform(self, *ranges):
            return np.array([0.6, 90, 0.35, 0.04, 90])

    made = sample(Extreme(), **GENERATORS["heat_flow"].options)
    assert np.abs(made["u"]).max() < 4 * 0.6
    assert made["T"].max() == pytest.approx(293.15 + 90, abs=2)
    assert made["T"].min() == pytest.approx(293.15, abs=2)
    assert made["v"][400:].std() > 0.05
