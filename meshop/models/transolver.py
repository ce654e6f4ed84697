import copy
from collections.abc import Mapping, Sequence
from typing import cast

from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from meshop.models.authors import backbone_names, backbone_sizes, count_blocks, load_authors, read_sizes
from meshop.nn import Block, Lift, PhysicsAttention, TimestepEmbedding, UnifiedPosition


class Transolver(nn.Module):
    r"""`"Transolver: A Fast Transformer Solver for PDEs on General Geometries" <https://arxiv.org/abs/2402.02366>`_.

    .. math::
        h &= \mathrm{Lift}(x) \\
        h &\leftarrow h + \mathrm{PhysicsAttention}(\mathrm{LN}(h)), \quad
        h \leftarrow h + \mathrm{FFN}(\mathrm{LN}(h)) \qquad (L \text{ times}) \\
        u &= W\, \mathrm{LN}(h)

    See :class:`~meshop.nn.PhysicsAttention` for the operator and its differences from the authors' code.

    Time is O(L (N C² + N M C)), memory O(L (N C + M C)) in training.

    Args:
        in_channels: size of x, coordinates included.
        hidden_channels: width C.
        num_layers: number of blocks L.
        out_channels: size of the output.
        heads: number of heads.
        num_slices: number of slices.
        ffn_ratio: width of the FFN in units of C; the published scripts use 1 (Pipe 2), published counts need 2.
        grid_dim: 2 or 3 for the variant with convolutions, on grids in row-major order that pass their ``shape``.
        update: what the slices of the first block go through, copied and initialised anew for the others: by default
            ``SliceAttention(C / heads)``, which replaces them, as in the paper; ``ReZero(SliceAttention(C / heads))``
            for Slice-Residual Physics-Attention (SRPA), ``nn.Identity()`` for none.
        lift: module from x to hidden features; by default :class:`~meshop.nn.Lift`, which also takes a position and
            a time embedding.

    Shapes:
        - **input:** x [N, in_channels], pos [N, D], batch [N], measure [N], shape (n1, n2[, n3]), time [B]
        - **output:** [N, out_channels]

    >>> import torch
    >>> Transolver(3, 16, 2, 1, heads=4, num_slices=8)(torch.ones(5, 3)).shape
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
        grid_dim: int | None = None,
        update: nn.Module | None = None,
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
        self.grid_dim = grid_dim
        self.lift = Lift(in_channels, hidden_channels) if lift is None else lift
        mixers = [
            PhysicsAttention(hidden_channels, heads, num_slices, grid_dim=grid_dim, update=copy.deepcopy(update))
            for _ in range(num_layers)
        ]
        for mixer in mixers[1:]:
            mixer.reset_parameters()
        self.blocks = nn.ModuleList(Block(mixer, hidden_channels, ffn_ratio) for mixer in mixers)
        self.norm = nn.LayerNorm(hidden_channels)
        self.head = nn.Linear(hidden_channels, out_channels)

    @property
    def update(self) -> nn.Module | None:
        """What the slices of the first block go through."""
        return cast(PhysicsAttention, self.blocks[0].mixer).update if len(self.blocks) else None

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
        shape: Sequence[int] | None = None,
        time: Tensor | None = None,
    ) -> Tensor:
        h = self.lift(x, pos, batch, batch_size, time)
        for block in self.blocks:
            h = block(h, batch=batch, measure=measure, batch_size=batch_size, shape=shape)
        return self.head(self.norm(h))

    @classmethod
    def from_authors(
        cls, state_dict: Mapping[str, Tensor], position: UnifiedPosition | None = None, placeholder: bool = True
    ) -> "Transolver":
        """The model and weights of the authors' ``Transolver``, from their repositories Transolver and
        Neural-Solver-Library: for points, 2-D and 3-D grids. Their ``x, fx`` make our x, side by side.

        All sizes are read from the weights.

        Args:
            state_dict: the weights, as ``torch.load`` gives them.
            position: ``UnifiedPosition(dim, ref)`` if theirs was made with ``unified_pos``; our x is then their ``fx``.
            placeholder: False for a model of the repository Transolver on grids with fields beside the coordinates: it
                has a placeholder that it never adds.

        Raises:
            InputError: names are missing or unknown; all of them are listed.
        """
        layers = count_blocks(state_dict)
        sizes = backbone_sizes(layers) | {
            "temperature": "blocks.0.Attn.temperature",
            "project": "blocks.0.Attn.in_project_x.weight",
            "slice": "blocks.0.Attn.in_project_slice.weight",
        }
        size = read_sizes(state_dict, "a Transolver", sizes)
        channels = size["project"][0]
        features = size["lift"][1] - (0 if position is None else position.out_channels)
        grid_dim = len(size["project"]) - 2 or None
        time = TimestepEmbedding(channels) if "time_fc.0.weight" in state_dict else None
        lift = Lift(features, channels, position, time)
        model = cls(
            features,
            channels,
            layers,
            size["head"][0],
            heads=size["temperature"].numel(),
            num_slices=size["slice"][0],
            ffn_ratio=size["ffn"][0] // channels,
            grid_dim=grid_dim,
            lift=lift,
        )
        names = backbone_names(layers)
        conv = ".conv" if grid_dim else ""
        for i in range(layers):
            mixer, attn = f"blocks.{i}.mixer", f"blocks.{i}.Attn"
            names |= {
                f"{mixer}.slices.temperature": [f"{attn}.temperature"],
                f"{mixer}.slices.lin_x{conv}": [f"{attn}.in_project_x"],
                f"{mixer}.slices.lin_f{conv}": [f"{attn}.in_project_fx"],
                f"{mixer}.slices.lin_slice": [f"{attn}.in_project_slice"],
                f"{mixer}.update.lin_qkv": [f"{attn}.to_q", f"{attn}.to_k", f"{attn}.to_v"],
                f"{mixer}.lin_out": [f"{attn}.to_out.0"],
            }
        load_authors(model, state_dict, names)
        if not placeholder:
            nn.init.zeros_(lift.placeholder)
        return model

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, num_slices={self.num_slices})"
        )
