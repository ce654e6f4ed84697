"""Whole models: a lift, blocks and a head, one a file."""

from meshop.models.cano import CANO
from meshop.models.fno import FNO
from meshop.models.lamo import LaMO
from meshop.models.lamo_grid import LaMOGrid
from meshop.models.linear_no import LinearNO
from meshop.models.stack import Stack
from meshop.models.transolver import Transolver
from meshop.models.transolver_plus_plus import TransolverPlusPlus
from meshop.models.transolver_sigma import Physolver, Specsolver, TransolverSigma

__all__ = [
    "CANO",
    "FNO",
    "LaMO",
    "LaMOGrid",
    "LinearNO",
    "Physolver",
    "Specsolver",
    "Stack",
    "Transolver",
    "TransolverPlusPlus",
    "TransolverSigma",
]
