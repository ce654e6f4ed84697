"""Benchmarks made by solvers, in the layout that their authors publish: ``meshop generate NAME``."""

from meshop.datasets.generators import darcy, navier_stokes
from meshop.datasets.generators.generator import Generator, generate

# To add a generator: its file, and a line here.
GENERATORS: dict[str, Generator] = {
    "darcy": darcy.GENERATOR,
    "navier_stokes": navier_stokes.GENERATOR,
    "navier_stokes_1e-4": navier_stokes.MORE_VISCOUS,
}

__all__ = ["GENERATORS", "Generator", "generate"]
