"""Operators of four families in one stack, against stacks of each alone, at equal parameters and equal steps.

Messages along edges (PyG's SAGEConv), clusters (ClusterAttention), Fourier modes on a latent grid (GridSpectralConv)
and a state-space scan of slices (LatentSSM), each in a Block, learn the displacement of `elastic_block`. A stack of one
kind gets the width at which it has as many parameters as the mixed one.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from jsonargparse import auto_cli
from torch import nn
from torch_geometric.nn import SAGEConv

from meshop.datasets import ElasticBlock
from meshop.models import Stack
from meshop.nn import Block, ClusterAttention, GridSpectralConv, Hydra, LatentSSM
from meshop.train import Recipe, Surrogate, evaluate, fit, summarise

MIXERS: dict[str, Callable[[int], nn.Module]] = {
    "SAGEConv": lambda width: SAGEConv(width, width),
    "ClusterAttention": lambda width: ClusterAttention(width, heads=4, num_clusters=32),
    "GridSpectralConv": lambda width: GridSpectralConv(width, width, modes=(4, 4), size=(32, 32)),
    "LatentSSM": lambda width: LatentSSM(width, 4, num_slices=32, core=Hydra(width, state_channels=8)),
}


def stack(names: list[str], width: int, in_channels: int, out_channels: int) -> Stack:
    """A block of each name, in this order, each with the residual, the norm and the FFN of a transformer."""
    return Stack(in_channels, width, out_channels, [Block(MIXERS[name](width), width) for name in names])


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def main(out: str = "runs/mix_operators", width: int = 48, epochs: int = 20, num_samples: int = 400) -> float:
    """Train all stacks and return the error of the best stack of one kind over that of the mixed one."""
    data = ElasticBlock(Path(out) / "data")
    train, test = data.split("train")[:num_samples], data.split("test")
    channels = data.spec.in_channels, data.spec.out_channels
    mixed = list(MIXERS)
    size = count(stack(mixed, width, *channels))
    errors = {}
    for names in [mixed, *([name] * len(mixed) for name in mixed)]:
        label = "all four" if names == mixed else names[0]
        own = min(range(16, 4 * width, 4), key=lambda w: abs(count(stack(names, w, *channels)) - size))
        torch.manual_seed(0)
        model = stack(names, own, *channels)
        surrogate = Surrogate(model, data.spec, data.pre_transform, Recipe(epochs=epochs))
        fit(surrogate, train, out=Path(out) / label.replace(" ", "_"), resume=True, device="cpu")
        errors[label] = summarise(evaluate(surrogate, test))["displacement"]["relative_l2"]
        print(f"{label:>16}: {count(model):7,} parameters, {own:3} wide, relative L2 {errors[label]:.3f}")
    return min(error for label, error in errors.items() if label != "all four") / errors["all four"]


if __name__ == "__main__":
    auto_cli(main)
