import itertools

import pytest
import torch

from meshop.data import InputError
from meshop.nn import GridConv


def test_equals_the_sum_over_neighbours():
    """Cross-correlation with zeros outside, a node at a time; axes of different length would show a transposed grid."""
    layer, (n1, n2) = GridConv(2, 3, dim=2), (4, 5)
    x = torch.randn(n1 * n2, 2)
    expected = torch.zeros(n1 * n2, 3)
    for i, j in itertools.product(range(n1), range(n2)):
        expected[i * n2 + j] = layer.conv.bias
        for a, b in itertools.product((-1, 0, 1), repeat=2):
            if 0 <= i + a < n1 and 0 <= j + b < n2:
                expected[i * n2 + j] += layer.conv.weight[:, :, a + 1, b + 1] @ x[(i + a) * n2 + j + b]
    torch.testing.assert_close(layer(x, shape=(n1, n2)), expected)


@pytest.mark.parametrize(("dim", "shape"), [(1, (12,)), (2, (3, 4)), (3, (2, 3, 2))])
def test_a_batch_is_its_grids_one_by_one_in_any_order(dim, shape):
    layer, x, batch = GridConv(2, 3, dim, kernel_size=5), torch.randn(24, 2), torch.tensor([1, 0, 0, 1] * 6)
    out = layer(x, batch, shape=shape)
    for graph in (0, 1):
        torch.testing.assert_close(out[batch == graph], layer(x[batch == graph], shape=shape))


@pytest.mark.parametrize("batch_size", [None, 2])
def test_graphs_that_are_no_such_grid_are_refused(batch_size):
    layer, x = GridConv(2, 3, dim=2), torch.ones(24, 2)
    with pytest.raises(InputError, match="shape"):
        layer(x)
    with pytest.raises(InputError, match="2-D grid"):
        layer(x, shape=(2, 3, 4))
    with pytest.raises(InputError, match="graphs of 20 nodes"):
        layer(x, shape=(4, 5))
    uneven = torch.tensor([0] * 10 + [1] * 14)  # 24 nodes are two grids of 12, but not these
    with pytest.raises(InputError, match="graphs of 12 nodes"):
        layer(x, uneven, batch_size, shape=(3, 4))


def test_arguments_are_checked():
    for dim, kernel_size in ((4, 3), (2, 4)):
        with pytest.raises(InputError, match="odd kernel_size"):
            GridConv(2, 3, dim, kernel_size)


def test_name():
    assert str(GridConv(2, 3, dim=2)) == "GridConv(2, 3, dim=2)"
