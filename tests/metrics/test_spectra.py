"""Spectra: single modes lie in their shell, energies add up, and what a mesh knows of a flow is enough."""

import itertools
import math

import pytest
import torch

from meshop.data import InputError
from meshop.metrics import energy_spectrum, fourier_rmse, spectrum_error, to_grid, velocity_from_vorticity


def _grid(*shape):
    axes = [torch.arange(n, dtype=torch.float64) / n for n in shape]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)  # [N, D]


@pytest.mark.parametrize("shape", [(16, 16), (12, 15), (8, 8, 8), (8, 10, 7)])
def test_a_mode_has_its_energy_in_its_shell(shape):
    x = _grid(*shape)
    for mode in itertools.product((0, 1, -2, 3), repeat=len(shape)):
        radius = math.sqrt(sum(m * m for m in mode))
        if not 0 < radius < min(shape) / 2 - 0.5:
            continue
        wave = torch.cos(2 * torch.pi * (x @ torch.tensor(mode, dtype=torch.float64)) + 0.3)
        velocity = torch.stack([3 * wave, *[0 * wave] * (len(shape) - 2), 4 * wave], dim=1)  # amplitude 5
        spectrum = energy_spectrum(velocity, shape)
        expected = torch.zeros(1, shape[0] // 2 + 1, dtype=torch.float64)
        expected[0, math.floor(radius + 0.5)] = 25 / 4
        torch.testing.assert_close(spectrum, expected, atol=1e-12, rtol=0)


def test_energies_add_up_and_graphs_stay_apart():
    shape = (16, 16)
    x = _grid(*shape)
    one, two = (
        sum(
            torch.randn(2, dtype=torch.float64) * torch.cos(2 * torch.pi * (x @ mode.double()) + phase)[:, None]
            for mode, phase in zip(torch.randint(-4, 5, (9, 2)), torch.rand(9, dtype=torch.float64), strict=True)
        )
        for _ in range(2)
    )
    spectrum = energy_spectrum(torch.cat([one, two]), shape, batch_size=2)
    for u, row in zip((one, two), spectrum, strict=True):
        torch.testing.assert_close(row.sum(), u.square().sum(1).mean() / 2)
        torch.testing.assert_close(row[0], u.mean(0).square().sum() / 2)
        torch.testing.assert_close(row, energy_spectrum(u, shape)[0])


def test_a_long_box_has_finer_wave_numbers():
    x = _grid(32, 16)
    along = torch.cos(2 * torch.pi * 3 * x[:, :1])  # three periods in four metres
    across = torch.cos(2 * torch.pi * x[:, 1:])  # one in two metres: the wave number of two in four
    spectrum = energy_spectrum(torch.cat([along, across], dim=1), (32, 16), extent=(4.0, 2.0))
    expected = torch.zeros(1, 17, dtype=torch.float64)
    expected[0, 2:4] = 0.25
    torch.testing.assert_close(spectrum, expected)
    turned = _grid(16, 32)
    swapped = torch.cat([torch.cos(2 * torch.pi * 3 * turned[:, 1:]), torch.cos(2 * torch.pi * turned[:, :1])], dim=1)
    torch.testing.assert_close(energy_spectrum(swapped, (16, 32), extent=(2.0, 4.0)), expected)


def test_spectrum_of_a_mesh_converges_to_that_of_the_flow():
    """One mode on scattered nodes of the unit square: its shell tends to 1/4, the others to nothing, like h^2."""
    off = []
    for size in (20, 40, 80):
        line = torch.linspace(0, 1, size + 1, dtype=torch.float64)
        x = torch.cartesian_prod(line, line)
        inside = ((x > 0) & (x < 1)).all(1)
        x[inside] += (torch.rand(int(inside.sum()), 2, dtype=torch.float64) - 0.5) / (2 * size)
        u = torch.cat([torch.cos(2 * torch.pi * (2 * x[:, :1] + x[:, 1:])), torch.zeros(len(x), 1)], dim=1)
        spectrum = energy_spectrum(to_grid(u, x, (32, 32)), (32, 32))[0]
        off.append((abs(spectrum[2].item() - 0.25), spectrum.sum().item() - spectrum[2].item()))
    for i in range(2):
        assert off[0][i] > 3 * off[1][i] > 9 * off[2][i]
        assert off[2][i] < 2e-3


def test_to_grid_keeps_linear_functions_and_graphs_apart():
    pos = torch.cat([torch.rand(60, 3), 5 * torch.rand(60, 3) + 100]).double()
    batch = torch.arange(120) % 2
    pos = pos[torch.cat([torch.arange(60), torch.arange(60, 120)]).view(2, 60).t().flatten()]  # interleaved
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0]).double()] * 3)
    pos = torch.cat([pos, corners, 5 * corners + 100])
    batch = torch.cat([batch, torch.zeros(8).long(), torch.ones(8).long()])
    linear = torch.stack([pos @ torch.tensor([1.0, 2, 3]).double(), pos[:, 0]], dim=1).view(-1, 2, 1)
    grid = to_grid(linear, pos, (4, 5, 3), batch)
    assert grid.shape == (120, 2, 1)
    place = torch.cat([_grid(4, 5, 3), 5 * _grid(4, 5, 3) + 100])
    torch.testing.assert_close(grid[:, 0, 0], place @ torch.tensor([1.0, 2, 3]).double())
    torch.testing.assert_close(grid[:, 1, 0], place[:, 0])
    assert to_grid(linear.float(), pos.float(), (2, 2, 2), batch).dtype == torch.float32


def test_outside_all_triangles_is_the_nearest_node():
    pos = torch.tensor([[1.0, 0], [0, 1], [1, 1]])
    grid = to_grid(torch.tensor([1.0, 2.0, 4.0]), pos, (4, 4)).view(4, 4)
    assert grid[0, 0].item() in (1.0, 2.0)
    assert grid[3, 0].item() == 1.0
    assert grid[0, 3].item() == 2.0
    assert grid[3, 3].item() == pytest.approx(4 - 3 / 4 - 2 / 4)  # in the triangle: 4 - 3 (1 - y) - 2 (1 - x)


def test_fourier_rmse_of_a_mode_is_half_its_amplitude():
    """Of modes with positive wave numbers along all axes one of the two conjugates is counted: amplitude / 2."""
    t, x, y = _grid(8, 12, 10).unbind(1)
    shape, k = (12, 10), 4  # min(8, 12, 10) / 2
    for mode in itertools.product(range(4), repeat=3):
        if mode == (0, 0, 0):
            continue
        phase = 2 * torch.pi * (mode[0] * t + mode[1] * x + mode[2] * y)
        wave = 6 * torch.cos(phase).view(8, 120).t()  # [N, T]
        error = fourier_rmse(torch.stack([wave, 0 * wave], dim=2), torch.zeros(120, 8, 2), shape)
        radius = math.floor(math.sqrt(sum(m * m for m in mode)))
        expected = torch.zeros(1, k, 2, dtype=torch.float64)
        if radius < k:
            expected[0, radius, 0] = 3
        torch.testing.assert_close(error, expected, atol=1e-12, rtol=0)


def test_fourier_rmse_equals_a_loop_over_wave_numbers():
    pred, target = torch.randn(2, 2 * 30, 7, 3, dtype=torch.float64)
    found = fourier_rmse(pred, target, (5, 6), batch_size=2)
    error = (pred - target).view(2, 5, 6, 7, 3)
    power = torch.fft.fftn(error, dim=(1, 2, 3)).abs().square()
    expected = torch.zeros(2, 2, 3, dtype=torch.float64)
    for i, j, k in itertools.product(range(2), range(3), range(3)):
        radius = int(math.sqrt(i * i + j * j + k * k))
        if radius < 2:
            expected[:, radius] += power[:, i, j, k]
    torch.testing.assert_close(found, expected.sqrt() / (5 * 6 * 7))


def test_errors_say_what_does_not_fit():
    u = torch.randn(16, 2)
    with pytest.raises(InputError, match=r"fields \[N, C\] on 1 grids of 4 x 5 points \(got \[16, 2\]\)"):
        energy_spectrum(u, (4, 5))
    with pytest.raises(InputError, match=r"a positive extent of each of the 2 axes \(got \[1.0\]\)"):
        energy_spectrum(u, (4, 4), extent=[1.0])
    with pytest.raises(InputError, match="pred and target of one shape"):
        fourier_rmse(u, u[:, :1], (4, 4))
    with pytest.raises(InputError, match=r"same dimension, 2 or 3 \(got \(4, 4, 4\) for 2-D\)"):
        to_grid(u, torch.rand(16, 2), (4, 4, 4))
    with pytest.raises(InputError, match=r"span 2 dimensions \(those of graph 0 do not\)"):
        to_grid(u, torch.arange(16.0)[:, None].expand(16, 2), (4, 4))
    with pytest.raises(InputError, match=r"span 2 dimensions \(graph 0 has 2\)"):
        to_grid(u[:2], torch.rand(2, 2), (4, 4))


def test_velocity_of_a_taylor_green_vortex():
    """psi = sin ax sin by on a box of two different edges: the velocity and the vorticity are known."""
    shape, extent = (12, 15), (3.0, 2.0)
    x, y = (_grid(*shape) * torch.tensor(extent)).unbind(1)
    for m, n in ((1, 1), (2, 3), (5, 7)):
        a, b = 2 * torch.pi * m / extent[0], 2 * torch.pi * n / extent[1]
        stream = torch.sin(a * x) * torch.sin(b * y)
        velocity = torch.stack([b * torch.sin(a * x) * torch.cos(b * y), -a * torch.cos(a * x) * torch.sin(b * y)], 1)
        found = velocity_from_vorticity((a * a + b * b) * stream, shape, extent=extent)
        torch.testing.assert_close(found, velocity)


def test_the_spectrum_of_a_taylor_green_vortex_comes_from_its_vorticity():
    """On the unit torus the vortex of wave number (m, m) has speed 1, so energy 1/4, in the shell of m sqrt 2."""
    x, y = (2 * torch.pi * _grid(32, 32)).unbind(1)
    for m in (1, 3, 8):
        vorticity = 4 * torch.pi * m * torch.sin(m * x) * torch.sin(m * y)
        found = energy_spectrum(velocity_from_vorticity(vorticity, (32, 32)), (32, 32))
        expected = torch.zeros(1, 17, dtype=torch.float64)
        expected[0, round(m * math.sqrt(2))] = 1 / 4
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_velocity_keeps_graphs_and_frames_apart_and_knows_no_mean():
    vorticity = torch.randn(2 * 64, 3, dtype=torch.float64)
    whole = velocity_from_vorticity(vorticity, (8, 8), batch_size=2)
    assert whole.shape == (128, 3, 2)
    for graph in range(2):
        for frame in range(3):
            one = vorticity[64 * graph : 64 * graph + 64, frame]
            torch.testing.assert_close(whole[64 * graph : 64 * graph + 64, frame], velocity_from_vorticity(one, (8, 8)))
            assert whole[64 * graph : 64 * graph + 64, frame].mean(0).abs().max() < 1e-12
    torch.testing.assert_close(velocity_from_vorticity(vorticity + 7, (8, 8), batch_size=2), whole)
    assert velocity_from_vorticity(vorticity.float(), (8, 8), batch_size=2).dtype == torch.float32


def test_energy_errors_of_bands_of_single_modes():
    """Amplitudes 1 and a in the shells of each band give a^2 - 1, whatever the phases and the mean flow."""
    shape = (24, 24)
    x = 2 * torch.pi * _grid(*shape)[:, :1]
    modes = ((1, 4), (5, 8), (9, 12))  # first and last shell of the thirds of 12

    def flow(amplitudes, phase):
        waves = [a * torch.cos(k * x + phase * (k < 12)) for a, ks in zip(amplitudes, modes, strict=True) for k in ks]
        return torch.cat([sum(waves), torch.zeros_like(x)], 1)

    truth = flow((1.0, 1.0, 1.0), 0.3)
    pred = flow((2.0, 0.5, 0.0), 1.1) + 5
    expected = torch.tensor([[3.0, -0.75, -1.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    found = spectrum_error(torch.cat([pred, truth]), torch.cat([truth, truth]), shape, batch_size=2)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(spectrum_error(pred, truth, shape, bands=(2 / 3,)), torch.tensor([[9 / 8]]).double())


def test_a_band_without_energy_is_compared_with_the_others():
    x = 2 * torch.pi * _grid(24, 24)[:, :1]
    truth, other = torch.cos(2 * x), 0.1 * torch.cos(11 * x)
    for dtype in (torch.float32, torch.float64):
        found = spectrum_error((truth + other).to(dtype), truth.to(dtype), (24, 24))
        torch.testing.assert_close(found, torch.tensor([[0.0, 0.0, 0.01]], dtype=dtype), atol=1e-6, rtol=1e-5)
    nothing = torch.zeros_like(truth)
    torch.testing.assert_close(spectrum_error(other, nothing, (24, 24))[0, 2].item(), 0.01 / 4)
    assert not spectrum_error(nothing, nothing, (24, 24)).any()


def test_errors_of_bands_and_vorticity_say_what_does_not_fit():
    u = torch.randn(16, 2)
    with pytest.raises(InputError, match="pred and target of one shape"):
        spectrum_error(u, u[:, :1], (4, 4))
    for bands in ((), (0.5, 0.5), (1.0, 0.5), (0.1, 1.0), (0.5, 1.5)):
        with pytest.raises(InputError, match=r"increasing ends of bands up to 1, with one of 2 shells in each"):
            spectrum_error(u, u, (4, 4), bands=bands)
    for arguments in (
        {"shape": (4, 2, 2)},
        {"shape": (4, 4), "extent": (1.0, 0.0)},
        {"shape": (4, 4), "extent": (1.0,)},
    ):
        with pytest.raises(InputError, match="a grid of two axes with positive extents"):
            velocity_from_vorticity(u, **arguments)
    with pytest.raises(InputError, match=r"on 2 grids of 4 x 4 points \(got \[16, 2\]\)"):
        velocity_from_vorticity(u, (4, 4), batch_size=2)
