"""Steps in time on windows of w' = 2 w and the like, whose losses and gradients can be worked out by hand."""

import gc
from itertools import islice

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from meshop.data import Field, FieldSpec, InputError
from meshop.models import CANO
from meshop.rollout import Rollout, Stepper
from meshop.train import Recipe, Surrogate


def spec(T_in: int = 1, T_out: int = 3, params: tuple[str, ...] = ()) -> FieldSpec:
    inputs = (Field("wall", "point"), Field("w_in", "point", T_in))
    return FieldSpec((Field("w_out", "point", T_out),), inputs, params, dim=2, position=False)


def window(frames: Tensor, T_in: int = 1, wall: tuple[float, ...] = (0.0, 0.0), **keys: Tensor) -> Data:
    """A window of frames [N, T] of one field."""
    x = torch.cat([torch.tensor(wall)[:, None], frames[:, :T_in]], 1)
    return Data(x=x, y=frames[:, T_in:], pos=torch.tensor([[0.0, 0], [1, 0]]), num_nodes=2, **keys)


FRAMES = torch.tensor([[1.0, 3, 5, 11], [2.0, 4, 10, 18]])


class Factor(nn.Module):
    """The last frame of the history times a learnt number, for every frame of a call."""

    def __init__(self, frames: int = 1, value: float = 2.0) -> None:
        super().__init__()
        self.frames = frames
        self.value = nn.Parameter(torch.tensor(value))

    def forward(self, x: Tensor) -> Tensor:
        return self.value * x[:, -1:].expand(-1, self.frames)


def surrogate(model: nn.Module, T_out: int = 3, epochs: int = 10, **rollout: object) -> Surrogate:
    made = Rollout(**rollout)  # type: ignore[arg-type]
    return Surrogate(model, spec(made.T_in, T_out), None, Recipe(epochs=epochs), None, made)


def loss_of(surrogate: Surrogate, data: Data) -> Tensor:
    surrogate.log = lambda *args, **kwargs: None  # type: ignore[method-assign]  # there is no trainer
    (batch,) = DataLoader([data], batch_size=1)
    return surrogate.training_step(batch, 0)


def ratio(p: list[float], y: list[float]) -> float:
    return float((Tensor(p) - Tensor(y)).norm() / Tensor(y).norm())


def test_teacher_forcing_sees_the_truth_before_every_call() -> None:
    found = loss_of(surrogate(Factor(), teacher=True), window(FRAMES))
    steps = [ratio([2, 4], [3, 4]), ratio([6, 8], [5, 10]), ratio([10, 20], [11, 18])]
    assert found.item() == pytest.approx(sum(steps) / 3)


def test_an_unrolled_step_sees_its_own_predictions_and_learns_through_them() -> None:
    """Of w_n = a^n w_0: a loss with the factor a^n, and the gradient with n a^(n - 1)."""
    model = Factor()
    found = loss_of(surrogate(model), window(FRAMES))
    steps = [ratio([2, 4], [3, 4]), ratio([4, 8], [5, 10]), ratio([8, 16], [11, 18])]
    assert found.item() == pytest.approx(sum(steps) / 3)
    found.backward()
    a = torch.tensor(2.0, requires_grad=True)
    expected = sum((a**n * FRAMES[:, 0] - FRAMES[:, n]).norm() / FRAMES[:, n].norm() for n in (1, 2, 3)) / 3
    expected.backward()
    assert model.value.grad.item() == pytest.approx(a.grad.item())


@pytest.mark.parametrize("last", [1, 2])
def test_gradients_go_through_the_last_calls_only(last: int) -> None:
    """The calls before are as those of a fixed model: with one, this is the push-forward trick."""
    model = Factor()
    found = loss_of(surrogate(model, gradient=last), window(FRAMES))
    found.backward()
    a = torch.tensor(2.0, requires_grad=True)
    start = 2.0 ** (3 - last) * FRAMES[:, 0]
    terms = [
        (a**n * start - FRAMES[:, 3 - last + n]).norm() / FRAMES[:, 3 - last + n].norm() for n in range(1, last + 1)
    ]
    expected = sum(terms) / last
    expected.backward()
    assert found.item() == pytest.approx(expected.item())
    assert model.value.grad.item() == pytest.approx(a.grad.item())


def test_a_block_is_one_call() -> None:
    found = loss_of(surrogate(Factor(3), frames=3), window(FRAMES))
    assert found.item() == pytest.approx(float((2 * FRAMES[:, :1] - FRAMES[:, 1:]).norm() / FRAMES[:, 1:].norm()))


def test_increments_are_added_to_the_last_frame() -> None:
    found = surrogate(Factor(value=1.0), increment=True)(window(FRAMES))
    torch.testing.assert_close(found, FRAMES[:, :1] * torch.tensor([2.0, 4, 8]))


def test_the_window_grows_with_the_epochs() -> None:
    made = surrogate(Factor(), epochs=4, grow=0.5)
    found = []
    for epoch in range(4):
        made.__class__.current_epoch = property(lambda self, epoch=epoch: epoch)  # type: ignore[misc]
        found.append(loss_of(made, window(FRAMES)).item())
    del made.__class__.current_epoch
    steps = [ratio([2, 4], [3, 4]), ratio([4, 8], [5, 10]), ratio([8, 16], [11, 18])]
    assert found == pytest.approx([steps[0], sum(steps[:2]) / 2, sum(steps) / 3, sum(steps) / 3])


def test_forced_nodes_have_the_truth_and_then_the_last_that_is_known() -> None:
    made = surrogate(Factor(), forced="wall")
    data = window(FRAMES, wall=(1.0, 0.0))
    torch.testing.assert_close(made(data), torch.tensor([[3.0, 5, 11], [4, 8, 16]]))
    truth = made.stepper.truth(data.y)
    five = torch.cat(list(islice(made.stepper.march(made.call, data, truth), 5)), 1)
    torch.testing.assert_close(five[0, :, 0], torch.tensor([3.0, 5, 11, 11, 11]))
    del data.y
    torch.testing.assert_close(made(data)[0], torch.ones(3))
    assert loss_of(made, window(FRAMES, wall=(1.0, 1.0))).item() == 0


def test_noise_is_in_the_history_of_training_only() -> None:
    made = surrogate(Factor(), teacher=True, noise=0.1, forced="wall")
    made.x_norm.std.fill_(3.0)
    data = window(FRAMES, wall=(1.0, 0.0))
    seen: list[Tensor] = []

    class Watch(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(3 * x[:, -1])
            return x[:, -1:]

    made.model = Watch()
    torch.manual_seed(0)
    for _ in range(200):
        loss_of(made, data)
    shift = torch.stack(seen).view(200, 3, 2) - FRAMES[:, :3].T
    assert shift[..., 0].abs().max() < 1e-5  # forced
    assert shift[..., 1].std().item() == pytest.approx(0.3, rel=0.1)
    seen.clear()
    made(data)
    torch.testing.assert_close(seen[0], FRAMES[:, 0])


def test_time_and_its_step_follow_the_calls() -> None:
    class Time(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return 100 * x[:, -2:-1] + x[:, -1:]

    made = Surrogate(Time(), spec(2, 2, ("time", "mach", "dt")), None, Recipe(), None, Rollout(T_in=2))
    x = torch.zeros(2, 3)
    data = Data(x=x, params=torch.tensor([[0.0, 7, 0]]), times=torch.tensor([[0.0, 1, 3, 6]]), num_nodes=2)
    seen = []
    made.model.forward = lambda x: (seen.append(x[0, 3:].tolist()), x[:, :1])[1]
    list(islice(made.stepper.march(made.call, data), 4))
    assert seen == [[1, 7, 2], [3, 7, 3], [6, 7, 3], [9, 7, 3]]
    assert data.params.tolist() == [[0, 7, 0]]


def test_fields_of_several_components_keep_their_places() -> None:
    """Two frames of p and of a vector v: what goes out as frames comes back as packed targets."""
    fields = FieldSpec(
        (Field("v_out", "point", 6), Field("p_out", "point", 3)),
        (Field("p_in", "point", 2), Field("v_in", "point", 4)),
        dim=2,
    )
    stepper = Stepper(fields, Rollout(T_in=2))
    x = torch.tensor([[0.0, 0, 10, 11, 20, 21, 30, 31]])  # pos | p of two frames | v of two frames
    assert stepper.history(x).tolist() == [[[20, 21, 10], [30, 31, 11]]]
    y = torch.arange(9.0)[None]
    assert stepper.truth(y).tolist() == [[[0, 1, 6], [2, 3, 7], [4, 5, 8]]]
    torch.testing.assert_close(stepper.pack(stepper.truth(y)), y)
    assert {k: v.shape[-1] for k, v in stepper.split(stepper.truth(y)).items()} == {"v": 2, "p": 1}


def test_all_frames_of_a_component_share_their_statistics() -> None:
    made = surrogate(Factor(), T_out=2, T_in=2)
    made.fit_normalizers([window(FRAMES, 2)])
    both = FRAMES[:, :2]
    torch.testing.assert_close(made.x_norm.mean[1:], both.mean().expand(2))
    torch.testing.assert_close(made.x_norm.std[1:], both.std(correction=0).expand(2))
    torch.testing.assert_close(made.y_norm.mean, FRAMES[:, 2:].mean()[None])
    changes = surrogate(Factor(), T_out=2, T_in=2, increment=True)
    changes.fit_normalizers([window(FRAMES, 2)])
    torch.testing.assert_close(changes.y_norm.mean, FRAMES[:, 1:].diff(dim=1).mean()[None])


def test_a_batch_of_different_meshes_is_exact() -> None:
    torch.manual_seed(0)
    fields = FieldSpec((Field("w_out", "point", 20),), (Field("w_in", "point", 2),), dim=2)
    made = Surrogate(
        CANO(4, 16, 2, 1, heads=2, num_clusters=4), fields, None, Recipe(), None, Rollout(T_in=2, increment=True)
    )
    made.y_norm.std.fill_(0.1)
    meshes = [Data(x=torch.randn(n, 4), pos=torch.randn(n, 2), measure=torch.rand(n)) for n in (5, 90, 1, 33)]
    (batch,) = DataLoader(meshes, batch_size=4)
    with torch.no_grad():
        together, alone = made(batch), torch.cat([made(mesh) for mesh in meshes])
    assert (together - alone).norm() < 1e-5 * alone.norm()
    assert (alone[:, -1] - alone[:, 0]).norm() > 1e-3 * alone.norm()


def test_a_checkpoint_knows_its_rollout(tmp_path: object) -> None:
    made = surrogate(Factor(), gradient=2, noise=0.1)
    state: dict[str, object] = {}
    made.on_save_checkpoint(state)
    assert Rollout(**state["meshop"]["rollout"]) == made.stepper.rollout  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"T_in": 0}, "T_in of at least 1"),
        ({"frames": 0}, "frames of at least 1"),
        ({"gradient": 0}, "gradient of at least 1"),
        ({"grow": 2.0}, "grow from 0 to 1"),
        ({"noise": -1.0}, "noise of at least 0"),
        ({"frames": 2}, "a multiple of 2 frames"),
        ({"forced": "roof"}, "names? an input of one component: wall"),
        ({"T_in": 2}, "Expected 2 frames in w_in"),
    ],
)
def test_what_a_rollout_refuses(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Stepper(spec(1, 3), Rollout(**arguments))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="needs an input v_in for the target v_out"):
        Stepper(FieldSpec((Field("v_out", "point"),), ()), Rollout())


def test_a_rollout_goes_on_beyond_the_window_frame_by_frame() -> None:
    made = surrogate(Factor(2), T_out=2, frames=2)
    found = torch.stack([frame["w"] for frame in made.rollout(window(FRAMES[:, :3]), 5)], 1)
    torch.testing.assert_close(found, FRAMES[:, :1] * torch.tensor([2.0, 2, 4, 4, 8]))
    assert not torch.is_inference_mode_enabled()


def test_a_rollout_stops_where_it_is_not_finite_and_keeps_what_came_before() -> None:
    made, found = surrogate(Factor(value=1e20)), []
    with pytest.raises(InputError, match="Step 2 of the rollout is not finite: w at 2 of 2 nodes"):
        found.extend(made.rollout(window(FRAMES), 9))
    assert len(found) == 1
    with pytest.raises(InputError, match="a model with a rollout"):
        next(Surrogate(Factor(), spec(), None, Recipe()).rollout(window(FRAMES), 1))


def test_the_mean_is_that_of_the_histories() -> None:
    made = surrogate(Factor(), T_out=2, T_in=2, increment=True)
    made.fit_normalizers([window(FRAMES, 2)])
    torch.testing.assert_close(made.mean(window(FRAMES, 2)), FRAMES[:, :2].mean().expand(2, 2))


def test_one_time_does_not_say_how_long_a_step_is() -> None:
    made = Surrogate(Factor(), spec(1, 1, ("dt",)), None, Recipe(), None, Rollout())
    data = Data(x=torch.zeros(2, 2), params=torch.zeros(1, 1), times=torch.zeros(1, 1), num_nodes=2)
    with pytest.raises(InputError, match="two times at least to know the step for the parameter dt"):
        made(data)


def test_eight_meshes_at_once_are_as_one_by_one() -> None:
    torch.manual_seed(0)
    fields = FieldSpec((Field("w_out", "point", 50),), (Field("w_in", "point"),), dim=2)
    made = Surrogate(CANO(3, 8, 2, 1, heads=2, num_clusters=4), fields, None, Recipe(), None, Rollout(increment=True))
    made.y_norm.std.fill_(0.02)
    meshes = [Data(x=torch.randn(n, 3), pos=torch.randn(n, 2)) for n in (40, 3, 17, 90, 1, 64, 25, 8)]
    made = made.double()
    for mesh in meshes:
        mesh.x, mesh.pos = mesh.x.double(), mesh.pos.double()
    (batch,) = DataLoader(meshes, batch_size=8)
    together = torch.stack([frame["w"] for frame in made.rollout(batch, 50)], 1)
    alone = torch.cat([torch.stack([frame["w"] for frame in made.rollout(mesh, 50)], 1) for mesh in meshes])
    assert (together - alone).norm() < 1e-6 * alone.norm()
    assert (together[:, -1] - together[:, 0]).norm() > 0.01 * alone[:, -1].norm()


def alive() -> float:
    """MB of all tensors that there are. What the process holds besides depends on what ran in it before."""
    found = [o.untyped_storage() for o in gc.get_objects() if type(o) in (Tensor, nn.Parameter)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in found}.values()) / 1e6


@pytest.mark.slow
def test_memory_does_not_grow_with_the_steps() -> None:
    """200 steps of 200,000 nodes: the frames alone would be 160 MB."""
    fields = FieldSpec((Field("w_out", "point"),), (Field("w_in", "point"),), dim=2)
    made = Surrogate(CANO(3, 8, 1, 1, heads=2, num_clusters=4), fields, None, Recipe(), None, Rollout(increment=True))
    data = Data(x=torch.randn(200_000, 3), pos=torch.randn(200_000, 2))
    held = []
    for number, frame in enumerate(made.rollout(data, 200), start=1):
        assert frame["w"].shape == (200_000,)
        if number % 20 == 0:
            held.append(alive())
    assert len(held) == 10
    assert held[0] > 4 * 200_000 * 6 / 1e6  # the data are among them
    assert held[-1] < held[0] + 1
