from pathlib import Path

import pytest
import torch

from meshop.data import InputError
from meshop.models import TransolverPlusPlus
from meshop.nn import Lift

VECTOR = Path(__file__).parent.parent / "conformance" / "transolver_plus.pt"


def test_published_parameter_count():
    model = TransolverPlusPlus(7, 256, 4, 6, num_slices=32, dropout=0.1, lift=Lift(7, 256, num_params=3))
    assert sum(p.numel() for p in model.parameters()) == 1_741_738


def test_equals_the_authors_code():
    vector = torch.load(VECTOR, weights_only=True)
    x, condition = vector["inputs"]["features"][0], vector["inputs"]["condition"]
    expected = vector["output"][0]
    model = TransolverPlusPlus.from_authors(vector["state_dict"], gumbel="off").double().eval()  # made without noise
    tolerance = 1e-8 * expected.std(0).mean()
    assert (model(x, params=condition) - expected).abs().max() <= tolerance
    # a second graph of another size and with other parameters, its nodes mixed with the others'
    order = torch.randperm(len(x) + 77)
    batch = torch.arange(2).repeat_interleave(torch.tensor([len(x), 77]))[order]
    many = torch.cat([x, torch.randn(77, 3).double()])[order]
    out = torch.empty(len(order), 1, dtype=torch.float64)
    out[order] = model(many, batch=batch, params=torch.cat([condition, torch.randn(1, 3).double()]))
    assert (out[: len(x)] - expected).abs().max() <= tolerance
    with pytest.raises(InputError, match="needs the key 'params'"):
        model(x)


def test_names_of_other_weights_are_listed():
    weights = torch.load(VECTOR, weights_only=True)["state_dict"]
    weights["blocks.1.Attn.gate"] = torch.ones(1)
    with pytest.raises(InputError, match=r"unknown: blocks.1.Attn.gate"):
        TransolverPlusPlus.from_authors(weights)
    with pytest.raises(InputError, match=r"not those of a Transolver\+\+"):
        TransolverPlusPlus.from_authors({"weight": torch.ones(1)})
