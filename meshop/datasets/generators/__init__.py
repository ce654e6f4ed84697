"""Benchmarks made by solvers, in the layout that their authors publish: ``meshop generate NAME``."""

from meshop.datasets.generators import darcy
from meshop.datasets.generators.generator import Generator, generate

# To add a generator: its file, and a line here.
GENERATORS: dict[str, Generator] = {
    "darcy": darcy.GENERATOR,
}

__all__ = ["GENERATORS", "Generator", "generate"]
