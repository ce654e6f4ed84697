import pytest
import torch

from meshop.data import InputError
from meshop.nn import Normalizer


def test_standardises_each_channel_and_back():
    x = torch.randn(1000, 3) * torch.tensor([1e-6, 1.0, 2e11]) + torch.tensor([1e-3, 0.0, -3e11])
    norm = Normalizer(3)
    norm.fit(x)
    z = norm(x)
    torch.testing.assert_close(z.mean(0), torch.zeros(3), atol=1e-3, rtol=0)
    torch.testing.assert_close(z.std(0, correction=0), torch.ones(3), atol=1e-3, rtol=0)
    torch.testing.assert_close(norm.inverse(z), x, rtol=1e-6, atol=0)


def test_fit_in_parts_is_fit_at_once():
    x = torch.randn(100, 2, dtype=torch.float64)
    whole, parts = Normalizer(2).double(), Normalizer(2).double()
    whole.fit(x)
    for part in (x[:0], x[:1], x[1:40], x[40:]):
        parts.fit(part)
    for norm in (whole, parts):
        torch.testing.assert_close(norm.mean, x.mean(0), rtol=1e-14, atol=1e-15)
        torch.testing.assert_close(norm.std, x.std(0, correction=0), rtol=1e-13, atol=0)


def test_a_small_spread_about_a_large_mean():
    """E[x^2] - E[x]^2 would give 8 for a variance of 1e-6, or NaN as its root."""
    x = 1e4 + 1e-3 * torch.randn(1000, 1)
    norm = Normalizer(1)
    for part in x.chunk(10):
        norm.fit(part)
    assert norm.std.item() == pytest.approx(x.double().std(correction=0).item(), rel=1e-6)
    torch.testing.assert_close(norm.inverse(norm(x)), x, rtol=1e-6, atol=0)


@pytest.mark.parametrize("value", [0.0, 1e-12, -210e9, 101325.1])
@pytest.mark.parametrize("count", [1, 7, 30_000])
def test_a_constant_channel_goes_forth_and_back(value, count):
    x = torch.full((count, 1), value)
    norm = Normalizer(1)
    for part in x.split(1000):
        norm.fit(part)
    assert norm.std.item() == pytest.approx(abs(value) or 1)
    assert norm(x).abs().max() < 1e-6
    torch.testing.assert_close(norm.inverse(norm(x)), x, rtol=1e-6, atol=0)


def test_measure_weighs_the_nodes():
    x, measure = torch.randn(50, 2, dtype=torch.float64), torch.randint(1, 4, (50,))
    weighed, repeated = Normalizer(2).double(), Normalizer(2).double()
    for part in (slice(0, 20), slice(20, 50)):
        weighed.fit(x[part], measure[part] * 1e-9)
    repeated.fit(x.repeat_interleave(measure, dim=0))
    torch.testing.assert_close(weighed.mean, repeated.mean)
    torch.testing.assert_close(weighed.std, repeated.std)


def test_unfitted_is_the_identity_and_reset_forgets():
    x, norm = torch.randn(5, 2), Normalizer(2)
    assert torch.equal(norm(x), x)
    norm.fit(x + 1)
    norm.reset_parameters()
    assert torch.equal(norm(x), x)
    norm.fit(x)
    torch.testing.assert_close(norm.mean, x.mean(0))


def test_state_loads_into_a_fresh_instance():
    norm, fresh = Normalizer(2), Normalizer(2)
    norm.fit(torch.randn(9, 2))
    fresh.load_state_dict(norm.state_dict())
    x = torch.randn(4, 2)
    assert torch.equal(fresh(x), norm(x))
    assert not list(norm.parameters())


def test_bad_data_is_refused():
    norm = Normalizer(2)
    with pytest.raises(InputError, match=r"shape \[N, 2\] \(got \[3, 1\]\)"):
        norm.fit(torch.ones(3, 1))
    with pytest.raises(InputError, match=r"channels \[1\]"):
        norm.fit(torch.tensor([[0.0, float("nan")]]))


def test_name():
    assert str(Normalizer(3)) == "Normalizer(3)"
