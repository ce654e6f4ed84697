"""A user's own directory: order, fields, parameters, splits, dimension, and one sentence for every mistake."""

import os
import re

import numpy as np
import pytest
import torch
from torch_geometric.transforms import Compose

from meshop.data import FieldSpec, InputError, MeshData
from meshop.datasets import Folder, mesh_files, read_case
from meshop.io import write_mesh
from meshop.transforms import CellGraph, CellsToEdges, CellsToPoints, NodeMeasure


def _square(n, axes=(0, 1)):
    """n quads in a row in a coordinate plane."""
    x = np.repeat(np.arange(n + 1.0), 2)
    points = np.zeros((2 * n + 2, 3))
    points[:, axes[0]], points[:, axes[1]] = x, np.tile([0, 1], n + 1)
    return MeshData.from_cells(points, [9] * n, [[2 * i, 2 * i + 2, 2 * i + 3, 2 * i + 1] for i in range(n)])


def _solid():
    """A hexahedron, a wedge on top of it and a tetrahedron beside."""
    points = [[x, y, z] for z in (0, 1) for x, y in ((0, 0), (1, 0), (1, 1), (0, 1))]
    points += [[0.5, 0, 1.5], [0.5, 1, 1.5], [1.5, 0.5, 0.5]]
    cells = [[0, 1, 2, 3, 4, 5, 6, 7], [4, 5, 8, 7, 6, 9], [1, 2, 6, 10]]
    return MeshData.from_cells(np.array(points, dtype=float), [12, 13, 10], cells)


def _write(path, mesh, **fields):
    path.parent.mkdir(parents=True, exist_ok=True)
    points = mesh.points
    write_mesh(
        path,
        mesh,
        point_data={"p": points[:, 0], "v": 2 * points, **fields},
        cell_data={"U": np.arange(float(mesh.num_cells)), "q": np.arange(3.0 * mesh.num_cells).reshape(-1, 3)},
    )


@pytest.fixture
def runs(tmp_path):
    """Ten strips of 1 to 10 quads: run_1.vtu to run_10.vtu."""
    for n in range(1, 11):
        _write(tmp_path / f"run_{n}.vtu", _square(n))
    return tmp_path


def _names(dataset):
    return [mesh.name for mesh in dataset]


# ---------------------------------------------------------------------------------------------------------------------
# files


def test_cases_come_in_natural_order_and_other_files_are_left_alone(runs):
    for other in ("notes.txt", "picture.png", ".hidden.vtu"):
        (runs / other).write_text("x")
    before = sorted(runs.iterdir())
    assert _names(Folder(runs, "p")) == [f"run_{n}" for n in range(1, 11)]
    assert sorted(runs.iterdir()) == sorted([*before, runs / "processed"])
    assert [path.name for path in mesh_files(runs)] == [f"run_{n}.vtu" for n in range(1, 11)]


def test_subdirectories_are_searched_where_the_directory_has_no_mesh(tmp_path):
    for n in (10, 9, 2):
        _write(tmp_path / f"run_{n}" / "result.vtu", _square(n))
    (tmp_path / ".git").mkdir()
    _write(tmp_path / ".git" / "old.vtu", _square(1))
    split = {"train": ["run_2/result", "run_9"], "test": ["run_10/result.vtu"]}
    data = Folder(tmp_path, "p", split=split)
    assert _names(data) == ["run_2/result", "run_9/result", "run_10/result"]
    assert data.splits == {"train": [0, 1], "test": [2]}


def test_meshes_of_the_directory_itself_hide_those_below(runs):
    _write(runs / "predictions" / "run_1.vtu", _square(1))
    assert len(Folder(runs, "p")) == 10


def test_a_directory_without_meshes(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(
        InputError, match=rf"Expected mesh files in '{tmp_path}' or its subdirectories \(found none of .vtu,"
    ):
        Folder(tmp_path, "p")
    with pytest.raises(InputError, match="there is no directory 'nowhere'"):
        Folder("nowhere", "p")


def test_two_files_of_a_case_are_refused(runs):
    _write(runs / "run_3.vtk", _square(3))
    with pytest.raises(
        InputError, match=r"one file for the case 'run_3' \(got '.*run_3.vt[uk]' and '.*run_3.vt[uk]'\)"
    ):
        Folder(runs, "p")


def test_a_broken_file_is_named(runs):
    (runs / "run_4.vtu").write_bytes((runs / "run_4.vtu").read_bytes()[:300])
    with pytest.raises(InputError, match=r"run_4\.vtu"):
        Folder(runs, "p")


def test_the_cache_notices_new_changed_and_removed_files(runs):
    assert len(Folder(runs, "p")) == 10
    _write(runs / "run_11.vtu", _square(11))
    assert _names(Folder(runs, "p"))[-1] == "run_11"
    _write(runs / "run_11.vtu", _square(12))
    assert Folder(runs, "p")[-1].num_cells == 12
    (runs / "run_11.vtu").unlink()
    assert len(Folder(runs, "p")) == 10
    assert len(list((runs / "processed").iterdir())) == 1


def test_where_the_directory_cannot_be_written_the_cache_is_the_users(runs, tmp_path_factory, monkeypatch):
    home = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    Folder(runs, "p")
    assert not (runs / "processed").exists()
    [cache] = (home / "meshop" / str(runs)[1:]).iterdir()
    assert cache.suffix == ".pt"


# ---------------------------------------------------------------------------------------------------------------------
# fields


def test_meshes_of_mixed_solids_of_different_sizes(tmp_path):
    for n in range(3):
        mesh = _solid()
        mesh.points = mesh.points * (n + 1)
        _write(tmp_path / f"{n}.vtu", mesh)
    data = Folder(tmp_path, ["p", "v"], units={"p": "Pa"}, split="0.34/0.33/0.33")
    assert [(str(f), f.components, f.unit) for f in data.spec.targets] == [("p:point", 1, "Pa"), ("v:point", 3, "")]
    mesh = data[2]
    assert mesh.validate()
    assert mesh.dim == 3
    assert mesh.x.tolist() == mesh.points.tolist()
    assert torch.equal(mesh.y, torch.cat([mesh.points[:, :1], 2 * mesh.points], 1).float())
    assert mesh.cell_type.tolist() == [12, 13, 10]
    assert float(mesh.measure.sum()) == pytest.approx(27 * (1 + 0.25 + 1 / 12), rel=1e-6)
    assert mesh.cell_data["U"].tolist() == [0, 1, 2]


def test_inputs_and_vectors_in_the_plane(runs):
    mesh = Folder(runs, "v:point", inputs="p")[1]
    assert torch.equal(mesh.x, torch.cat([mesh.pos, mesh.point_data["p"][:, None].float()], 1))
    assert mesh.y.shape == (6, 2)


def test_cell_targets_make_the_cells_the_nodes(runs):
    data = Folder(runs, "U:cell")
    assert isinstance(data.pre_transform, CellGraph)
    assert data[4].x.tolist() == [[i + 0.5, 0.5] for i in range(5)]
    assert data[4].y.tolist() == [[0], [1], [2], [3], [4]]
    assert data[4].edge_index.size(1) == 8
    assert data[4].measure.tolist() == [1] * 5


def test_locations_mix_after_a_move_only(runs):
    with pytest.raises(InputError, match=r"one location \(got p:point, U:cell\); move fields first"):
        Folder(runs, ["p", "U"])
    move = Compose([CellsToPoints(), CellsToEdges(), NodeMeasure()])
    data = Folder(runs, ["p", "U"], pre_transform=move)
    assert [str(f) for f in data.spec.targets] == ["p:point", "U:point"]
    assert data[1].y[:, 1].tolist() == [0, 0, 0.5, 0.5, 1, 1]


def test_a_name_that_means_two_fields(tmp_path):
    for n in (1, 2, 3):
        write_mesh(
            tmp_path / f"{n}.vtu", _square(n), point_data={"p": np.zeros(2 * n + 2)}, cell_data={"p": np.zeros(n)}
        )
    with pytest.raises(InputError, match=r"both a point and a cell field of .*1.vtu; say p:point or p:cell"):
        Folder(tmp_path, "p")
    assert Folder(tmp_path, "p:cell")[2].y.size(0) == 3


def test_the_field_has_to_be_in_every_file(runs):
    with pytest.raises(InputError, match=r"'P' is not in .*run_1.vtu; it has p:point, v:point, U:cell, q:cell"):
        Folder(runs, "P")
    write_mesh(runs / "run_7.vtu", _square(7), point_data={"pressure": np.zeros(16)})
    with pytest.raises(InputError, match=r"'p:point' is not in .*run_7.vtu"):
        Folder(runs, "p")
    _write(runs / "run_7.vtu", _square(7), w=np.full(16, np.nan))
    for n in range(1, 11):
        if n != 7:
            _write(runs / f"run_{n}.vtu", _square(n), w=np.ones(2 * n + 2))
    with pytest.raises(InputError, match=r"'w:point' of .*run_7.vtu holds 16 values that are not finite"):
        Folder(runs, "w")


# ---------------------------------------------------------------------------------------------------------------------
# dimension


@pytest.mark.parametrize("axes", [(0, 1), (0, 2), (1, 2)])
def test_meshes_in_one_plane_are_2d(tmp_path, axes):
    for n in (1, 2, 3):
        _write(tmp_path / f"{n}.vtu", _square(n, axes))
    data = Folder(tmp_path, "v")
    assert data[2].pos.tolist() == [[x, y] for x in range(4) for y in (0, 1)]
    assert data[2].points.shape == (8, 3)
    assert data[2].y.tolist() == [[2 * x, 2 * y] for x in range(4) for y in (0, 1)]
    assert Folder(tmp_path, "p", dim=3)[0].x.size(1) == 3
    assert Folder(tmp_path, "p", dim=2)[0].x.size(1) == 2


def test_meshes_in_different_planes_are_3d(tmp_path):
    for n, axes in enumerate([(0, 1), (0, 2), (0, 1)]):
        _write(tmp_path / f"{n}.vtu", _square(2, axes))
    assert Folder(tmp_path, "p")[0].x.size(1) == 3


def test_a_solid_is_not_2d_on_request(tmp_path):
    _write(tmp_path / "a.vtu", _solid())
    with pytest.raises(InputError, match=r"a.vtu.*coordinate plane.*--dim 3"):
        Folder(tmp_path, "p", dim=2, split={"train": ["a"], "test": []})


# ---------------------------------------------------------------------------------------------------------------------
# parameters


def _table(path, text):
    path.write_text(text)
    return path


def test_parameters_are_joined_by_case(runs):
    rows = [f"run_{n}.vtu,{n / 10},steel,{100 * n}" for n in range(10, 0, -1)]
    _table(runs / "cases.csv", "\n".join(["case,mach,material,load", *rows]) + "\n\n")
    data = Folder(runs, "p")
    assert data.spec.params == ("mach", "load")
    assert torch.cat([mesh.params for mesh in data]).tolist() == [
        [pytest.approx(n / 10), 100 * n] for n in range(1, 11)
    ]
    assert data.spec.in_channels == 4


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_case_column_is_found_and_columns_without_a_name_are_left_out(runs, delimiter):
    rows = [["", "angle", "run"], *([str(n), str(2 * n), f"run_{n}"] for n in range(1, 11))]
    _table(runs / "doe.csv", "\ufeff" + "\n".join(delimiter.join(row) for row in rows))
    data = Folder(runs, "p")
    assert data.spec.params == ("angle",)
    assert [float(mesh.params) for mesh in data] == [2 * n for n in range(1, 11)]


def test_a_directory_names_the_file_that_is_alone_in_it(tmp_path):
    for n in range(3):
        _write(tmp_path / f"case_{n}" / "mesh.vtu", _square(2))
    _table(tmp_path / "doe.csv", "case,a\ncase_2,2\ncase_0,0\ncase_1,1\n")
    assert [float(mesh.params) for mesh in Folder(tmp_path, "p")] == [0, 1, 2]


def test_rows_and_files_that_do_not_match_are_all_named(runs):
    rows = [f"run_{n},{n}" for n in (1, 2, 3, 4, 5, 6, 7, 7, 12)]
    _table(runs / "cases.csv", "\n".join(["case,mach", *rows]))
    with pytest.raises(InputError) as error:
        Folder(runs, "p")
    files = ", ".join(str(runs / f"run_{n}.vtu") for n in (8, 9, 10))
    assert str(error.value) == (
        f"Expected one row in '{runs}/cases.csv' for every mesh file "
        f"(files without a row, 3: {files}; rows without a file of their own, 2: run_7, run_12)"
    )


def test_a_csv_that_names_no_case_is_left_alone_unless_it_is_given(runs):
    other = _table(runs / "metrics.csv", "epoch,loss\n1,0.5\n")
    assert Folder(runs, "p").spec.params == ()
    with pytest.raises(InputError, match=r"a column of '.*metrics.csv' to name the cases, 'run_1' among them"):
        Folder(runs, "p", params=other)
    empty = _table(runs / "empty.csv", "")
    with pytest.raises(InputError, match=r"a column of '.*empty.csv'"):
        Folder(runs, "p", params=empty)
    with pytest.raises(InputError, match=r"there is no file '.*none.csv'"):
        Folder(runs, "p", params=runs / "none.csv")


def test_of_two_csv_one_must_be_named(runs):
    for name, factor in (("a", 1), ("b", 2)):
        _table(runs / f"{name}.csv", "case,x\n" + "".join(f"run_{n},{factor * n}\n" for n in range(1, 11)))
    with pytest.raises(InputError, match=r"Expected one CSV of parameters \(got .*a.csv, .*b.csv\); name it"):
        Folder(runs, "p")
    assert float(Folder(runs, "p", params=runs / "b.csv")[9].params) == 20


def test_values_have_to_be_numbers(runs):
    table = runs / "cases.csv"
    _table(table, "case,mach\n" + "".join(f"run_{n},{n if n != 3 else 'n/a'}\n" for n in range(1, 11)))
    with pytest.raises(InputError, match=r"numbers in column 'mach' of '.*cases.csv' \(got 'n/a' for '.*run_3.vtu'\)"):
        Folder(runs, "p")
    _table(table, "case,mach\n" + "".join(f"run_{n},{n if n != 4 else 'nan'}\n" for n in range(1, 11)))
    with pytest.raises(InputError, match=r"\(got 'nan' for '.*run_4.vtu'\)"):
        Folder(runs, "p")
    _table(table, "case,mach\nrun_1\n")
    with pytest.raises(InputError, match=r"2 columns in every row of '.*cases.csv' \(got 1: run_1\)"):
        Folder(runs, "p")


def test_the_cache_notices_another_table(runs):
    for factor in (1, 2):
        _table(runs / "cases.csv", "case,x\n" + "".join(f"run_{n},{factor * n}.0\n" for n in range(1, 11)))
        os.utime(runs / "cases.csv", ns=(factor, factor))
        assert float(Folder(runs, "p")[9].params) == 10 * factor


# ---------------------------------------------------------------------------------------------------------------------
# splits


def test_fractions_are_drawn_by_seed(runs):
    data = Folder(runs, "p")
    assert {name: len(part) for name, part in data.splits.items()} == {"train": 8, "val": 1, "test": 1}
    assert sorted(i for part in data.splits.values() for i in part) == list(range(10))
    assert Folder(runs, "p", force_reload=True).splits == data.splits
    assert any(Folder(runs, "p", seed=seed).splits != data.splits for seed in (1, 2, 3))
    halves = Folder(runs, "p", split="0.5/0.5").splits
    assert {name: len(part) for name, part in halves.items()} == {"train": 5, "test": 5}
    assert {n: len(p) for n, p in Folder(runs, "p", split="0.8/0.0/0.2").splits.items()} == {
        "train": 8,
        "val": 0,
        "test": 2,
    }


def test_every_fraction_gets_a_case(tmp_path):
    for n in (1, 2):
        _write(tmp_path / f"{n}.vtu", _square(n))
    assert {n: len(p) for n, p in Folder(tmp_path, "p", split="0.9/0.1").splits.items()} == {"train": 1, "test": 1}
    with pytest.raises(InputError, match=r"at least 3 mesh files for the split 0.8/0.1/0.1 \(got 2\)"):
        Folder(tmp_path, "p")


def test_lists_of_cases(runs, tmp_path_factory):
    lists = tmp_path_factory.mktemp("lists")
    (lists / "train.txt").write_text("run_10\nrun_2.vtu\n\n")
    (lists / "test.txt").write_text("run_1")
    assert Folder(runs, "p", split=str(lists)).splits == {"train": [9, 1], "test": [0]}
    (lists / "val.txt").write_text("run_3\n")
    assert Folder(runs, "p", split=str(lists)).splits == {"train": [9, 1], "val": [2], "test": [0]}
    (lists / "val.txt").write_text("run_33\n")
    with pytest.raises(InputError, match=r"one mesh file for the case 'run_33' of the split 'val' \(got 0\)"):
        Folder(runs, "p", split=str(lists))
    (lists / "val.txt").write_text("run_2\n")
    with pytest.raises(InputError, match=r"in one split, once \(got 'run_2' of the split 'val' again\)"):
        Folder(runs, "p", split=str(lists))


@pytest.mark.parametrize("split", ["0.8", "0.8/0.1", "0.5/0.6", "0/0.5/0.5", "1.2/-0.2", "a/b", "nowhere"])
def test_what_is_no_split_is_refused(runs, split):
    message = rf"such as 0.8/0.1/0.1 .* or a directory with train.txt and test.txt \(got '{re.escape(split)}'\)"
    with pytest.raises(InputError, match=message):
        Folder(runs, "p", split=split)


# ---------------------------------------------------------------------------------------------------------------------
# one more case, to predict on


def test_read_case_reads_as_the_folder_did(runs, tmp_path_factory):
    _table(runs / "cases.csv", "case,y,mach\n" + "".join(f"run_{n},0,{n}\n" for n in range(1, 11)))
    data = Folder(runs, "p")
    mesh = read_case(runs / "run_7.vtu", data.spec, runs / "cases.csv")
    assert mesh.name == "run_7"
    packed = data.spec.pack(data.pre_transform(mesh))
    for key in ("x", "y", "params", "pos", "edge_index", "measure"):
        assert torch.equal(packed[key], data[6][key])

    new = tmp_path_factory.mktemp("new") / "wing.vtu"
    _write(new, _square(3))
    table = _table(new.with_name("new.csv"), "case,mach,y\nwing,0.5,1\nother,0.6,2\n")
    assert read_case(new, data.spec, table).params.tolist() == [[1, 0.5]]
    with pytest.raises(InputError, match=r"the parameters y, mach for '.*wing.vtu'; give a CSV"):
        read_case(new, data.spec)
    _table(table, "case,mach\nwing,0.5\n")
    with pytest.raises(InputError, match=r"the parameters y, mach in '.*new.csv' \(without y\)"):
        read_case(new, data.spec, table)
    _table(table, "case,mach,y\nwings,0.5,1\n")
    with pytest.raises(InputError, match=r"a column of '.*new.csv' to name the cases, 'wing' among them"):
        read_case(new, data.spec, table)
    with pytest.raises(InputError, match=r"there is no file '.*none.csv'"):
        read_case(new, data.spec, new.with_name("none.csv"))
    assert "params" not in read_case(new, FieldSpec(data.spec.targets, dim=2))


def test_pieces_are_no_cases_of_their_own(tmp_path):
    _write(tmp_path / "run_0.vtu", _square(2))
    _write(tmp_path / "run_1.vtu", _square(2))
    (tmp_path / "all.vtm").write_text(
        '<VTKFile type="vtkMultiBlockDataSet"><vtkMultiBlockDataSet><DataSet name="a" file="run_0.vtu"/>'
        "</vtkMultiBlockDataSet></VTKFile>"
    )
    assert [path.name for path in mesh_files(tmp_path)] == ["all.vtm", "run_1.vtu"]
