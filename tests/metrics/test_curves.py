"""When curves cross a threshold: straight lines, whose crossing is known."""

import math

import pytest
import torch

from meshop.data import InputError
from meshop.metrics import pearson, time_to_threshold


def test_a_line_crosses_where_it_should():
    """c = 1 - t / 10 at uneven times, and its mirror image that rises."""
    times = torch.tensor([0.0, 0.5, 2.0, 3.5, 9.0, 10.0], dtype=torch.float64)
    curve = 1 - times / 10
    for threshold in (0.99, 0.8, 0.5, 0.123, 0.0):
        found = time_to_threshold(curve, times, threshold)
        assert found.item() == pytest.approx(10 * (1 - threshold))
        assert time_to_threshold(-curve, times, -threshold, falls=False).item() == pytest.approx(found.item())


def test_the_first_crossing_counts():
    curve = torch.tensor([1.0, 0.5, 1.0, 0.0])
    assert time_to_threshold(curve, torch.arange(4.0), 0.75).item() == 0.5
    assert time_to_threshold(curve, torch.arange(4.0), 0.5).item() == 1.0


def test_each_curve_has_its_own_answer_and_times():
    curve = torch.tensor([[[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]], [[0.0, 1.0, 1.0], [1.0, 0.9, 0.9]]])
    found = time_to_threshold(curve, torch.tensor([1, 2, 3]), 0.5)
    assert found.tolist() == [[1.5, 2.5], [1.0, math.inf]]
    times = torch.tensor([1.0, 2.0, 3.0]) * torch.tensor([1.0, 10.0, 100.0, 1000.0]).view(2, 2, 1)
    assert time_to_threshold(curve, times, 0.5).tolist() == [[1.5, 25.0], [100.0, math.inf]]


def test_a_rollout_that_has_blown_up_is_beyond_both_thresholds():
    times = torch.arange(3.0)
    for value in (math.nan, math.inf, -math.inf):
        curve = torch.tensor([0.0, 0.0, value])
        assert time_to_threshold(curve, times, -1.0).item() == 2.0
        assert time_to_threshold(curve, times, 1.0, falls=False).item() == 2.0
    assert time_to_threshold(torch.tensor([math.nan, 0.0]), times[:2], -1.0).item() == 0.0


def test_of_the_correlation_of_two_waves_that_part():
    """sin(x + t) and sin x correlate with cos t, which is 1/2 at pi / 3."""
    x = 2 * torch.pi * torch.arange(64, dtype=torch.float64) / 64
    times = torch.linspace(0, 2, 201, dtype=torch.float64)
    pred, target = torch.sin(x[:, None] + times), torch.sin(x)[:, None].expand(64, 201)
    correlation = pearson(pred, target, keep=1)
    torch.testing.assert_close(correlation[0], times.cos())
    assert time_to_threshold(correlation, times, 0.5).item() == pytest.approx(math.pi / 3, abs=1e-5)


@pytest.mark.parametrize("shapes", [((3,), (4,)), ((2, 3), (3, 3)), ((0,), (0,)), ((), ())])
def test_there_is_a_time_for_each_point(shapes):
    with pytest.raises(InputError, match=r"Expected a curve \[..., T\] and times \[T\]"):
        time_to_threshold(torch.zeros(shapes[0]), torch.zeros(shapes[1]), 0.5)
