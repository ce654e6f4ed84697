"""What a user's own directory holds in practice: bad files, tables that do not match, sets that some meshes lack."""

import csv
import logging

import numpy as np
import pytest
import torch
import trimesh
from conftest import strip
from torch_geometric.loader import DataLoader

from meshop.data import Arrays, InputError
from meshop.datasets import Folder, folder
from meshop.io import write_mesh

COUNT, THIRDS = 10, "0.4/0.3/0.3"


@pytest.fixture
def runs(tmp_path):
    """Ten strips of quads: run_0.vtu to run_9.vtu."""
    for i in range(COUNT):
        write_mesh(tmp_path / f"run_{i}.vtu", strip(2 + i % 3, 4, seed=i))
    return tmp_path


def damage(runs):
    """Cut a file short, take a field away, put a NaN into one, and make a vector of one."""
    (runs / "run_1.vtu").write_bytes((runs / "run_1.vtu").read_bytes()[:300])
    without, nan, vector = (strip(2, 4, seed=i) for i in (3, 4, 5))
    del without.point_data["p"]
    nan.point_data["p"][2] = float("nan")
    vector.point_data["p"] = vector.point_data["u"]
    for i, mesh in ((3, without), (4, nan), (5, vector)):
        write_mesh(runs / f"run_{i}.vtu", mesh)
    return ["run_1", "run_3", "run_4", "run_5"]


def names(data):
    return [mesh.name for mesh in data]


def parts(data):
    return {part: [data.names[i] for i in ids] for part, ids in data.splits.items()}


# ---------------------------------------------------------------------------------------------------------------------
# bad files


@pytest.mark.parametrize("lazy", [False, True])
def test_bad_files_are_skipped_with_the_reason(runs, lazy):
    bad = damage(runs)
    data = Folder(runs, "p", on_error="skip", lazy=lazy, split=THIRDS)
    assert names(data) == [f"run_{i}" for i in (0, 2, 6, 7, 8, 9)]
    assert [row[:2] for row in data.skipped] == [[name, str(runs / f"{name}.vtu")] for name in bad]
    for (_, file, reason), part in zip(
        data.skipped, ("Cannot read", "'p:point' is not in", "not finite", "has 3 components, expected 1"), strict=True
    ):
        assert part in reason
        assert file in reason
    with (runs / "processed" / "skipped.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["case", "file", "reason"], *data.skipped]


def test_a_skipped_case_moves_no_other_to_another_part(runs):
    whole = parts(Folder(runs, "p", split=THIRDS))
    bad = damage(runs)
    left = parts(Folder(runs, "p", split=THIRDS, on_error="skip"))
    assert left == {part: [name for name in own if name not in bad] for part, own in whole.items()}


def test_the_cache_knows_what_was_skipped(runs, monkeypatch):
    damage(runs)
    first = Folder(runs, "p", on_error="skip", split=THIRDS)
    with monkeypatch.context() as patch:
        patch.setattr(folder, "read_mesh", None)
        again = Folder(runs, "p", on_error="skip", split=THIRDS)
    assert again.skipped == first.skipped
    assert names(again) == names(first)


def test_a_mended_file_is_back(runs):
    bad = damage(runs)
    Folder(runs, "p", on_error="skip", split=THIRDS)
    write_mesh(runs / "run_1.vtu", strip(2, 4, seed=1))
    assert [row[0] for row in Folder(runs, "p", on_error="skip", split=THIRDS).skipped] == bad[1:]
    for i in (3, 4, 5):
        write_mesh(runs / f"run_{i}.vtu", strip(2, 4, seed=i))
    assert Folder(runs, "p", on_error="skip", split=THIRDS).skipped == []
    assert not (runs / "processed" / "skipped.csv").exists()


def test_without_a_policy_the_error_names_all_bad_files(runs):
    damage(runs)
    with pytest.raises(InputError) as error:
        Folder(runs, "p")
    assert str(error.value).startswith(f"Cannot read '{runs}/run_1.vtu': ")
    assert str(error.value).endswith(
        "; bad cases beside it (3): run_3, run_4, run_5; --on-error skip (on_error) leaves bad cases out"
    )
    assert not list((runs / "processed").glob("*"))


def test_many_bad_files_are_a_sentence_still(runs):
    for i in range(8):
        (runs / f"run_{i}.vtu").write_text("x")
    with pytest.raises(
        InputError, match=r"; bad cases beside it \(7\): run_1, run_2, run_3, run_4, run_5 and 2 more; "
    ):
        Folder(runs, "p")


def test_a_name_that_no_mesh_has_is_an_error_whatever_the_policy(runs):
    with pytest.raises(InputError, match=r"Field 'P' is not in .*run_0.vtu; it has p:point"):
        Folder(runs, "P", on_error="skip")
    assert not (runs / "processed" / "skipped.csv").exists()


def test_the_first_file_may_be_the_bad_one(runs):
    mesh = strip(2, 4)
    del mesh.point_data["p"]
    write_mesh(runs / "run_0.vtu", mesh)
    assert [row[0] for row in Folder(runs, "p", on_error="skip", split=THIRDS).skipped] == ["run_0"]
    with pytest.raises(InputError, match=r"'p:point' is not in .*run_0.vtu"):
        Folder(runs, "p")


def test_nothing_is_left(runs):
    for i in range(COUNT):
        (runs / f"run_{i}.vtu").write_text("x")
    with pytest.raises(InputError, match=rf"cases in '{runs}' that can be used \(got none of 10: Cannot read"):
        Folder(runs, "p", on_error="skip", split=THIRDS)


def test_no_case_of_a_part_is_left(runs):
    damage(runs)
    split = {"train": ["run_0", "run_2"], "val": [], "test": ["run_1", "run_3"]}
    with pytest.raises(InputError, match=r"a case of the split 'test' that can be used \(got none of 2: Cannot read"):
        Folder(runs, "p", split=split, on_error="skip")


def test_what_is_no_policy_is_refused(runs):
    with pytest.raises(InputError, match=r"fail or skip \(got 'ignore'\)"):
        Folder(runs, "p", on_error="ignore")


def test_arrays_that_only_some_meshes_have_are_left_alone(runs):
    mesh = strip(2, 4)
    mesh.point_data["T"], mesh.field_data["note"] = np.ones(mesh.num_points), np.array(["warm"])
    write_mesh(runs / "run_4.vtu", mesh)
    for lazy in (False, True):
        data = Folder(runs, "p", lazy=lazy)
        assert ["T" in mesh.point_data for mesh in data] == [i == 4 for i in range(COUNT)]
        batch = next(iter(DataLoader(data, batch_size=COUNT)))
        assert [("T" in arrays) for arrays in batch.point_data] == [i == 4 for i in range(COUNT)]


# ---------------------------------------------------------------------------------------------------------------------
# tables


def table(path, text):
    path.write_text(text)
    return path


def test_files_without_a_row_are_skipped_and_rows_without_a_file_said(runs, caplog):
    rows = [f"run_{i},{i}" for i in (0, 1, 2, 3, 4, 5, 6, 12)]
    table(runs / "cases.csv", "\n".join(["case,mach", *rows, "run_6,7"]))
    with caplog.at_level(logging.WARNING, "meshop"):
        data = Folder(runs, "p", on_error="skip", split=THIRDS)
    assert caplog.messages == [f"rows of '{runs}/cases.csv' without a mesh file (1): run_12"]
    assert [float(mesh.params) for mesh in data] == [0, 1, 2, 3, 4, 5]
    reasons = {name: reason for name, _, reason in data.skipped}
    assert list(reasons) == ["run_6", "run_7", "run_8", "run_9"]
    assert reasons["run_6"] == f"{runs}/run_6.vtu: it has several rows in '{runs}/cases.csv'"
    assert reasons["run_8"] == f"{runs}/run_8.vtu: it has no row in '{runs}/cases.csv'"


def test_long_lists_are_cut(runs):
    table(runs / "cases.csv", "case,mach\nrun_0,1\n" + "".join(f"other_{i},1\n" for i in range(42)))
    with pytest.raises(InputError) as error:
        Folder(runs, "p")
    assert "(files without a row, 9: " in str(error.value)
    assert "run_5.vtu and 4 more; rows without a file of their own, 42: " in str(error.value)
    assert "other_4 and 37 more)" in str(error.value)


def test_a_case_without_a_number_is_skipped(runs):
    rows = "".join(f"run_{i},{i if i != 3 else 'n/a'}\n" for i in range(COUNT))
    table(runs / "cases.csv", "case,mach\n" + rows)
    data = Folder(runs, "p", on_error="skip", split=THIRDS)
    assert [row[0] for row in data.skipped] == ["run_3"]
    assert "got 'n/a'" in data.skipped[0][2]
    assert data.spec.params == ("mach",)


def test_a_column_says_the_split(runs):
    words = ["train"] * 5 + ["val", "test", "test", "", "train"]
    table(runs / "cases.csv", "case,mach,split\n" + "".join(f"run_{i},{i},{w}\n" for i, w in enumerate(words)))
    data = Folder(runs, "p")
    assert data.splits == {"train": [0, 1, 2, 3, 4, 9], "val": [5], "test": [6, 7]}
    assert data.spec.params == ("mach",)
    assert len(Folder(runs, "p", split="0.5/0.5").splits["train"]) == 5
    words[2] = "valid"
    table(runs / "cases.csv", "case,split\n" + "".join(f"run_{i},{w}\n" for i, w in enumerate(words)))
    with pytest.raises(
        InputError, match=r"train, val or test in the column 'split' .*\(got 'valid' for '.*run_2.vtu'\)"
    ):
        Folder(runs, "p")
    table(runs / "cases.csv", "case,split\n" + "".join(f"run_{i},train\n" for i in range(COUNT)))
    with pytest.raises(InputError, match=r"cases of train and of test in the column 'split'"):
        Folder(runs, "p")


def test_a_column_of_numbers_called_split_is_a_parameter(runs):
    table(runs / "cases.csv", "case,split\n" + "".join(f"run_{i},{i}\n" for i in range(COUNT)))
    data = Folder(runs, "p")
    assert data.spec.params == ("split",)
    assert len(data.splits["train"]) == 8


def test_a_manifest_chooses_the_files(runs, tmp_path_factory):
    table(runs / "list.csv", "path,mach\nrun_3.vtu,3\nrun_1.vtu,1\nrun_7.vtu,7\n")
    data = Folder(runs, "p")
    assert names(data) == ["run_3", "run_1", "run_7"]
    assert [float(mesh.params) for mesh in data] == [3, 1, 7]
    (runs / "list.csv").unlink()

    elsewhere = tmp_path_factory.mktemp("tables")
    rows = [f"{runs}/run_2.vtu,train", "run_5.vtu,test", "run_9.vtu,train"]  # whole, and from the directory on
    other = table(elsewhere / "list.csv", "\n".join(["path,split", *rows]))
    data = Folder(runs, "p", params=other)
    assert names(data) == ["run_2", "run_5", "run_9"]
    assert parts(data) == {"train": ["run_2", "run_9"], "test": ["run_5"]}

    write_mesh(elsewhere / "near.vtu", strip(2, 4))  # from the table on
    table(other, "path,split\nnear.vtu,train\nrun_5.vtu,test\n")
    assert [name.split("/")[-1] for name in names(Folder(runs, "p", params=other))] == ["near", "run_5"]


def test_a_manifest_of_files_that_are_not_there(runs):
    text = "path,split\nrun_3.vtu,train\nrun_33.vtu,train\nrun_7.vtu,test\n"
    table(runs / "list.csv", text)
    with pytest.raises(InputError, match=r"Cannot read '.*run_33.vtu': there is no such file; --on-error skip"):
        Folder(runs, "p")
    assert names(Folder(runs, "p", on_error="skip")) == ["run_3", "run_7"]
    write_mesh(runs / "run_33.vtu", strip(2, 4))
    assert names(Folder(runs, "p", on_error="skip")) == ["run_3", "run_33", "run_7"]
    table(runs / "list.csv", text.replace("33", "3"))
    with pytest.raises(InputError, match=r"every file once in the column 'path' of .* \(got .*run_3.vtu again\)"):
        Folder(runs, "p")


# ---------------------------------------------------------------------------------------------------------------------
# named sets and features


@pytest.fixture
def marked(tmp_path):
    """Six strips of which four have an inlet, which is a set of points, and all a wall."""
    for i in range(6):
        mesh = strip(2 + i % 2, 3, seed=i)
        masks = {"wall": mesh.points[:, 1] == 0}
        if i not in (0, 4):
            masks["inlet"] = mesh.points[:, 0] == 0
        mesh.point_data = Arrays({**mesh.point_data._arrays, **masks})
        write_mesh(tmp_path / f"run_{i}.vtu", mesh)
    return tmp_path


@pytest.mark.parametrize("lazy", [False, True])
def test_a_set_that_a_mesh_lacks_marks_nothing_there(marked, caplog, lazy):
    with caplog.at_level(logging.WARNING, "meshop"):
        data = Folder(marked, "p", ["inlet", "wall"], lazy=lazy)
    assert caplog.messages == ["'inlet' is in 4 of 6 meshes; it marks nothing in the others"]
    assert [str(field) for field in data.spec.inputs] == ["inlet:point", "wall:point"]
    for i, mesh in enumerate(data):
        inlet = (mesh.points[:, 0] == 0) if i not in (0, 4) else torch.zeros(mesh.num_points)
        assert torch.equal(mesh.x[:, 2:], torch.stack([inlet, mesh.points[:, 1] == 0], 1).float())


def test_the_first_mesh_may_lack_another_set_than_the_second(marked):
    mesh = strip(2, 3, seed=1)
    mesh.point_data["inlet"] = mesh.points[:, 0] == 0
    write_mesh(marked / "run_1.vtu", mesh)
    assert [float(mesh.x[:, 3].sum()) > 0 for mesh in Folder(marked, "p", ["inlet", "wall"])] == [True, False] + [
        True
    ] * 4


def test_a_set_that_no_mesh_has_is_an_error(marked):
    with pytest.raises(InputError, match=r"'inlett' is not in .*run_0.vtu.*it has .*; its named sets are wall$"):
        Folder(marked, "p", "inlett", on_error="skip")


def test_a_field_that_is_a_mask_in_some_meshes_only_is_no_set(marked):
    mesh = strip(2, 3, seed=2)
    mesh.point_data["inlet"] = mesh.points[:, 0]
    write_mesh(marked / "run_2.vtu", mesh)
    with pytest.raises(InputError, match=r"'inlet:point' is not in .*run_0.vtu"):
        Folder(marked, "p", "inlet", split="0.5/0.5")
    data = Folder(marked, "p", "inlet", split="0.5/0.5", on_error="skip")
    assert [row[0] for row in data.skipped] == ["run_0", "run_4"]


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("target", ["p:point", "q:cell"])
def test_features_are_inputs(marked, target, lazy):
    data = Folder(marked, target, "wall", features=["distance", "distance=wall", "normals"], lazy=lazy)
    place = data.spec.location
    assert [str(field) for field in data.spec.inputs] == [
        f"{name}:{place}" for name in ("wall", "boundary_distance", "wall_distance", "normal")
    ]
    assert data.spec.in_channels == 2 + 1 + 1 + 1 + 2
    again = Folder(marked, target, "wall", features=["distance", "distance=wall", "normals"], lazy=lazy)
    assert repr(again.pre_transform) == repr(data.pre_transform)
    assert torch.equal(again[3].x, data[3].x)
    if target == "p:point":
        above = data[3].points[:, 0] <= 1  # the others, of a sheared strip, lie beyond the end of the wall
        torch.testing.assert_close(data[3].x[above, 4], data[3].points[above, 1].float())


def test_the_cache_notices_another_surface(marked):
    path = marked / "bodies" / "ball.stl"
    path.parent.mkdir()
    distances = []
    for radius in (1.0, 2.0):
        trimesh.creation.icosphere(3, radius).export(path)
        distances.append(float(Folder(marked, "p", features=f"signed_distance={path}", split="0.5/0.5")[0].x[0, 2]))
    assert distances == pytest.approx([-1, -2], abs=0.02)


def test_a_mesh_without_the_marker_to_measure_from_is_bad(marked):
    data = Folder(marked, "p", features="distance=inlet", split="0.5/0.5", on_error="skip")
    assert [row[0] for row in data.skipped] == ["run_0", "run_4"]
    assert "Expected points marked 'inlet'" in data.skipped[0][2]


@pytest.mark.parametrize("text", ["distances", "normals=wall", "signed_distance", "curvature"])
def test_what_is_no_feature_is_refused(marked, text):
    with pytest.raises(InputError, match=rf"Expected the features distance, .* \(got '{text}'\)"):
        Folder(marked, "p", features=text)
