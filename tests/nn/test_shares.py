"""Shares whose weights are made anew equal those that are stored, in values and gradients, whatever the pieces."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from meshop.data import InputError
from meshop.nn import (
    ClusterAttention,
    EideticAttention,
    LatentSSM,
    LinearAttentionNO,
    PhysicsAttention,
    SliceResidualAttention,
    shares,
)
from meshop.nn.functional import Nodes
from meshop.nn.shares import Remade, Stored, attend, linear_with_ones, softmax_shares, weighted_mean, with_ones

H, D, M, E = 2, 3, 5, 4
BATCHES = {"one": None, "ragged": [0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 3], "mixed": [3, 0, 2, 2, 0, 2, 3, 0, 2, 0, 0]}


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three nodes at most."""
    monkeypatch.setattr(shares, "_size", lambda weight: 3)


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture(params=BATCHES)
def nodes(request: pytest.FixtureRequest) -> Nodes:
    batch = BATCHES[request.param]
    torch.manual_seed(0)
    return Nodes(
        draw(11, 1), None if batch is None else torch.tensor(batch), torch.rand(11).double(), 1 if batch is None else 5
    )


def stored(x: torch.Tensor, weight: torch.Tensor, nodes: Nodes) -> Stored:
    return Stored((nodes.tiles.split_heads(x, H) @ weight).softmax(-1), nodes)


@pytest.mark.parametrize("measured", [True, False])
@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize("large", [True, False])
def test_pooling_and_handing_back(nodes: Nodes, measured: bool, mean: bool, large: bool) -> None:
    """Also with logits that exp alone would not hold."""
    nodes = nodes if measured else Nodes(nodes.x, nodes.batch, None, nodes.batch_size)
    x, value, weight, update = draw(11, H * D), draw(11, H * E), draw(H, D, M), draw(E, E)
    weight = draw(H, D, M) * 900 if large else weight
    results = []
    for make in (stored, softmax_shares):
        own = make(x, weight, nodes)
        token = weighted_mean(own.pool(with_ones(value, H))) if mean else own.pool(value)
        y = own.unpool(token @ update)
        inputs = (x, value, weight, update)
        results.append([token, y, *torch.autograd.grad((y * y.detach().sin()).sum() + token.cos().sum(), inputs)])
    assert isinstance(own, Remade)
    margin = 1e5 if large else 1  # in the rounding of logits of some thousands
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10 * margin, atol=1e-12 * margin)
    torch.testing.assert_close(own.weights(), stored(x, weight, nodes).weights().detach())


def test_either_alone(nodes: Nodes) -> None:
    """Tokens of elsewhere are handed back, tokens are pooled and not handed back, or twice."""
    x, value, weight, token = draw(11, H * D), draw(11, H * E), draw(H, D, M), draw(5, H, M, E)
    token = token if nodes.batch is not None else token[:1]
    calls = {
        "unpool": (lambda own: own.unpool(token), (x, weight, token)),
        "pool": (lambda own: own.pool(value), (x, weight, value)),
        "twice": (lambda own: own.unpool(own.pool(value)) + own.unpool(token), (x, weight, token, value)),
        "pools": (lambda own: own.unpool(own.pool(value) * own.pool(value * 0.5)), (x, weight, value)),
    }
    for call, inputs in calls.values():
        one, other = (call(make(x, weight, nodes)) for make in (stored, softmax_shares))
        torch.testing.assert_close(one, other)
        for a, b in zip(*(torch.autograd.grad(y.square().sum(), inputs) for y in (one, other)), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["own", "same", "other", "none"])
def test_maps_of_nodes_are_part_of_it(nodes: Nodes, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values are another map of x, what the shares come from, or a map of something else; or there are none."""
    x, other, weight = draw(11, 6), draw(11, 6), draw(H, D + 1, M)
    maps = [(draw(H * width, 6), draw(H * width)) for width in (D, E)]
    ones = [linear_with_ones(m, H) for m in maps]
    token = draw(5 if nodes.batch is not None else 1, H, M, D)
    results = []
    for compiling in (True, False):
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda compiling=compiling: compiling)
        own = softmax_shares(x, weight, nodes, ones[0])
        assert isinstance(own, Stored if compiling else Remade)
        given = {"own": (None, ones[1]), "same": (), "other": (other, ones[1])}
        z = token if kind == "none" else weighted_mean(own.pool(*given[kind]))
        y = own.unpool(z)
        inputs = [
            x,
            weight,
            *maps[0],
            *(maps[1] if kind in ("own", "other") else ()),
            *([other] if kind == "other" else ()),
        ]
        results.append([z, y, *torch.autograd.grad(y.square().sum() + z.cos().sum(), inputs)])
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)


def test_values_that_are_a_map_of_features_without_one(nodes: Nodes) -> None:
    x, weight, value = draw(11, H * D), draw(H, D, M), (draw(H * E, H * D), draw(H * E))
    results = []
    for own in (stored(x, weight, nodes), softmax_shares(x, weight, nodes)):
        if isinstance(own, Stored):
            own.x = x
        total = own.pool(None, value)
        results.append([total, *torch.autograd.grad(total.square().sum(), (x, weight, *value))])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("far", [60.0, 2000.0])
def test_nodes_without_mass_say_nothing(far: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large their logits are beside those of the others."""
    x = torch.cat([torch.full((5, 1), -40.0), torch.tensor([[far]])]).double().requires_grad_()
    nodes = Nodes(x, measure=torch.tensor([1.0, 1, 1, 1, 1, 0]).double())
    query = torch.ones(1, 1, 2, 1).double().requires_grad_()
    key = (torch.ones(1, 1).double(), torch.zeros(1).double())
    z = attend(query, x, key, (key[0] * 0, key[1] + 3), nodes)
    torch.testing.assert_close(z, torch.full_like(z, 3.0))
    assert all(bool(g.isfinite().all()) for g in torch.autograd.grad(z.sum(), (query, x)))


@pytest.mark.parametrize("layer", [ClusterAttention, PhysicsAttention])
def test_second_derivatives_are_refused_or_right(layer: type[nn.Module]) -> None:
    torch.manual_seed(0)
    net, x = layer(4, 2, 3).double(), draw(7, 4)
    with pytest.raises(InputError, match="stored_weights"):
        torch.autograd.grad(net(x).square().sum(), x, create_graph=True)
    with shares.stored_weights():
        assert torch.autograd.gradgradcheck(net, (x,))


@pytest.mark.parametrize("precision", ["highest", "medium"])
def test_weights_sum_to_one(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where products of matrices are less precise, and for large logits."""
    monkeypatch.undo()
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        torch.manual_seed(0)
        x = torch.randn(500, 8)
        for scale in (1, 30):
            total = softmax_shares(x, scale * torch.randn(1, 8, 16), Nodes(x)).weights().sum(-1)
            torch.testing.assert_close(total, torch.ones_like(total), rtol=1e-5, atol=1e-5)
    finally:
        torch.set_float32_matmul_precision(before)


def test_attention_to_nodes(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    query, x = draw(5 if nodes.batch is not None else 1, H, M, D), draw(11, 6)
    key, value = ((draw(H * width, 6), draw(H * width)) for width in (D, E))
    with torch.no_grad():
        x[3] *= 300  # a logit far above the others, that exp would not hold
    ours = attend(query, x, key, value, nodes)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    theirs = attend(query, x, key, value, nodes)
    some = [0] if nodes.batch is None else [0, 2, 3]  # graphs with nodes
    assert bool(ours.isfinite().all())
    torch.testing.assert_close(ours[some], theirs[some])
    inputs = (query, x, *key, *value)
    grads = [torch.autograd.grad(z[some].square().sum(), inputs) for z in (ours, theirs)]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "layer",
    [
        ClusterAttention,
        PhysicsAttention,
        SliceResidualAttention,
        LatentSSM,
        LinearAttentionNO,
        partial(EideticAttention, gumbel="off"),
    ],
)
def test_no_weight_of_a_node_is_stored(layer: Callable[..., nn.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept for the backward pass does not know the number of tokens."""
    monkeypatch.undo()
    kept = {}
    for tokens in (8, 64):
        net = layer(16, 2, tokens)
        sizes: dict[int, int] = {}

        def keep(x: torch.Tensor, sizes: dict[int, int] = sizes) -> torch.Tensor:
            sizes[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
            return x

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
            net(torch.randn(20_000, 16))
        kept[tokens] = sum(sizes.values())
    weights = 20_000 * 2 * (64 - 8) * 4  # bytes of those of a layer
    assert kept[64] - kept[8] < 0.2 * weights
