"""Every law over every layer and model."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

import meshop.models
import meshop.nn
from meshop.models import (
    CANO,
    FNO,
    LaMO,
    LaMOGrid,
    LinearNO,
    Physolver,
    Specsolver,
    Stack,
    Transolver,
    TransolverPlusPlus,
    TransolverSigma,
)
from meshop.nn import (
    SS2D,
    BiMamba2,
    Block,
    ClusterAttention,
    ConditionalPositionEncoding,
    Deformation,
    DepthwiseGraphConv,
    EideticAttention,
    FactorizedSpectralConv,
    FeedForward,
    GridConv,
    GridResample,
    GridSpectralConv,
    Hydra,
    LatentSSM,
    Lift,
    LinearAttentionNO,
    Normalizer,
    Parallel,
    PhysicsAttention,
    RadiusKernel,
    Residual,
    ReZero,
    SliceAttention,
    SliceResidualAttention,
    SpectralConv,
    SwiGLU,
    TimestepEmbedding,
    UnifiedPosition,
)
from meshop.testing import LAWS, Make, assert_memory, random_graph, random_grid

C = 16  # channels of the graphs


def fitted() -> Normalizer:
    norm = Normalizer(C)
    norm.fit(torch.arange(4.0 * C).view(4, C).square())
    return norm


def times(num_nodes: int, seed: int) -> Data:
    """A layer of one row a graph keeps the laws of one row a node."""
    time = torch.rand(num_nodes, generator=torch.Generator().manual_seed(seed))
    return Data(time=time, measure=time, num_nodes=num_nodes)


def sequences(num_nodes: int, seed: int) -> Data:
    """A layer of tokens keeps the laws of one sequence a node."""
    tokens = torch.randn(num_nodes, 5, C, generator=torch.Generator().manual_seed(seed))
    return Data(x=tokens, measure=tokens[:, 0, 0].abs())


def latent(core: nn.Module, **args: Any) -> LatentSSM:
    return LatentSSM(C, heads=2, num_slices=C, core=core, **args)


def offsets(num_nodes: int, seed: int) -> Data:
    """A layer of one offset a row keeps the laws of one node a row."""
    offset = torch.randn(num_nodes, 2, generator=torch.Generator().manual_seed(seed))
    return Data(offset=offset, measure=offset[:, 0].abs(), num_nodes=num_nodes)


def resample(size: tuple[int, int] | None = (6, 5), **arguments: Any) -> GridResample:
    return GridResample(FactorizedSpectralConv(C, C, (3, 3)), size, **arguments)


def depthwise(kernel_size: int = 3) -> GridConv:
    return GridConv(C, C, 2, kernel_size, groups=C)


cube = partial(random_grid, shape=(3, 4, 2))
SIGMA: dict[str, Any] = {"heads": 2, "num_slices": C, "modes": (3, 3)}
GRID = ("order",)  # on a grid the order of the nodes means something

torch.manual_seed(0)  # float32 comes close to the tolerances
# module, graphs, laws that do not apply
CASES: dict[str, tuple[nn.Module, Make, tuple[str, ...]]] = {
    "BiMamba2-tokens": (BiMamba2(C, 4), sequences, ("memory",)),
    "Block": (Block(PhysicsAttention(C, heads=2, num_slices=C), C), random_graph, ()),
    "Block-SAGEConv": (Block(SAGEConv(C, C), C), random_graph, ("measure",)),  # SAGEConv has no measure
    "ClusterAttention": (ClusterAttention(C, heads=2, num_clusters=C), random_graph, ()),
    "ClusterAttention-sum": (ClusterAttention(C, heads=2, num_clusters=C, aggr="sum"), random_graph, ()),
    "ClusterAttention-grid": (ClusterAttention(C, heads=2, num_clusters=C, grid_dim=2), random_grid, GRID),
    "EideticAttention": (EideticAttention(C, heads=2, num_slices=C), random_graph, ()),
    "FeedForward": (FeedForward(C, 2 * C, 3), random_graph, ()),
    "GridConv": (GridConv(C, 3, dim=2), random_grid, GRID),
    "GridConv-3d": (GridConv(C, 3, dim=3), cube, GRID),
    "Hydra-tokens": (Hydra(C, 4), sequences, ("memory",)),
    "LatentSSM": (latent(Hydra(C, 4)), random_graph, ()),
    "LatentSSM-zoh": (latent(BiMamba2(C, 4, discretization="zoh")), random_graph, ()),
    "LatentSSM-geometric": (latent(Hydra(C, 4), geometric_order=True), random_graph, ()),
    "LatentSSM-grid": (latent(Hydra(C, 4), grid_dim=2), random_grid, GRID),
    "Lift": (Lift(C, 8, position=UnifiedPosition(2, ref=3), time=TimestepEmbedding(8)), random_graph, ()),
    "LinearAttentionNO": (LinearAttentionNO(C, heads=2, num_slices=C), random_graph, ()),
    "Normalizer": (fitted(), random_graph, ()),
    "PhysicsAttention": (PhysicsAttention(C, heads=2, num_slices=C), random_graph, ()),
    "PhysicsAttention-grid": (PhysicsAttention(C, heads=2, num_slices=C, grid_dim=2), random_grid, GRID),
    "PhysicsAttention-cube": (PhysicsAttention(C, heads=2, num_slices=C, grid_dim=3), cube, GRID),
    "SS2D-grid": (SS2D(C, 4), random_grid, (*GRID, "memory")),
    "TimestepEmbedding": (TimestepEmbedding(C), times, ()),
    "UnifiedPosition": (UnifiedPosition(2, ref=4), random_graph, ()),
    "UnifiedPosition-box": (UnifiedPosition(2, ref=4, box=((0, 0), (1, 2))), random_graph, ()),
    "CANO": (CANO(C, C, 2, 3, heads=2, num_clusters=C), random_graph, ()),
    "CANO-grid": (CANO(C, C, 2, 3, heads=2, num_clusters=C, grid_dim=2), random_grid, GRID),
    "LaMO": (LaMO(C, C, 2, 3, mixer=latent(Hydra(C, 4))), random_graph, ()),
    "LaMO-unshared": (LaMO(C, C, 2, 3, shared=False, mixer=latent(BiMamba2(C, 4))), random_graph, ()),
    "LaMO-grid": (LaMO(C, C, 2, 3, mixer=latent(Hydra(C, 4), grid_dim=2)), random_grid, GRID),
    "LaMOGrid-grid": (LaMOGrid(C, C, 2, 3, shape=(6, 6), mixer=SS2D(C, 4)), random_grid, (*GRID, "memory")),
    "LinearNO": (LinearNO(C, C, 2, 3, heads=2, num_slices=C), random_graph, ()),
    "TransolverPlusPlus": (TransolverPlusPlus(C, C, 2, 3, heads=2, num_slices=C), random_graph, ()),
    "Transolver-srpa": (
        Transolver(C, C, 2, 3, heads=2, num_slices=C, update=ReZero(SliceAttention(C // 2))),
        random_graph,
        (),
    ),
    "Transolver": (Transolver(C, C, 2, 3, heads=2, num_slices=C), random_graph, ()),
    "Transolver-grid": (Transolver(C, C, 2, 3, heads=2, num_slices=C, grid_dim=2), random_grid, GRID),
    "ConditionalPositionEncoding": (ConditionalPositionEncoding(DepthwiseGraphConv(C, 2)), random_graph, ()),
    "ConditionalPositionEncoding-grid": (ConditionalPositionEncoding(depthwise()), random_grid, (*GRID, "measure")),
    "Deformation": (Deformation(2), random_graph, ()),
    "DepthwiseGraphConv": (DepthwiseGraphConv(C, 2), random_graph, ()),
    "FactorizedSpectralConv-grid": (FactorizedSpectralConv(C, 3, (4, 3)), random_grid, GRID),
    "FactorizedSpectralConv-cube": (FactorizedSpectralConv(C, 3, (2, 3, 2)), cube, GRID),
    "GridConv-depthwise": (depthwise(kernel_size=5), random_grid, GRID),
    "GridResample": (resample(), random_graph, ()),
    "GridResample-free": (resample(size=None), random_graph, ("compile", "export")),  # shapes depend on the data
    "GridResample-grid": (resample(), random_grid, (*GRID, "measure")),
    "GridResample-deformed": (resample(deformation=Deformation(2), margin=0.1), random_graph, ()),
    "GridResample-kernel": (resample(kernel_in=RadiusKernel(2, C), kernel_out=RadiusKernel(2)), random_graph, ()),
    "GridSpectralConv": (GridSpectralConv(C, 3, (3, 3), (6, 5)), random_graph, ()),
    "GridSpectralConv-grid": (GridSpectralConv(C, 3, (3, 3)), random_grid, (*GRID, "measure")),
    "Parallel": (Parallel([PhysicsAttention(8, 2, C), SwiGLU(8)]), random_graph, ()),
    "RadiusKernel": (RadiusKernel(2, channels=3, radius=2.0), offsets, ("memory",)),
    "ReZero": (ReZero(FeedForward(C, C, C)), random_graph, ()),
    "Residual": (Residual(PhysicsAttention(C, heads=2, num_slices=C), C), random_graph, ()),
    "SliceAttention-tokens": (SliceAttention(C), sequences, ("memory",)),
    "SliceResidualAttention": (SliceResidualAttention(C, heads=2, num_slices=C), random_graph, ()),
    "SliceResidualAttention-graph": (
        SliceResidualAttention(C, 2, C, DepthwiseGraphConv(C, 2), DepthwiseGraphConv(C, 2)),
        random_graph,
        (),
    ),
    "SliceResidualAttention-grid": (SliceResidualAttention(C, 2, C, depthwise(5), depthwise(5)), random_grid, GRID),
    "SpectralConv-grid": (SpectralConv(C, 3, (4, 3)), random_grid, GRID),
    "SpectralConv-cube": (SpectralConv(C, 3, (2, 3, 2)), cube, GRID),
    "SwiGLU": (SwiGLU(C), random_graph, ()),
    "FNO-mesh": (FNO(C, C, 2, 3, (3, 3), (6, 5)), random_graph, ()),
    "FNO-grid": (FNO(C, C, 2, 3, (3, 3)), random_grid, (*GRID, "measure")),
    "Physolver-mesh": (Physolver(C, C, 2, 3, heads=2, num_slices=C), random_graph, ()),
    "Physolver-grid": (Physolver(C, C, 2, 3, heads=2, num_slices=C, grid_dim=2), random_grid, GRID),
    "Specsolver-mesh": (Specsolver(C, C, 2, 3, (3, 3), size=(6, 5)), random_graph, ()),
    "Specsolver-grid": (Specsolver(C, C, 2, 3, (3, 3), grid_dim=2), random_grid, (*GRID, "measure")),
    "Stack": (Stack(C, C, 3, [Block(ClusterAttention(C, 2, C), C), resample()]), random_graph, ()),
    "TransolverSigma-mesh": (TransolverSigma(C, C, 2, 3, **SIGMA, size=(6, 5)), random_graph, ()),
    "TransolverSigma-grid": (TransolverSigma(C, C, 2, 3, **SIGMA, grid_dim=2), random_grid, GRID),
}


def test_every_layer_and_model_is_here():
    public = [(module, name) for module in (meshop.nn, meshop.models) for name in module.__all__]
    layers = {name for module, name in public if isinstance(getattr(module, name), type)}
    assert layers == {name.split("-")[0] for name in CASES}


def cases():
    for name in CASES:
        for law in LAWS:
            if law != "memory":
                slow = law in ("compile", "export") and "-" in name  # the plain ones are enough for every day
                yield pytest.param(name, law, marks=[pytest.mark.slow] if slow else [], id=f"{name}-{law}")


@pytest.mark.parametrize(("name", "law"), list(cases()))
def test_law(name, law):
    module, make, skip = CASES[name]
    if law in skip:
        pytest.skip("does not apply")
    LAWS[law](module, make)


@pytest.mark.parametrize("name", CASES)
def test_memory(name):
    module, make, skip = CASES[name]
    if "memory" in skip:
        pytest.skip("does not apply")
    if make in (random_grid, cube):
        make = partial(random_grid, shape=(64, 64) if make is random_grid else (16, 16, 16))
    assert_memory(module, make, per_node=6 * C)  # N x M x d would be 16 C
