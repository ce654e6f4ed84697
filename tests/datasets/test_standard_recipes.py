"""The recipes of the six standard sets: the models they name have the parameters that their papers or scripts count."""

import pytest
import yaml

import meshop.models  # noqa: F401  (build looks its classes up)
from meshop.checkpoint import build, from_config
from meshop.datasets import card

# channels of x and y in the data set, and the published count (None where ours differs from it, see the models)
COUNTS = {
    "airfoil/transolver": (2, 1, 2_810_817),
    "pipe/transolver": (2, 1, 3_073_985),
    "plasticity/transolver": (3, 4, 2_844_484),
    "navier_stokes/transolver": (10, 1, 11_232_321),
    "darcy/transolver": (1, 1, 2_826_945),
    "elasticity/transolver": (2, 1, 713_665),
    "airfoil/lamo": (2, 1, 1_144_825),
    "pipe/lamo": (2, 1, 4_020_545),
    "plasticity/lamo": (3, 4, 3_791_044),
    "navier_stokes/lamo": (12, 1, 10_061_314),
    "darcy/lamo": (3, 1, 1_145_986),
    "elasticity/lamo": (2, 1, 1_953_577),
    "darcy/transolver_sigma": (1, 1, 1_245_289),
    "navier_stokes/transolver_sigma": (10, 1, 4_859_289),
    "airfoil/cano": (2, 1, None),
    "pipe/cano": (2, 1, None),
    "plasticity/cano": (3, 4, None),
    "navier_stokes/cano": (10, 1, 8_123_137),
    "darcy/cano": (1, 1, 2_421_889),
    "elasticity/cano": (2, 1, None),
}


def test_every_recipe_is_counted():
    names = ("airfoil", "pipe", "plasticity", "navier_stokes", "darcy", "elasticity")
    assert {f"{name}/{path.stem}" for name in names for path in card(name).glob("*.yaml")} == set(COUNTS)


@pytest.mark.parametrize("recipe", COUNTS)
def test_models_have_the_published_number_of_parameters(recipe):
    name, _, model = recipe.partition("/")
    inputs, outputs, count = COUNTS[recipe]
    description = from_config(yaml.safe_load((card(name) / f"{model}.yaml").read_text())["model"])
    description["args"] |= {"in_channels": inputs, "out_channels": outputs}
    parameters = sum(p.numel() for p in build(description).parameters())
    assert count in (None, parameters)
