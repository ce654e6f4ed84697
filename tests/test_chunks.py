"""A model called on chunks of the nodes says what it says of all at once, and never holds more than their features."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Batch, Data

from meshop import InputError
from meshop.chunks import call_in_chunks, can_be_cut
from meshop.models import CANO, LaMO, LinearNO, Stack, Transolver, TransolverPlusPlus
from meshop.nn import Block, EideticAttention, LatentSSM, PhysicsAttention, call, shares

MODELS = {
    "Transolver": Transolver(3, 16, 3, 2, 4, 8),
    "CANO": CANO(3, 16, 2, 2, 4, 8),
    "CANO-sum": CANO(3, 16, 2, 2, 4, 8, aggr="sum"),
    "TransolverPlusPlus": TransolverPlusPlus(3, 16, 2, 2, 4, 8),
    "LinearNO": LinearNO(3, 16, 2, 2, 4, 8),
    "LaMO": LaMO(3, 16, 2, 2, 4, 8),
    "Stack": Stack(3, 16, 2, [Block(PhysicsAttention(16, 4, 8), 16), Block(LatentSSM(16, 4, 8), 16)]),
    "layer": PhysicsAttention(3, 1, 4),
    "node by node": nn.Linear(3, 2),
}


def mesh(count: int, measured: bool) -> Data:
    data = Data(x=torch.rand(count, 3).double(), pos=torch.rand(count, 3).double())
    return Data(**data.to_dict(), measure=torch.rand(count).double()) if measured else data


@pytest.mark.parametrize("measured", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_chunks_say_what_the_whole_says(name: str, measured: bool) -> None:
    torch.manual_seed(0)
    model = MODELS[name].double().eval()
    for data in (mesh(101, measured), Batch.from_data_list([mesh(count, measured) for count in (5, 90, 1, 33)])):
        with torch.no_grad():
            whole = call(model, data)
        for size in (10, 64, 1000):
            torch.testing.assert_close(call_in_chunks(model, data, size), whole, rtol=1e-9, atol=1e-11)
    assert not any("forward" in vars(module) for module in model.modules())  # they are what they were


class Largest(TorchDispatchMode):
    """The most numbers of a tensor that is made."""

    numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, torch.Tensor):
                self.numel = max(self.numel, tensor.untyped_storage().nbytes() // tensor.element_size())
        return out


def test_no_tensor_is_larger_than_the_features_of_the_nodes() -> None:
    model, data = CANO(3, 16, 2, 1, 4, 32), Data(x=torch.rand(20_000, 3))
    with Largest() as largest:
        call_in_chunks(model.eval(), data, size=500)
    assert largest.numel == 20_000 * 16


@pytest.mark.parametrize("model", ["Transolver", "CANO", "LinearNO"])
def test_sums_that_are_known_are_not_computed_again(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block pools once over every chunk and hands back once; attention takes two turns, a maximum and a sum."""
    calls = dict.fromkeys(("_Pool", "_Attend", "_Unpool"), 0)

    def counted(name: str, forward: Any) -> Any:
        def count(*args: Any) -> Any:
            calls[name] += 1
            return forward(*args)

        return staticmethod(count)

    for name in calls:
        function = getattr(shares, name)
        monkeypatch.setattr(function, "forward", counted(name, function.forward))
    net = MODELS[model].double().eval()
    call_in_chunks(net, mesh(40, measured=True), size=10)
    each = 4 * len(net.blocks)
    pools, attends = {"Transolver": (1, 0), "CANO": (1, 2), "LinearNO": (0, 2)}[model]
    assert calls == {"_Pool": pools * each, "_Attend": attends * each, "_Unpool": each}


def test_what_is_not_cut() -> None:
    from torch_geometric.nn import GCN

    with pytest.raises(InputError, match="GCN needs edges, a grid or all nodes at once"):
        call_in_chunks(GCN(3, 8, 2), Data(x=torch.rand(4, 3), edge_index=torch.tensor([[0], [1]])))
    grid = Data(x=torch.rand(6, 3), shape=(2, 3))
    with pytest.raises(InputError, match="CANO needs edges, a grid"):
        call_in_chunks(CANO(3, 8, 1, 1, 2, 4, grid_dim=2), grid)
    for mixer in (nn.TransformerEncoderLayer(8, 2), nn.BatchNorm1d(8), EideticAttention(8, 2, 4, gumbel="always")):
        with pytest.raises(InputError, match="Stack needs edges, a grid or all nodes"):
            call_in_chunks(Stack(3, 8, 1, [mixer]), Data(x=torch.rand(4, 3)))


class Own(nn.Linear):
    """A layer of whose mixing nothing is known."""


def test_layers_of_ones_own_are_not_cut_unasked() -> None:
    model, data = Stack(3, 8, 1, [Own(8, 8)]).eval(), Data(x=torch.rand(9, 3), time=torch.tensor(0.5))
    assert can_be_cut(model, data)
    assert not can_be_cut(model, data, known=True)
    assert all(can_be_cut(MODELS[name], data, known=True) for name in MODELS)
    with torch.no_grad():
        torch.testing.assert_close(call_in_chunks(model, data, 4), call(model, data))


def test_a_mesh_without_nodes() -> None:
    model = CANO(3, 16, 2, 2, 4, 8).eval()
    assert call_in_chunks(model, Data(x=torch.rand(0, 3)), 4).shape == (0, 2)
