"""What a model does inside: which slices or clusters its nodes go to, how these attend, how alike its layers are.

All functions take a model and data as :func:`meshop.nn.call` does, so also a :class:`meshop.train.Surrogate`, which
normalises its inputs itself. They run the model once, in evaluation mode and without gradients, and leave it as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch_geometric.data import Data

from meshop.data import InputError
from meshop.nn import SliceAttention, call
from meshop.nn.shares import Shares
from meshop.nn.slices import Assignment

__all__ = ["assignments", "layer_similarity", "slice_attention"]


def assignments(model: nn.Module, data: Data) -> list[Tensor]:
    r"""How much of each node goes to each slice or cluster, :math:`w_{nm}` in the formulas of the layers.

    Layers that assign are :class:`~meshop.nn.ClusterAttention`, :class:`~meshop.nn.PhysicsAttention`,
    :class:`~meshop.nn.SliceResidualAttention`, :class:`~meshop.nn.EideticAttention`,
    :class:`~meshop.nn.LinearAttentionNO` (its map back to the nodes) and :class:`~meshop.nn.LatentSSM`, wherever in the
    model they are.

    Args:
        model: any module that :func:`meshop.nn.call` can call.
        data: a mesh or a batch, on the model's device.

    Returns:
        a tensor [N, H, M] for each such layer in the order in which they run; the last axis sums to one. Nodes are in
        the order of the data, also where the batch vector is not sorted. An empty list, if no layer assigns.

    Raises:
        InputError: those of :func:`meshop.nn.call`.

    >>> from meshop.models import CANO
    >>> model = CANO(3, 16, num_layers=2, out_channels=1, heads=4, num_clusters=8)
    >>> [list(weight.shape) for weight in assignments(model, Data(x=torch.ones(5, 3)))]
    [[5, 4, 8], [5, 4, 8]]
    """
    found: list[Tensor] = []

    def keep(layer: nn.Module, given: Any, shares: Shares) -> None:
        found.append(shares.weights())

    _run(model, data, _of_type(model, Assignment), keep)
    return found


def slice_attention(model: nn.Module, data: Data) -> list[Tensor]:
    r"""How much each slice of a graph attends to each other one, :math:`\mathrm{softmax}_M(q k^\top / \sqrt d)`.

    Args:
        model: any module that :func:`meshop.nn.call` can call.
        data: a mesh or a batch, on the model's device.

    Returns:
        a tensor [B, H, M, M] for each :class:`~meshop.nn.SliceAttention` in the order in which they run: those of
        Transolver, Transolver++ and Transolver-sigma. Rows sum to one. An empty list, if there is none.

    Raises:
        InputError: those of :func:`meshop.nn.call`.

    >>> from meshop.models import Transolver
    >>> model = Transolver(3, 16, num_layers=2, out_channels=1, heads=4, num_slices=8)
    >>> [list(matrix.shape) for matrix in slice_attention(model, Data(x=torch.ones(5, 3)))]
    [[1, 4, 8, 8], [1, 4, 8, 8]]
    """
    found: list[Tensor] = []

    def keep(layer: SliceAttention, given: Any, output: Tensor) -> None:
        found.append(layer.matrix(*given))

    _run(model, data, _of_type(model, SliceAttention), keep)
    return found


def layer_similarity(model: nn.Module, data: Data, blocks: Iterable[nn.Module] | None = None) -> Tensor:
    r"""How alike the features of a node are after different blocks.

    With :math:`h^i_n` the features of node :math:`n` after block :math:`i`,

    .. math::
        S_{ij} = \frac1N \sum_n \frac{\langle h^i_n, h^j_n \rangle}{\lVert h^i_n \rVert\, \lVert h^j_n \rVert} .

    A block that leaves the features alone, or only scales them, has :math:`S = 1` with the one before it. Nodes whose
    features are all zero count as 0.

    Args:
        model: any module that :func:`meshop.nn.call` can call.
        data: a mesh or a batch, on the model's device.
        blocks: modules of the model, whose outputs [..., C] have one shape; by default those of its
            :class:`~torch.nn.ModuleList` called ``blocks``, which all models of meshop but FNO have (``model.layers``).

    Returns:
        S [L, L], float32 at least, blocks in the order in which they run.

    Raises:
        InputError: there are no blocks, or their outputs differ in shape; those of :func:`meshop.nn.call`.

    >>> from meshop.models import CANO
    >>> model = CANO(3, 16, num_layers=4, out_channels=1, heads=4, num_clusters=8)
    >>> layer_similarity(model, Data(x=torch.ones(5, 3))).shape
    torch.Size([4, 4])
    """
    if blocks is None:
        lists = {name: module for name, module in model.named_modules() if isinstance(module, nn.ModuleList)}
        blocks = next((module for name, module in lists.items() if name.split(".")[-1] == "blocks"), nn.ModuleList())
    found: list[Tensor] = []

    def keep(layer: nn.Module, given: Any, output: Tensor) -> None:
        dtype = torch.promote_types(output.dtype, torch.float32)
        found.append(normalize(output.to(dtype).flatten(0, -2), dim=-1))  # [N, C]

    _run(model, data, blocks, keep)
    if not found:
        raise InputError(
            f"Expected a model with layers in a list called blocks to compare (got a {type(model).__name__} without); "
            "pass the layers to compare as blocks="
        )
    if len({tuple(h.shape) for h in found}) > 1:
        shapes = ", ".join(str(list(h.shape)) for h in found)
        raise InputError(f"Expected blocks with outputs of one shape to compare (got {shapes})")
    direction = torch.stack(found).flatten(1)  # [L, N C]
    return direction @ direction.T / found[0].size(0)


def _of_type(model: nn.Module, kind: type[nn.Module]) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, kind)]


@torch.no_grad()
def _run(model: nn.Module, data: Data, modules: Iterable[nn.Module], hook: Callable[..., None]) -> None:
    """Call the model with a forward hook on some of its modules."""
    model = getattr(model, "_orig_mod", model)  # torch.compile would run what it compiled before there was a hook
    training = [(module, module.training) for module in model.modules()]
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(module.register_forward_hook(hook))
        try:
            call(model.eval(), data)
        finally:
            for module, mode in training:
                module.training = mode
