"""trimesh's meshes, clouds and scenes."""

from pathlib import Path

import numpy as np
import pytest
import trimesh

from meshop.data import InputError
from meshop.io import from_trimesh, read_mesh


def test_vertices_are_neither_merged_nor_reordered() -> None:
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [7, 7, 7]]) / 3
    mesh = trimesh.Trimesh(vertices, [[0, 1, 2], [3, 4, 5]], process=False)
    mesh.vertex_attributes["p"] = np.arange(7)
    mesh.face_attributes["q"] = np.array([0.25, 0.5])
    ours = from_trimesh(mesh)
    assert np.array_equal(ours.points.numpy(), vertices)
    assert ours.cell_index.tolist() == [0, 1, 2, 3, 4, 5]
    assert ours.cell_type.tolist() == [5, 5]
    assert ours.point_data["p"].tolist() == list(range(7))
    assert ours.cell_data["q"].tolist() == [0.25, 0.5]
    ours.points += 1
    ours.point_data["p"] += 1
    assert np.array_equal(mesh.vertices, vertices)
    assert mesh.vertex_attributes["p"].tolist() == list(range(7))


def test_colours() -> None:
    mesh = trimesh.creation.box()
    mesh.visual.vertex_colors = np.arange(32, dtype=np.uint8).reshape(8, 4)
    assert from_trimesh(mesh).point_data["RGBA"].flatten().tolist() == list(range(32))
    mesh.visual.face_colors = np.full((12, 4), 7, dtype=np.uint8)
    assert from_trimesh(mesh).cell_data["RGBA"].unique().tolist() == [7]


def test_point_clouds() -> None:
    cloud = trimesh.PointCloud(np.eye(3), colors=np.zeros((3, 4), dtype=np.uint8))
    ours = from_trimesh(cloud)
    assert ours.points.tolist() == np.eye(3).tolist()
    assert ours.num_cells == 0
    assert ours.point_data["RGBA"].shape == (3, 4)


def scene() -> trimesh.Scene:
    box, ball = trimesh.creation.box(), trimesh.creation.icosphere(subdivisions=1)
    box.vertex_attributes["p"] = np.arange(8, dtype=np.float32)
    out = trimesh.Scene()
    out.add_geometry(box, geom_name="box", transform=trimesh.transformations.translation_matrix([10, 0, 0]))
    out.add_geometry(ball, geom_name="ball")
    return out


def test_a_scene_becomes_one_mesh() -> None:
    ours = from_trimesh(scene())
    assert (ours.num_points, ours.num_cells) == (8 + 42, 12 + 80)
    assert ours.field_data["objects"].tolist() == ["box", "ball"]
    assert ours.cell_data["object"].bincount().tolist() == [12, 80]
    assert ours.points[:8].mean(0).tolist() == [10, 0, 0]  # where the scene puts it
    assert int(ours.cell_index[36:].min()) == 8
    assert ours.point_data["p"][:8].tolist() == list(range(8))
    assert bool(ours.point_data["p"][8:].isnan().all())
    with pytest.raises(InputError, match=r"Expected a mesh \(got one without points\)"):
        from_trimesh(trimesh.Scene())


def test_glb_files(tmp_path: Path) -> None:
    placed = scene()
    placed.geometry["box"].vertex_attributes.clear()
    (tmp_path / "a.glb").write_bytes(placed.export(file_type="glb"))
    ours = read_mesh(tmp_path / "a.glb")
    assert (ours.num_points, ours.num_cells) == (8 + 42, 12 + 80)
    for number, name in enumerate(ours.field_data["objects"]):
        corners = ours.points[ours.cell_index].reshape(-1, 9)[ours.cell_data["object"] == number].reshape(-1, 3)
        assert float(corners[:, 0].mean()) == pytest.approx({"box": 10, "ball": 0}[name], abs=1e-6)


def test_what_is_no_surface() -> None:
    with pytest.raises(InputError, match=r"Expected triangles or points \(got a trimesh Path3D\)"):
        from_trimesh(trimesh.load_path(np.eye(3)))
