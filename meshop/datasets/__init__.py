"""Data sets: benchmarks and a user's own directory of mesh files, as PyG data sets of packed meshes."""

from meshop.datasets.airfoil import Airfoil
from meshop.datasets.cards import card, suite
from meshop.datasets.darcy import Darcy
from meshop.datasets.darcy_small import DarcySmall
from meshop.datasets.dataset import MeshDataset, statistics
from meshop.datasets.elastic_block import ElasticBlock
from meshop.datasets.elasticity import Elasticity
from meshop.datasets.folder import Folder, mesh_files, read_case
from meshop.datasets.graetz import Graetz
from meshop.datasets.holed_poisson import HoledPoisson
from meshop.datasets.navier_stokes import NavierStokes
from meshop.datasets.navier_stokes_step import NavierStokesStep
from meshop.datasets.pipe import Pipe
from meshop.datasets.plasticity import Plasticity
from meshop.datasets.plate_with_holes import PlateWithHoles
from meshop.datasets.unsteady_heat import UnsteadyHeat

# To add a benchmark: its file, a line here, and the directory datasets/NAME with its card.
BENCHMARKS: dict[str, type[MeshDataset]] = {
    "plate_with_holes": PlateWithHoles,
    "elastic_block": ElasticBlock,
    "holed_poisson": HoledPoisson,
    "navier_stokes_step": NavierStokesStep,
    "graetz": Graetz,
    "unsteady_heat": UnsteadyHeat,
    "darcy_small": DarcySmall,
    "airfoil": Airfoil,
    "pipe": Pipe,
    "plasticity": Plasticity,
    "navier_stokes": NavierStokes,
    "darcy": Darcy,
    "elasticity": Elasticity,
}

__all__ = [
    "BENCHMARKS",
    "Airfoil",
    "Darcy",
    "DarcySmall",
    "ElasticBlock",
    "Elasticity",
    "Folder",
    "Graetz",
    "HoledPoisson",
    "MeshDataset",
    "NavierStokes",
    "NavierStokesStep",
    "Pipe",
    "Plasticity",
    "PlateWithHoles",
    "UnsteadyHeat",
    "card",
    "mesh_files",
    "read_case",
    "statistics",
    "suite",
]
