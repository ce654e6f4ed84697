"""Metrics of each graph of a batch: of fields, in Fourier space, over time, and of forces on surfaces.

They take values in physical units (decode first), and integrate over the mesh where a measure is given; without it
every node weighs the same, as in the papers.
"""

from meshop.metrics.curves import time_to_threshold
from meshop.metrics.fields import grouped_mse, mse, pearson, r2, relative_h1, relative_l2, rmse, spearman
from meshop.metrics.forces import force_coefficient, surface_force
from meshop.metrics.spectra import energy_spectrum, fourier_rmse, spectrum_error, to_grid, velocity_from_vorticity

__all__ = [
    "energy_spectrum",
    "force_coefficient",
    "fourier_rmse",
    "grouped_mse",
    "mse",
    "pearson",
    "r2",
    "relative_h1",
    "relative_l2",
    "rmse",
    "spearman",
    "spectrum_error",
    "surface_force",
    "time_to_threshold",
    "to_grid",
    "velocity_from_vorticity",
]
