"""PhysGTO's transient sets on small meshes in the layout of the official files."""

import h5py
import numpy as np
import pytest
import torch

from meshop.data import InputError
from meshop.datasets import HeatFlow, ICPPlasma

FIELDS = {HeatFlow: ("u", "v", "p", "T"), ICPPlasma: ("n_e", "T_e", "v", "T_n")}


def fan(nodes):
    """A disc of triangles around node 0."""
    turn = np.linspace(0, 2 * np.pi, nodes - 1, endpoint=False)
    rim = np.arange(1, nodes)
    points = np.concatenate([[[0.0, 0.0]], np.stack([np.cos(turn), np.sin(turn)], 1)])
    return points, np.stack([np.zeros_like(rim), rim, np.roll(rim, -1)], axis=1)


def case(kind, number, nodes, frames):
    """Values that tell field, case, frame and node."""
    points, cells = fan(nodes)
    place = number * 10000 + 100.0 * np.arange(frames)[:, None] + np.arange(nodes)
    arrays = {
        "cells": cells.astype(np.int32),
        "node_pos": points,
        "node_type": np.minimum(np.arange(nodes), 3).astype(np.int32),
        "t": 0.02 * np.arange(frames)[:, None],
    }
    arrays |= {name: (place + i / 4).astype(np.float32) for i, name in enumerate(FIELDS[kind])}
    return arrays | ({"conditions": number + np.arange(5) / 8} if kind is HeatFlow else {})


def write(root, kind=HeatFlow, frames=40, **replace):
    """Three cases of 5, 6 and 7 nodes; the last is listed as on the authors' machine and is there to test on."""
    raw = root / "raw"
    raw.mkdir()
    for number in range(3):
        with h5py.File(raw / f"case_{number}.h5", "w") as file:
            for name, array in (case(kind, number, 5 + number, frames) | replace).items():
                if array is not None:
                    file[name] = array
    (raw / "train.txt").write_text("case_1.h5\ncase_0.h5\n\n")
    (raw / "test.txt").write_text("../../data/task2/Heat_Transfer/case_2.h5\n")
    return root


def test_heat_flow(tmp_path):
    flows = HeatFlow(write(tmp_path), T_in=3, T_out=2, fields=("T", "u"))
    assert flows.splits == {"train": [0, 1], "test": [2]}
    assert flows.origin == "official files"
    assert [mesh.name for mesh in flows] == ["case_1_0025", "case_0_0025", "case_2_0025"]
    assert [mesh.num_nodes for mesh in flows] == [6, 5, 7]
    assert (flows.spec.in_channels, flows.spec.out_channels) == (2 + 1 + 6, 4)
    assert [f.unit for f in flows.spec.targets] == ["K", ""]
    mesh = flows[0]
    assert mesh.validate()
    points, cells = fan(6)
    assert np.array_equal(mesh.points[:, :2], points)
    assert np.array_equal(mesh.cell_index.view(-1, 3), cells)
    assert mesh.point_data["node_type"].tolist() == [0, 1, 2, 3, 3, 3]
    assert mesh.x[:, 2].tolist() == [0, 1, 1, 1, 1, 1]
    place = 10000 + 100.0 * np.arange(40) + np.arange(6)[:, None]  # [N, frames]
    inputs = np.concatenate([place[:, 25:28] + 0.75 - 293.15, place[:, 25:28]], axis=1)
    targets = np.concatenate([place[:, 28:30] + 0.75 - 293.15, place[:, 28:30]], axis=1)
    assert np.allclose(mesh.x[:, 3:], inputs, rtol=1e-6)
    assert np.allclose(mesh.y, targets, rtol=1e-6)
    assert mesh.times[0].tolist() == pytest.approx([0.5, 0.52, 0.54, 0.56, 0.58])
    assert mesh.field_data["conditions"].tolist() == [1, 1.125, 1.25, 1.375, 1.5]


def test_windows_at_given_frames(tmp_path):
    flows = HeatFlow(write(tmp_path), T_in=1, T_out=1, train_starts=(0,), test_starts=(0, 38))
    assert flows.splits == {"train": [0, 1], "test": [2, 3]}
    assert [f.name for f in flows.spec.targets] == ["u_out", "v_out"]
    mesh = flows.split("test")[1]
    assert mesh.name == "case_2_0038"
    assert mesh.y.tolist() == [[23900.0 + i, 23900.25 + i] for i in range(7)]
    assert mesh.times[0].tolist() == pytest.approx([0.76, 0.78])
    assert torch.equal(mesh.edge_index, flows[2].edge_index)


def test_random_windows_and_all_lie_in_the_frames_that_the_authors_use(tmp_path, monkeypatch):
    monkeypatch.setattr(HeatFlow, "last", 33)
    flows = HeatFlow(write(tmp_path), T_in=3, T_out=2, train_starts="random", test_starts="all")
    assert flows.splits == {"train": [0, 1], "test": [2, 3, 4, 5]}
    assert [mesh.name for mesh in flows.split("test")] == [f"case_2_{start:04d}" for start in (25, 26, 27, 28)]
    drawn = [flows[1] for _ in range(30)]
    assert {mesh.name for mesh in drawn} == {f"case_0_{start:04d}" for start in (25, 26, 27, 28)}
    for mesh in drawn[:9]:
        start = int(mesh.name[-4:])
        assert mesh.y[0, :2].tolist() == [100.0 * (start + 3), 100.0 * (start + 4)]
        assert mesh.times[0].tolist() == pytest.approx([0.02 * (start + i) for i in range(5)])
    monkeypatch.setattr(HeatFlow, "last", 29)
    with pytest.raises(InputError, match=r"^Expected at least 30 frames in '.*case_1.h5' \(got 29\)$"):
        HeatFlow(tmp_path, T_in=3, T_out=2, train_starts="random")


def test_the_conditions_are_parameters_where_they_are_asked_for(tmp_path):
    flows = HeatFlow(write(tmp_path), T_in=1, T_out=1, conditions=True)
    assert flows.spec.params == ("inflow", "warmth", "distance", "radius", "angle")
    assert flows[0].params.tolist() == [[1, 1.125, 1.25, 1.375, 1.5]]
    assert flows.split("test")[0].params.tolist() == [[2, 2.125, 2.25, 2.375, 2.5]]
    assert "params" not in HeatFlow(tmp_path, T_in=1, T_out=1)[0]


def test_icp_plasma(tmp_path):
    plasma = ICPPlasma(write(tmp_path, ICPPlasma, frames=12))
    assert plasma.splits == {"train": [0, 1], "test": [2]}
    assert [f.name for f in plasma.spec.targets] == ["n_e_out", "T_e_out", "v_out", "T_n_out"]
    mesh = plasma[2]
    assert mesh.validate()
    assert mesh.point_data["T_n_out"][4].tolist() == [20504.75, 20604.75, 20704.75, 20804.75, 20904.75]
    assert list(mesh.field_data) == []
    every = ICPPlasma(tmp_path, train_starts="random", test_starts="all")
    assert [mesh.name for mesh in every.split("test")] == ["case_2_0000", "case_2_0001", "case_2_0002"]


def test_cases_of_one_name_are_refused(tmp_path):
    write(tmp_path)
    (tmp_path / "raw" / "other").mkdir()
    (tmp_path / "raw" / "case_2.h5").rename(tmp_path / "raw" / "other" / "case_0.h5")
    (tmp_path / "raw" / "test.txt").write_text("other/case_0.h5")
    with pytest.raises(InputError, match=r"^Expected cases of different names \(got '.*case_0.h5' and '.*other/case_0"):
        HeatFlow(tmp_path)


def test_absent_files_are_named(tmp_path):
    for kind in (HeatFlow, ICPPlasma):
        with pytest.raises(
            InputError, match=rf"^{kind.__name__} needs train.txt, test.txt and .* in '.*raw'; get them "
        ):
            kind(tmp_path / "empty")
    (write(tmp_path) / "raw" / "case_2.h5").unlink()
    message = (
        r"^'.*test.txt' lists ../../data/task2/Heat_Transfer/case_2.h5, but there is no '.*raw/case_2.h5'; put the"
    )
    with pytest.raises(InputError, match=message):
        HeatFlow(tmp_path)


@pytest.mark.parametrize(
    ("replace", "message"),
    [
        ({"cells": np.zeros((3, 4), int)}, r"^Expected cells of shape \[any, 3\] in '.*case_1.h5' \(got \[3, 4\]\)$"),
        ({"cells": np.array([[1, 2, 99]])}, r"^Expected the nodes of cells in '.*' to be numbered from 0 to 5"),
        ({"node_pos": np.zeros((6, 3))}, r"^Expected node_pos of shape \[any, 2\]"),
        ({"node_type": np.zeros((6, 1))}, r"^Expected node_type of shape \[6\] in"),
        (
            {"u": np.zeros((40, 9))},
            r"^Expected 10 frames of u on a grid of \[6\] from frame 25 of 'case_1' .* \(got \[10, 9\]\)$",
        ),
        ({"t": np.zeros((40, 2))}, r"^Expected t of shape \[any, 1\]"),
        ({"t": np.zeros((34, 1))}, r"^Expected at least 35 frames in '.*case_1.h5' \(got 34\)$"),
        ({"conditions": np.zeros(4)}, r"^Expected conditions of shape \[5\]"),
        ({"v": None}, r"^Expected v in '.*case_1.h5' \(it has .*\)$"),
    ],
)
def test_another_layout_is_refused(tmp_path, replace, message):
    with pytest.raises(InputError, match=message):
        HeatFlow(write(tmp_path, **replace))[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fields": ["w"]}, r"^Expected fields of u, v, p, T \(got w\)$"),
        ({"fields": []}, r"^Expected fields of u, v, p, T \(got none\)$"),
        ({"T_in": 0}, r"^Expected T_in and T_out of 1 or more \(got 0 and 5\)$"),
        (
            {"train_starts": [-1]},
            r"^Expected starts from 0 to 30 for windows of 10 frames, all or random \(got \[-1\]\)$",
        ),
        (
            {"test_starts": "none"},
            r"^Expected starts from 0 to 5 for windows of 10 frames, all or random \(got 'none'\)$",
        ),
        ({"train_starts": [31]}, r"^Expected at least 41 frames in '.*case_1.h5' \(got 40\)$"),
    ],
)
def test_windows_that_there_are_not_are_refused(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        HeatFlow(write(tmp_path), **options)
