"""Windows of trajectories: which frames, in which channels."""

import pytest
import torch
from torch_geometric.loader import DataLoader

from meshop.data import Field, FieldSpec, InputError, MeshData
from meshop.rollout import Rollout, Stepper
from meshop.transforms import Window

N, T = 4, 7


def trajectory(dim: int = 2) -> MeshData:
    """Value = 100 node + 10 frame + component, at times 0, 1, 4, 9, ..."""
    mesh = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], cell_type=[9], cells=[[0, 1, 2, 3]])
    if dim == 3:
        mesh.pos = mesh.points.float()
    node, frame = torch.arange(N)[:, None], torch.arange(T)[None]
    u = 100.0 * node + 10 * frame
    v = torch.stack([u, u + 1, 0 * u], dim=2)
    mesh.point_data = {"u": u, "v": v, "load": u[:, :1], "normal": v[:, :1], "same": u[:, :1].expand(-1, T)}
    mesh.point_data = type(mesh.cell_data)(mesh.point_data)
    mesh.cell_data["q"] = torch.arange(T)[None]
    mesh.times = torch.arange(T).double()[None] ** 2
    return mesh


def test_frames_and_channels() -> None:
    mesh = trajectory()
    window = Window(T_in=2, T_out=3, fields=["u", "v:point", "q"], start=1)(mesh)
    node = 100.0 * torch.arange(N)
    assert torch.equal(window.point_data["u_in"], node[:, None] + torch.tensor([10.0, 20]))
    assert torch.equal(window.point_data["u_out"], node[:, None] + torch.tensor([30.0, 40, 50]))
    assert torch.equal(window.point_data["v_out"], node[:, None] + torch.tensor([30.0, 31, 40, 41, 50, 51]))
    assert window.cell_data["q_in"].tolist() == [[1, 2]]
    assert window.times.tolist() == [[1, 4, 9, 16, 25]]
    assert torch.equal(window.point_data["load"], node)
    assert torch.equal(window.point_data["normal"], torch.stack([node, node + 1, 0 * node], 1))
    assert torch.equal(window.point_data["same"], node)
    assert "u" not in window.point_data
    assert mesh.times.size(1) == T  # the trajectory is as it was
    assert "u" in mesh.point_data


def test_vectors_of_space_keep_three_components_and_fields_that_change_are_left_out() -> None:
    window = Window(1, 1, ["v"])(trajectory(dim=3))
    assert window.point_data["v_out"][2].tolist() == [210, 211, 0]
    assert "u" not in window.point_data
    mesh = trajectory()
    mesh.point_data["v"][0, 0, 2] = 1
    with pytest.raises(InputError, match="Field 'v' has a component normal to the plane"):
        Window(1, 1, ["v"])(mesh)


def test_steps_between_frames_and_between_starts() -> None:
    window = Window(1, 2, ["u"], frames_step=3)(trajectory())
    assert window.times.tolist() == [[0, 9, 36]]
    assert window.point_data["u_out"][0].tolist() == [30, 60]
    drawn = {Window(1, 2, ["u"], start="random")(trajectory()).times[0, 0].item() for _ in range(99)}
    assert drawn == {0, 1, 4, 9, 16}
    drawn = {Window(1, 2, ["u"], start="random", stride=2)(trajectory()).times[0, 0].item() for _ in range(99)}
    assert drawn == {0, 4, 16}


def test_a_window_is_that_of_a_rollout() -> None:
    window = Window(2, 2, ["u", "v"], start=2)(trajectory())
    fields = [Field(f"{n}_{k}", "point", c * 2) for k in ("in", "out") for n, c in (("u", 1), ("v", 2))]
    spec = FieldSpec(tuple(fields[2:]), tuple(fields[:2]), dim=2)
    stepper = Stepper(spec, Rollout(T_in=2))
    data = spec.pack(window)
    value = 100.0 * torch.arange(N)[:, None, None] + 10 * torch.arange(2, 6)[None, :, None] + torch.tensor([0, 0, 1])
    assert torch.equal(torch.cat([stepper.history(data.x), stepper.truth(data.y)], 1), value)


def test_windows_are_batched() -> None:
    batch = next(iter(DataLoader([Window(1, 2, ["u"], start=i)(trajectory()) for i in (0, 3)], batch_size=2)))
    assert batch.times.tolist() == [[0, 1, 4], [9, 16, 25]]


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match=r"Expected at least 8 frames for the window \(got 7\)"):
        Window(1, 7, ["u"])(trajectory())
    with pytest.raises(InputError, match=r"Expected a start from 0 to 4, first or random \(got 5\)"):
        Window(1, 2, ["u"], start=5)(trajectory())
    with pytest.raises(InputError, match=r"Expected a start of first, random or a number \(got 'last'\)"):
        Window(1, 2, ["u"], start="last")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"of at least 1, and T_out of at least 0 \(got 1, 0, 1 and 2\)"):
        Window(1, 2, ["u"], stride=0)
    with pytest.raises(InputError, match=r"Field 'w' is not in the trajectory.*; it has u:point, v:point, .*q:cell"):
        Window(1, 2, ["u", "w"])(trajectory())
    mesh = trajectory()
    mesh.point_data["u"] = mesh.point_data["u"][:, :5]
    with pytest.raises(InputError, match=r"Expected 7 frames of the field 'u' \(got \[4, 5\]\)"):
        Window(1, 2, ["v"])(mesh)
    assert Window(T, 0, ["q"])(trajectory()).cell_data["q_out"].shape == (1, 0)  # the history alone
    assert repr(Window(1, 2, ["u"])) == "Window(1, 2, ['u'], start='first')"
