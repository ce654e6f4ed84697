import torch
from torch.nn.functional import gelu

from meshop.nn import FeedForward


def test_equals_the_equation():
    layer, x = FeedForward(3, 5, 2), torch.randn(7, 3)
    hidden = gelu(x @ layer.lin1.weight.T + layer.lin1.bias)
    torch.testing.assert_close(layer(x), hidden @ layer.lin2.weight.T + layer.lin2.bias)
    assert str(layer) == "FeedForward(3, 5, 2)"
