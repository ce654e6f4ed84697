"""A gallery of small meshes, one a cell type and some mixed, with coordinates of infinitely many decimals."""

import numpy as np
import torch
from pyvista.examples import cells as vtk_cells

from meshop.data import Arrays, MeshData
from meshop.io import from_pyvista

NAMES = """
Vertex PolyVertex Line PolyLine Triangle TriangleStrip Polygon Pixel Quadrilateral Tetrahedron Voxel Hexahedron Wedge
Pyramid PentagonalPrism HexagonalPrism QuadraticEdge QuadraticTriangle QuadraticQuadrilateral QuadraticPolygon
QuadraticTetrahedron QuadraticHexahedron QuadraticWedge QuadraticPyramid BiQuadraticQuadrilateral BiQuadraticTriangle
TriQuadraticHexahedron TriQuadraticPyramid QuadraticLinearQuadrilateral QuadraticLinearWedge BiQuadraticQuadraticWedge
BiQuadraticQuadraticHexahedron CubicLine ConvexPointSet Polyhedron LagrangeCurve LagrangeTriangle LagrangeQuadrilateral
LagrangeTetrahedron LagrangeHexahedron LagrangeWedge
""".split()  # noqa: SIM905 (a list of as many lines as names otherwise)
# pyvista's name of each VTK cell type
CELLS = {int(getattr(vtk_cells, name)().celltypes[0]): name for name in NAMES}


def decorated(mesh: MeshData) -> MeshData:
    """Turned and shrunk by a third, in double precision, with a scalar and a vector at points and at cells."""
    turn = torch.tensor([[1, 2, 2], [2, 1, -2], [2, -2, 1]], dtype=torch.float64) / 9  # a third of a rotation
    mesh.points = mesh.points.double() @ turn + 1 / 7
    mesh.pos = mesh.points.float()
    p, c = mesh.num_points, mesh.num_cells
    mesh.point_data = Arrays({"p": np.arange(p) / 3, "U": np.arange(3 * p, dtype=np.float32).reshape(p, 3) / 7})
    mesh.cell_data = Arrays({"q": np.arange(c) / 7, "region": np.arange(c, dtype=np.int32) + 5})
    return mesh


def single(code: int) -> MeshData:
    """Two cells of one type side by side, and a point that no cell uses."""
    grid = getattr(vtk_cells, CELLS[code])()
    one = from_pyvista(grid)
    n, size = one.num_points, int(one.cell_size)
    shift = torch.tensor([[0.0, 0, 0]] * n + [[3.0, 0, 0]] * n + [[9.0, 9, 9]])
    faces = int(one.polyhedra[1].max()) + 1 if one.polyhedra.numel() else 0
    step = torch.tensor([[1], [faces], [n]])
    mesh = MeshData.from_cells(
        torch.cat([one.points, one.points, one.points[:1]]) + shift,
        [code, code],
        [one.cell_index.tolist(), (one.cell_index + n).tolist()],
    )
    assert size == one.cell_index.numel()
    mesh.polyhedra = torch.cat([one.polyhedra, one.polyhedra + step], dim=1)
    return decorated(mesh)


def mixed() -> MeshData:
    """Solids of several types in no order, with a surface, a line and a vertex between them."""
    points = torch.tensor([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]])
    more = torch.tensor([[2, 0, 0], [2, 0, 1], [0.5, 0.5, 2], [0.5, 2, 0.5]])
    cells = [
        (9, [0, 1, 2, 3]),
        (12, [0, 1, 2, 3, 4, 5, 6, 7]),
        (13, [1, 8, 2, 5, 9, 6]),
        (3, [0, 1]),
        (14, [4, 5, 6, 7, 10]),
        (10, [2, 3, 7, 11]),
        (12, [1, 0, 3, 2, 5, 4, 7, 6]),
        (1, [11]),
        (10, [2, 7, 6, 11]),
        (5, [1, 8, 9]),
    ]
    return decorated(MeshData.from_cells(torch.cat([points, more]), [c for c, _ in cells], [n for _, n in cells]))


def surface() -> MeshData:
    """Triangles, quads and pentagons in turn."""
    points = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0.5], [2, 0, 0], [2, 1, 0], [1.5, 2, 0], [0.5, 2, 1]]
    cells = [(5, [0, 1, 2]), (9, [1, 4, 5, 2]), (5, [0, 2, 3]), (7, [2, 5, 6, 7, 3]), (9, [0, 1, 4, 7]), (5, [1, 2, 6])]
    return decorated(MeshData.from_cells(points, [c for c, _ in cells], [n for _, n in cells]))


def cloud() -> MeshData:
    """Points without cells."""
    mesh = decorated(MeshData.from_cells([[0, 0, 0], [1, 0, 0], [0, 1, 2]], [], []))
    mesh.cell_data = Arrays()
    return mesh


GALLERY = {f"{CELLS[code]}": lambda code=code: single(code) for code in CELLS} | {
    "mixed": mixed,
    "surface": surface,
    "cloud": cloud,
}


def same_cells(a: MeshData, b: MeshData) -> None:
    """Points, cells and faces agree bit by bit."""
    for key in ("cell_type", "cell_size", "cell_index", "polyhedra"):
        assert torch.equal(a[key], b[key]), key
    assert torch.equal(a.points.double(), b.points.double())


def clone(mesh: MeshData) -> MeshData:
    copy = mesh.clone()
    copy.point_data, copy.cell_data, copy.field_data = (
        Arrays({k: v.clone() if isinstance(v, torch.Tensor) else v.copy() for k, v in mesh[key].items()})
        for key in ("point_data", "cell_data", "field_data")
    )
    return copy


def unchanged(a: MeshData, b: MeshData) -> None:
    """Every key agrees, type and all."""
    assert a.keys() == b.keys()
    for key in a.keys():  # noqa: SIM118 (a Data iterates over key-value pairs)
        x, y = a[key], b[key]
        assert torch.equal(x, y) and x.dtype == y.dtype if isinstance(x, torch.Tensor) else x == y, key
