"""From trimesh's meshes, and the surface formats it reads for us; the one place that knows trimesh."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from meshop.data import InputError, MeshData
from meshop.io.assemble import assemble

Array = NDArray[Any]


def from_trimesh(mesh: Any, dim: int = 3) -> MeshData:
    """Copy a ``trimesh.Trimesh``, ``PointCloud`` or ``Scene``: vertices and triangles in order, attributes by name.

    Vertices are never merged. A scene becomes one mesh: its objects where the scene puts them, one after another, with
    the number of each in the cell data ``object`` and their names in the field data ``objects``; an attribute that an
    object lacks is NaN there. Colours of vertices and faces become the data ``RGBA``.

    Args:
        mesh: the mesh; it is left as it is. Load files with ``trimesh.load(path, process=False)``, or trimesh reorders.
        dim: number of coordinates in ``pos``; 2 takes the two axes of the coordinate plane in which the points lie.

    Raises:
        InputError: not a surface, a mesh without points, or one that lies in no coordinate plane where ``dim`` is 2.

    >>> import trimesh
    >>> from_trimesh(trimesh.creation.box()).num_cells
    12
    """
    import trimesh

    if isinstance(mesh, trimesh.Scene):
        placed = [mesh.graph.get(node) for node in mesh.graph.nodes_geometry]
        parts = [(name, mesh.geometry[name], at) for at, name in placed]
    else:
        parts = [("", mesh, np.eye(4))]
    for _, part, _ in parts:
        if not isinstance(part, trimesh.Trimesh | trimesh.PointCloud):
            raise InputError(f"Expected triangles or points (got a trimesh {type(part).__name__})")
    points = [trimesh.transform_points(part.vertices, at) for _, part, at in parts]
    faces = [np.asarray(getattr(part, "faces", np.empty((0, 3), int))) for _, part, _ in parts]
    shift = np.cumsum([0, *map(len, points)])
    triangles = np.concatenate([f + s for f, s in zip(faces, shift[:-1], strict=True)] or [np.empty((0, 3), int)])
    cell_data, field_data = _joined([_attributes(part, "face") for _, part, _ in parts], faces), {}
    if isinstance(mesh, trimesh.Scene):
        cell_data["object"] = np.repeat(np.arange(len(parts)), list(map(len, faces)))
        field_data["objects"] = np.array([name for name, _, _ in parts])
    return assemble(
        np.concatenate(points or [np.empty((0, 3))]),
        np.full(len(triangles), 5),
        np.full(len(triangles), 3),
        triangles.ravel(),
        point_data=_joined([_attributes(part, "vertex") for _, part, _ in parts], points),
        cell_data=cell_data,
        field_data=field_data,
        dim=dim,
    )


def read_trimesh(path: Path, dim: int) -> MeshData:
    """Read a file with trimesh, vertices in file order."""
    import trimesh

    if path.suffix.lower() == ".gltf":  # what is wrong with it, trimesh does not say
        for buffer in json.loads(path.read_text())["buffers"]:
            name = buffer.get("uri", "")
            if not name.startswith("data:") and not (path.parent / unquote(name)).is_file():
                raise InputError(f"it names '{name}', and there is no such file")
    return from_trimesh(trimesh.load(path, process=False, maintain_order=True), dim)


def _attributes(part: Any, what: str) -> dict[str, Array]:
    out = {name: np.asarray(values) for name, values in getattr(part, f"{what}_attributes", {}).items()}
    if part.visual.kind == what:
        out.setdefault("RGBA", np.asarray(getattr(part.visual, f"{what}_colors")))
    return out


def _joined(attributes: list[dict[str, Array]], of: list[Array]) -> dict[str, Array]:
    """Attributes of all parts one after another, NaN where a part has none."""
    out = {}
    for name in dict.fromkeys(name for own in attributes for name in own):
        width = next(own[name].shape[1:] for own in attributes if name in own)
        out[name] = np.concatenate(
            [own.get(name, np.full((len(part), *width), np.nan)) for own, part in zip(attributes, of, strict=True)]
        )
    return out
