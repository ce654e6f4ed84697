import pytest
import torch

from meshop.nn import SwiGLU


def test_equals_the_equation():
    layer, x = SwiGLU(6, hidden_channels=4), torch.randn(5, 6)
    for layer_ in (layer.lin1, layer.lin2, layer.lin3):
        torch.nn.init.normal_(layer_.weight)
        torch.nn.init.normal_(layer_.bias)
    gate, value = (x @ lin.weight.T + lin.bias for lin in (layer.lin1, layer.lin2))
    expected = (gate / (1 + (-gate).exp()) * value) @ layer.lin3.weight.T + layer.lin3.bias
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize(("channels", "hidden"), [(128, 170), (32, 42), (256, 341)])
def test_is_as_wide_as_the_published_sizes_need(channels, hidden):
    assert str(SwiGLU(channels)) == f"SwiGLU({channels}, hidden_channels={hidden})"
    assert sum(p.numel() for p in SwiGLU(channels).parameters()) == 3 * channels * hidden + 2 * hidden + channels
