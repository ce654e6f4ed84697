from torch import Tensor, nn
from torch.nn.functional import gelu


class FeedForward(nn.Module):
    r"""The two-layer perceptron of a transformer, on each node by itself: :math:`W_2\, \mathrm{GELU}(W_1 x)`.

    Args:
        in_channels: size of the input.
        hidden_channels: size between the two maps.
        out_channels: size of the output.

    Shapes:
        - **input:** x [N, in_channels]
        - **output:** [N, out_channels]

    >>> import torch
    >>> FeedForward(3, 8, 2)(torch.ones(5, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.out_channels = out_channels
        self.lin1 = nn.Linear(in_channels, hidden_channels)
        self.lin2 = nn.Linear(hidden_channels, out_channels)

    def reset_parameters(self) -> None:
        self.lin1.reset_parameters()
        self.lin2.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        return self.lin2(gelu(self.lin1(x)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, {self.out_channels})"
