"""Area vectors as theorems: length is area, closed surfaces have none, any cell of a surface will do."""

import pytest
import torch
from pyvista.examples import cells as vtk_cells

from meshop.data import InputError
from meshop.geometry import cell_area_vector, cell_measure
from meshop.io import from_pyvista


def _cells(mesh):
    return mesh.cell_type, mesh.cell_size, mesh.cell_index


@pytest.mark.parametrize(
    "name",
    [
        *("Triangle", "Quadrilateral", "Polygon", "Pixel", "TriangleStrip", "QuadraticTriangle"),
        *("QuadraticQuadrilateral", "BiQuadraticQuadrilateral", "LagrangeTriangle", "LagrangeQuadrilateral"),
    ],
)
def test_length_is_the_area_and_direction_the_normal(name):
    mesh = from_pyvista(getattr(vtk_cells, name)())
    points = mesh.points.double() * torch.tensor([1.0, 1.0, 0.0])
    spin = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64)).Q
    area = cell_area_vector(points @ spin.T + 1e3, *_cells(mesh))
    flat = cell_area_vector(points, *_cells(mesh))
    assert not flat[:, :2].any()
    torch.testing.assert_close(area, flat @ spin.T * spin.det())
    torch.testing.assert_close(area.norm(dim=1), cell_measure(points, *_cells(mesh)))


def test_a_closed_surface_has_none_and_its_volume_is_that_of_the_divergence_theorem():
    import pyvista as pv

    for surface in (pv.Cube(x_length=2, y_length=3, z_length=4), pv.Cone(resolution=7, height=3, radius=2)):
        mesh = from_pyvista(surface.clean())
        area = cell_area_vector(mesh.points.double(), *_cells(mesh))
        assert area.sum(0).abs().max() < 1e-5
        owner = torch.arange(len(area)).repeat_interleave(mesh.cell_size)
        centre = torch.zeros_like(area).index_add(0, owner, mesh.points.double()[mesh.cell_index])
        volume = (area * centre / mesh.cell_size[:, None]).sum() / 3
        assert volume.item() == pytest.approx(surface.volume, rel=1e-5)


def test_cells_of_another_dimension_are_an_error():
    points = torch.rand(8, 3)
    with pytest.raises(InputError, match=r"the cells of a surface in 3-D \(got a line\)"):
        cell_area_vector(points, torch.tensor([3]), torch.tensor([2]), torch.tensor([0, 1]))
    with pytest.raises(InputError, match=r"the cells of a surface in 3-D \(got a hexahedron\)"):
        cell_area_vector(points, torch.tensor([12]), torch.tensor([8]), torch.arange(8))
    with pytest.raises(InputError, match=r"the cells of a surface \(got a polyhedron\)"):
        cell_area_vector(points, torch.tensor([42]), torch.tensor([4]), torch.arange(4))
    assert cell_area_vector(points[:, :2], *[torch.empty(0, dtype=torch.long)] * 3).shape == (0, 2)
