"""Forces: theorems on closed surfaces, and convergence of the drag of a sphere."""

import math

import pytest
import torch

from meshop.data import InputError
from meshop.geometry import cell_area_vector, cell_centroid
from meshop.io import from_pyvista
from meshop.metrics import force_coefficient, surface_force


def _sphere(size, radius=2.0):
    import pyvista as pv

    mesh = from_pyvista(pv.Sphere(radius=radius, center=(5, -3, 1), theta_resolution=2 * size, phi_resolution=size))
    cells = mesh.cell_type, mesh.cell_size, mesh.cell_index
    points = mesh.points.double()
    return cell_area_vector(points, *cells), cell_centroid(points, *cells)


def test_sphere_in_a_linear_pressure_field_is_lifted_by_the_volume():
    """Archimedes: F = -grad p V, exactly for the polyhedron's own volume, which tends to 4/3 pi r^3 like h^2."""
    gradient = torch.tensor([0.5, 2.0, -9.81], dtype=torch.float64)
    off = []
    for size in (10, 20, 40):
        area, centre = _sphere(size)
        force = surface_force(101325 + centre @ gradient, area)
        volume = (area * centre).sum() / 3
        torch.testing.assert_close(force, -gradient[None] * volume)
        off.append(abs(volume.item() - 4 / 3 * math.pi * 8))
    assert off[0] > 3.7 * off[1] > 13 * off[2]


def test_drag_of_a_sphere_in_stokes_flow():
    """p = -3/2 mu U cos / a, tau_theta = 3/2 mu U sin / a: drag 6 pi mu U a, a third of it by pressure."""
    mu, speed, radius = 1e-3, 0.7, 2.0
    off = []
    for size in (10, 20, 40):
        area, _ = _sphere(size, radius)
        normal = area / area.norm(dim=1, keepdim=True)
        flow = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
        stress = 1.5 * mu * speed / radius
        cosine = normal @ flow
        shear = stress * (flow - cosine[:, None] * normal)
        pressure = -stress * cosine
        force = surface_force(pressure, area, shear)
        assert surface_force(pressure, area)[0, 2].item() == pytest.approx(2 * math.pi * mu * speed * radius, rel=0.03)
        assert force[0, :2].abs().max().item() < 1e-9
        off.append(abs(force[0, 2].item() / (6 * math.pi * mu * speed * radius) - 1))
        drag = force_coefficient(force, flow, speed, math.pi * radius**2, density=1000.0)
        assert drag.item() == pytest.approx(24 / (1000 * speed * 2 * radius / mu), rel=0.03)  # 24 / Re
    assert off[0] > 3.7 * off[1] > 13 * off[2]


def test_lift_of_a_cylinder_with_circulation_is_that_of_kutta_and_joukowski():
    """Potential flow in the plane: no drag, and lift rho U Gamma per metre of span."""
    rho, speed, radius, circulation = 1.2, 3.0, 0.5, -4.0
    lift = []
    for size in (50, 100):
        angle = torch.arange(size, dtype=torch.float64) * 2 * torch.pi / size
        points = radius * torch.stack([angle.cos(), angle.sin()], dim=1)
        index = torch.stack([torch.arange(size), (torch.arange(size) + 1) % size], dim=1).flatten()
        area = cell_area_vector(points, torch.full((size,), 3), torch.full((size,), 2), index)
        assert (area * (points + points.roll(-1, 0))).sum() > 0  # out of the body
        middle = angle + torch.pi / size
        pressure = -rho / 2 * (-2 * speed * middle.sin() + circulation / (2 * torch.pi * radius)).square()
        force = surface_force(pressure, area)
        assert abs(force[0, 0].item()) < 1e-12
        lift.append(abs(force[0, 1].item() + rho * speed * circulation))
        torch.testing.assert_close(
            force_coefficient(force, torch.tensor([0.0, 9.0]).double(), speed, 2 * radius, rho),
            force[:, 1] / (0.5 * rho * speed**2 * 2 * radius),
        )
    assert lift[0] > 3.7 * lift[1]


def test_bodies_of_a_batch_stay_apart():
    area, centre = _sphere(6)
    pressure, batch = centre[:, 0], torch.arange(len(area)) % 2
    both = surface_force(pressure, area, area, batch, batch_size=3)
    for body in range(2):
        n = batch == body
        torch.testing.assert_close(both[body], surface_force(pressure[n], area[n], area[n])[0])
    assert not both[2].any()
    speeds = torch.tensor([1.0, 2.0, 3.0]).double()
    per_body = force_coefficient(both, torch.eye(3).double(), speeds, area=torch.ones(3).double())
    torch.testing.assert_close(per_body, both.diagonal() * 2 / speeds.square())


def test_shapes_that_do_not_fit():
    with pytest.raises(InputError, match=r"of the same cells \(got \[4, 1\] and \[4, 3\]\)"):
        surface_force(torch.zeros(4, 1), torch.zeros(4, 3))
    with pytest.raises(InputError, match=r"\(got \[4\] and \[4, 3\] and \[3\]\)"):
        surface_force(torch.zeros(4), torch.zeros(4, 3), torch.zeros(3))
