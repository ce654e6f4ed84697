"""Curves: exponentials and power laws are straight lines where the axes say so, and end where nothing is finite."""

import warnings

import matplotlib
import matplotlib.image
import numpy as np
import pytest
import scipy.ndimage
import torch

from meshop import InputError
from meshop.render import lead_curves, spectra

COLOURS = [(31, 119, 180), (255, 127, 14), (44, 160, 44)]  # matplotlib's first three


def line(image, rgb=COLOURS[0]):
    """Columns and heights of a curve in pixels: the largest patch of its colour, so without its part of the legend."""
    patches, _ = scipy.ndimage.label((np.abs(image.astype(int) - rgb) <= 4).all(-1), np.ones((3, 3)))
    size = np.bincount(patches.ravel())
    size[0] = 0
    mask = patches == max(size.argmax(), 1)
    columns = np.flatnonzero(mask.any(0))
    return columns, np.array([-np.flatnonzero(mask[:, c]).mean() for c in columns])


def straightness(columns, heights):
    return np.abs(heights - np.polyval(np.polyfit(columns, heights, 1), columns)).max()


def test_exponential_growth_is_a_straight_line_over_uneven_times():
    times = torch.tensor([0.5, 1.0, 4.0, 4.5, 9.0, 10.0])
    curve = 1e-3 * torch.exp(0.6 * times)[None]
    assert straightness(*line(lead_curves({"CANO": curve}, times, unit="s"))) < 1.5
    assert straightness(*line(lead_curves({"CANO": curve}))) > 15  # over the number of the frame
    assert straightness(*line(lead_curves({"CANO": curve}, times, scale="linear"))) > 15
    assert straightness(*line(lead_curves({"CANO": times[None]}, times, scale="linear"))) < 1.5


def test_a_power_law_is_a_straight_line():
    k = np.arange(33.0)
    energy = np.where(k > 0, np.maximum(k, 1) ** -3, 1e9)[None]  # the mean flow is not drawn
    columns, heights = line(spectra({"CANO": energy}))
    assert straightness(columns, heights) < 1.5
    assert heights[0] - heights[-1] > 400  # it fills the picture
    noise = np.where(k > 20, 1e-30, energy)
    columns, heights = line(spectra({"CANO": noise}))
    inside = columns < columns[0] + 0.8 * (columns[-1] - columns[0])
    assert straightness(columns[inside], heights[inside]) < 1.5
    assert heights[0] - heights[-1] > 400


def test_the_mean_lies_between_the_tenths():
    """Windows with the numbers 0 to 10: mean 5, band from 1 to 9, where other curves are drawn."""
    windows = np.arange(11.0)[:, None].repeat(20, 1)
    ones = np.ones((1, 20))
    image = lead_curves({"all": windows, "low": ones, "high": 9 * ones}, scale="linear")
    rows = []
    for rgb in COLOURS:
        mask = (np.abs(image.astype(int) - rgb) <= 4).all(-1)
        rows.append(int(mask.sum(1).argmax()))
    assert rows[0] == pytest.approx((rows[1] + rows[2]) / 2, abs=1.5)
    band = (np.abs(image.astype(int) - (221, 235, 244)) <= 2).all(-1).sum(1) > 400
    assert abs(np.flatnonzero(band).min() - rows[2]) < 5
    assert abs(np.flatnonzero(band).max() - rows[1]) < 5


def test_a_curve_ends_before_a_window_blows_up():
    curve = np.full((3, 11), 0.5)
    full = line(lead_curves({"a": curve}))[0]
    for value in (np.nan, np.inf):
        curve[1, 5:] = value
        part = line(lead_curves({"a": curve, "b": np.full((1, 11), 0.4)}))[0]
        assert np.ptp(part) == pytest.approx(0.4 * np.ptp(full), rel=0.03)
    curve[2, 0] = np.nan
    assert line(lead_curves({"a": curve, "b": np.full((1, 11), 0.4)}))[0].size < 60  # the legend


def test_the_reference_is_black_and_takes_no_colour():
    curve = np.linspace(0.1, 1, 9)[None]
    image = lead_curves({"persistence": 2 * curve, "CANO": curve})
    assert line(image)[0].size > 500
    assert not line(image, COLOURS[1])[0].size
    same = spectra({"truth": curve, "CANO": 2 * curve})
    assert line(same)[0].size > 500
    assert line(lead_curves({"persistence": curve, "CANO": curve}, reference=""), COLOURS[1])[0].size > 500


def test_nothing_to_draw_is_drawn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (0.0, np.nan):
            assert lead_curves({"_a": [[value, value]]}, title="$x_1").shape == (680, 1100, 3)
            assert spectra({"a$": [[value, value]]}).shape == (680, 1100, 3)
        assert lead_curves({"a": [[0.5]]}).shape == (680, 1100, 3)


def test_the_file_is_the_picture_of_the_curves(tmp_path):
    image = lead_curves({"a": [[1.0, 2.0]]}, path=tmp_path / "a.png")
    assert np.array_equal(matplotlib.image.imread(tmp_path / "a.png")[..., :3], image / np.float32(255))
    image = spectra({"a": [[0.0, 1.0, 2.0]]}, tmp_path / "b.png")
    assert np.array_equal(matplotlib.image.imread(tmp_path / "b.png")[..., :3], image / np.float32(255))


@pytest.mark.parametrize(
    ("values", "got"),
    [({}, "none"), ({"a": [1.0]}, r"a \[1\]"), ({"a": [[1.0, 2.0]], "b": [[1.0]]}, r"a \[1, 2\], b \[1, 1\]")],
)
def test_errors_of_curves(values, got):
    with pytest.raises(InputError, match=rf"Expected curves \[windows, T\] of one length to draw \(got {got}\)"):
        lead_curves(values)
    with pytest.raises(InputError, match=rf"Expected curves \[flows, K\] of one length to draw \(got {got}\)"):
        spectra(values)
    with pytest.raises(InputError, match=r"Expected 2 times, one for each number of a curve \(got \[3\]\)"):
        lead_curves({"a": [[1.0, 2.0]]}, [1.0, 2.0, 3.0])
