"""A law that no layer can break is none: each must notice a layer that breaks it."""

import pytest
import torch
from torch import nn
from torch.nn.functional import gelu
from torch_geometric.nn import SAGEConv
from torch_geometric.nn.norm import BatchNorm
from torch_geometric.utils import to_dense_batch

from meshop.nn import PhysicsAttention
from meshop.testing import LAWS, assert_layer, assert_memory, random_graph


class Layer(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.channels = channels
        self.lin = nn.Linear(channels, channels)

    def reset_parameters(self):
        self.lin.reset_parameters()

    def forward(self, x):
        return self.lin(x)


class Coupled(Layer):  # batch: graphs share their mean
    def forward(self, x):
        return self.lin(x - x.sum(0) / 100)


class Dense(Layer):  # batch: right when the nodes are sorted, as PyG's own global attention is at best
    def forward(self, x, batch=None):
        if batch is None:
            return self.lin(x + x.cumsum(0))
        dense, mask = to_dense_batch(x, batch)
        return self.lin(x + dense.cumsum(1)[mask])


class Ordered(Layer):  # order
    def forward(self, x):
        return self.lin(x.roll(1, 0))


class Counting(Layer):  # measure: a mean over nodes
    def forward(self, x, measure=None):
        return self.lin(x) + x.mean(0) + (0 if measure is None else measure[:, None] / measure.sum())


class Dimensional(Layer):  # measure: an absolute epsilon
    def forward(self, x, measure=None):
        measure = torch.ones_like(x[:, 0]) if measure is None else measure
        return self.lin(x) + (measure @ x) / (measure.sum() + 1e-5)


class Ignoring(Layer):  # measure
    def forward(self, x, measure=None):
        return self.lin(x)


class Detached(Layer):  # gradient
    def forward(self, x):
        return self.lin(x) * x.detach()


class Idle(Layer):  # gradient
    def __init__(self, channels=16):
        super().__init__(channels)
        self.bias = nn.Parameter(torch.zeros(channels))


class Single(Layer):  # dtype
    def forward(self, x):
        return self.lin(x).float()


class Forgetful(Layer):  # state
    def __init__(self, channels=16):
        super().__init__(channels)
        self.seen = torch.zeros(1, channels)

    def forward(self, x):
        self.seen = self.seen + 1
        return self.lin(x) + self.seen.to(x)


class Nameless(Layer):  # state
    def __init__(self, width=16):
        super().__init__(width)


class Unset(Layer):  # state
    def reset_parameters(self):
        pass


class Coarse(Layer):  # amp: a sum of many nodes in half precision
    def forward(self, x):
        return self.lin(x - 100) + 100 * self.lin.weight.sum(1)


class Branching(Layer):  # compile, export
    def forward(self, x):
        return self.lin(x) if x.sum() > 0 else -self.lin(x)


class Quadratic(Layer):  # memory
    def forward(self, x):
        return self.lin((x @ x.T).softmax(1) @ x)


class Outer(Layer):  # memory
    def forward(self, x):
        return self.lin((x[:, :, None] * gelu(x)[:, None, :]).sum(1))


@pytest.mark.parametrize(
    ("law", "layer"),
    [
        ("batch", Coupled),
        ("batch", Dense),
        ("batch", lambda: BatchNorm(16, track_running_stats=False)),
        ("order", Ordered),
        ("measure", Counting),
        ("measure", Dimensional),
        ("measure", Ignoring),
        ("gradient", Detached),
        ("gradient", Idle),
        ("dtype", Single),
        ("state", Forgetful),
        ("state", Nameless),
        ("state", Unset),
        ("amp", Coarse),
        ("compile", Branching),
        ("export", Branching),
        ("memory", Quadratic),
        ("memory", Outer),
    ],
)
def test_each_law_catches_a_layer_that_breaks_it(law, layer):
    with pytest.raises(Exception) as caught:  # noqa: PT011 (torch has exceptions of its own)
        LAWS[law](layer(), random_graph)
    assert not isinstance(caught.value, (TypeError, AttributeError)), caught.value


def test_a_sound_layer_passes():
    assert_layer(Layer())
    assert_layer(SAGEConv(16, 16), skip=["state"])


def test_the_module_stays_as_it_is():
    layer = PhysicsAttention(16, heads=2, num_slices=4)
    before = [p.clone() for p in layer.parameters()]
    assert_layer(layer, laws=["batch", "gradient", "dtype"])
    assert all(map(torch.equal, before, layer.parameters()))
    assert all(p.grad is None and p.dtype == torch.float32 for p in layer.parameters())
    assert layer.training


def test_laws_can_be_chosen():
    with pytest.raises(AssertionError, match="depends on the order"):
        assert_layer(Ordered(), laws=["order"])
    assert_layer(Ordered(), laws=["order", "dtype"], skip=["order"])


def test_memory_counts_what_is_allowed():
    assert_memory(Outer(), random_graph, per_node=256)
    with pytest.raises(AssertionError, match="256 numbers a node, 255 were allowed"):
        assert_memory(Outer(), random_graph, per_node=255)
