"""Make a benchmark's files with a solver, see what they are, train on them, and draw the worst case.

The files have the names and the layout of the published ones (`datasets/darcy`), here on 43 x 43 nodes and not 421 x
421, so that the same lines read those, too. `meshop generate darcy`, `info`, `train` and `predict` do this on the
command line.
"""

from pathlib import Path

import torch
from jsonargparse import auto_cli

from meshop.datasets import Darcy
from meshop.datasets.generators import GENERATORS, generate
from meshop.io.describe import as_text, describe_directory
from meshop.models import FNO
from meshop.render import compare
from meshop.train import Recipe, Surrogate, evaluate, fit, summarise


def main(root: str = "data/darcy_43", out: str = "runs/darcy_43", samples: int = 120, epochs: int = 10) -> float:
    """Return the test error as a share of that of the mean of the training set.

    Args:
        root: directory of the data set.
        out: directory of the run and the picture.
        samples: how many to make; five sixths are for training.
        epochs: of training.
    """
    if not Path(root, "raw", "generated.json").exists():
        generate(GENERATORS["darcy"], Path(root, "raw"), samples, resolution=43)
    for report in describe_directory(Path(root, "raw")):
        if report["file"].endswith(".mat"):
            print(as_text(report))
    data = Darcy(root, stride=1)
    print(f"{data.origin}: {len(data.split('train'))} training and {len(data.split('test'))} test meshes")

    torch.manual_seed(0)
    model = FNO(data.spec.in_channels, 16, 3, data.spec.out_channels, modes=[6, 6])
    surrogate = Surrogate(model, data.spec, data.pre_transform, Recipe(epochs=epochs, batch_size=4, lr=0.005))
    fit(surrogate, data.split("train"), out=out)

    rows = evaluate(surrogate, data.split("test"))
    error = summarise(rows)["sol"]
    print(f"relative L2 {error['relative_l2']:.3f}, of the mean of the training set {error['mean_predictor']:.3f}")
    worst = max(rows, key=lambda row: row["relative_l2"])["name"]
    mesh = next(mesh for mesh in data.split("test") if mesh.name == worst)
    compare(surrogate.predict(mesh), "sol", Path(out, "worst.png"), title=worst)
    return error["relative_l2"] / error["mean_predictor"]


if __name__ == "__main__":
    auto_cli(main)
