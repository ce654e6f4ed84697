"""Moving values between points and cells: constants, linear functions, integrals."""

import pytest
import torch
from torch import Tensor

from meshop.geometry import (
    POLYHEDRON,
    cell_centroid,
    cell_measure,
    cells_to_points,
    node_measure,
    points_to_cells,
)

POINTS = torch.tensor(
    [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1], [0.5, 0.5, 2], [5, 5, 5]]
).double()
CUBE = [[0, 3, 2, 1], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]]


def solid(code: int) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """A warped hexahedron (or the same as a polyhedron), a pyramid on it, a line and a vertex."""
    stream = torch.tensor([(0, f, i) for f, face in enumerate(CUBE) for i in face]).t() if code == POLYHEDRON else None
    cells = [(code, list(range(8))), (14, [4, 5, 6, 7, 8]), (3, [0, 1]), (1, [9])]
    return (
        torch.tensor([c for c, _ in cells]),
        torch.tensor([len(n) for _, n in cells]),
        torch.tensor([i for _, n in cells for i in n]),
        stream,
    )


@pytest.mark.parametrize("code", [12, POLYHEDRON])
def test_constants_come_out_exactly_and_linear_functions_at_centroids(code: int) -> None:
    cells = solid(code)
    points = POINTS + 0.1 * torch.rand(10, 3, dtype=torch.float64)
    third = torch.full((10,), 1 / 3)
    assert torch.equal(points_to_cells(third, points, *cells), third[:4])
    around = cells_to_points(third[:4], points, *cells)
    assert torch.equal(around[:9], third[:9])
    assert bool(around[9].isnan())  # no solid touches it
    torch.testing.assert_close(points_to_cells(points, points, *cells), cell_centroid(points, *cells))


@pytest.mark.parametrize("code", [12, POLYHEDRON])
def test_the_integral_is_kept(code: int) -> None:
    cells = solid(code)
    points = POINTS + 0.1 * torch.rand(10, 3, dtype=torch.float64)
    values = torch.rand(4, 2, dtype=torch.float64)
    around = cells_to_points(values, points, *cells)
    measure = cell_measure(points, *cells)
    measure[2:] = 0  # the line and the vertex ride along
    torch.testing.assert_close((node_measure(points, *cells)[:9, None] * around[:9]).sum(0), measure @ values)


def test_values_are_weighted_by_measure() -> None:
    line = torch.tensor([[0.0], [1], [4]])
    cells = torch.tensor([3, 3]), torch.tensor([2, 2]), torch.tensor([0, 1, 1, 2])
    assert cells_to_points(torch.tensor([0.0, 8.0]), line, *cells).tolist() == [0, 6, 8]
    assert points_to_cells(torch.tensor([0.0, 8, 4]), line, *cells).tolist() == [4, 6]


def test_cells_without_measure_or_without_nodes() -> None:
    flat = torch.tensor([[0.0, 0], [1, 0], [3, 0]])
    cells = torch.tensor([5, 0]), torch.tensor([3, 0]), torch.tensor([0, 1, 2])
    means = points_to_cells(torch.tensor([1.0, 2, 6]), flat, *cells)
    assert means[0] == 3
    assert bool(means[1].isnan())
    none = torch.empty(0, dtype=torch.long)
    assert points_to_cells(torch.rand(3), flat, none, none, none).shape == (0,)
    assert bool(cells_to_points(torch.rand(0), flat, none, none, none).isnan().all())


def test_type_and_shape_of_the_values_are_kept() -> None:
    cells = torch.tensor([5]), torch.tensor([3]), torch.tensor([0, 1, 2])
    points = torch.rand(3, 3, dtype=torch.float64)
    values = torch.rand(3, 2, 2)
    assert points_to_cells(values, points, *cells).dtype == torch.float32
    assert points_to_cells(values, points, *cells).shape == (1, 2, 2)
    assert cells_to_points(values[:1], points, *cells).shape == (3, 2, 2)
