from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.functional import dropout
from torch_geometric.nn.inits import reset

from meshop.nn.functional import Nodes, call_with, taken
from meshop.nn.rezero import ReZero
from meshop.nn.slice_attention import SliceAttention
from meshop.nn.slices import Slices


class SliceResidualAttention(nn.Module):
    r"""Slice-Residual Physics-Attention (SRPA) of Transolver-sigma: slices average the nodes, attention corrects them.

    With :math:`r_n, f_n \in \mathbb{R}^d` two maps of a node's features in one head and masses :math:`m_n` (1 without a
    measure, see :class:`~meshop.nn.functional.Tiles`),

    .. math::
        (r_n, f_n) &= \bigl( W_x\, \mathrm{local}_x(x) + b_x,\; W_f\, \mathrm{local}_f(x) + b_f \bigr)_n \\
        w_n &= \mathrm{softmax}_M \bigl( (W_s r_n + b_s) / \tau \bigr) \\
        z_m &= \sum_n m_n w_{nm} f_n \big/ \bigl( \textstyle\sum_n m_n w_{nm} + 10^{-5} \bigr) \\
        z^+ &= z + \gamma\, \mathrm{softmax}_M \bigl( z W_q\, (z W_k)^\top / \sqrt{d} \bigr)\, z W_v \\
        y_n &= W_o\, \mathrm{concat}_h \textstyle\sum_m w_{nm} z^+_m .

    :math:`W_s, W_q, W_k, W_v` are shared by the heads; :math:`\tau`, clamped to [0.1, 5], is learned for each;
    :math:`\gamma` is one number, zero at the start: the layer then is exactly the smoothing :math:`z^+ = z`.

    The last step but one is an ``update`` of the tokens and can be another: ``SliceAttention(d)`` replaces the slices
    as in :class:`PhysicsAttention`, ``nn.Identity()`` leaves them alone. The paper's :math:`\mathrm{local}` is a
    depthwise convolution over five nodes along each axis, ``GridConv(C, C, dim, kernel_size=5, groups=C)``; on meshes
    :class:`DepthwiseGraphConv` takes its place, or nothing, as in the layer of Transolver for such meshes.

    Differences from the paper, whose code is not public:

    1. Graphs may differ in size and need not be grids, and nodes may carry a measure. Then splitting a node changes
       nothing, and neither does the unit of the measure.
    2. The scale :math:`1 / \sqrt d` and the constant :math:`10^{-5}` are those of Transolver's code, from which the
       paper's descends; its text does not give them.

    Time is O(N C² + N M C), memory O(N C + M C).

    Args:
        channels: size C of input and output.
        heads: number of heads H.
        num_slices: number of slices M.
        local_x: layer from [N, C] to [N, C] before the map that assigns nodes to slices; none by default.
        local_f: the same before the map of the features that are pooled.
        update: module from tokens [B, H, M, d] to tokens; by default ``ReZero(SliceAttention(d))``.
        dropout: probability with which entries of the output are zeroed in training.

    Shapes:
        - **input:** x [N, C], batch [N], measure [N], and what ``local_x`` and ``local_f`` need
        - **output:** [N, C]; with ``return_correction`` also [B], the Frobenius norm of :math:`z^+ - z` over that of
          :math:`z`, all heads together

    Raises:
        InputError: ``channels`` is no multiple of ``heads``; a local layer needs an argument that was not given.

    >>> import torch
    >>> layer = SliceResidualAttention(16, heads=4, num_slices=8)
    >>> y, correction = layer(torch.randn(7, 16), return_correction=True)
    >>> y.shape, correction.tolist()
    (torch.Size([7, 16]), [0.0])
    """

    def __init__(
        self,
        channels: int,
        heads: int = 8,
        num_slices: int = 64,
        local_x: nn.Module | None = None,
        local_f: nn.Module | None = None,
        update: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.channels = channels
        self.heads = heads
        self.num_slices = num_slices
        self.local_x = nn.Identity() if local_x is None else local_x
        self.local_f = nn.Identity() if local_f is None else local_f
        self.slices = Slices(channels, heads, num_slices)
        self.update = ReZero(SliceAttention(channels // heads)) if update is None else update
        self.dropout = dropout
        self.lin_out = nn.Linear(channels, channels)
        self._taken = taken(self.local_x), taken(self.local_f)

    def reset_parameters(self) -> None:
        for layer in (self.local_x, self.local_f, self.slices, self.update, self.lin_out):
            reset(layer)

    def forward(
        self,
        x: Tensor,
        pos: Tensor | None = None,
        edge_index: Tensor | None = None,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
        return_correction: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        given = (pos, edge_index, batch, measure, batch_size, shape)
        nodes = Nodes(x, batch, measure, batch_size)
        local_x = call_with(self.local_x, self._taken[0], x, given)
        local_f = call_with(self.local_f, self._taken[1], x, given)
        shares, token = self.slices(local_x, local_f, nodes)  # [B, H, M, d]
        updated = self.update(token)
        y = shares.unpool(updated)  # [N, C]
        y = dropout(self.lin_out(y), self.dropout, self.training)
        if not return_correction:
            return y
        return y, (updated - token).flatten(1).norm(dim=1) / token.flatten(1).norm(dim=1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, heads={self.heads}, num_slices={self.num_slices})"
