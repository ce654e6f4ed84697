"""``meshop train`` on several processes: the run of one process, whatever the strategy and the number."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import strip

from meshop.cli import main
from meshop.data import InputError
from meshop.io import SeriesWriter, write_mesh
from meshop.train import Deal, Shuffle, fit

CANO = ["--model.hidden_channels", "8", "--model.num_layers", "2", "--model.heads", "2", "--model.num_clusters", "3"]
SAGE = ["--model", "GraphSAGE", "--model.hidden_channels", "8", "--model.num_layers", "2"]
DATA = ["--target", "p", "u", "--input", "load", "--split", "0.6/0.2/0.2", "--device", "cpu"]
RECIPE = ["--batch_size", "3", "--h1", "0.1", "--accumulate", "2", "--epochs", "3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine meshes of 20 to 30 nodes, of which 5 train, so that batches and shares are uneven."""
    path = tmp_path_factory.mktemp("cases")
    for i in range(9):
        write_mesh(path / f"case_{i}.vtu", strip(3 + i % 3, 4, seed=i))
    return path


def numbers(path: Path) -> list[dict[str, float]]:
    with path.open(newline="") as file:
        return [
            {k: float(v) for k, v in row.items() if k not in ("name", "field", "seconds", "memory_gb")}
            for row in csv.DictReader(file)
        ]


def assert_same_run(run: Path, other: Path) -> None:
    for name in ("metrics.csv", "evaluation.csv"):
        for row, expected in zip(numbers(run / name), numbers(other / name), strict=True):
            assert row == pytest.approx(expected, rel=1e-4)
    states = [torch.load(r / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"] for r in (run, other)]
    for name, value in states[1].items():
        if name.endswith("lin_qkv.bias"):  # a shift of all keys does nothing: Adam steps along rounding errors
            continue
        torch.testing.assert_close(states[0][name], value, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("meshes", "batch_size", "ranks"), [(5, 3, 2), (5, 3, 3), (7, 4, 4), (1, 1, 1), (2, 5, 3)])
def test_every_mesh_counts_once(meshes: int, batch_size: int, ranks: int) -> None:
    shares = [Deal(Shuffle(meshes, seed=0), batch_size, rank, ranks) for rank in range(ranks)]
    whole = Deal(Shuffle(meshes, seed=0), batch_size)
    value = torch.arange(1.0, meshes + 1)
    steps = [list(share) for share in shares]
    assert {len(own) for own in steps} == {len(whole)}  # none waits for another
    for number, batch in enumerate(whole):
        means = [share.share(number)[0] * value[own[number]].mean() for share, own in zip(shares, steps, strict=True)]
        assert torch.stack(means).mean() == pytest.approx(float(value[batch].mean()))
        assert {share.share(number)[1] for share in shares} == {len(batch)}


def test_a_batch_must_go_round(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from test_train import cases, small

    data, spec = cases(2)
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(InputError, match="A batch of 2 leaves some of 3 processes without a mesh"):
        fit(small(spec), data, out=tmp_path)
    with pytest.raises(InputError, match="--ema averages whole weights"):
        fit(small(spec, batch_size=3, ema=0.9), data, out=tmp_path, strategy="fsdp")


def test_more_gpus_than_there_are(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(folder), *DATA, "--devices", "2", "--device", "cuda:1"]) == 1
    assert "--device cuda:1 is one GPU" in capsys.readouterr().err
    assert main(["train", str(folder), *DATA, "--devices", "99", "--device", "cuda"]) == 1
    assert "the GPUs of this machine (got 99)" in capsys.readouterr().err


@pytest.fixture(scope="module")
def one(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs of one process, by model and further options."""
    done: dict[tuple[str, ...], Path] = {}

    def run(*options: str) -> Path:
        if options not in done:
            done[options] = tmp_path_factory.mktemp("one")
            assert main(["train", str(folder), *DATA, *options, "--out", str(done[options])]) == 0
        return done[options]

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "devices", "strategy"),
    [(CANO, 2, "ddp"), (CANO, 3, "ddp"), (CANO, 2, "fsdp"), (CANO, 2, "domain"), (SAGE, 3, "domain")],
)
def test_several_processes_make_the_run_of_one(
    model: list[str], devices: int, strategy: str, folder: Path, one: Any, tmp_path: Path
) -> None:
    options = [*model, *RECIPE, *([] if strategy == "fsdp" else ["--ema", "0.9"])]
    several = ["--devices", str(devices), "--strategy", strategy, "--out", str(tmp_path / "run")]
    assert main(["train", str(folder), *DATA, *options, *several]) == 0
    assert_same_run(tmp_path / "run", one(*options))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "domain"])
def test_rollouts_on_several_processes(strategy: str, tmp_path: Path) -> None:
    """Trained through two of four calls, each of which starts from the prediction of the one before."""
    (tmp_path / "runs").mkdir()
    for i in range(5):
        with SeriesWriter(tmp_path / "runs" / f"run_{i}.pvd") as writer:
            for number in range(5):
                mesh = strip(3 + i % 3, 4, seed=i)
                mesh.point_data["u"] = torch.sin(mesh.pos[:, 0] + 0.3 * number + i)
                writer.write(mesh, 0.1 * number)
    options = ["--data_args", '{"T_in": 1, "T_out": 4}', "--rollout.gradient", "2", "--rollout.increment", "true"]
    command = ["train", str(tmp_path / "runs"), "--target", "u", *CANO, *options, "--epochs", "2", "--batch_size", "2"]
    command += ["--device", "cpu"]
    assert main([*command, "--out", str(tmp_path / "one")]) == 0
    assert main([*command, "--out", str(tmp_path / "two"), "--devices", "2", "--strategy", strategy]) == 0
    assert_same_run(tmp_path / "two", tmp_path / "one")


@pytest.mark.slow
def test_torchrun_makes_the_run_of_one(folder: Path, one: Any, tmp_path: Path) -> None:
    options = [*CANO, *RECIPE]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "meshop.cli", "train"]
    command = [*torchrun, str(folder), *DATA, *options, "--strategy", "domain", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("next ") == 1
    assert_same_run(tmp_path, one(*options))


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [("2 domain", "3 ddp"), ("2 ddp", "1 ddp"), ("2 fsdp", "2 domain")])
def test_a_dead_process_ends_the_run_and_another_number_resumes_it(
    before: str, after: str, folder: Path, one: Any, tmp_path: Path
) -> None:
    options = [*CANO, "--batch_size", "3", "--epochs", "60"]
    out = ["--out", str(tmp_path)]

    def several(text: str) -> list[str]:
        return ["--devices", text.split()[0], "--strategy", text.split()[1]]

    command = [sys.executable, "-m", "meshop.cli", "train", str(folder), *DATA, *options, *out, *several(before)]
    parent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "metrics.csv").exists() or len((tmp_path / "metrics.csv").read_text().splitlines()) < 4:
        assert parent.poll() is None
        time.sleep(0.05)
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    os.kill(int(children[1]), signal.SIGKILL)
    start = time.monotonic()
    err = parent.communicate(timeout=120)[1]
    assert time.monotonic() - start < 60
    assert parent.returncode == 1
    said = [line for line in err.splitlines() if not line.startswith("epoch ")]
    assert said[-1] == "meshop: Process 1 of 2 was killed by SIGKILL; continue with --resume"
    assert sum(line.startswith("meshop: ") for line in said) == 1
    assert "Traceback" not in err
    assert not any(Path("/proc", child).exists() for child in children)
    assert main(["train", str(folder), *DATA, *options, *out, *several(after), "--resume"]) == 0
    assert_same_run(tmp_path, one(*options))
