"""The pages of operators and of benchmarks are made from the code, and the code has what the pages need."""

import importlib
import inspect
import re
import typing
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

import meshop.models
import meshop.nn
from meshop.datasets import BENCHMARKS
from meshop.datasets.generators import GENERATORS
from meshop.io import FORMATS
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


def test_tables_of_benchmarks_are_those_of_the_code(generate: ModuleType) -> None:
    page = (DOCS / "benchmarks.md").read_text()
    assert page == generate.benchmarks(page), "run make docs and commit docs/benchmarks.md"
    assert re.findall("<!-- made: (.+) -->", page) == ["problems", "files", "generators", "statistics"]


def test_tables_of_speed_are_those_of_the_files(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = (DOCS / "speed.md").read_text()
    assert page == generate.speed(page), "run make docs and commit docs/speed.md"
    assert re.findall("<!-- made: (.+) -->", page) == [
        "plain",
        "peers",
        "ragged",
        "scaling",
        "large",
        "ranks",
        "segments",
        "loader",
        "runs",
    ]
    (tmp_path / "speed_scaling.csv").write_text(
        "operator,pass,keep,nodes,seconds,machine,cores,threads,torch,commit,date\n"
        "A,training,False,1024,0.1,M,2,1,2.13,c,d\nA,training,False,4096,0.4,M,2,1,2.13,c,d\n"
        "A,training,False,16384,,M,2,1,2.13,c,d\nA,training,True,1024,0.1,M,2,1,2.13,c,d\n"
    )
    monkeypatch.setattr(generate, "DOCS", tmp_path)
    assert generate.timed("scaling")[1:] == [
        ["A", "training", "False", "4096", "0.4", "", "", ""],
        ["A", "training", "True", "1024", "0.1", "", "", ""],
    ]
    assert ["scaling", "M", "2", "1", "2.13", "c", "d"] in generate.runs()
    assert generate.timed("plain")[1:] == []


def test_tables_of_formats_are_those_of_the_code(generate: ModuleType) -> None:
    page = (DOCS / "formats.md").read_text()
    assert page == generate.formats(page), "run make docs and commit docs/formats.md"
    assert re.findall("<!-- made: (.+) -->", page) == ["meshes", "series"]
    rows = {row[0]: row[1:] for row in generate.mesh_formats()}
    assert rows["`.stl`"] == ["STL", "yes", "yes", "triangle", "none", "one"]
    assert rows["`.foam`"] == ["OpenFOAM case", "yes", "no", "all", "cell, patches, zones", "several"]
    listed = " ".join(row[0] for row in generate.mesh_formats()[1:]).split()
    assert [name.strip("`") for name in listed] == list(FORMATS)


def test_rows_of_benchmarks(generate: ModuleType) -> None:
    problems, files, generators = (
        {row[0].split("]")[0].strip("[`"): row[1:] for row in make()[1:]}
        for make in (generate.problems, generate.files, generate.generators)
    )
    assert list(problems) == list(files) == list(BENCHMARKS)
    assert list(generators) == list(GENERATORS)
    assert problems["plasticity"][1:5] == [
        "3,131",
        "18,000 / 1,600 (900 and 80 cases at 20 times)",
        "position, `die`, `time`",
        "`state`",
    ]
    assert problems["ignit_hit"][3:5] == [
        "position, `species_in`, `T_in`, `rho_in`, `velocity_in`",
        "`species_out`, `T_out`, `rho_out`, `velocity_out`",
    ]
    assert problems["foil"][2:5] == ["by index files (99 trajectories)", "position, `velocity_in`", "`velocity_out`"]
    assert "standard" in problems["darcy"][6]
    assert files["navier_stokes"][0] == (
        "fetching or `meshop generate navier_stokes` or `meshop generate navier_stokes_1e-4`"
    )
    assert files["graetz"][0] == '`pip install "meshop[data]"`'
    assert files["holed_poisson"][1] == "`holed_poisson.pt` (2.1 MB)"
    assert generators["navier_stokes_1e-4"][2] == "`ns_V1e-4_N10000_T30.mat`"
    assert generators["heat_flow"][2] == "train.txt, test.txt and the cases that they list"
    assert all(row[-1] for row in generators.values())


def test_rows_of_statistics_stand_beside_the_published_ones(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"generator": "darcy", "value": "sol", "measured_mean": "0.00567", "measured_std": "0.00386", "samples": "9"}
    other = {"generator": "pipe", "value": "u", "measured_mean": "1", "measured_std": "2", "samples": "3"}
    monkeypatch.setattr(generate, "measured", lambda: [other, row, {"generator": "darcy", "value": ""}])
    rows = generate.statistics()
    assert ["`darcy`", "sol", "", "0.00388433", "0.00567", "0.00386", "9 samples"] in rows
    assert ["`darcy`", "coeff", "7.5", "4.49996", "", "", ""] in rows
    assert ["`pipe`", "u", "", "", "1", "2", "3 samples"] in rows


def test_links_to_cards_lead_to_their_pages(generate: ModuleType) -> None:
    assert generate.linked("[a](../datasets/a/README.md)", "cards/") == "[a](cards/a.md)"
    assert generate.linked("[a](../a/README.md)") == "[a](a.md)"


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
    assert rows["LatentSSM"][6] == "time O(N C² + N M C), memory O(N C + M C), beside the core's on M tokens"
    assert rows["LaMO"][7] == "1,953,577"  # the paper's, for Elasticity
    assert "``lamo_irregular_shared``" in rows["LaMO"][8]
    assert rows["Stack"][5] == "if ``blocks`` does"
    assert rows["Stack"][7].endswith(" and those of ``blocks``")
