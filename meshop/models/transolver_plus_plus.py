from collections.abc import Mapping
from typing import Literal

from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from meshop.models.authors import backbone_names, backbone_sizes, count_blocks, load_authors, read_sizes
from meshop.nn import Block, EideticAttention, Lift


class TransolverPlusPlus(nn.Module):
    r"""`"Transolver++: An Accurate Neural Solver for PDEs on Million-Scale Geometries"
    <https://arxiv.org/abs/2502.02414>`_.

    .. math::
        h &= \mathrm{Lift}(x) \\
        h &\leftarrow h + \mathrm{EideticAttention}(\mathrm{LN}(h)), \quad
        h \leftarrow h + \mathrm{FFN}(\mathrm{LN}(h)) \qquad (L \text{ times}) \\
        u &= W\, \mathrm{LN}(h)

    See :class:`~meshop.nn.EideticAttention` for the operator and its differences from the authors' code. Their aircraft
    is ``TransolverPlusPlus(7, 256, 4, 6, num_slices=32, dropout=0.1, lift=Lift(7, 256, num_params=3))``, 1,741,738
    parameters.

    Time is O(L (N C² + N M C)), memory O(L (N C + N H M)) in training.

    Args:
        in_channels: size of x, coordinates included.
        hidden_channels: width C.
        num_layers: number of blocks L.
        out_channels: size of the output.
        heads: number of heads.
        num_slices: number of slices.
        ffn_ratio: width of the FFN in units of C.
        dropout: see :class:`~meshop.nn.EideticAttention`.
        gumbel: whether the assignment gets noise: ``"train"``, ``"always"`` (as the authors do) or ``"off"``.
        lift: module from x to hidden features; by default :class:`~meshop.nn.Lift`, which also takes parameters of the
            graph, a position and a time embedding.

    Shapes:
        - **input:** x [N, in_channels], pos [N, D], batch [N], measure [N], time [B], params [B, P]
        - **output:** [N, out_channels]

    >>> import torch
    >>> TransolverPlusPlus(3, 16, 2, 1, heads=4, num_slices=8)(torch.ones(5, 3)).shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        heads: int = 8,
        num_slices: int = 64,
        ffn_ratio: int = 2,
        dropout: float = 0.0,
        gumbel: Literal["train", "always", "off"] = "train",
        lift: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.num_layers = num_layers
        self.out_channels = out_channels
        self.heads = heads
        self.num_slices = num_slices
        self.ffn_ratio = ffn_ratio
        self.dropout = dropout
        self.gumbel: Literal["train", "always", "off"] = gumbel
        self.lift = Lift(in_channels, hidden_channels) if lift is None else lift
        self.blocks = nn.ModuleList(
            Block(EideticAttention(hidden_channels, heads, num_slices, dropout, gumbel), hidden_channels, ffn_ratio)
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(hidden_channels)
        self.head = nn.Linear(hidden_channels, out_channels)

    def reset_parameters(self) -> None:
        for layer in (self.lift, *self.blocks, self.norm, self.head):
            reset(layer)

    def forward(
        self,
        x: Tensor,
        pos: Tensor | None = None,
        batch: Tensor | None = None,
        measure: Tensor | None = None,
        batch_size: int | None = None,
        time: Tensor | None = None,
        params: Tensor | None = None,
    ) -> Tensor:
        h = self.lift(x, pos, batch, batch_size, time, params)
        for block in self.blocks:
            h = block(h, batch=batch, measure=measure, batch_size=batch_size)
        return self.head(self.norm(h))

    @classmethod
    def from_authors(
        cls, state_dict: Mapping[str, Tensor], gumbel: Literal["train", "always", "off"] = "train"
    ) -> "TransolverPlusPlus":
        """The model and weights of the authors' ``Transolver_plus``. Their ``x, condition`` are our ``x, params``.

        All sizes are read from the weights. The dropout of their script, 0.1, is not among them.

        Args:
            state_dict: the weights, as ``torch.load`` gives them.
            gumbel: what to do about noise: ``"always"`` as the authors do.

        Raises:
            InputError: names are missing or unknown; all of them are listed.
        """
        layers = count_blocks(state_dict)
        sizes = backbone_sizes(layers) | {
            "heads": "blocks.0.Attn.bias",
            "slice": "blocks.0.Attn.in_project_slice.weight",
            "params": "embedding.weight",
        }
        size = read_sizes(state_dict, "a Transolver++", sizes)
        channels, num_params = size["params"]
        features = size["lift"][1]
        model = cls(
            features,
            channels,
            layers,
            size["head"][0],
            heads=size["heads"].numel(),
            num_slices=size["slice"][0],
            ffn_ratio=size["ffn"][0] // channels,
            gumbel=gumbel,
            lift=Lift(features, channels, num_params=num_params),
        )
        names = backbone_names(layers) | {"lift.lin_params": ["embedding"]}
        for i in range(layers):
            mixer, attn = f"blocks.{i}.mixer", f"blocks.{i}.Attn"
            names |= {
                f"{mixer}.bias": [f"{attn}.bias"],
                f"{mixer}.temperature.lin1": [f"{attn}.proj_temperature.0"],
                f"{mixer}.temperature.lin2": [f"{attn}.proj_temperature.2"],
                f"{mixer}.lin_x": [f"{attn}.in_project_x"],
                f"{mixer}.lin_slice": [f"{attn}.in_project_slice"],
                f"{mixer}.update.lin_qkv": [f"{attn}.to_q", f"{attn}.to_k", f"{attn}.to_v"],
                f"{mixer}.lin_out": [f"{attn}.to_out.0"],
            }
        load_authors(model, state_dict, names)
        return model

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, num_slices={self.num_slices})"
        )
