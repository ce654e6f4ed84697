import math

import pytest
import torch
from torch import nn

from meshop.data import InputError
from meshop.nn import Deformation, GridConv, GridResample, PhysicsAttention, RadiusKernel, SpectralConv
from meshop.nn.grid_resample import grid_size

F = torch.float64


def shaken(module):
    torch.manual_seed(0)
    for parameter in module.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    return module.to(F)


def resample(size, variant="multilinear", **arguments):
    """The two ways in each variant, with parameters that are not those of the start."""
    dim, channels = len(size), 3
    if variant == "radius":
        arguments |= {"kernel_in": RadiusKernel(dim, channels), "kernel_out": RadiusKernel(dim, radius=1.9)}
    if variant == "deformed":
        arguments |= {"deformation": Deformation(dim)}
    return shaken(GridResample(nn.Identity(), size, **arguments))


def points(size):
    """Grid points of the unit box, row-major."""
    axes = [torch.arange(n, dtype=F) / max(n - 1, 1) for n in size]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, -2)


def weights(kernel, offset):
    return kernel(offset)[:, 0] if kernel is not None else (1 - offset.abs()).clamp_min(0).prod(1)


VARIANTS = ["multilinear", "radius", "deformed"]
SIZES = [(7,), (6, 5), (4, 5, 3)]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("size", SIZES)
def test_both_ways_equal_the_equations(size, variant):
    layer = resample(size, variant)
    dim, cells = len(size), math.prod(size)
    pos = torch.cat([torch.rand(400, dim, dtype=F), points([2] * dim)])  # the corners fix the box, no point is empty
    x, measure = torch.randn(len(pos), 3, dtype=F), torch.rand(len(pos), dtype=F)
    unit = pos if layer.deformation is None else layer.deformation(pos)
    scale = torch.tensor(size, dtype=F) - 1
    offset = (unit[:, None] - points(size)) * scale  # [N, cells, d]
    flat = offset.flatten(0, 1)
    w = torch.stack([weights(layer.kernel_in, flat)] * 3, -1) if variant != "radius" else layer.kernel_in(flat)
    w = w.view(len(pos), cells, 3) * measure[:, None, None]
    expected = (w * x[:, None]).sum(0) / w.sum(0)
    grid = layer.to_grid(x, 5 * pos - 2, measure=1e-9 * measure)
    enough = w.sum(0) > 1e-3 * w.sum(0).mean(0)
    out = grid[0].flatten(1).T
    torch.testing.assert_close(out[enough], expected[enough], rtol=1e-9, atol=1e-9)
    assert enough.double().mean() > 0.9
    w = weights(layer.kernel_out, flat).view(len(pos), cells)
    value = torch.randn(1, 2, *size, dtype=F)
    expected = (w @ value.flatten(2)[0].T) / w.sum(1, keepdim=True)
    torch.testing.assert_close(layer.to_nodes(value, 5 * pos - 2), expected, rtol=1e-9, atol=1e-9)


def test_a_point_without_nodes_is_filled_from_coarser_averages():
    # nodes at points 0, 1 and 5 of six; pairs hold (0, 2), (-, -), (-, 8); pairs of pairs (0, 2), (-, 8); all of them
    pos = torch.tensor([[0.0], [1.0], [5.0]], dtype=F)
    x = torch.tensor([[0.0], [2.0], [8.0]], dtype=F)
    quads = torch.tensor([1.0, 8.0], dtype=F)
    pairs = torch.tensor([1.0, 0.75 * quads[0] + 0.25 * quads[1], 8.0], dtype=F)
    filled = torch.tensor([0.75 * pairs[1] + 0.25 * pairs[0], 0.75 * pairs[1] + 0.25 * pairs[2]])
    filled = [*filled.tolist(), (0.75 * pairs[2] + 0.25 * pairs[1]).item()]
    out = resample((6,)).to_grid(x, pos)
    assert out.flatten().tolist() == pytest.approx([0, 2, *filled, 8])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("margin", [0.0, 0.3])
def test_both_ways_reproduce_constants(size, variant, margin):
    """Two graphs: one fills its box, one is a ring with a hole and a lone node far away."""
    layer, dim = resample(size, variant, margin=margin), len(size)
    angle = torch.linspace(0, 6, 30, dtype=F)
    ring = torch.stack([angle.cos(), angle.sin(), angle], -1)[:, :dim]
    pos = torch.cat([torch.rand(50, dim, dtype=F), ring, torch.full((1, dim), 40.0, dtype=F)])
    batch = torch.tensor([0] * 50 + [1] * 31)
    value = torch.tensor([[3.0, -1.0, 1e-3], [1e6, 2.0, 0.0]], dtype=F)
    grid = layer.to_grid(value[batch], pos, batch)
    torch.testing.assert_close(grid.flatten(2), value[:, :, None].expand(-1, -1, math.prod(size)))
    torch.testing.assert_close(layer.to_nodes(grid, pos, batch), value[batch])
    torch.testing.assert_close(layer(value[batch], pos, batch), value[batch])


@pytest.mark.parametrize("margin", [0.0, 0.2])
@pytest.mark.parametrize("size", SIZES)
def test_sampling_reproduces_linear_fields_in_the_box_of_each_graph(size, margin):
    layer, dim = resample(size, margin=margin), len(size)
    batch = torch.tensor([0, 2] * 30)
    scale = torch.tensor([1.0, 1.0, 1e-6], dtype=F)[batch, None]
    pos = (torch.rand(60, dim, dtype=F) * torch.arange(1, dim + 1) + 7) * scale
    slope = torch.randn(dim, 2, dtype=F)
    grids = torch.zeros(3, 2, *size, dtype=F)
    for b in (0, 2):
        lower, upper = pos[batch == b].amin(0), pos[batch == b].amax(0)
        place = lower + (points(size) * (1 + 2 * margin) - margin) * (upper - lower)
        grids[b] = (place @ slope).T.reshape(2, *size)
    expected = pos @ slope
    torch.testing.assert_close(layer.to_nodes(grids, pos, batch), expected, rtol=1e-9, atol=0)


def test_a_mesh_that_is_the_grid_becomes_itself():
    x = torch.randn(30, 4, dtype=F)
    grid = resample((6, 5)).to_grid(x, points((6, 5)) * torch.tensor([1e-3, 40.0]))
    torch.testing.assert_close(grid[0].flatten(1).T, x, rtol=1e-12, atol=1e-12)


def test_error_falls_with_the_square_of_the_spacing():
    def error(n):
        pos = torch.rand(40 * n * n, 2, dtype=F)
        field = torch.sin(4 * pos[:, :1]) * torch.cos(3 * pos[:, 1:])
        inner = ((pos - 0.5).abs() < 0.4).all(1)  # at the faces the splat sees one side only
        return (resample((n, n))(field, pos) - field)[inner].square().mean().sqrt()

    assert math.log2(error(8) / error(32)) / 2 == pytest.approx(2, abs=0.35)


def test_crossing_a_grid_line_changes_nothing_abruptly():
    layer = resample((5, 5))
    corners, x = points((2, 2)), torch.randn(5, 1, dtype=F)

    def out(place):
        return layer.to_grid(x, torch.cat([corners, torch.tensor([[place, 0.3]], dtype=F)]))

    for line in (0.25, 0.5, 0.75):
        assert (out(line + 1e-10) - out(line - 1e-10)).abs().max() < 1e-5


def test_moving_and_scaling_a_mesh_changes_nothing():
    layer = shaken(GridResample(SpectralConv(3, 3, (2, 2)), margin=0.1))
    x, pos, measure = torch.randn(90, 3, dtype=F), torch.rand(90, 2, dtype=F), torch.rand(90, dtype=F)
    expected = layer(x, pos, measure=measure)
    moved = layer(x, pos * torch.tensor([1e-6, 1e-6]) + 5e-6, measure=1e-12 * measure)
    torch.testing.assert_close(moved, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("size", [None, (4, 5, 6)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_meshes_without_extent(size, variant):
    """A flat mesh, a line, a single node, nodes in one place and no node at all share a batch."""
    layer = resample((4, 5, 6), variant)
    layer.size = size
    flat, line = torch.rand(20, 3, dtype=F), torch.rand(20, 3, dtype=F)
    flat[:, 1], line[:, :2] = 2.5, 1.5
    pos = torch.cat([flat, line, torch.rand(1, 3, dtype=F), torch.ones(4, 3, dtype=F)]).requires_grad_()
    batch = torch.tensor([0] * 20 + [1] * 20 + [3] + [4] * 4)
    x = torch.randn(45, 3, dtype=F, requires_grad=True)
    out = layer(x, pos, batch, batch_size=6)
    out.square().sum().backward()
    assert out.isfinite().all()
    assert x.grad.isfinite().all()
    assert pos.grad.isfinite().all()
    torch.testing.assert_close(out[batch == 3], x[batch == 3])
    torch.testing.assert_close(out[batch == 4], x[batch == 4].mean(0).expand(4, -1))


def test_no_graphs_and_graphs_without_nodes():
    none = torch.empty(0, 3, dtype=F)
    for size in (None, (4, 4)):
        layer = GridResample(SpectralConv(3, 5, (2, 2)), size).double()
        for graphs in (0, 2):
            assert layer(none, none[:, :2], torch.empty(0, dtype=torch.long), batch_size=graphs).shape == (0, 5)
    assert not resample((4, 4)).to_grid(none, none[:, :2], torch.empty(0, dtype=torch.long), batch_size=2).any()


def test_all_nodes_of_measure_zero_give_zeros():
    layer = resample((3, 3))
    assert not layer(torch.ones(4, 3, dtype=F), torch.rand(4, 2, dtype=F), measure=torch.zeros(4, dtype=F)).any()


def test_nodes_that_form_a_grid_go_straight_through():
    operator = SpectralConv(3, 2, (3, 3))
    x, batch = torch.randn(60, 3), torch.tensor([1, 0] * 30)
    assert torch.equal(GridResample(operator)(x, batch=batch, shape=(5, 6)), operator(x, batch, shape=(5, 6)))


def test_the_operator_gets_the_grids_as_graphs():
    class Record(nn.Module):
        def forward(self, x, batch, batch_size, shape):
            self.got = batch.tolist(), batch_size, tuple(shape)
            return x

    record = Record()
    GridResample(record, (2, 3))(torch.ones(3, 1), torch.rand(3, 2), torch.tensor([0, 1, 0]), batch_size=3)
    assert record.got == ([0] * 6 + [1] * 6 + [2] * 6, 3, (2, 3))


def test_detail_below_the_grid_does_not_come_back():
    """Alternating signs cancel on the grid, so that nothing of them comes back."""
    pos = points((64, 64))
    x = (-1.0) ** torch.arange(64 * 64, dtype=F)[:, None]
    out = resample((8, 8))(x, pos)
    assert out.abs().max() < 0.15


# the size that follows the mesh


def size_of(pos):
    return grid_size(pos, torch.zeros(len(pos), dtype=torch.long), 1)[0].tolist()


@pytest.mark.parametrize(
    ("nodes", "extent", "expected"),
    [
        (1024, (1.0, 1.0), [32, 32]),
        (1000, (4.0, 1.0), [64, 16]),
        (500, (1e-9, 1e-9), [16, 16]),  # halfway between 16 and 32
        (512, (1e3, 1e3, 1e3), [8, 8, 8]),
        (400, (1.0, 1e-3), [512, 2]),  # thinner than a cell
        (100, (1.0, 0.0, 1.0), [8, 1, 8]),
        (100, (1.0, 1e-17, 1.0), [8, 2, 8]),  # flat but for rounding
        (1, (1.0, 1.0), [1, 1]),
    ],
)
def test_size_follows_nodes_and_box(nodes, extent, expected):
    pos = torch.rand(nodes, len(extent), dtype=F)
    if nodes > 1:
        pos = (pos - pos.amin(0)) / (pos.amax(0) - pos.amin(0))
    assert size_of(pos * torch.tensor(extent, dtype=F)) == expected


def test_size_counts_places_and_knows_no_neighbours():
    pos = torch.rand(90, 2)
    assert size_of(pos[torch.randint(90, (5000,))]) == size_of(pos)
    both = torch.cat([pos, torch.rand(3000, 2)])
    batch = torch.tensor([1] * 90 + [0] * 3000)
    shuffle = torch.randperm(3090)
    sizes = grid_size(both[shuffle], batch[shuffle], 3)
    assert sizes.tolist() == [size_of(both[90:]), size_of(pos), [1, 1]]


def test_number_of_points_stays_near_that_of_nodes():
    for _ in range(50):
        dim = int(torch.randint(1, 4, ()))
        pos = torch.rand(300, dim) * 10 ** (6 * torch.rand(dim) - 3)
        assert 300 / 3 <= math.prod(size_of(pos)) <= 300 * 4


# kernels and deformation


@pytest.mark.parametrize(("dim", "radius"), [(1, 0.51), (2, 0.71), (3, 0.87), (2, 2.5)])
def test_every_node_reaches_a_grid_point(dim, radius):
    size = [4] * dim
    layer = shaken(
        GridResample(nn.Identity(), size, RadiusKernel(dim, radius=radius), RadiusKernel(dim, radius=radius))
    )
    pos = torch.cat([points(size), points([7] * dim), torch.rand(200, dim, dtype=F)])  # cell centres are the furthest
    out = layer.to_nodes(torch.ones(1, 1, *size, dtype=F), pos)
    torch.testing.assert_close(out, torch.ones_like(out))


def test_radius_kernel_equals_its_definition():
    kernel = shaken(RadiusKernel(2, channels=3, radius=1.5))
    for offset in torch.randn(20, 2, dtype=F):
        hidden = (kernel.lin1.weight @ (offset / 1.5) + kernel.lin1.bias).tanh()
        window = max(0, 1 - float(offset @ offset) / 1.5**2) ** 2
        expected = (1 + (kernel.lin2.weight @ hidden + kernel.lin2.bias).exp()).log() * window
        torch.testing.assert_close(kernel(offset[None])[0], expected)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_radius_that_misses_nodes_is_refused(dim):
    with pytest.raises(InputError, match="half a cell's diagonal"):
        RadiusKernel(dim, radius=math.sqrt(dim) / 2)


def test_deformation_keeps_the_box_and_its_faces():
    deformation = shaken(Deformation(2))
    deformation.lin3.weight.data *= 100  # as strong as can be
    pos = torch.rand(1000, 2, dtype=F)
    pos[:100, 0], pos[100:200, 1] = 0, 1
    out = deformation(pos)
    assert (out - pos).abs().max() > 0.1
    assert out.min() >= 0
    assert out.max() <= 1
    assert not out[:100, 0].any()
    assert (out[100:200, 1] == 1).all()


def test_deformation_equals_its_definition():
    deformation = shaken(Deformation(2, num_frequencies=3))
    first, second, third = deformation.lin1, deformation.lin2, deformation.lin3
    for u in torch.rand(5, 2, dtype=F):
        angles = [2**k * math.pi * a for k in range(3) for a in u]
        wave = torch.stack([*u, *map(torch.sin, angles), *map(torch.cos, angles)])
        hidden = (second.weight @ (first.weight @ wave + first.bias).tanh() + second.bias).tanh()
        expected = u + u * (1 - u) * (third.weight @ hidden + third.bias).tanh()
        torch.testing.assert_close(deformation(u[None])[0], expected)


def test_deformation_learns_through_the_layer():
    layer = GridResample(SpectralConv(1, 1, (2, 2)), (6, 6), deformation=Deformation(2))
    layer(torch.randn(40, 1), torch.rand(40, 2)).square().sum().backward()
    assert layer.deformation.lin3.weight.grad.abs().max() > 0


# errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": (4, 0)}, "positive size"),
        ({"size": (2, 2, 2, 2)}, "positive size"),
        ({"margin": -0.1}, "margin of zero or more"),
        ({"operator": nn.Bilinear(2, 2, 2)}, "Bilinear needs input2"),
    ],
)
def test_impossible_arguments_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        GridResample(**{"operator": nn.Identity(), **arguments})


def test_what_does_not_fit_is_refused():
    x, pos = torch.ones(4, 3), torch.rand(4, 2)
    with pytest.raises(InputError, match="needs the key 'pos'"):
        GridResample(nn.Identity(), (4, 4))(x)
    with pytest.raises(InputError, match="Expected 3 coordinates"):
        GridResample(nn.Identity(), (4, 4, 4))(x, pos)
    with pytest.raises(InputError, match="Expected 3 coordinates"):
        GridResample(nn.Identity(), (4, 4, 4)).to_nodes(torch.ones(1, 1, 4, 4, 4), pos)
    with pytest.raises(InputError, match="needs a size"):
        GridResample(nn.Identity()).to_grid(x, pos)
    with pytest.raises(InputError, match="Expected a kernel of 1 or 3 channels"):
        GridResample(nn.Identity(), (4, 4), RadiusKernel(2, channels=2))(x, pos)
    with pytest.raises(InputError, match="Expected 3 coordinates"):
        GridResample(nn.Identity(), (4, 4), RadiusKernel(3))(x, pos)
    with pytest.raises(InputError, match="Expected 3 coordinates"):
        GridResample(nn.Identity(), (4, 4), deformation=Deformation(3))(x, pos)


def test_any_layer_with_a_batch_can_be_the_operator():
    layer = GridResample(PhysicsAttention(8, heads=2, num_slices=4), (4, 4))
    assert layer(torch.randn(9, 8), torch.rand(9, 2)).shape == (9, 8)
    assert str(GridResample(GridConv(2, 3, dim=2), (8, 8))) == "GridResample(GridConv(2, 3, dim=2), size=(8, 8))"
