"""Transient heat: which frames of the files a case has."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from meshop.data import InputError
from meshop.datasets import UnsteadyHeat

pytestmark = pytest.mark.skipif(find_spec("smithers") is None, reason="needs the package smithers (meshop[data])")


def test_items(tmp_path):
    heat = UnsteadyHeat(tmp_path, T_in=3, T_out=2, starts=(4, 95))
    assert heat.splits == {"train": list(range(160)), "test": list(range(160, 200))}
    assert (heat.spec.in_channels, heat.spec.out_channels) == (7, 2)
    mesh, snapshots = heat[187], np.load(Path(tmp_path, "raw", "snapshots.npy"))
    assert mesh.validate()
    assert (mesh.num_nodes, mesh.num_cells, mesh.shape) == (441, 800, (21, 21))
    assert mesh.name == "heat_093_95"
    assert np.array_equal(mesh.point_data["u_in"].numpy(), snapshots[93, [95, 96, 97]].T)
    assert np.array_equal(mesh.point_data["u_out"].numpy(), snapshots[93, [98, 99]].T)
    assert np.array_equal(heat[186].point_data["u_out"].numpy(), snapshots[93, [7, 8]].T)
    assert np.array_equal(mesh.params.numpy(), np.load(Path(tmp_path, "raw", "params.npy"))[93:94].astype(np.float32))
    assert torch.allclose(mesh.pos.view(21, 21, 2)[3, 7], torch.tensor([0.35, 0.15]))
    assert float(mesh.measure.sum()) == pytest.approx(1)
    border = (mesh.pos == 0).any(1) | (mesh.pos == 1).any(1)
    assert float(mesh.point_data["u_out"][border].abs().max()) == 0


@pytest.mark.parametrize(
    "frames", [{"T_in": 50, "T_out": 51}, {"T_in": 0}, {"starts": [-1]}, {"starts": []}, {"starts": [0, 81]}]
)
def test_frames_that_there_are_not_are_refused(tmp_path, frames):
    with pytest.raises(
        InputError, match=r"^Expected T_in and T_out of 1 or more, and starts of windows within the 100"
    ):
        UnsteadyHeat(tmp_path, **frames)
