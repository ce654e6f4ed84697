"""Modules described by their constructor arguments, and checkpoints that cannot execute anything."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import GraphSAGE, SAGEConv
from torch_geometric.transforms import Compose

from meshop.checkpoint import build, describe, read_checkpoint, rebuildable
from meshop.data import InputError
from meshop.models import CANO
from meshop.transforms import CellsToEdges, KNNGraph, NodeMeasure


@pytest.mark.parametrize(
    "module",
    [
        CANO(3, 16, 2, 1, heads=4, num_clusters=5),
        nn.Linear(3, 4, bias=False),
        nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1)),
        SAGEConv(3, 5),
    ],
    ids=lambda m: type(m).__name__,
)
def test_description_builds_the_same_architecture(module: nn.Module) -> None:
    description = rebuildable(module)
    assert description is not None
    copy = build(description)
    assert repr(copy) == repr(module)
    copy.load_state_dict(module.state_dict())  # strict: same names and shapes


def test_transforms_come_back_with_their_options() -> None:
    copy = build(describe(Compose([CellsToEdges(), KNNGraph(5), NodeMeasure()])))
    assert [type(t) for t in copy.transforms] == [CellsToEdges, KNNGraph, NodeMeasure]
    assert copy.transforms[1].k == 5


class Forgetful(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)


class Twisted(nn.Module):
    """Keeps another value under the argument's name: a copy built from it would differ."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = 2 * width
        self.layer = nn.Linear(width, width)


def test_a_module_that_would_come_back_different_is_not_described() -> None:
    with pytest.raises(InputError, match="Forgetful does not keep its argument 'width'"):
        describe(Forgetful(3))
    assert rebuildable(Forgetful(3)) is None
    assert rebuildable(Twisted(3)) is None
    assert rebuildable(GraphSAGE(3, 8, 2, 1)) is None or build(rebuildable(GraphSAGE(3, 8, 2, 1)))


def test_arguments_must_be_plain() -> None:
    layer = SAGEConv(3, 5)
    layer.in_channels = object()  # type: ignore[assignment]
    with pytest.raises(InputError, match=r"plain value or a module as SAGEConv\.in_channels"):
        describe(layer)


@pytest.mark.parametrize("name", ["os.system", "subprocess.Popen", "no.such.Thing", "torch.load", "meshop.MeshData"])
def test_only_modules_and_transforms_are_built(name: str) -> None:
    with pytest.raises(InputError, match="needs the class"):
        build({"class": name, "args": {}})


def test_arguments_that_the_class_refuses() -> None:
    with pytest.raises(InputError, match="cannot be built"):
        build({"class": "torch.nn.modules.linear.Linear", "args": {"wide": 3}})


def test_files_that_are_no_checkpoint(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="does not exist"):
        read_checkpoint(tmp_path / "none.ckpt")
    (tmp_path / "empty.ckpt").write_bytes(b"")
    with pytest.raises(InputError, match="not a meshop checkpoint, or is damaged"):
        read_checkpoint(tmp_path / "empty.ckpt")
    torch.save({"state_dict": {}}, tmp_path / "other.ckpt")
    with pytest.raises(InputError, match="no meshop checkpoint"):
        read_checkpoint(tmp_path / "other.ckpt")


class Payload:
    def __reduce__(self):  # type: ignore[no-untyped-def]
        return exec, ("raise SystemExit('executed')",)


def test_an_untrusted_pickle_is_not_executed(tmp_path) -> None:  # type: ignore[no-untyped-def]
    torch.save({"meshop": Payload()}, tmp_path / "evil.ckpt")
    with pytest.raises(InputError, match="not a meshop checkpoint"):
        read_checkpoint(tmp_path / "evil.ckpt")
