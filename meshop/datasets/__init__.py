"""Data sets: benchmarks and a user's own directory of mesh files, as PyG data sets of packed meshes."""

from meshop.datasets.airfoil import Airfoil
from meshop.datasets.airfrans import AirfRANS
from meshop.datasets.cards import card, sample, suite
from meshop.datasets.darcy import Darcy
from meshop.datasets.darcy_small import DarcySmall
from meshop.datasets.dataset import MeshDataset, statistics
from meshop.datasets.designs import DesignDataset
from meshop.datasets.drivaernet_plus_plus import DrivAerNetPlusPlus
from meshop.datasets.elastic_block import ElasticBlock
from meshop.datasets.elasticity import Elasticity
from meshop.datasets.factformer import IT3D, KF2D, Smoke3D
from meshop.datasets.folder import Folder, mesh_files, read_case
from meshop.datasets.graetz import Graetz
from meshop.datasets.holed_poisson import HoledPoisson
from meshop.datasets.lazy import LazyDataset
from meshop.datasets.navier_stokes import NavierStokes
from meshop.datasets.navier_stokes_step import NavierStokesStep
from meshop.datasets.norm import BloodFlow, Composite, HeatTransfer, IrregularDarcy, PipeTurbulence
from meshop.datasets.physgto import HeatFlow, ICPPlasma
from meshop.datasets.pipe import Pipe
from meshop.datasets.plasticity import Plasticity
from meshop.datasets.plate_with_holes import PlateWithHoles
from meshop.datasets.realm import EvolveJet, IgnitHIT
from meshop.datasets.realpdebench import FSI, Combustion, ControlledCylinder, Foil
from meshop.datasets.series_folder import SeriesFolder, holds_series
from meshop.datasets.shapenet_car import ShapeNetCar
from meshop.datasets.unsteady_heat import UnsteadyHeat

# To add a benchmark: its file, a line here, and the directory datasets/NAME with its card.
BENCHMARKS: dict[str, type[MeshDataset] | type[LazyDataset] | type[DesignDataset]] = {
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
    "kf2d": KF2D,
    "it3d": IT3D,
    "smoke3d": Smoke3D,
    "controlled_cylinder": ControlledCylinder,
    "fsi": FSI,
    "foil": Foil,
    "combustion": Combustion,
    "ignit_hit": IgnitHIT,
    "evolve_jet": EvolveJet,
    "shapenet_car": ShapeNetCar,
    "airfrans": AirfRANS,
    "drivaernet_plus_plus": DrivAerNetPlusPlus,
    "irregular_darcy": IrregularDarcy,
    "pipe_turbulence": PipeTurbulence,
    "heat_transfer": HeatTransfer,
    "composite": Composite,
    "blood_flow": BloodFlow,
    "heat_flow": HeatFlow,
    "icp_plasma": ICPPlasma,
}

__all__ = [
    "BENCHMARKS",
    "FSI",
    "IT3D",
    "KF2D",
    "AirfRANS",
    "Airfoil",
    "BloodFlow",
    "Combustion",
    "Composite",
    "ControlledCylinder",
    "Darcy",
    "DarcySmall",
    "DesignDataset",
    "DrivAerNetPlusPlus",
    "ElasticBlock",
    "Elasticity",
    "EvolveJet",
    "Foil",
    "Folder",
    "Graetz",
    "HeatFlow",
    "HeatTransfer",
    "HoledPoisson",
    "ICPPlasma",
    "IgnitHIT",
    "IrregularDarcy",
    "LazyDataset",
    "MeshDataset",
    "NavierStokes",
    "NavierStokesStep",
    "Pipe",
    "PipeTurbulence",
    "Plasticity",
    "PlateWithHoles",
    "SeriesFolder",
    "ShapeNetCar",
    "Smoke3D",
    "UnsteadyHeat",
    "card",
    "holds_series",
    "mesh_files",
    "read_case",
    "sample",
    "statistics",
    "suite",
]
