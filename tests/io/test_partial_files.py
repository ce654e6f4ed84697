"""Writers that are killed, meet a full disk, or write at once: a file is whole, the one before, or not there."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from meshop.data import InputError, MeshData
from meshop.datasets import Folder
from meshop.io import read_mesh, read_series, write_mesh
from meshop.io.files import alone, whole, whole_file

SQUARE = """
import os, signal, sys
from pathlib import Path
from meshop.data import MeshData
square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], [9], [[0, 1, 2, 3]], point_data={"p": [0.0, 1, 2, 3]})
def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)
def half(path):
    Path(path).write_bytes(b"half")
    die()
folder = Path(sys.argv[1])
"""

MESH = """
import meshop.io.formats as formats
row = formats.FORMATS[".vtu"]
formats.FORMATS[".vtu"] = row._replace(write=lambda path, data, binary: half(path))
formats.write_mesh(folder / "mesh.vtu", square)
"""

SERIES = """
from xml.etree import ElementTree
from meshop.io import SeriesWriter
writer = SeriesWriter(folder / "run.pvd")
writer.write(square, 0.0)
ElementTree.ElementTree.write = lambda self, path, **kwargs: half(path)
writer.write(square, 1.0)
"""

CACHE = """
import meshop.datasets.dataset as dataset
from meshop.datasets import Folder
from meshop.io import write_mesh
dataset.fs.torch_save = lambda cache, path: half(path)
write_mesh(folder / "mesh.vtu", square)
Folder(folder, "p", split={"train": ["mesh"]})
"""

PICTURE = """
from meshop.render.figure import write_png
import matplotlib.image, numpy
matplotlib.image.imsave = lambda path, picture, **kwargs: half(path)
write_png(numpy.zeros((2, 2, 3), numpy.uint8), folder / "picture.png")
"""


def square(value: float) -> MeshData:
    return MeshData.from_cells(
        [[0.0, 0], [1, 0], [1, 1], [0, 1]], [9], [[0, 1, 2, 3]], point_data={"p": [value, 1, 2, 3]}
    )


def killed(program: str, folder: Path) -> None:
    """Run a program that ends itself amid writing."""
    done = subprocess.run([sys.executable, "-c", SQUARE + program, str(folder)], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_killed_amid_a_mesh(tmp_path: Path) -> None:
    killed(MESH, tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
    write_mesh(tmp_path / "mesh.vtu", square(7.0))
    killed(MESH, tmp_path)
    assert read_mesh(tmp_path / "mesh.vtu").point_data["p"][0] == 7
    left = next(tmp_path.glob(".*.part"))
    with pytest.raises(InputError, match="Expected a mesh file with one of the extensions"):
        read_mesh(left)


def test_killed_amid_a_series(tmp_path: Path) -> None:
    killed(SERIES, tmp_path)
    assert read_series(tmp_path / "run.pvd").times.tolist() == [[0.0]]


def test_killed_amid_a_cache(tmp_path: Path) -> None:
    killed(CACHE, tmp_path)
    assert [path.suffix for path in (tmp_path / "processed").iterdir()] == [".part"]
    data = Folder(tmp_path, "p", split={"train": ["mesh"]})  # and what is left is no case
    assert len(data) == 1
    assert data[0].y.flatten().tolist() == [0, 1, 2, 3]


def test_killed_amid_a_picture(tmp_path: Path) -> None:
    killed(PICTURE, tmp_path)
    assert not (tmp_path / "picture.png").exists()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target = tmp_path / "mesh.vtu"
    write_mesh(target, square(7.0))
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(InputError, match=r"^Cannot write '.*mesh\.vtu': No space left on device$"):
        write_mesh(target, square(8.0))
    with (
        pytest.raises(InputError, match=r"^Cannot write '.*a\.txt': No space left on device$"),
        whole_file(tmp_path / "a.txt") as part,
    ):
        part.write_text("a")
    assert [path.name for path in tmp_path.iterdir()] == ["mesh.vtu"]
    assert read_mesh(target).point_data["p"][0] == 7


def test_two_that_write_one_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    with whole(target) as first:
        with whole(target) as second:
            first.write_text("first, longer")
            second.write_text("second")
        assert target.read_text() == "second"
    assert target.read_text() == "first, longer"
    assert list(tmp_path.iterdir()) == [target]


def test_a_directory_is_held_by_one_process(tmp_path: Path) -> None:
    program = "from meshop.io.files import alone; from pathlib import Path\nwith alone(Path({!r})): pass"
    call = [sys.executable, "-c", program.format(str(tmp_path))]
    with alone(tmp_path), alone(tmp_path):
        refused = subprocess.run(call, capture_output=True, text=True)
    assert "Another process is writing a run into" in refused.stderr
    assert "choose another --out" in refused.stderr
    killed("from meshop.io.files import alone\nwith alone(folder): die()", tmp_path)
    with alone(tmp_path):
        assert list(tmp_path.iterdir()) == []
