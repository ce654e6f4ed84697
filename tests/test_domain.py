"""One mesh on several processes gives what one process gives, for every layer and model that mixes nodes."""

import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import GAT, GCN, GIN, GATv2Conv, GCNConv, GraphSAGE, LayerNorm, SAGEConv
from torch_geometric.nn.models import PNA

import meshop.models
import meshop.nn
from meshop.data import InputError
from meshop.domain import all_reduce, cut, domain_parallel, exchange_halos, num_graphs, partition, scatter, with_ghosts
from meshop.metrics import pearson, r2, relative_h1, relative_l2, rmse
from meshop.models import (
    CANO,
    FNO,
    LaMO,
    LinearNO,
    Physolver,
    Specsolver,
    Stack,
    Transolver,
    TransolverPlusPlus,
    TransolverSigma,
)
from meshop.nn import (
    Block,
    ClusterAttention,
    ConditionalPositionEncoding,
    Deformation,
    DepthwiseGraphConv,
    EideticAttention,
    FactorizedSpectralConv,
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
    SliceResidualAttention,
    SpectralConv,
    SwiGLU,
    UnifiedPosition,
    call,
)
from meshop.testing import random_graph
from meshop.transforms import KNNGraph

C = 16
SIGMA: dict[str, Any] = {"heads": 2, "num_slices": C, "modes": (3, 3), "size": (6, 5)}
deep = partial(LatentSSM, C, heads=2, num_slices=C)

torch.manual_seed(0)  # every process makes the same weights
CASES: dict[str, nn.Module] = {
    "Block": Block(PhysicsAttention(C, 2, C), C),
    "Block-GATv2Conv": Block(GATv2Conv(C, C // 2, heads=2), C),
    "Block-GCNConv": Block(GCNConv(C, C), C),
    "ClusterAttention": ClusterAttention(C, 2, C),
    "ClusterAttention-sum": ClusterAttention(C, 2, C, aggr="sum"),
    "ConditionalPositionEncoding": ConditionalPositionEncoding(DepthwiseGraphConv(C, 2)),
    "DepthwiseGraphConv": DepthwiseGraphConv(C, 2),
    "EideticAttention": EideticAttention(C, 2, C),
    "GridResample": GridResample(FactorizedSpectralConv(C, C, (3, 3)), (6, 5)),
    "GridResample-attention": GridResample(ClusterAttention(C, 2, C, "sum", grid_dim=2), (6, 5)),
    "GridResample-free": GridResample(SpectralConv(C, C, (3, 3))),
    "GridResample-learned": GridResample(
        GridConv(C, C, 2), (6, 5), RadiusKernel(2, C), RadiusKernel(2), Deformation(2), margin=0.1
    ),
    "GridSpectralConv": GridSpectralConv(C, 3, (3, 3), (6, 5)),
    "LatentSSM": deep(core=Hydra(C, 4)),
    "LatentSSM-geometric": deep(core=Hydra(C, 4), geometric_order=True),
    "Lift": Lift(C, 8, position=UnifiedPosition(2, ref=3)),
    "LinearAttentionNO": LinearAttentionNO(C, 2, C),
    "Parallel": Parallel([PhysicsAttention(8, 2, C), SwiGLU(8)]),
    "PhysicsAttention": PhysicsAttention(C, 2, C),
    "Residual": Residual(PhysicsAttention(C, 2, C), C),
    "SliceResidualAttention": SliceResidualAttention(C, 2, C, DepthwiseGraphConv(C, 2), DepthwiseGraphConv(C, 2)),
    "UnifiedPosition": UnifiedPosition(2, ref=4),
    "CANO": CANO(C, C, 2, 3, heads=2, num_clusters=C),
    "FNO": FNO(C, C, 2, 3, (3, 3), (6, 5)),
    "LaMO": LaMO(C, C, 2, 3, mixer=deep(core=Hydra(C, 4))),
    "LinearNO": LinearNO(C, C, 2, 3, heads=2, num_slices=C),
    "Physolver": Physolver(C, C, 2, 3, heads=2, num_slices=C),
    "Specsolver": Specsolver(C, C, 2, 3, (3, 3), size=(6, 5)),
    "Stack": Stack(
        C, C, 3, [Block(ClusterAttention(C, 2, C), C), Block(SAGEConv(C, C), C), Block(PhysicsAttention(C, 2, C), C)]
    ),
    "Transolver": Transolver(C, C, 2, 3, heads=2, num_slices=C),
    "TransolverPlusPlus": TransolverPlusPlus(C, C, 2, 3, heads=2, num_slices=C),
    "TransolverSigma": TransolverSigma(C, C, 2, 3, **SIGMA),
    "PyG-GAT": GAT(C, C, 2, 3),
    "PyG-GCN": GCN(C, C, 3, 3),
    "PyG-GIN": GIN(C, C, 2, 3),
    "PyG-GraphSAGE": GraphSAGE(C, C, 3, 3),
    "PyG-PNA": PNA(C, C, 2, 3, aggregators=["mean", "max", "std"], scalers=["identity"], deg=torch.tensor([0, 0, 9])),
}

# what keeps nodes apart, and what sees tokens or whole grids alone
APART = {
    "Deformation",
    "FeedForward",
    "Normalizer",
    "RadiusKernel",
    "ReZero",
    "SwiGLU",
    "TimestepEmbedding",
    "call",
    "checkpoint_activations",
}
INSIDE = {
    "SS2D",
    "BiMamba2",
    "FactorizedSpectralConv",
    "GridConv",
    "Hydra",
    "LaMOGrid",
    "SliceAttention",
    "SpectralConv",
}


def test_every_layer_and_model_is_here() -> None:
    assert {*meshop.nn.__all__, *meshop.models.__all__} - APART - INSIDE == {
        name.split("-")[0] for name in CASES if not name.startswith("PyG")
    }


def ragged(dtype: torch.dtype) -> Batch:
    """Graphs of 90, 1, 0, 7 and 300 nodes; some processes have none of the small ones."""
    graphs = [random_graph(n, seed=n) for n in (90, 1, 0, 7, 300)]
    graphs = [KNNGraph(4)(graph) if graph.num_nodes > 4 else graph for graph in graphs]
    graphs[0].pos[10:20] = graphs[0].pos[:10]  # nodes at one place
    return Batch.from_data_list(graphs).apply(lambda v: v.to(dtype) if v.is_floating_point() else v)


@pytest.mark.parametrize("ranks", [1, 2, 5, 40])
def test_parts_are_the_mesh(ranks: int) -> None:
    mesh = KNNGraph(5)(random_graph(200, seed=0))
    mesh.pos[50:60] = mesh.pos[:10]
    mesh.weight = torch.arange(mesh.edge_index.size(1))
    mesh.owner = partition(mesh, ranks)
    assert mesh.owner[50:60].equal(mesh.owner[:10])
    assert mesh.owner.bincount(minlength=ranks).tolist() == pytest.approx([200 / ranks] * ranks, abs=12)
    parts = [cut(mesh, rank, ranks) for rank in range(ranks)]
    own = [(mesh.owner == rank).nonzero()[:, 0] for rank in range(ranks)]
    assert torch.equal(torch.cat([p.x for p in parts]), mesh.x[torch.cat(own)])
    full = []  # which node each place of a part holds, as the processes would tell each other
    for rank, part in enumerate(parts):
        pieces = [own[rank]]
        for other in range(ranks):
            start = sum(parts[other].halo.send_sizes[:rank])
            sent = parts[other].halo.send[start : start + parts[other].halo.send_sizes[rank]]
            assert len(sent) == part.halo.ghost_sizes[other]
            pieces.append(own[other][sent])
        full.append(torch.cat(pieces))
    into_own = [full[r][p.edge_index[:, p.edge_index[1] < len(own[r])]] for r, p in enumerate(parts)]
    edges = {tuple(edge) for edge in mesh.edge_index.T.tolist()}
    assert sorted(map(tuple, torch.cat(into_own, 1).T.tolist())) == sorted(edges)  # each once
    for r, part in enumerate(parts):
        assert torch.equal(full[r][part.edge_index], mesh.edge_index[:, part.weight])
        degree = torch.bincount(part.edge_index[1], minlength=len(full[r]))
        neighbours = part.edge_index[0][part.edge_index[1] < len(own[r])].unique()
        assert torch.equal(degree[neighbours], torch.bincount(mesh.edge_index[1])[full[r]][neighbours])


def test_metis_cuts_the_graph_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_geometric.loader import ClusterData

    mesh = KNNGraph(5)(random_graph(60, seed=0))
    halves = (torch.arange(60) % 2).long()
    monkeypatch.setattr(ClusterData, "_metis", lambda self, edge_index, num_nodes: halves)
    assert torch.equal(partition(mesh, 2), halves)


def test_a_batch_of_as_many_graphs_as_nodes_keeps_its_rows_a_graph() -> None:
    batch = Batch.from_data_list([random_graph(1, seed=i) for i in range(4)])
    part = cut(batch, rank=0, ranks=2)
    assert part.num_graphs == 4
    assert part.time.shape == (4,)
    assert part.x.size(0) == 2


def test_what_cannot_be_cut_says_so() -> None:
    grid = random_graph(6, seed=0)
    grid.shape = (2, 3)
    with pytest.raises(InputError, match="grid are not cut"):
        cut(grid, 0, 2)
    for layer in (LayerNorm(4), nn.BatchNorm1d(4)):
        with pytest.raises(InputError, match=f"{type(layer).__name__} looks at all nodes"):
            exchange_halos(nn.Sequential(nn.Linear(4, 4), layer))
    exchange_halos(LayerNorm(4, mode="node"))


def test_without_other_processes_everything_is_the_identity() -> None:
    x, index = torch.ones(3), torch.tensor([0, 0, 1])
    assert all_reduce(x, "sum") is x
    assert with_ghosts(x) is x
    assert num_graphs(index) == 2
    assert scatter(x, index).tolist() == [2, 1]


# ---------------------------------------------------------------------------------------------------------------------
# with other processes


def shaken(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    module = copy.deepcopy(module).eval().to(dtype)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=generator))
    return module


def gap(found: Tensor | None, expected: Tensor | None) -> float:
    if expected is None or expected.numel() == 0:
        return 0.0 if found is None or found.numel() == 0 else torch.inf
    assert found is not None
    return float((found - expected).abs().max() / expected.abs().max().clamp_min(1e-8))


def wave(pos: Tensor) -> Tensor:
    return (5 * pos.detach()).sin().sum(1, keepdim=True)  # [N, 1]


def whole_and_part(module: nn.Module, batch: Batch, rank: int, ranks: int) -> dict[str, float]:
    """How far the part's output and gradients are from those of one process, which this one is as well."""
    results = []
    for shared in (False, True):
        layer = copy.deepcopy(module)
        data = batch.clone()
        data.owner = partition(data, ranks)
        owner = data.owner
        if shared:
            exchange_halos(layer)
            data = cut(data, rank, ranks)
        data.x.requires_grad_()
        data.pos.requires_grad_()
        with domain_parallel(torch.distributed.group.WORLD if shared else None, data.get("halo")):
            out = call(layer, data)
            loss = relative_l2(out, wave(data.pos).expand_as(out), data.batch, data.measure, data.num_graphs).mean()
        loss.backward()
        grads = {name: p.grad for name, p in layer.named_parameters()}
        if shared:  # the mean over the processes, as of DDP
            for grad in grads.values():
                if grad is not None:
                    torch.distributed.all_reduce(grad)
                    grad /= ranks
        inputs = {"x": data.x.grad, "pos": data.pos.grad}  # of all the copies of the loss together
        results.append((out.detach(), loss.detach(), inputs, grads, owner))
    (out, loss, inputs, grads, owner), (out_, loss_, inputs_, grads_, _) = results
    mine = owner == rank
    gaps = {"output": gap(out_, out[mine]), "loss": gap(loss_, loss)}
    scale = {k: g.abs().max() for k, g in inputs.items() if g is not None}
    for key, grad in inputs.items():
        if grad is not None and grad[mine].numel() and scale[key] > 0:
            found = inputs_[key] if inputs_[key] is not None else torch.zeros_like(grad[mine])
            gaps[f"gradient of {key}"] = float((found / ranks - grad[mine]).abs().max() / scale[key])
    largest = max((float(g.abs().max()) for g in grads.values() if g is not None), default=1.0)
    for name, grad in grads.items():
        if grad is not None:
            gaps[f"gradient of {name}"] = float((grads_[name] - grad).abs().max()) / largest
    return gaps


def metrics_gap(batch: Batch, rank: int, ranks: int) -> dict[str, float]:
    part = cut(batch, rank, ranks)
    found = {}
    for metric in (relative_l2, rmse, pearson, r2):
        for keep in ((), 1):
            expected = metric(batch.x, batch.x.cos(), batch.batch, batch.measure, keep=keep)
            with domain_parallel(torch.distributed.group.WORLD):
                value = metric(part.x, part.x.cos(), part.batch, part.measure, keep=keep)
            found[f"{metric.__name__} {keep}"] = gap(value.nan_to_num(neginf=-9), expected.nan_to_num(neginf=-9))
    slopes = []
    for data, group in ((batch, None), (part, torch.distributed.group.WORLD)):
        x = data.x.detach().requires_grad_()
        with domain_parallel(group, data.get("halo")):
            slope = relative_h1(x, wave(data.pos).expand_as(x), data.pos, data.edge_index, data.batch, data.num_graphs)
        slope.sum().backward()
        slopes.append((slope.detach(), x.grad))
    mine = partition(batch, ranks) == rank
    found |= {"h1": gap(slopes[1][0], slopes[0][0]), "h1 grad": gap(slopes[1][1] / ranks, slopes[0][1][mine])}
    whole, shared = Normalizer(C), Normalizer(C)
    whole.fit(batch.x, batch.measure)
    with domain_parallel(torch.distributed.group.WORLD):
        shared.fit(part.x, part.measure)
    return found | {"mean": gap(shared.mean, whole.mean), "std": gap(shared.std, whole.std)}


def work(rank: int, ranks: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    found: dict[tuple[str, str], Any] = {}
    for dtype in (torch.float64, torch.float32):
        batch = ragged(dtype)
        for name, module in CASES.items():
            found[name, str(dtype)] = whole_and_part(shaken(module, dtype), batch, rank, ranks)
        found["metrics", str(dtype)] = metrics_gap(batch, rank, ranks)
    torch.save(found, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module", params=[2, 3])
def gaps(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[Any, Any]]:
    """What each process of a few found, by case and type."""
    folder: Path = tmp_path_factory.mktemp("domain")
    mp.spawn(work, (request.param, str(folder)), nprocs=request.param)
    return [torch.load(folder / f"{rank}.pt") for rank in range(request.param)]


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("name", [*CASES, "metrics"])
def test_parts_give_what_the_whole_gives(
    name: str, dtype: torch.dtype, tolerance: float, gaps: list[dict[Any, Any]]
) -> None:
    for rank, found in enumerate(gaps):
        # positions enter float32 through kinks, and lose more than a digit
        allowed = {"gradient of pos": 20 * tolerance}
        wrong = {k: v for k, v in found[name, str(dtype)].items() if not v <= allowed.get(k, tolerance)}
        assert not wrong, f"process {rank}"


def test_long_sums_are_precise() -> None:
    """One number after another in float32 would be off by a per cent."""
    x = torch.full((1_000_000,), 0.1)
    for index in (torch.zeros(1_000_000, dtype=torch.long), torch.arange(1_000_000) % 2):
        total = scatter(x, index, dim_size=int(index.max()) + 1)
        torch.testing.assert_close(total.sum(), torch.tensor(100_000.0), rtol=1e-6, atol=0)
        assert total.dtype == torch.float32
