import math

import numpy as np
import pytest
import scipy.stats
import torch

from meshop.data import InputError
from meshop.metrics import grouped_mse, mse, pearson, r2, relative_h1, relative_l2, rmse, spearman

FIELDS = (mse, rmse, relative_l2, r2, pearson)


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
            root.append(math.sqrt(error / 3 / mu[nodes].sum()) if nodes else 0)
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
        for metric in (relative_l2, rmse, mse):
            pred = other.clone().requires_grad_()
            metric(pred, other).sum().backward()
            assert not pred.grad.any()


def test_gradient_is_that_of_finite_differences():
    target, measure = torch.randn(5, 2, dtype=torch.float64), torch.rand(5, dtype=torch.float64)
    batch = torch.tensor([0, 1, 0, 1, 1])
    pred = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    for metric in FIELDS:
        assert torch.autograd.gradcheck(lambda p, f=metric: f(p, target, batch, measure), pred)


def test_half_precision_is_summed_in_single():
    pred, target = torch.zeros(70_000, 1, dtype=torch.float16), torch.ones(70_000, 1, dtype=torch.float16)
    assert relative_l2(pred, target) == 1
    assert relative_l2(pred, target).dtype == torch.float32


def test_one_channel_may_come_without_its_axis():
    pred, target = torch.randn(5), torch.randn(5)
    assert torch.equal(relative_l2(pred, target), relative_l2(pred[:, None], target[:, None]))


def test_mse_and_r2_and_pearson_equal_loops():
    torch.manual_seed(1)
    pred, target, measure = *torch.randn(2, 20, 2, dtype=torch.float64), torch.rand(20).double()
    batch = torch.tensor([0, 2, 2, 0] * 5)
    for weight in (None, measure):
        for graph in (0, 2):
            n = batch == graph
            w = torch.ones(20, dtype=torch.float64)[n] if weight is None else weight[n]
            w = (w / w.sum() / 2)[:, None]
            p, y = pred[n], target[n]
            error = (w * (p - y).square()).sum()
            p, y = p - (w * p).sum(), y - (w * y).sum()
            spread = (w * y.square()).sum()
            given = (pred, target, batch, weight)
            assert mse(*given)[graph].item() == pytest.approx(error.item(), rel=1e-12)
            assert r2(*given)[graph].item() == pytest.approx(1 - (error / spread).item(), rel=1e-12)
            both = (w * p * y).sum() / (spread * (w * p.square()).sum()).sqrt()
            assert pearson(*given)[graph].item() == pytest.approx(both.item(), rel=1e-12)


def test_correlations_are_those_of_scipy():
    rng = np.random.default_rng(0)
    pred = np.round(rng.normal(size=(40, 2)), 1)  # with ties
    target = np.round(pred + rng.normal(size=(40, 2)), 1)
    assert len(np.unique(pred[:, 0])) < 40
    batch = torch.from_numpy(rng.integers(0, 2, 40))
    given = torch.from_numpy(pred), torch.from_numpy(target), batch
    for metric, oracle in ((pearson, scipy.stats.pearsonr), (spearman, scipy.stats.spearmanr)):
        for graph in range(2):
            n = (batch == graph).numpy()
            each = [oracle(pred[n, c], target[n, c])[0] for c in range(2)]
            assert metric(*given, keep=1)[graph].tolist() == pytest.approx(each, abs=1e-12)
            flat = oracle(pred[n].ravel(), target[n].ravel())[0]
            assert metric(*given)[graph].item() == pytest.approx(flat, abs=1e-12)
    measure = torch.ones(40, dtype=torch.float64)
    torch.testing.assert_close(pearson(*given, measure), pearson(*given))


def test_ranks_forget_the_values():
    x, y = torch.randn(30), torch.randn(30)
    torch.testing.assert_close(spearman(x.exp(), y.pow(3)), spearman(x, y))
    assert spearman(x, -x.exp()).item() == pytest.approx(-1)


@pytest.mark.parametrize("metric", [*FIELDS, spearman])
def test_kept_axes_are_metrics_of_their_parts(metric):
    pred, target = torch.randn(12, 4, 3), torch.randn(12, 4, 3)
    batch = torch.arange(12) % 2
    whole = metric(pred, target, batch, keep=(1, 2))
    assert whole.shape == (2, 4, 3)
    torch.testing.assert_close(metric(pred, target, batch, keep=(2, 1)), whole.transpose(1, 2))
    frames, channels = metric(pred, target, batch, keep=1), metric(pred, target, batch, keep=2)
    for t in range(4):
        torch.testing.assert_close(frames[:, t], metric(pred[:, t], target[:, t], batch))
        for c in range(3):
            torch.testing.assert_close(whole[:, t, c], metric(pred[:, t, c], target[:, t, c], batch))
    for c in range(3):
        torch.testing.assert_close(channels[:, c], metric(pred[:, :, c], target[:, :, c], batch))
    assert metric(pred, target, batch, batch_size=5).shape == (5,)


def test_a_block_is_not_the_mean_of_its_frames():
    """Errors grow tenfold a frame and the field too: every frame has error 1/2; a late frame outweighs the others."""
    target = torch.tensor([1.0, 10.0, 100.0]).repeat(5, 1)[:, :, None]  # [N, T, 1]
    pred = target * torch.tensor([1.5, 1.5, 1.0])[:, None]
    torch.testing.assert_close(relative_l2(pred, target, keep=1), torch.tensor([[0.5, 0.5, 0.0]]))
    assert relative_l2(pred, target).item() == pytest.approx(math.sqrt(25.25 / 10101))
    assert relative_l2(pred[:, -1], target[:, -1]).item() == 0


def test_grouped_mse_weighs_groups_alike():
    pred, target = torch.randn(7, 3, 5), torch.randn(7, 3, 5)
    square = (pred - target).square()
    expected = square[..., :3].mean() + square[..., 3].mean() + square[..., 4].mean()
    torch.testing.assert_close(grouped_mse(pred, target, [3, 1, 1]), expected[None])
    with pytest.raises(InputError, match=r"groups of 5 channels together \(got \[3, 1\]\)"):
        grouped_mse(pred, target, [3, 1])


def test_constant_fields():
    """0.1 is no float: its mean is not quite itself, and yet a constant field has no variance at all."""
    constant, other = torch.full((1001, 1), 0.1), torch.randn(1001, 1)
    assert pearson(other, constant).item() == pearson(constant, other).item() == 0
    assert r2(constant, constant).item() == 1
    assert r2(other, constant).item() == -math.inf
    assert r2(torch.full((4, 1), 2.5), torch.tensor([[1.0], [2], [3], [4]])).item() == pytest.approx(0)


def test_far_from_zero():
    """The variance of a field at 1e4 with a deviation of 1e-2 is not lost in its mean square."""
    wiggle = torch.randn(1000, 1, dtype=torch.float64)
    target, pred = (1e4 + 1e-2 * x for x in (wiggle, 0.9 * wiggle))
    for metric in (r2, pearson):
        torch.testing.assert_close(
            metric(pred.float(), target.float()), metric(pred, target).float(), atol=2e-3, rtol=0
        )


def test_shapes_that_differ_are_an_error_and_not_broadcast():
    with pytest.raises(InputError, match=r"pred and target of one shape \(got \[5\] and \[5, 1\]\)"):
        relative_l2(torch.randn(5), torch.randn(5, 1))
    for axis in (0, 2, -1):
        with pytest.raises(InputError, match=r"keep axes of \[5, 2\] after that of the nodes"):
            mse(torch.randn(5, 2), torch.randn(5, 2), keep=axis)


def test_relative_h1_of_a_batch_of_graphs_with_a_closed_form():
    """Lines y = a x and p = b x have the error |b - a| / |a| on any nodes; the wake cut's pairs do not count."""
    pos = torch.tensor([[0.0, 0], [1, 0], [3, 0], [0, 0], [0, 2], [0, 2], [0, 7]])
    edges = torch.tensor([[0, 1, 3, 4, 5], [1, 2, 4, 5, 6]])
    batch = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    target, pred = torch.tensor([2.0, 5])[batch], torch.tensor([3.0, 4])[batch]
    target, pred = (factor[:, None] * pos.sum(1, keepdim=True) for factor in (target, pred))
    expected = torch.tensor([0.5, 0.2, 0])
    torch.testing.assert_close(relative_h1(pred + 100, target, pos, edges, batch, 3), expected)
    torch.testing.assert_close(relative_h1(pred, target, pos, edges.flip(0), batch), expected[:2])
    with pytest.raises(InputError, match="one shape"):
        relative_h1(pred[:, 0], target, pos, edges)


def test_relative_h1_is_that_of_central_differences_in_the_limit():
    """Of smooth fields on a grid: the norm over both axes of the published loss, to first order in h."""
    off = []
    for n in (20, 40):
        x, y = torch.meshgrid(*[torch.linspace(0, 1, n + 1, dtype=torch.float64)] * 2, indexing="ij")
        pos, number = torch.stack([x, y], -1).view(-1, 2), torch.arange((n + 1) ** 2).view(n + 1, n + 1)
        ends = [(number[:-1], number[1:]), (number[:, :-1], number[:, 1:])]
        edges = torch.cat([torch.stack([a.flatten(), b.flatten()]) for a, b in ends], 1)
        target, pred = torch.sin(3 * x) * torch.cos(2 * y), torch.sin(3 * x) * y
        slopes = [torch.stack(torch.gradient(v, spacing=1 / n), -1)[1:-1, 1:-1] for v in (pred - target, target)]
        found = relative_h1(pred.view(-1, 1), target.view(-1, 1), pos, edges)
        off.append(abs(float(found - slopes[0].norm() / slopes[1].norm())))
    assert off[0] < 0.013
    assert off[1] < 0.55 * off[0]
