"""What all data sets share: items, splits and the cache."""

import inspect
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Dataset
from torch_geometric.io import fs
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import Compose

import meshop.datasets.dataset as module
from meshop.data import Field, FieldSpec, InputError, MeshData
from meshop.datasets import BENCHMARKS, Folder, MeshDataset, SeriesFolder, statistics
from meshop.geometry import nearest_neighbors
from meshop.transforms import CellsToEdges, KNNGraph, NodeMeasure


class Strips(MeshDataset):
    """Strips of 1, 2, 3, ... quads, as many as the number in the raw file says; y = x coordinate + h."""

    reads = 0

    def __init__(self, root, height=1.0, **kwargs):
        self.height = height
        super().__init__(root, **kwargs)

    @property
    def raw_file_names(self):
        return ["count.txt"]

    @property
    def options(self):
        return super().options | {"height": self.height}

    def download(self):
        Path(self.raw_paths[0]).write_text("4")

    def read(self):
        type(self).reads += 1
        meshes = []
        for n in range(1, int(Path(self.raw_paths[0]).read_text()) + 1):
            x = np.repeat(np.arange(n + 1.0), 2)
            points = np.stack([x, np.tile([0, self.height], n + 1)], 1)
            mesh = MeshData.from_cells(
                points, [9] * n, [[2 * i, 2 * i + 2, 2 * i + 3, 2 * i + 1] for i in range(n)],
                point_data={"t": x + self.height, "f": x > 0}, cell_data={"c": np.arange(n)},
                field_data={"label": np.array(["strip", "quads"])},
            )  # fmt: skip
            mesh.name, mesh.params = f"strip_{n}", torch.tensor([[float(n)]])
            meshes.append(mesh)
        spec = FieldSpec((Field("t", "point"),), (Field("f", "point"),), ("n",), dim=2)
        return meshes, spec, {"train": list(range(len(meshes) - 1)), "test": [len(meshes) - 1]}


@pytest.fixture(autouse=True)
def _forget():
    Strips.reads = 0


def test_items_are_packed_meshes_with_their_graph_and_all_that_the_file_held(tmp_path):
    strips = Strips(tmp_path)
    assert [mesh.name for mesh in strips] == ["strip_1", "strip_2", "strip_3", "strip_4"]
    mesh = strips[2]
    assert mesh.validate()
    assert mesh.x.tolist() == [[x, y, float(x > 0)] for x in range(4) for y in (0, 1)]
    assert mesh.y.tolist() == [[x + 1] for x in (0, 0, 1, 1, 2, 2, 3, 3)]
    assert mesh.params.tolist() == [[3]]
    assert mesh.edge_index.size(1) == 2 * 10
    assert mesh.measure.tolist() == [0.25, 0.25, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25]
    assert mesh.cell_index.view(-1, 4)[2].tolist() == [4, 6, 7, 5]
    assert mesh.cell_data["c"].tolist() == [0, 1, 2]
    assert mesh.field_data["label"].tolist() == ["strip", "quads"]
    assert all(value.device.type == "cpu" for value in mesh.to_dict().values() if isinstance(value, torch.Tensor))
    assert (strips.spec.in_channels, strips.spec.out_channels) == (4, 1)


def test_the_stock_loader_batches_items_and_gives_them_back(tmp_path):
    strips = Strips(tmp_path)
    [batch] = DataLoader(strips, batch_size=4, num_workers=1)
    assert batch.params.tolist() == [[1], [2], [3], [4]]
    for back, mesh in zip(batch.to_data_list(), strips, strict=True):
        assert back.keys() == mesh.keys()
        assert torch.equal(back.edge_index, mesh.edge_index)
        assert torch.equal(back.cell_index, mesh.cell_index)
        assert back.point_data == mesh.point_data


def test_two_workers_give_items_on_the_cpu_epoch_after_epoch(tmp_path):
    strips = Strips(tmp_path)
    loader = DataLoader(strips, batch_size=1, num_workers=2, persistent_workers=True)
    for _ in range(3):
        for batch, mesh in zip(loader, strips, strict=True):
            assert torch.equal(batch.x, mesh.x)
            assert all(value.device.type == "cpu" for _, value in batch if isinstance(value, torch.Tensor))


def test_splits_are_subsets_by_name(tmp_path):
    strips = Strips(tmp_path)
    assert [mesh.name for mesh in strips.split("train")] == ["strip_1", "strip_2", "strip_3"]
    assert [mesh.name for mesh in strips.split("train").split("test")] == ["strip_4"]
    with pytest.raises(InputError, match=r"one of the splits train, test \(got 'trian'\) \(did you mean 'train'\?\)"):
        strips.split("trian")


def test_pre_filter_comes_first_and_renumbers_the_splits(tmp_path):
    strips = Strips(tmp_path, pre_filter=lambda mesh: mesh.num_cells != 2 and "edge_index" not in mesh)
    assert strips.splits == {"train": [0, 1], "test": [2]}
    assert strips.split("test")[0].name == "strip_4"
    with pytest.raises(InputError, match="pre_filter to keep some of the 4 meshes"):
        Strips(tmp_path, pre_filter=lambda mesh: False)


def test_transform_is_applied_at_every_access(tmp_path):
    def double(mesh):
        mesh.y = 2 * mesh.y
        return mesh

    assert torch.equal(Strips(tmp_path, transform=double)[1].y, 2 * Strips(tmp_path)[1].y)


def test_adding_an_array_to_an_item_leaves_the_data_set_alone(tmp_path):
    strips = Strips(tmp_path)
    for _ in range(2):
        assert "p" not in strips[1].point_data
        strips[1].point_data["p"] = torch.zeros(6)


def test_a_given_pre_transform_replaces_the_default_graph(tmp_path):
    knn = KNNGraph(k=1)
    strips = Strips(tmp_path, pre_transform=knn)
    assert strips.pre_transform is knn
    assert strips[3].edge_index.size(1) < Strips(tmp_path)[3].edge_index.size(1)
    assert "measure" not in strips[3]
    default = Strips(tmp_path).pre_transform
    assert [type(t) for t in default.transforms] == [CellsToEdges, NodeMeasure]


# ---------------------------------------------------------------------------------------------------------------------
# the cache


def test_the_cache_serves_the_second_time_without_a_warning(tmp_path):
    first = Strips(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = Strips(tmp_path)
    assert Strips.reads == 1
    assert (second.spec, second.splits) == (first.spec, first.splits)
    for a, b in zip(first, second, strict=True):
        assert a.keys() == b.keys()
        assert torch.equal(a.x, b.x)
        assert a.field_data == b.field_data


def test_the_cache_moves_with_its_directory(tmp_path):
    Strips(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    Strips(tmp_path / "b")
    assert Strips.reads == 1


def test_a_changed_source_rebuilds_and_the_stale_file_goes(tmp_path):
    assert len(Strips(tmp_path)) == 4
    raw = tmp_path / "raw" / "count.txt"
    times = raw.stat().st_atime_ns, raw.stat().st_mtime_ns
    raw.write_text("2 ")  # another size, the same time
    os.utime(raw, ns=times)
    assert len(Strips(tmp_path)) == 2
    raw.write_text("3 ")  # the same size, another time
    os.utime(raw, ns=(times[0], times[1] + 1))
    assert len(Strips(tmp_path)) == 3
    assert len(list((tmp_path / "processed").iterdir())) == 1


class Scale:
    def __init__(self, factor, how=None):
        self.factor = factor
        self.how = how

    def __call__(self, mesh):
        mesh.pos = mesh.pos * self.factor
        return mesh

    def __repr__(self):
        return "Scale()"


def _twice(mesh, factor=2):
    mesh.pos = mesh.pos * factor
    return mesh


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"pre_transform": KNNGraph(k=4)}, {"pre_transform": KNNGraph(k=8)}),
        ({"pre_transform": Scale(1)}, {"pre_transform": Scale(2)}),
        ({"pre_transform": Scale(1, {"a": [np.zeros(3)]})}, {"pre_transform": Scale(1, {"a": [np.ones(3)]})}),
        ({"pre_transform": Compose([Scale(1)])}, {"pre_transform": Compose([Scale(3)])}),
        ({"pre_transform": lambda mesh: _twice(mesh, 2)}, {"pre_transform": lambda mesh: _twice(mesh, 3)}),
        ({"pre_transform": lambda mesh, f=2: _twice(mesh, f)}, {"pre_transform": lambda mesh, f=3: _twice(mesh, f)}),
        ({"pre_filter": lambda mesh: mesh.num_cells > 1}, {"pre_filter": lambda mesh: mesh.num_cells > 2}),
        ({"height": 1.0}, {"height": 2.0}),
        ({}, {"pre_transform": Scale(1)}),
    ],
)
def test_another_option_has_another_cache(tmp_path, one, other):
    Strips(tmp_path, **one)
    Strips(tmp_path, **other)
    assert Strips.reads == 2
    Strips(tmp_path, **one)
    Strips(tmp_path, **other)
    assert Strips.reads == 2


def test_a_graph_of_more_neighbours_is_not_that_of_the_cache(tmp_path):
    degree = {k: Strips(tmp_path, pre_transform=KNNGraph(k))[3].edge_index.size(1) for k in (4, 8, 4)}
    nearest = nearest_neighbors(Strips(tmp_path)[3].pos, 8)
    assert degree[4] < degree[8] == nearest.size(1)


def test_a_closure_is_known_by_what_it_holds(tmp_path):
    def by(factor):
        return lambda mesh: _twice(mesh, factor)

    wide = [float(Strips(tmp_path, pre_transform=by(factor))[0].pos.max()) for factor in (2, 3, 2)]
    assert wide == [2, 3, 2]
    assert Strips.reads == 2


def test_another_version_of_meshop_rebuilds(tmp_path, monkeypatch):
    Strips(tmp_path)
    monkeypatch.setattr(module, "__version__", "99.0")
    Strips(tmp_path)
    assert Strips.reads == 2
    assert len(list((tmp_path / "processed").iterdir())) == 1


def test_force_reload_rebuilds(tmp_path):
    Strips(tmp_path)
    Strips(tmp_path, force_reload=True)
    assert Strips.reads == 2


def test_an_interrupted_processing_leaves_nothing(tmp_path, monkeypatch):
    def half(cache, path):
        Path(path).write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fs, "torch_save", half)
        with pytest.raises(KeyboardInterrupt):
            Strips(tmp_path)
    assert list((tmp_path / "processed").iterdir()) == []
    assert len(Strips(tmp_path)) == 4


def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch):
    def full(cache, path):
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fs, "torch_save", full)
    with pytest.raises(InputError, match=r"^Cannot write '.*processed/meshop-.*\.pt': No space left on device$"):
        Strips(tmp_path)
    assert list((tmp_path / "processed").iterdir()) == []


def test_processing_is_said_on_stderr(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    Strips(tmp_path)
    Strips(tmp_path)
    assert capsys.readouterr() == ("", "Processing...\nDone!\n")


def test_an_error_of_the_transform_names_the_mesh(tmp_path):
    def check(mesh):
        if mesh.num_cells == 3:
            raise InputError("too long")
        return mesh

    with pytest.raises(InputError, match=r"strip_3: too long$"):
        Strips(tmp_path, pre_transform=check)


# ---------------------------------------------------------------------------------------------------------------------


def test_statistics_of_sizes_and_fields(tmp_path):
    rows = statistics(Strips(tmp_path))
    assert list(rows) == ["nodes", "cells", "edges", "n", "f", "t"]
    assert rows["nodes"] == {"min": 4, "mean": 7, "max": 10, "std": pytest.approx(5**0.5)}
    assert rows["edges"] == {"min": 4, "mean": 8.5, "max": 13, "std": pytest.approx(11.25**0.5)}
    values = [x + 1.0 for n in range(1, 5) for x in range(n + 1)]
    assert rows["t"] == pytest.approx({"min": 1, "mean": np.mean(values), "max": 5, "std": np.std(values)})


def test_every_class_is_abstract_or_in_the_register():
    import meshop.datasets

    classes = {c for c in vars(meshop.datasets).values() if isinstance(c, type) and issubclass(c, Dataset)}
    assert {c for c in classes if not inspect.isabstract(c)} - {Folder, SeriesFolder} == set(BENCHMARKS.values())
    assert set(meshop.datasets.__all__) >= {c.__name__ for c in classes}
    with pytest.raises(TypeError, match="abstract"):
        MeshDataset("nowhere")
