"""The page of operators is made from the code, and the code has what the page needs."""

import importlib
import inspect
import typing
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

import meshop.models
import meshop.nn
from meshop.nn.functional import argument_names, call

DOCS = Path(__file__).parents[1] / "docs"
LAYERS, MODELS = (
    [cls for name in module.__all__ if isinstance(cls := getattr(module, name), type)]
    for module in (meshop.nn, meshop.models)
)


@pytest.fixture
def generate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(DOCS)
    return importlib.import_module("generate")


def test_page_of_operators_is_that_of_the_code(generate: ModuleType) -> None:
    assert (DOCS / "operators.md").read_text() == generate.operators(), "run make docs and commit docs/operators.md"


def test_every_operator_and_model_has_an_equation_and_a_cost(generate: ModuleType) -> None:
    for cls in (*filter(generate.cost, LAYERS), *MODELS):
        assert generate.equation(cls).startswith(".. math::"), cls
        assert generate.cost(cls).startswith("time O("), cls


def test_a_layer_that_states_no_cost_mixes_no_nodes(generate: ModuleType) -> None:
    """Unless another layer does it, which it is given."""
    silent = {cls for cls in LAYERS if not generate.cost(cls)}
    for module, make, _ in generate.cases().values():
        graph = make(20, seed=0)
        if type(module) in silent and not wraps(type(module)) and "x" in argument_names(module):
            before = call(module, graph)
            graph.x[0] += 1
            assert torch.equal(call(module, graph)[1:], before[1:]), type(module)


def wraps(cls: type) -> bool:
    parameters = inspect.signature(cls).parameters.values()
    given = [
        kind for p in parameters if p.default is p.empty for kind in (p.annotation, *typing.get_args(p.annotation))
    ]
    return nn.Module in given


def test_what_a_row_says(generate: ModuleType) -> None:
    cases = generate.cases()
    rows = {
        cls.__name__: generate.row(cls, cases, MODELS, generate.MODEL if cls in MODELS else generate.STANDARD)
        for cls in (
            meshop.nn.GridResample,
            meshop.nn.LatentSSM,
            meshop.nn.PhysicsAttention,
            meshop.models.LaMO,
            meshop.models.Stack,
        )
    }
    assert "(Geo-FNO) <https://arxiv.org/abs/2207.05209>`_" in rows["GridResample"][1]
    assert rows["GridResample"][2].count(".. math::") == 2
    assert rows["PhysicsAttention"][3] == "any sizes (plain); grids of one shape (grid, cube)"
    assert rows["PhysicsAttention"][8] == (
        "all laws (plain); all laws but order (grid, cube)\n\n"
        "Equals the authors' code as part of :class:`~meshop.models.Transolver`."
    )
    assert rows["LatentSSM"][5] == "no (plain, zoh, grid); yes (geometric)"
    assert rows["LatentSSM"][6] == "time O(N C² + N M C), memory O(N C + N H M), beside the core's on M tokens"
    assert rows["LaMO"][7] == "1,953,577"  # the paper's, for Elasticity
    assert "``lamo_irregular_shared``" in rows["LaMO"][8]
    assert rows["Stack"][5] == "if ``blocks`` does"
    assert rows["Stack"][7].endswith(" and those of ``blocks``")
