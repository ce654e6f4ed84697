"""Box and Cox's transformation against its formula, and back."""

import numpy as np
import pytest
import torch

from meshop.data import InputError, MeshData
from meshop.transforms import BoxCox


@pytest.fixture
def mesh():
    y = torch.tensor([[0.0, 1e-9], [1e-8, 1e-3], [0.5, 1.0]])
    return MeshData.from_cells(
        [[0.0, 0], [1, 0], [0, 1]], [5], [[0, 1, 2]], point_data={"Y": y, "T": y + 300}, cell_data={"Y": y[:1, 1] + 1}
    )


@pytest.mark.parametrize("lam", [0.0, 0.1, 0.5, 1.0])
def test_formula_and_inverse(mesh, lam):
    transform = BoxCox(["Y"], lam)
    before = mesh.point_data["Y"].clone()
    flat = transform(mesh)
    y = np.maximum(before.numpy().astype(float), 1e-8)
    expected = (y**lam - 1) / lam if lam else np.log(y)
    assert np.allclose(flat.point_data["Y"], expected, rtol=1e-6, atol=1e-6)
    assert torch.equal(mesh.point_data["Y"], before)
    assert torch.equal(flat.point_data["T"], mesh.point_data["T"])
    back = transform.inverse(flat)
    assert np.allclose(back.point_data["Y"], y, rtol=1e-3, atol=0 if lam < 1 else 1e-7)
    assert torch.allclose(back.cell_data["Y"], mesh.cell_data["Y"])


def test_what_no_value_is_transformed_to_becomes_the_least(mesh):
    assert BoxCox(["Y"]).decode(torch.tensor([-11.0, -10.0])).tolist() == pytest.approx([1e-8, 1e-8])


def test_errors(mesh):
    with pytest.raises(InputError, match=r"Expected lam from 0 to 1 and least above 0 \(got 2 and 1e-08\)"):
        BoxCox(["Y"], lam=2)
    with pytest.raises(InputError, match="least above 0"):
        BoxCox(["Y"], least=0)
    with pytest.raises(InputError, match="BoxCox expects the field 'Z'"):
        BoxCox(["Z"])(mesh)
    assert repr(BoxCox(["Y"])) == "BoxCox(['Y'], lam=0.1, least=1e-08)"
