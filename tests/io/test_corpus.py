"""Files that other programs and libraries write, each read right or refused in a sentence."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import foreign
import meshio
import numpy as np
import pytest
import pyvista as pv
import torch
from foreign import CELLS, POINTS, Q, U

from meshop.data import InputError, MeshData
from meshop.geometry import cell_edges, cell_measure
from meshop.io import read_mesh, read_series

QUADS = [9, 9, 5]


def plate() -> pv.UnstructuredGrid:
    cells = np.concatenate([[len(cell), *cell] for _, block in CELLS for cell in block])
    grid = pv.UnstructuredGrid(cells, QUADS, POINTS)
    grid.point_data["u"], grid.cell_data["q"] = U, Q
    return grid


def image() -> pv.ImageData:
    grid = pv.ImageData(dimensions=(4, 3, 3), spacing=(0.5, 1, 1))
    grid.point_data["u"], grid.cell_data["q"] = grid.points[:, 0] / 3, np.arange(12) / 7
    return grid


def measure(mesh: MeshData) -> float:
    cells = mesh.cell_type, mesh.cell_size, mesh.cell_index, mesh.polyhedra
    return float(cell_measure(mesh.points.double(), *cells).sum())


def is_plate(mesh: MeshData, u: str | None = "u", q: str | None = "q", digits: float = 0) -> None:
    """The points, cells and fields of the plate."""
    assert mesh.cell_type.tolist() == QUADS
    assert mesh.cell_index.tolist() == [int(i) for _, block in CELLS for cell in block for i in cell]
    np.testing.assert_allclose(mesh.points.numpy(), POINTS, atol=digits)
    if u:
        np.testing.assert_allclose(mesh.point_data[u].flatten().numpy(), U, atol=digits)
    if q:
        np.testing.assert_allclose(mesh.cell_data[q].flatten().numpy(), Q, atol=digits)


def is_image(mesh: MeshData) -> None:
    assert (mesh.num_points, mesh.num_cells) == (36, 12)
    assert measure(mesh) == pytest.approx(6)
    assert mesh.cell_data["q"].tolist() == (np.arange(12) / 7).tolist()
    np.testing.assert_allclose(mesh.point_data["u"].numpy(), mesh.points[:, 0].numpy() / 3, rtol=1e-6)


def members(mesh: MeshData, name: str, location: str = "cell") -> list[int]:
    """Which points or cells a mask has."""
    mask = mesh[f"{location}_data"][name]
    assert mask.dtype == torch.bool
    return mask.nonzero().squeeze(1).tolist()


Write = Callable[[Path], Path]
Check = Callable[[MeshData], None]
CORPUS: dict[str, tuple[Write, Check]] = {}


# ---------------------------------------------------------------------------------------------------------------------
# VTK


def xml(kind: str, suffix: str, mode: str, compressor: str) -> Write:
    def write(folder: Path) -> Path:
        from vtkmodules import vtkIOXML

        cast = {
            "vti": lambda g: g,
            "vtr": lambda g: g.cast_to_rectilinear_grid(),
            "vts": lambda g: g.cast_to_structured_grid(),
        }
        writer = getattr(vtkIOXML, f"vtkXML{kind}Writer")()
        writer.SetInputData(cast[suffix](image()))
        getattr(writer, f"SetDataModeTo{'Appended' if mode == 'Raw' else mode}")()
        writer.SetEncodeAppendedData(mode != "Raw")
        getattr(writer, f"SetCompressorTypeTo{compressor}")()
        writer.SetFileName(str(folder / f"a.{suffix}"))
        assert writer.Write()
        return folder / f"a.{suffix}"

    return write


for kind, suffix in (("ImageData", "vti"), ("RectilinearGrid", "vtr"), ("StructuredGrid", "vts")):
    for mode, compressor in (
        ("Ascii", "None"),
        ("Binary", "ZLib"),
        ("Appended", "LZ4"),
        ("Raw", "LZMA"),
        ("Raw", "None"),
    ):
        CORPUS[f"{suffix} {mode} {compressor}"] = xml(kind, suffix, mode, compressor), is_image


def text(name: str, content: str) -> Write:
    def write(folder: Path) -> Path:
        (folder / name).write_text(content)
        return folder / name

    return write


for version in ("0.1", "1.0", "2.0", "2.1", "2.2", "2.3"):
    CORPUS[f"vtu {version}"] = text("a.vtu", foreign.vtu_text(version)), is_plate


def legacy(version: int, binary: bool) -> Write:
    def write(folder: Path) -> Path:
        from vtkmodules.vtkIOLegacy import vtkUnstructuredGridWriter

        writer = vtkUnstructuredGridWriter()
        writer.SetFileVersion(version)
        writer.SetFileType(2 if binary else 1)
        writer.SetInputData(plate())
        writer.SetFileName(str(folder / "a.vtk"))
        writer.Write()
        return folder / "a.vtk"

    return write


for version in (42, 51):
    for binary in (True, False):
        CORPUS[f"vtk {version} {'binary' if binary else 'text'}"] = (
            legacy(version, binary),
            lambda m: is_plate(m, digits=1e-9),
        )


def pieces(ghost: bool = False) -> Write:
    def write(folder: Path) -> Path:
        grid = plate()
        for number, cells in enumerate(([0, 1], [1, 2] if ghost else [2])):
            part = grid.extract_cells(cells)
            if ghost and number:
                part.cell_data["vtkGhostType"] = np.uint8([1, 0])
            elif ghost:
                part.cell_data["vtkGhostType"] = np.uint8([0, 0])
            part.save(folder / f"a_{number}.vtu")
        ghosts = '<PDataArray type="UInt8" Name="vtkGhostType"/>' * ghost
        (folder / "a.pvtu").write_text(
            '<VTKFile type="PUnstructuredGrid" version="1.0"><PUnstructuredGrid GhostLevel="0">'
            '<PPointData><PDataArray type="Float64" Name="u"/></PPointData>'
            f'<PCellData><PDataArray type="Float64" Name="q"/>{ghosts}</PCellData>'
            '<PPoints><PDataArray type="Float64" Name="Points" NumberOfComponents="3"/></PPoints>'
            '<Piece Source="a_0.vtu"/><Piece Source="a_1.vtu"/></PUnstructuredGrid></VTKFile>'
        )
        return folder / "a.pvtu"

    return write


def is_pieces(mesh: MeshData) -> None:
    assert mesh.cell_type.tolist() == QUADS
    assert mesh.num_points == 6 + 3
    assert mesh.cell_data["q"].tolist() == Q.tolist()
    assert mesh.cell_data["block"].tolist() == [0, 0, 1]
    assert mesh.field_data["blocks"].tolist() == ["a_0", "a_1"]
    assert measure(mesh) == pytest.approx(2.5)


CORPUS["pvtu"] = pieces(), is_pieces
CORPUS["pvtu with ghosts"] = pieces(ghost=True), is_pieces


def parallel(kind: str, suffix: str, grid: Callable[[], Any]) -> Write:
    def write(folder: Path) -> Path:
        from vtkmodules import vtkIOParallelXML

        writer = getattr(vtkIOParallelXML, f"vtkXMLP{kind}Writer")()
        writer.SetInputData(grid())
        writer.SetNumberOfPieces(1)
        writer.SetFileName(str(folder / f"a.{suffix}"))
        assert writer.Write()
        return folder / f"a.{suffix}"

    return write


CORPUS["pvti"] = parallel("ImageData", "pvti", image), is_image
CORPUS["pvtr"] = parallel("RectilinearGrid", "pvtr", lambda: image().cast_to_rectilinear_grid()), is_image
CORPUS["pvts"] = parallel("StructuredGrid", "pvts", lambda: image().cast_to_structured_grid()), is_image
CORPUS["pvtp"] = (
    parallel("PolyData", "pvtp", lambda: pv.Plane(i_resolution=2, j_resolution=2)),
    lambda m: (lambda: None)() if m.cell_type.tolist() == [9] * 4 else pytest.fail(str(m)),
)


def blocks(suffix: str) -> Write:
    def write(folder: Path) -> Path:
        inner = pv.MultiBlock({"x": image().cast_to_unstructured_grid(), "none": None})
        pv.MultiBlock({"fluid": plate(), "solid": inner}).save(folder / f"a{suffix}")
        return folder / f"a{suffix}"

    return write


def is_blocks(mesh: MeshData) -> None:
    assert (mesh.num_points, mesh.num_cells) == (7 + 36, 3 + 12)
    assert mesh.field_data["blocks"].tolist() == ["fluid", "solid/x"]
    assert mesh.cell_data["block"].tolist() == [0] * 3 + [1] * 12
    assert mesh.cell_data["q"].tolist() == [*Q.tolist(), *(np.arange(12) / 7).tolist()]


CORPUS["vtm"] = blocks(".vtm"), is_blocks
CORPUS["vtmb"] = blocks(".vtmb"), is_blocks


# ---------------------------------------------------------------------------------------------------------------------
# meshio


def by_meshio(suffix: str, form: str, needs: str = "", **options: Any) -> Write:
    def write(folder: Path) -> Path:
        if needs:
            pytest.importorskip(needs)
        fields = form not in ("abaqus", "nastran", "su2", "off", "stl", "obj")
        cells = [("triangle", np.array([[0, 1, 4], [3, 4, 6]]))] if form in ("off", "stl", "obj") else CELLS
        points = POINTS[:, :2] if form == "su2" else POINTS
        mesh = meshio.Mesh(points, cells, *([{"u": U}, {"q": [Q[:2], Q[2:]]}] if fields else []))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            meshio.write(folder / f"a{suffix}", mesh, file_format=form, **options)
        return folder / f"a{suffix}"

    return write


def bare(mesh: MeshData) -> None:
    is_plate(mesh, None, None)


def triangles(mesh: MeshData) -> None:
    assert mesh.cell_type.tolist() == [5, 5]
    corners = mesh.points[mesh.cell_index].reshape(2, 3, 3).numpy()
    np.testing.assert_allclose(corners, POINTS[[[0, 1, 4], [3, 4, 6]]])


for suffix, form, check, options in (
    (".vtu", "vtu", is_plate, {}),
    (".vtu", "vtu", is_plate, {"binary": False}),
    (".vtk", "vtk42", is_plate, {}),
    (".vtk", "vtk51", is_plate, {}),
    (".vtk", "vtk51", lambda m: is_plate(m, digits=1e-9), {"binary": False}),
    (".ply", "ply", lambda m: is_plate(m, q=None), {}),
    (".ply", "ply", lambda m: is_plate(m, q=None), {"binary": False}),
    (".stl", "stl", triangles, {}),
    (".stl", "stl", triangles, {"binary": True}),
    (".obj", "obj", triangles, {}),
    (".off", "off", triangles, {}),
    (".inp", "abaqus", bare, {}),
    (".bdf", "nastran", bare, {}),
    (".bdf", "nastran", bare, {"point_format": "free"}),
    (".nas", "nastran", bare, {"point_format": "fixed-small"}),
    (".fem", "nastran", bare, {"cell_format": "fixed-large"}),
    (".su2", "su2", bare, {}),
    (".xdmf", "xdmf", is_plate, {"data_format": "XML"}),
    (".xdmf", "xdmf", is_plate, {"data_format": "Binary"}),
    (".xmf", "xdmf", is_plate, {"data_format": "HDF"}),
):
    CORPUS[f"meshio {suffix} {form} {' '.join(map(str, options.values()))}".strip()] = (
        by_meshio(suffix, form, **options),
        check,
    )
CORPUS["meshio .med"] = by_meshio(".med", "med", "h5py"), is_plate
CORPUS["meshio .e"] = by_meshio(".e", "exodus", "netCDF4"), lambda m: is_plate(m, q=None)


# ---------------------------------------------------------------------------------------------------------------------
# gmsh


def by_gmsh(name: str, order: int, dim: int) -> Write:
    def write(folder: Path) -> Path:
        gmsh = pytest.importorskip("gmsh")
        gmsh.initialize(interruptible=False)
        try:
            gmsh.option.setNumber("General.Terminal", 0)
            gmsh.option.setNumber("Mesh.MeshSizeMax", 0.7)
            gmsh.option.setNumber("Mesh.SecondOrderIncomplete", 1)
            gmsh.option.setNumber("Mesh.SaveGroupsOfNodes", 1)
            solid = dim == 3
            tag = gmsh.model.occ.addBox(0, 0, 0, 1, 1, 1) if solid else gmsh.model.occ.addRectangle(0, 0, 0, 1, 1)
            gmsh.model.occ.synchronize()
            gmsh.model.addPhysicalGroup(dim, [tag], 1, "body")
            gmsh.model.addPhysicalGroup(dim - 1, [1, 2], 2, "ends")
            gmsh.model.mesh.generate(dim)
            gmsh.model.mesh.setOrder(order)
            gmsh.write(str(folder / name))
        finally:
            gmsh.finalize()
        return folder / name

    return write


def is_unit(codes: set[int], regions: tuple[str, ...] = ()) -> Check:
    """The unit square or cube, mid-edge nodes in the middle of their edges, groups where they are."""

    def check(mesh: MeshData) -> None:
        kinds = set(mesh.cell_type.tolist())
        assert codes <= kinds
        top = mesh.cell_type == max(codes)
        cells = mesh.cell_type, mesh.cell_size, mesh.cell_index, mesh.polyhedra
        measures = cell_measure(mesh.points.double(), *cells)
        assert float(measures[top].sum()) == pytest.approx(1, abs=1e-6)
        edges = cell_edges(*cells)
        assert float((mesh.points[edges[0]] - mesh.points[edges[1]]).norm(dim=1).max()) < 1
        for name in regions:
            assert members(mesh, name)
        if "body" in regions:
            assert members(mesh, "body") == top.nonzero().squeeze(1).tolist()

    return check


for name, order, dim, check in (
    ("a.msh", 1, 2, is_unit({5})),
    ("a.msh2", 2, 3, is_unit({24})),
    ("a.inp", 1, 2, is_unit({3, 5}, ("body", "ends"))),
    ("a.inp", 2, 2, is_unit({21, 22}, ("body", "ends"))),
    ("a.inp", 2, 3, is_unit({22, 24}, ("body", "ends"))),
    ("a.bdf", 1, 2, is_unit({5})),
    ("a.bdf", 1, 3, is_unit({10})),
    ("a.su2", 1, 2, is_unit({3, 5}, ("ends",))),
    ("a.su2", 1, 3, is_unit({5, 10}, ("ends",))),
    ("a.vtk", 1, 3, is_unit({10})),
    ("a.stl", 1, 2, is_unit({5})),
):
    CORPUS[f"gmsh {name} order {order} {dim}-D"] = by_gmsh(name, order, dim), check


# ---------------------------------------------------------------------------------------------------------------------
# trimesh


def scene() -> Any:
    import trimesh

    out = trimesh.Scene()
    box = trimesh.creation.box()
    move = trimesh.transformations.translation_matrix
    out.graph.update(frame_from="world", frame_to="group", matrix=move([10, 0, 0]))
    out.add_geometry(box, geom_name="box", node_name="one", parent_node_name="group", transform=move([0, 5, 0]))
    out.add_geometry(box, geom_name="box2", node_name="two")
    return out


def by_trimesh(suffix: str) -> Write:
    def write(folder: Path) -> Path:
        import trimesh

        if suffix == ".gltf":
            for name, content in scene().export(file_type="gltf").items():
                (folder / name).write_bytes(content)
            return folder / "model.gltf"
        mesh = scene() if suffix == ".glb" else trimesh.creation.box()
        content = mesh.export(file_type=suffix[1:])
        (folder / f"a{suffix}").write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder / f"a{suffix}"

    return write


def is_scene(mesh: MeshData) -> None:
    assert mesh.num_cells == 24
    centres = mesh.points[mesh.cell_index].reshape(24, 9)[:, :3]
    for number in range(2):
        own = centres[mesh.cell_data["object"] == number]
        x = 10 if float(own[:, 0].mean()) > 5 else 0
        assert own[:, 0].min() >= x - 0.51
        assert own[:, 1].max() <= (5.51 if x else 0.51)
    assert float(mesh.points[:, 0].max()) == pytest.approx(10.5)
    assert float(mesh.points[:, 1].max()) == pytest.approx(5.5)
    assert measure(mesh) == pytest.approx(12)


def is_box(mesh: MeshData) -> None:
    assert (mesh.num_points, mesh.num_cells) == (8, 12)
    assert measure(mesh) == pytest.approx(6)


for suffix in (".glb", ".gltf"):
    CORPUS[f"trimesh {suffix}"] = by_trimesh(suffix), is_scene
for suffix in (".off", ".ply", ".stl", ".obj"):
    CORPUS[f"trimesh {suffix}"] = by_trimesh(suffix), is_box


# ---------------------------------------------------------------------------------------------------------------------
# by hand


def is_channel(mesh: MeshData) -> None:
    assert (mesh.num_points, mesh.num_cells) == (16, 3)
    assert mesh.cell_type.tolist() == [12] * 3
    assert measure(mesh) == pytest.approx(3)
    assert mesh.cell_data["p"].tolist() == [5, 6, 7]
    assert mesh.cell_data["U"].tolist() == [[0.5, 0, 0], [0.5, 0, 1], [0.5, 0, 2]]
    assert mesh.field_data["TimeValue"].tolist() == [0.5]
    assert members(mesh, "inlet") == [0]
    assert members(mesh, "outlet") == [2]
    assert members(mesh, "walls") == [0, 1, 2]
    assert mesh.points[members(mesh, "inlet", "point")][:, 0].tolist() == [0] * 4
    assert mesh.points[members(mesh, "outlet", "point")][:, 0].tolist() == [3] * 4
    assert "p" not in mesh.point_data


def foam_file(folder: Path) -> Path:
    (foreign.foam_case(folder / "case") / "a.foam").touch()
    return folder / "case" / "a.foam"


def decomposed(folder: Path) -> Path:
    foreign.foam_case(folder / "processor0", 2, 0, ("inlet", "procBoundary0to1"), of=0)
    foreign.foam_case(folder / "processor1", 1, 2, ("procBoundary1to0", "outlet"), of=1)
    return folder


def is_decomposed(mesh: MeshData) -> None:
    assert mesh.cell_data["block"].tolist() == [0, 0, 1]
    assert mesh.field_data["blocks"].tolist() == ["processor0", "processor1"]
    assert not any("procBoundary" in name for name in mesh.point_data)
    is_channel(mesh)


def regions(folder: Path) -> Path:
    foreign.foam_case(folder, 3, 0, region="fluid")
    foreign.foam_case(folder, 2, 7, region="solid")
    return folder


def is_regions(mesh: MeshData) -> None:
    assert mesh.field_data["blocks"].tolist() == ["fluid", "solid"]
    assert mesh.cell_data["block"].tolist() == [0, 0, 0, 1, 1]
    assert mesh.cell_data["p"].tolist() == [5, 6, 7, 12, 13]
    assert members(mesh, "solid/inlet") == [3]


CORPUS["OpenFOAM file"] = foam_file, is_channel
CORPUS["OpenFOAM directory"] = lambda folder: foreign.foam_case(folder / "case"), is_channel
CORPUS["OpenFOAM decomposed"] = decomposed, is_decomposed
CORPUS["OpenFOAM regions"] = regions, is_regions
CORPUS["OpenFOAM zones"] = (
    lambda folder: foreign.foam_zone(foreign.foam_case(folder / "case")),
    lambda m: [is_channel(m), members(m, "porous") == [0, 2] or pytest.fail("porous")],
)


def is_exodus(mesh: MeshData) -> None:
    is_plate(mesh, u=None, q=None)
    assert mesh.field_data["blocks"].tolist() == ["steel", "air"]
    assert mesh.cell_data["block"].tolist() == [0, 0, 1]
    assert members(mesh, "clamped", "point") == [0, 1, 2]
    assert members(mesh, "node set 6", "point") == [6]
    assert members(mesh, "bottom") == [0, 1]
    assert members(mesh, "bottom", "point") == [0, 1, 2]
    assert members(mesh, "top") == [2]
    assert members(mesh, "top", "point") == [4, 6]


def is_exodus_in_time(mesh: MeshData) -> None:
    is_exodus(mesh)
    assert mesh.point_data["u"].tolist() == (U + 0.5).tolist()
    assert mesh.field_data["TimeValue"].tolist() == [0.5]


CORPUS["Exodus .e"] = lambda folder: foreign.exodus(folder / "a.e"), is_exodus_in_time
CORPUS["Exodus .exo without times"] = lambda folder: foreign.exodus(folder / "a.exo", ()), is_exodus


def cgns(zones: int) -> Write:
    def write(folder: Path) -> Path:
        pytest.importorskip("h5py")
        return foreign.cgns(folder / "a.cgns", zones)

    return write


def is_cgns(zones: int) -> Check:
    def check(mesh: MeshData) -> None:
        assert (mesh.num_points, mesh.num_cells) == (12 * zones, 2 * zones)
        assert measure(mesh) == pytest.approx(2 * zones)
        assert mesh.cell_data["Pressure"].tolist() == [1.5, 2.5, 11.5, 12.5][: 2 * zones]
        for name in ("left", "wall"):
            assert members(mesh, name) == [0, 2][:zones]
            assert mesh.points[members(mesh, name, "point")][:, 0].unique().tolist() == [0, 5][:zones]
        if zones > 1:
            assert mesh.field_data["blocks"].tolist() == ["zone0", "zone1"]

    return check


CORPUS["CGNS"] = cgns(1), is_cgns(1)
CORPUS["CGNS of two zones"] = cgns(2), is_cgns(2)


def is_ensight(mesh: MeshData) -> None:
    assert mesh.cell_type.tolist() == QUADS
    assert mesh.num_points == 6 + 3
    assert mesh.field_data["blocks"].tolist() == ["fluid", "solid"]
    assert mesh.point_data["p"].tolist() == [*range(5, 11), 105, 106, 107]
    assert mesh.cell_data["q"].tolist() == [5, 6, 105]
    assert mesh.field_data["TimeValue"].tolist() == [0.5]


for order, what in (("", "text"), ("<", "little"), (">", "big")):
    CORPUS[f"EnSight {what}"] = lambda folder, order=order: foreign.ensight(folder / "a.case", order), is_ensight


def is_assembly(mesh: MeshData) -> None:
    assert mesh.cell_type.tolist() == [12, 12]
    assert measure(mesh) == pytest.approx(2)
    assert mesh.field_data["blocks"].tolist() == ["left", "right"]
    assert members(mesh, "solid") == [0, 1]
    assert members(mesh, "bottom", "point") == [0, 1, 2, 3, 8, 9, 10, 11]
    assert members(mesh, "both", "point") == [0, 1, 2, 3, 6, 8, 9, 10, 11, 14]
    assert members(mesh, "load", "point") == [14]
    assert len(members(mesh, "all nodes", "point")) == 16
    assert mesh.points[14].tolist() == pytest.approx([4, 1, 1])  # (1, 1, 1) moved by 5, turned by 90 degrees


def is_flat(mesh: MeshData) -> None:
    bare(mesh)
    assert members(mesh, "cap") == [2]
    assert members(mesh, "all") == [0, 1, 2]
    assert members(mesh, "some") == [0, 2]


CORPUS["Abaqus assembly"] = text("a.inp", foreign.ASSEMBLY), is_assembly
CORPUS["Abaqus flat"] = text("a.inp", foreign.FLAT), is_flat


def included(folder: Path) -> Path:
    (folder / "mesh.inc").write_text(foreign.FLAT)
    (folder / "a.inp").write_text("*HEADING\n*INCLUDE, INPUT=mesh.inc\n*STEP\n")
    return folder / "a.inp"


CORPUS["Abaqus include"] = included, is_flat


def is_marked(mesh: MeshData) -> None:
    assert mesh.cell_type.tolist() == [*QUADS, 3, 3, 3]
    assert mesh.points.tolist() == POINTS.tolist()
    assert members(mesh, "lower wall") == [3, 4]
    assert members(mesh, "top") == [5]


CORPUS["SU2"] = text("a.su2", foreign.SU2), is_marked


def is_coloured(mesh: MeshData) -> None:
    bare(mesh)
    assert mesh.cell_data["RGB"].tolist() == [[255, 0, 0], [0, 255, 0], [0, 0, 255]]


CORPUS["OFF"] = text("a.off", foreign.OFF), is_coloured
CORPUS["OFF with colours of vertices"] = (
    text("a.off", "COFF\n3 1 0\n0 0 0 255 0 0 255\n1 0 0 1 2 3 4\n0 1 0 5 6 7 8\n3 0 1 2\n"),
    lambda m: m.point_data["RGBA"][1].tolist() == [1, 2, 3, 4] or pytest.fail(str(m)),
)
CORPUS["XDMF mixed"] = text("a.xdmf", foreign.xdmf_text()), lambda m: is_plate(m, q=None)
CORPUS["XDMF grid"] = (
    text("a.xdmf", foreign.xdmf_text(structured=True)),
    lambda m: (m.num_cells, m.cell_data["q"].tolist()) == (6, [*range(6)]) or pytest.fail(str(m)),
)


def med_groups(folder: Path) -> Path:
    """As Salome writes them: a type of cells without families, one of a group, a field of some cells only."""
    h5py = pytest.importorskip("h5py")
    path = by_meshio(".med", "med")(folder)
    with h5py.File(path, "a") as file:
        mesh = next(iter(file["ENS_MAA/mesh"].values()))
        triangles = mesh["MAI/TR3"]
        triangles.create_dataset("FAM", data=np.array([-1]))
        mesh["NOE"].create_dataset("FAM", data=np.array([0, 2, 0, 0, 0, 0, 2]))
        for kind, number, names in (("ELEME", -1, ("cap", "all")), ("NOEUD", 2, ("pins",))):
            family = file["FAS/mesh"].create_group(f"{kind}/FAM_{number}")
            family.attrs["NUM"] = number
            rows = np.array([list(name.encode().ljust(80, b"\0")) for name in names], np.int8)
            family.create_group("GRO").create_dataset("NOM", data=rows)
        del next(iter(file["CHA/q"].values()))["MAI.TR3"]
    return path


def is_groups(mesh: MeshData) -> None:
    is_plate(mesh, q=None)
    assert members(mesh, "cap") == members(mesh, "all") == [2]
    assert members(mesh, "pins", "point") == [1, 6]
    assert mesh.cell_data["q"][:2].tolist() == Q[:2].tolist()
    assert bool(mesh.cell_data["q"][2].isnan())


CORPUS["MED with groups"] = med_groups, is_groups


@pytest.mark.parametrize("name", CORPUS)
def test_reads_right(name: str, tmp_path: Path) -> None:
    write, check = CORPUS[name]
    mesh = read_mesh(write(tmp_path))
    assert mesh.validate()
    check(mesh)


def test_the_corpus_is_large() -> None:
    assert len(CORPUS) >= 60


def test_a_nastran_deck_of_all_fields(tmp_path: Path) -> None:
    (tmp_path / "a.bdf").write_text(foreign.DECK)
    with pytest.warns(UserWarning, match=r"holds elements CONM2, which have no shape: they are left out"):
        mesh = read_mesh(tmp_path / "a.bdf")
    assert mesh.cell_type.tolist() == [12, 9, 5, 3]
    assert mesh.cell_data["property"].tolist() == [7, 9, 9, 11]
    assert mesh.points.sum(0).tolist() == [4, 4, 4]
    assert float(cell_measure(mesh.points, mesh.cell_type, mesh.cell_size, mesh.cell_index)[0]) == pytest.approx(1)


# ---------------------------------------------------------------------------------------------------------------------
# what is refused

BROKEN: dict[str, tuple[Write, str]] = {
    "element of Abaqus": (
        text("a.inp", "*NODE\n1,0,0\n*ELEMENT, TYPE=U1\n1,1\n"),
        "element type 'U1' is not supported",
    ),
    "short element": (text("a.inp", "*NODE\n1,0,0\n*ELEMENT, TYPE=S4\n1,1,1,1\n"), "type S4 has not 4 nodes"),
    "lost node": (text("a.inp", "*NODE\n1,0,0\n*ELEMENT, TYPE=S3\n1,1,1,9\n"), "refers to nodes that it does not hold"),
    "lost set": (text("a.inp", "*NODE\n1,0,0\n*NSET, NSET=a\nb,\n"), "the set 'b' that it does not hold"),
    "set in itself": (text("a.inp", "*NODE\n1,0,0\n*NSET, NSET=a\na,\n"), "the set 'a' that it does not hold"),
    "lost include": (text("a.inp", "*INCLUDE, INPUT=b.inp\n"), "it includes '.*b.inp', and there is no such file"),
    "polar nodes": (text("a.inp", "*NODE, SYSTEM=C\n1,0,0\n"), "cylindrical or spherical coordinates"),
    "coordinate system": (text("a.bdf", "GRID,1,4,0.,0.,0.\n"), "grid point 1 is in coordinate system 4"),
    "element of Nastran": (text("a.bdf", "GRID,1,,0.,0.\nCWEIRD,1,1,1\n"), "element CWEIRD is not supported"),
    "half-quadratic": (text("a.bdf", "GRID,1,,0.,0.\nCTETRA,1,1,1,1,1,1,1\n"), "CTETRA 1 lacks some of its 10 nodes"),
    "short SU2": (text("a.su2", "NDIME= 2\nNPOIN= 3\n0 0\n1 1\n"), "fewer lines than NPOIN says"),
    "zones of SU2": (text("a.su2", "NZONE= 2\n"), "it holds 2 zones"),
    "element of SU2": (text("a.su2", "NDIME= 2\nNELEM= 1\n7 0 1 2\n"), "an element that SU2 does not know"),
    "short OFF": (text("a.off", "OFF\n3 1 0\n0 0 0\n"), "the file is shorter than its counts say"),
    "short face": (text("a.off", "OFF\n1 1 0\n0 0 0\n3 0\n"), "a face has fewer nodes than its count says"),
    "no OpenFOAM": (text("a.foam", ""), "there is no mesh of OpenFOAM"),
    "lost block": (
        text(
            "a.vtm",
            '<VTKFile type="vtkMultiBlockDataSet"><vtkMultiBlockDataSet><DataSet file="b.vtu"/></vtkMultiBlockDataSet>'
            "</VTKFile>",
        ),
        "it names 'b.vtu', and there is no such file",
    ),
    "lost arrays": (
        text("a.xdmf", '<Xdmf><Domain><Grid><DataItem Format="HDF">b.h5:/a</DataItem></Grid></Domain></Xdmf>'),
        "it names 'b.h5', and there is no such file",
    ),
    "no geometry": (
        text("a.xdmf", "<Xdmf><Domain><Grid/></Domain></Xdmf>"),
        "it holds no grid, or one without Geometry",
    ),
    "lost topology": (
        text("a.xdmf", "<Xdmf><Domain><Grid><Geometry/></Grid><Grid><Geometry/></Grid></Domain></Xdmf>"),
        "one of its grids has no Topology",
    ),
    "lost geometry": (text("a.case", "FORMAT\ntype: ensight gold\nGEOMETRY\nmodel: b.geo\n"), "Unable to open file"),
    "lost buffer": (text("a.gltf", json.dumps({"buffers": [{"uri": "b.bin"}]})), "it names 'b.bin'"),
    "no CGNS": (text("a.cgns", "garbage"), "it is no valid CGNS file"),
    "no MED": (text("a.med", "garbage"), "it is no valid HDF5 file: "),
    "no netCDF": (text("a.e", "garbage"), "it is no netCDF file"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    write, message = BROKEN[name]
    path = write(tmp_path)
    with pytest.raises(InputError, match=message) as caught:
        read_mesh(path)
    assert str(caught.value).startswith(f"Cannot read '{path}': ")
    assert "\n" not in str(caught.value)


def test_collated_cases_are_refused(tmp_path: Path) -> None:
    (tmp_path / "processors4").mkdir()
    (tmp_path / "a.foam").touch()
    with pytest.raises(InputError, match="collated format; run reconstructPar first"):
        read_mesh(tmp_path / "a.foam")


# ---------------------------------------------------------------------------------------------------------------------
# times

SERIES = {
    "OpenFOAM": foam_file,
    "decomposed": decomposed,
    "Exodus": CORPUS["Exodus .e"][0],
    "EnSight": CORPUS["EnSight text"][0],
}


@pytest.mark.parametrize("name", SERIES)
def test_a_time_is_chosen_and_all_are_a_series(name: str, tmp_path: Path) -> None:
    path = SERIES[name](tmp_path)
    first, last = read_mesh(path, time=0.0), read_mesh(path)
    assert first.field_data["TimeValue"].tolist() == [0]
    series = read_series(path)
    assert series.times.tolist() == [[0, 0.5]]
    moved = 0
    for key in ("point_data", "cell_data"):
        for field, array in series[key].items():
            assert torch.equal(array[:, 0], first[key][field])
            assert torch.equal(array[:, -1], last[key][field])
            assert array.size(1) == (1 if array.dtype == torch.bool or field == "block" else 2)
            moved += not torch.equal(array[:, 0], array[:, -1])
    assert moved
    with pytest.raises(InputError, match=r"it has no time 0.3 \(it has 0, 0.5\)"):
        read_mesh(path, time=0.3)


def test_a_file_of_one_time_has_none_to_choose(tmp_path: Path) -> None:
    path = text("a.vtu", foreign.vtu_text("1.0"))(tmp_path)
    with pytest.raises(InputError, match="VTK unstructured grid holds no times; leave the time out"):
        read_mesh(path, time=0.0)
    path = CORPUS["Exodus .exo without times"][0](tmp_path)
    with pytest.raises(InputError, match=r"it has no time 0 \(it has none\)"):
        read_mesh(path, time=0.0)


def test_the_last_frame_of_an_xdmf_series_is_a_mesh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("h5py")
    monkeypatch.chdir(tmp_path)
    with meshio.xdmf.TimeSeriesWriter("a.xdmf") as writer:
        writer.write_points_cells(POINTS, CELLS)
        for time in (0.0, 0.5):
            writer.write_data(time, {"u": U + time}, {"q": [Q[:2], Q[2:]]})
    assert read_mesh(tmp_path / "a.xdmf").point_data["u"].tolist() == (U + 0.5).tolist()
    assert read_mesh(tmp_path / "a.xdmf", time=0.0).point_data["u"].tolist() == U.tolist()


def test_the_commands_take_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from meshop.cli import main

    case = foreign.foam_case(tmp_path / "case")
    main(["convert", str(case), str(tmp_path / "a.vtu")])
    main(["info", str(case)])
    main(["info", str(tmp_path / "a.vtu")])
    said = capsys.readouterr().out
    assert said.count("points 16   cells 3 hexahedron") == 2
    assert said.count("  names  inlet (4 points, 1 cell), ") == 2
