"""Measures as theorems: volumes add up, do not depend on the frame, and integrate linear functions exactly."""

import itertools

import numpy as np
import pytest
import torch
from pyvista.examples import cells as vtk_cells
from torch import Tensor
from torch_geometric.data import Batch

from meshop.data import InputError, MeshData
from meshop.geometry import POLYHEDRON, cell_centroid, cell_measure, cell_shape, node_measure

Cells = tuple[Tensor, Tensor, Tensor, Tensor | None]
CUBE = [[0, 3, 2, 1], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]]
CORNERS = torch.tensor(
    [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]]
).double()


def mesh(*cells: tuple[int, list[int]], faces: list[list[int]] | None = None) -> Cells:
    """Cells and, for the last of them, its faces."""
    stream = None
    if faces is not None:
        stream = torch.tensor([(len(cells) - 1, f, i) for f, nodes in enumerate(faces) for i in nodes]).t()
    return (
        torch.tensor([code for code, _ in cells], dtype=torch.long),
        torch.tensor([len(nodes) for _, nodes in cells], dtype=torch.long),
        torch.tensor([i for _, nodes in cells for i in nodes], dtype=torch.long),
        stream,
    )


def random_points(*size: int) -> Tensor:
    return torch.rand(*size, dtype=torch.float64)


def motion() -> tuple[Tensor, Tensor]:
    """A rotation and a shift."""
    q, r = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64))
    q = q * r.diagonal().sign()
    return q * q.det(), torch.randn(3, dtype=torch.float64) * 10


def same(a: Tensor, b: Tensor | float) -> None:
    torch.testing.assert_close(a, torch.as_tensor(b, dtype=a.dtype), rtol=1e-10, atol=1e-12, check_device=False)


EXAMPLES = [
    *["Line", "PolyLine", "Triangle", "TriangleStrip", "Polygon", "Pixel", "Quadrilateral", "Tetrahedron", "Voxel"],
    *["Hexahedron", "Wedge", "Pyramid", "PentagonalPrism", "HexagonalPrism"],
]


def example(name: str) -> tuple[Tensor, Cells]:
    grid = getattr(vtk_cells, name)()
    points = torch.from_numpy(np.array(grid.points, dtype=np.float64))
    return points, mesh((int(grid.celltypes[0]), grid.cell_connectivity.tolist()))


@pytest.mark.parametrize("name", EXAMPLES)
def test_linear_cells_measure_what_vtk_says(name: str) -> None:
    points, cells = example(name)
    sizes = getattr(vtk_cells, name)().compute_cell_sizes()
    dim = cell_shape(int(cells[0]), int(cells[1])).dim
    expected = sizes.cell_data[("", "Length", "Area", "Volume")[dim]]
    torch.testing.assert_close(cell_measure(points, *cells), torch.from_numpy(np.array(expected)).double())


def straight(code: int, size: int) -> tuple[Tensor, int, int]:
    """A straight-sided cell in random position: its points, and the code and size of the linear cell of its corners."""
    shape = cell_shape(code, size)
    linear = {21: 3, 35: 3, 22: 5, 34: 5, 23: 9, 28: 9, 30: 9, 24: 10, 25: 12, 29: 12, 33: 12, 26: 13, 31: 13, 32: 13}
    linear |= {27: 14, 37: 14, 36: 7, 69: 5, 70: 9, 71: 10, 72: 12, 73: 13}
    corners = 1 + max(i for f in shape.facets for i in f)
    name = {3: "Line", 5: "Triangle", 9: "Quadrilateral", 10: "Tetrahedron", 12: "Hexahedron", 13: "Wedge"}
    name |= {14: "Pyramid", 7: "Polygon"}
    points = torch.zeros(size, 3, dtype=torch.float64)
    points[:corners] = example(name[linear[code]])[0][:corners]
    points = points @ torch.randn(3, 3, dtype=torch.float64)
    for edge in shape.edges:
        weight = torch.linspace(0, 1, len(edge), dtype=torch.float64).unsqueeze(1)
        points[list(edge)] = (1 - weight) * points[edge[0]] + weight * points[edge[-1]]
    for face in shape.faces:
        points[list(face.inner)] = points[list(face.loop)].mean(0)
    points[list(shape.inner)] = points[:corners].mean(0)
    return points, linear[code], corners


@pytest.mark.parametrize(
    ("code", "size"),
    [
        *[
            (21, 3),
            (35, 4),
            (22, 6),
            (34, 7),
            (23, 8),
            (28, 9),
            (30, 6),
            (24, 10),
            (25, 20),
            (29, 27),
            (33, 24),
            (26, 15),
        ],
        *[(31, 12), (32, 18), (27, 13), (37, 19), (36, 12), (69, 10), (70, 9), (71, 20), (72, 27), (73, 18)],
    ],
)
def test_straight_sided_higher_cells_measure_their_corners_hull(code: int, size: int) -> None:
    points, linear, corners = straight(code, size)
    cells = mesh((code, list(range(size))))
    same(cell_measure(points, *cells), cell_measure(points, *mesh((linear, list(range(corners))))))
    share = node_measure(points, *cells)
    assert bool((share > 0).all())  # no node is left without weight
    same(share.sum(), cell_measure(points, *cells).sum())


def test_a_curved_quadratic_triangle_is_measured_along_its_middle_nodes() -> None:
    # sector of the unit circle cut into n quadratic triangles: the error falls with the square of n
    def error(n: int) -> float:
        angle = torch.linspace(0, torch.pi / 2, 2 * n + 1, dtype=torch.float64)
        rim = torch.stack([angle.cos(), angle.sin()], 1)
        points = torch.cat([torch.zeros(1, 2, dtype=torch.float64), rim, rim / 2])
        half = 2 * n + 1
        cells = [(22, [0, 2 * i + 1, 2 * i + 3, half + 2 * i + 1, 2 * i + 2, half + 2 * i + 3]) for i in range(n)]
        return abs(float(cell_measure(points, *mesh(*cells)).sum()) - torch.pi / 4)

    assert 3.9 < error(4) / error(8) < 4.1


def test_six_tetrahedra_fill_a_skew_hexahedron() -> None:
    # an affine image of the cube, cut along its main diagonal
    points = CORNERS @ torch.randn(3, 3, dtype=torch.float64)
    ways = itertools.permutations(range(3))
    corner = {tuple(c): i for i, c in enumerate(CORNERS.int().tolist())}
    tets = []
    for way in ways:
        at, path = [0, 0, 0], [corner[0, 0, 0]]
        for axis in way:
            at[axis] = 1
            path.append(corner[tuple(at)])
        tets.append((10, path))
    same(cell_measure(points, *mesh(*tets)).sum(), cell_measure(points, *mesh((12, list(range(8))))).sum())


def test_a_warped_hexahedron_has_the_volume_of_the_trilinear_map() -> None:
    # det of the Jacobian is quadratic in each variable: two Gauss points a direction integrate it exactly
    points = CORNERS + 0.3 * (random_points(8, 3) - 0.5)

    def trilinear(r: Tensor) -> Tensor:
        weight = (CORNERS * r + (1 - CORNERS) * (1 - r)).prod(1)
        return weight @ points

    gauss = [0.5 - 0.5 / 3**0.5, 0.5 + 0.5 / 3**0.5]
    volume = sum(
        torch.autograd.functional.jacobian(trilinear, torch.tensor(r, dtype=torch.float64)).det() / 8
        for r in itertools.product(gauss, repeat=3)
    )
    same(cell_measure(points, *mesh((12, list(range(8))))).sum(), float(volume))
    # the same solid as a polyhedron and as a voxel
    same(cell_measure(points, *mesh((POLYHEDRON, list(range(8))), faces=CUBE)).sum(), float(volume))
    same(cell_measure(points, *mesh((11, [0, 1, 3, 2, 4, 5, 7, 6]))).sum(), float(volume))


def pieces_of_a_cube() -> tuple[Tensor, Cells]:
    """The unit cube as a wedge, two pyramids' worth of a half cube, and tetrahedra, all around an inner point."""
    inner = torch.tensor([[0.6, 0.55, 0.45]], dtype=torch.float64)
    points = torch.cat([CORNERS, inner])
    sides = [[0, 3, 2, 1], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5]]
    pyramids = [(14, [*side, 8]) for side in sides]
    tets = [(10, [*corner, 8]) for a, b, c, d in ([2, 3, 7, 6], [3, 0, 4, 7]) for corner in ([a, b, c], [a, c, d])]
    return points, mesh(*pyramids, *tets)


def test_pieces_of_a_cube_add_up_and_integrate_linear_functions() -> None:
    points, cells = pieces_of_a_cube()
    rotation, shift = motion()
    for x in (points, points @ rotation + shift):
        same(cell_measure(x, *cells).sum(), 1.0)
        share = node_measure(x, *cells)
        same(share.sum(), 1.0)
        centre = torch.full((3,), 0.5, dtype=torch.float64)
        same(share @ x, centre if x is points else centre @ rotation + shift)  # the integral of x
        moment = cell_measure(x, *cells) @ cell_centroid(x, *cells)
        same(moment, share @ x)


def test_divergence_theorem_on_a_prism_of_any_shape() -> None:
    # volume = 1/3 sum over faces of x.n A, with the face's own area vector, for a prism on a concave polygon
    ring = torch.tensor([[0, 0], [3, 0], [3, 1], [1, 1], [1, 2], [0, 2]], dtype=torch.float64)  # an L of area 4
    n = len(ring)
    points = torch.cat([torch.nn.functional.pad(ring, (0, 1), value=z) for z in (0.0, 2.5)])
    sides = [[i, (i + 1) % n, n + (i + 1) % n, n + i] for i in range(n)]
    faces = [list(range(n))[::-1], list(range(n, 2 * n)), *sides]
    cells = mesh((POLYHEDRON, list(range(2 * n))), faces=faces)
    rotation, shift = motion()
    for x in (points, points @ rotation + shift, points @ torch.diag(torch.tensor([1.0, 1, -1]).double())):
        by_faces = 0.0
        for face in faces:
            a, b = x[face], x[[*face[1:], face[0]]]
            by_faces += float(torch.linalg.cross(a, b).sum(0) @ x[face[0]]) / 6
        same(cell_measure(x, *cells), [abs(by_faces)])
        same(cell_measure(x, *cells), [10.0])
        share = node_measure(x, *cells)
        assert bool((share > 0).all())
        same(share.sum(), 10.0)


def test_polygons_have_the_area_of_the_shoelace_formula() -> None:
    star = torch.tensor([[0, 0], [4, 1], [1, 1.5], [3, 4], [0.5, 2], [-2, 3]], dtype=torch.float64)
    x, y = star.unbind(1)
    shoelace = float((x * y.roll(-1) - x.roll(-1) * y).sum()) / 2
    cells = mesh((7, list(range(6))))
    rotation, shift = motion()
    for points in (star, torch.nn.functional.pad(star, (0, 1)) @ rotation + shift, star.flip(0)):
        same(cell_measure(points, *cells), [abs(shoelace)])
        share = node_measure(points, *cells)
        assert bool((share >= 0).all())
        same(share.sum(), abs(shoelace))


def test_a_quad_that_is_not_planar_is_four_triangles() -> None:
    points = random_points(4, 3)
    middle = points.mean(0, keepdim=True)
    fan = mesh(*((5, [i, (i + 1) % 4, 4]) for i in range(4)))
    same(cell_measure(points, *mesh((9, [0, 1, 2, 3]))), [float(cell_measure(torch.cat([points, middle]), *fan).sum())])


ALL = [*EXAMPLES, "QuadraticTetrahedron", "BiQuadraticQuadrilateral", "TriQuadraticHexahedron", "QuadraticPolygon"]


@pytest.mark.parametrize("name", ALL)
def test_measures_do_not_depend_on_the_frame_and_scale_with_the_dimension(name: str) -> None:
    points, cells = example(name)
    rotation, shift = motion()
    dim = cell_shape(int(cells[0]), int(cells[1])).dim
    for of in (cell_measure, node_measure):
        torch.testing.assert_close(of(points @ rotation + shift, *cells), of(points, *cells))
        torch.testing.assert_close(of(points * torch.tensor([-1.0, 1, 1]), *cells), of(points, *cells))
        torch.testing.assert_close(of(1e-3 * points, *cells) * 1e3**dim, of(points, *cells))
    torch.testing.assert_close(
        cell_centroid(points @ rotation + shift, *cells), cell_centroid(points, *cells) @ rotation + shift
    )


@pytest.mark.parametrize("name", ALL)
def test_nodes_share_their_cells_and_nothing_is_lost(name: str) -> None:
    points, cells = example(name)
    points = points + 0.02 * random_points(*points.shape)
    share = node_measure(points, *cells)
    same(share.sum(), cell_measure(points, *cells).sum())
    same(share @ points, cell_measure(points, *cells) @ cell_centroid(points, *cells))
    single = node_measure(points.float(), *cells)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single, share.float())


def test_triangles_and_tetrahedra_share_equally() -> None:
    points = random_points(4, 3)
    for code, n in ((3, 2), (5, 3), (10, 4)):
        cells = mesh((code, list(range(n))))
        same(node_measure(points[:n], *cells), (cell_measure(points, *cells) / n).expand(n))


def test_lines_and_vertices_that_ride_along_contribute_nothing() -> None:
    points = torch.tensor([[0.0, 0], [1, 0], [1, 1], [0, 1], [9, 9]], dtype=torch.float64)
    surface = mesh((5, [0, 1, 2]), (5, [0, 2, 3]))
    everything = mesh((1, [4]), (3, [0, 1]), (5, [0, 1, 2]), (4, [1, 2, 4]), (5, [0, 2, 3]), (0, []))
    same(node_measure(points, *everything), node_measure(points, *surface))
    assert float(node_measure(points, *everything)[4]) == 0
    same(cell_measure(points, *everything), [1.0, 1.0, 0.5, 1.0 + 8 * 2**0.5, 0.5, 0.0])


def test_points_without_cells_and_vertices_count_one_each() -> None:
    points = random_points(3, 3)
    same(node_measure(points, *mesh()), [1.0, 1.0, 1.0])
    same(node_measure(points, *mesh((1, [1]), (2, [0, 2]))), [1.0, 1.0, 1.0])
    same(cell_measure(points, *mesh((1, [1]), (2, [0, 2]))), [1.0, 2.0])


def test_a_batch_of_meshes_of_different_dimension() -> None:
    parts = [
        MeshData.from_cells(random_points(4, 3), [10, 5], [[0, 1, 2, 3], [0, 1, 2]]),
        MeshData.from_cells(random_points(3, 3), [5, 3], [[0, 1, 2], [0, 1]]),
        MeshData.from_cells(random_points(2, 3), [], []),
    ]
    batch = Batch.from_data_list(parts)
    keys = ("points", "cell_type", "cell_size", "cell_index", "polyhedra")
    together = node_measure(*(batch[k] for k in keys), batch.batch)
    same(together, torch.cat([node_measure(*(d[k] for k in keys)) for d in parts]))


def test_polyhedra_whose_faces_are_not_oriented_alike_are_taken_for_star_shaped() -> None:
    rotation, shift = motion()
    points = CORNERS @ rotation + shift
    for turned in ([0], [0, 1], [2, 5], list(range(6))):
        faces = [face[::-1] if i in turned else face for i, face in enumerate(CUBE)]
        cells = mesh((POLYHEDRON, list(range(8))), faces=faces)
        same(cell_measure(points, *cells), [1.0])
        same(node_measure(points, *cells), [0.125] * 8)


def test_a_cell_that_is_not_star_shaped_shares_equally() -> None:
    # a U of three unit squares' area whose mean lies in its opening
    u = torch.tensor([[0, 0], [9, 0], [9, 9], [8, 9], [8, 1], [1, 1], [1, 9], [0, 9]], dtype=torch.float64)
    same(node_measure(u, *mesh((7, list(range(8))))), [25 / 8] * 8)
    n = len(u)
    points = torch.cat([torch.nn.functional.pad(u, (0, 1), value=z) for z in (0.0, 2.0)])
    sides = [[i, (i + 1) % n, n + (i + 1) % n, n + i] for i in range(n)]
    faces = [list(range(n))[::-1], list(range(n, 2 * n)), *sides]
    same(node_measure(points, *mesh((POLYHEDRON, list(range(2 * n))), faces=faces)), [50 / 16] * 16)


def test_centroids() -> None:
    half = torch.tensor([[0.0, 0], [2, 0], [1, 1], [0, 1]], dtype=torch.float64)  # a trapezium, not its nodes' mean
    same(cell_centroid(half, *mesh((9, [0, 1, 2, 3]))), [[7 / 9, 4 / 9]])
    flat = torch.tensor([[0.0, 0], [1, 0], [2, 0]], dtype=torch.float64)  # of no area
    same(cell_centroid(flat, *mesh((5, [0, 1, 2]), (0, []))), [[1.0, 0.0], [0.0, 0.0]])
    cells = mesh((1, [0]), (POLYHEDRON, list(range(8))), faces=CUBE)
    same(cell_centroid(CORNERS, *cells), [[0.0, 0.0, 0.0], [0.5, 0.5, 0.5]])


def test_far_from_the_origin() -> None:
    points, cells = pieces_of_a_cube()
    torch.testing.assert_close(
        node_measure(1e-3 * points + 5e5, *cells), 1e-9 * node_measure(points, *cells), rtol=1e-5, atol=0
    )


def test_unknown_cells_are_refused() -> None:
    with pytest.raises(InputError, match="got VTK cell type 41"):
        cell_measure(CORNERS, *mesh((41, [0, 1, 2, 3])))
