from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention


class SliceAttention(nn.Module):
    r"""Attention of the slices of a graph to each other, as inside :class:`PhysicsAttention`.

    .. math::
        z' = \mathrm{softmax}_M \bigl( z W_q\, (z W_k)^\top / \sqrt{d} \bigr)\, z W_v

    with maps that the heads share. It acts on tokens, and so is no layer for nodes: it is the ``update`` of
    :class:`SliceResidualAttention`.

    Args:
        channels: size d of a token in one head.
        dropout: probability with which entries of the attention are zeroed in training.

    Shapes:
        - **input:** x [B, H, M, d]
        - **output:** [B, H, M, d]

    >>> import torch
    >>> SliceAttention(4)(torch.ones(1, 2, 8, 4)).shape
    torch.Size([1, 2, 8, 4])
    """

    def __init__(self, channels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.channels = channels
        self.dropout = dropout
        self.lin_qkv = nn.Linear(channels, 3 * channels, bias=False)

    def reset_parameters(self) -> None:
        self.lin_qkv.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.lin_qkv(x).chunk(3, dim=-1)
        return scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0)

    def matrix(self, x: Tensor) -> Tensor:
        """The softmax of the formula [B, H, M, M], without dropout; its rows sum to one."""
        q, k, _ = self.lin_qkv(x).chunk(3, dim=-1)
        return (q @ k.mT / self.channels**0.5).softmax(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels})"
