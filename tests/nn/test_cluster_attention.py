import math

import pytest
import torch
from torch.nn.functional import conv2d

from meshop.data import InputError
from meshop.nn import ClusterAttention

H, K, C = 2, 3, 8
D = C // H


def oracle(layer, x, batch, graphs, measure=None, shape=None):
    """CANO's equations 13 to 16, a graph, a head, a cluster and a node at a time."""
    out = torch.zeros_like(x)
    for b in range(graphs):
        nodes = (batch == b).nonzero().flatten().tolist()
        if not nodes:
            continue
        mass = dict.fromkeys(nodes, 1.0)
        if measure is not None:
            mass = {n: 1000 * measure[n] / measure[nodes].sum() for n in nodes}
        rows = x[nodes]
        if shape is not None:
            grid = rows.T.reshape(1, C, *shape)
            rows = conv2d(grid, layer.conv.conv.weight, layer.conv.conv.bias, padding=1)[0].flatten(1).T
        q, k, v = (rows @ layer.lin_qkv.weight.T + layer.lin_qkv.bias).split(C, dim=1)
        heads = []
        for h in range(H):
            part = slice(h * D, (h + 1) * D)
            assign = torch.stack([torch.softmax(node @ layer.cluster[h], 0) for node in q[:, part]])  # eq 13
            tokens = []
            for c in range(K):
                query = sum(mass[n] * assign[i, c] * q[i, part] for i, n in enumerate(nodes))  # eq 14
                if layer.aggr == "mean":
                    query = query / (sum(mass[n] * assign[i, c] for i, n in enumerate(nodes)) + 1e-5)
                score = [mass[n] * torch.exp(query @ k[i, part] / math.sqrt(D)) for i, n in enumerate(nodes)]
                tokens.append(sum(s * v[i, part] for i, s in enumerate(score)) / sum(score))  # eq 15
            heads.append(torch.stack([sum(a[c] * tokens[c] for c in range(K)) for a in assign]))  # eq 16
        out[nodes] = torch.cat(heads, dim=1) @ layer.lin_out.weight.T + layer.lin_out.bias
    return out


def shaken(**arguments):
    torch.manual_seed(0)
    layer = ClusterAttention(C, heads=H, num_clusters=K, **arguments).double()
    for parameter in layer.parameters():
        # a thousand nodes with a sum over them: keep the logits within the range of a naive exp
        parameter.data += (0.1 if arguments.get("aggr") == "sum" else 0.5) * torch.randn_like(parameter)
    return layer


@pytest.mark.parametrize("aggr", ["mean", "sum"])
@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("shape", [None, (3, 4)])
def test_equals_the_equations(aggr, measured, shape):
    layer = shaken(aggr=aggr, grid_dim=None if shape is None else 2)
    batch = torch.tensor([0] * 5 + [3] * 1 + [1] * 6) if shape is None else torch.tensor([1, 0] * 12)
    batch, graphs = (batch[torch.randperm(12)], 4) if shape is None else (batch, 2)
    x = torch.randn(len(batch), C, dtype=torch.float64, requires_grad=True)
    measure = torch.rand(len(batch), dtype=torch.float64) if measured else None
    out = layer(x, batch, measure, shape=shape)
    expected = oracle(layer, x, batch, graphs, measure, shape)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)
    direction = torch.randn_like(out)
    leaves = [x, *layer.parameters()]
    ours, theirs = (torch.autograd.grad((y * direction).sum(), leaves) for y in (out, expected))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


def concentration(aggr, size, measured=False):
    """On a mesh of N nodes: size of the logits, and share of the nodes that a cluster attends to (e^entropy / N)."""
    torch.manual_seed(0)
    layer = ClusterAttention(64, heads=4, num_clusters=32, aggr=aggr)
    angle = torch.randn(2, 32), torch.randn(2, 32)
    pos = torch.rand(size, 2)
    wave = torch.cat([(pos @ angle[0]).sin(), (pos @ angle[1]).cos()], dim=1) * math.sqrt(2)
    q, k, _ = layer.lin_qkv(wave).unflatten(1, (3, 4, 16)).permute(1, 2, 0, 3)  # [H, N, d]
    assign = (q @ layer.cluster).softmax(-1)  # [H, N, K]
    if measured:
        assign = assign * 1000 / size
    query = assign.mT @ q  # [H, K, d]
    if aggr == "mean":
        query = query / assign.sum(1)[..., None]
    logit = query @ k.mT / 4  # [H, K, N]
    weight = logit.softmax(-1)
    entropy = -(weight * weight.clamp_min(1e-30).log()).sum(-1)
    return logit.square().mean().sqrt().item(), (entropy.exp() / size).mean().item()


def test_logits_grow_with_the_mesh_for_the_sum_and_not_for_the_mean():
    """The numbers of the docstring."""
    sizes = (1_000, 10_000, 100_000)
    logit, share = zip(*(concentration("mean", n) for n in sizes), strict=True)
    assert logit == pytest.approx([0.17] * 3, rel=0.02)
    assert share == pytest.approx([1] * 3, rel=0.01)
    logit, share = zip(*(concentration("sum", n) for n in sizes), strict=True)
    assert logit == pytest.approx([5.8, 57, 570], rel=0.02)
    assert share == pytest.approx([0.46, 0.065, 0.005], rel=0.03)
    logit, share = zip(*(concentration("sum", n, measured=True) for n in sizes), strict=True)
    assert logit == pytest.approx([5.75] * 3, rel=0.02)
    assert share == pytest.approx([0.46] * 3, rel=0.02)


def test_a_thousand_equal_nodes_weigh_the_same_with_and_without_measure():
    x = torch.randn(1000, C, dtype=torch.float64)
    for aggr in ("mean", "sum"):
        layer = shaken(aggr=aggr)
        torch.testing.assert_close(layer(x, measure=torch.full((1000,), 3e-9)), layer(x), rtol=1e-5, atol=1e-8)


def test_the_mean_converges_under_refinement():
    """The layer of a smooth field, at fixed points, on ever finer grids: an operator and not a function of the mesh."""

    def field(size, layer):
        t = (torch.arange(size, dtype=torch.float64) + 0.5) / size
        grid = torch.cat([torch.tensor([0.25, 0.75], dtype=torch.float64), t])
        x = torch.stack([(grid * k).cos() for k in range(1, C + 1)], dim=1)
        measure = torch.cat([torch.zeros(2, dtype=torch.float64), torch.full((size,), 1 / size, dtype=torch.float64)])
        return layer(x, measure=measure)[:2]  # two probes without measure

    layer = shaken()
    values = [field(size, layer) for size in (50, 100, 200, 400)]
    errors = [(value - values[-1]).norm() for value in values[:-1]]
    assert errors[0] > 3.5 * errors[1] > 12 * errors[2]  # second order, as the midpoint rule


def test_dropout_is_off_in_evaluation_and_on_in_training():
    layer, x = shaken(dropout=0.5), torch.randn(200, C, dtype=torch.float64)
    assert (layer(x) == 0).double().mean() == pytest.approx(0.5, abs=0.05)
    layer.eval()
    torch.testing.assert_close(layer(x), oracle(layer, x, torch.zeros(200), 1), rtol=1e-9, atol=1e-11)


def test_name():
    assert str(ClusterAttention(64, heads=4, num_clusters=32)) == (
        "ClusterAttention(64, heads=4, num_clusters=32, aggr='mean')"
    )


def test_arguments_are_checked():
    with pytest.raises(InputError, match="multiple of heads"):
        ClusterAttention(10, heads=4)
    with pytest.raises(InputError, match="'mean' or 'sum'"):
        ClusterAttention(16, aggr="max")
