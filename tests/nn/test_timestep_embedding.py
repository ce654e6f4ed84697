import math

import pytest
import torch
from torch.nn.functional import silu

from meshop.nn import TimestepEmbedding


@pytest.mark.parametrize("channels", [1, 6, 7])
def test_equals_the_equation(channels):
    layer, time, half = TimestepEmbedding(channels, scale=1000.0), torch.tensor([0.0, 0.25, 3.0]), channels // 2
    rows = []
    for t in time.tolist():
        angle = [1000 * t * 10 ** (-4 * k / half) for k in range(half)]
        rows.append([*map(math.cos, angle), *map(math.sin, angle), *[0.0] * (channels % 2)])
    wave = torch.tensor(rows)
    expected = layer.lin2(silu(layer.lin1(wave)))
    torch.testing.assert_close(layer(time), expected, rtol=1e-3, atol=1e-4)
    assert torch.equal(layer(time[:, None]), layer(time))


def test_name():
    assert str(TimestepEmbedding(8)) == "TimestepEmbedding(8)"
