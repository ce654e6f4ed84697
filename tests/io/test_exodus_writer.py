"""Series written as Exodus II: what VTK reads back, what an interruption leaves, what is refused."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv
import torch
from conftest import strip
from gallery import GALLERY, same_cells, single
from scipy.io import netcdf_file

from meshop.data import Arrays, InputError, MeshData
from meshop.geometry import cell_name
from meshop.io import SeriesWriter, exodus, read_mesh, read_series, write_series

TIMES = [0.1, 0.1 + 0.2, 1e9 + 0.001]
NAMED = ["Vertex", "Line", "Triangle", "Quadrilateral", "Tetrahedron", "Hexahedron", "Wedge", "Pyramid"]
NAMED += [f"Quadratic{name}" for name in ("Edge", "Triangle", "Quadrilateral", "Tetrahedron", "Hexahedron", "Wedge")]
NAMED += ["QuadraticPyramid", "BiQuadraticQuadrilateral", "TriQuadraticHexahedron", "mixed"]


def write(path: Path, mesh: MeshData, times: list[float] = TIMES) -> None:
    with SeriesWriter(path) as writer:
        for time in times:
            writer.write(mesh, time, {"T": time * mesh.points[:, 0]}, {"k": time * np.arange(mesh.num_cells)})
        assert writer.times == times


def refused(message: str, path: Path, mesh: MeshData, **arrays: Any) -> None:
    with pytest.raises(InputError, match=message) as caught:
        SeriesWriter(path).write(mesh, 0.5, **arrays)
    assert str(caught.value).startswith(f"Cannot write '{path}': ")
    assert "\n" not in str(caught.value)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("name", NAMED)
def test_every_cell_that_exodus_names_comes_back(name: str, tmp_path: Path) -> None:
    mesh = GALLERY[name]()
    write(tmp_path / "a.e", mesh)
    series = read_series(tmp_path / "a.e")
    same_cells(series, mesh)
    assert series.times.tolist() == [TIMES]
    times = torch.tensor(TIMES, dtype=torch.float64)
    assert torch.equal(series.point_data["T"], mesh.points[:, :1] * times)
    assert torch.equal(series.cell_data["k"], torch.arange(mesh.num_cells)[:, None] * times)
    blocks = len(mesh.cell_type.unique_consecutive())
    assert len(series.cell_data) == len(mesh.cell_data) + 1 + (blocks > 1)
    assert len(series.point_data) == len(mesh.point_data) + 1
    for key in ("point_data", "cell_data"):
        for field, array in mesh[key].items():
            assert all(torch.equal(series[key][field][:, t], array.double()) for t in range(3))


def test_named_blocks_come_back(tmp_path: Path) -> None:
    mesh = strip(3, 2)
    mesh.cell_data["block"] = torch.arange(mesh.num_cells) * 3 // mesh.num_cells
    mesh.field_data["blocks"] = np.array(["steel", "air", "glass"])
    with SeriesWriter(tmp_path / "a.e") as writer:
        writer.write(mesh, 0.5, cell_data={"k": np.arange(mesh.num_cells)})
    found = read_mesh(tmp_path / "a.e")
    same_cells(found, mesh)
    assert found.cell_data["block"].tolist() == mesh.cell_data["block"].tolist()
    assert found.field_data["blocks"].tolist() == ["steel", "air", "glass"]
    assert found.cell_data["k"].tolist() == list(range(mesh.num_cells))
    assert pv.read(tmp_path / "a.e")[0].keys() == ["steel", "air", "glass"]


@pytest.mark.parametrize("name", sorted(set(GALLERY) - set(NAMED)))
def test_other_cells_are_refused(name: str, tmp_path: Path) -> None:
    mesh = GALLERY[name]()
    other = {"surface": "polygon", "cloud": ""}.get(name) or (mesh.num_cells and cell_name(int(mesh.cell_type[0])))
    message = f"a {other} cannot be written as Exodus II; write .pvd" if other else "holds cells, and the mesh has none"
    refused(message, tmp_path / "a.e", mesh)


def test_nodes_stand_where_the_manual_has_them(tmp_path: Path) -> None:
    """Of a HEX27: the nodes 13 to 16 on the upright edges, 21 in the middle, 22 to 27 on the sides."""
    mesh = single(29)
    write(tmp_path / "a.e", mesh)
    with netcdf_file(tmp_path / "a.e", mmap=False) as file:
        assert file.variables["connect1"].elem_type == b"HEX27"
        cell = mesh.points[file.variables["connect1"][0] - 1]
    middles = [(1, 5), (2, 6), (3, 7), (4, 8), (5, 6), (6, 7), (7, 8), (8, 5), range(1, 9)]
    middles += [(1, 2, 3, 4), (5, 6, 7, 8), (1, 4, 5, 8), (2, 3, 6, 7), (1, 2, 5, 6), (3, 4, 7, 8)]
    for node, corners in enumerate(middles, start=13):
        assert torch.allclose(cell[node - 1], cell[[i - 1 for i in corners]].mean(0)), node


def test_names_and_kinds_of_fields(tmp_path: Path) -> None:
    """Scalars are not joined, vectors are, also in a plane; long names stay whole; what is no double becomes one."""
    mesh = strip(2, 3)
    fields: dict[str, Any] = {
        "vx": torch.rand(12),
        "vy": torch.rand(12),
        "vz": torch.rand(12),
        "v": torch.rand(12),
        "r" * 255: [1] * 12,
    }
    fields |= {"sxx": torch.rand(12), "syy": torch.rand(12), "plane": torch.rand(12, 2), "w": torch.rand(12, 3)}
    fields |= {
        "half": torch.rand(12).half(),
        "column": torch.rand(12, 1),
        "flag": torch.arange(12) > 3,
        "a b": [2] * 12,
    }
    with SeriesWriter(tmp_path / "a.exo") as writer:
        writer.write(mesh, 0.25, {name: array for name, array in fields.items() if name != "plane"})
        assert set(read_series(tmp_path / "a.exo").point_data) == {*fields, *mesh.point_data} - {"plane"}
    mesh.point_data = Arrays(fields)  # as they are
    write(tmp_path / "b.exo", mesh)
    series = read_series(tmp_path / "b.exo", dim=2)
    assert set(series.point_data) == {*fields, "T"}
    for name, array in Arrays(fields).items():
        assert torch.equal(
            series.point_data[name][:, 1], array.double().squeeze(1) if name == "column" else array.double()
        )
    assert series.pos.tolist() == mesh.pos.tolist()


def test_pyvista_reads_the_frames(tmp_path: Path) -> None:
    mesh = strip(2, 3)
    write(tmp_path / "a.ex2", mesh)
    reader = pv.get_reader(tmp_path / "a.ex2")
    assert reader.time_values == TIMES
    where = list(dict.fromkeys(mesh.cell_index.tolist()))  # its nodes come in the order in which the cells name them
    for time in TIMES:
        reader.set_active_time_value(time)
        [block] = [block for block in reader.read().recursive_iterator(skip_none=True) if block.n_cells]
        assert block.n_cells == 6
        assert block.point_data["T"].tolist() == (time * mesh.points[where, 0]).tolist()
        assert block.point_data["u"].tolist() == mesh.point_data["u"][where].tolist()
        assert block.cell_data["k"].tolist() == [time * i for i in range(6)]


def test_without_fields_the_times_alone_are_a_record(tmp_path: Path) -> None:
    mesh = strip(1, 2)
    mesh.point_data, mesh.cell_data = Arrays(), Arrays()
    with SeriesWriter(tmp_path / "a.e") as writer:
        for time in TIMES:
            writer.write(mesh, time)
    series = read_series(tmp_path / "a.e")
    assert (series.times.tolist(), len(series.point_data), len(series.cell_data)) == ([TIMES], 0, 0)


@pytest.mark.parametrize("there", [0.0, 0.1, 0.9, 1.0])
def test_what_stops_a_run_leaves_the_frames_before(there: float, tmp_path: Path) -> None:
    """Killed with a part of the third frame in the file, or with all of it and the number of frames still two."""
    path, mesh = tmp_path / "a.e", strip(2, 3)
    write(path, mesh, TIMES[:2])
    two = path.read_bytes()
    write(tmp_path / "b.e", mesh)
    three = (tmp_path / "b.e").read_bytes()
    assert two == three[:7] + b"\x02" + three[8 : len(two)]
    path.write_bytes(two + three[len(two) : len(two) + int(there * (len(three) - len(two)))])
    series = read_series(path)
    assert series.times.tolist() == [TIMES[:2]]
    assert torch.equal(series.point_data["T"][:, 1], TIMES[1] * mesh.points[:, 0])


def test_an_error_of_the_disk_leaves_the_frames_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, mesh = tmp_path / "a.e", strip(2, 3)
    writer = SeriesWriter(path)
    writer.write(mesh, TIMES[0])
    whole = exodus._record

    def fail(*args: Any) -> Any:
        yield from whole(*args)[:2]
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(exodus, "_record", fail)
        with pytest.raises(InputError, match=r"Cannot write '.*a.e': No space left on device$"):
            writer.write(mesh, TIMES[1])
    assert read_series(path).times.tolist() == [TIMES[:1]]
    writer.write(mesh, TIMES[2])
    assert read_series(path).times.tolist() == [[TIMES[0], TIMES[2]]]
    assert os.listdir(tmp_path) == ["a.e"]


def test_a_trajectory_comes_back(tmp_path: Path) -> None:
    write(tmp_path / "a.e", GALLERY["mixed"]())
    series = read_series(tmp_path / "a.e")
    write_series(tmp_path / "b.e", series)
    again = read_series(tmp_path / "b.e")
    same_cells(series, again)
    assert series.times.tolist() == again.times.tolist()
    assert series.point_data == again.point_data
    assert series.cell_data == again.cell_data


def test_frames_that_differ_from_the_first_are_refused(tmp_path: Path) -> None:
    mesh = strip(1, 2)
    writer = SeriesWriter(tmp_path / "a.e")
    writer.write(mesh, 0)
    for arrays in ({"new": torch.zeros(6)}, {"new": torch.zeros(6, 3)}):
        with pytest.raises(InputError, match="Expected the point variables of the first frame, load, p, ux, uy, uz"):
            writer.write(mesh, 1, arrays)
    bare = mesh.clone()
    bare.cell_data = Arrays()
    with pytest.raises(InputError, match=r"Expected the cell variables of the first frame, q \(got none\)$"):
        writer.write(bare, 1)
    mesh.points += 1
    with pytest.raises(InputError, match=r"its frames have one mesh, whose nodes do not move; write .pvd instead$"):
        writer.write(mesh, 1)
    assert read_series(tmp_path / "a.e").times.tolist() == [[0]]
    with pytest.raises(InputError, match=r"an Exodus II file cannot be continued; write .pvd instead$"):
        SeriesWriter(tmp_path / "a.e", resume=True)


def test_fields_that_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, mesh = tmp_path / "a.e", strip(1, 2)
    for array, what in ((torch.zeros(6, 3, 3), "9 components"), (np.array(["a"] * 6), "texts")):
        refused(
            rf"scalars and vectors of 2 or 3 numbers \('s' has {what}\); write .pvd$",
            path,
            mesh,
            point_data={"s": array},
        )
    refused("Expected real values in field 's'", path, mesh, point_data={"s": torch.zeros(6, dtype=torch.complex64)})
    refused("round the integers of 's'", path, mesh, cell_data={"s": torch.tensor([2**53 + 1, 0])})
    refused("the vector 'u' has a component 'uy', as another field is called", path, mesh, point_data={"uy": [0] * 6})
    for name in ("température", "a ", "", "n" * 256):
        refused("holds names of up to 255 ASCII letters", path, mesh, point_data={name: [0] * 6})
    runs = MeshData.from_cells(mesh.points, [5, 9] * 501, [[0, 1, 2], [0, 1, 2, 3]] * 501)
    refused("by a block for each run of one type, of which there are 1002, more than 1000", path, runs)
    monkeypatch.setattr(exodus, "_LARGEST", 47)
    refused("netCDF holds 47 bytes a variable, too few for 6 nodes, or for 2 cells of 4 nodes", path, mesh)
