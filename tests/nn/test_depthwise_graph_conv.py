import pytest
import torch

from meshop.data import InputError
from meshop.nn import DepthwiseGraphConv

C = 4
F = torch.float64


def shaken(dim=2):
    torch.manual_seed(0)
    layer = DepthwiseGraphConv(C, dim, hidden_channels=5).to(F)
    for parameter in layer.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    return layer


def random_mesh(nodes=20, dim=2):
    edge_index = (torch.rand(nodes, nodes) < 0.2).nonzero().T
    return torch.randn(nodes, C, dtype=F), torch.rand(nodes, dim, dtype=F), edge_index, torch.rand(nodes, dtype=F)


def oracle(layer, x, pos, edge_index, measure):
    """The equation, a node and a neighbour at a time."""

    def theta(offset):
        hidden = torch.nn.functional.gelu(layer.lin1.weight @ offset + layer.lin1.bias)
        return layer.lin2.weight @ hidden + layer.lin2.bias

    out = []
    for i in range(len(x)):
        near = [j for j, k in edge_index.T.tolist() if k == i and not torch.equal(pos[j], pos[i])]
        y = layer.bias + theta(torch.zeros(pos.size(1), dtype=F)) * x[i]
        if near:
            total = sum(measure[j] for j in near)
            scale = (sum(measure[j] * (pos[j] - pos[i]).square().sum() for j in near) / total).sqrt()
            y = y + sum(measure[j] * theta((pos[j] - pos[i]) / scale) * x[j] for j in near) / total
        out.append(y)
    return torch.stack(out)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_equals_the_equation(dim):
    layer, (x, pos, edge_index, measure) = shaken(dim), random_mesh(dim=dim)
    pos[3] = pos[4]  # neighbours in one place, and a node without any
    edge_index = torch.cat([edge_index[:, edge_index[1] != 7], torch.tensor([[3, 4], [4, 3]])], dim=1)
    expected = oracle(layer, x, pos, edge_index, measure)
    torch.testing.assert_close(layer(x, pos, edge_index, measure), expected, rtol=1e-10, atol=1e-12)
    expected = oracle(layer, x, pos, edge_index, torch.ones(20))
    torch.testing.assert_close(layer(x, pos, edge_index), expected, rtol=1e-10, atol=1e-12)


def test_unit_and_place_of_the_coordinates_do_not_matter():
    layer, (x, pos, edge_index, measure) = shaken(), random_mesh()
    expected = layer(x, pos, edge_index, measure)
    for unit in (1e-9, 1e9):
        torch.testing.assert_close(layer(x, unit * pos + 3 * unit, edge_index, measure), expected)


def test_halves_of_a_node_may_be_joined_or_not():
    layer, (x, pos, edge_index, measure) = shaken(), random_mesh()
    expected = layer(x, pos, edge_index, measure)
    x, pos, measure = (torch.cat([t, t[:1]]) for t in (x, pos, measure))
    measure[0], measure[20] = 0.2 * measure[0], 0.8 * measure[20]
    other = torch.where(edge_index == 0, 20, edge_index)
    both = torch.cat([edge_index, other, torch.tensor([[0, 20, 20], [20, 0, 20]])], dim=1).unique(dim=1)
    torch.testing.assert_close(layer(x, pos, both, measure)[:20], expected)


def test_on_a_uniform_grid_it_is_a_convolution():
    """Inside a grid with the edges of a 3 x 3 stencil, all nodes see the same kernel."""
    layer = shaken()
    i, j = (t.flatten() for t in torch.meshgrid(torch.arange(6), torch.arange(6), indexing="ij"))
    near = ((i[:, None] - i).abs() <= 1) & ((j[:, None] - j).abs() <= 1) & ~torch.eye(36, dtype=torch.bool)
    pos, x = torch.stack([i, j], 1).to(F), torch.randn(36, C, dtype=F)
    steps = torch.tensor([[a, b] for a in (-1, 0, 1) for b in (-1, 0, 1)], dtype=F)
    kernel = layer.lin2(torch.nn.functional.gelu(layer.lin1(steps / 1.5**0.5)))  # the scale of 4 x 1 and 4 x sqrt(2)
    kernel[[0, 1, 2, 3, 5, 6, 7, 8]] /= 8
    expected = torch.nn.functional.conv2d(x.T.view(1, C, 6, 6), kernel.T.view(C, 1, 3, 3), layer.bias, groups=C)
    out = layer(x, pos, near.nonzero().T).T.view(1, C, 6, 6)[..., 1:-1, 1:-1]
    torch.testing.assert_close(out, expected)


def test_coordinates_must_have_the_dimension():
    with pytest.raises(InputError, match="Expected 2 coordinates"):
        shaken()(torch.ones(3, C), torch.rand(3, 3), torch.empty(2, 0, dtype=torch.long))


def test_name():
    assert str(DepthwiseGraphConv(8, dim=3)) == "DepthwiseGraphConv(8, dim=3)"
