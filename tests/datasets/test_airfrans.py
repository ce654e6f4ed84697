"""AirfRANS, from files in the published layout: an O-grid around a round airfoil, as a slice at z = 0.5."""

import json
import math

import numpy as np
import pytest
import pyvista as pv
import torch

from meshop.data import InputError
from meshop.datasets import AirfRANS

CASES = [f"airFoil2D_SST_{43.597 + i}_{5.932 - 2 * i}_3.551_3.1_1.0_18.252" for i in range(5)]
MANIFEST = {
    "full_train": CASES[:3],
    "full_test": CASES[3:],
    "scarce_train": CASES[1:2],
    "reynolds_train": [CASES[0], CASES[4]],
    "reynolds_test": CASES[1:3],
    "aoa_train": CASES[2:],
    "aoa_test": CASES[:1],
}
AROUND, RINGS = 12, 4


def _write(raw, case, shift=0.0):
    angle = np.arange(AROUND) * 2 * np.pi / AROUND
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    radius = 0.5 * 1.5 ** np.arange(RINGS)
    points = (radius[:, None, None] * circle).reshape(-1, 2)
    points = np.concatenate([points, np.full((len(points), 1), 0.5)], axis=1).astype(np.float32)
    i, j = (n.ravel() for n in np.meshgrid(np.arange(RINGS - 1), np.arange(AROUND), indexing="ij"))
    right = (j + 1) % AROUND
    quads = np.stack([i * AROUND + j, (i + 1) * AROUND + j, (i + 1) * AROUND + right, i * AROUND + right], axis=1)
    order = np.random.default_rng(0).permutation(len(points))  # the airfoil is anywhere among the points
    place = order.argsort()
    grid = pv.UnstructuredGrid({pv.CellType.QUAD: place[quads]}, points[order])
    number = np.arange(len(points), dtype=np.float32)
    wall = np.repeat(radius, AROUND) == 0.5
    velocity = np.stack([number, -number, 1e-9 * number], axis=1) * ~wall[:, None]
    fields = {
        "U": velocity.astype(np.float32),
        "p": number + 100,
        "nut": 1e-5 * number,
        "implicit_distance": -(np.repeat(radius, AROUND) - 0.5).astype(np.float32),
    }
    for name, array in fields.items():
        grid.point_data[name] = array[order].astype(np.float32)
    folder = raw / case
    folder.mkdir(parents=True)
    grid.save(folder / f"{case}_internal.vtu")
    start = np.roll(np.arange(AROUND), 5)
    lines = np.stack([np.full(AROUND, 2), np.arange(AROUND), np.roll(np.arange(AROUND), -1)], axis=1)
    rim = points[:AROUND][start] + np.float32([shift, 0, 0])
    airfoil = pv.PolyData(rim, lines=lines.ravel())
    inwards = np.concatenate([-circle[start], np.zeros((AROUND, 1))], axis=1)
    for name in ("U", "p", "nut"):
        airfoil.point_data[name] = fields[name][:AROUND][start].astype(np.float32)
    airfoil.point_data["Normals"] = inwards.astype(np.float32)
    airfoil.save(folder / f"{case}_aerofoil.vtp")
    return order


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("airfrans")
    for case in CASES:
        _write(root / "raw", case)
    (root / "raw" / "manifest.json").write_text(json.dumps(MANIFEST))
    return root


@pytest.mark.parametrize("task", ["full", "scarce", "reynolds", "aoa"])
def test_splits_are_those_of_the_manifest(root, task):
    foils = AirfRANS(root, task)
    assert [m.name for m in foils.split("train")] == MANIFEST[f"{task}_train"]
    assert [m.name for m in foils.split("test")] == MANIFEST["full_test" if task == "scarce" else f"{task}_test"]
    assert len(foils) == len({*MANIFEST[f"{task}_train"], *(m.name for m in foils.split("test"))})


def test_items(root):
    foils = AirfRANS(root)
    mesh = foils[1]
    data, x = mesh.point_data, mesh.pos
    assert mesh.validate()
    assert (mesh.num_nodes, mesh.num_cells, mesh.dim) == (48, 36, 2)
    radius = x.norm(dim=1)
    wall = radius < 0.5001
    assert wall.sum() == AROUND
    assert torch.equal(data["surface"] == 1, wall)
    torch.testing.assert_close(data["sdf"], radius - 0.5, atol=1e-6, rtol=0)
    torch.testing.assert_close(data["normal"][wall][:, :2], x[wall] / 0.5)  # outwards
    assert not data["normal"][~wall].any()
    number = data["p"] - 100
    torch.testing.assert_close(data["U"], torch.stack([number, -number, 0 * number], dim=1) * ~wall[:, None])
    torch.testing.assert_close(data["nut"], 1e-5 * number)
    angle = math.radians(5.932 - 2)
    expected = 44.597 * torch.tensor([[math.cos(angle), math.sin(angle)]])
    torch.testing.assert_close(mesh.params, expected)
    assert foils.spec.in_channels == 7
    torch.testing.assert_close(mesh.x, torch.cat([x, data["sdf"][:, None], data["normal"][:, :2]], dim=1))
    torch.testing.assert_close(mesh.y, torch.stack([data["U"][:, 0], data["U"][:, 1], data["p"], data["nut"]], dim=1))
    assert mesh.edge_index.size(1) == 2 * (AROUND * RINGS + AROUND * (RINGS - 1))
    assert "measure" not in mesh


def test_fields_are_at_their_points(root):
    order = np.random.default_rng(0).permutation(AROUND * RINGS)
    mesh = AirfRANS(root)[0]
    np.testing.assert_array_equal(mesh.point_data["p"].numpy() - 100, order)


def test_absent_and_damaged_files_are_named(root, tmp_path):
    with pytest.raises(InputError, match=r"AirfRANS needs manifest.json and .*raw'; get Dataset.zip"):
        AirfRANS(tmp_path)
    manifest = tmp_path / "raw" / "manifest.json"
    manifest.write_text('{"full_train": [')
    with pytest.raises(InputError, match=r"manifest.json' is not a JSON file, or is damaged"):
        AirfRANS(tmp_path)
    manifest.write_text(json.dumps({"full_train": CASES, "full_test": []}))
    with pytest.raises(InputError, match=r"Expected aoa_train and aoa_test in '.*' \(it has full_train, full_test\)"):
        AirfRANS(tmp_path, "aoa")
    with pytest.raises(InputError, match=r"one of the tasks full, scarce, reynolds, aoa \(got 'all'\)"):
        AirfRANS(tmp_path, "all")
    foils = AirfRANS(tmp_path)
    with pytest.raises(InputError, match=r"Cannot read '.*_internal.vtu': there is no such file"):
        foils[0]
    case = CASES[1]
    _write(tmp_path / "raw", case, shift=0.01)
    with pytest.raises(
        InputError, match=r"points of '.*aerofoil.vtp' among those of '.*internal.vtu' \(one is 0.01 m away\)"
    ):
        foils[1]
    path = tmp_path / "raw" / case / f"{case}_internal.vtu"
    grid = pv.read(path)
    grid.rename_array("nut", "nuT")
    grid.save(path)
    airfoil = root / "raw" / case / f"{case}_aerofoil.vtp"
    (tmp_path / "raw" / case / airfoil.name).write_bytes(airfoil.read_bytes())
    with pytest.raises(InputError, match=r"point field nut in '.*vtu' \(did you mean 'nuT'\?\) \(it has U, p, .*nuT"):
        foils[1]
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match=r"Cannot read '.*_internal.vtu'"):
        foils[1]


def test_names_without_speed_and_angle_are_an_error(tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "manifest.json").write_text(json.dumps({"full_train": ["naca"], "full_test": []}))
    with pytest.raises(InputError, match=r"names of cases like airFoil2D_SST_43.597_5.932_..., .* \(got 'naca'\)"):
        AirfRANS(tmp_path)[0]
