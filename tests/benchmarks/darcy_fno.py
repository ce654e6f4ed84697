"""The documented FNO of neuraloperator and ours on the small Darcy data, in turn, in one run.

    python tests/benchmarks/darcy_fno.py --raw data/darcy_small/raw --peer PEER --out darcy_fno.csv

PEER is the Python of an environment of its own:

    python -m venv peer && peer/bin/pip install -c constraints.txt torch neuraloperator==2.0.0

Theirs is their example "Training an FNO on Darcy-Flow": FNO with 8 x 8 modes and 24 channels, their AdamW, H1 loss and
Trainer, 15 epochs of batches of 64. Ours: ``datasets/darcy_small/fno.yaml``: the same width, modes, epochs and batches,
but relative L2 and one cycle of learning rates. Both are evaluated by the same lines: the mean over test cases of the
relative L2 error of the decoded prediction, at the resolution of training (16) and at 32. Seconds are those of the call
that trains; theirs evaluates on the test data every five epochs, as documented, ours never.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

EPOCHS, BATCH = 15, 64


def relative_l2(prediction: torch.Tensor, truth: torch.Tensor) -> float:
    """Mean over the cases of the norm of the error over that of the truth."""
    error, size = (prediction - truth).flatten(1).norm(dim=1), truth.flatten(1).norm(dim=1)
    return float((error / size).mean())


def count(model: torch.nn.Module) -> int:
    """Real numbers among the parameters; a complex one is two."""
    return sum(p.numel() * (1 + p.is_complex()) for p in model.parameters())


def theirs(raw: Path, seed: int) -> dict[str, float]:
    """Train as neuraloperator's example does."""
    from neuralop import H1Loss, LpLoss, Trainer
    from neuralop.data.datasets.darcy import DarcyDataset
    from neuralop.models import FNO
    from neuralop.training import AdamW
    from torch.utils.data import DataLoader

    torch.manual_seed(seed)
    data = DarcyDataset(
        root_dir=raw,
        n_train=1000,
        n_tests=[50, 50],
        batch_size=BATCH,
        test_batch_sizes=[32, 32],
        train_resolution=16,
        test_resolutions=[16, 32],
        download=False,
    )
    train = DataLoader(data.train_db, batch_size=BATCH, shuffle=True)
    tests = {n: DataLoader(data.test_dbs[n], batch_size=50) for n in (16, 32)}
    model = FNO(n_modes=(8, 8), in_channels=1, out_channels=1, hidden_channels=24, projection_channel_ratio=2)
    optimizer = AdamW(model.parameters(), lr=1e-2, weight_decay=1e-4)
    h1, l2, processor = H1Loss(d=2), LpLoss(d=2, p=2), data.data_processor
    trainer = Trainer(model=model, n_epochs=EPOCHS, data_processor=processor, eval_interval=5, verbose=False)
    start = time.perf_counter()
    trainer.train(
        train_loader=train,
        test_loaders=tests,
        optimizer=optimizer,
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30),
        regularizer=False,
        training_loss=h1,
        eval_losses={"h1": h1, "l2": l2},
    )
    row = {"seconds": time.perf_counter() - start, "parameters": count(model)}
    model.eval()
    processor.eval()
    with torch.inference_mode():
        for n, test in tests.items():
            (case,) = test
            truth = case["y"].clone()
            case = processor.preprocess(case)
            prediction, _ = processor.postprocess(model(**case), case)
            row[f"error_{n}"] = relative_l2(prediction, truth)
    return row


def ours(raw: Path, seed: int) -> dict[str, float]:
    """Train with the recipe of meshop."""
    import yaml
    from torch_geometric.loader import DataLoader

    from meshop.checkpoint import build, from_config
    from meshop.datasets import DarcySmall, card
    from meshop.train import Recipe, Surrogate, fit

    recipe = yaml.safe_load((card("darcy_small") / "fno.yaml").read_text())
    description = from_config(recipe.pop("model"))
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as out:
        Path(out, "raw").symlink_to(raw.resolve())
        data = DarcySmall(out)
        description["args"] |= {"in_channels": data.spec.in_channels, "out_channels": data.spec.out_channels}
        surrogate = Surrogate(
            build(description), data.spec, data.pre_transform, Recipe(**recipe, seed=seed), description
        )
        start = time.perf_counter()
        fit(surrogate, data.split("train"), out=Path(out, "run"))
        row = {"seconds": time.perf_counter() - start, "parameters": count(surrogate)}
        surrogate.eval()
        with torch.inference_mode():
            for n, part in ((16, "test"), (32, "test_32")):
                (batch,) = DataLoader(data.split(part), batch_size=50)
                row[f"error_{n}"] = relative_l2(surrogate(batch).view(50, -1), batch.y.view(50, -1))
    return row


def main() -> None:
    """Run both for every seed, each in a process of its own, and print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", type=Path, required=True, help="directory of darcy_train_16.pt, darcy_test_16.pt, ...")
    parser.add_argument("--peer", default=sys.executable, help="Python with neuraloperator 2.0.0")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("darcy_fno.csv"))
    parser.add_argument("--one", choices=["theirs", "ours"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps({"theirs": theirs, "ours": ours}[options.one](options.raw, options.seeds[0])))
        return
    rows = []
    for seed in options.seeds:
        for one, python in (("theirs", options.peer), ("ours", sys.executable)):
            call = [python, __file__, "--raw", options.raw, "--seeds", str(seed), "--one", one]
            text = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True).stdout
            rows.append({"model": one, "seed": seed, **json.loads(text.splitlines()[-1])})
            print(rows[-1], flush=True)
            with options.out.open("w", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)


if __name__ == "__main__":
    main()
