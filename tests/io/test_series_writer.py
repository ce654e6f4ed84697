"""Writing frame by frame: what pyvista and meshio read, what an interruption leaves, what is refused."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import meshio
import numpy as np
import pytest
import pyvista as pv
import torch
from conftest import strip

from meshop.data import InputError, MeshData
from meshop.io import FORMATS, SERIES_FORMATS, SeriesWriter, read_mesh, read_series, to_pyvista

TIMES = [0.1, 0.1 + 0.2, 1 / 3, 1e3]


def write(path: Path, times: list[float] = TIMES, resume: bool = False) -> None:
    mesh = strip(2, 3)
    with SeriesWriter(path, resume) as writer:
        for time in times:
            writer.write(mesh, time, {"T": time * mesh.points[:, 0]}, {"k": torch.full((6, 2), time)})
        assert writer.times[-len(times) :] == times


def test_pyvista_reads_the_same_times_and_frames(tmp_path: Path) -> None:
    write(tmp_path / "run.pvd")
    reader = pv.get_reader(tmp_path / "run.pvd")
    assert reader.time_values == TIMES
    mesh = strip(2, 3)
    for number, time in enumerate(TIMES):
        reader.set_active_time_point(number)
        [block] = reader.read()
        assert block.celltypes.tolist() == mesh.cell_type.tolist()
        assert block.point_data["T"].tolist() == (time * mesh.points[:, 0]).tolist()
        assert block.point_data["u"].tolist() == mesh.point_data["u"].tolist()
        assert block.field_data["TimeValue"].tolist() == [time]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "run.pvd"]
    assert read_series(tmp_path / "run").times.tolist() == [TIMES]  # the directory alone


def test_meshio_and_pyvista_read_xdmf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    write(tmp_path / "run.xdmf")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["elsewhere", "run.h5", "run.xdmf"]
    assert list(elsewhere.iterdir()) == []
    assert pv.get_reader(tmp_path / "run.xdmf").time_values == TIMES
    mesh = strip(2, 3)
    with meshio.xdmf.TimeSeriesReader(tmp_path / "run.xdmf") as reader:
        points, cells = reader.read_points_cells()
        assert points.tolist() == mesh.points.tolist()
        assert cells[0].data.ravel().tolist() == mesh.cell_index.tolist()
        for number, expected in enumerate(TIMES):
            time, point_data, cell_data = reader.read_data(number)
            assert time == expected
            assert point_data["T"].tolist() == (time * mesh.points[:, 0]).tolist()
            assert cell_data["k"][0].shape == (6, 3)  # a vector of the plane, in space


def test_what_stops_a_run_leaves_the_frames_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in the middle of a frame, and by an error of the disk."""
    row = FORMATS[".vtu"]

    def die(path: Path, mesh: MeshData, binary: bool) -> None:
        row.write(path, mesh, binary)  # type: ignore[misc]
        os.truncate(path, 500)
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            writer = SeriesWriter(tmp_path / "run.pvd")
            writer.write(strip(2, 3), 0.5)
            FORMATS[".vtu"] = row._replace(write=die)
            writer.write(strip(2, 3), 0.75)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert len(list((tmp_path / "run").iterdir())) == 2  # the frame, and the part of one
    assert read_series(tmp_path / "run.pvd").times.tolist() == [[0.5]]
    assert pv.get_reader(tmp_path / "run.pvd").time_values == [0.5]

    def fail(path: Path, mesh: object, binary: bool) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    writer = SeriesWriter(tmp_path / "run.pvd", resume=True)
    with monkeypatch.context() as patch:
        patch.setitem(FORMATS, ".vtu", row._replace(write=fail))
        with pytest.raises(InputError, match=r"Cannot write '.*run.pvd': .*No space left on device$"):
            writer.write(strip(2, 3), 0.6)
    assert writer.times == [0.5]
    writer.write(strip(2, 3), 0.75)
    assert read_series(tmp_path / "run.pvd").times.tolist() == [[0.5, 0.75]]


def test_a_pvd_is_continued_on_demand(tmp_path: Path) -> None:
    path = tmp_path / "run.pvd"
    write(path, TIMES[:2], resume=True)  # there is nothing yet
    with pytest.raises(InputError, match=r"Cannot write '.*run.pvd': it is there already; continue it \(resume=True\)"):
        SeriesWriter(path)
    with pytest.raises(InputError, match=r"Expected a time after 0.3 \(got 0.3\)"):
        write(path, [TIMES[1]], resume=True)
    write(path, TIMES[2:], resume=True)
    series = read_series(path)
    assert series.times.tolist() == [TIMES]
    x = strip(2, 3).points[:, 0]
    assert torch.equal(series.point_data["T"], x[:, None] * torch.tensor(TIMES, dtype=torch.float64))


def test_a_pvd_of_another_tool_is_continued_with_its_parts(tmp_path: Path) -> None:
    for part in range(2):
        to_pyvista(strip(1, 1 + part)).save(tmp_path / f"p{part}.vtu")
    sets = "".join(f'<DataSet timestep="2" part="{part}" file="p{part}.vtu"/>' for part in range(2))
    (tmp_path / "run.pvd").write_text(f'<VTKFile type="Collection"><Collection>{sets}</Collection></VTKFile>')
    with SeriesWriter(tmp_path / "run.pvd", resume=True) as writer:
        assert writer.times == [2.0]
        writer.write(strip(1, 3), 3)
    reader = pv.get_reader(tmp_path / "run.pvd")
    assert reader.time_values == [2.0, 3.0]
    assert [(d.part, d.path) for d in reader.datasets] == [(0, "p0.vtu"), (1, "p1.vtu"), (0, "run/run_000001.vtu")]


def test_a_frame_is_not_written_over_another(tmp_path: Path) -> None:
    path = tmp_path / "run.pvd"
    write(path, TIMES[:2])
    path.write_text("\n".join(line for line in path.read_text().splitlines() if "run_000000" not in line))
    with pytest.raises(InputError, match=r"'.*run_000001.vtu' is another frame of it already"):
        write(path, TIMES[2:], resume=True)


def test_moving_nodes_are_those_of_each_frame(tmp_path: Path) -> None:
    mesh = strip(1, 2)
    with SeriesWriter(tmp_path / "run.pvd") as writer:
        for time in (0.0, 1.0):
            writer.write(mesh, time)
            mesh.points = mesh.points + 1
    assert torch.equal(read_mesh(tmp_path / "run" / "run_000001.vtu").points, strip(1, 2).points + 1)
    mesh = strip(1, 2)
    with SeriesWriter(tmp_path / "run.xdmf") as writer:
        writer.write(mesh, 0)
        mesh = strip(1, 2)
        mesh.points += 1
        with pytest.raises(InputError, match=r"its frames have one mesh, whose nodes do not move; write .pvd instead"):
            writer.write(mesh, 1)


def test_xdmf_is_finished_by_an_error_and_absent_without_frames(tmp_path: Path) -> None:
    with suppress(RuntimeError), SeriesWriter(tmp_path / "run.xdmf") as writer:
        writer.write(strip(1, 2), 0.5)
        raise RuntimeError
    writer.close()  # again, for nothing
    assert read_series(tmp_path / "run.xdmf").times.tolist() == [[0.5]]
    with suppress(RuntimeError), SeriesWriter(tmp_path / "none.xdmf"):
        raise RuntimeError
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.h5", "run.xdmf"]
    with pytest.raises(InputError, match="an XDMF file is whole or not there, so that none can be continued"):
        SeriesWriter(tmp_path / "run.xdmf", resume=True)
    (tmp_path / "run.xdmf").unlink()
    with pytest.raises(InputError, match=r"'.*run.h5' is there already; choose another name"):
        SeriesWriter(tmp_path / "run.xdmf")


def test_what_is_refused(tmp_path: Path) -> None:
    for suffix, row in SERIES_FORMATS.items():
        if row.writer is None:
            with pytest.raises(InputError, match=r"can only be read; write .pvd instead$"):
                SeriesWriter(tmp_path / f"run{suffix}")
    with pytest.raises(InputError, match=r"there is no directory '.*nowhere'"):
        SeriesWriter(tmp_path / "nowhere" / "run.pvd")
    with pytest.raises(InputError, match=r"Expected a series with one of the extensions .pvd"):
        SeriesWriter(tmp_path / "run.mp4")
    writer = SeriesWriter(tmp_path / "run.pvd")
    for time in (np.inf, np.nan):
        with pytest.raises(InputError, match=r"Expected a time after -inf \(got (inf|nan)\)"):
            writer.write(strip(1, 2), time)
    with pytest.raises(InputError, match="the mesh has a point field 'p' already"):
        writer.write(strip(1, 2), 0, {"p": np.zeros(6)})
    assert list(tmp_path.iterdir()) == []
