"""A layer of meshop between layers of PyG: learn what no few rounds of message passing can see.

On each plate the target is the way from a node to the middle of all holes, given which nodes lie on their edges. Two
SAGEConv alone look two edges far; ClusterAttention between them looks at the whole mesh.
"""

import sys

import torch
from torch import nn
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import LayerNorm, SAGEConv, Sequential

import meshop.nn
from meshop.datasets import PlateWithHoles
from meshop.metrics import relative_l2


def stack(in_channels: int, width: int, *, attention: bool) -> Sequential:
    """SAGEConv, ClusterAttention and LayerNorm in PyG's own Sequential; without attention, a linear layer instead."""
    mixer = meshop.nn.ClusterAttention(width, heads=4, num_clusters=16) if attention else nn.Linear(width, width)
    return Sequential(
        "x, edge_index, batch, measure, batch_size",
        [
            (SAGEConv(in_channels, width), "x, edge_index -> x"),
            nn.GELU(),
            (LayerNorm(width, mode="node"), "x -> h"),
            (mixer, "h, batch, measure, batch_size -> h" if attention else "h -> h"),
            (lambda x, h: x + h, "x, h -> x"),
            (SAGEConv(width, width), "x, edge_index -> x"),
            nn.GELU(),
            nn.Linear(width, 2),
        ],
    )


def main(samples: int = 80, epochs: int = 40, root: str = "runs/pyg_stack") -> float:
    """Train both stacks and return how many times smaller the error is with attention."""
    torch.manual_seed(0)
    data = [d.clone() for d in PlateWithHoles(root, num_samples=samples)]
    for plate in data:
        hole = plate.point_data["hole"].bool()
        plate.y = plate.pos[hole].mean(0) - plate.pos  # [N, 2]
        plate.x = torch.cat([plate.pos, hole[:, None].float()], 1)  # [N, 3]
    train, test = data[: -samples // 4], data[-samples // 4 :]

    errors = []
    for attention in (False, True):
        model = stack(3, 32, attention=attention)
        optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3)
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimiser, 5e-3, epochs=epochs, steps_per_epoch=-(-len(train) // 2))
        for _ in range(epochs):
            for batch in DataLoader(train, batch_size=2, shuffle=True):
                error = relative_l2(meshop.nn.call(model, batch), batch.y, batch.batch, batch_size=batch.num_graphs)
                optimiser.zero_grad()
                error.mean().backward()
                optimiser.step()
                cycle.step()
        batch = Batch.from_data_list(test)
        with torch.no_grad():
            error = relative_l2(meshop.nn.call(model, batch), batch.y, batch.batch, batch_size=batch.num_graphs)
        errors.append(float(error.mean()))
        kind = "with" if attention else "without"
        print(f"{kind} ClusterAttention: relative L2 {errors[-1]:.3f} on {len(test)} new plates")
    return errors[0] / errors[1]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
