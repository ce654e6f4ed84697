"""A part of the nodes, drawn anew each time."""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform
from torch_geometric.utils import subgraph

from meshop.data import InputError

CELLS = ("points", "cell_type", "cell_size", "cell_index", "polyhedra", "point_data", "cell_data", "field_data")


@functional_transform("subsample_nodes")
class SubsampleNodes(BaseTransform):
    r"""Keep some of the nodes of a graph, each with the same probability, to train on meshes that do not fit.

    Sums over nodes stay right on average: each of the n nodes that are kept out of N stands for N / n,

    .. math::
        \mu'_i = \frac{N}{n} \mu_i, \qquad
        \mathbb{E} \sum_{i \in \text{kept}} \mu'_i f_i = \sum_{i=1}^{N} \mu_i f_i .

    Edges are those between nodes that are kept; cells, and all else that belongs to the points of the mesh, are left
    out. It is the ``transform`` of the training split of a data set, after its graph; random numbers are torch's.

    Args:
        count: how many nodes to keep; a graph of no more nodes is left as it is.

    Raises:
        InputError: the count is not positive.

    >>> data = Data(x=torch.rand(1000, 3), measure=torch.full((1000,), 0.001))
    >>> part = SubsampleNodes(100)(data)
    >>> part.num_nodes, round(float(part.measure.sum()), 5)
    (100, 1.0)
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise InputError(f"Expected to keep at least one node (got {count})")
        self.count = count

    def forward(self, data: Data) -> Data:
        total = data.num_nodes
        if total <= self.count:
            return data
        kept = torch.randperm(total)[: self.count].sort().values
        out = data.__copy__()
        for key, value in data.items():
            if key in CELLS:
                del out[key]
            elif key == "edge_index":
                out.edge_index = subgraph(kept, value, relabel_nodes=True, num_nodes=total)[0]
            elif data.is_node_attr(key):
                out[key] = value[kept]
        if "measure" in out:
            out.measure = out.measure * (total / self.count)
        return out

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.count})"
