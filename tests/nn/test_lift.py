import pytest
import torch

from meshop.data import InputError
from meshop.nn import Lift, TimestepEmbedding, UnifiedPosition


def test_equals_the_equation():
    lift = Lift(3, 8, position=UnifiedPosition(2, ref=2), time=TimestepEmbedding(8))
    x, pos, time = torch.randn(5, 3), torch.rand(5, 2), torch.tensor([0.1, 7.0])
    batch = torch.tensor([1, 0, 0, 1, 1])
    features = torch.cat([lift.position(pos, batch), x], dim=1)
    expected = torch.stack(
        [lift.mlp(f) + lift.placeholder + lift.time(time)[b] for f, b in zip(features, batch, strict=True)]
    )
    torch.testing.assert_close(lift(x, pos, batch, time=time), expected)
    assert lift.mlp.in_channels == 7


def test_the_placeholder_starts_between_zero_and_one_over_the_width():
    lift = Lift(3, 8)
    assert ((lift.placeholder >= 0) & (lift.placeholder <= 1 / 8)).all()
    assert lift.placeholder.std() > 0.01


def test_reset_reaches_the_injected_modules():
    lift = Lift(3, 8, time=TimestepEmbedding(8))
    before = [p.clone() for p in lift.parameters()]
    lift.reset_parameters()
    assert not any(torch.equal(a, b) for a, b in zip(before, lift.parameters(), strict=True) if a.any())


def test_what_is_missing_is_asked_for():
    with pytest.raises(InputError, match="Expected x with 3 channels"):
        Lift(3, 8)(torch.ones(5, 2))
    with pytest.raises(InputError, match="UnifiedPosition needs the key 'pos'"):
        Lift(3, 8, position=UnifiedPosition(2))(torch.ones(5, 3))
    with pytest.raises(InputError, match="TimestepEmbedding needs the key 'time'"):
        Lift(3, 8, time=TimestepEmbedding(8))(torch.ones(5, 3))


def test_name():
    assert str(Lift(3, 8)) == "Lift(3, 8)"
