"""Inference on meshes larger than memory: a model is called on one chunk of the nodes after the other.

A layer that mixes all nodes does so by sums over them (:func:`meshop.domain.all_reduce`), so that a chunk can go
as far as a sum that is not known yet and no farther. A block of the model is therefore called on all chunks as many
times as it has sums, and once more, now that all are known, for its output. Between blocks only the features of the
nodes are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from meshop.data import InputError
from meshop.domain import reduced_by
from meshop.nn.functional import argument_names, call

CHUNK = 2**17  # nodes


@torch.no_grad()
def call_in_chunks(model: nn.Module, data: Data, size: int = CHUNK) -> Tensor:
    """What :func:`meshop.nn.call` of a model returns, in memory that holds the features of the nodes once.

    A block of n sums is called n + 1 times. Layers of meshop leave out what sums over nodes need once these are known;
    what a block does before them, such as a convolution, is done anew.

    Args:
        model: in evaluation mode, from nodes to nodes; where it has a list ``blocks`` that it calls one after another,
            each from [N, C] to [N, C], they are called on all chunks in turn.
        data: a mesh or a batch; ``x``, ``pos``, ``batch``, ``measure`` and what else has a row a node is cut.
        size: nodes of a chunk.

    Raises:
        InputError: the model needs edges or a grid, which are not cut, or has a layer that looks at all nodes in
            another way, see :func:`can_be_cut`.

    >>> from meshop.models import CANO
    >>> model, data = CANO(3, 16, 2, 1, heads=4, num_clusters=8).eval(), Data(x=torch.rand(50, 3))
    >>> bool(torch.allclose(call_in_chunks(model, data, size=20), call(model, data), atol=1e-6))
    True
    """
    if not can_be_cut(model, data):
        raise InputError(f"{type(model).__name__} needs edges, a grid or all nodes at once, which are not cut")
    chunks = [slice(i, i + size) for i in range(0, max(data.num_nodes, 1), size)]
    parts = _Parts(data, chunks)
    blocks = list(getattr(model, "blocks", ()))
    features: Tensor | None = None
    for stage in range(len(blocks)):
        features = _sweep(_Stage(model, blocks, stage, features), parts, features)
    return _sweep(_Stage(model, blocks, len(blocks), features), parts)


def can_be_cut(model: nn.Module, data: Data, known: bool = False) -> bool:
    """Whether a model needs no edges, no grid and not the data as they are, and no layer mixes nodes in its own way.

    Layers of torch and PyG that do are known; one's own must mix them by sums of :mod:`meshop.domain` alone. With
    ``known`` a model that has any of one's own is not cut.
    """
    names = {f"{type(module).__module__}.{type(module).__name__}" for module in model.modules()}
    noisy = any(getattr(module, "gumbel", None) == "always" for module in model.modules())  # anew in each call
    if noisy or "shape" in data or any(name.startswith(_MIXERS) for name in names):
        return False
    if known and not all(name.startswith(("meshop.", "torch.nn.modules.")) for name in names):
        return False
    needs = {name for module in model.modules() for name, needed in argument_names(module).items() if needed}
    return not needs & {"edge_index", "shape", "data"}


_MIXERS = (
    "torch_geometric.nn",
    "torch.nn.modules.activation.MultiheadAttention",
    "torch.nn.modules.batchnorm",
    "torch.nn.modules.instancenorm",
    "torch.nn.modules.rnn",
    "torch.nn.modules.transformer",
)


class _Parts:
    """The data of each chunk."""

    def __init__(self, data: Data, chunks: Sequence[slice]) -> None:
        self.data = data
        self.chunks = chunks

    def __iter__(self) -> Iterator[tuple[slice, Data]]:
        count = self.data.num_nodes
        for rows in self.chunks:
            part = self.data.__copy__()
            for key, value in self.data.items():
                rows_of_nodes = isinstance(value, Tensor) and value.dim() and value.size(0) == count
                if rows_of_nodes and self.data.is_node_attr(key):
                    part[key] = value[rows]
            yield rows, part


class _Stage:
    """A model up to one of its blocks: those before it hand on what they have put out."""

    def __init__(self, model: nn.Module, blocks: Sequence[nn.Module], stage: int, features: Tensor | None) -> None:
        self.model, self.blocks, self.stage, self.features = model, blocks, stage, features

    def __call__(self, rows: slice, part: Data) -> Tensor:
        with self._stopped(rows):
            try:
                return call(self.model, part)
            except _Out as out:
                return out.value

    @contextmanager
    def _stopped(self, rows: slice) -> Iterator[None]:
        forwards = [block.forward for block in self.blocks]
        last = self.blocks[self.stage - 1] if self.stage else None

        def through(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            return x

        def stop(*args: Any, **kwargs: Any) -> Tensor:
            raise _Out(forwards[self.stage](*args, **kwargs))

        try:
            for block in self.blocks[: self.stage]:
                block.forward = through
            if last is not None and self.features is not None:
                known = self.features[rows]
                last.forward = lambda *args, **kwargs: known
            if self.stage < len(self.blocks):
                self.blocks[self.stage].forward = stop
            yield
        finally:
            for block in self.blocks:
                block.__dict__.pop("forward", None)


class _Out(Exception):
    """The output of a block, behind which nothing is computed."""

    def __init__(self, value: Tensor) -> None:
        self.value = value


class _Unknown(Exception):
    """A sum is not known yet."""


class _Sums:
    """The sums that are known, and the next, to which chunk after chunk adds."""

    def __init__(self) -> None:
        self.known: list[Tensor] = []
        self.next: Tensor | None = None
        self.place = 0

    def peek(self, ahead: int) -> Tensor | None:
        place = self.place + ahead
        return self.known[place] if place < len(self.known) else None

    def __call__(self, x: Tensor, op: str) -> Tensor:
        place, self.place = self.place, self.place + 1
        if place < len(self.known):
            return self.known[place]
        if self.next is None:
            self.next = x.clone()
        elif op == "sum":
            self.next += x
        else:
            torch.maximum(self.next, x, out=self.next) if op == "max" else torch.minimum(self.next, x, out=self.next)
        raise _Unknown


def _sweep(stage: Callable[[slice, Data], Tensor], parts: _Parts, out: Tensor | None = None) -> Tensor:
    """The output of a stage on all nodes; into ``out`` where it fits, which the stage may read chunk by chunk."""
    sums = _Sums()
    with reduced_by(sums):
        while True:
            done = False
            for rows, part in parts:
                sums.place = 0
                try:
                    y = stage(rows, part)
                except _Unknown:
                    continue
                done = True
                if len(y) != len(part.x):
                    raise InputError("Expected a model from nodes to nodes")
                if out is None or out.shape[1:] != y.shape[1:]:
                    out = y.new_empty(parts.data.num_nodes, *y.shape[1:])
                out[rows] = y
            if done or sums.next is None:
                assert out is not None
                return out
            sums.known.append(sums.next)
            sums.next = None
