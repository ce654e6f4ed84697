import pytest
import torch
from conftest import strip
from torch import nn
from torch.nn.functional import gelu
from torch_geometric.data import Batch, Data
from torch_geometric.nn import SAGEConv, Sequential

from meshop import InputError
from meshop.data import FieldSpec
from meshop.models import CANO, FNO, LaMO, LinearNO, Transolver, TransolverPlusPlus, TransolverSigma
from meshop.nn import (
    Block,
    ClusterAttention,
    EideticAttention,
    Hydra,
    LatentSSM,
    LinearAttentionNO,
    PhysicsAttention,
    ReZero,
    SliceAttention,
    SliceResidualAttention,
)
from meshop.probe import assignments, layer_similarity, slice_attention
from meshop.train import Surrogate
from meshop.transforms import CellsToEdges

C, H, M, N = 16, 4, 8, 300  # more nodes than a tile holds

LAYERS = {
    "cluster": lambda: ClusterAttention(C, H, M),
    "cluster sum": lambda: ClusterAttention(C, H, M, aggr="sum"),
    "physics": lambda: PhysicsAttention(C, H, M),
    "residual": lambda: SliceResidualAttention(C, H, M),
    "eidetic": lambda: EideticAttention(C, H, M, gumbel="off"),
    "linear": lambda: LinearAttentionNO(C, H, M),
    "latent": lambda: LatentSSM(C, H, M, Hydra(C, state_channels=4)),
}


def formula(layer, x):
    """The assignment [N, H, M] as the docstring of the layer has it."""

    def heads(lin):
        return lin(x).unflatten(-1, (H, C // H))

    if isinstance(layer, ClusterAttention):
        q = layer.lin_qkv(x)[:, :C].unflatten(-1, (H, C // H))
        return torch.einsum("nhd,hdm->nhm", q, layer.cluster).softmax(-1)
    if isinstance(layer, EideticAttention):
        z = heads(layer.lin_x)
        tau = (layer.bias[:, None] + gelu(layer.temperature(z))).clamp_min(0.01)
        return (layer.lin_slice(z) / tau).softmax(-1)
    if isinstance(layer, LinearAttentionNO):
        return (layer.lin_q(heads(layer.lin_x)) / layer.temperature[0].clamp(0.1, 5)[:, None]).softmax(-1)
    slices = layer.slices
    return (slices.lin_slice(heads(slices.lin_x)) / slices.temperature.clamp(0.1, 5)[:, None]).softmax(-1)


def graphs(batch=None):
    x = torch.randn(N, C)
    return Data(x=x) if batch is None else Batch(x=x, batch=batch)


@pytest.mark.parametrize("batch", [None, torch.randint(0, 3, (N,)), torch.zeros(N, dtype=torch.long)])
@pytest.mark.parametrize("name", LAYERS)
def test_assignments_are_those_of_the_formula(name, batch):
    layer, data = LAYERS[name](), graphs(batch)
    for p in layer.parameters():
        p.data += 0.3 * torch.randn_like(p)
    [weight] = assignments(layer, data)
    with torch.no_grad():
        expected = formula(layer, data.x)
    assert weight.shape == (N, H, M)
    assert torch.allclose(weight, expected, atol=1e-6)
    assert weight.std() > 0.02


@pytest.mark.parametrize(
    ("model", "attentions"),
    [
        (CANO(3, C, 3, 1, heads=H, num_clusters=M), 0),
        (Transolver(3, C, 3, 1, heads=H, num_slices=M), 3),
        (Transolver(3, C, 3, 1, heads=H, num_slices=M, update=ReZero(SliceAttention(C // H))), 3),
        (TransolverPlusPlus(3, C, 3, 1, heads=H, num_slices=M), 3),
        (LinearNO(3, C, 3, 1, heads=H, num_slices=M), 0),
        (LaMO(3, C, 3, 1, shared=True, mixer=LatentSSM(C, H, M, Hydra(C, state_channels=4))), 0),
        (LaMO(3, C, 3, 1, shared=False, mixer=LatentSSM(C, H, M, Hydra(C, state_channels=4))), 0),
    ],
)
def test_models_show_a_tensor_a_layer(model, attentions):
    data = Batch.from_data_list([Data(x=torch.randn(n, 3)) for n in (7, 150)])
    weights = assignments(model, data)
    assert [w.shape for w in weights] == [(157, H, M)] * 3
    assert not torch.allclose(weights[0], weights[1])
    alone = assignments(model, data[1])
    assert all(torch.allclose(w[7:], a, atol=1e-5) for w, a in zip(weights, alone, strict=True))
    matrices = slice_attention(model, data)
    assert [m.shape for m in matrices] == [(2, H, M, M)] * attentions
    assert not any(w.requires_grad or w.is_inference() for w in (*weights, *matrices))


def test_slice_attention_is_the_softmax_of_the_tokens():
    layer = PhysicsAttention(C, H, M).double()
    data = graphs(torch.randint(0, 2, (N,)))
    data.x = 5 * data.x.double()
    [weight], [matrix] = assignments(layer, data), slice_attention(layer, data)
    f = layer.slices.lin_f(data.x).unflatten(-1, (H, C // H))
    for graph in range(2):
        w = weight[data.batch == graph]
        token = torch.einsum("nhm,nhd->hmd", w, f[data.batch == graph]) / (w.sum(0) + 1e-5)[..., None]
        q, k, v = layer.update.lin_qkv(token).chunk(3, -1)
        assert torch.allclose(matrix[graph], (q @ k.mT / (C // H) ** 0.5).softmax(-1), atol=1e-12)
        assert torch.allclose(matrix[graph] @ v, layer.update(token), atol=1e-12)


def test_layers_of_a_stack_of_ones_own_in_the_order_in_which_they_run():
    model = Sequential(
        "x, edge_index, batch",
        [
            (Block(ClusterAttention(C, H, 5), C), "x, batch=batch -> x"),
            (SAGEConv(C, C), "x, edge_index -> x"),
            (PhysicsAttention(C, 2, 3), "x, batch -> x"),
        ],
    )
    data = graphs(torch.randint(0, 2, (N,)))
    data.edge_index = torch.randint(0, N, (2, 900))
    assert [w.shape for w in assignments(model, data)] == [(N, H, 5), (N, 2, 3)]
    assert [m.shape for m in slice_attention(model, data)] == [(2, 2, 3, 3)]
    assert assignments(SAGEConv(C, C), data) == slice_attention(SAGEConv(C, C), data) == []


def test_a_surrogate_normalises_its_inputs():
    mesh = CellsToEdges()(strip(4, 5))
    spec = FieldSpec.resolve(mesh, ["p:point"], ["load:point"])
    mesh = spec.pack(mesh)
    surrogate = Surrogate(TransolverSigma(3, C, 2, 1, heads=2, num_slices=M, modes=(2, 2)), spec)
    surrogate.x_norm.fit(mesh.x)
    seen, given = assignments(surrogate, mesh), mesh.__copy__()
    given.x = surrogate.x_norm(mesh.x)
    for ours, theirs in zip(seen, assignments(surrogate.model, given), strict=True):
        assert torch.equal(ours, theirs)
    assert [m.shape for m in slice_attention(surrogate, mesh)] == [(1, 2, M, M)] * 2
    assert layer_similarity(surrogate, mesh).shape == (6, 6)  # three blocks a layer


class Fails(nn.Module):
    def forward(self, x):
        raise RuntimeError("on purpose")


def test_the_model_is_left_as_it_was():
    model = nn.Sequential(ClusterAttention(C, H, M, dropout=0.5), nn.Dropout(0.5), Fails())
    model[1].eval()

    def state():
        return [(m.training, len(m._forward_hooks)) for m in model.modules()]

    before = state()
    with pytest.raises(RuntimeError, match="on purpose"):
        assignments(model, graphs())
    assert state() == before
    model[2] = nn.Identity()
    before = state()
    first = assignments(model, graphs())
    assert state() == before
    assert {training for training, _ in before} == {True, False}
    with torch.inference_mode():
        assert len(assignments(model, graphs())) == len(first) == 1


def test_a_compiled_model_is_seen_too():
    model, data = CANO(C, C, 2, 1, heads=H, num_clusters=M), graphs()
    for seen, plain in zip(
        assignments(torch.compile(model, backend="eager"), data), assignments(model, data), strict=True
    ):
        assert torch.equal(seen, plain)


# similarity of layers ------------------------------------------------------------------------------------------------


class Shift(nn.Module):
    def __init__(self, factor, shift):
        super().__init__()
        self.factor, self.shift = factor, nn.Buffer(torch.tensor(shift))

    def forward(self, x):
        return self.factor * x + self.shift


def test_similarity_is_the_mean_cosine():
    model = nn.Sequential(
        Shift(3.0, [0.0, 0.0]), Shift(1.0, [0.0, 0.0]), Shift(-2.0, [0.0, 0.0]), Shift(0.0, [1.0, 0.0])
    )
    similarity = layer_similarity(model, Data(x=torch.tensor([[3.0, 4.0], [0.0, 2.0]])), model)
    expected = [[1, 1, -1, 0.3], [1, 1, -1, 0.3], [-1, -1, 1, -0.3], [0.3, 0.3, -0.3, 1]]
    assert torch.allclose(similarity, torch.tensor(expected), atol=1e-6)


def test_similarity_of_models():
    data = graphs(torch.randint(0, 3, (N,)))
    data.pos = torch.rand(N, 2)
    model = CANO(C, C, 4, 1, heads=H, num_clusters=M)
    similarity = layer_similarity(model, data)
    assert torch.allclose(similarity.diag(), torch.ones(4))
    assert torch.allclose(similarity, similarity.T, atol=1e-6)
    assert similarity[0, 1] > similarity[0, 3]
    fno = FNO(C, C, 3, 1, modes=(2, 2), size=(8, 8))
    assert layer_similarity(fno, data, fno.layers).shape == (3, 3)
    with pytest.raises(InputError, match=r"in a list called blocks to compare \(got a FNO without\); pass .* blocks="):
        layer_similarity(fno, data)
    with pytest.raises(InputError, match=r"one shape to compare \(got \[300, 16\], \[300, 1\]\)"):
        layer_similarity(model, data, [model.blocks[0], model.head])
