from torch import Tensor, nn
from torch.nn.functional import silu


class SwiGLU(nn.Module):
    r"""The gated two-layer perceptron of `"GLU Variants Improve Transformer" <https://arxiv.org/abs/2002.05202>`_, on
    each node by itself.

    .. math::
        y = W_3 \bigl( \mathrm{SiLU}(W_1 x) \odot W_2 x \bigr)

    All three maps have a bias here, as the published sizes of Transolver-sigma require; the paper's have none.

    Args:
        channels: size C of input and output.
        hidden_channels: size between the maps; by default int(4 C / 3), with which it has about as many parameters as
            a :class:`FeedForward` twice as wide as its input.

    Shapes:
        - **input:** x [N, C]
        - **output:** [N, C]

    >>> import torch
    >>> SwiGLU(128)
    SwiGLU(128, hidden_channels=170)
    """

    def __init__(self, channels: int, hidden_channels: int | None = None) -> None:
        super().__init__()
        self.channels = channels
        self.hidden_channels = 4 * channels // 3 if hidden_channels is None else hidden_channels
        self.lin1 = nn.Linear(channels, self.hidden_channels)
        self.lin2 = nn.Linear(channels, self.hidden_channels)
        self.lin3 = nn.Linear(self.hidden_channels, channels)

    def reset_parameters(self) -> None:
        for layer in (self.lin1, self.lin2, self.lin3):
            layer.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        return self.lin3(silu(self.lin1(x)) * self.lin2(x))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, hidden_channels={self.hidden_channels})"
