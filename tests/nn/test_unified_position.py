import itertools

import pytest
import torch

from meshop.data import InputError
from meshop.nn import UnifiedPosition


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("ref", [1, 2, 5])
def test_equals_the_equation(dim, ref):
    pos = torch.randn(7, dim)
    axis = [i / (ref - 1) for i in range(ref)] if ref > 1 else [0.0]
    lower, upper = pos.min(0).values, pos.max(0).values
    expected = [
        [((p - lower) / (upper - lower) - torch.tensor(point)).norm() for point in itertools.product(axis, repeat=dim)]
        for p in pos
    ]
    layer = UnifiedPosition(dim, ref)
    torch.testing.assert_close(layer(pos), torch.tensor(expected))
    assert layer.out_channels == ref**dim == layer(pos).size(1)


def test_each_graph_has_its_own_box_unless_one_is_given():
    pos, batch = torch.randn(9, 2), torch.tensor([0, 2, 0, 2, 0, 2, 0, 0, 0])
    layer = UnifiedPosition(2, ref=3)
    out = layer(pos, batch)
    for graph in (0, 2):
        torch.testing.assert_close(out[batch == graph], layer(pos[batch == graph] * 1000 + 7), rtol=1e-4, atol=1e-4)
    fixed = UnifiedPosition(2, ref=3, box=((-1, 0), (1, 4)))
    inside = (pos - torch.tensor([-1, 0])) / torch.tensor([2, 4])
    torch.testing.assert_close(fixed(pos, batch), UnifiedPosition(2, ref=3, box=((0, 0), (1, 1)))(inside))


def test_a_flat_or_single_node_graph_has_finite_features_and_gradients():
    layer = UnifiedPosition(2, ref=3)
    for pos in (torch.tensor([[3.0, 5.0]]), torch.tensor([[0.0, 5.0], [1.0, 5.0]])):
        pos.requires_grad_()
        out = layer(pos)
        out.sum().backward()
        assert out.isfinite().all()
        assert pos.grad.isfinite().all()
        assert out[0].tolist() == pytest.approx([0, 0.5, 1, 0.5, 0.5**0.5, 1.25**0.5, 1, 1.25**0.5, 2**0.5])


def test_the_lattice_is_exact_in_double_and_not_in_the_state():
    layer = UnifiedPosition(1, ref=8, box=((0,), (1,)))
    out = layer(torch.tensor([[1 / 7]], dtype=torch.float64))
    assert out[0, 1] < 1e-15
    assert not layer.state_dict()


def test_wrong_dimension_is_refused():
    with pytest.raises(InputError, match="Expected 2 coordinates"):
        UnifiedPosition(2)(torch.ones(3, 3))


def test_name():
    assert str(UnifiedPosition(2, ref=4)) == "UnifiedPosition(2, ref=4)"
