"""Whole models: a lift, blocks and a head, one a file."""

from meshop.models.cano import CANO
from meshop.models.transolver import Transolver

__all__ = ["CANO", "Transolver"]
