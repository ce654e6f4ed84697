"""Trajectories from files that other tools write: PVD, file series, directories, XDMF, Exodus II."""

import json
import re
from pathlib import Path
from typing import Any

import h5py
import meshio
import numpy as np
import pytest
import pyvista as pv
import torch
from scipy.io import netcdf_file
from torch_geometric.loader import DataLoader

from meshop.data import InputError
from meshop.io import SERIES_FORMATS, count_frames, read_series, write_series

TIMES = [0.1, 0.1 + 0.1 / 3, 0.7]
POINTS = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0], [1, 1, 0], [2, 1, 0], [1, 2, 0]], dtype=float)
CELLS = [("quad", np.array([[0, 1, 4, 3], [1, 2, 5, 4]])), ("triangle", np.array([[3, 4, 6]]))]
U = np.stack([np.arange(7.0) + 10 * t for t in range(3)])  # [T, N]
V = np.stack([np.outer(np.arange(7.0) - t, [1, 2, 0]) for t in range(3)])  # [T, N, 3]
Q = np.stack([np.arange(3.0) * (t + 1) for t in range(3)])  # [T, C]


def grid(frame: int, shift: float = 0) -> pv.UnstructuredGrid:
    cells = np.concatenate([[len(cell), *cell] for _, block in CELLS for cell in block])
    out = pv.UnstructuredGrid(cells, [9, 9, 5], POINTS + np.array([shift * frame, 0, 0]))
    out.point_data["u"], out.point_data["v"], out.cell_data["q"] = U[frame], V[frame], Q[frame]
    return out


def pvd(path: Path, entries: list[tuple[float, str, str]]) -> None:
    sets = "".join(f'<DataSet timestep="{t!r}" group="" part="{part}" file="{file}"/>' for t, part, file in entries)
    path.write_text(f'<VTKFile type="Collection" version="0.1"><Collection>{sets}</Collection></VTKFile>')


def make_pvd(folder: Path, shift: float = 0) -> Path:
    for frame in range(3):
        grid(frame, shift).save(folder / f"f{frame}.vtu")
    pvd(folder / "a.pvd", [(TIMES[i], "0", f"f{i}.vtu") for i in (0, 2, 1)])  # in no order
    return folder / "a.pvd"


def make_json(folder: Path) -> Path:
    make_pvd(folder)
    files = [{"name": f"f{i}.vtu", "time": TIMES[i]} for i in range(3)]
    (folder / "a.vtu.series").write_text(json.dumps({"file-series-version": "1.0", "files": files}))
    return folder / "a.vtu.series"


def make_directory(folder: Path) -> Path:
    for frame, number in enumerate((8, 9, 10)):
        mesh = grid(frame)
        mesh.field_data["TimeValue"] = np.array([TIMES[frame]])
        mesh.save(folder / f"f_{number}.vtu")
    return folder


def make_xdmf(folder: Path, form: str = "HDF") -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with meshio.xdmf.TimeSeriesWriter("a.xdmf", data_format=form) as writer:
            writer.write_points_cells(POINTS, CELLS)
            for frame, time in enumerate(TIMES):
                cell_data = {"q": [Q[frame, :2], Q[frame, 2:]]}
                writer.write_data(time, {"u": U[frame, :, None], "v": V[frame]}, cell_data)
    return folder / "a.xdmf"


def make_exodus(folder: Path) -> Path:
    """Written by hand after the Exodus II manual: two blocks, a vector in three variables, one element variable."""
    with netcdf_file(folder / "a.e", "w", version=2) as file:
        file.title, file.api_version, file.version = "a", np.float32(8.03), np.float32(8.03)
        file.floating_point_word_size, file.file_size = np.int32(8), np.int32(1)
        for name, size in {
            "time_step": None, "len_string": 33, "len_line": 81, "len_name": 33, "four": 4, "num_dim": 3,
            "num_nodes": 7, "num_elem": 3, "num_el_blk": 2, "num_el_in_blk1": 2, "num_nod_per_el1": 4,
            "num_el_in_blk2": 1, "num_nod_per_el2": 3, "num_nod_var": 4, "num_elem_var": 2,
        }.items():  # fmt: skip
            file.createDimension(name, size)

        def put(name: str, kind: str, axes: tuple[str, ...], values: Any) -> Any:
            variable = file.createVariable(name, kind, axes)
            variable[:] = values
            return variable

        def text(*names: str) -> np.ndarray:
            return np.array([list(name.ljust(33, "\0").encode()) for name in names], np.uint8).view("S1")

        put("eb_prop1", "i", ("num_el_blk",), [10, 20]).name = "ID"
        put("eb_status", "i", ("num_el_blk",), [1, 1])
        for axis, letter in enumerate("xyz"):
            put(f"coord{letter}", "d", ("num_nodes",), POINTS[:, axis])
        for block, (kind, (_, cells)) in enumerate(zip(("QUAD4", "TRI3"), CELLS, strict=True), start=1):
            axes = (f"num_el_in_blk{block}", f"num_nod_per_el{block}")
            put(f"connect{block}", "i", axes, cells + 1).elem_type = kind
        put("name_nod_var", "c", ("num_nod_var", "len_string"), text("u", "vx", "vy", "vz"))
        put("name_elem_var", "c", ("num_elem_var", "len_string"), text("q", "some"))
        put("elem_var_tab", "i", ("num_el_blk", "num_elem_var"), [[1, 1], [1, 0]])
        put("time_whole", "d", ("time_step",), TIMES)
        for number, values in enumerate([U, *np.moveaxis(V, 2, 0)], start=1):
            put(f"vals_nod_var{number}", "d", ("time_step", "num_nodes"), values)
        put("vals_elem_var1eb1", "d", ("time_step", "num_el_in_blk1"), Q[:, :2])
        put("vals_elem_var1eb2", "d", ("time_step", "num_el_in_blk2"), Q[:, 2:])
        put("vals_elem_var2eb1", "d", ("time_step", "num_el_in_blk1"), -Q[:, :2])
    return folder / "a.e"


MAKE = {"pvd": make_pvd, "json": make_json, "directory": make_directory, "xdmf": make_xdmf, "exodus": make_exodus}


def refused(message: str, path: str | Path, **options: Any) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_series(path, **options)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


# ---------------------------------------------------------------------------------------------------------------------
# every format


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_a_trajectory_has_an_axis_of_frames_and_the_true_times(make: Any, tmp_path: Path) -> None:
    path = make(tmp_path)
    assert count_frames(path) == 3
    series = read_series(path)
    assert series.validate()
    assert series.times.dtype == torch.float64
    assert series.times.tolist() == [TIMES]
    assert series.points.tolist() == POINTS.tolist()
    assert series.cell_type.tolist() == [9, 9, 5]
    assert series.cell_index.tolist() == [i for _, block in CELLS for cell in block for i in cell]
    assert torch.equal(series.point_data["u"], torch.from_numpy(U.T))
    assert torch.equal(series.point_data["v"], torch.from_numpy(np.moveaxis(V, 0, 1)))
    assert torch.equal(series.cell_data["q"], torch.from_numpy(Q.T))
    assert "displacement" not in series.point_data
    assert list(series.field_data) == (["blocks"] if path.suffix == ".e" else [])


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_some_frames_and_fields(make: Any, tmp_path: Path) -> None:
    path = make(tmp_path)
    series = read_series(path, fields=["u:point"], frames=slice(1, None), dim=2)
    assert series.times.tolist() == [TIMES[1:]]
    assert (list(series.point_data), list(series.cell_data)) == (["u"], [])
    assert torch.equal(series.point_data["u"], torch.from_numpy(U[1:].T))
    assert series.pos.tolist() == POINTS[:, :2].tolist()
    assert read_series(path, frames=[-1, 0]).times.tolist() == [[TIMES[2], TIMES[0]]]
    refused(r"Expected frames from 0 to 2 \(got 3\)", path, frames=[3])
    refused(r"Expected some of its 3 frames \(got slice\(5, 9, None\)\)", path, frames=slice(5, 9))
    refused(
        r"field 'v:cell' is not in it \(did you mean '.*'\?\); it has u:point, v:point, q:cell", path, fields=["v:cell"]
    )


@pytest.mark.parametrize("suffix", SERIES_FORMATS)
def test_no_file_and_empty_files(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    refused("there is no such file$", path)
    path.touch()
    if suffix == ".foam":  # an empty file names the case in whose directory it lies
        refused("there is no mesh of OpenFOAM", path)
        return
    refused("the file is empty$", path)
    path.write_bytes(b"nothing of the kind" * 9)
    refused("^Cannot read '.*': it is no (valid|netCDF)", path)


def test_unknown_extensions_and_empty_directories(tmp_path: Path) -> None:
    refused(
        r"extensions .pvd, .*, or a directory of mesh files \(got .*\) \(did you mean '.pvd'\?\)", tmp_path / "a.pdv"
    )
    refused(r"there are no mesh files \(.vtu", tmp_path)
    refused(r"there are no mesh files \(.vtu", tmp_path / "a_*.vtu")


def test_exodus_and_hdf5_that_are_cut_short(tmp_path: Path) -> None:
    path = make_exodus(tmp_path)
    path.write_bytes(path.read_bytes()[:-8])
    refused("the file is damaged, or shorter than its counts say$", path)
    path = make_xdmf(tmp_path)
    heavy = path.with_suffix(".h5")
    heavy.write_bytes(heavy.read_bytes()[:-8])
    refused("the HDF5 file beside it: .*truncated", path)
    heavy.unlink()
    refused("the HDF5 file beside it: .*No such file", path)


def test_only_the_frames_that_are_asked_for_are_read(tmp_path: Path) -> None:
    path = make_pvd(tmp_path)
    (tmp_path / "f1.vtu").write_text("damaged")
    assert read_series(path, frames=[2]).point_data["u"][:, 0].tolist() == U[2].tolist()
    refused("'.*f1.vtu': ", path)
    (tmp_path / "f1.vtu").unlink()
    refused("'.*f1.vtu': there is no such file$", path, frames=[1])
    path = make_xdmf(tmp_path)
    with h5py.File(tmp_path / "a.h5", "a") as file:
        used = re.findall(r"a.h5:/(data\d+)", path.read_text().split('<Time Value="0.13')[1].split("</Grid>")[0])
        assert len(used) == 3
        for name in used:
            del file[name]
    assert read_series(path, frames=[0, 2]).point_data["u"].T.tolist() == U[[0, 2]].tolist()
    refused(f"it is no valid XDMF file .*{used[0]}", path)


# ---------------------------------------------------------------------------------------------------------------------
# what fits together


def test_moving_nodes_become_a_displacement_from_the_first_frame(tmp_path: Path) -> None:
    series = read_series(make_pvd(tmp_path, shift=0.5))
    assert series.points.tolist() == POINTS.tolist()
    moves = torch.tensor([[0.0, 0, 0], [0.5, 0, 0], [1, 0, 0]]).double().expand(7, 3, 3)
    assert torch.equal(series.point_data["displacement"], moves)
    later = read_series(tmp_path / "a.pvd", frames=[2], fields=["u"])
    assert later.points.tolist() == POINTS.tolist()
    assert torch.equal(later.point_data["displacement"], moves[:, 2:])
    still = read_series(tmp_path / "a.pvd", frames=[0], fields=["displacement"])
    assert torch.equal(still.point_data["displacement"], moves[:, :1])


@pytest.mark.parametrize("scale", [1.0, 1.01])
def test_a_field_called_displacement_is_kept_and_checked(scale: float, tmp_path: Path) -> None:
    for frame in range(3):
        mesh = grid(frame, 0.5)
        mesh.point_data["displacement"] = np.float32(scale * (mesh.points - POINTS))
        mesh.save(tmp_path / f"f{frame}.vtu")
    if scale == 1:
        assert read_series(tmp_path).point_data["displacement"].dtype == torch.float32
    else:
        refused("its nodes move otherwise than its field 'displacement' says", tmp_path)
        assert read_series(tmp_path, ["u"]).point_data["displacement"].dtype == torch.float64


def test_nodes_that_leave_their_plane_are_refused_in_two_dimensions(tmp_path: Path) -> None:
    for frame in range(2):
        mesh = grid(frame)
        mesh.points[:, 2] += 0.1 * frame * mesh.points[:, 0]
        mesh.save(tmp_path / f"f{frame}.vtu")
    refused(r"its nodes leave their plane; read it as 3-D \(--dim 3\)", tmp_path, dim=2)
    assert read_series(tmp_path).dim == 3


def test_a_field_of_the_first_frame_alone_does_not_change(tmp_path: Path) -> None:
    path = make_pvd(tmp_path)
    first = grid(0)
    first.point_data["wall"] = np.arange(7)
    first.cell_data["normal"] = np.ones((3, 3))
    first.save(tmp_path / "f0.vtu")
    for frames in (None, [0], [1, 2]):
        series = read_series(path, frames=frames)
        assert series.point_data["wall"].tolist() == [[i] for i in range(7)]
        assert series.cell_data["normal"].shape == (3, 1, 3)
    second = grid(1)
    second.point_data["wall"] = np.arange(7)
    second.save(tmp_path / "f1.vtu")
    refused("the field 'wall' is not in frame 2; a field is in all frames, or in the first alone", path)
    assert read_series(path, frames=[0, 1]).point_data["wall"].shape == (7, 2)


def test_fields_that_change_their_kind_are_refused(tmp_path: Path) -> None:
    path = make_pvd(tmp_path)
    mesh = grid(1)
    mesh.point_data["u"] = np.arange(7)
    mesh.save(tmp_path / "f1.vtu")
    refused(
        r"the field 'u' of frame 1 as in the frames before \(got \[7\] of torch.int64, not \[7\] of torch.float64", path
    )


def test_cells_that_change_are_refused(tmp_path: Path) -> None:
    path = make_pvd(tmp_path)
    grid(1).extract_cells([0, 1]).save(tmp_path / "f1.vtu")
    refused("frame 1 has other cells than frame 0, and a trajectory is one mesh", path)
    assert read_series(path, frames=[0, 2]).times.size(1) == 2


def test_times_that_do_not_grow_are_refused(tmp_path: Path) -> None:
    path = make_json(tmp_path)
    path.write_text(path.read_text().replace("0.7", "0.05"))
    refused(r"Expected times that grow \(got 0.133333 at frame 1 and 0.05 at 2\)", path)
    path.write_text(path.read_text().replace("0.05", "NaN"))
    refused("one of its times is not finite", path)


def test_parts_become_one_mesh(tmp_path: Path) -> None:
    entries = []
    for frame in range(3):
        for part, cells in enumerate(([0, 1], [2])):
            grid(frame).extract_cells(cells).save(tmp_path / f"f{frame}_{part}.vtu")
            entries.append((TIMES[frame], str(part), f"f{frame}_{part}.vtu"))
    pvd(tmp_path / "a.pvd", entries)
    series = read_series(tmp_path / "a.pvd")
    assert series.validate()
    assert (series.num_points, series.cell_type.tolist()) == (6 + 3, [9, 9, 5])
    assert series.cell_index[-3:].min() == 6
    assert torch.equal(series.cell_data["q"], torch.from_numpy(Q.T))
    where = [int(np.flatnonzero((point == POINTS).all(1))[0]) for point in series.points.numpy()]
    assert torch.equal(series.point_data["u"], torch.from_numpy(U.T)[where])
    pvd(tmp_path / "b.pvd", [*entries, entries[0]])
    refused("it names two files of part 0 at time 0.1", tmp_path / "b.pvd")
    bare = grid(1).extract_cells([2])
    bare.point_data.remove("u")
    bare.save(tmp_path / "f1_1.vtu")
    refused(r"Expected the same fields in all parts of a frame \(some lack u\)", tmp_path / "a.pvd")


def test_parallel_files_hide_their_pieces(tmp_path: Path) -> None:
    arrays = "<PPointData><PDataArray type='Float64' Name='u'/></PPointData><PPoints>"
    arrays += "<PDataArray type='Float64' NumberOfComponents='3'/></PPoints>"
    for frame in range(2):
        for piece, cells in enumerate(([0, 1], [2])):
            grid(frame).extract_cells(cells).save(tmp_path / f"f{frame}_{piece}.vtu")
        pieces = "".join(f"<Piece Source='f{frame}_{piece}.vtu'/>" for piece in range(2))
        text = f"<PUnstructuredGrid GhostLevel='0'>{arrays}{pieces}</PUnstructuredGrid>"
        (tmp_path / f"f{frame}.pvtu").write_text(f"<VTKFile type='PUnstructuredGrid' version='0.1'>{text}</VTKFile>")
    series = read_series(tmp_path)
    assert series.times.tolist() == [[0, 1]]
    assert series.cell_type.tolist() == [9, 9, 5]
    assert series.point_data["u"].shape == (9, 2)


def test_numbers_in_names_are_times_where_files_have_none(tmp_path: Path) -> None:
    for number in (5, 10, 100):
        grid(0).save(tmp_path / f"run2_{number}.vtk")
    assert read_series(tmp_path).times.tolist() == [[5, 10, 100]]
    assert read_series(str(tmp_path / "run2_1*.vtk")).times.tolist() == [[10, 100]]
    grid(0).save(tmp_path / "mesh.vtk")
    refused("'.*mesh.vtk' has neither a field TimeValue nor a number in its name, so no time", tmp_path)


def test_xdmf_with_a_mesh_in_every_frame(tmp_path: Path) -> None:
    path = make_xdmf(tmp_path, "XML")
    text = path.read_text()
    mesh = text[text.index('<Grid Name="mesh"') :].partition(">")[2].partition("</Grid>")[0]
    for frame in range(3):
        moved = mesh.replace("2.0000000000000000e+00", f"{2 + frame}.0")
        text = re.sub(r"<ns0:include[^>]*/>", moved, text, count=1)
    path.write_text(text)
    series = read_series(path)
    moves = series.point_data["displacement"]
    assert torch.equal(moves[:, :, 0], torch.tensor(POINTS[:, :1] == 2) * torch.arange(3.0))
    assert torch.equal(series.point_data["u"], torch.from_numpy(U.T))


def test_a_variable_of_some_exodus_blocks_is_not_a_number_in_the_others(tmp_path: Path) -> None:
    some = read_series(make_exodus(tmp_path)).cell_data["some"]
    assert torch.equal(some[:2], torch.from_numpy(-Q.T[:2]))
    assert bool(some[2].isnan().all())


def test_trajectories_of_different_meshes_are_batched(tmp_path: Path) -> None:
    one = read_series(make_xdmf(tmp_path))
    pv.Plane(i_resolution=2, j_resolution=1).save(tmp_path / "p_0.vtp")
    pv.Plane(i_resolution=2, j_resolution=1).save(tmp_path / "p_1.vtp")
    pv.Plane(i_resolution=2, j_resolution=1).save(tmp_path / "p_4.vtp")
    other = read_series(str(tmp_path / "p_*.vtp"))
    batch = next(iter(DataLoader([one, other], batch_size=2)))
    assert batch.times.tolist() == [TIMES, [0, 1, 4]]
    back = batch.to_data_list()
    assert torch.equal(back[0].point_data["u"], one.point_data["u"])
    assert torch.equal(back[1].cell_index, other.cell_index)


def test_written_trajectories_come_back(tmp_path: Path) -> None:
    series = read_series(make_exodus(tmp_path), frames=[0, 2])
    series.cell_data["some"] = series.cell_data["some"][:, :1].nan_to_num()
    for name in ("b.pvd", "b.xdmf"):
        write_series(tmp_path / name, series)
        again = read_series(tmp_path / name)
        assert again.times.tolist() == series.times.tolist()
        assert again.point_data == series.point_data
        assert torch.equal(again.cell_data["some"], series.cell_data["some"].expand(-1, 2))
    series.point_data["u"] = series.point_data["u"][:, [0, 0, 0]]
    with pytest.raises(InputError, match=r"Expected 2 frames of u, as there are times \(got \[7, 3\]\)"):
        write_series(tmp_path / "c.pvd", series)
