"""Training: physical units, exact accumulation, runs that resume where they were, errors of one sentence."""

import csv
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from conftest import strip
from torch import nn
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphSAGE
from torch_geometric.transforms import Compose

import meshop.train
from meshop.chunks import call_in_chunks
from meshop.data import Field, FieldSpec, InputError, MeshData
from meshop.models import CANO
from meshop.train import Recipe, Surrogate, estimate_memory, evaluate, fit, summarise
from meshop.transforms import CellsToEdges, NodeMeasure

GRAPH = Compose([CellsToEdges(), NodeMeasure()])


def cases(count: int, targets: tuple[str, ...] = ("p", "u")) -> tuple[list[MeshData], FieldSpec]:
    meshes = [GRAPH(strip(3 + i % 3, 4 + i % 2, seed=i)) for i in range(count)]
    spec = FieldSpec.resolve(meshes[0], targets, inputs=["load"])
    packed = [spec.pack(m) for m in meshes]
    for i, mesh in enumerate(packed):
        mesh.name = f"case{i}"
    return packed, spec


def small(spec: FieldSpec, seed: int = 0, **recipe: object) -> Surrogate:
    torch.manual_seed(seed)
    model = CANO(spec.in_channels, 16, 2, spec.out_channels, heads=2, num_clusters=4)
    return Surrogate(model, spec, GRAPH, Recipe(**{"epochs": 2, "batch_size": 2, **recipe}))  # type: ignore[arg-type]


def test_a_large_mesh_is_predicted_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    data, spec = cases(1)
    surrogate = small(spec)
    surrogate.fit_normalizers(data)
    whole = surrogate.predict(data[0], chunk=None)
    sizes: list[int] = []

    def counted(model: nn.Module, mesh: MeshData, size: int) -> torch.Tensor:
        sizes.append(size)
        return call_in_chunks(model, mesh, size)

    monkeypatch.setattr(meshop.train, "call_in_chunks", counted)
    for chunk, free in ((5, 1e12), ("auto", 1e12), ("auto", 1.0)):
        monkeypatch.setattr(meshop.train, "free_memory", lambda free=free: free)
        monkeypatch.setattr(meshop.train, "CHUNK", 4)
        part = surrogate.predict(data[0], chunk=chunk)  # type: ignore[arg-type]
        torch.testing.assert_close(part.point_data["p_pred"], whole.point_data["p_pred"], rtol=1e-5, atol=1e-6)
    assert sizes == [5, 4]
    assert surrogate.chunk is None


def test_checkpointed_activations_train_alike(tmp_path: Path) -> None:
    data, spec = cases(4)
    runs = [
        fit(small(spec, activation_checkpointing=on), data, None, tmp_path / str(on), device="cpu").state_dict()
        for on in (False, True)
    ]
    for name, value in runs[0].items():
        torch.testing.assert_close(runs[1][name], value, rtol=1e-4, atol=1e-6)
    with pytest.raises(InputError, match="Expected a model of blocks"):
        fit(Surrogate(Constant(4), spec, None, Recipe(activation_checkpointing=True)), data, None, tmp_path / "c")


class Constant(nn.Module):
    """Predicts the normalised value 0 everywhere: the mean of the training set."""

    def __init__(self, out_channels: int) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bias.expand(x.size(0), -1)


@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_constant_target_has_error_zero_in_physical_units(batch_size: int) -> None:
    data, _ = cases(5, ("p",))
    for mesh in data:
        mesh.point_data["p"] = torch.full((mesh.num_nodes,), 5.0)
    spec = FieldSpec.resolve(data[0], ["p"])
    data = [spec.pack(m) for m in data]
    surrogate = Surrogate(Constant(1), spec)
    surrogate.fit_normalizers(data)
    assert summarise(evaluate(surrogate, data, batch_size))["p"]["relative_l2"] < 1e-7


def test_means_over_meshes_do_not_depend_on_the_batch_size() -> None:
    data, spec = cases(5)
    surrogate = small(spec)
    surrogate.fit_normalizers(data)
    tables = [summarise(evaluate(surrogate, data, size)) for size in (1, 2, 3)]
    for table in tables[1:]:
        for field in ("p", "u"):
            assert table[field] == pytest.approx(tables[0][field], rel=1e-5)


def test_errors_are_relative_l2_of_each_field_in_physical_units() -> None:
    data, spec = cases(3)
    surrogate = small(spec)
    surrogate.fit_normalizers(data)
    prediction = surrogate(data[1])
    errors = surrogate.errors(data[1])
    p, u = data[1].point_data["p"].float(), data[1].point_data["u"][:, :2].float()
    assert errors["p"].item() == pytest.approx(((prediction[:, 0] - p).norm() / p.norm()).item(), rel=1e-5)
    assert errors["u"].item() == pytest.approx(((prediction[:, 1:] - u).norm() / u.norm()).item(), rel=1e-5)


def metrics(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def weights(surrogate: Surrogate) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in surrogate.parameters()])


def test_accumulating_four_single_meshes_equals_a_batch_of_four(tmp_path: Path) -> None:
    data, spec = cases(8)
    one = fit(small(spec, epochs=3, batch_size=1, accumulate=4), data, None, tmp_path / "one", device="cpu")
    four = fit(small(spec, epochs=3, batch_size=4), data, None, tmp_path / "four", device="cpu")
    # Predictions, not weights: a bias of the keys shifts all logits alike, and Adam moves it by its rounding errors.
    with torch.no_grad():
        for mesh in data:
            a, b = one(mesh), four(mesh)
            assert (a - b).norm() < 1e-5 * a.norm()
        assert (one(data[0]) - small(spec)(data[0])).norm() > 0.1 * one(data[0]).norm()


def test_gradients_of_four_single_meshes_add_up_to_those_of_a_batch() -> None:
    data, spec = cases(4)
    surrogate = small(spec).double()
    surrogate.fit_normalizers(data)
    gradients = []
    for size in (1, 4):
        surrogate.zero_grad()
        for batch in DataLoader(data, batch_size=size):
            batch.x, batch.y, batch.measure = batch.x.double(), batch.y.double(), batch.measure.double()
            loss = torch.stack([e.mean() for e in surrogate.errors(batch).values()]).mean()
            (loss * size / 4).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in surrogate.parameters()]))
    assert gradients[1].norm() > 1e-3
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("recipe", [{}, {"ema": 0.9}], ids=["plain", "ema"])
def test_a_resumed_run_ends_with_the_same_weights(tmp_path: Path, recipe: dict[str, float]) -> None:
    data, spec = cases(6)
    whole = fit(small(spec, epochs=4, **recipe), data[:4], data[4:], tmp_path / "whole", device="cpu")

    class Stop(Exception):
        pass

    class Interrupt(__import__("pytorch_lightning").Callback):  # type: ignore[misc]
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx) -> None:  # type: ignore[no-untyped-def]
            if trainer.current_epoch == 2 and batch_idx == 1:
                raise Stop

    part = tmp_path / "part"
    with pytest.raises(Stop):
        fit(small(spec, epochs=4, **recipe), data[:4], data[4:], part, device="cpu", callbacks=[Interrupt()])
    resumed = fit(small(spec, seed=9, epochs=4, **recipe), data[:4], data[4:], part, resume=True, device="cpu")
    assert torch.equal(weights(whole), weights(resumed))
    for a, b in zip(metrics(tmp_path / "whole"), metrics(part), strict=True):
        assert {k: v for k, v in a.items() if k not in ("seconds", "memory_gb")} == {
            k: v for k, v in b.items() if k not in ("seconds", "memory_gb")
        }


def test_a_checkpoint_predicts_without_the_data_set(tmp_path: Path) -> None:
    data, spec = cases(6)
    surrogate = fit(small(spec), data[:4], data[4:], tmp_path, device="cpu")
    loaded = Surrogate.load(tmp_path / "checkpoints" / "last.ckpt")
    raw = strip(5, 7, seed=42)
    expected = surrogate.predict(surrogate.prepare(raw))
    result = loaded.predict(loaded.prepare(raw))
    assert torch.equal(result.point_data["p_pred"], expected.point_data["p_pred"])
    assert result.point_data["u_pred"].shape == (48, 3)  # like the file's u
    assert not result.point_data["u_pred"][:, 2].any()
    error = result.point_data["u_pred"] - raw.point_data["u"].float()
    torch.testing.assert_close(result.point_data["u_error"], error, rtol=0, atol=0)
    torch.testing.assert_close(
        result.point_data["p_error"], result.point_data["p_pred"] - raw.point_data["p"].float(), rtol=0, atol=0
    )
    assert list(raw.point_data) == ["p", "u", "load"]  # the input is not changed
    assert result.point_data["p"] is raw.point_data["p"]
    assert loaded.recipe == surrogate.recipe
    assert (tmp_path / "checkpoints" / "best.ckpt").exists()


def test_prediction_without_truth_has_no_error_field(tmp_path: Path) -> None:
    data, spec = cases(3)
    surrogate = small(spec)
    surrogate.fit_normalizers(data)
    raw = strip(4, 4)
    del raw.point_data["p"]
    result = surrogate.predict(surrogate.prepare(raw))
    assert "p_pred" in result.point_data
    assert "p_error" not in result.point_data


def test_two_frames_of_a_scalar_are_no_vector() -> None:
    mesh = GRAPH(strip(3, 4))
    mesh.point_data["u_in"] = torch.rand(mesh.num_points, 3)
    spec = FieldSpec((Field("u_out", "point", 2),), (Field("u_in", "point", 3),), dim=2)
    result = Surrogate(Constant(2), spec).predict(spec.pack(mesh, "the mesh", False))
    assert result.point_data["u_out_pred"].shape == (mesh.num_points, 2)


def test_a_model_of_pyg_trains_and_needs_itself_to_load(tmp_path: Path) -> None:
    data, spec = cases(4, ("p",))
    surrogate = Surrogate(GraphSAGE(spec.in_channels, 8, 2, 1), spec, GRAPH, Recipe(epochs=1, batch_size=2))
    fit(surrogate, data, None, tmp_path, device="cpu")
    path = tmp_path / "checkpoints" / "last.ckpt"
    loaded = Surrogate.load(path, model=GraphSAGE(spec.in_channels, 8, 2, 1))
    assert torch.equal(weights(loaded), weights(surrogate))
    with pytest.raises(InputError, match="do not fit GraphSAGE"):
        Surrogate.load(path, model=GraphSAGE(spec.in_channels, 9, 2, 1))


def test_a_model_that_cannot_be_described_asks_for_itself(tmp_path: Path) -> None:
    data, spec = cases(2, ("p",))

    class Wrapped(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.net = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x)

    surrogate = Surrogate(Wrapped(nn.Linear(spec.in_channels, 1)), spec, None, Recipe(epochs=1))
    fit(surrogate, data, None, tmp_path, device="cpu")
    with pytest.raises(InputError, match="Wrapped, which cannot be built from its attributes; pass model="):
        Surrogate.load(tmp_path / "checkpoints" / "last.ckpt")


def test_parameters_of_a_graph_reach_its_own_nodes() -> None:
    meshes = [GRAPH(strip(3, 4, seed=i)) for i in range(2)]
    for i, mesh in enumerate(meshes):
        mesh.params = torch.tensor([[float(i), 10.0 + i]])
    spec = FieldSpec.resolve(meshes[0], ["p"], params=["mach", "angle"])
    surrogate = Surrogate(Constant(1), spec)
    batch = next(iter(DataLoader([spec.pack(m) for m in meshes], batch_size=2)))
    features = surrogate._features(batch)
    assert features.shape == (40, 4)
    assert torch.equal(features[:, 2], batch.batch.float())
    assert torch.equal(features[:, 3], batch.batch.float() + 10)


def test_a_model_that_takes_parameters_gets_them_standardised() -> None:
    meshes = [GRAPH(strip(3, 4, seed=i)) for i in range(2)]
    for i, mesh in enumerate(meshes):
        mesh.params = torch.tensor([[float(i), 10.0 + 4 * i]])
    spec = FieldSpec.resolve(meshes[0], ["p"], params=["mach", "angle"])

    class Echo(nn.Module):
        def forward(self, x: torch.Tensor, params: torch.Tensor) -> torch.Tensor:
            self.params = params
            return x[:, :1]

    surrogate = Surrogate(Echo(), spec)
    data = [spec.pack(m) for m in meshes]
    surrogate.fit_normalizers(data)
    batch = next(iter(DataLoader(data, batch_size=2)))
    surrogate(batch)
    torch.testing.assert_close(surrogate.model.params, torch.tensor([[-1.0, -1.0], [1.0, 1.0]]))
    assert batch.params.tolist() == [[0, 10], [1, 14]]  # the data stay as they are


def test_a_run_into_the_directory_of_a_running_one(tmp_path: Path) -> None:
    data, spec = cases(2)
    program = (
        "import sys; from pathlib import Path; from meshop.io.files import alone\n"
        "with alone(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    call = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=r"Another process is writing a run into .* choose another --out"):
            fit(small(spec, epochs=1), data, None, tmp_path, device="cpu")
        other.kill()
    assert not (tmp_path / "metrics.csv").exists()
    fit(small(spec, epochs=1), data, None, tmp_path, device="cpu")
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["last.ckpt", "metrics.csv"]


def test_what_fit_refuses(tmp_path: Path) -> None:
    data, spec = cases(2)
    with pytest.raises(InputError, match="at least one mesh"):
        fit(small(spec), [], None, tmp_path / "a")
    with pytest.raises(InputError, match="--patience needs a validation split"):
        fit(small(spec, patience=3), data, None, tmp_path / "b")
    with pytest.raises(InputError, match="--epochs of at least 1"):
        Recipe(epochs=0)
    with pytest.raises(InputError, match="--ema between 0 and 1"):
        Recipe(ema=1.5)
    fit(small(spec, epochs=1), data, None, tmp_path / "c", device="cpu")
    with pytest.raises(InputError, match="holds a run already"):
        fit(small(spec, epochs=1), data, None, tmp_path / "c", device="cpu")
    with pytest.raises(InputError, match="epochs 1, not 7"):
        fit(small(spec, epochs=7), data, None, tmp_path / "c", resume=True, device="cpu")


def test_a_loss_that_is_not_finite_names_the_cases(tmp_path: Path) -> None:
    data, spec = cases(2)
    surrogate = small(spec)
    nn.init.constant_(surrogate.model.head.weight, math.nan)
    with pytest.raises(InputError, match=r"loss became nan at step 0 of epoch 0 \(case\d, case\d\)"):
        fit(surrogate, data, None, tmp_path, device="cpu")


def test_early_stopping_and_the_best_epoch(tmp_path: Path) -> None:
    data, spec = cases(4)

    class Worse(nn.Module):
        """Validates worse every epoch."""

        def __init__(self) -> None:
            super().__init__()
            self.calls = 0.0
            self.scale = nn.Parameter(torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 0.0 if self.training else 1.0
            return self.calls + self.scale * x[:, :3]

    fit(Surrogate(Worse(), spec, None, Recipe(epochs=20, patience=2)), data[:2], data[2:], tmp_path, device="cpu")
    assert len(metrics(tmp_path)) == 3  # the first is the best, two more are waited for
    best = torch.load(tmp_path / "checkpoints" / "best.ckpt", weights_only=True)
    assert best["epoch"] == 0


def test_autocast_changes_little(tmp_path: Path) -> None:
    data, spec = cases(4)
    full = fit(small(spec, epochs=1), data, None, tmp_path / "32", device="cpu")
    half = fit(small(spec, epochs=1, precision="bf16-mixed"), data, None, tmp_path / "16", device="cpu")
    assert half.model.state_dict().keys() == full.model.state_dict().keys()
    difference = (weights(half) - weights(full)).norm() / weights(full).norm()
    assert 0 < difference < 0.02


def test_memory_estimate_counts_weights_and_activations() -> None:
    data, spec = cases(2)
    surrogate = small(spec)
    surrogate.fit_normalizers(data)
    one, two = (estimate_memory(surrogate, next(iter(DataLoader(data[:n], batch_size=n)))) for n in (1, 2))
    assert one["weights"] == pytest.approx(16 * sum(p.numel() for p in surrogate.parameters()) / 1e9)
    nodes = [data[0].num_nodes, data[0].num_nodes + data[1].num_nodes]
    assert two["activations"] / one["activations"] == pytest.approx(nodes[1] / nodes[0], rel=0.15)
    assert all(p.grad is None for p in surrogate.parameters())


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[2])
from test_train import cases, small
from meshop.train import fit
data, spec = cases(8)
fit(small(spec, epochs=12, batch_size=1), data, None, sys.argv[1], resume=True, device="cpu")
"""


@pytest.mark.slow
def test_a_killed_process_resumes_to_the_same_weights(tmp_path: Path) -> None:
    def run(out: str, kill_after: float | None = None) -> int:
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path / out), str(Path(__file__).parent)])
        if kill_after is not None:
            while not (tmp_path / out / "metrics.csv").exists():
                time.sleep(0.01)
            time.sleep(kill_after)
            process.send_signal(signal.SIGKILL)
        return process.wait()

    assert run("whole") == 0
    assert run("killed", kill_after=0.15) == -signal.SIGKILL
    assert run("killed") == 0
    states = [
        torch.load(tmp_path / out / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
        for out in ("whole", "killed")
    ]
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])


def test_h1_adds_the_error_of_slopes_to_the_loss(tmp_path: Path) -> None:
    data, spec = cases(2)
    batch = next(iter(DataLoader(data, batch_size=2)))
    surrogate = small(spec, h1=0.2)
    surrogate.fit_normalizers(data)
    surrogate.log = lambda *args, **kwargs: None  # type: ignore[method-assign]  # there is no trainer
    with torch.no_grad():
        loss, prediction = surrogate.training_step(batch, 0), surrogate(batch)
        terms = []
        for fields in (slice(0, 1), slice(1, 3)):  # p, u
            for graph in range(2):
                own, (i, j) = batch.batch == graph, batch.edge_index
                p, y = prediction[:, fields], batch.y[:, fields]
                edge, slope = own[i], (batch.pos[j] - batch.pos[i]).norm(dim=1, keepdim=True)
                h1 = (((p - y)[j] - (p - y)[i]) / slope)[edge].norm() / ((y[j] - y[i]) / slope)[edge].norm()
                terms.append((p - y)[own].norm() / y[own].norm() + 0.2 * h1)
    assert loss.item() == pytest.approx(torch.stack(terms).mean().item(), rel=1e-5)
    with pytest.raises(InputError, match="--h1 of at least 0"):
        Recipe(h1=-1)
    for mesh in data:
        del mesh.edge_index
    with pytest.raises(InputError, match="--h1 needs edges"):
        fit(small(spec, h1=0.2), data, None, tmp_path, device="cpu")
