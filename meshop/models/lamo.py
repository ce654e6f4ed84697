import copy
from collections.abc import Mapping, Sequence
from typing import cast

from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from meshop.data import InputError
from meshop.models.authors import backbone_names, backbone_sizes, count_blocks, load_authors, read_sizes
from meshop.nn import Block, Lift, TimestepEmbedding, UnifiedPosition
from meshop.nn.hydra import Hydra
from meshop.nn.latent_ssm import LatentSSM


class LaMO(nn.Module):
    r"""`"Latent Mamba Operator for Partial Differential Equations" <https://arxiv.org/abs/2505.19105>`_ on meshes.

    .. math::
        h &= \mathrm{Lift}(x) \\
        h &\leftarrow h + \mathrm{LatentSSM}(\mathrm{LN}(h)), \quad
        h \leftarrow h + \mathrm{FFN}(\mathrm{LN}(h)) \qquad (L \text{ times}) \\
        u &= W\, \mathrm{LN}(h)

    See :class:`~meshop.nn.LatentSSM` for the operator and its differences from the authors' code, its cores
    :class:`~meshop.nn.Hydra` and :class:`~meshop.nn.BiMamba2`, and :class:`LaMOGrid` for their variant with patches on
    regular grids. Their settings:

    ============ ========== ================================================================= =========
    task         ``shared`` ``mixer``                                                         parameters
    ============ ========== ================================================================= =========
    Elasticity   yes        ``LatentSSM(128)``                                                1,953,577
    Airfoil      yes        ``LatentSSM(128, core=Hydra(128, 1, 1), grid_dim=2)``             1,144,825
    Pipe         no         ``LatentSSM(128, core=BiMamba2(128), grid_dim=2)``, FFN ratio 2   4,020,545
    Plasticity   no         ``LatentSSM(128, core=BiMamba2(128), grid_dim=2)``, with time     3,791,044
    ============ ========== ================================================================= =========

    One difference more: the shared encoder of the authors keeps torch's initialisation (and an orthogonal one for the
    slices), because it is made after the others have been initialised; here it is that of the family, as it is in
    their unshared variant.

    Time is O(L (N C² + N M C)), memory O(L (N C + M C)) in training, beside the cores' on M tokens.

    Args:
        in_channels: size of x, coordinates included.
        hidden_channels: width C.
        num_layers: number of blocks L, at least one.
        out_channels: size of the output.
        ffn_ratio: width of the FFN in units of C.
        shared: whether the blocks share the encoder that assigns nodes to slices. The assignment itself follows the
            features of each block; scan, norms, output maps and FFN are the blocks' own.
        mixer: the :class:`~meshop.nn.LatentSSM` of the first block, copied and initialised anew for the others; by
            default ``LatentSSM(hidden_channels)``.
        lift: module from x to hidden features; by default :class:`~meshop.nn.Lift`, which also takes a position and
            a time embedding.

    Shapes:
        - **input:** x [N, in_channels], pos [N, D], batch [N], measure [N], shape (n1, n2[, n3]), time [B]
        - **output:** [N, out_channels]

    Raises:
        InputError: ``num_layers`` is zero.

    >>> import torch
    >>> LaMO(3, 16, 2, 1)(torch.ones(5, 3)).shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        ffn_ratio: int = 1,
        shared: bool = True,
        mixer: LatentSSM | None = None,
        lift: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise InputError(f"Expected at least one layer (got {num_layers})")
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.num_layers = num_layers
        self.out_channels = out_channels
        self.ffn_ratio = ffn_ratio
        self.shared = shared
        self.lift = Lift(in_channels, hidden_channels) if lift is None else lift
        first = LatentSSM(hidden_channels) if mixer is None else mixer
        mixers = [first, *(copy.deepcopy(first) for _ in range(num_layers - 1))]
        for other in mixers[1:]:
            other.reset_parameters()
            if shared:
                other.slices = first.slices
        self.blocks = nn.ModuleList(Block(m, hidden_channels, ffn_ratio) for m in mixers)
        self.norm = nn.LayerNorm(hidden_channels)
        self.head = nn.Linear(hidden_channels, out_channels)

    @property
    def mixer(self) -> LatentSSM:
        """The mixer of the first block."""
        return cast(LatentSSM, self.blocks[0].mixer)

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
            h = block(h, pos, batch=batch, measure=measure, batch_size=batch_size, shape=shape)
        return self.head(self.norm(h))

    @classmethod
    def from_authors(cls, state_dict: Mapping[str, Tensor], position: UnifiedPosition | None = None) -> "LaMO":
        """The model and weights of the authors' ``LaMO_Irregular_Mesh_shared``, ``LaMO_Irregular_Mesh_unshared`` or
        ``LaMO_Structured_Mesh_2D_shared``. Their ``x, fx`` make our x, side by side.

        All sizes are read from the weights. Where their structured model has fields beside the coordinates, it never
        adds its placeholder; here it is then zero. The weights of ``LaMO_Structured_Mesh_2D_unshared`` are not read:
        the file with its scan, ``mamba_2D_v1.py``, is missing in the authors' repository, and with it the names.

        Args:
            state_dict: the weights, as ``torch.load`` gives them.
            position: ``UnifiedPosition(2, ref)`` if theirs was made with ``unified_pos``; our x is then their ``fx``.

        Raises:
            InputError: names are missing or unknown; all of them are listed.
        """
        layers = count_blocks(state_dict)
        shared = "temperature" in state_dict
        encoder = "" if shared else "blocks.0.Attn."
        sizes = backbone_sizes(layers) | {
            "temperature": f"{encoder}temperature",
            "project": f"{encoder}in_project_x.weight",
            "slice": f"{encoder}in_project_slice.weight",
            "state": "blocks.0.Attn.hydra.init_states",
            "conv": "blocks.0.Attn.hydra.conv1d.weight",
            "out": "blocks.0.Attn.hydra.out_proj.weight",
        }
        size = read_sizes(state_dict, "a LaMO with a Hydra scan", sizes)
        channels, inner = size["out"]
        features = size["lift"][1] - (0 if position is None else position.out_channels)
        grid_dim = len(size["project"]) - 2 or None
        core = Hydra(
            channels,
            state_channels=size["state"][2],
            expand=inner // channels,
            head_channels=size["state"][1],
            groups=(size["conv"][0] - inner) // (4 * size["state"][2]),
            kernel_size=size["conv"][2],
        )
        time = TimestepEmbedding(channels) if "time_fc.0.weight" in state_dict else None
        lift = Lift(features, channels, position, time)
        model = cls(
            features,
            channels,
            layers,
            size["head"][0],
            ffn_ratio=size["ffn"][0] // channels,
            shared=shared,
            mixer=LatentSSM(channels, size["temperature"].numel(), size["slice"][0], core, grid_dim=grid_dim),
            lift=lift,
        )
        names = backbone_names(layers)
        for i in range(layers):
            mixer, attn = f"blocks.{i}.mixer", f"blocks.{i}.Attn"
            encoder = "" if shared else f"{attn}."
            conv = ".conv" if grid_dim else ""
            names |= {
                f"{mixer}.slices.temperature": [f"{encoder}temperature"],
                f"{mixer}.slices.lin_x{conv}": [f"{encoder}in_project_x"],
                f"{mixer}.slices.lin_f{conv}": [f"{encoder}in_project_fx"],
                f"{mixer}.slices.lin_slice": [f"{encoder}in_project_slice"],
                f"{mixer}.core.lin_in": [f"{attn}.hydra.in_proj"],
                f"{mixer}.core.conv": [f"{attn}.hydra.conv1d"],
                f"{mixer}.core.dt_bias": [f"{attn}.hydra.dt_bias"],
                f"{mixer}.core.A_log": [f"{attn}.hydra.A_log"],
                f"{mixer}.core.initial_state": [f"{attn}.hydra.init_states"],
                f"{mixer}.core.lin_skip.weight": [f"{attn}.hydra.fc_D.weight"],
                f"{mixer}.core.lin_skip.bias": [f"{attn}.hydra.D"],
                f"{mixer}.core.norm": [f"{attn}.hydra.norm"],
                f"{mixer}.core.lin_out": [f"{attn}.hydra.out_proj"],
                f"{mixer}.lin_out": [f"{attn}.to_out.0"],
            }
        load_authors(model, state_dict, names)
        if grid_dim and features > (grid_dim if position is None else 0):
            nn.init.zeros_(lift.placeholder)
        return model

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, shared={self.shared}, mixer={self.mixer})"
        )
