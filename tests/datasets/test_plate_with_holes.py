"""The plates: their meshes, and the solver against exact solutions and Kirsch's stress concentration."""

import numpy as np
import pytest
import torch
from scipy.interpolate import LinearNDInterpolator
from scipy.spatial import cKDTree

from meshop.data import InputError
from meshop.datasets import PlateWithHoles
from meshop.datasets.plate_with_holes import POISSON, TRACTION, YOUNG, make_plate, mesh_plate, random_holes, solve_plate


def _local(hole, points):
    """Coordinates along the axes of a hole."""
    c, s = np.cos(hole[4]), np.sin(hole[4])
    return (points - hole[:2]) @ np.array([[c, -s], [s, c]])


def _edge(hole, count=720):
    t = np.linspace(0, 2 * np.pi, count, endpoint=False)
    c, s = np.cos(hole[4]), np.sin(hole[4])
    return hole[:2] + np.stack([hole[2] * np.cos(t), hole[3] * np.sin(t)], 1) @ np.array([[c, s], [-s, c]])


def _hole(x, y, a, b, angle=0.0):
    return np.array([[x, y, a, b, angle]])


def _mesh(holes, num_nodes, seed=0):
    return mesh_plate(holes, num_nodes, np.random.default_rng(seed))


NO_HOLES = np.empty((0, 5))


@pytest.mark.parametrize("seed", range(40))
def test_holes_keep_their_distance(seed):
    holes = random_holes(np.random.default_rng(seed))
    assert 1 <= len(holes) <= 3
    a, b = holes[:, 2:4].T
    assert (b <= a).all()
    assert (a <= 0.12).all()
    assert (b >= 0.5 * 0.05).all()
    edges = [_edge(hole) for hole in holes]
    for i, edge in enumerate(edges):
        assert edge.min() > 0.0599
        assert edge.max() < 0.9401
        for j in range(i):
            assert np.linalg.norm(edge[:, None] - edges[j], axis=2).min() > 0.0595
            assert np.linalg.norm(_local(holes[j], edge) / holes[j, 2:4], axis=1).min() > 1


@pytest.mark.parametrize("seed", range(12))
def test_meshes_conform_and_have_no_slivers(seed):
    rng = np.random.default_rng([3, seed])
    holes, num_nodes = random_holes(rng), int(rng.integers(800, 1601))
    points, triangles, on = mesh_plate(holes, num_nodes, rng)
    assert len(points) == num_nodes
    assert (np.unique(triangles) == np.arange(num_nodes)).all()  # no orphans
    a, b = (points[triangles[:, i]] - points[triangles[:, 0]] for i in (1, 2))
    area = (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / 2
    assert (area > 0).all()

    side = np.linalg.norm(points[triangles[:, [1, 2, 0]]] - points[triangles], axis=2)
    cosine = (np.roll(side, 1, 1) ** 2 + np.roll(side, -1, 1) ** 2 - side**2) / (
        2 * np.roll(side, 1, 1) * np.roll(side, -1, 1)
    )
    assert np.degrees(np.arccos(cosine)).min() > 20

    # The boundary is the border and, for every hole, the polygon of its nodes in order; all other edges have two cells.
    edges, cells = np.unique(np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)), axis=0, return_counts=True)
    assert cells.max() == 2
    boundary = {tuple(edge) for edge in edges[cells == 1].tolist()}
    assert len(edges) == len(points) + len(triangles) + len(holes) - 1  # Euler
    solid = 1.0
    for number, hole in enumerate(holes):
        ring = np.flatnonzero(on == number)
        assert np.abs(np.linalg.norm(_local(hole, points[ring]) / hole[2:4], axis=1) - 1).max() < 1e-12
        polygon = {tuple(sorted(pair)) for pair in zip(ring.tolist(), np.roll(ring, -1).tolist(), strict=True)}
        assert polygon <= boundary
        boundary -= polygon
        x, y = points[ring].T
        solid -= (x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2
        assert np.linalg.norm(_local(hole, points[triangles].mean(1)) / hole[2:4], axis=1).min() > 0.97
        assert np.linalg.norm(_local(hole, points[on != number]) / hole[2:4], axis=1).min() > 1
    for edge in boundary:
        assert ((points[list(edge)] == 0).all(0) | (points[list(edge)] == 1).all(0)).any()
    assert area.sum() == pytest.approx(solid, rel=1e-12)


def test_cells_are_small_at_the_holes():
    points, triangles, on = _mesh(_hole(0.5, 0.5, 0.1, 0.05), 1000)
    size = np.linalg.norm(points[triangles[:, 1]] - points[triangles[:, 0]], axis=1)
    at_hole = (on[triangles] >= 0).any(1)
    far = np.linalg.norm(points[triangles].mean(1) - 0.5, axis=1) > 0.4
    assert np.median(size[far]) > 4 * np.median(size[at_hole])


def test_holes_that_overlap_are_refused():
    with pytest.raises(InputError, match=r"more than the \d+ nodes that edges this close take \(got 300\)"):
        _mesh(np.array([[0.4, 0.5, 0.1, 0.1, 0.0], [0.58, 0.5, 0.1, 0.1, 0.0]]), 300)


@pytest.mark.parametrize(
    ("holes", "num_nodes"),
    [(_hole(0.5, 0.11, 0.1, 0.1), 60), (np.array([[0.4, 0.5, 0.1, 0.1, 0.0], [0.6, 0.5, 0.1, 0.1, 0.0]]), 300)],
)
def test_holes_that_touch_or_nearly_do_are_refused(holes, num_nodes):
    with pytest.raises(InputError, match=rf"room for cells beside them \(found no good mesh of {num_nodes} nodes\)"):
        _mesh(holes, num_nodes)


# ---------------------------------------------------------------------------------------------------------------------
# the solver


def test_patch_test_of_uniform_tension():
    points, triangles, on = _mesh(NO_HOLES, 150)
    u, von_mises = solve_plate(points, triangles, on, NO_HOLES)
    exact = TRACTION / YOUNG * points * [1, -POISSON]
    assert np.abs(u - exact).max() < 1e-11 * np.abs(exact).max()
    assert np.abs(von_mises / TRACTION - 1).max() < 1e-11


@pytest.mark.parametrize("radius", [0.02, 0.03])
def test_stress_concentration_of_a_small_hole_is_that_of_kirsch(radius):
    hole = _hole(0.5, 0.5, radius, radius)
    points, triangles, on = _mesh(hole, 4000)
    _, von_mises = solve_plate(points, triangles, on, hole)
    width = 2 * radius
    # Kirsch: 3 in an infinite plate. Heywood's formula for a strip of width 1: 2 + (1 - d)^3 on the net section.
    factor = (2 + (1 - width) ** 3) / (1 - width)
    assert von_mises.max() / TRACTION == pytest.approx(factor, rel=0.01)
    assert von_mises.max() / TRACTION == pytest.approx(3, rel=0.02)
    top = points[von_mises.argmax()]
    assert np.abs(top - 0.5) == pytest.approx([0, radius], abs=0.1 * radius)
    # On the flanks it is pressed as hard as the plate is pulled, all along the edge the hoop is 1 - 2 cos 2t.
    angle = np.arctan2(*(points[on == 0] - 0.5).T[::-1])
    assert von_mises[on == 0] / TRACTION == pytest.approx(np.abs(1 - 2 * np.cos(2 * angle)), abs=0.06)


def test_stress_concentration_of_an_ellipse_is_that_of_inglis():
    hole = _hole(0.5, 0.5, 0.03, 0.015, np.pi / 2)  # long axis across the tension
    points, triangles, on = _mesh(hole, 4000)
    _, von_mises = solve_plate(points, triangles, on, hole)
    assert von_mises.max() / TRACTION == pytest.approx(1 + 2 * 0.03 / 0.015, rel=0.02)


def test_convergence_under_refinement():
    holes = _hole(0.45, 0.55, 0.15, 0.1, 1.0)
    points, triangles, on = _mesh(holes, 10000, seed=5)
    u, von_mises = solve_plate(points, triangles, on, holes)
    reference = LinearNDInterpolator(points, np.column_stack([u, von_mises]))
    errors = []
    for num_nodes in (200, 800, 3200):
        points, triangles, on = _mesh(holes, num_nodes)
        u, von_mises = solve_plate(points, triangles, on, holes)
        exact = reference(points[on < 0])
        off = np.column_stack([u, von_mises])[on < 0] - exact
        errors.append([np.linalg.norm(off[:, c]) / np.linalg.norm(exact[:, c]) for c in (slice(0, 2), 2)])
    (u200, s200), (u800, s800), (u3200, s3200) = errors
    assert u200 / u800 > 6  # third order; the reference's own interpolation limits what can be seen beyond
    assert u3200 < u800 < 2e-4
    assert s200 / s800 > 2.7  # second order
    assert s800 / s3200 > 2.7
    assert s800 < 0.01


def test_the_solution_does_not_depend_on_node_order():
    holes = _hole(0.3, 0.6, 0.12, 0.08, 0.5)
    points, triangles, on = _mesh(holes, 300)
    order = np.random.default_rng(0).permutation(300)
    place = np.argsort(order)
    u, von_mises = solve_plate(points, triangles, on, holes)
    u2, von_mises2 = solve_plate(points[order], place[triangles], on[order], holes)
    assert np.abs(u2 - u[order]).max() < 1e-10 * np.abs(u).max()
    assert np.abs(von_mises2 - von_mises[order]).max() < 1e-9 * von_mises.max()


# ---------------------------------------------------------------------------------------------------------------------
# the data set


@pytest.fixture(scope="module")
def plates(tmp_path_factory):
    return PlateWithHoles(tmp_path_factory.mktemp("plates"), num_samples=6)


def test_items(plates):
    assert plates.splits == {"train": [0, 1, 2, 3, 4], "test": [5]}
    assert len({mesh.num_nodes for mesh in plates}) == 6
    for mesh in plates:
        assert mesh.validate()
        assert 800 <= mesh.num_nodes <= 1600
        assert mesh.dim == 2
        x, y = mesh.points[:, :2].T
        data = mesh.point_data
        assert torch.equal(data["left"], (x == 0).float())
        assert torch.equal(data["right"], (x == 1).float())
        assert torch.equal(data["distance"] == 0, data["hole"] == 1)
        scalars = [data[k].float() for k in ("left", "right", "hole", "distance")]
        columns = [mesh.pos, torch.stack(scalars, 1), data["to_hole"][:, :2].float()]
        assert torch.equal(mesh.x, torch.cat(columns, 1))
        assert torch.equal(mesh.y, torch.cat([data["displacement"][:, :2], data["von_mises"][:, None]], 1).float())
        assert float(data["displacement"][x == 0, 0].abs().max()) == 0
        assert float(data["displacement"][(x == 0) & (y == 0), 1]) == 0
        assert torch.equal(mesh.field_data["holes"], torch.from_numpy(make_plate(0, int(mesh.name[-4:]))["holes"]))
        assert float(data["displacement"][:, 0].max()) > TRACTION / YOUNG  # holes make it softer
        assert mesh.measure.sum() == pytest.approx(1 - _hole_area(mesh), rel=1e-5)
    targets = [(f.name, f.components, f.unit) for f in plates.spec.targets]
    assert targets == [("displacement", 2, "m"), ("von_mises", 1, "Pa")]


def _hole_area(mesh):
    edge_of = mesh.point_data["hole"] == 1
    triangles = mesh.cell_index.view(-1, 3)
    a, b = (mesh.points[triangles[:, i]] - mesh.points[triangles[:, 0]] for i in (1, 2))
    assert edge_of.any()
    return 1 - float((a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]).sum()) / 2


def test_distance_is_that_to_the_nearest_hole(plates):
    plate = make_plate(0, 0)
    edges = np.concatenate([_edge(hole, 4000) for hole in plate["holes"]])
    nearest, _ = cKDTree(edges).query(plate["points"])
    assert np.abs(plate["distance"] - nearest).max() < 2e-3  # edges of the mesh are chords of the ellipse
    assert np.allclose(plate["distance"], plates[0].point_data["distance"], rtol=1e-12, atol=0)
    assert np.allclose(np.linalg.norm(plate["to_hole"], axis=1), plate["distance"], rtol=1e-12, atol=0)
    reached, _ = cKDTree(edges).query(plate["points"] + plate["to_hole"][:, :2])
    assert reached.max() < 2e-3


def test_a_sample_depends_on_seed_and_number_only(plates, tmp_path):
    fewer = PlateWithHoles(tmp_path, num_samples=2)
    for a, b in zip(fewer, plates, strict=False):
        assert torch.equal(a.points, b.points)
        assert torch.equal(a.y, b.y)
    assert not np.array_equal(make_plate(1, 0)["holes"], make_plate(0, 0)["holes"])


def test_another_seed_or_number_is_another_file(plates, tmp_path):
    for seed in (0, 1):
        PlateWithHoles(tmp_path, num_samples=2, seed=seed)
    assert len(list((tmp_path / "raw").iterdir())) == 2


def test_one_sample_is_refused(tmp_path):
    with pytest.raises(InputError, match="num_samples of at least 2"):
        PlateWithHoles(tmp_path, num_samples=1)
