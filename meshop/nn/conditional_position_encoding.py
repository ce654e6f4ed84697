from collections.abc import Sequence

from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from meshop.nn.functional import call_with, taken


class ConditionalPositionEncoding(nn.Module):
    r"""Position read off the features around a node, after `"Conditional Positional Encodings for Vision Transformers"
    <https://arxiv.org/abs/2102.10882>`_.

    .. math::
        y = x + \mathrm{local}(x)

    with a depthwise convolution: ``GridConv(C, C, dim, groups=C)`` on grids, as in Transolver-sigma, whose zero padding
    tells the border from the interior, or its counterpart with a continuous kernel on graphs,
    :class:`DepthwiseGraphConv`. There is no norm.

    Time is O(N C), memory O(N C), beside the convolution's.

    Args:
        local: from [N, C] to [N, C].

    Shapes:
        - **input:** x [N, C], and what ``local`` needs: shape on grids, pos and edge_index on graphs
        - **output:** [N, C]

    Raises:
        InputError: ``local`` needs an argument that was not given, or that this layer does not take.

    >>> import torch
    >>> from meshop.nn import GridConv
    >>> ConditionalPositionEncoding(GridConv(8, 8, dim=2, groups=8))(torch.ones(20, 8), shape=(4, 5)).shape
    torch.Size([20, 8])
    """

    def __init__(self, local: nn.Module) -> None:
        super().__init__()
        self.local = local
        self._taken = taken(local)

    def reset_parameters(self) -> None:
        reset(self.local)

    def forward(
        self,
        x: Tensor,
        pos: Tensor | None = None,
        edge_index: Tensor | None = None,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> Tensor:
        given = (pos, edge_index, batch, measure, batch_size, shape)
        return x + call_with(self.local, self._taken, x, given)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.local})"
