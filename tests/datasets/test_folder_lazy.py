"""A directory larger than memory: items as in memory, a file a case, one mesh at a time, stale caches, workers."""

import gc
import os
import pickle
import weakref
from pathlib import Path

import pytest
import torch
from conftest import strip
from torch.utils.data import get_worker_info
from torch_geometric.io import fs
from torch_geometric.loader import DataLoader

from meshop.data import InputError
from meshop.datasets import Folder, folder, statistics
from meshop.datasets.dataset import Shelf
from meshop.io import write_mesh
from meshop.train import Surrogate
from meshop.transforms import CellsToEdges


@pytest.fixture
def runs(tmp_path):
    """Ten strips of quads."""
    for i in range(10):
        write_mesh(tmp_path / f"run_{i}.vtu", strip(2 + i % 3, 4, seed=i))
    return tmp_path


def cached(runs):
    return sorted(path.name for path in (runs / "processed").iterdir())


@pytest.mark.parametrize("target", ["p", "q:cell"])
def test_items_are_those_of_a_directory_in_memory(runs, target):
    lazy, whole = Folder(runs, target, lazy=True), Folder(runs, target)
    assert len(lazy) == len(whole) == 10
    assert (lazy.spec, lazy.splits, lazy.names) == (whole.spec, whole.splits, whole.names)
    for a, b in zip(lazy, whole, strict=True):
        assert set(a.keys()) == set(b.keys())
        for key, value in b.items():
            assert torch.equal(a[key], value) if isinstance(value, torch.Tensor) else a[key] == value
    assert [mesh.name for mesh in lazy.split("test")] == [whole.names[i] for i in whole.splits["test"]]
    assert lazy.pre_transform is not None


def test_statistics_and_normalisation_are_the_same(runs):
    lazy, whole = Folder(runs, "p", lazy=True), Folder(runs, "p")
    assert statistics(lazy) == statistics(whole)
    surrogates = [Surrogate(torch.nn.Linear(2, 1), data.spec) for data in (lazy, whole)]
    for surrogate, data in zip(surrogates, (lazy, whole), strict=True):
        surrogate.fit_normalizers(data.split("train"))
    assert torch.equal(surrogates[0].x_norm.mean, surrogates[1].x_norm.mean)
    assert torch.equal(surrogates[0].y_norm.std, surrogates[1].y_norm.std)


def test_never_more_than_two_meshes_are_in_memory(runs, monkeypatch):
    made, most = [], []
    read, load = folder.read_mesh, Shelf.__getitem__

    def counted(function):
        def call(*args):
            gc.collect()
            most.append(sum(ref() is not None for ref in made))
            mesh = function(*args)
            made.append(weakref.ref(mesh))
            return mesh

        return call

    monkeypatch.setattr(folder, "read_mesh", counted(read))
    monkeypatch.setattr(Shelf, "__getitem__", counted(load))
    data = Folder(runs, "p", lazy=True)
    assert len(most) >= 20
    for _ in data:
        pass
    assert max(most) <= 1


def test_a_case_is_a_file_and_is_not_read_again(runs, monkeypatch):
    Folder(runs, "p", lazy=True)
    [directory, index] = cached(runs)
    assert index == f"{directory}.pt"
    assert len(list((runs / "processed" / directory).iterdir())) == 10
    monkeypatch.setattr(folder, "read_mesh", None)
    assert Folder(runs, "p", lazy=True)[3].num_nodes == 15


def test_another_file_option_or_graph_is_another_cache(runs):
    first = Folder(runs, "p", lazy=True)[0].edge_index.size(1)
    before = cached(runs)
    write_mesh(runs / "run_0.vtu", strip(6, 6))
    assert Folder(runs, "p", lazy=True)[0].num_nodes == 49
    assert len(cached(runs)) == 2  # the stale one is gone, with its directory
    assert not set(before) & set(cached(runs))
    write_mesh(runs / "run_0.vtu", strip(2, 4, seed=0))
    corners = Folder(runs, "p", lazy=True, pre_transform=CellsToEdges())
    assert "measure" not in corners[0]
    assert corners[0].edge_index.size(1) == first
    assert len(cached(runs)) == 4
    assert "measure" in Folder(runs, "p", lazy=True)[0]
    assert "measure" in Folder(runs, "p", lazy=True, force_reload=True)[0]


def test_an_interrupted_processing_leaves_nothing(runs, monkeypatch):
    calls = []

    def stop(data, path):
        calls.append(path)
        Path(path).write_bytes(b"half")
        if len(calls) == 14:  # ten as they were read, and some of those with their graphs
            raise KeyboardInterrupt
        save(data, path)

    save = fs.torch_save
    with monkeypatch.context() as patch:
        patch.setattr(fs, "torch_save", stop)
        with pytest.raises(KeyboardInterrupt):
            Folder(runs, "p", lazy=True)
    assert cached(runs) == []
    assert len(Folder(runs, "p", lazy=True)) == 10


def test_a_cache_without_its_directory_is_made_again(runs):
    Folder(runs, "p", lazy=True)
    directory, _ = cached(runs)
    for path in (runs / "processed" / directory).iterdir():
        path.unlink()
    (runs / "processed" / directory).rmdir()
    assert Folder(runs, "p", lazy=True)[0].num_nodes == 15


def test_a_full_disk_is_one_sentence(runs, monkeypatch):
    def full(data, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fs, "torch_save", full)
    with pytest.raises(InputError, match=r"^Cannot write '.*/processed/.*\.pt': No space left on device$"):
        Folder(runs, "p", lazy=True)
    assert cached(runs) == []


def test_an_item_that_is_changed_stays_out_of_the_data_set(runs):
    data = Folder(runs, "p", lazy=True)
    data[0].point_data["new"] = torch.zeros(15)
    data[0].x.zero_()
    assert "new" not in data[0].point_data
    assert float(data[0].x.abs().sum()) > 0


def probe(mesh):
    """Write down in the worker what could grow there: the pickled data set, and the data set's files left open."""
    info = get_worker_info()
    links = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_link(fd)]
    mesh.pickled = len(pickle.dumps(info.dataset))
    mesh.open = sum("processed" in link or link.endswith(".vtu") for link in links)
    mesh.worker = info.id
    return mesh


def _is_link(fd):
    return os.path.islink(f"/proc/self/fd/{fd}")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc")
def test_workers_keep_nothing_of_the_items_they_took(runs):
    data = Folder(runs, "p", lazy=True, transform=probe)
    before = len(pickle.dumps(data))
    epochs = []
    loader = DataLoader(data, batch_size=2, num_workers=2, persistent_workers=True)
    for _ in range(3):
        batches = list(loader)
        assert sorted(name for batch in batches for name in batch.name) == sorted(data.names)
        assert all(batch.x.device.type == "cpu" for batch in batches)
        sizes = {int(size) for batch in batches for size in batch.pickled}
        files = {int(count) for batch in batches for count in batch.open}
        assert {int(worker) for batch in batches for worker in batch.worker} == {0, 1}
        epochs.append((sizes, files))
    assert epochs == [({before}, {0})] * 3


def test_taking_items_leaves_a_data_set_as_it_was(runs):
    data = Folder(runs, "p", lazy=True)
    before = len(pickle.dumps(data))
    for _ in range(2):
        for _ in data:
            pass
    assert len(pickle.dumps(data)) == before < 10_000
