import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset


class ReZero(nn.Module):
    r"""A residual around a layer with one learned factor that starts at zero, from `"ReZero is All You Need"
    <https://arxiv.org/abs/2003.04887>`_.

    .. math::
        y = x + \gamma\, \mathrm{layer}(x), \qquad \gamma = 0 \text{ at the start}

    The layer gets no gradient until :math:`\gamma` has moved, which it does in the first step.

    Args:
        layer: keeps the size of its input.

    >>> ReZero(nn.Linear(3, 3))(torch.ones(1, 3)).tolist()
    [[1.0, 1.0, 1.0]]
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.gamma = nn.Parameter(torch.zeros(()))

    def reset_parameters(self) -> None:
        reset(self.layer)
        nn.init.zeros_(self.gamma)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gamma * self.layer(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.layer})"
