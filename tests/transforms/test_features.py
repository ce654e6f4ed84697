"""Distances, normals and markers against closed forms, on points and cells, and what they refuse."""

import numpy as np
import pytest
import pyvista as pv
import torch
import trimesh

from meshop.checkpoint import build, describe
from meshop.data import InputError, MeshData
from meshop.geometry import cell_centroid
from meshop.io import from_pyvista
from meshop.transforms import BoundaryDistance, Markers, Normals, SignedDistance
from meshop.transforms.markers import marked


def grid(*sizes: int) -> MeshData:
    """A block of cells of side 1."""
    dimensions = [n + 1 for n in sizes] + [1] * (3 - len(sizes))
    return from_pyvista(pv.ImageData(dimensions=dimensions).cast_to_unstructured_grid(), dim=len(sizes))


def to_sides(x: torch.Tensor, *sizes: int) -> torch.Tensor:
    """Distance of coordinates to the sides of a block."""
    x = x[:, : len(sizes)].double()
    return torch.minimum(x, torch.tensor(sizes) - x).amin(1)


@pytest.mark.parametrize("sizes", [(5, 4), (4, 5, 6)])
def test_distance_to_the_sides_of_a_block(sizes: tuple[int, ...]) -> None:
    mesh = grid(*sizes)
    found = BoundaryDistance()(mesh).point_data["boundary_distance"]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), to_sides(mesh.points, *sizes))
    cells = BoundaryDistance(location="cell")(mesh).cell_data["boundary_distance"]
    middle = cell_centroid(mesh.points.double(), mesh.cell_type, mesh.cell_size, mesh.cell_index)
    torch.testing.assert_close(cells.double(), to_sides(middle, *sizes))
    assert "boundary_distance" not in mesh.point_data


def test_distance_is_to_facets_and_not_to_their_nodes() -> None:
    points = [[0.0, 0], [10, 0], [10, 4], [0, 4], [4, 2]]
    mesh = MeshData.from_cells(points, [5] * 4, [[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])
    assert float(BoundaryDistance()(mesh).point_data["boundary_distance"][4]) == pytest.approx(2)


def test_distance_to_a_marker() -> None:
    mesh = grid(5, 4)
    mesh.point_data["left"] = mesh.points[:, 0] == 0
    found = BoundaryDistance("left")(mesh).point_data["left_distance"]
    torch.testing.assert_close(found, mesh.points[:, 0].float())
    mesh.point_data["middle"] = (mesh.points == torch.tensor([2.0, 2, 0])).all(1)  # no facet of the boundary
    found = BoundaryDistance("middle")(mesh).point_data["middle_distance"]
    torch.testing.assert_close(found, (mesh.points - torch.tensor([2.0, 2, 0])).norm(dim=1).float())
    with pytest.raises(InputError, match=r"marked 'lefd' .*\(got none\) \(did you mean 'left'\?\); .* left, middle"):
        BoundaryDistance("lefd")(mesh)


def test_a_closed_surface_has_no_boundary() -> None:
    with pytest.raises(InputError, match=r"a mesh with a boundary .*\(got one that is closed or has no cells\)"):
        BoundaryDistance()(from_pyvista(pv.Sphere()))


def test_normals_of_blocks_point_out_of_them() -> None:
    mesh = grid(3, 3, 3)
    normal = Normals()(mesh).point_data["normal"]
    inside = ((mesh.points > 0) & (mesh.points < 3)).all(1)
    assert bool((normal[inside] == 0).all())
    torch.testing.assert_close(normal[~inside].norm(dim=1), torch.ones(64 - 8))
    face = (mesh.points == torch.tensor([1.0, 0, 2])).all(1)
    assert normal[face].tolist() == [[0, -1, 0]]
    out = mesh.points + 1e-3 * normal
    assert bool(((out < 0) | (out > 3)).any(1)[~inside].all())
    cells = Normals("cell")(mesh).cell_data["normal"]
    assert cells[13].tolist() == [0, 0, 0]
    torch.testing.assert_close(cells[0], torch.full((3,), -(3**-0.5)))


@pytest.mark.parametrize("axes", [(0, 1), (0, 2), (1, 2), (1, 0)])
def test_normals_in_any_plane(axes: tuple[int, int]) -> None:
    angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    points = np.zeros((41, 3))
    points[:40, axes[0]], points[:40, axes[1]] = np.cos(angle), np.sin(angle)
    mesh = MeshData.from_cells(points, [5] * 40, [[40, i, (i + 1) % 40] for i in range(40)])
    mesh.pos = mesh.pos[:, sorted(axes)]
    torch.testing.assert_close(Normals()(mesh).point_data["normal"], torch.from_numpy(points).float())


def test_normals_of_a_surface_are_those_of_its_cells() -> None:
    ball = from_pyvista(pv.Sphere(theta_resolution=60, phi_resolution=60))
    normal = Normals()(ball).point_data["normal"]
    assert float((normal * ball.points / ball.points.norm(dim=1, keepdim=True)).sum(1).min()) > 0.999
    cells = Normals("cell")(ball).cell_data["normal"]
    middle = cell_centroid(ball.points.double(), ball.cell_type, ball.cell_size, ball.cell_index)
    assert float((cells * middle / middle.norm(dim=1, keepdim=True)).sum(1).min()) > 0.999


def test_the_nodes_on_curved_edges_have_normals() -> None:
    points = [[0.0, 0], [2, 0], [0, 2], [1, 0], [1, 1], [0, 1]]
    normal = Normals()(MeshData.from_cells(points, [22], [[0, 1, 2, 3, 4, 5]])).point_data["normal"]
    torch.testing.assert_close(normal[4], torch.tensor([0.5**0.5, 0.5**0.5, 0]))


def test_a_curve_in_space_has_no_normals() -> None:
    curve = from_pyvista(pv.Spline([[0, 0, 0], [1, 1, 0], [2, 0, 1.0]]))
    with pytest.raises(InputError, match=r"surface or a solid .*\(got cells of dimension 1 in 3-D\)"):
        Normals()(curve)


def test_signed_distance_to_a_box(tmp_path) -> None:
    trimesh.creation.box([2, 2, 2]).export(tmp_path / "box.stl")
    mesh = grid(3, 3, 3)
    found = SignedDistance(str(tmp_path / "box.stl"))(mesh).point_data["signed_distance"]
    q = mesh.points.double() - 1  # of |x| <= 1
    torch.testing.assert_close(found.double(), q.clamp_min(0).norm(dim=1) + q.amax(1).clamp_max(0))
    assert float(found[0]) == -1
    cells = SignedDistance(str(tmp_path / "box.stl"), "cell")(mesh).cell_data["signed_distance"]
    assert float(cells[0]) == pytest.approx(-0.5)


def test_the_sign_does_not_depend_on_the_order_of_the_triangles(tmp_path) -> None:
    box = trimesh.creation.box([2, 2, 2])
    box.invert()
    box.export(tmp_path / "box.ply")
    mesh = MeshData.from_cells([[0.0, 0, 0], [3, 0, 0]], [3], [[0, 1]])
    assert SignedDistance(str(tmp_path / "box.ply"))(mesh).point_data["signed_distance"].tolist() == [-1, 2]


def test_each_mesh_has_a_surface_of_its_own(tmp_path) -> None:
    mesh = MeshData.from_cells([[0.0, 0, 0], [3, 0, 0]], [3], [[0, 1]])
    transform = SignedDistance(f"{tmp_path}/{{name}}.stl")
    with pytest.raises(InputError, match="a mesh with a name"):
        transform(mesh)
    for side in (2, 4):
        trimesh.creation.box([side] * 3).export(tmp_path / f"box_{side}.stl")
        mesh.name = f"box_{side}"
        assert float(transform(mesh).point_data["signed_distance"][0]) == -side / 2
    mesh.name = "none"
    with pytest.raises(InputError, match=r"there is no file '.*none.stl'"):
        transform(mesh)


def test_surfaces_that_are_none(tmp_path) -> None:
    mesh = MeshData.from_cells([[0.0, 0, 0], [3, 0, 0]], [3], [[0, 1]])
    box = trimesh.creation.box([2, 2, 2])
    box.update_faces(np.arange(12) > 0)
    box.export(tmp_path / "open.stl")
    with pytest.raises(InputError, match=r"closed surface in '.*open.stl' \(got 11 triangles with open edges\)"):
        SignedDistance(str(tmp_path / "open.stl"))(mesh)
    (tmp_path / "broken.stl").write_bytes(b"solid" + b"\0" * 50)
    with pytest.raises(InputError, match=r"broken.stl"):
        SignedDistance(str(tmp_path / "broken.stl"))(mesh)


def test_a_mask_of_bytes_is_a_marker_and_other_numbers_are_not() -> None:
    mesh = grid(2, 1)
    mesh.point_data["a"] = np.uint8([1, 0, 0, 0, 0, 1])
    mesh.point_data["b"] = np.uint8([1, 0, 0, 0, 0, 2])
    assert Markers(["a"])(mesh).point_data["a"].tolist() == [True, False, False, False, False, True]
    assert Markers(["a", "b"]).absent(mesh) == ["b"]


def test_cells_of_a_marker_of_lines_are_those_beside_them() -> None:
    points = [[0.0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]]
    mesh = MeshData.from_cells(points, [9, 9, 3], [[0, 1, 4, 3], [1, 2, 5, 4], [2, 5]])
    mesh.cell_data["outlet"] = [False, False, True]
    assert marked(mesh, "outlet", "point").tolist() == [False, False, True, False, False, True]
    assert marked(mesh, "outlet", "cell").tolist() == [False, True, True]
    assert marked(mesh, "inlet", "cell") is None


def test_a_cloud_has_markers_and_no_boundary() -> None:
    cloud = MeshData.from_cells(
        [[0.0, 0], [1, 0]], [], [], point_data={"a": [True, False]}, cell_data={"b": np.empty(0, bool)}
    )
    assert marked(cloud, "a", "point").tolist() == [True, False]
    assert marked(cloud, "b", "cell").tolist() == []
    with pytest.raises(InputError, match="has no cells"):
        BoundaryDistance()(cloud)


def test_markers_twice_are_markers_once() -> None:
    mesh = grid(2, 1)
    mesh.point_data["a"] = mesh.points[:, 0] == 0
    once = Markers(["a"])(mesh)
    assert torch.equal(Markers(["a"])(once).point_data["a"], once.point_data["a"])


@pytest.mark.parametrize(
    "transform", [BoundaryDistance("wall", "cell"), Normals("cell"), Markers(["a"], "cell"), SignedDistance("a.stl")]
)
def test_a_checkpoint_describes_them(transform: object) -> None:
    assert repr(build(describe(transform))) == repr(transform)


def test_the_normals_of_a_sheared_cell_are_those_of_its_faces() -> None:
    """Along an edge of a hexahedron the area vectors of its two faces add up, along all of them to nothing."""
    mesh = from_pyvista(pv.examples.cells.Hexahedron())
    shear = torch.tensor([[1.0, 0.2, 0], [0, 1, 0.3], [0.1, 0, 1]]).double()
    mesh.points = mesh.points.double() @ shear
    x = mesh.points
    faces = [(0, 3, 2, 1), (0, 1, 5, 4), (0, 4, 7, 3)]  # outward, at node 0
    area = sum(torch.linalg.cross(x[c] - x[a], x[d] - x[b]) for a, b, c, d in faces)
    normal = Normals()(mesh).point_data["normal"]
    torch.testing.assert_close(normal[0].double(), area / area.norm(), atol=1e-6, rtol=0)
    torch.testing.assert_close(normal[6], -normal[0])
