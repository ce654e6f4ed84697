"""Benchmarks made by solvers, in the layout that their authors publish: ``meshop generate NAME``."""

from meshop.datasets.generators import composite, darcy, elasticity, irregular_darcy, navier_stokes
from meshop.datasets.generators.generator import Generator, generate

# To add a generator: its file, and a line here.
GENERATORS: dict[str, Generator] = {
    "darcy": darcy.GENERATOR,
    "elasticity": elasticity.GENERATOR,
    "irregular_darcy": irregular_darcy.GENERATOR,
    "composite": composite.GENERATOR,
    "navier_stokes": navier_stokes.GENERATOR,
    "navier_stokes_1e-4": navier_stokes.MORE_VISCOUS,
}

__all__ = ["GENERATORS", "Generator", "generate"]
