import math

import pytest
import torch

from meshop.metrics import relative_l2, rmse


def test_equal_loops_over_graphs_and_nodes():
    torch.manual_seed(0)
    pred, target, measure = torch.randn(20, 3), torch.randn(20, 3), torch.rand(20)
    batch = torch.tensor([0, 2, 2, 4] * 5)  # unsorted, graphs 1, 3 and 5 are empty
    for weight in (None, measure):
        mu = torch.ones(20) if weight is None else weight
        root, ratio = [], []
        for graph in range(6):
            nodes = (batch == graph).nonzero().flatten().tolist()
            error = sum(mu[n] * (pred[n] - target[n]).square().sum() for n in nodes)
            size = sum(mu[n] * target[n].square().sum() for n in nodes)
            root.append(math.sqrt(error / mu[nodes].sum()) if nodes else 0)
            ratio.append(math.sqrt(error / size) if nodes else 0)
        torch.testing.assert_close(rmse(pred, target, batch, weight, batch_size=6), torch.tensor(root))
        torch.testing.assert_close(relative_l2(pred, target, batch, weight, batch_size=6), torch.tensor(ratio))
        torch.testing.assert_close(relative_l2(pred, target, batch, weight), torch.tensor(ratio[:5]))
        one = batch == 2
        mu = None if weight is None else weight[one]
        torch.testing.assert_close(relative_l2(pred[one], target[one], measure=mu), torch.tensor(ratio[2:3]))


def test_converge_to_the_integral():
    """y = x on [0, 1] and p = x^2, with trapezoidal weights on graded nodes: the errors fall with the square of h."""
    exact_error = math.sqrt(1 / 3 - 2 / 4 + 1 / 5)  # of (x - x^2)^2
    exact_size = math.sqrt(1 / 3)
    off = []
    for size in (20, 40, 80):
        x = torch.linspace(0, 1, size + 1, dtype=torch.float64).square()
        h = x.diff()
        measure = torch.nn.functional.pad(h, (0, 1)) / 2 + torch.nn.functional.pad(h, (1, 0)) / 2
        pred, target = x.square()[:, None], x[:, None]
        off.append(
            (
                abs(rmse(pred, target, measure=measure).item() - exact_error),
                abs(relative_l2(pred, target, measure=measure).item() - exact_error / exact_size),
            )
        )
    for i in range(2):
        assert off[0][i] > 3.8 * off[1][i] > 14 * off[2][i]
        assert off[2][i] < 1e-3


def test_neither_the_unit_of_the_field_nor_of_the_measure_matters():
    pred, target, measure = torch.randn(9, 2), torch.randn(9, 2), torch.rand(9)
    expected = relative_l2(pred, target, measure=measure)
    for unit in (1e-30, 1e30):  # squares of these are out of range
        torch.testing.assert_close(relative_l2(unit * pred, unit * target, measure=measure), expected)
        torch.testing.assert_close(relative_l2(pred, target, measure=unit * measure), expected)
        torch.testing.assert_close(rmse(unit * pred, unit * target) / unit, rmse(pred, target))


def test_a_zero_target_gives_the_absolute_error():
    pred, zero = torch.tensor([[3.0], [4.0]]), torch.zeros(2, 1)
    assert relative_l2(pred, zero).item() == pytest.approx(math.sqrt(12.5))
    assert relative_l2(zero, zero).item() == 0


def test_gradient_is_finite_where_the_error_is_zero():
    target = torch.randn(5, 2)
    for other in (target, torch.zeros(5, 2)):
        for metric in (relative_l2, rmse):
            pred = other.clone().requires_grad_()
            metric(pred, other).sum().backward()
            assert not pred.grad.any()


def test_gradient_is_that_of_finite_differences():
    target, measure = torch.randn(5, 2, dtype=torch.float64), torch.rand(5, dtype=torch.float64)
    batch = torch.tensor([0, 1, 0, 1, 1])
    pred = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    for metric in (relative_l2, rmse):
        assert torch.autograd.gradcheck(lambda p, f=metric: f(p, target, batch, measure), pred)


def test_half_precision_is_summed_in_single():
    pred, target = torch.zeros(70_000, 1, dtype=torch.float16), torch.ones(70_000, 1, dtype=torch.float16)
    assert relative_l2(pred, target) == 1
    assert relative_l2(pred, target).dtype == torch.float32


def test_one_channel_may_come_without_its_axis():
    pred, target = torch.randn(5), torch.randn(5)
    assert torch.equal(relative_l2(pred, target), relative_l2(pred[:, None], target[:, None]))
