"""Mesh files as other programs write them, made by hand where no library at hand does."""

from pathlib import Path
from typing import Any

import numpy as np

POINTS = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0], [1, 1, 0], [2, 1, 0], [1, 2, 0]], dtype=float)
CELLS = [("quad", np.array([[0, 1, 4, 3], [1, 2, 5, 4]])), ("triangle", np.array([[3, 4, 6]]))]
U, Q = np.arange(7.0) / 3, np.arange(3.0) / 7


# ---------------------------------------------------------------------------------------------------------------------
# OpenFOAM: a channel of hexahedra along x


def _head(kind: str, name: str, note: str = "") -> str:
    return f"FoamFile\n{{\n version 2.0;\n format ascii;\n class {kind};\n {note}\n object {name};\n}}\n"


def _list(items: list[str]) -> str:
    return "\n".join([str(len(items)), "(", *items, ")", ""])


def foam_case(
    root: Path, n: int = 3, start: int = 0, ends: tuple[str, str] = ("inlet", "outlet"), region: str = "", of: int = 0
) -> Path:
    """A channel of n cells from x = start on, at the times 0 and 0.5: p is 10 t + x of the cell, U is (t, 0, x)."""
    mesh = root / "constant" / region / "polyMesh"
    mesh.mkdir(parents=True)
    nx = n + 1
    points = [(start + i, j, k) for k in range(2) for j in range(2) for i in range(nx)]

    def at(i: int, j: int, k: int) -> int:
        return (k * 2 + j) * nx + i

    groups: dict[str, list[tuple[int, list[int]]]] = {name: [] for name in ("inlet", "outlet", "walls", "sides")}
    between = [name for name in ends if name not in groups]
    groups |= {name: [] for name in between}
    groups[ends[0]].append((0, [at(0, 0, 0), at(0, 0, 1), at(0, 1, 1), at(0, 1, 0)]))
    groups[ends[1]].append((n - 1, [at(n, 0, 0), at(n, 1, 0), at(n, 1, 1), at(n, 0, 1)]))
    for c in range(n):
        d = c + 1
        groups["walls"] += [(c, [at(c, 0, 0), at(d, 0, 0), at(d, 0, 1), at(c, 0, 1)])]
        groups["walls"] += [(c, [at(c, 1, 0), at(c, 1, 1), at(d, 1, 1), at(d, 1, 0)])]
        groups["sides"] += [(c, [at(c, 0, 0), at(c, 1, 0), at(d, 1, 0), at(d, 0, 0)])]
        groups["sides"] += [(c, [at(c, 0, 1), at(d, 0, 1), at(d, 1, 1), at(c, 1, 1)])]
    faces = [(c, [at(c + 1, 0, 0), at(c + 1, 1, 0), at(c + 1, 1, 1), at(c + 1, 0, 1)]) for c in range(n - 1)]
    boundary = []
    for name, own in groups.items():
        kind = "patch" if name not in between else f"processor; myProcNo {of}; neighbProcNo {1 - of}"
        boundary.append(f"{name} {{ type {kind}; nFaces {len(own)}; startFace {len(faces)}; }}")
        faces += own
    note = f'note "nPoints: {len(points)} nCells: {n} nFaces: {len(faces)} nInternalFaces: {n - 1}";'
    rows = [f"4({' '.join(map(str, nodes))})" for _, nodes in faces]
    (mesh / "points").write_text(_head("vectorField", "points") + _list([f"({x} {y} {z})" for x, y, z in points]))
    (mesh / "faces").write_text(_head("faceList", "faces") + _list(rows))
    (mesh / "owner").write_text(_head("labelList", "owner", note) + _list([str(c) for c, _ in faces]))
    (mesh / "neighbour").write_text(_head("labelList", "neighbour", note) + _list([str(c + 1) for c in range(n - 1)]))
    (mesh / "boundary").write_text(_head("polyBoundaryMesh", "boundary") + _list(boundary))
    patches = "\n".join(f"{name} {{ type calculated; value uniform ZERO; }}" for name in groups)
    for time in ("0", "0.5"):
        folder = root / time / region
        folder.mkdir(parents=True, exist_ok=True)
        t = float(time)
        for name, kind, zero, values in (
            ("p", "Scalar", "0", [f"{10 * t + start + c}" for c in range(n)]),
            ("U", "Vector", "(0 0 0)", [f"({t} 0 {start + c})" for c in range(n)]),
        ):
            (folder / name).write_text(
                _head(f"vol{kind}Field", name)
                + f"dimensions [0 0 0 0 0 0 0];\ninternalField nonuniform List<{kind.lower()}> {_list(values)};\n"
                + f"boundaryField\n{{\n{patches.replace('ZERO', zero)}\n}}\n"
            )
    return root


def foam_zone(root: Path) -> Path:
    """Put the first and last cell of a channel into a zone."""
    zone = "porous { type cellZone; cellLabels List<label> 2(0 2); }"
    (root / "constant" / "polyMesh" / "cellZones").write_text(_head("regIOobject", "cellZones") + _list([zone]))
    return root


# ---------------------------------------------------------------------------------------------------------------------
# Exodus II, CGNS, EnSight


def exodus(path: Path, times: tuple[float, ...] = (0.0, 0.5)) -> Path:
    """After the Exodus II manual: two blocks, a set of nodes with a name and one without, two of sides."""
    from scipy.io import netcdf_file

    with netcdf_file(path, "w", version=2) as file:
        file.title, file.api_version, file.version = "a", np.float32(8.03), np.float32(8.03)
        file.floating_point_word_size, file.file_size = np.int32(8), np.int32(1)
        for name, size in {
            "time_step": None, "len_string": 33, "len_line": 81, "len_name": 33, "four": 4, "num_dim": 2,
            "num_nodes": 7, "num_elem": 3, "num_el_blk": 2, "num_el_in_blk1": 2, "num_nod_per_el1": 4,
            "num_el_in_blk2": 1, "num_nod_per_el2": 3, "num_nod_var": 1, "num_node_sets": 2, "num_nod_ns1": 3,
            "num_nod_ns2": 1, "num_side_sets": 2, "num_side_ss1": 2, "num_side_ss2": 1,
        }.items():  # fmt: skip
            file.createDimension(name, size)

        def put(name: str, kind: str, axes: tuple[str, ...], values: Any) -> Any:
            variable = file.createVariable(name, kind, axes)
            variable[:] = values
            return variable

        def text(*names: str) -> np.ndarray:
            return np.array([list(name.ljust(33, "\0").encode()) for name in names], np.uint8).view("S1")

        for letters, key, names in (
            ("eb", "num_el_blk", ("steel", "air")),
            ("ns", "num_node_sets", ("clamped", "")),
            ("ss", "num_side_sets", ("bottom", "top")),
        ):
            put(f"{letters}_prop1", "i", (key,), [5, 6]).name = "ID"
            put(f"{letters}_status", "i", (key,), [1, 1])
            put(f"{letters}_names", "c", (key, "len_string"), text(*names))
        for axis, letter in enumerate("xy"):
            put(f"coord{letter}", "d", ("num_nodes",), POINTS[:, axis])
        for block, (kind, (_, cells)) in enumerate(zip(("QUAD4", "TRI3"), CELLS, strict=True), start=1):
            axes = (f"num_el_in_blk{block}", f"num_nod_per_el{block}")
            put(f"connect{block}", "i", axes, cells + 1).elem_type = kind
        put("node_ns1", "i", ("num_nod_ns1",), [1, 2, 3])
        put("node_ns2", "i", ("num_nod_ns2",), [7])
        put("elem_ss1", "i", ("num_side_ss1",), [1, 2])
        put("side_ss1", "i", ("num_side_ss1",), [1, 1])
        put("elem_ss2", "i", ("num_side_ss2",), [3])
        put("side_ss2", "i", ("num_side_ss2",), [2])
        if times:
            put("name_nod_var", "c", ("num_nod_var", "len_string"), text("u"))
            put("time_whole", "d", ("time_step",), times)
            put("vals_nod_var1", "d", ("time_step", "num_nodes"), [U + t for t in times])
    return path


def cgns(path: Path, zones: int = 1) -> Path:
    """After the CGNS manual's mapping to HDF5: zones of two hexahedra each, with a wall of one face."""
    import h5py

    def node(parent: Any, name: str, label: str, data: Any = None) -> Any:
        group = parent.create_group(name, track_order=True)
        if isinstance(data, str):
            kind, data = "C1", np.frombuffer(data.encode(), np.int8)
        else:
            kind = "MT" if data is None else {"int32": "I4", "float64": "R8", "float32": "R4"}[data.dtype.name]
        for key, value, size in (("name", name, 33), ("label", label, 33), ("type", kind, 3)):
            group.attrs.create(key, np.bytes_(value), dtype=f"S{size}")
        group.attrs.create("flags", np.array([1], np.int32))
        if data is not None:
            group.create_dataset(" data", data=data)
        return group

    with h5py.File(path, "w", track_order=True) as file:
        for key, value, size in (
            ("name", "HDF5 MotherNode", 33),
            ("label", "Root Node of HDF5 File", 33),
            ("type", "MT", 3),
        ):
            file.attrs.create(key, np.bytes_(value), dtype=f"S{size}")
        file.create_dataset(" format", data=np.frombuffer(b"IEEE_LITTLE_32\0", np.int8))
        file.create_dataset(" hdf5version", data=np.frombuffer(b"HDF5 Version 1.8".ljust(33, b"\0"), np.int8))
        node(file, "CGNSLibraryVersion", "CGNSLibraryVersion_t", np.array([3.3], np.float32))
        base = node(file, "Base", "CGNSBase_t", np.array([3, 3], np.int32))
        for k in range(zones):
            points = np.array([(i + 5 * k, j, l) for l in range(2) for j in range(2) for i in range(3)], float)
            zone = node(base, f"zone{k}", "Zone_t", np.array([[12], [2], [0]], np.int32))
            node(zone, "ZoneType", "ZoneType_t", "Unstructured")
            grid = node(zone, "GridCoordinates", "GridCoordinates_t")
            for axis, letter in enumerate("XYZ"):
                node(grid, f"Coordinate{letter}", "DataArray_t", points[:, axis])
            hexes = np.array([[1, 2, 5, 4, 7, 8, 11, 10], [2, 3, 6, 5, 8, 9, 12, 11]], np.int32)
            for name, kind, first, cells in (
                ("Solid", 17, 1, hexes),
                ("left", 7, 3, np.array([[1, 7, 10, 4]], np.int32)),
            ):
                section = node(zone, name, "Elements_t", np.array([kind, 0], np.int32))
                node(section, "ElementRange", "IndexRange_t", np.array([first, first + len(cells) - 1], np.int32))
                node(section, "ElementConnectivity", "DataArray_t", cells.ravel())
            wall = node(node(zone, "ZoneBC", "ZoneBC_t"), "wall", "BC_t", "BCWall")
            node(wall, "PointRange", "IndexRange_t", np.array([[3, 3]], np.int32))
            node(wall, "GridLocation", "GridLocation_t", "FaceCenter")
            node(wall, "FamilyName", "FamilyName_t", "walls")
            flow = node(zone, "Flow", "FlowSolution_t")
            node(flow, "GridLocation", "GridLocation_t", "CellCenter")
            node(flow, "Pressure", "DataArray_t", np.array([1.5, 2.5]) + 10 * k)
        node(base, "walls", "Family_t")
    return path


def ensight(path: Path, binary: str = "") -> Path:
    """After the EnSight manual: two parts at the times 0 and 0.5, in text or in binary of an order of bytes."""
    out = b""

    def word(value: str) -> None:
        nonlocal out
        out += value.encode().ljust(80, b"\0") if binary else f"{value}\n".encode()

    def numbers(values: Any, kind: str, across: bool = False) -> None:
        nonlocal out
        values = np.atleast_1d(values)
        if binary:
            out += values.astype(binary + {"i": "i4", "f": "f4"}[kind]).tobytes()
        else:
            words = [f"{v:10d}" if kind == "i" else f"{v:12.5e}" for v in values.tolist()]
            out += ("".join(words) + "\n" if across else "".join(f"{w}\n" for w in words)).encode()

    parts = [("fluid", POINTS[:6], CELLS[0][1], "quad4"), ("solid", POINTS[[3, 4, 6]], np.array([[0, 1, 2]]), "tria3")]
    if binary:
        word("C Binary")
    for line in ("made", "by hand", "node id assign", "element id assign"):
        word(line)
    for number, (name, points, cells, kind) in enumerate(parts, start=1):
        word("part")
        numbers(number, "i")
        word(name)
        word("coordinates")
        numbers(len(points), "i")
        numbers(points.T.ravel(), "f")
        word(kind)
        numbers(len(cells), "i")
        for row in cells + 1:
            numbers(row, "i", across=True)
    path.with_suffix(".geo").write_bytes(out)
    for frame, time in enumerate((0.0, 0.5)):
        for name, values in (("p", "point"), ("q", "cell")):
            out = b""
            word(name)
            for number, (_, points, cells, kind) in enumerate(parts, start=1):
                word("part")
                numbers(number, "i")
                word("coordinates" if values == "point" else kind)
                count = len(points) if values == "point" else len(cells)
                numbers(np.arange(count) + 10 * time + 100 * (number - 1), "f")
            path.with_name(f"{path.stem}.{name}{frame:04d}").write_bytes(out)
    path.write_text(
        f"FORMAT\ntype: ensight gold\nGEOMETRY\nmodel: {path.stem}.geo\nVARIABLE\n"
        f"scalar per node: 1 p {path.stem}.p****\nscalar per element: 1 q {path.stem}.q****\n"
        "TIME\ntime set: 1\nnumber of steps: 2\nfilename start number: 0\nfilename increment: 1\ntime values: 0.0 0.5\n"
    )
    return path


# ---------------------------------------------------------------------------------------------------------------------
# texts

ASSEMBLY = """*HEADING
two bricks
** a comment
*PART, NAME=Brick
*NODE, NSET=all nodes
 1, 0., 0., 0.
 2, 1., 0., 0.
 3, 1., 1., 0.
 4, 0., 1., 0.
 15, 0., 0., 1.
 16, 1., 0., 1.
 17, 1., 1., 1.D0
 18, 0., 1., 1.
*ELEMENT, TYPE=C3D8R, ELSET=solid
 1, 1, 2, 3, 4,
 15, 16, 17, 18
*NSET, NSET=bottom, GENERATE
 1, 4, 1
*NSET, NSET=both
 bottom, 17
*SOLID SECTION, ELSET=solid, MATERIAL=steel
*END PART
*ASSEMBLY, NAME=A
*INSTANCE, NAME=left, PART=Brick
*END INSTANCE
*INSTANCE, NAME=right, PART=brick
 5., 0., 0.
 5., 0., 0., 5., 0., 1., 90.
*END INSTANCE
*NSET, NSET=load, INSTANCE=right
 17,
*END ASSEMBLY
*STEP
*END STEP
"""

FLAT = """*NODE
1, 0, 0
2, 1, 0
3, 2, 0
4, 0, 1
5, 1, 1
6, 2, 1
7, 1, 2
*Element, type=CPE4
101, 1, 2, 5, 4
102, 2, 3, 6, 5
*Element, type=CPS3, elset=cap
103, 4, 5, 7
*ELSET, ELSET=all, GENERATE
101, 103
*ELSET, ELSET=some
cap, 101
"""

# small, large and free fields, continued; the numbers of the exponents without an E
DECK = """SOL 101
CEND
BEGIN BULK
$ a comment
GRID           1              0.      0.      0.
GRID           2            1.+0      0.      0.
GRID*                  3                              1.              1.
*                     0.
GRID,4,,0.,1.
GRID,5,,0.,0.,1.
GRID           6              1.      0.      1.
GRID           7              1.      1.   10.-1
GRID           8              0.      1.      1.
CHEXA          1       7       1       2       3       4       5       6+
+              7       8
CQUAD4*                2               9               1               2
*                      3               4
CTRIA3,3,9,1,2,3,0.5
CBAR           4      11       1       5     1.0     0.0     0.0
CONM2          5       1            1.0
CORD2R         3               0.      0.      0.      0.      0.      1.
               1.      0.      0.
ENDDATA
"""

SU2 = """% a plate
NDIME= 2
NELEM= 3
9 0 1 4 3 0
9 1 2 5 4 1
5 3 4 6 2
NPOIN= 7 7
0 0 0
1 0 1
2 0 2
0 1 3
1 1 4
2 1 5
1 2 6
NMARK= 2
MARKER_TAG= lower wall
MARKER_ELEMS= 2
3 0 1
3 1 2
MARKER_TAG= top
MARKER_ELEMS= 1
3 5 4
"""

OFF = """OFF
# a comment
7 3 0

0 0 0  # the origin
1 0 0
2 0 0
0 1 0
1 1 0
2 1 0
1 2 0
4 0 1 4 3  255 0 0
4 1 2 5 4  0 255 0
3 3 4 6    0 0 255
"""


def vtu_text(version: str) -> str:
    """VTK's XML in text, as written since 2001."""
    nodes = "0 1 4 3 1 2 5 4 3 4 6"
    points = " ".join(map(str, POINTS.ravel()))
    three = 'NumberOfComponents="3"'

    def array(kind: str, name: str, text: str, more: str = "") -> str:
        return f'<DataArray type="{kind}" Name="{name}" format="ascii" {more}>{text}</DataArray>'

    return (
        f'<VTKFile type="UnstructuredGrid" version="{version}" byte_order="LittleEndian"><UnstructuredGrid>'
        '<Piece NumberOfPoints="7" NumberOfCells="3">'
        f"<PointData>{array('Float64', 'u', ' '.join(map(repr, U.tolist())))}</PointData>"
        f"<CellData>{array('Float64', 'q', ' '.join(map(repr, Q.tolist())))}</CellData>"
        f"<Points>{array('Float64', 'Points', points, three)}</Points>"
        f"<Cells>{array('Int32', 'connectivity', nodes)}{array('Int32', 'offsets', '4 8 11')}"
        f"{array('UInt8', 'types', '9 9 5')}</Cells></Piece></UnstructuredGrid></VTKFile>"
    )


def xdmf_text(structured: bool = False) -> str:
    """XDMF in text."""
    if structured:
        return (
            '<Xdmf Version="2.0"><Domain><Grid Name="g"><Topology TopologyType="2DCoRectMesh" Dimensions="3 4"/>'
            '<Geometry GeometryType="ORIGIN_DXDY"><DataItem Dimensions="2" Format="XML">0 0</DataItem>'
            '<DataItem Dimensions="2" Format="XML">1 1</DataItem></Geometry>'
            '<Attribute Name="q" Center="Cell"><DataItem Dimensions="2 3" Format="XML">0 1 2 3 4 5</DataItem>'
            "</Attribute>"
            "</Grid></Domain></Xdmf>"
        )
    return (
        '<Xdmf Version="3.0"><Domain><Grid Name="g"><Topology TopologyType="Mixed" NumberOfElements="3">'
        '<DataItem Dimensions="14" NumberType="Int" Format="XML">5 0 1 4 3 5 1 2 5 4 4 3 4 6</DataItem></Topology>'
        '<Geometry GeometryType="XYZ"><DataItem Dimensions="7 3" Precision="8" Format="XML">'
        f"{' '.join(map(str, POINTS.ravel()))}</DataItem></Geometry>"
        '<Attribute Name="u" Center="Node"><DataItem Dimensions="7" Precision="8" Format="XML">'
        f"{' '.join(map(repr, U.tolist()))}</DataItem></Attribute></Grid></Domain></Xdmf>"
    )
