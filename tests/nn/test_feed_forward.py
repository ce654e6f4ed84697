"""The perceptron in pieces equals the plain formula, in values and gradients, and keeps its input alone."""

import pytest
import torch
from torch import nn
from torch.nn.functional import gelu

from meshop.nn import FeedForward, feed_forward


@pytest.mark.parametrize("shape", [(23, 3), (2, 5, 7, 3), (3,), (0, 3)])
def test_equals_the_formula(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_forward, "PIECE", {"cpu": 64 * 8})
    torch.manual_seed(0)
    net = FeedForward(3, 8, 2).double()
    x = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    results = []
    for y in (net(x), net.lin2(gelu(net.lin1(x)))):
        assert y.shape == (*shape[:-1], 2)
        results.append([y, *torch.autograd.grad((y * y.detach().sin()).sum(), (x, *net.parameters()))])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_can_be_differentiated_twice() -> None:
    torch.manual_seed(0)
    net, x = FeedForward(3, 8, 2).double(), torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    results = []
    for y in (net(x), net.lin2(gelu(net.lin1(x)))):
        slope = torch.autograd.grad(y.sum(), x, create_graph=True)[0]
        loss = y.square().mean() + slope.square().mean()
        results.append(torch.autograd.grad(loss, [x, *list(net.parameters())[:3]]))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_half_weights_have_sums_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    net, x = FeedForward(4, 8, 4).bfloat16(), torch.randn(40_000, 4).bfloat16()
    plain = torch.autograd.grad(net.lin2(gelu(net.lin1(x))).float().sum(), list(net.parameters()))
    monkeypatch.setattr(feed_forward, "PIECE", {"cpu": 64 * 8})  # 625 pieces
    ours = torch.autograd.grad(net(x).float().sum(), list(net.parameters()))
    for a, b in zip(ours, plain, strict=True):
        assert (a - b).norm() <= 0.01 * b.norm()


def test_what_stands_in_place_of_a_layer_is_called() -> None:
    net, x = FeedForward(3, 8, 2), torch.randn(5, 3)
    seen: list[torch.Tensor] = []
    handle = net.lin1.register_forward_hook(lambda layer, given, out: seen.append(out))
    net(x)
    assert len(seen) == 1
    handle.remove()
    net.lin2 = nn.Sequential(net.lin2, nn.Tanh())  # type: ignore[assignment]
    assert net(x).abs().max() < 1
    with pytest.raises(RuntimeError, match="dtype"):
        FeedForward(3, 8, 2).double()(x)


def test_many_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """No piece is shorter than 64 nodes."""
    net, x = FeedForward(3, 8, 2), torch.randn(200, 3)
    monkeypatch.setattr(feed_forward, "PIECE", {"cpu": 1})
    assert [len(range(*rows.indices(200))) for rows in feed_forward._pieces(x, 8)] == [64, 64, 64, 8]
    torch.testing.assert_close(net(x), net.lin2(gelu(net.lin1(x))))


def test_autocast_lowers_the_maps() -> None:
    """The output is that of torch's own layers; gradients stay in the precision of what they are of."""
    torch.manual_seed(0)
    net, x = FeedForward(16, 32, 16), torch.randn(50, 16, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        y, plain = net(x), net.lin2(gelu(net.lin1(x)))
    assert y.dtype == plain.dtype == torch.bfloat16
    torch.testing.assert_close(y, plain)
    inputs = (x, *net.parameters())
    ours, theirs = (torch.autograd.grad(out.float().square().sum(), inputs) for out in (y, plain))
    for a, b, of in zip(ours, theirs, inputs, strict=True):
        assert a.dtype == of.dtype
        assert (a - b).norm() <= 0.02 * b.norm()


def test_keeps_its_input_alone() -> None:
    net, x = FeedForward(16, 512, 16), torch.randn(4096, 16)
    kept: dict[int, int] = {}

    def pack(t: torch.Tensor) -> torch.Tensor:
        kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        net(x)
    parameters = sum(p.nbytes for p in net.parameters())
    assert sum(kept.values()) <= x.nbytes + parameters
