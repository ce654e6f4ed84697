"""NORM's five sets on small meshes in the layout of the official files, and on its two real meshes."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import loadmat, savemat

from meshop.data import InputError
from meshop.datasets import BloodFlow, Composite, HeatTransfer, IrregularDarcy, PipeTurbulence
from meshop.datasets.official import numbered_mesh

REAL = os.environ.get("MESHOP_NORM", "")
real = pytest.mark.skipif(not REAL, reason="needs the published meshes: MESHOP_NORM=datasets of NORM's repository")

SQUARE = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0.4]])
TRIANGLES = np.array([[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])
CUBE = np.array([[x, y, z] for z in (0.0, 1) for y in (0.0, 1) for x in (0.0, 1)])
TETRAHEDRA = np.array([[0, 1, 3, 7], [0, 1, 5, 7], [0, 2, 3, 7], [0, 2, 6, 7], [0, 4, 5, 7], [0, 4, 6, 7]])


def coded(rows, *shape):
    """Values that tell row and place."""
    return np.arange(rows)[(...,) + (None,) * len(shape)] * 1000.0 + np.arange(np.prod(shape)).reshape(shape)


def save(root, name, **arrays):
    path = Path(root, "raw", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, arrays)


def write_darcy(root, rows=12, **replace):
    arrays = {
        "MeshNodes": SQUARE.T,
        "MeshElements": TRIANGLES.T + 1.0,
        "c_field": coded(rows, 5),
        "u_field": coded(rows, 5) + 0.5,
    }
    save(root, "Darcy.mat", **arrays | replace)


def write_pipe(root, rows=8, **replace):
    arrays = {
        "nodes": SQUARE,
        "elements": (TRIANGLES.T + 1).astype(np.uint8),
        "Input": coded(rows, 5),
        "Output": coded(rows, 5) + 0.5,
    }
    save(root, "Turbulence.mat", **arrays | replace)


FACE = [2, 0, 3, 1]


def write_heat(root, rows=6, points=CUBE, elements=TETRAHEDRA + 1.0, face=FACE, surface=None):
    save(root, "HeatTransfer.mat", input=coded(rows, len(face)) + 0.5, output=coded(rows, len(points)))
    save(root, "HeatTransfer_LBO_basis/Part_Mesh.mat", points=points, elements=elements)
    surface = points[face].astype(np.float32) if surface is None else surface
    save(root, "HeatTransfer_LBO_basis/lbe_ev_input.mat", Points=surface, Faces=np.zeros((1, 3)))


def write_composite(root, rows=10, **replace):
    save(root, "Composites.mat", **{"T_field": coded(rows, 8), "D_field": coded(rows, 8) + 0.5} | replace)
    save(root, "Composites_LBO_basis/Composites_LBO_basis.mat", Points=CUBE, Faces=TETRAHEDRA)


def write_blood(root, rows=10, frames=4, points=CUBE, cells=TETRAHEDRA, **replace):
    arrays = {"BC_time": coded(rows, frames, 6)}
    arrays |= {f"velocity_{c}": coded(rows, len(points), frames) + i / 4 for i, c in enumerate("xyz")}
    save(root, "BloodFlow.mat", **arrays | replace)
    basis = Path(root, "raw", "BloodFlow_LBO_basis")
    basis.mkdir()
    np.savetxt(basis / "coordinates.csv", points, delimiter=",", fmt="%.17g")
    np.savetxt(basis / "elements.csv", cells + 1, delimiter=",", fmt="%d")


def test_irregular_darcy(tmp_path):
    write_darcy(tmp_path)
    flows = IrregularDarcy(tmp_path)
    assert flows.splits == {"train": list(range(10)), "test": [10, 11]}
    mesh = flows[11]
    assert mesh.validate()
    assert (mesh.name, mesh.dim) == ("darcy_0011", 2)
    assert np.array_equal(mesh.points[:, :2], SQUARE)
    assert np.array_equal(mesh.cell_index.view(-1, 3), TRIANGLES)
    assert mesh.cell_type.tolist() == [5] * 4
    assert mesh.point_data["a"].tolist() == [11000, 11001, 11002, 11003, 11004]
    assert mesh.y[:, 0].tolist() == [11000.5, 11001.5, 11002.5, 11003.5, 11004.5]
    assert mesh.edge_index.size(1) == 2 * 8
    assert float(mesh.measure.sum()) == pytest.approx(1)


def test_the_first_rows_and_the_last_are_those_of_the_papers(tmp_path):
    write_darcy(tmp_path, 1205)
    keep = [f"darcy_{row:04d}" for row in (0, 999, 1000, 1004, 1005, 1204)]
    flows = IrregularDarcy(tmp_path, pre_filter=lambda mesh: mesh.name in keep)
    assert [mesh.name for mesh in flows.split("train")] == keep[:2]
    assert [mesh.name for mesh in flows.split("test")] == keep[4:]
    assert [mesh.point_data["a"][0] for mesh in flows] == [0, 999000, 1005000, 1204000]


def test_pipe_turbulence(tmp_path):
    write_pipe(tmp_path)
    flows = PipeTurbulence(tmp_path)
    assert flows.splits == {"train": list(range(6)), "test": [6, 7]}
    mesh = flows[7]
    assert mesh.validate()
    assert np.array_equal(mesh.points[:, :2], SQUARE)
    assert np.array_equal(mesh.cell_index.view(-1, 3), TRIANGLES)
    assert mesh.x[:, 2].tolist() == [7000, 7001, 7002, 7003, 7004]
    assert mesh.y[:, 0].tolist() == [7000.5, 7001.5, 7002.5, 7003.5, 7004.5]


def test_heat_transfer_puts_the_surface_on_the_nodes_of_the_body(tmp_path):
    write_heat(tmp_path)
    parts = HeatTransfer(tmp_path)
    assert parts.splits == {"train": [0, 1, 2], "test": [3, 4, 5]}
    mesh = parts[4]
    assert mesh.validate()
    assert mesh.dim == 3
    assert mesh.cell_type.tolist() == [10] * 6
    assert mesh.point_data["face"].tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    assert mesh.point_data["T_in"].tolist() == [4001.5, 4003.5, 4000.5, 4002.5, 0, 0, 0, 0]
    assert mesh.field_data["face_nodes"].tolist() == FACE
    assert torch.equal(mesh.x[:, 3], mesh.point_data["face"])
    assert torch.equal(mesh.x[:, 4], mesh.point_data["T_in"])
    assert mesh.y[:, 0].tolist() == [4000, 4001, 4002, 4003, 4004, 4005, 4006, 4007]
    assert float(mesh.measure.sum()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("surface", "told"),
    [(CUBE[FACE] + [0, 0, 0.1], "0.1 from one, and 4 nodes"), (CUBE[[0, 0, 1, 2]], "0 from one, and 3 nodes")],
)
def test_a_surface_that_is_no_part_of_the_body_is_refused(tmp_path, surface, told):
    write_heat(tmp_path, surface=surface)
    message = rf"^Expected the 4 Points of '.*lbe_ev_input.mat' to be nodes of '.*Part_Mesh.mat' \(the .* lies {told}"
    with pytest.raises(InputError, match=message):
        HeatTransfer(tmp_path)


def test_composite(tmp_path):
    write_composite(tmp_path)
    parts = Composite(tmp_path)
    assert parts.splits == {"train": list(range(8)), "test": [8, 9]}
    mesh = parts[8]
    assert mesh.validate()
    assert np.array_equal(mesh.cell_index.view(-1, 4), TETRAHEDRA)
    assert mesh.x[:, 3].tolist() == list(range(8000, 8008))
    assert mesh.y[:, 0].tolist() == [8000.5 + i for i in range(8)]


def test_blood_flow(tmp_path):
    write_blood(tmp_path)
    beats = BloodFlow(tmp_path)
    assert beats.splits == {"train": list(range(8)), "test": [8, 9]}
    assert (beats.spec.in_channels, beats.spec.out_channels) == (3 + 24, 12)
    mesh = beats[9]
    assert mesh.validate()
    assert mesh.cell_type.tolist() == [10] * 6
    velocity = mesh.y.view(8, 4, 3)  # node, frame, component
    assert velocity[2, 3].tolist() == [9011, 9011.25, 9011.5]
    assert mesh.params.tolist() == [[9000 + i for i in range(24)]]
    assert beats.spec.params[6 * 2 + 5] == "bc_5[2]"
    assert torch.equal(mesh.field_data["bc"].view(1, -1), mesh.params)
    assert float(mesh.measure.sum()) == pytest.approx(1)
    every_third = BloodFlow(tmp_path, stride=3)[9]
    assert torch.equal(every_third.y.view(8, 2, 3), velocity[:, ::3])
    assert torch.equal(every_third.params, mesh.params)
    with pytest.raises(InputError, match=r"^Expected a stride of 1 or more \(got 0\)$"):
        BloodFlow(tmp_path, stride=0)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            IrregularDarcy,
            r"needs Darcy.mat in '.*raw'; get it \(44 MB of doubles\) from datasets of github.com/gengxian",
        ),
        (PipeTurbulence, r"needs Turbulence.mat in"),
        (
            HeatTransfer,
            r"needs HeatTransfer.mat, HeatTransfer_LBO_basis/Part_Mesh.mat \(1.3 MB, SHA-256 72cd6dcb3c8343f0",
        ),
        (Composite, r"needs Composites.mat, Composites_LBO_basis/Composites_LBO_basis.mat in"),
        (
            BloodFlow,
            r"needs BloodFlow.mat, BloodFlow_LBO_basis/coordinates.csv \(0.1 MB, SHA-256 8d0abd76f56d1750...\)",
        ),
    ],
)
def test_absent_files_are_named(tmp_path, kind, message):
    with pytest.raises(InputError, match=f"^{kind.__name__} {message}"):
        kind(tmp_path)


@pytest.mark.parametrize(
    ("kind", "write", "replace", "message"),
    [
        (IrregularDarcy, write_darcy, {"MeshNodes": SQUARE}, r"Expected MeshNodes of shape \[2, any\] in '.*Darcy"),
        (IrregularDarcy, write_darcy, {"MeshElements": TRIANGLES + 1}, r"Expected MeshElements of shape \[3, any\]"),
        (IrregularDarcy, write_darcy, {"c_field": coded(5, 12)}, r"Expected c_field of shape \[any, 5\]"),
        (IrregularDarcy, write_darcy, {"u_field": coded(11, 5)}, r"Expected u_field of shape \[12, 5\]"),
        (IrregularDarcy, write_darcy, {"MeshElements": TRIANGLES.T}, r"numbered from 1 to 5 \(got 0 to 4\)"),
        (IrregularDarcy, write_darcy, {"MeshElements": TRIANGLES.T + 2}, r"numbered from 1 to 5 \(got 2 to 6\)"),
        (IrregularDarcy, write_darcy, {"MeshElements": TRIANGLES.T + 0.5}, r"numbered from 1 to 5 \(got 0.5 to 4.5\)"),
        (PipeTurbulence, write_pipe, {"nodes": SQUARE.T}, r"Expected nodes of shape \[any, 2\]"),
        (PipeTurbulence, write_pipe, {"elements": TRIANGLES}, r"Expected elements of shape \[3, any\]"),
        (PipeTurbulence, write_pipe, {"Input": coded(8, 4)}, r"Expected Input of shape \[any, 5\]"),
        (PipeTurbulence, write_pipe, {"Output": coded(7, 5)}, r"Expected Output of shape \[8, 5\]"),
        (HeatTransfer, write_heat, {"elements": TRIANGLES}, r"Expected elements of shape \[any, 4\] in '.*Part_"),
        (HeatTransfer, write_heat, {"surface": CUBE[:3]}, r"Expected input of shape \[any, 3\] in '.*Heat"),
        (HeatTransfer, write_heat, {"surface": SQUARE}, r"Expected Points of shape \[any, 3\] in '.*lbe_ev_input.mat'"),
        (Composite, write_composite, {"T_field": coded(10, 7)}, r"Expected T_field of shape \[any, 8\]"),
        (Composite, write_composite, {"D_field": coded(9, 8)}, r"Expected D_field of shape \[10, 8\]"),
        (BloodFlow, write_blood, {"BC_time": coded(10, 4, 5)}, r"Expected BC_time of shape \[any, any, 6\]"),
        (BloodFlow, write_blood, {"velocity_y": coded(10, 8, 3)}, r"Expected velocity_y of shape \[10, 8, 4\]"),
        (BloodFlow, write_blood, {"cells": TRIANGLES}, r"Expected rows of shape \[any, 4\] in '.*elements.csv'"),
    ],
)  # fmt: skip
def test_another_layout_is_refused(tmp_path, kind, write, replace, message):
    write(tmp_path, **replace)
    with pytest.raises(InputError, match=message):
        kind(tmp_path)


def test_a_table_with_words_is_refused(tmp_path):
    write_blood(tmp_path)
    (tmp_path / "raw" / "BloodFlow_LBO_basis" / "elements.csv").write_text("a,b,c,d\n")
    with pytest.raises(InputError, match=r"^Expected rows of 4 numbers in '.*elements.csv' \("):
        BloodFlow(tmp_path)


def test_cells_of_other_sizes():
    assert numbered_mesh(CUBE, np.arange(8)[None], "file", first=0).cell_type.tolist() == [12]
    with pytest.raises(InputError, match=r"^Expected cells of 3, 4 or 8 nodes in 'file' \(got shape \[1, 5\]\)$"):
        numbered_mesh(SQUARE, np.arange(5)[None], "file")


def published(name):
    """A file of the repository, in whatever directory below ``MESHOP_NORM``."""
    return next(path for path in sorted(Path(REAL).rglob("*")) if path.name.endswith(name))


@real
def test_the_published_vessel_has_the_published_eigenvalues(tmp_path):
    """Laplace-Beltrami eigenvalues of linear elements on the mesh as it was read, beside those of the authors."""
    from scipy.sparse.linalg import eigsh
    from skfem import Basis, BilinearForm, ElementTetP1, MeshTet
    from skfem.helpers import dot, grad

    points, cells = (np.loadtxt(published(name), delimiter=",") for name in ("coordinates.csv", "elements.csv"))
    write_blood(tmp_path, rows=2, frames=1, points=points, cells=cells.astype(int) - 1)
    mesh = BloodFlow(tmp_path)[0]
    assert (mesh.num_nodes, mesh.num_cells) == (1656, 6095)
    assert float(mesh.measure.sum()) == pytest.approx(2.780348e-05, rel=1e-6)
    body = MeshTet(mesh.points.T.numpy().copy(), mesh.cell_index.view(-1, 4).T.numpy().copy())
    basis = Basis(body, ElementTetP1(), intorder=2)
    stiffness = BilinearForm(lambda u, v, _: dot(grad(u), grad(v))).assemble(basis)
    mass = BilinearForm(lambda u, v, _: u * v).assemble(basis)
    stored = loadmat(published("LBO_basis.mat"))["Eigenvalues"].ravel()
    found = eigsh(stiffness, len(stored), mass, sigma=-0.01, return_eigenvectors=False)
    assert np.abs(np.sort(found)[1:] / stored[1:] - 1).max() < 1e-10


@real
def test_the_published_part_has_the_face_that_is_heated(tmp_path):
    part = loadmat(published("Part_Mesh.mat"))
    below = np.flatnonzero(np.abs(part["points"][:, 2]) < 1e-9)
    assert len(below) == 186  # as many as the surface of the input has
    face = np.random.default_rng(0).permutation(below)
    write_heat(tmp_path, rows=2, points=part["points"], elements=part["elements"], face=face)
    mesh = HeatTransfer(tmp_path)[1]
    assert (mesh.num_nodes, mesh.num_cells) == (7199, 34132)
    assert float(mesh.measure.sum()) == pytest.approx(32053.591, rel=1e-6)
    assert mesh.point_data["face"].nonzero().flatten().tolist() == below.tolist()
    assert torch.equal(mesh.point_data["T_in"][torch.from_numpy(face)], 1000.5 + torch.arange(186))
