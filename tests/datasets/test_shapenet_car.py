"""ShapeNet-Car, from files in the published layout: a cube of quads in a block of hexahedra."""

import itertools

import numpy as np
import pytest
import pyvista as pv
import torch

from meshop.data import InputError
from meshop.datasets import ShapeNetCar
from meshop.datasets.shapenet_car import _normals
from meshop.io import from_pyvista, read_mesh


def _legacy(path, points, cells, code, field):
    """Legacy VTK, in text, as the published files are."""
    size = cells.shape[1]
    lines = ["# vtk DataFile Version 3.0", "vtk output", "ASCII", "DATASET UNSTRUCTURED_GRID"]
    lines += [f"POINTS {len(points)} float", *(" ".join(map(str, p)) for p in points)]
    lines += [f"CELLS {len(cells)} {len(cells) * (size + 1)}", *(f"{size} " + " ".join(map(str, c)) for c in cells)]
    lines += [f"CELL_TYPES {len(cells)}", *[str(code)] * len(cells), f"POINT_DATA {len(points)}", field]
    path.write_text("\n".join(lines) + "\n")


def _volume():
    """26 hexahedra around the unit cube; point (i, j, k) of 4 x 4 x 4 at (i, j, k) - 1."""
    points = np.array(list(itertools.product(range(4), repeat=3)), dtype=np.float32) - 1
    number = np.arange(64).reshape(4, 4, 4)
    cells = []
    for i, j, k in itertools.product(range(3), repeat=3):
        if (i, j, k) != (1, 1, 1):
            n = number[i : i + 2, j : j + 2, k : k + 2]
            cells.append(
                [n[0, 0, 0], n[1, 0, 0], n[1, 1, 0], n[0, 1, 0], n[0, 0, 1], n[1, 0, 1], n[1, 1, 1], n[0, 1, 1]]
            )
    return points, np.array(cells)


def _surface():
    """Four quads a face of the unit cube, and a point of no quad at its centre."""
    box = pv.Box((0, 1, 0, 1, 0, 1), level=1, quads=True).clean()
    points = np.concatenate([np.asarray(box.points, dtype=np.float32), [[0.5, 0.5, 0.5]]]).astype(np.float32)
    quads = box.faces.reshape(-1, 5)[:, 1:].copy()
    quads[::2] = quads[::2, ::-1]  # of no common orientation
    return points, quads


def _velocity(x):
    return np.stack([x[:, 0] + 10 * x[:, 1] + 100 * x[:, 2], -x[:, 0], x[:, 1] * x[:, 2]], axis=1)


def _write(case, scale=1.0):
    case.mkdir(parents=True)
    points, cells = _volume()
    vectors = "VECTORS point_vectors float\n" + "\n".join(" ".join(map(str, v)) for v in scale * _velocity(points))
    _legacy(case / "hexvelo_smpl.vtk", points, cells, 12, vectors)
    points, cells = _surface()
    scalars = "SCALARS point_scalars float\nLOOKUP_TABLE default\n" + "\n".join(
        str(scale * (7.0 * i - 40)) for i in range(len(points))
    )
    _legacy(case / "quadpress_smpl.vtk", points, cells, 9, scalars)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("cars")
    for fold in range(9):
        for i in range(2 if fold == 0 else 1):
            _write(root / "raw" / f"param{fold}" / f"1a0bc9ab{fold}{i}", scale=1 + fold + 0.5 * i)
    (root / "raw" / "param0" / "notes.txt").write_text("no car")
    return root


def test_folds(root):
    cars = ShapeNetCar(root)
    assert [cars.cases[i] for i in cars.splits["test"]] == ["param0/1a0bc9ab00", "param0/1a0bc9ab01"]
    assert [cars.cases[i] for i in cars.splits["train"]] == [f"param{i}/1a0bc9ab{i}0" for i in range(1, 9)]
    assert len(cars) == 10
    assert len(cars.split("test")) == 2
    assert cars.split("train")[0].name == "param1/1a0bc9ab10"
    other = ShapeNetCar(root, test_fold=3)
    assert [other[i].name for i in other.splits["test"]] == ["param3/1a0bc9ab30"]
    assert len(other.split("train")) == 9


def test_nodes_are_those_off_the_surface_and_then_the_surface(root):
    mesh = ShapeNetCar(root).split("test")[1]
    volume, cells = _volume()
    surface, quads = _surface()
    inside = ((volume >= 0) & (volume <= 1)).all(1)
    assert inside.sum() == 8
    torch.testing.assert_close(mesh.points, torch.from_numpy(np.concatenate([volume[~inside], surface])))
    assert (mesh.num_nodes, mesh.num_cells) == (56 + 27, 26 + 24)
    assert mesh.validate()
    # every cell has its own corners still
    corners = mesh.points[mesh.cell_index[: 26 * 8]].view(26, 8, 3)
    torch.testing.assert_close(corners, torch.from_numpy(volume[cells]))
    corners = mesh.points[mesh.cell_index[26 * 8 :]].view(24, 4, 3)
    torch.testing.assert_close(corners, torch.from_numpy(surface[quads]))
    # the corners of the car are nodes of both: one piece, and the stray point
    import scipy.sparse.csgraph as csgraph
    from torch_geometric.utils import to_scipy_sparse_matrix

    count, _ = csgraph.connected_components(to_scipy_sparse_matrix(mesh.edge_index, num_nodes=83))
    assert count == 2


def test_features_and_targets(root):
    cars = ShapeNetCar(root)
    mesh = cars.split("test")[1]  # scale 1.5
    data, x = mesh.point_data, mesh.points
    on = data["surface"] == 1
    assert on.tolist() == [False] * 56 + [True] * 27
    nearest = (x[:56] - x[:56].clamp(0, 1)).norm(dim=1)  # every nearest point of the cube is a point of the file here
    torch.testing.assert_close(data["sdf"][:56], nearest)
    assert not data["sdf"][56:].any()
    away = x[:56] - x[:56].clamp(0, 1)
    torch.testing.assert_close(data["normal"][:56], away / away.norm(dim=1, keepdim=True))
    torch.testing.assert_close(data["velocity"][:56], 1.5 * torch.from_numpy(_velocity(volume := x[:56].numpy())))
    corner = ((x == 0) | (x == 1)).all(1)
    assert corner.sum() == 8
    torch.testing.assert_close(data["velocity"][corner], 1.5 * torch.from_numpy(_velocity(x[corner].numpy())))
    assert not data["velocity"][on & ~corner].any()
    torch.testing.assert_close(data["p"][56:], 1.5 * (7 * torch.arange(27.0) - 40))
    assert not data["p"][:56].any()
    assert len(volume) == 56
    assert mesh.x.shape == (83, cars.spec.in_channels) == (83, 7)
    torch.testing.assert_close(mesh.x, torch.cat([x, data["sdf"][:, None], data["normal"]], dim=1))
    torch.testing.assert_close(mesh.y, torch.cat([data["velocity"], data["p"][:, None]], dim=1))
    assert "measure" not in mesh


def test_normals_on_the_surface_point_outwards(root):
    mesh = ShapeNetCar(root)[0]
    normal, x = mesh.point_data["normal"][56:-1], mesh.points[56:-1] - 0.5
    side = x * (x.abs() == 0.5)  # the sum of the normals of the faces that meet there
    torch.testing.assert_close(normal, side / side.norm(dim=1, keepdim=True), atol=1e-6, rtol=0)
    assert not mesh.point_data["normal"][-1].any()  # of no quad
    sphere = pv.Sphere(radius=2, theta_resolution=16, phi_resolution=16)
    torch.testing.assert_close(
        _normals(from_pyvista(sphere)), torch.from_numpy(np.array(sphere.points)) / 2, atol=0.1, rtol=0
    )


def test_points_that_the_volume_has_twice_stay(root, tmp_path):
    for fold in range(9):
        _write(tmp_path / "raw" / f"param{fold}" / "car")
    points, cells = _volume()
    points = np.concatenate([points, points[:1]])
    vectors = "VECTORS point_vectors float\n" + "\n".join(" ".join(map(str, v)) for v in _velocity(points))
    _legacy(tmp_path / "raw" / "param0" / "car" / "hexvelo_smpl.vtk", points, cells, 12, vectors)
    mesh = ShapeNetCar(tmp_path).split("test")[0]
    assert mesh.num_nodes == 57 + 27
    torch.testing.assert_close(mesh.points[56], mesh.points[0])


def test_absent_files_are_named(tmp_path):
    with pytest.raises(
        InputError, match=r"ShapeNetCar needs the directories param0 to param8 .*raw'; get mlcfd_data.zip"
    ):
        ShapeNetCar(tmp_path)
    for fold in range(9):
        (tmp_path / "raw" / f"param{fold}").mkdir()
    with pytest.raises(InputError, match=r"\(got no case\); get mlcfd_data.zip"):
        ShapeNetCar(tmp_path)
    _write(car := tmp_path / "raw" / "param1" / "car")
    (car / "hexvelo_smpl.vtk").unlink()
    with pytest.raises(InputError, match=r"Cannot read '.*param1/car/hexvelo_smpl.vtk': there is no such file"):
        ShapeNetCar(tmp_path)[0]


def test_damaged_files_and_other_fields_are_named(root, tmp_path):
    for fold in range(9):
        _write(tmp_path / "raw" / f"param{fold}" / "car")
    car = tmp_path / "raw" / "param1" / "car"
    text = (car / "quadpress_smpl.vtk").read_text()
    (car / "quadpress_smpl.vtk").write_text(text[: len(text) // 2])
    cars = ShapeNetCar(tmp_path).split("train")
    with pytest.raises(InputError, match=r"Cannot read '.*param1/car/quadpress_smpl.vtk'"):
        cars[0]
    (car / "quadpress_smpl.vtk").write_text(text.split("POINT_DATA")[0])
    with pytest.raises(InputError, match=r"one scalar at the points of '.*quadpress_smpl.vtk' \(it has no fields\)"):
        cars[0]
    (car / "quadpress_smpl.vtk").write_text(text)
    scalars = "SCALARS point_scalars float\nLOOKUP_TABLE default\n" + "\n".join(["1.0"] * 64)
    _legacy(car / "hexvelo_smpl.vtk", *_volume(), 12, scalars)
    with pytest.raises(InputError, match=r"one vector at the points of '.*vtk' \(it has point_scalars \[64\]\)"):
        cars[0]
    mesh = read_mesh(root / "raw" / "param0" / "1a0bc9ab00" / "hexvelo_smpl.vtk")
    assert list(mesh.point_data) == ["point_vectors"]
    with pytest.raises(InputError, match=r"test_fold from 0 to 8 \(got 9\)"):
        ShapeNetCar(root, test_fold=9)
