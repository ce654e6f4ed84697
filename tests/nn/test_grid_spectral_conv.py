import torch

from meshop.nn import GridSpectralConv


def test_on_a_grid_it_is_the_layer_of_fno():
    layer = GridSpectralConv(3, 2, (3, 3), size=(9, 9)).double()
    x = torch.randn(30, 3, dtype=torch.float64)
    expected = layer.resample.operator(x, shape=(5, 6)) + layer.lin(x)
    assert torch.equal(layer(x, shape=(5, 6)), expected)


def test_detail_below_the_grid_passes_on_the_nodes():
    """Nodes in one cell of the latent grid get outputs of their own."""
    layer = GridSpectralConv(1, 1, (2, 2), size=(4, 4)).double()
    torch.nn.init.ones_(layer.lin.weight)
    torch.nn.init.zeros_(layer.lin.bias)
    pos = torch.rand(500, 2, dtype=torch.float64)
    x = torch.randn(500, 1, dtype=torch.float64)
    out = layer(x, pos)
    smooth = layer.resample(x, pos)
    torch.testing.assert_close(out - x, smooth)
    assert smooth.std() < 0.5 * x.std()


def test_name():
    assert str(GridSpectralConv(3, 8, (4, 4), (16, 16))) == "GridSpectralConv(3, 8, modes=(4, 4), size=(16, 16))"
