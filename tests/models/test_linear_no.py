import torch

from meshop.models import LinearNO, Transolver


def test_is_smaller_than_transolver_on_grids():
    """The paper's 40 % of the parameters saved is against Transolver's convolutions."""
    count = {type(m).__name__: sum(p.numel() for p in m.parameters()) for m in (
        LinearNO(2, 128, 8, 1), Transolver(2, 128, 8, 1, grid_dim=2),
    )}  # fmt: skip
    block = 4 * 128 + 3 * (128**2 + 128) + 2 * 16 * 64 + 64 + 2 * 8 + 4 * 128**2 + 3 * 128
    lift, head = 2 * 256 + 256 + 256 * 128 + 128 + 128, 2 * 128 + 128 + 1
    assert count["LinearNO"] == lift + 8 * block + head
    assert count["LinearNO"] < 0.6 * count["Transolver"]


def test_layers_differ_and_gradients_arrive():
    model = LinearNO(2, 16, 2, 1, heads=4, num_slices=8)
    model(torch.randn(30, 2), batch=torch.arange(30) % 2).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
