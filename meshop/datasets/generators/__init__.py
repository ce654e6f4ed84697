"""Benchmarks made by solvers, in the layout that their authors publish: ``meshop generate NAME``."""

from dataclasses import replace

from meshop.datasets.generators import (
    airfoil,
    composite,
    darcy,
    elasticity,
    heat_flow,
    irregular_darcy,
    it3d,
    kf2d,
    navier_stokes,
    pipe,
    plasticity,
    smoke3d,
)
from meshop.datasets.generators.generator import Generator, generate

# To add a generator: its file, and a line here.
_GENERATORS = {
    "darcy": darcy.GENERATOR,
    "elasticity": elasticity.GENERATOR,
    "irregular_darcy": irregular_darcy.GENERATOR,
    "composite": composite.GENERATOR,
    "navier_stokes": navier_stokes.GENERATOR,
    "navier_stokes_1e-4": navier_stokes.MORE_VISCOUS,
    "airfoil": airfoil.GENERATOR,
    "pipe": pipe.GENERATOR,
    "plasticity": plasticity.GENERATOR,
    "heat_flow": heat_flow.GENERATOR,
    "kf2d": kf2d.GENERATOR,
    "it3d": it3d.GENERATOR,
    "smoke3d": smoke3d.GENERATOR,
}
GENERATORS: dict[str, Generator] = {name: replace(made, name=name) for name, made in _GENERATORS.items()}

__all__ = ["GENERATORS", "Generator", "generate"]
