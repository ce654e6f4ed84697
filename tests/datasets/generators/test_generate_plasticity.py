"""The material on closed forms, the block on exact motions and against scikit-fem, the forging, the files' layout."""

import numpy as np
import pytest
import scipy.io
from scipy.optimize import brentq
from skfem import Basis, ElementQuad1, ElementVector, MeshQuad, condense, solve
from skfem.models.elasticity import lame_parameters, linear_elasticity

from meshop.data import InputError
from meshop.datasets import Plasticity
from meshop.datasets.generators import GENERATORS, generate, plasticity
from meshop.datasets.generators.plasticity import (
    AREAL,
    CORNER,
    DENSITY,
    DURATION,
    FRAMES,
    HEIGHT,
    LENGTH,
    POISSON,
    SHEAR,
    SPEED,
    YIELD,
    YOUNG,
    Block,
    area,
    forge,
    grid,
    press,
    profile,
    sample,
    slopes,
    yielding,
)

FACE = profile(np.array([2.0, 0.0, 4.0, 5.0, 1.0, 3.0]))


def follow(mean, deviator, xx, yy, xy=0.0):
    """Stress at a point after more strain."""
    return yielding(mean + AREAL * (xx + yy) / 2, deviator + SHEAR * ((xx - yy) / 2 + 1j * xy))


def mises(mean, deviator):
    """From the tensor in space, without stress across the plate."""
    s = np.zeros((*np.shape(mean), 3, 3))
    s[..., 0, 0], s[..., 1, 1] = mean + np.real(deviator), mean - np.real(deviator)
    s[..., 0, 1] = s[..., 1, 0] = np.imag(deviator)
    s -= np.trace(s, axis1=-2, axis2=-1)[..., None, None] / 3 * np.eye(3)
    return np.sqrt(1.5 * (s**2).sum((-2, -1)))


def crooked(cells):
    """A grid whose inner nodes are displaced."""
    points, rng = grid(cells), np.random.default_rng(0)
    inner = points[1:-1, 1:-1]
    inner += LENGTH / cells[0] * rng.uniform(-0.2, 0.2, inner.shape)
    inner += 1j * HEIGHT / cells[1] * rng.uniform(-0.2, 0.2, inner.shape)
    return points


def framed(wanted):
    """The nodes of the border go where they are wanted, the others freely."""

    def place(points):
        out = wanted.copy()
        out[1:-1, 1:-1] = points[1:-1, 1:-1]
        return out

    return place


def stable(points):
    """A time step with which no mass is scaled."""
    first, second = (np.abs(values).min() for values in slopes(points))
    return 0.5 * min(first, second) * np.sqrt(DENSITY / AREAL)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_strip_that_is_pulled_or_pressed(sign):
    """Elastic up to 70 MPa, which then stay. Both widths follow by Poisson's ratio, and by one half of what is plastic;
    the one across the plate comes from the elastic change of volume."""
    mean, deviator = np.zeros(1), np.zeros(1, complex)
    along = across = 0.0
    for _ in range(60):
        step = sign * 2e-5

        def side(xx, step=step, mean=mean, deviator=deviator):
            m, d = follow(mean, deviator, xx, step)
            return (m + d.real)[0]

        xx = brentq(side, -2e-5, 2e-5, xtol=1e-19)
        mean, deviator = follow(mean, deviator, xx, step)
        along, across = along + step, across + xx
        elastic = np.clip(along, -YIELD / YOUNG, YIELD / YOUNG)
        assert (mean - deviator.real)[0] == pytest.approx(YOUNG * elastic, rel=1e-6)
        assert across == pytest.approx(-POISSON * elastic - (along - elastic) / 2, rel=1e-5)
        thickness = 2 * (1 - 2 * POISSON) / YOUNG * mean[0] - (along + across)
        assert thickness == pytest.approx(across, rel=1e-5)
    assert abs(along) > 3 * YIELD / YOUNG


def test_pure_shear_yields_at_its_limit():
    mean, deviator = np.zeros(1), np.zeros(1, complex)
    for count in range(1, 51):
        mean, deviator = follow(mean, deviator, 0, 0, 1e-5)
        wanted = min(2 * YOUNG / 2 / (1 + POISSON) * count * 1e-5, YIELD / np.sqrt(3))
        assert [mean[0], deviator[0].real] == [0, 0]
        assert deviator[0].imag == pytest.approx(wanted, rel=1e-8)
    assert count * 1e-5 > YIELD / np.sqrt(3) / SHEAR


def test_stress_comes_back_along_the_normal():
    rng = np.random.default_rng(0)
    m = rng.standard_normal(2000) * 10 ** rng.uniform(0, 3, 2000)
    d = (rng.standard_normal(2000) + 1j * rng.standard_normal(2000)) * 10 ** rng.uniform(0, 3, 2000)
    mean, deviator = yielding(m, d)
    before, after = mises(m, d), mises(mean, deviator)
    beyond = before > YIELD
    assert 500 < beyond.sum() < 1900
    np.testing.assert_array_equal(mean[~beyond], m[~beyond])
    np.testing.assert_array_equal(deviator[~beyond], d[~beyond])
    np.testing.assert_allclose(after[beyond], YIELD, rtol=1e-9)
    # plastic strain, along the derivatives of f by the strains that work with mean and deviator
    areal, shear = (m - mean)[beyond] / AREAL, (d - deviator)[beyond] / SHEAR
    factor = areal / mean[beyond]
    assert factor.min() > 0
    np.testing.assert_allclose(shear, 3 * factor * deviator[beyond], rtol=1e-6)


def test_a_rotation_turns_stress_and_strains_nothing():
    block = Block(crooked((3, 2)), 1e-4)
    rest, rng = block.points, np.random.default_rng(1)
    moved = rest + 1e-3 * (rng.standard_normal(rest.shape) + 1j * rng.standard_normal(rest.shape))
    block.step(lambda _: moved)
    mean, deviator, force = block.mean, block.deviator, block.force
    assert 20 < mises(mean, deviator).max() < YIELD
    for count in range(1, 8):
        turn = np.exp(0.4j * count)
        block.step(lambda _, turn=turn: turn * moved + 3 * turn)
        np.testing.assert_allclose(block.mean, mean, atol=1e-8)
        np.testing.assert_allclose(block.deviator, turn**2 * deviator, atol=1e-8)
        np.testing.assert_allclose(block.force, turn * force, atol=1e-7)


def test_an_affine_motion_is_exact_in_crooked_cells():
    """Its inner nodes, free, follow the border; stress is the same everywhere; the plate keeps its volume."""
    rest, steps, dt = crooked((6, 4)), 400, 2e-4
    rate = (0.2 + 0.1j) * rest + 0.3 * rest.conj()  # stretched by 1.5 and 0.9, turned and sheared
    block = Block(rest, dt)
    block.velocity = rate / (steps * dt)
    for count in range(1, steps + 1):
        wanted = rest + count / steps * rate
        block.step(framed(wanted))
        np.testing.assert_allclose(block.points, wanted, atol=1e-8)
    np.testing.assert_allclose(block.mean, block.mean.mean(), rtol=1e-6)
    np.testing.assert_allclose(block.deviator, block.deviator.mean(), rtol=1e-6)
    np.testing.assert_allclose(mises(block.mean, block.deviator), YIELD, rtol=1e-8)
    assert np.abs(block.force[1:-1, 1:-1]).max() < 1e-6 * np.abs(block.force).max()
    # the force that holds the right side; the plate is thinner as it is wider
    normal = 1j * (block.points[0, -1] - block.points[0, 0])
    m, d = block.mean.mean(), block.deviator.mean()
    thickness = (1 + 2 * (1 - 2 * POISSON) / YOUNG * m) / (np.abs(1.2 + 0.1j) ** 2 - 0.3**2)
    assert -block.force[0].sum() == pytest.approx(thickness * (m * normal + d * normal.conjugate()), rel=1e-6)


def test_cells_are_as_stiff_as_those_of_scikit_fem():
    points = crooked((4, 3))
    _basis, stiffness = plane_stress(points)
    rng = np.random.default_rng(2)
    u = 1e-7 * (rng.standard_normal(points.shape) + 1j * rng.standard_normal(points.shape))
    block = Block(points, 1e-4)
    block.step(lambda _: points + u)
    wanted = stiffness @ np.stack([u.real.ravel(), u.imag.ravel()], axis=1).ravel()
    np.testing.assert_allclose(block.force.view(float).ravel(), -wanted, atol=1e-5 * np.abs(wanted).max())


def plane_stress(points):
    """Bilinear elements, their nodes in the order of the grid, and their stiffness."""
    number = np.arange(points.size).reshape(points.shape)
    corners = [number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]]
    mesh = MeshQuad(
        np.stack([points.real.ravel(), points.imag.ravel()]), np.stack([c.ravel() for c in corners]), sort_t=False
    )
    basis = Basis(mesh, ElementVector(ElementQuad1()), intorder=3)
    lam, mu = lame_parameters(YOUNG, POISSON)
    return basis, linear_elasticity(2 * lam * mu / (lam + 2 * mu), mu).assemble(basis)


def test_no_pattern_grows_in_a_free_block():
    """All modes of the cells, hourglasses too, vibrate with the energy that they were given."""
    rest = grid((10, 6))
    block = Block(rest, 8e-4)
    i, j = np.mgrid[:11, :7]
    block.velocity = 0.1 * ((-1.0) ** (i + j) * (1 + 0.5j) + np.random.default_rng(3).standard_normal(rest.shape))
    energies = []
    for _ in range(1200):
        before = block.velocity
        mass = block.mass
        stored = block.area * (block.mean**2 / AREAL + np.abs(block.deviator) ** 2 / SHEAR)
        block.step(lambda points: points)
        kinetic = mass * np.abs((block.velocity + before) / 2) ** 2 / 2
        energies.append(stored.sum() + kinetic.sum())
        assert mises(block.mean, block.deviator).max() < YIELD
    assert block.mass.sum() > 2 * DENSITY * LENGTH * HEIGHT
    energies = energies[1:]
    assert max(energies) < 1.5 * min(energies)
    assert np.mean(energies[-300:]) == pytest.approx(np.mean(energies[:300]), rel=0.02)


def test_errors_of_elastic_waves_are_of_second_order():
    """Plane waves of pressure and of shear through a plate whose border is moved."""
    waves = [
        (np.exp(0.5j), 0.35 * np.exp(0.5j), np.sqrt(YOUNG / (1 - POISSON**2) / DENSITY)),
        (1j * np.exp(2j), 0.3 * np.exp(2j), np.sqrt(SHEAR / 2 / DENSITY)),
    ]
    errors = []
    for n in (2, 4, 8):
        rest = grid((10 * n, 3 * n))
        steps, dt = 18 * n, 0.01 / (18 * n)

        def motion(time, rest=rest):
            phases = [(rest * k.conjugate()).real - np.abs(k) * c * time for _, k, c in waves]
            return rest + 1e-5 * sum(d * np.sin(phase) for (d, _, _), phase in zip(waves, phases, strict=True))

        block = Block(rest, dt)
        assert block.mass.sum() == pytest.approx(DENSITY * LENGTH * HEIGHT, rel=1e-12)
        block.step(lambda _, motion=motion: motion(0))
        block.velocity = (motion(0) - motion(-dt)) / dt
        for count in range(1, steps + 1):
            block.step(framed(motion(count * dt)))
        gap, size = block.points - motion(0.01), motion(0.01) - rest
        errors.append(np.linalg.norm(gap) / np.linalg.norm(size))
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert orders == pytest.approx(2, abs=0.2)
    assert errors[-1] < 0.02


def test_a_gentle_push_gives_the_static_solution():
    """A level die, so slow that nothing vibrates, against scikit-fem's elastic block under that displacement."""
    rest = grid((20, 6))
    flat, depth, steps = profile(np.zeros(4)), 3e-4, 1500
    block = Block(rest, stable(rest))
    for count in range(1, steps + 1):
        down = depth * (1 - np.cos(np.pi * count / steps)) / 2
        block.step(lambda points, down=down: press(points, rest, flat, down))
    assert mises(block.mean, block.deviator).max() < YIELD
    _basis, stiffness = plane_stress(rest)
    number = 2 * np.arange(rest.size).reshape(rest.shape)
    wanted = np.zeros(2 * rest.size)
    wanted[number[:, 0] + 1] = -depth
    held = np.concatenate([number[:, 0] + 1, number[:, -1], number[:, -1] + 1])
    wanted = solve(*condense(stiffness, x=wanted, D=held)).view(complex).reshape(rest.shape)
    assert np.abs(wanted.real).max() > 0.1 * depth
    np.testing.assert_allclose(block.points - rest, wanted, atol=2e-3 * depth)


def test_the_face_of_a_die():
    heights = np.array([2.0, 0.0, 4.0, 5.0, 1.0, 3.0])
    x = np.linspace(CORNER.real - LENGTH, CORNER.real, 6)
    np.testing.assert_allclose(np.diff(FACE(x)), np.diff(heights))
    assert FACE(np.linspace(x[0], x[-1], 5000)).min() == pytest.approx(0, abs=1e-4)
    np.testing.assert_allclose(FACE(x[[0, -1]], 1), 0, atol=1e-12)


def below(points, depth):
    """How far points are below the die."""
    return CORNER.imag + FACE(points.real.clip(FACE.x[0], FACE.x[-1])) - depth - points.imag


def test_nodes_leave_the_die_along_its_normal():
    rest = grid((50, 4))
    points = rest + 0.3 - 0.4j * (rest.real > -20)
    moved = press(points, rest, FACE, 1.0)
    inside = below(points[:, 0], 1.0) < 0
    assert 5 < inside.sum() < 45
    np.testing.assert_array_equal(moved[~inside, 0], points[~inside, 0])
    assert np.abs(below(moved[inside, 0], 1.0)).max() < 0.2
    slope = FACE(points[inside, 0].real.clip(FACE.x[0], FACE.x[-1]), 1)
    np.testing.assert_allclose(((moved - points)[inside, 0] / (slope - 1j)).imag, 0, atol=1e-12)
    np.testing.assert_array_equal(moved[:, -1], rest[:, -1])
    assert moved.imag.min() == rest.imag.min() > points.imag.min()


def strain(old, new):
    """From one place of the cells to the next."""
    (u, da), (v, db) = (((n + o) / 2, n - o) for o, n in zip(old, new, strict=True))
    det = u.real * v.imag - u.imag * v.real
    xx = (da.real * v.imag - db.real * u.imag) / det
    yy = (db.imag * u.real - da.imag * v.real) / det
    xy = (db.real * u.real - da.real * v.real + da.imag * v.imag - db.imag * u.imag) / (2 * det)
    return xx, yy, xy


@pytest.fixture(scope="module")
def forged():
    """A forging on a coarse grid, with the works of the die and of stress, the latter by strains of its own."""
    rest, steps = grid((20, 6)), 120
    dt = DURATION / (FRAMES - 1) / steps
    block = Block(rest, dt)
    found = {name: [] for name in ("points", "die", "inner", "kinetic", "gap", "mises", "area", "reaction")}
    work = inner = 0.0
    for count in range(1, (FRAMES - 1) * steps + 1):
        depth = SPEED * dt * count
        old, mean, deviator = block.slopes, block.mean, block.deviator
        force = block.step(lambda points, depth=depth: press(points, rest, FACE, depth))
        work -= SPEED * dt * force[:, 0].imag.sum()
        xx, yy, xy = strain(old, block.slopes)
        mean, deviator = (mean + block.mean) / 2, (deviator + block.deviator) / 2
        power = (mean + deviator.real) * xx + (mean - deviator.real) * yy + 2 * deviator.imag * xy
        inner += (block.area * power).sum()
        if count % 3 == 0:
            block.weigh()
        if count % steps == 0:
            found["points"].append(block.points)
            found["die"].append(work)
            found["inner"].append(inner)
            found["kinetic"].append((block.mass * np.abs(block.velocity) ** 2).sum() / 2)
            found["gap"].append(below(block.points, depth))
            found["mises"].append(mises(block.mean, block.deviator))
            found["area"].append(area(*block.slopes) / 4 / block.area)
            found["reaction"].append(force)
    return rest, {name: np.array(values) for name, values in found.items()}


def test_the_work_of_the_die_becomes_plastic_strain(forged):
    """Energy balances; little of it is kinetic, so that the scaled mass does not matter much."""
    _, found = forged
    assert found["die"][-1] > 5000
    np.testing.assert_allclose(found["inner"] + found["kinetic"], found["die"], rtol=0.03)
    assert (found["kinetic"] < 0.05 * found["die"]).all()
    assert found["kinetic"][-1] < 0.02 * found["die"][-1]
    assert (np.diff(found["inner"]) > 0).all()


def test_no_node_is_in_the_die_or_in_the_table(forged):
    rest, found = forged
    assert found["gap"].min() > -1e-4
    touching = np.abs(found["gap"][:, :, 0]) < 1e-4
    assert touching[3].mean() < 0.7 < touching[-1].mean()
    assert found["points"].imag.min() == rest.imag.min()
    np.testing.assert_array_equal(found["points"][:, :, -1], rest[None, :, -1].repeat(FRAMES - 1, 0))
    # the die pushes downwards, where it touches
    upper = found["reaction"][:, :, 0].imag
    assert upper.max() <= 0
    assert not upper[~touching].any()


def test_it_looks_like_forging(forged):
    rest, found = forged
    assert found["mises"].max() < YIELD * (1 + 1e-8)
    assert (found["mises"][-1] > 0.99 * YIELD).mean() > 0.5
    assert found["area"].min() > 0.1
    moved = found["points"] - rest
    assert moved.imag.min() == pytest.approx(-SPEED * DURATION, rel=0.06)
    assert np.abs(moved).max() < 7.5
    right, left = moved[-1, 0].real.max(), -moved[-1, -1].real.min()
    assert min(left, right) > 1
    assert max(left, right) < 5


def test_too_few_steps_are_refused():
    with pytest.raises(InputError, match="2 steps between two times are too few"):
        forge(FACE, (20, 6), 2)


def test_its_data_set_reads_the_file(tmp_path, monkeypatch):
    """Where the die comes down a tenth as far, in 3 frames."""
    monkeypatch.setattr(plasticity, "DURATION", 0.2)
    monkeypatch.setattr(plasticity, "FRAMES", 3)
    found = generate(GENERATORS["plasticity"], tmp_path / "raw", samples=2, steps=100)
    content = scipy.io.loadmat(tmp_path / "raw" / "plas_N987_T20.mat")
    die, output = content["input"], content["output"]
    assert (die.shape, output.shape) == ((2, 101), (2, 101, 31, 3, 4))
    assert die.dtype == output.dtype == np.float64
    wanted = sample(np.random.default_rng([0, 1]), steps=100, refine=1)
    np.testing.assert_array_equal(die[1], wanted["input"])
    np.testing.assert_array_equal(output[1], wanted["output"])
    i, j = np.mgrid[:101, :31]
    rest = np.stack([0.35 - i / 2, 14.9 - j / 2], axis=-1)[:, :, None]
    np.testing.assert_allclose(output[..., :2] - output[..., 2:] - rest, 0, atol=1e-12)
    assert not output[:, :, :, 0, 2:].any()
    assert not output[:, :, -1, :, 2:].any()
    # the face of the die starts at the height that the file says
    for frame in (1, 2):
        for (x, y), heights in zip(np.moveaxis(output[:, :, 0, frame, :2], -1, 1), die, strict=True):
            gap = -0.3 * frame + np.interp(x, 0.35 - i[::-1, 0] / 2, heights[::-1]) - y
            assert gap.min() == pytest.approx(0, abs=2e-3)
    blocks = Plasticity(tmp_path)
    assert blocks.splits == {"train": [0, 1, 2], "test": [3, 4, 5]}
    assert blocks[5].time == 1
    np.testing.assert_allclose(blocks[5].point_data["state"], output[1, :, :, 2].reshape(-1, 4), rtol=1e-6, atol=1e-6)
    assert found["u_y"][0] == pytest.approx(output[..., 3].mean())


def test_a_finer_solver_gives_the_same_nodes(monkeypatch):
    monkeypatch.setattr(plasticity, "DURATION", 0.05)
    monkeypatch.setattr(plasticity, "FRAMES", 2)
    one, two = (sample(np.random.default_rng(0), steps=50 * refine, refine=refine)["output"] for refine in (1, 2))
    assert np.linalg.norm(one - two) < 0.2 * np.linalg.norm(two[..., 2:])


@pytest.mark.slow
def test_a_finer_grid_and_less_mass_come_closer():
    """To the displacement on 60 x 18 cells with the mass of the density: on 20 x 6 and 30 x 9 cells with this mass, and
    with 14 and 4 times the mass."""
    wanted = forge(FACE, (60, 18), 900)
    wanted -= wanted[0]

    def error(found, by=1):
        fine = wanted[:, ::by, ::by]
        return np.linalg.norm(found - found[0] - fine) / np.linalg.norm(fine)

    finer = [error(forge(FACE, (60 // by, 18 // by), 900 // by), by) for by in (3, 2)]
    lighter = [error(forge(FACE, (60, 18), steps)) for steps in (225, 450)]
    assert finer[1] < 0.6 * finer[0] < 0.06
    assert lighter[1] < 0.4 * lighter[0] < 0.03
