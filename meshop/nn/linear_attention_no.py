import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from meshop.data import InputError
from meshop.nn.functional import Nodes
from meshop.nn.shares import attend, linear_with_ones, softmax_shares
from meshop.nn.slices import Assignment


class LinearAttentionNO(nn.Module):
    r"""The linear attention of `"Transolver is a Linear Transformer: Revisiting Physics-Attention through the Lens of
    Linear Attention" <https://arxiv.org/abs/2511.06294>`_ (LinearNO): Physics-Attention whose slices do not attend to
    each other, with independent maps into and out of them.

    With :math:`x_n, v_n \in \mathbb{R}^d` two linear maps of a node's features in one head and masses :math:`m_n` (1
    without a measure, see :class:`~meshop.nn.functional.Tiles`),

    .. math::
        \phi_n &= \mathrm{softmax}_M \bigl( (W_q x_n + b_q) / \tau_q \bigr), \qquad
        \psi_{mn} = \frac{m_n \exp\bigl( (W_k x_n)_m / \tau_k \bigr)}
        {\sum_{n'} m_{n'} \exp\bigl( (W_k x_{n'})_m / \tau_k \bigr)} \\
        y_n &= W_o\, \mathrm{concat}_h \textstyle\sum_m \phi_{nm} \sum_{n'} \psi_{mn'} v_{n'} .

    :math:`\phi` is a softmax over the slices of a node, :math:`\psi` one over the nodes of a slice, so that constants
    stay constant; a bias beside :math:`W_k` would cancel. :math:`W_q, W_k` are shared by the heads; the temperatures,
    clamped to [0.1, 5], are learned for each head.

    The code of the paper is not public. That one map :math:`x` serves both softmaxes, and how the temperatures are
    bounded, follows Transolver, from which the paper starts.

    Time is O(N C² + N M C), memory O(N C + M C).

    Args:
        channels: size C of input and output.
        heads: number of heads H.
        num_slices: number of slices M.
        dropout: probability with which entries of the output are zeroed in training.

    Shapes:
        - **input:** x [N, C], batch [N], measure [N]
        - **output:** [N, C]

    Raises:
        InputError: ``channels`` is no multiple of ``heads``.

    >>> layer = LinearAttentionNO(16, heads=4, num_slices=8)
    >>> layer(torch.ones(7, 16), batch=torch.tensor([0, 0, 1, 1, 1, 1, 1])).shape
    torch.Size([7, 16])
    """

    def __init__(self, channels: int, heads: int = 8, num_slices: int = 64, dropout: float = 0.0) -> None:
        super().__init__()
        if channels % heads != 0:
            raise InputError(f"Expected channels to be a multiple of heads (got {channels} and {heads})")
        self.channels = channels
        self.heads = heads
        self.num_slices = num_slices
        self.dropout = dropout
        self.lin_x = nn.Linear(channels, channels)
        self.lin_v = nn.Linear(channels, channels)
        self.lin_q = nn.Linear(channels // heads, num_slices)
        self.lin_k = nn.Linear(channels // heads, num_slices, bias=False)
        self.temperature = nn.Parameter(torch.empty(2, heads))
        self.assign = Assignment()
        self.lin_out = nn.Linear(channels, channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for layer in (self.lin_x, self.lin_v, self.lin_q, self.lin_k, self.lin_out):
            layer.reset_parameters()
        nn.init.constant_(self.temperature, 0.5)

    def forward(
        self,
        x: Tensor,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        nodes = Nodes(x, batch, measure, batch_size)
        tau_q, tau_k = self.temperature.clamp(0.1, 5.0)[..., None, None]  # 2 of [H, 1, 1]
        weight = torch.cat([self.lin_q.weight, self.lin_q.bias[:, None]], 1).T / tau_q  # [H, d + 1, M]
        phi = self.assign(softmax_shares(x, weight, nodes, linear_with_ones(self.lin_x, self.heads)))
        query = self.lin_k.weight / tau_k * self.lin_k.in_features**0.5  # [H, M, d]; attention divides by the root
        graphs = query.expand(nodes.count, *query.shape)
        token = attend(graphs, x, (self.lin_x.weight, self.lin_x.bias), (self.lin_v.weight, self.lin_v.bias), nodes)
        y = phi.unpool(token).to(x.dtype)  # [N, C]
        return dropout(self.lin_out(y), self.dropout, self.training)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, heads={self.heads}, num_slices={self.num_slices})"
