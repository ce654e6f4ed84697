"""What is in a file of arrays: names, shapes, ranges and numbers that are not finite, and what is said of others."""

import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io
import torch
import yaml
from torch_geometric.data import Data

import meshop.io.describe as module
from meshop.data import InputError, MeshData
from meshop.io import write_mesh
from meshop.io.arrays import read_npz
from meshop.io.describe import ARRAYS, as_text, describe, describe_directory, natural_order, summary

VALUES = np.array([[3.0, np.nan, -2.5], [np.inf, 7.25, 0.0]], dtype=np.float32)
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
        "  points 4   cells 1 quad",
        "  box    x 0 to 1   y 0 to 1   z 0 to 0",
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


def test_natural_order() -> None:
    names = ["b", "a_10/x", "a_9/x", "a_9/2", "10", "9"]
    assert [str(p) for p in natural_order(map(Path, names))] == ["9", "10", "a_9/2", "a_9/x", "a_10/x", "b"]
