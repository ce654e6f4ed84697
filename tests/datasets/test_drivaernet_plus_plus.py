"""DrivAerNet++, from files in the published layout: lists of designs and surfaces in legacy VTK."""

import numpy as np
import pytest
import pyvista as pv
import torch

from meshop.data import InputError
from meshop.datasets import DrivAerNetPlusPlus

LISTS = {
    "train": ["F_S_WWS_WM_219", "N_S_WW_WM_231", "E_S_WWC_WM_031"],
    "val": ["E_S_WW_WM_107"],
    "test": ["F_D_WM_WW_0647", "F_D_WM_WW_2508"],
}


def _car(number, location="point"):
    car = pv.Cube(x_length=4 + number, y_length=2, z_length=1).clean()
    count = car.n_points if location == "point" else car.n_cells
    arrays = car.point_data if location == "point" else car.cell_data
    arrays["p"] = np.float32(100 * number - 10 * np.arange(count))
    return car


def write(root):
    raw = root / "raw"
    (raw / "PressureVTK" / "F_D_WM_WW").mkdir(parents=True)
    for part, designs in LISTS.items():
        (raw / f"{part}_design_ids.txt").write_text("\n".join(designs) + "\n")
    for number, design in enumerate([d for part in LISTS.values() for d in part]):
        folder = raw / "PressureVTK" / ("F_D_WM_WW" if design.startswith("F_D") else "")
        if design != "N_S_WW_WM_231":  # not fetched
            _car(number).save(folder / f"{design}.vtk", binary=number % 2 == 0)
    _car(9).save(raw / "PressureVTK" / "in_no_list.vtk")
    return root


@pytest.fixture
def root(tmp_path):
    return write(tmp_path)


def test_splits_are_the_designs_of_the_lists_that_are_there(root):
    cars = DrivAerNetPlusPlus(root)
    assert {part: [m.name for m in cars.split(part)] for part in LISTS} == {
        "train": ["F_S_WWS_WM_219", "E_S_WWC_WM_031"],
        "val": ["E_S_WW_WM_107"],
        "test": ["F_D_WM_WW_0647", "F_D_WM_WW_2508"],
    }


def test_items(root):
    cars = DrivAerNetPlusPlus(root)
    mesh = cars.split("test")[1]
    assert mesh.validate()
    assert (mesh.num_nodes, mesh.num_cells, mesh.edge_index.size(1)) == (8, 6, 24)
    assert [str(f) for f in cars.spec.targets] == ["p:point"]
    assert cars.spec.targets[0].unit == "m2/s2"
    torch.testing.assert_close(mesh.y[:, 0], 500 - 10 * torch.arange(8.0))
    torch.testing.assert_close(mesh.x, mesh.pos)
    assert mesh.pos[:, 0].max() == 4.5


def test_pressure_may_live_on_cells(root):
    for number, design in enumerate([d for part in LISTS.values() for d in part]):
        for path in (root / "raw").rglob(f"{design}.vtk"):
            _car(number, "cell").save(path)
    cars = DrivAerNetPlusPlus(root)
    assert [str(f) for f in cars.spec.targets] == ["p:cell"]
    mesh = cars.split("val")[0]
    torch.testing.assert_close(mesh.y[:, 0], 300 - 10 * torch.arange(6.0))
    assert mesh.edge_index.size(1) == 24  # every side of the box has four neighbours


def test_absent_and_damaged_files_are_named(root, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(InputError, match=r"needs train_design_ids.txt, .*raw'; get the lists from https://github.com"):
        DrivAerNetPlusPlus(empty)
    for part in LISTS:
        (empty / "raw" / f"{part}_design_ids.txt").write_text("F_S_WWS_WM_219\n")
    with pytest.raises(InputError, match=r"the files DESIGN.vtk .* in '.*raw' \(got no case\); get the lists"):
        DrivAerNetPlusPlus(empty)
    path = next((root / "raw").rglob("E_S_WW_WM_107.vtk"))
    path.write_bytes(path.read_bytes()[:120])
    with pytest.raises(InputError, match=r"Cannot read '.*E_S_WW_WM_107.vtk'"):
        DrivAerNetPlusPlus(root).split("val")[0]
    first = next((root / "raw").rglob("F_S_WWS_WM_219.vtk"))
    car = _car(0)
    car.rename_array("p", "pressure")
    car.save(first)
    with pytest.raises(InputError, match=r"Field 'p' is not in .*F_S_WWS_WM_219.vtk; it has pressure:point"):
        DrivAerNetPlusPlus(root)
