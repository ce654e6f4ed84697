"""``meshop info`` on the raw files of the benchmarks, in the layouts that the tests of their loaders write."""

import json
from pathlib import Path

import numpy as np
import pytest
import test_airfoil
import test_airfrans
import test_darcy
import test_darcy_small
import test_factformer
import test_navier_stokes
import test_norm
import test_physgto
import test_plasticity
import test_realm
import test_realpdebench
import test_shapenet_car
import torch

from meshop.cli import main


def airfrans(root):
    for case in test_airfrans.CASES[:2]:
        test_airfrans._write(root / "raw", case)
    (root / "raw" / "manifest.json").write_text(json.dumps(test_airfrans.MANIFEST))
    cases = [{"pos": torch.zeros(n, 2), "y": torch.ones(n, 4), "surf": torch.arange(n) < 2} for n in (5, 6)]
    torch.save(cases, root / "raw" / "AirfRANS.pt")  # PyG's, without cells


def cars(root):
    for fold in (0, 1):
        test_shapenet_car._write(root / "raw" / f"param{fold}" / "1a0b")
        np.save(root / "raw" / f"param{fold}" / "1a0b" / "press.npy", np.arange(27, dtype=np.float32))


def flame(root):
    test_realpdebench.write_arrow(root, "numerical", ("observed", "numerical"))


LAYOUTS = {
    "darcy": (test_darcy.write, {"piececonst_r421_N1024_smooth1.mat": {"coeff": [5, 13, 13], "sol": [5, 13, 13]}}),
    "darcy_small": (test_darcy_small.write, {"darcy_train_16.pt": {"x": [5, 4, 4], "y": [5, 4, 4]}}),
    "airfoil": (
        test_airfoil.write,
        {"NACA_Cylinder_Q.npy": {"NACA_Cylinder_Q": [12, 5, test_airfoil.N1, test_airfoil.N2]}},
    ),
    "plasticity": (test_plasticity.write, {"plas_N987_T20.mat": {"output": [49, 5, 3, 4, 4]}}),
    "navier_stokes": (
        lambda root: test_navier_stokes.write(root, test_navier_stokes.vorticity()),
        {"NavierStokes_V1e-5_N1200_T20.mat": {"u": [6, 4, 4, 20], "a": [6, 4, 4], "t": [1, 20]}},
    ),
    "navier_stokes_1e-4": (
        lambda root: test_navier_stokes.write_hdf5(root, test_navier_stokes.vorticity(frames=30)),
        {"ns_V1e-4_N10000_T30.mat": {"u": [6, 4, 4, 30], "a": [6, 4, 4], "t": [1, 30]}},
    ),
    "composite": (
        test_norm.write_composite,
        {
            "Composites.mat": {"T_field": [10, 8]},
            "Composites_LBO_basis/Composites_LBO_basis.mat": {"Points": [8, 3], "Faces": [6, 4]},
        },
    ),
    "blood_flow": (
        test_norm.write_blood,
        {
            "BloodFlow.mat": {"BC_time": [10, 4, 6], "velocity_x": [10, 8, 4]},
            "BloodFlow_LBO_basis/coordinates.csv": {"coordinates": [8, 3]},
            "BloodFlow_LBO_basis/elements.csv": {"elements": [6, 4]},
        },
    ),
    "heat_flow": (
        test_physgto.write,
        {
            "case_2.h5": {"u": [40, 7], "cells": [6, 3], "t": [40, 1], "conditions": [5]},
            "train.txt": {"train": [2]},
            "test.txt": {"test": [1]},
        },
    ),
    "kf2d": (
        test_factformer.write_kf2d,
        {"kf_2d_re1000_256_120seed.npy": {"kf_2d_re1000_256_120seed": [6, 40, 8, 4]}},
    ),
    "it3d": (test_factformer.write_it3d, {"run_10/prs.npy": {"prs": [22, 3, 4, 5]}}),
    "smoke3d": (
        test_factformer.write_smoke,
        {"smoke_10.npz": {"fluid_field": [20, 3, 4, 5, 1], "velocity": [20, 3, 4, 5, 3]}},
    ),
    "ignit_hit": (
        test_realm.write,
        {
            "data.npz": {"coords": [2, 3, 4], "variables": [6], "num_chemical": []},
            "train/phi=s_1.npz": {"data": [5, 6, 3, 4]},
        },
    ),
    "combustion": (
        flame,
        {
            "hf_dataset/numerical/data-00000-of-00002.arrow": {
                "1781_0.5.h5/observed": [9, 3, 4],
                "2625_1.h5/numerical": [9, 3, 4, 15],
                "sim_id": [2],
                "shape_t": [2],
            },
            "hf_dataset/train_index_numerical.json": {"sim_id": [3], "time_id": [3]},
        },
    ),
    "fsi": (test_realpdebench.write_hdf5, {"real/9843_1.4.h5": {"measured_data/u": [9, 3, 4]}}),
    "airfrans": (
        airfrans,
        {
            "AirfRANS.pt": {"pos": [2, None, 2], "y": [2, None, 4], "surf": [2, None]},
            "manifest.json": {"full_train": [3], "aoa_test": [1]},
            f"{test_airfrans.CASES[0]}/{test_airfrans.CASES[0]}_internal.vtu": {"U": [48, 3]},
        },
    ),
    "shapenet_car": (
        cars,
        {
            "param1/1a0b/press.npy": {"press": [27]},
            "param0/1a0b/hexvelo_smpl.vtk": {"point_vectors": [64, 3]},
            "param0/1a0b/quadpress_smpl.vtk": {"point_scalars": [27]},
        },
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_info_reads_all_of_a_raw_directory(name, tmp_path, capsys):
    write, expected = LAYOUTS[name]
    write(tmp_path)
    assert main(["info", str(tmp_path / "raw"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    reports = {report.pop("file"): report for report in told if "file" in report}
    assert set(reports) == {str(path) for path in Path(tmp_path, "raw").rglob("*") if path.is_file()}
    assert not [report for report in reports.values() if "error" in report]
    for file, shapes in expected.items():
        report = reports[str(tmp_path / "raw" / file)]
        found = {array["name"]: array["shape"] for array in report.get("arrays", report.get("fields"))}
        assert shapes.items() <= found.items()


def test_axes_of_matlab_7_3_are_those_of_the_loader(tmp_path, capsys):
    LAYOUTS["navier_stokes_1e-4"][0](tmp_path)
    assert main(["info", str(tmp_path / "raw" / "ns_V1e-4_N10000_T30.mat")]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("  u "))
    assert line == "  u   [6, 4, 4, 30] float32   0 to 533.29   (MATLAB 7.3, axes turned back)"
