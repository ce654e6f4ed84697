"""The published sets of NORM, the neural operator on Riemannian manifolds: each on one mesh of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree

from meshop.data import Arrays, Field, FieldSpec, InputError, MeshData
from meshop.datasets.official import OfficialDataset, RawFile, check_shape, numbered_mesh, split_rows, tensor
from meshop.io.arrays import Array, read_mat

PAGE = "github.com/gengxiangc/NORM"

Read = tuple[list[MeshData], FieldSpec, dict[str, list[int]]]


class IrregularDarcy(OfficialDataset):
    r"""Darcy flow through two materials on an irregular domain in the plane: 2,290 nodes, 4,338 triangles, of NORM.

    .. math::
        -\nabla \cdot (a \nabla u) = f

    The domain is a trapezoid with a concave arc and a thin slot from below. Neither the right-hand side nor the
    boundary condition is published; u is not zero on all of the boundary.

    ===== ======== ==== ===========
    field role     unit meaning
    ===== ======== ==== ===========
    a     input         coefficient
    u     target        solution
    ===== ======== ==== ===========

    Of the 1,200 rows of ``Darcy.mat`` the first 1,000 are the split ``train`` and the last 200 ``test``, as in the
    papers; a file of less is divided 5 to 1.

    Args:
        root: directory of the data set; the file belongs into ``root/raw``.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    Raises:
        InputError: the file is missing, damaged or has another layout.
    """

    files = (RawFile("Darcy.mat"),)
    source = f"it (44 MB of doubles) from datasets of {PAGE}"

    def read(self) -> Read:
        path = self.raw_paths[0]
        nodes, elements, a, u = read_mat(path, "MeshNodes", "MeshElements", "c_field", "u_field")
        check_shape(nodes, (2, None), "MeshNodes", path)
        check_shape(elements, (3, None), "MeshElements", path)
        check_shape(a, (None, nodes.shape[1]), "c_field", path)
        check_shape(u, a.shape, "u_field", path)
        mesh = numbered_mesh(nodes.T, elements.T, path)
        rows, splits = split_rows(len(a), 1000, 200, last=True)
        spec = FieldSpec((Field("u", "point"),), (Field("a", "point"),), dim=2)
        return _cases(mesh, {"a": a, "u": u}, rows, "darcy"), spec, splits


class PipeTurbulence(OfficialDataset):
    r"""Turbulent flow through a winding pipe in the plane, from a time to a later one: 2,673 nodes, of NORM.

    Six rounded chambers with baffles and four round obstacles. The field is the magnitude of the velocity; its unit and
    the time between are not published.

    ========= ======== ==== =========================
    field     role     unit meaning
    ========= ======== ==== =========================
    speed_in  input         magnitude of the velocity
    speed_out target        that at a later time
    ========= ======== ==== =========================

    Of the 400 rows of ``Turbulence.mat`` the first 300 are the split ``train`` and the last 100 ``test``, as in the
    papers; a file of less is divided 3 to 1.

    Args:
        root: directory of the data set; the file belongs into ``root/raw``.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    Raises:
        InputError: the file is missing, damaged or has another layout.
    """

    files = (RawFile("Turbulence.mat"),)
    source = f"it (17 MB of doubles) from datasets of {PAGE}"

    def read(self) -> Read:
        path = self.raw_paths[0]
        nodes, elements, before, after = read_mat(path, "nodes", "elements", "Input", "Output")
        check_shape(nodes, (None, 2), "nodes", path)
        check_shape(elements, (3, None), "elements", path)
        check_shape(before, (None, len(nodes)), "Input", path)
        check_shape(after, before.shape, "Output", path)
        mesh = numbered_mesh(nodes, elements.T, path)
        rows, splits = split_rows(len(before), 300, 100, last=True)
        spec = FieldSpec((Field("speed_out", "point"),), (Field("speed_in", "point"),), dim=2)
        return _cases(mesh, {"speed_in": before, "speed_out": after}, rows, "pipe"), spec, splits


class HeatTransfer(OfficialDataset):
    r"""Heat in a part: from the temperature of a face to that of the body 3 s later, of NORM.

    .. math::
        \partial_t T = \alpha \Delta T, \qquad T = T_\text{face} \text{ on the face}

    The input lives on a surface mesh of 186 nodes, the output on 7,199 nodes of 34,132 tetrahedra. The surface is the
    face z = 0 of the body, node for node. So a case is the body: the input is a field on it that is given on the
    nodes of the face and 0 elsewhere, with a mark where it is given. Nodes are matched by their positions, since the
    files number them differently.

    ===== ======== ==== ==================================================
    field role     unit meaning
    ===== ======== ==== ==================================================
    face  input         1 on the nodes of the face, 0 elsewhere
    T_in  input         temperature of the face, 0 elsewhere
    T_out target        temperature of the body 3 s later
    ===== ======== ==== ==================================================

    Units are not published. ``field_data`` holds the numbers of the face's nodes in the order of the file's ``input``,
    ``face_nodes`` [186]. Of the 300 rows of ``HeatTransfer.mat`` the first 100 are the split ``train`` and the last 100
    ``test``, as in the paper; a file of less than 200 is divided in halves.

    Args:
        root: directory of the data set; the files belong into ``root/raw``.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    Raises:
        InputError: a file is missing, damaged or has another layout, or the surface is not a part of the body.
    """

    files = (
        RawFile("HeatTransfer.mat"),
        RawFile(
            "HeatTransfer_LBO_basis/Part_Mesh.mat",
            1_265_256,
            "72cd6dcb3c8343f0e2a9137ff1914547074866656c2f3d9a09b16a36809525fb",
        ),
        RawFile("HeatTransfer_LBO_basis/lbe_ev_input.mat"),
    )
    source = f"them (the first holds 18 MB of doubles) from datasets of {PAGE}"

    def read(self) -> Read:
        data, part, surface = self.raw_paths
        points, elements = read_mat(part, "points", "elements")
        check_shape(points, (None, 3), "points", part)
        check_shape(elements, (None, 4), "elements", part)
        [face] = read_mat(surface, "Points")
        check_shape(face, (None, 3), "Points", surface)
        t_in, t_out = read_mat(data, "input", "output")
        check_shape(t_in, (None, len(face)), "input", data)
        check_shape(t_out, (len(t_in), len(points)), "output", data)

        mesh = numbered_mesh(points, elements, part)
        distance, nodes = cKDTree(points).query(face)
        if distance.max() > 1e-4 * np.ptp(points, axis=0).max() or len(set(nodes)) < len(nodes):
            raise InputError(
                f"Expected the {len(face)} Points of '{surface}' to be nodes of '{part}' (the farthest lies "
                f"{distance.max():.3g} from one, and {len(set(nodes))} nodes are nearest to some)"
            )
        rows, splits = split_rows(len(t_in), 100, 100, last=True)
        meshes = _cases(mesh, {"T_out": t_out}, rows, "part")
        given, number = torch.zeros(len(points)), torch.from_numpy(nodes)
        for case, row in zip(meshes, rows, strict=True):
            case.point_data["face"] = given.index_fill(0, number, 1)
            case.point_data["T_in"] = given.index_copy(0, number, tensor(t_in[row]))
            case.field_data = Arrays({"face_nodes": number})
        spec = FieldSpec((Field("T_out", "point"),), (Field("face", "point"), Field("T_in", "point")), dim=3)
        return meshes, spec, splits


class Composite(OfficialDataset):
    r"""Deformation of a composite part in curing, from its temperature: 8,232 nodes in space, of NORM.

    ===== ======== ==== ===================================
    field role     unit meaning
    ===== ======== ==== ===================================
    T     input         temperature
    d     target        deformation, one number a node
    ===== ======== ==== ===================================

    Units are not published. The mesh is that of the published basis, ``Points`` and ``Faces`` (from 0): tetrahedra,
    or triangles or hexahedra if they have three or eight nodes. The first 400 rows of ``Composites.mat`` are the split
    ``train`` and the last 100 ``test``, as in the papers' scripts (the authors count 1,200 rows in one place and 500 in
    another); a file of less than 500 is divided 4 to 1.

    Args:
        root: directory of the data set; the files belong into ``root/raw``.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    Raises:
        InputError: a file is missing, damaged or has another layout.
    """

    files = (RawFile("Composites.mat"), RawFile("Composites_LBO_basis/Composites_LBO_basis.mat"))
    source = f"them (the first holds 66 MB of doubles for 500 rows) from the data folder that {PAGE} links"

    def read(self) -> Read:
        data, basis = self.raw_paths
        points, faces = read_mat(basis, "Points", "Faces")
        check_shape(points, (None, 3), "Points", basis)
        temperature, deformation = read_mat(data, "T_field", "D_field")
        check_shape(temperature, (None, len(points)), "T_field", data)
        check_shape(deformation, temperature.shape, "D_field", data)
        mesh = numbered_mesh(points, faces, basis, first=0)
        rows, splits = split_rows(len(temperature), 400, 100, last=True)
        spec = FieldSpec((Field("d", "point"),), (Field("T", "point"),), dim=3)
        return _cases(mesh, {"T": temperature, "d": deformation}, rows, "part"), spec, splits


class BloodFlow(OfficialDataset):
    r"""Blood in an aorta through a heartbeat, from what happens at its ends: 1,656 nodes, 6,095 tetrahedra, of NORM.

    =============== ======== ================ ==== ==========================================================
    field           role     channels         unit meaning
    =============== ======== ================ ==== ==========================================================
    bc_c[t]         param    6 a frame             boundary values, those of a frame side by side
    velocity        target   3 a frame             frame after frame: component c of frame t is channel 3 t + c
    =============== ======== ================ ==== ==========================================================

    There are 121 frames: 726 parameters, and 363 channels to predict. Of the six boundary series the authors normalise
    the first apart from the five others: the inflow, and the pressures at five outlets. Units are not published; the
    coordinates look like metres. ``field_data`` holds ``bc`` [121, 6]. The relative L2 of ``velocity`` is that of the
    paper, over all nodes, times and components.

    Of the 500 rows of ``BloodFlow.mat`` the first 400 are the split ``train`` and the last 100 ``test``, as in the
    paper; a file of less is divided 4 to 1. Reading it takes 5 GB of memory.

    Args:
        root: directory of the data set; the files belong into ``root/raw``.
        stride: every how many frames the velocity is predicted; all boundary values enter in any case.
        transform, pre_transform, pre_filter, force_reload: see :class:`~meshop.datasets.MeshDataset`.

    Raises:
        InputError: a file is missing, damaged or has another layout, or ``stride`` is not positive.
    """

    files = (
        RawFile("BloodFlow.mat"),
        RawFile(
            "BloodFlow_LBO_basis/coordinates.csv",
            61_463,
            "8d0abd76f56d17507ea25a2a16d67768cc5f1cb761312f5a42943db0adab5508",
        ),
        RawFile(
            "BloodFlow_LBO_basis/elements.csv",
            106_479,
            "d807113fa01825ce5b79a52fe2992e5b790eac8b16488f90e29ba02c66a80ff4",
        ),
    )
    source = f"the first (2.4 GB of doubles) from the data folder that {PAGE} links, the others from its datasets"

    def __init__(
        self,
        root: str | os.PathLike[str],
        stride: int = 1,
        transform: Callable[[MeshData], MeshData] | None = None,
        pre_transform: Callable[[MeshData], MeshData] | None = None,
        pre_filter: Callable[[MeshData], bool] | None = None,
        force_reload: bool = False,
    ) -> None:
        if stride < 1:
            raise InputError(f"Expected a stride of 1 or more (got {stride})")
        self.stride = stride
        super().__init__(root, transform, pre_transform, pre_filter, force_reload)

    @property
    def options(self) -> dict[str, Any]:
        return {**super().options, "stride": self.stride}

    def read(self) -> Read:
        data, coordinates, elements = self.raw_paths
        mesh = numbered_mesh(_read_csv(coordinates, 3), _read_csv(elements, 4), elements)
        bc, *velocity = read_mat(data, "BC_time", "velocity_x", "velocity_y", "velocity_z")
        check_shape(bc, (None, None, 6), "BC_time", data)
        for axis, component in zip("xyz", velocity, strict=True):
            check_shape(component, (len(bc), mesh.num_points, bc.shape[1]), f"velocity_{axis}", data)
        rows, splits = split_rows(len(bc), 400, 100, last=True)
        meshes = _cases(mesh, {}, rows, "beat")
        for case, row in zip(meshes, rows, strict=True):
            frames = [tensor(component[row, :, :: self.stride]) for component in velocity]  # [N, T] each
            case.point_data["velocity"] = torch.stack(frames, dim=2).flatten(1)
            case.field_data = Arrays({"bc": tensor(bc[row])})
            case.params = tensor(bc[row]).view(1, -1)
        channels = meshes[0].point_data["velocity"].size(1)
        names = tuple(f"bc_{c}[{t}]" for t in range(bc.shape[1]) for c in range(6))
        return meshes, FieldSpec((Field("velocity", "point", channels),), params=names, dim=3), splits


def _cases(mesh: MeshData, fields: Mapping[str, Array], rows: Sequence[int], name: str) -> list[MeshData]:
    """The mesh with the fields of each row."""
    meshes = []
    for row in rows:
        case: MeshData = mesh.__copy__()
        case.point_data = Arrays({key: tensor(values[row]) for key, values in fields.items()})
        case.name = f"{name}_{row:04d}"
        meshes.append(case)
    return meshes


def _read_csv(path: str, columns: int) -> Array:
    try:
        array: Array = np.loadtxt(path, delimiter=",", ndmin=2)
    except ValueError as error:
        raise InputError(f"Expected rows of {columns} numbers in '{path}' ({error})") from error
    check_shape(array, (None, columns), "rows", path)
    return array
