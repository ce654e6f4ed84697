import copy
from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch_geometric.nn.inits import reset

from meshop.data import InputError
from meshop.models.authors import load_authors, read_sizes
from meshop.nn import Block
from meshop.nn.grid import grid_to_rows, rows_to_grid
from meshop.nn.ss2d import SS2D


class LaMOGrid(nn.Module):
    r"""`"Latent Mamba Operator for Partial Differential Equations" <https://arxiv.org/abs/2505.19105>`_ on grids.

    Patches of p x p nodes are the latent nodes,

    .. math::
        h &= \mathrm{LN}(\mathrm{patchify}(x + c)) + e \\
        h &\leftarrow h + \mathrm{SS2D}(\mathrm{LN}(h)), \quad
        h \leftarrow h + \mathrm{FFN}(\mathrm{LN}(h)) \qquad (L \text{ times}) \\
        u &= \mathrm{unpatchify}(\mathrm{LN}(h) + b)

    with a learned vector :math:`e` for each patch and one of two numbers, :math:`c`, for the coordinates, which come
    first in x; see :class:`~meshop.nn.SS2D`. Patchify and unpatchify are
    a convolution and a transposed one with stride p.

    Differences from the authors' code:

    1. Their maps to and from patches start at N(0, 1), which multiplies the output by :math:`\sqrt{C}`; here all linear
       maps start as in the Transolver family.
    2. Their placeholder :math:`c` is added only where there are no fields beside the coordinates, and is dead
       elsewhere; here it is always added, and starts at zero.

    Settings of theirs, with ``hidden_channels`` 64 for Darcy (shape (88, 88), 1,145,986 parameters) and 256 for
    Navier-Stokes (shape (64, 64), 10,061,314), are ``num_layers`` 8, ``patch_size`` 2 and ``ffn_ratio`` 4.

    Time is O(L n C (C + S)), memory O(L n (C + S)) in training, for n = N / p² patches and state size S.

    Args:
        in_channels: size of x, the two coordinates first.
        hidden_channels: width C.
        num_layers: number of blocks L, at least one.
        out_channels: size of the output.
        shape: the largest grid, in multiples of ``patch_size``; smaller ones are padded with zeros at their high ends.
        patch_size: nodes p along the side of a patch.
        ffn_ratio: width of the FFN in units of C.
        mixer: mixer of the first block, copied and initialised anew for the others; by default
            ``SS2D(hidden_channels)``.

    Shapes:
        - **input:** x [N, in_channels] in row-major order, batch [N], shape (n1, n2)
        - **output:** [N, out_channels]

    Raises:
        InputError: ``num_layers`` is zero; there are no two coordinates; ``shape`` is no multiple of ``patch_size``;
            the nodes are no such grid, or a larger one.

    >>> LaMOGrid(3, 16, 2, 1, shape=(8, 8))(torch.ones(35, 3), shape=(5, 7)).shape
    torch.Size([35, 1])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        shape: Sequence[int],
        patch_size: int = 2,
        ffn_ratio: int = 4,
        mixer: SS2D | None = None,
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise InputError(f"Expected at least one layer (got {num_layers})")
        if in_channels < 2:
            raise InputError(f"Expected two coordinates at least as in_channels (got {in_channels})")
        if len(shape) != 2 or any(n % patch_size for n in shape):
            raise InputError(f"Expected a 2-D shape in multiples of the patch size {patch_size} (got {tuple(shape)})")
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.num_layers = num_layers
        self.out_channels = out_channels
        self.shape = tuple(shape)
        self.patch_size = patch_size
        self.ffn_ratio = ffn_ratio
        self.patches = tuple(n // patch_size for n in shape)
        self.placeholder = nn.Parameter(torch.empty(2))
        self.patchify = nn.Conv2d(in_channels, hidden_channels, patch_size, stride=patch_size)
        self.norm1 = nn.LayerNorm(hidden_channels)
        self.embedding = nn.Parameter(torch.empty(self.patches[0] * self.patches[1], hidden_channels))
        first = SS2D(hidden_channels) if mixer is None else mixer
        mixers = [first, *(copy.deepcopy(first) for _ in range(num_layers - 1))]
        for other in mixers[1:]:
            other.reset_parameters()
        self.blocks = nn.ModuleList(Block(m, hidden_channels, ffn_ratio) for m in mixers)
        self.norm2 = nn.LayerNorm(hidden_channels)
        self.bias = nn.Parameter(torch.empty(hidden_channels))
        self.unpatchify = nn.ConvTranspose2d(hidden_channels, out_channels, patch_size, stride=patch_size, bias=False)
        self.reset_parameters()

    @property
    def mixer(self) -> SS2D:
        """The mixer of the first block."""
        return cast(SS2D, self.blocks[0].mixer)

    def reset_parameters(self) -> None:
        for layer in (self.patchify, self.norm1, *self.blocks, self.norm2, self.unpatchify):
            reset(layer)
        for weight in (self.patchify.weight, self.unpatchify.weight):
            nn.init.trunc_normal_(weight, std=0.02)
        for bias in (self.placeholder, self.embedding, self.bias):
            nn.init.zeros_(bias)

    def forward(
        self,
        x: Tensor,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> Tensor:
        if x.size(-1) != self.in_channels:
            raise InputError(f"Expected x with {self.in_channels} channels (got {x.size(-1)})")
        x = x + pad(self.placeholder, (0, self.in_channels - 2))
        grid, order = rows_to_grid(x, 2, batch, batch_size, shape)  # [B, F, n1, n2]
        n1, n2 = grid.shape[2:]
        if n1 > self.shape[0] or n2 > self.shape[1]:
            raise InputError(f"Expected a grid of at most {self.shape} nodes (got {(n1, n2)})")
        grid = pad(grid, (0, self.shape[1] - n2, 0, self.shape[0] - n1))
        grid = self.patchify(grid)  # [B, C, p1, p2]
        h = self.norm1(grid.flatten(2).mT) + self.embedding  # [B, P, C]
        graph = torch.arange(h.size(0), device=x.device).repeat_interleave(h.size(1))
        h = h.flatten(0, 1)
        for block in self.blocks:
            h = block(h, batch=graph, batch_size=grid.size(0), shape=self.patches)
        h = (self.norm2(h) + self.bias).view(grid.size(0), -1, self.hidden_channels).mT.reshape(grid.shape)
        return grid_to_rows(self.unpatchify(h)[..., :n1, :n2], order)

    @classmethod
    def from_authors(cls, state_dict: Mapping[str, Tensor], shape: Sequence[int]) -> "LaMOGrid":
        """The model and weights of the authors' ``LaMO_Regular_Grid`` with ``num_scales`` 1.

        Their ``x, fx`` make our x, side by side.

        Args:
            state_dict: the weights, as ``torch.load`` gives them.
            shape: their padded grid ``(H, W)``; the other sizes are read from the weights.

        Raises:
            InputError: names are missing or unknown; all of them are listed.
        """
        sizes = {
            "in": "patch_embed1.WE",
            "out": "depatch_embed1.WE",
            "ffn": "block1.0.mlp.fc1.weight",
            "scan": "block1.0.hydra.x_proj_weight",
            "conv": "block1.0.hydra.conv2d.1.weight",
            "heads": "block1.0.hydra.A_logs",
        }
        size = read_sizes(state_dict, "a LaMO on grids", sizes)
        channels, features, patch_size, _ = size["in"]
        heads = size["heads"][1]
        layers = 1 + max(int(name.split(".")[1]) for name in state_dict if name.startswith("block1."))
        mixer = SS2D(
            channels,
            state_channels=(size["scan"][1] - heads) // 2,
            expand=size["scan"][2] // channels,
            heads=heads,
            kernel_size=size["conv"][2],
        )
        ratio = size["ffn"][0] // channels
        model = cls(features, channels, layers, size["out"][1], shape, patch_size, ratio, mixer)
        names = {
            "placeholder": ["placeholder"],
            "patchify.weight": ["patch_embed1.WE"],
            "patchify.bias": ["patch_embed1.bE"],
            "norm1": ["patch_embed1.layer_norm"],
            "embedding": ["pos_embed1"],
            "norm2": ["depatch_embed1.layer_norm"],
            "bias": ["depatch_embed1.bE"],
            "unpatchify.weight": ["depatch_embed1.WE"],
        }
        for i in range(layers):
            block, theirs = f"blocks.{i}", f"block1.{i}"
            names |= {
                f"{block}.norm1": [f"{theirs}.norm1"],
                f"{block}.norm2": [f"{theirs}.norm2"],
                f"{block}.ffn.lin1": [f"{theirs}.mlp.fc1"],
                f"{block}.ffn.lin2": [f"{theirs}.mlp.fc2"],
                f"{block}.mixer.lin_in": [f"{theirs}.hydra.in_proj"],
                f"{block}.mixer.conv": [f"{theirs}.hydra.conv2d.1"],
                f"{block}.mixer.scan": [f"{theirs}.hydra.x_proj_weight"],
                f"{block}.mixer.dt_bias": [f"{theirs}.hydra.dt_projs_bias"],
                f"{block}.mixer.A_log": [f"{theirs}.hydra.A_logs"],
                f"{block}.mixer.D": [f"{theirs}.hydra.Ds"],
                f"{block}.mixer.norm": [f"{theirs}.hydra.out_norm"],
                f"{block}.mixer.lin_out": [f"{theirs}.hydra.out_proj"],
            }
        load_authors(model, state_dict, names)
        if features > 2:
            nn.init.zeros_(model.placeholder)
        return model

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.hidden_channels}, num_layers={self.num_layers}, "
            f"out_channels={self.out_channels}, shape={self.shape}, patch_size={self.patch_size}, mixer={self.mixer})"
        )
