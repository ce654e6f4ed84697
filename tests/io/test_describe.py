"""What is in a file of arrays: names, shapes, ranges and numbers that are not finite, and what is said of others."""

import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import foreign
import h5py
import numpy as np
import pytest
import scipy.io
import torch
import yaml
from torch_geometric.data import Data

import meshop.io.leaves as module
from meshop.data import InputError, MeshData
from meshop.io import SeriesWriter, write_mesh
from meshop.io.arrays import read_npz
from meshop.io.describe import (
    as_text,
    describe,
    describe_directory,
    describe_mesh,
    describe_together,
    summary,
    together_as_text,
)
from meshop.io.files import natural_order
from meshop.io.leaves import ARRAYS

VALUES = np.array([[3.0, np.nan, -2.5], [np.inf, 7.25, 0.0]], dtype=np.float32)
SOUND = "no orphan points, no duplicate points, no degenerate cells, no inverted cells"
TOLD = {"shape": [2, 3], "dtype": "float32", "min": -2.5, "max": 7.25, "not_finite": 2}


def arrays(path: Path) -> dict[str, dict[str, Any]]:
    return {array.pop("name"): array for array in describe(path)["arrays"]}


def write(path: Path) -> str:
    """A file with VALUES, and the name of the array."""
    if path.suffix == ".mat":
        scipy.io.savemat(path, {"group": {"values": VALUES}})
    elif path.suffix in (".h5", ".hdf5"):
        with h5py.File(path, "w") as file:
            file["group/values"] = VALUES
    elif path.suffix == ".npy":
        np.save(path, np.asfortranarray(VALUES))
    elif path.suffix == ".npz":
        np.savez_compressed(path, **{"group/values": VALUES})
    elif path.suffix == ".pt":
        torch.save({"group": Data(values=torch.from_numpy(VALUES))}, path)
    elif path.suffix == ".arrow":
        pa = pytest.importorskip("pyarrow")
        row = {"sim_id": "group", "values": VALUES.tobytes(), "shape_t": 1, "shape_h": 2, "shape_w": 3}
        with pa.OSFile(str(path), "wb") as out, pa.ipc.new_stream(out, pa.Table.from_pylist([row]).schema) as stream:
            stream.write_table(pa.Table.from_pylist([row]))
    elif path.suffix == ".json":
        path.write_text(json.dumps({"group": {"values": VALUES.tolist()}}))
    elif path.suffix in (".yaml", ".yml"):
        path.write_text(yaml.safe_dump({"group": {"values": VALUES.tolist()}}))
    elif path.suffix == ".csv":
        np.savetxt(path, VALUES, delimiter=",")
    elif path.suffix == ".txt":
        np.savetxt(path, VALUES.reshape(-1))
    return path.stem if path.suffix in (".npy", ".csv", ".txt") else "group/values"


@pytest.mark.parametrize("suffix", ARRAYS)
def test_every_format_tells_the_same(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    name = write(path)
    report = describe(path)
    assert report["bytes"] == path.stat().st_size
    assert report["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    told = arrays(path)[name]
    told["dtype"] = told["dtype"].replace("64", "32")  # texts do not tell
    assert told == TOLD | {"shape": {".txt": [6], ".arrow": [1, 2, 3]}.get(suffix, [2, 3])}


@pytest.mark.parametrize("suffix", ARRAYS)
def test_damaged_files_are_named(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    write(path)
    content = path.read_bytes()
    text = suffix in (".json", ".yaml", ".yml", ".csv", ".txt")
    broken = {".csv": b"1,2\n3\n", ".txt": b"\xff\xfe\xff", ".yaml": b"a: [1", ".yml": b"a: [1"}
    path.write_bytes(broken.get(suffix, content[: len(content) - 9]))
    with pytest.raises(InputError) as caught:
        describe(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    assert "or is damaged" in message or suffix == ".csv"
    path.write_bytes(b"")
    with pytest.raises(InputError, match=r"^Cannot read '.*a\..*': the file is empty$"):
        describe(path)
    if not text:
        path.write_text("no file of arrays")
        with pytest.raises(InputError, match=r"a\.\w+' is not an? .*, or is damaged"):
            describe(path)


def test_other_files() -> None:
    with pytest.raises(InputError, match=r"^Expected a file with one of .*\.vtu, .*\.mat, .* \(got 'a.docx'\)$"):
        describe("a.docx")
    with pytest.raises(InputError, match=r"did you mean '.npy'\?"):
        describe("a.npyy")
    with pytest.raises(InputError, match=r"^Cannot read 'none.npy': there is no such file$"):
        describe("none.npy")


def test_files_that_would_run_code_are_refused(tmp_path: Path) -> None:
    ran = tmp_path / "ran"

    class Runs:
        def __reduce__(self) -> Any:
            return Path.touch, (ran,)

    torch.save({"x": Runs()}, tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"a.pt' holds an object of \S+, which would run code of its own"):
        describe(tmp_path / "a.pt")
    np.save(tmp_path / "a.npy", np.array([Runs()]))
    np.savez(tmp_path / "a.npz", a=np.array([Runs()]))
    for name in ("a.npy", "a.npz"):
        with pytest.raises(InputError, match=f"{name}' is not an .* of numpy, or is damaged"):
            describe(tmp_path / name)
    with pytest.raises(InputError, match="holds objects of Python"):
        read_npz(tmp_path / "a.npz", "a")
    assert not ran.exists()
    pickle.loads(pickle.dumps(Runs()))
    assert ran.exists()


@pytest.mark.parametrize("chunks", [None, (3, 1, 5), (7, 6, 5), (1, 4, 2)])
def test_large_arrays_are_read_in_parts(tmp_path: Path, chunks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).standard_normal((7, 6, 5)).astype(np.float32)
    values[6, 5, 4], values[2, 3, 1] = 9, np.nan
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=values, chunks=chunks)
    np.save(tmp_path / "a.npy", values)
    np.save(tmp_path / "f.npy", np.asfortranarray(values))
    monkeypatch.setattr(module, "BLOCK", 100)
    told = {"shape": [7, 6, 5], "dtype": "float32", "min": float(np.nanmin(values)), "max": 9.0, "not_finite": 1}
    for name in ("a.h5", "a.npy", "f.npy"):
        assert list(arrays(tmp_path / name).values()) == [told]
    with h5py.File(tmp_path / "a.h5") as file:
        for array, least in ((file["a"], 4 * np.prod(chunks or 1)), (np.load(tmp_path / "f.npy", mmap_mode="r"), 4)):
            sizes = [block.nbytes for block in module._blocks(array)]
            assert sum(sizes) == values.nbytes
            assert max(sizes) <= max(100, least)
            assert len(sizes) < 60 or least > 4


def test_lists_of_like_things_are_arrays(tmp_path: Path) -> None:
    content = {
        "windows": [{"sim_id": "a.h5", "time_id": 3}, {"sim_id": "b.h5", "time_id": 40}],
        "train": ["a", "b", "c"],
        "ragged": [[1, 2], [3.5]],
        "mixed": [1, None, "a"],
        "other": [{"a": 1}, {"b": [1, 2]}],
        "none": [],
        "on": True,
    }
    (tmp_path / "a.json").write_text(json.dumps(content))
    told = {name: (a["shape"], a["dtype"], a["min"], a["max"]) for name, a in arrays(tmp_path / "a.json").items()}
    assert told == {
        "windows/sim_id": ([2], "text", None, None),
        "windows/time_id": ([2], "int64", 3, 40),
        "train": ([3], "text", None, None),
        "ragged": ([2, None], "mixed", 1, 3.5),
        "mixed": ([3], "mixed", 1, 1),
        "other/0/a": ([], "int64", 1, 1),
        "other/1/b": ([2], "int64", 1, 2),
        "none": ([0], "empty", None, None),
        "on": ([], "bool", 1, 1),
    }
    assert "  ragged   [2, any] mixed   1 to 3.5\n" in as_text(describe(tmp_path / "a.json"))
    (tmp_path / "list.json").write_text('["a", "b"]')
    assert list(arrays(tmp_path / "list.json")) == ["list"]


def test_structures_and_cells_of_matlab(tmp_path: Path) -> None:
    cell = np.empty(2, dtype=object)
    cell[:] = [np.zeros((1, 2)), np.ones((1, 2))]
    scipy.io.savemat(tmp_path / "a.mat", {"s": {"a": 1.5, "t": {"b": np.arange(4)}}, "c": cell, "w": "word"})
    told = {name: (a["shape"], a["min"], a["max"]) for name, a in arrays(tmp_path / "a.mat").items()}
    assert told == {"s/a": ([1, 1], 1.5, 1.5), "s/t/b": ([1, 4], 0, 3), "c": ([2, 1, 2], 0, 1), "w": ([1], None, None)}


def test_types_of_torch_and_empty_arrays(tmp_path: Path) -> None:
    content = {
        "half": torch.tensor([1.5, -2], dtype=torch.bfloat16, requires_grad=True),
        "sparse": torch.eye(3).to_sparse(),
        "complex": torch.ones(2, dtype=torch.complex64),
        "empty": torch.zeros(0, 3),
        "data": (torch.zeros(2), Data(pos=torch.ones(2, 2))),
    }
    torch.save(content, tmp_path / "a.pt")
    torch.save(content, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for name in ("a.pt", "old.pt"):
        told = {name: (a["shape"], a["dtype"], a["min"], a["max"]) for name, a in arrays(tmp_path / name).items()}
        assert told == {
            "half": ([2], "bfloat16", -2, 1.5),
            "sparse": ([3, 3], "float32, sparse_coo", None, None),
            "complex": ([2], "complex64", None, None),
            "empty": ([0, 3], "float32", None, None),
            "data/0": ([2], "float32", 0, 0),
            "data/1/pos": ([2, 2], "float32", 1, 1),
        }
    np.savez(tmp_path / "a.npz", none=np.zeros((0, 2)), one=np.float64(3))
    assert {name: a["shape"] for name, a in arrays(tmp_path / "a.npz").items()} == {"none": [0, 2], "one": []}
    np.save(tmp_path / "a.npy", np.zeros((0, 2)))
    assert arrays(tmp_path / "a.npy")["a"]["min"] is None
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["nothing"], file["words"] = h5py.Empty("f4"), np.array(["a", "b"], dtype="S1")
    assert {name: (a["shape"], a["dtype"], a["min"]) for name, a in arrays(tmp_path / "a.h5").items()} == {
        "nothing": ([], "float32", None),
        "words": ([2], "text", None),
    }


def test_a_table_of_parameters(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("case;mach;;note\nrun_1;0.5;1;x\nrun_2;;2;y\n")
    told = {name: (a["dtype"], a["min"], a["max"], a["not_finite"]) for name, a in arrays(tmp_path / "a.csv").items()}
    assert told == {
        "case": ("text", None, None, 0),
        "mach": ("float64", 0.5, 0.5, 1),
        "2": ("float64", 1, 2, 0),
        "note": ("text", None, None, 0),
    }


def test_a_directory_with_a_damaged_and_an_unknown_file(tmp_path: Path) -> None:
    square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], [9], [[0, 1, 2, 3]])
    write_mesh(tmp_path / "a.vtu", square, point_data={"p": [1.0, 2, 3, np.nan]})
    for place in ("b_10", "b_2", "processed", ".hidden"):
        (tmp_path / place).mkdir()
        write(tmp_path / place / "v.npy")
    (tmp_path / "b_2" / "bad.npz").write_text("no archive")
    (tmp_path / "log").write_text("no data")
    reports = list(describe_directory(tmp_path))
    names = ["a.vtu", "b_2/bad.npz", "b_2/v.npy", "b_10/v.npy", "log"]
    assert [Path(report["file"]).relative_to(tmp_path).as_posix() for report in reports] == names
    assert [("error" in report) for report in reports] == [False, True, False, False, True]
    size = (tmp_path / "b_2" / "v.npy").stat().st_size
    assert summary(reports) == f"3 files, 4 points, 2 arrays, {2 * size} bytes, 2 not read"
    assert as_text(reports[0]).splitlines()[1:] == [
        "  points 4   cells 1 quad   2-D in the plane x, y",
        "  box    x 0 to 1   y 0 to 1   z 0 to 0",
        f"  checks 1 component, {SOUND}",
        "  p:point   [4] float64   1 to 3   1 not finite",
    ]
    assert as_text(reports[1]).startswith(f"not read: '{reports[1]['file']}' is not an archive")
    assert "\n" not in as_text(reports[1])
    assert as_text(reports[4]) == f"not read: '{reports[4]['file']}' has an extension that meshop does not know"
    assert as_text(reports[2]).splitlines()[1:] == [
        f"  {size} bytes   SHA-256 {reports[2]['sha256']}",
        "  v   [2, 3] float32   -2.5 to 7.25   2 not finite",
    ]
    with pytest.raises(InputError, match=r"^Expected files that meshop reads in '.*processed/v.npy' or its sub"):
        list(describe_directory(tmp_path / "processed" / "v.npy"))


SQUARE = [[0.0, 0], [1, 0], [1, 1], [0, 1]]


def faulty() -> MeshData:
    """Two tetrahedra, the second inside out, apart from a sliver with a point in the place of another; an orphan."""
    corners = [[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]]
    apart = [[5, 0, 0], [6, 0, 0], [5, 1, 0], [5, 0, 0], [9, 9, 9]]
    return MeshData.from_cells([*corners, *apart], [10, 10, 10], [[0, 1, 2, 3], [2, 1, 3, 4], [5, 6, 7, 8]])


def test_faults_of_a_mesh(tmp_path: Path) -> None:
    write_mesh(tmp_path / "a.vtu", faulty())
    told = describe(tmp_path / "a.vtu")
    assert (told["dim"], told["plane"], told["components"], told["largest_component"]) == (3, None, 2, 2)
    keys = ("orphan_points", "duplicate_points", "degenerate_cells", "inverted_cells", "points_not_finite")
    assert [told[key] for key in keys] == [1, 1, 1, 1, 0]
    assert as_text(told).splitlines()[3] == (
        "  checks 2 components (the largest of 2 cells), 1 orphan point, 1 duplicate point, 1 degenerate cell, "
        "1 inverted cell"
    )
    assert (
        together_as_text(tmp_path, [told])
        .splitlines()[1]
        .endswith("2 components, 1 orphan, 1 duplicate, 1 degenerate, 1 inverted")
    )


def test_dimension_and_plane() -> None:
    told = {
        "2-D in the plane x, y": (SQUARE, 9, [0, 1, 2, 3]),
        "2-D in the plane x, z": ([[x, 7.0, y] for x, y in SQUARE], 9, [0, 1, 2, 3]),
        "a surface in 3-D": ([[x, y, x * y] for x, y in SQUARE], 9, [0, 1, 2, 3]),
        "lines in 3-D": ([[0.0, 0, 0], [1, 2, 3]], 3, [0, 1]),
        "3-D": ([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], 10, [0, 1, 2, 3]),
    }
    for words, (points, code, cell) in told.items():
        line = as_text({"file": "a", **describe_mesh(MeshData.from_cells(points, [code], [cell]))}).splitlines()[1]
        assert line.endswith(f"   {words}")


def test_points_alone_points_that_are_no_numbers_and_cells_of_unknown_kind() -> None:
    cloud = as_text({"file": "a", **describe_mesh(MeshData.from_cells([*SQUARE, [1.0, 1]], [], []))}).splitlines()
    assert cloud[1:] == [
        "  points 5   cells none   3-D",
        "  box    x 0 to 1   y 0 to 1   z 0 to 0",
        "  checks 5 orphan points, 1 duplicate point",
    ]
    broken = MeshData.from_cells([*SQUARE, [np.nan, 0]], [9, 5], [[0, 1, 2, 3], [0, 1, 4]])
    told = describe_mesh(broken)
    assert (told["points_not_finite"], told["box"]) == (1, [[0, 1], [0, 1], [0, 0]])
    assert "  1 point with a coordinate that is no finite number" in as_text({"file": "a", **told}).splitlines()
    json.dumps(told, allow_nan=False)
    told = describe_mesh(MeshData.from_cells(SQUARE, [41], [[0, 1, 2, 3]]))
    assert (told["dim"], told["degenerate_cells"], told["components"]) == (None, None, 1)
    assert as_text({"file": "a", **told}).splitlines()[3:] == [
        "  checks 1 component, no orphan points, no duplicate points",
        "  cells were not checked: Expected cells whose edges and faces are known (got VTK cell type 41)",
    ]


def test_far_from_the_origin(tmp_path: Path) -> None:
    write_mesh(tmp_path / "a.vtu", MeshData.from_cells(np.array(SQUARE) * 1e-3 + 5e5, [9], [[0, 1, 2, 3]]))
    told = describe(tmp_path / "a.vtu")
    assert told["rounding"] == pytest.approx(1 / 2**0.5)  # of a step of 1/32, 0.001 is lost altogether
    assert "single precision moves points by up to 0.7 of the size of the mesh" in as_text(told)
    assert together_as_text(tmp_path, [told]).splitlines()[1].endswith("far from the origin")
    write_mesh(tmp_path / "b.vtu", MeshData.from_cells(np.array(SQUARE) + 5, [9], [[0, 1, 2, 3]]))
    assert "single precision" not in as_text(describe(tmp_path / "b.vtu"))


def test_names_of_boundaries_and_blocks(tmp_path: Path) -> None:
    square = MeshData.from_cells(SQUARE, [9, 5], [[0, 1, 2, 3], [0, 1, 2]])
    square.point_data["inlet"], square.cell_data["inlet"] = [True, True, False, False], [False, True]
    square.point_data["p"] = [1.0, 2, 3, 4]
    square.cell_data["block"], square.field_data["blocks"] = [1, 1], np.array(["solid", "fluid"])
    square.field_data["TimeValue"] = [0.25]
    write_mesh(tmp_path / "a.vtu", square)
    told = describe(tmp_path / "a.vtu")
    assert told["masks"] == [
        {"name": "inlet", "location": "point", "count": 2},
        {"name": "inlet", "location": "cell", "count": 1},
    ]
    assert told["blocks"] == [{"name": "solid", "cells": 0}, {"name": "fluid", "cells": 2}]
    assert as_text(told).splitlines()[3:] == [
        "  times  0.25",
        f"  checks 1 component, {SOUND}",
        "  names  inlet (2 points, 1 cell)",
        "  blocks solid (no cells), fluid (2 cells)",
        "  p:point   [4] float64   1 to 4",
        "  block:cell   [2] int64   1 to 1",
    ]
    for number in range(50):
        square.point_data[f"wall_{number}"] = [True] * 4
    lines = as_text({"file": "a", **describe_mesh(square)}).splitlines()
    assert max(map(len, lines)) <= 120
    end = next(i for i, line in enumerate(lines) if line.startswith("  blocks"))
    assert lines[end - 1].endswith("wall_28 (4 points), and 21 more")
    assert all(line.endswith("),") for line in lines[5 : end - 1])


@pytest.mark.parametrize("name", ["run.pvd", "run.e", "run.xdmf"])
def test_times_of_a_series(name: str, tmp_path: Path) -> None:
    square = MeshData.from_cells(SQUARE, [9], [[0, 1, 2, 3]])
    with SeriesWriter(tmp_path / name) as writer:
        for time in (0.5, 0.75, 1.5):
            writer.write(square, time, point_data={"u": [time] * 4})
    told = describe(tmp_path / name)
    values = [0.5, 0.75, 1.5]
    assert told["times"] == {"count": 3, "first": 0.5, "last": 1.5, "step": [0.25, 0.75], "values": values}
    [field] = [field for field in told["fields"] if field["name"] == "u"]
    assert (field["min"], field["max"]) == (1.5, 1.5)
    assert "  times  3, 0.5 to 1.5 in steps of 0.25 to 0.75; fields are those of the last" in as_text(told)
    reports = [report for report in describe_directory(tmp_path) if "points" in report]
    assert [Path(report["file"]).name for report in reports] == [name]  # frames are not files of their own


def test_frames_that_a_list_names_are_no_files_of_their_own(tmp_path: Path) -> None:
    square = MeshData.from_cells(SQUARE, [9], [[0, 1, 2, 3]])
    for number in range(3):
        write_mesh(tmp_path / f"a_{number}.vtu", square)
    entries = [{"name": f"a_{number}.vtu", "time": number / 4} for number in range(2)]
    (tmp_path / "a.vtu.series").write_text(json.dumps({"file-series-version": "1.0", "files": entries}))
    reports = {Path(report["file"]).name: report for report in describe_directory(tmp_path)}
    assert list(reports) == ["a.vtu.series", "a_2.vtu"]
    assert reports["a.vtu.series"]["times"]["values"] == [0, 0.25]
    (tmp_path / "b.pvd").write_text("no list")
    assert "error" in {Path(report["file"]).name: report for report in describe_directory(tmp_path)}["b.pvd"]


def cases(root: Path, different: bool) -> list[dict[str, Any]]:
    """Three numbered files, the last of which has another field and, if they are different, other cells."""
    for number in range(3):
        cells = [[0, 1, 2, 3]] if number < 2 or not different else [[1, 2, 3, 0]]
        mesh = MeshData.from_cells(SQUARE, [9], cells, point_data={"p": [-1.0, number, np.nan, 1]})
        mesh.point_data["wall"] = [True, False, False, False]
        mesh.point_data["q"] = [[0.0] * (3 if number else 2)] * 4
        if number == 2:
            mesh.cell_data["T"] = [300.0]
        write_mesh(root / f"case_{number}.vtu", mesh)
    return list(describe_directory(root))


def test_what_the_meshes_of_a_directory_have_in_common(tmp_path: Path) -> None:
    reports = cases(tmp_path, different=True)
    told = describe_together(reports)
    assert told is not None
    assert (told["meshes"], told["points"], told["cells"], told["connectivities"]) == (3, [4, 4], [1, 1], 2)
    assert told["box"] == [[0, 1], [0, 1], [0, 0]]
    assert "times" not in told
    assert told["masks"] == [{"name": "wall", "location": "point", "files": 3, "without": None}]
    fields = {field.pop("name"): field for field in told["fields"]}
    assert fields["p"] == {
        "location": "point", "files": 3, "without": None, "shape": [], "min": -1, "max": 2, "not_finite": 3
    }  # fmt: skip
    first = str(tmp_path / "case_0.vtu")
    assert (fields["T"]["files"], fields["T"]["without"], fields["T"]["max"]) == (1, first, 300)
    assert fields["q"]["shape"] is None
    assert together_as_text(tmp_path, reports).splitlines() == [
        "file        points  cells   fields   times  remarks",
        "case_0.vtu       4  1 quad  p, q            1 not finite",
        "case_1.vtu       4  1 quad  p, q            1 not finite",
        "case_2.vtu       4  1 quad  p, q, T         1 not finite",
        "",
        "3 meshes, 2 different sets of cells",
        "  box    x 0 to 1   y 0 to 1   z 0 to 0",
        "  p:point   scalar   -1 to 2   3 not finite   in all",
        "  q:point   shapes differ   0 to 0   in all",
        "  T:cell   scalar   300 to 300   in 1 of 3, not in case_0.vtu",
        "  names in all  wall:point",
        "3 files, 12 points",
    ]
    json.dumps({"files": reports, "together": told}, allow_nan=False)


def test_numbered_files_with_the_same_cells_could_be_a_series(tmp_path: Path) -> None:
    reports = cases(tmp_path, different=False)
    told = describe_together(reports)
    assert told is not None
    assert told["connectivities"] == 1
    assert told["times"]["values"] == [0, 1, 2]
    text = together_as_text(tmp_path, reports)
    assert "\n3 meshes, the same cells in all\n" in text
    assert "\n  times  3, 0 to 2 by 1, if the files are read as a series\n" in text
    (tmp_path / "case_1.vtu").rename(tmp_path / "other_1.vtu")
    assert "times" not in (describe_together(list(describe_directory(tmp_path))) or {})


def test_a_case_of_openfoam_is_one_file(tmp_path: Path) -> None:
    foreign.foam_case(tmp_path / "cavity")
    [report] = describe_directory(tmp_path)
    assert report["file"] == str(tmp_path / "cavity")
    assert report["points"] > 0


def test_natural_order() -> None:
    names = ["b", "a_10/x", "a_9/x", "a_9/2", "10", "9"]
    assert [str(p) for p in natural_order(map(Path, names))] == ["9", "10", "a_9/2", "a_9/x", "a_10/x", "b"]
