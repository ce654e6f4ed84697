"""Readers in a process of their own: what passes, and what becomes of those that do not come back."""

import ctypes
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import foreign
import numpy as np
import pytest
import torch
from gallery import clone, mixed, unchanged
from torch.utils.data import DataLoader, Dataset

from meshop.data import InputError, MeshData
from meshop.io import child, read_mesh, read_series, write_mesh
from meshop.io.child import in_child, read_in_child
from meshop.io.parts import Frames

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="readers stay in the process elsewhere")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "a.mesh").write_text("a mesh")
    return tmp_path / "a.mesh"


def children() -> set[str]:
    """Those of this process, also those that have ended and were not waited for."""
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


@pytest.fixture(autouse=True)
def _no_child_is_left() -> Iterator[None]:
    before = children()  # other tests may have left some
    yield
    assert children() <= before


def cloud(count: int) -> MeshData:
    return MeshData(pos=torch.zeros(count, 3))


def reading(work: Callable[[], Any], file: Path) -> MeshData:
    return read_in_child(lambda path, dim: work())(file, 3)


def test_a_mesh_passes_whole_and_can_be_changed(file: Path) -> None:
    mesh = mixed()
    mesh.field_data["names"] = np.array(["a", "bc"])
    mesh.cell_data["empty"] = torch.empty(mesh.num_cells, 0)
    mesh.cell_data["turned"] = torch.arange(3 * mesh.num_cells).reshape(3, -1).T  # not one after another in memory
    before = clone(mesh)
    back = reading(lambda: mesh, file)
    unchanged(back, before)
    back.points += 1
    back.cell_data["q"] += 1
    unchanged(mesh, before)


def test_it_is_another_process_and_one_for_all_frames(file: Path) -> None:
    @in_child()
    @contextmanager
    def opened(path: Path) -> Iterator[Frames]:
        def read(number: int) -> tuple[float, MeshData]:
            frames.still = frozenset({f"seen {number}"})
            return 0.5 * number, MeshData(pid=os.getpid(), path=str(path))

        frames = Frames(3, read, [0.0, 0.5, 1.0])
        yield frames

    with opened(file) as frames:
        assert (frames.count, frames.times) == (3, [0.0, 0.5, 1.0])
        got = [frames.read(number) for number in (2, 0)]
        assert frames.still == {"seen 0"}
    assert [at for at, _ in got] == [1.0, 0.0]
    assert {mesh.path for _, mesh in got} == {str(file)}
    (pid,) = {mesh.pid for _, mesh in got}
    assert pid != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_a_signal_is_an_error(number: signal.Signals, file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    message = rf"^the file is damaged: its reader ended with signal {int(number)} \({number.name}\)$"
    with pytest.raises(InputError, match=message):
        reading(lambda: os.kill(os.getpid(), number), file)
    with pytest.raises(InputError, match=r"ended with signal 11 \(SIGSEGV\)"):
        reading(lambda: ctypes.string_at(0), file)
    assert capfd.readouterr() == ("", "")


def test_an_exit_is_an_error(file: Path) -> None:
    with pytest.raises(InputError, match=r"its reader ended the process \(code 3\)$"):
        reading(lambda: os._exit(3), file)
    with pytest.raises(InputError, match=r"its reader ended the process \(code 0\)$"):
        reading(lambda: (_ for _ in ()).throw(SystemExit(1)), file)


def test_memory_has_a_bound(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_MEMORY", 1 << 28)
    assert reading(lambda: cloud(1 << 22), file).num_nodes == 1 << 22  # 48 MB
    with pytest.raises(InputError, match=r"^reading it takes more than 0.2 GB of memory: the file is damaged, or too"):
        reading(lambda: np.zeros(1 << 26), file)
    with file.open("ab") as more:  # a file of some size has more of it
        more.truncate(1 << 16)
    assert reading(lambda: cloud(1 << 25), file).num_nodes == 1 << 25


def test_time_has_a_bound(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_SECONDS", 1)

    def work() -> None:
        while True:
            pass

    with pytest.raises(InputError, match=r"^the file is damaged: reading it takes longer than 1 s$"):
        reading(work, file)
    monkeypatch.setattr(child, "_LARGE", 1)

    def slow() -> MeshData:
        while time.process_time() < 2.2:
            pass
        return cloud(7)

    assert reading(slow, file).num_nodes == 7  # a large file takes what it takes


def test_errors_and_warnings_are_those_of_the_reader(file: Path) -> None:
    class Odd(Exception):
        def __init__(self, one: int, other: int) -> None:
            super().__init__(f"{one} and {other}")

    def fail(error: Exception) -> None:
        raise error

    with pytest.raises(InputError, match=r"^no nodes$"):
        reading(lambda: fail(InputError("no nodes")), file)
    with pytest.raises(KeyError, match="key") as caught:
        reading(lambda: fail(KeyError("key")), file)
    assert "in fail" in caught.value.__notes__[0]
    with pytest.raises(FileNotFoundError) as lost:
        reading(lambda: (file / "b").read_text() if file.is_dir() else Path("/none/b").read_text(), file)
    assert lost.value.strerror == "No such file or directory"
    with pytest.raises(RuntimeError, match="1 and 2"):
        reading(lambda: fail(Odd(1, 2)), file)

    def warn() -> MeshData:
        warnings.warn("far from the origin", stacklevel=1)
        return cloud(7)

    with pytest.warns(UserWarning, match="far from the origin"):
        assert reading(warn, file).num_nodes == 7


def test_an_interrupt_ends_the_child(file: Path) -> None:
    start = time.monotonic()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            reading(lambda: time.sleep(60), file)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - start < 30


class _Files(Dataset[int]):
    def __init__(self, path: Path) -> None:
        self.path = path

    def __len__(self) -> int:
        return 4

    def __getitem__(self, number: int) -> int:
        return read_mesh(self.path).num_points


def test_it_reads_in_workers_and_beside_threads(tmp_path: Path) -> None:
    write_mesh(tmp_path / "a.vtu", mixed())
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.ones(1000, 1000) @ torch.ones(1000, 1000)  # has threads now
        assert read_mesh(tmp_path / "a.vtu").num_points == 12
        numbers = DataLoader(_Files(tmp_path / "a.vtu"), num_workers=1, batch_size=None)
        assert list(numbers) == [12] * 4
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("where", "large"), [("piece.vtu", False), ("deep/piece.vtu", False), ("../piece.vtu", True), ("/piece.vtu", True)]
)
def test_the_size_is_that_of_all_files(where: str, large: bool, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.pvtu").write_text(f'<VTKFile><Piece Source="{where}"/></VTKFile>')
    own = (folder / "a.pvtu").stat().st_size
    with (folder / "deep" / "b.vtu").open("wb") as file:
        file.truncate(5000)
    assert child._size(folder / "deep" / "b.vtu") == 5000
    found = child._size(folder / "a.pvtu")
    assert found == child._LARGE if large else own + 5000 <= found < own + 5000 + 2**16  # folders have a size, too


def test_a_series_is_read_by_one_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    born = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: born.append(fork()) or born[-1])
    path = foreign.exodus(tmp_path / "a.e")
    assert read_series(path).times.tolist() == [[0, 0.5]]
    assert len(born) == 1
