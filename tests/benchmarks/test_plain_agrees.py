"""The plain twins compute what meshop's layers and models compute: outputs and gradients."""

import pytest
import torch
from plain import plain
from torch_geometric.utils import to_dense_batch

from meshop.models import CANO, LaMO, LinearNO, Transolver
from meshop.nn import ClusterAttention, LinearAttentionNO, PhysicsAttention

CASES = {
    "physics": lambda: PhysicsAttention(16, heads=4, num_slices=8),
    "cluster": lambda: ClusterAttention(16, heads=4, num_clusters=8),
    "cluster-sum": lambda: ClusterAttention(16, heads=4, num_clusters=8, aggr="sum"),
    "linear": lambda: LinearAttentionNO(16, heads=4, num_slices=8),
    "Transolver": lambda: Transolver(16, 16, 2, 3, heads=4, num_slices=8),
    "CANO": lambda: CANO(16, 16, 2, 3, heads=4, num_clusters=8),
    "LinearNO": lambda: LinearNO(16, 16, 2, 3, heads=4, num_slices=8),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sizes", [(700,), (200, 200), (1, 300, 40)], ids=["single", "equal", "ragged"])
def test_outputs_and_gradients_agree(name, sizes):
    ours = CASES[name]()
    with torch.no_grad():
        for p in ours.parameters():
            p.add_(0.1 * torch.randn_like(p))  # temperatures and biases differ from one another
    theirs = plain(ours)
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    x = torch.randn(sum(sizes), 16)
    given = {} if len(sizes) == 1 else {"batch": batch, "batch_size": len(sizes)}
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    dense, mask = to_dense_batch(inputs[1], batch)
    outputs = [ours(inputs[0], **given), theirs(dense, None if mask.all() else mask)[mask]]
    torch.testing.assert_close(*outputs, rtol=1e-5, atol=1e-5)
    goal = torch.randn_like(outputs[0])
    for out in outputs:
        (out * goal).sum().backward()
    pairs = {"x": (inputs[0].grad, inputs[1].grad)}
    found = dict(theirs.named_parameters())
    assert set(found) == {key for key, _ in ours.named_parameters()}
    pairs |= {key: (p.grad, found[key].grad) for key, p in ours.named_parameters()}
    largest = max(float(one.abs().max()) for one, _ in pairs.values())
    for key, (one, other) in pairs.items():
        assert (one - other).abs().max() <= 1e-5 * largest, key


def test_others_have_no_twin():
    assert plain(LaMO(16, 16, 1, 3)) is None
