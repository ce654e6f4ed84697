"""Transolver, CANO and LinearNO written plainly, as their authors publish or print them.

Graphs are dense [B, N, C], with a ``mask`` [B, N] where they differ in size; heads are a permuted copy [B, H, N, d];
the weights of all nodes [B, H, N, M] exist at once, and sums over nodes are single einsums. Parameters have the names
and shapes of meshop's, so that ``plain(model)`` computes the same function. Nodes weigh the same, nothing is dropped
out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

import meshop.models
import meshop.nn


class Mixer(nn.Module):
    """What the three have in common: heads as a batch dimension of contiguous copies."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.lin_out = nn.Linear(channels, channels)

    def split(self, x: Tensor) -> Tensor:
        """[B, N, C] to [B, H, N, d]."""
        batch, nodes, channels = x.shape
        return x.reshape(batch, nodes, self.heads, channels // self.heads).permute(0, 2, 1, 3).contiguous()

    def join(self, x: Tensor) -> Tensor:
        """[B, H, N, d] to [B, N, C], and the last linear map."""
        return self.lin_out(x.permute(0, 2, 1, 3).contiguous().flatten(2))


class PhysicsAttention(Mixer):
    """Transolver's."""

    def __init__(self, channels: int, heads: int, slices: int) -> None:
        super().__init__(channels, heads)
        self.slices = nn.Module()
        self.slices.lin_x = nn.Linear(channels, channels)
        self.slices.lin_f = nn.Linear(channels, channels)
        self.slices.lin_slice = nn.Linear(channels // heads, slices)
        self.slices.temperature = nn.Parameter(torch.empty(heads))
        self.update = nn.Module()
        self.update.lin_qkv = nn.Linear(channels // heads, 3 * channels // heads, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        f = self.split(self.slices.lin_f(x))  # [B, H, N, d]
        x = self.split(self.slices.lin_x(x))
        weight = (self.slices.lin_slice(x) / self.slices.temperature[:, None, None]).softmax(-1)  # [B, H, N, M]
        if mask is not None:
            weight = weight * mask[:, None, :, None]
        token = torch.einsum("bhnd,bhnm->bhmd", f, weight) / (weight.sum(2) + 1e-5)[..., None]
        q, k, v = (linear(token, w) for w in self.update.lin_qkv.weight.chunk(3))
        attention = (torch.einsum("bhmd,bhkd->bhmk", q, k) * q.size(-1) ** -0.5).softmax(-1)
        token = torch.einsum("bhmk,bhkd->bhmd", attention, v)
        return self.join(torch.einsum("bhmd,bhnm->bhnd", token, weight))


class ClusterAttention(Mixer):
    """CANO's, with queries that are means or, as in the paper, sums."""

    def __init__(self, channels: int, heads: int, clusters: int, aggr: str) -> None:
        super().__init__(channels, heads)
        self.aggr = aggr
        self.lin_qkv = nn.Linear(channels, 3 * channels)
        self.cluster = nn.Parameter(torch.empty(heads, channels // heads, clusters))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        maps = zip(self.lin_qkv.weight.chunk(3), self.lin_qkv.bias.chunk(3), strict=True)
        q, k, v = (self.split(linear(x, w, b)) for w, b in maps)  # [B, H, N, d]
        weight = torch.einsum("bhnd,hdk->bhnk", q, self.cluster).softmax(-1)  # [B, H, N, K]
        if mask is not None:
            weight = weight * mask[:, None, :, None]
        query = torch.einsum("bhnk,bhnd->bhkd", weight, q)
        if self.aggr == "mean":
            query = query / (weight.sum(2) + 1e-5)[..., None]
        logit = torch.einsum("bhkd,bhnd->bhkn", query, k) * q.size(-1) ** -0.5  # [B, H, K, N]
        if mask is not None:
            logit = logit.masked_fill(~mask[:, None, None], -torch.inf)
        token = torch.einsum("bhkn,bhnd->bhkd", logit.softmax(-1), v)
        return self.join(torch.einsum("bhnk,bhkd->bhnd", weight, token))


class LinearAttention(Mixer):
    """LinearNO's."""

    def __init__(self, channels: int, heads: int, slices: int) -> None:
        super().__init__(channels, heads)
        self.lin_x = nn.Linear(channels, channels)
        self.lin_v = nn.Linear(channels, channels)
        self.lin_q = nn.Linear(channels // heads, slices)
        self.lin_k = nn.Linear(channels // heads, slices, bias=False)
        self.temperature = nn.Parameter(torch.empty(2, heads))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        v = self.split(self.lin_v(x))  # [B, H, N, d]
        x = self.split(self.lin_x(x))
        tau_q, tau_k = self.temperature[..., None, None]
        weight = (self.lin_q(x) / tau_q).softmax(-1)  # [B, H, N, M]
        logit = self.lin_k(x) / tau_k
        if mask is not None:
            logit = logit.masked_fill(~mask[:, None, :, None], -torch.inf)
        token = torch.einsum("bhnm,bhnd->bhmd", logit.softmax(2), v)
        return self.join(torch.einsum("bhnm,bhmd->bhnd", weight, token))


class Perceptron(nn.Module):
    """Two linear maps with a GELU between them."""

    def __init__(self, channels: int, hidden: int, out: int) -> None:
        super().__init__()
        self.lin1 = nn.Linear(channels, hidden)
        self.lin2 = nn.Linear(hidden, out)

    def forward(self, x: Tensor) -> Tensor:
        return self.lin2(gelu(self.lin1(x)))


class Block(nn.Module):
    """Pre-norm, residual."""

    def __init__(self, mixer: nn.Module, channels: int, ratio: int) -> None:
        super().__init__()
        self.mixer = mixer
        self.norm1 = nn.LayerNorm(channels)
        self.norm2 = nn.LayerNorm(channels)
        self.ffn = Perceptron(channels, ratio * channels, channels)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = x + self.mixer(self.norm1(x), mask)
        return x + self.ffn(self.norm2(x))


class Model(nn.Module):
    """A lift, blocks and a head."""

    def __init__(self, mixers: list[nn.Module], in_channels: int, channels: int, out_channels: int, ratio: int) -> None:
        super().__init__()
        self.lift = nn.Module()
        self.lift.mlp = Perceptron(in_channels, 2 * channels, channels)
        self.lift.placeholder = nn.Parameter(torch.empty(channels))
        self.blocks = nn.ModuleList(Block(mixer, channels, ratio) for mixer in mixers)
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, out_channels)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        h = self.lift.mlp(x) + self.lift.placeholder
        for block in self.blocks:
            h = block(h, mask)
        return self.head(self.norm(h))


def plain(module: nn.Module) -> nn.Module | None:
    """The plain twin of a layer or model of meshop, with copies of its parameters; ``None`` where there is none."""
    if hasattr(module, "blocks"):
        mixers = [_mixer(block.mixer) for block in module.blocks]
        if None in mixers:
            return None
        twin = Model(mixers, module.in_channels, module.hidden_channels, module.out_channels, module.ffn_ratio)
    else:
        twin = _mixer(module)
    if twin is not None:
        twin.load_state_dict(module.state_dict())
    return twin


def _mixer(layer: nn.Module) -> nn.Module | None:
    if isinstance(layer, meshop.nn.PhysicsAttention):
        return PhysicsAttention(layer.channels, layer.heads, layer.num_slices)
    if isinstance(layer, meshop.nn.ClusterAttention):
        return ClusterAttention(layer.channels, layer.heads, layer.num_clusters, layer.aggr)
    if isinstance(layer, meshop.nn.LinearAttentionNO):
        return LinearAttention(layer.channels, layer.heads, layer.num_slices)
    return None
