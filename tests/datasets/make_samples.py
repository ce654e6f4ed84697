"""Writes the samples of the benchmarks, ``datasets/NAME/sample``: ``python tests/datasets/make_samples.py [NAME ...]``.

Those of :data:`SOLVED` are coarse solutions by the generators, the others hold numbers that mean nothing, from the
writers of the tests of each reader. All lie in the published layout and are read with the default arguments. The mark
``generated.json`` says that they were made, as it does beside the files of ``meshop generate``.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import test_airfoil
import test_airfrans
import test_darcy_small
import test_drivaernet_plus_plus
import test_holed_poisson
import test_norm
import test_physgto
import test_plasticity
import test_realm
import test_realpdebench
import test_shapenet_car

from meshop import __version__
from meshop.datasets import BENCHMARKS, ICPPlasma, sample
from meshop.datasets.generators import GENERATORS, elasticity, generate

FOLDER = Path(__file__).parents[2] / "datasets"

SOLVED: dict[str, dict[str, Any]] = {
    "darcy": {"samples": 3, "resolution": 11},
    "irregular_darcy": {"samples": 2, "size": 0.05},
    "composite": {"samples": 3, "shape": [5, 4, 3]},
    "navier_stokes": {"samples": 2, "resolution": 8},
    "pipe": {"samples": 2, "elements": 4},
    "elasticity": {"samples": 2, "elements": [12, 2]},
    "kf2d": {"samples": 2, "resolution": 8, "frames": 28},
    "it3d": {"samples": 2, "resolution": 4, "frames": 12},
    "smoke3d": {"samples": 2, "resolution": 4, "frames": 8},
}


def solved(name: str, root: Path) -> None:
    options = dict(SOLVED[name])
    generator = GENERATORS[name]
    if name == "elasticity":
        generator = replace(generator, sample=partial(coarse_stress, elements=options.pop("elements")))
    generate(generator, root / "raw", options.pop("samples"), **options)


def coarse_stress(rng: np.random.Generator, elements: tuple[int, int]) -> dict[str, np.ndarray]:
    """A sample of elasticity on fewer elements than the generator's own."""
    theta = rng.standard_normal(10)
    basis = elasticity.displacements(elasticity.block(theta, *elements))
    sigma = elasticity.mises(elasticity.solve(basis, elasticity.TRACTION * elasticity.traction(basis.mesh)))
    points = np.reshape(basis.global_coordinates(), (2, -1))
    radii = elasticity.radius(theta, np.linspace(0, 2 * np.pi, 42))
    return {"XY": points.T, "sigma": sigma.ravel(), "rr": radii, "theta": theta}


def smithers(root: Path, params: int, fields: int, side: int = 4, stretch: float = 1.0) -> None:
    """Five snapshots on a square of triangles."""
    y, x = (axis.ravel() for axis in np.mgrid[:side, :side] / (side - 1))
    corner = np.arange(side * side).reshape(side, side)[:-1, :-1].ravel()
    triangles = [[c, c + 1, c + side + 1] for c in corner] + [[c, c + side + 1, c + side] for c in corner]
    (root / "raw").mkdir()
    arrays = {
        "coords": np.stack([stretch * x, y]),
        "triangles": np.array(triangles),
        "params": np.arange(1.0, 1 + 5 * params).reshape(5, params),
        "snapshots": np.arange(5.0)[:, None] + np.arange(fields * side * side) / 1000,
    }
    for name, array in arrays.items():
        np.save(root / "raw" / f"{name}.npy", array)


def realpdebench(root: Path, columns: tuple[str, ...] = ("u", "v"), frames: int = 40) -> None:
    test_realpdebench.SHAPE = (frames, 2, 3)
    test_realpdebench.write_arrow(root, "real", columns)
    test_realpdebench.write_index(root, "real", train=[(0, 0), (1, 0)], val=[(1, 0)], test=[(2, 0)])


def shapenet_car(root: Path) -> None:
    for fold in range(9):
        if fold < 2:
            test_shapenet_car._write(root / "raw" / f"param{fold}" / f"1a0bc9ab{fold}", scale=1 + fold)
        else:  # git keeps no empty directory
            (root / "raw" / f"param{fold}").mkdir()
            (root / "raw" / f"param{fold}" / "empty").touch()


def airfrans(root: Path) -> None:
    cases = test_airfrans.CASES[:2]
    for case in cases:
        test_airfrans._write(root / "raw", case)
    (root / "raw" / "manifest.json").write_text(json.dumps({"full_train": cases[:1], "full_test": cases[1:]}))


WRITERS: dict[str, Callable[[Path], Any]] = {
    "elastic_block": lambda root: smithers(root, 11, 2),
    "navier_stokes_step": lambda root: smithers(root, 1, 3),
    "graetz": lambda root: smithers(root, 2, 1, stretch=2.0),
    "unsteady_heat": lambda root: smithers(root, 2, 20),
    "holed_poisson": test_holed_poisson.write,
    "darcy_small": test_darcy_small.write,
    "airfoil": lambda root: test_airfoil.write(root, rows=2),
    "plasticity": lambda root: test_plasticity.write(root, rows=2),
    "pipe_turbulence": lambda root: test_norm.write_pipe(root, rows=4),
    "heat_transfer": lambda root: test_norm.write_heat(root, rows=2),
    "blood_flow": lambda root: test_norm.write_blood(root, rows=2),
    "heat_flow": test_physgto.write,
    "icp_plasma": lambda root: test_physgto.write(root, ICPPlasma, frames=10),
    "controlled_cylinder": lambda root: realpdebench(root, frames=20),
    "fsi": realpdebench,
    "foil": realpdebench,
    "combustion": lambda root: realpdebench(root, ("observed",)),
    "ignit_hit": test_realm.write,
    "evolve_jet": test_realm.write,
    "shapenet_car": shapenet_car,
    "airfrans": airfrans,
    "drivaernet_plus_plus": test_drivaernet_plus_plus.write,
} | {name: lambda root, name=name: solved(name, root) for name in SOLVED}


def mark(name: str, raw: Path) -> None:
    """Say how the files were made."""
    (raw / "generated.json").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as root:
        count = len(BENCHMARKS[name](sample(name, root)))
    options = {key: value for key, value in SOLVED.get(name, {}).items() if key != "samples"}
    record = {
        "generator": name if name in SOLVED else "",
        "meshop": __version__,
        "seed": 0,
        "samples": count,
        "published_samples": GENERATORS[name].samples if name in SOLVED else count,
        "options": options,
        "changed": options if name in SOLVED else {"values": "that mean nothing"},
        "statistics": {},
        "files": [
            {
                "name": path.relative_to(raw).as_posix(),
                "bytes": path.stat().st_size,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
            for path in sorted(raw.rglob("*"))
            if path.is_file()
        ],
    }
    (raw / "generated.json").write_text(json.dumps([record], indent=1) + "\n")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or WRITERS:
        place = FOLDER / chosen / "sample"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        WRITERS[chosen](place)
        mark(chosen, place / "raw")
