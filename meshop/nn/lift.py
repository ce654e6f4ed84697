import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from meshop.data import InputError
from meshop.nn.feed_forward import FeedForward
from meshop.nn.functional import missing


class Lift(nn.Module):
    r"""From node features to hidden ones, as in Transolver and its family.

    .. math::
        h_n = \mathrm{MLP}([\mathrm{position}(p_n), x_n]) + c + \mathrm{time}(t) + W_q\, q + b_q

    with a learned vector :math:`c` (the authors' "placeholder"), and time :math:`t` and parameters :math:`q` of the
    graph where they are asked for.

    Args:
        in_channels: size of x.
        hidden_channels: size of h; the MLP is twice as wide inside.
        position: module such as :class:`UnifiedPosition`, whose features go before those of x.
        time: module such as :class:`TimestepEmbedding` for transient problems.
        num_params: number P of parameters of a graph (Transolver++'s "conditions").

    Shapes:
        - **input:** x [N, in_channels], pos [N, D], batch [N], time [B], params [B, P]
        - **output:** [N, hidden_channels]

    Raises:
        InputError: x has another size, or ``pos``, ``time`` or ``params`` is missing and needed.

    >>> Lift(3, 8)(torch.ones(5, 3)).shape
    torch.Size([5, 8])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        position: nn.Module | None = None,
        time: nn.Module | None = None,
        num_params: int = 0,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.position = position
        self.time = time
        self.num_params = num_params
        extra: int = getattr(position, "out_channels", 0)
        self.mlp = FeedForward(in_channels + extra, 2 * hidden_channels, hidden_channels)
        self.placeholder = nn.Parameter(torch.empty(hidden_channels))
        self.lin_params = nn.Linear(num_params, hidden_channels) if num_params else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.mlp.reset_parameters()
        nn.init.uniform_(self.placeholder, 0, 1 / self.hidden_channels)
        reset(self.position)
        reset(self.time)
        reset(self.lin_params)

    def forward(
        self,
        x: Tensor,
        pos: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        time: Tensor | None = None,
        params: Tensor | None = None,
    ) -> Tensor:
        if x.size(-1) != self.in_channels:
            raise InputError(f"Expected x with {self.in_channels} channels (got {x.size(-1)})")
        if self.position is not None:
            if pos is None:
                raise missing(self.position, "pos")
            x = torch.cat([self.position(pos, batch, batch_size), x], dim=-1)
        h = self.mlp(x) + self.placeholder
        if self.time is not None:
            if time is None:
                raise missing(self.time, "time")
            embedding = self.time(time)  # [B, hidden_channels]
            h = h + (embedding if batch is None else embedding[batch])
        if self.lin_params is not None:
            if params is None:
                raise missing(self, "params")
            embedding = self.lin_params(params)  # [B, hidden_channels]
            h = h + (embedding if batch is None else embedding[batch])
        return h

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.hidden_channels})"
