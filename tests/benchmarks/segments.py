"""Every reduction over an index that meshop uses: torch's own ways, PyG's, and torch-scatter's where it is installed.

    python tests/benchmarks/segments.py --out segments.csv
    python tests/benchmarks/segments.py --rows 10000 100000 1000000 --channels 64 --rounds 10

Cases are what the layers and functions ask for, at each number of ``--rows`` (nodes, edges or corners):

=====  ==============================================================================================================
tiles  sums and maxima of the tiles of a ragged batch over its graphs: ``meshop.nn.functional.Tiles``, few rows of
       thousands of numbers, sorted
nodes  sums, maxima and minima of nodes over 16 graphs, sorted: ``meshop.metrics``, ``UnifiedPosition``
edges  sums of messages over nodes of six edges each, unsorted: ``DepthwiseGraphConv``
grid   sums of nodes over 1,024 grid points, unsorted: ``GridResample``
cells  sums and means of single numbers over nodes, unsorted: ``meshop.geometry.measure``, ``meshop.metrics``
=====  ==============================================================================================================

Ways, each where it applies:

- ``scatter``: ``torch_geometric.utils.scatter``, what meshop calls for all but sums over graphs;
- ``index_add``, what it takes for these, and ``scatter_reduce``: torch's methods; ``index_reduce`` for means and
  extrema;
- ``segment_reduce``: torch's, for sorted indices;
- ``torch_scatter``, ``segment_csr``: torch-scatter's.

``forward`` is without gradients, ``training`` with the backward pass. All ways of a case run in turn; each must give
what ``scatter`` gives to 1e-5. The table has milliseconds, the quickest way, and how many times as long ``scatter``
takes.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measuring import about, alternate, markdown, ratio, write_rows
from torch import Tensor
from torch_geometric.utils import scatter

GRAPHS, DEGREE, POINTS, TILE = 16, 6, 1024, 128
WAYS = ("scatter", "index_add", "scatter_reduce", "index_reduce", "segment_reduce", "torch_scatter", "segment_csr")
NAMES = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin"}


def cases(rows: int, channels: int) -> list[tuple[str, str, Tensor, Tensor, int]]:
    """Name, reduction, values, index and number of segments."""
    generator = torch.Generator().manual_seed(0)

    def values(count: int, width: int) -> Tensor:
        return torch.randn(count, width, generator=generator)

    def index(count: int, size: int, order: bool) -> Tensor:
        drawn = torch.randint(size, (count,), generator=generator)
        drawn[:size] = torch.arange(size)[:count]  # no segment is empty
        return drawn.sort().values if order else drawn[torch.randperm(count, generator=generator)]

    tiles, nodes = max(GRAPHS, rows // TILE), max(1, rows // DEGREE)
    wide = 8 * 64 * channels // 8  # tokens of 8 heads
    return [
        ("tiles", "sum", values(tiles, wide), index(tiles, GRAPHS, True), GRAPHS),
        ("tiles", "max", values(tiles, 8 * 64), index(tiles, GRAPHS, True), GRAPHS),
        *(("nodes", how, values(rows, channels), index(rows, GRAPHS, True), GRAPHS) for how in ("sum", "max", "min")),
        ("edges", "sum", values(rows, channels), index(rows, nodes, False), nodes),
        ("grid", "sum", values(rows, channels), index(rows, POINTS, False), POINTS),
        *(("cells", how, values(rows, 1), index(rows, nodes, False), nodes) for how in ("sum", "mean")),
    ]


def ways(how: str, index: Tensor, size: int, is_sorted: bool) -> dict[str, Callable[[Tensor], Tensor]]:
    """The functions that reduce values by the index."""
    native = NAMES[how]
    found: dict[str, Callable[[Tensor], Tensor]] = {
        "scatter": lambda x: scatter(x, index, dim_size=size, reduce=how),
        "scatter_reduce": lambda x: x.new_zeros(size, x.size(1)).scatter_reduce(
            0, index[:, None].expand_as(x), x, native, include_self=False
        ),
    }
    if how == "sum":
        found["index_add"] = lambda x: x.new_zeros(size, x.size(1)).index_add(0, index, x)
    else:
        found["index_reduce"] = lambda x: x.new_zeros(size, x.size(1)).index_reduce(
            0, index, x, native, include_self=False
        )
    lengths = torch.bincount(index, minlength=size)
    if is_sorted:
        found["segment_reduce"] = lambda x: torch.segment_reduce(x, how, lengths=lengths, axis=0)
    if importlib.util.find_spec("torch_scatter"):
        import torch_scatter

        found["torch_scatter"] = lambda x: torch_scatter.scatter(x, index, 0, dim_size=size, reduce=how)
        if is_sorted:
            ends = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
            found["segment_csr"] = lambda x: torch_scatter.segment_csr(x, ends, reduce=how)
    return found


def measure(case: tuple[str, str, Tensor, Tensor, int], training: bool, rounds: int) -> dict[str, Any]:
    """A row."""
    name, how, x, index, size = case
    x = x.clone().requires_grad_(training)
    found = ways(how, index, size, bool((index.diff() >= 0).all()))
    expected = found["scatter"](x).detach()
    for way, reduce in found.items():
        difference = (reduce(x).detach() - expected).abs().max() / expected.abs().max()
        assert difference <= 1e-5, f"{way} differs from scatter by {difference:.1e} in {name}, {how}"

    def step(reduce: Callable[[Tensor], Tensor]) -> Callable[[], object]:
        def run() -> None:
            if training:
                x.grad = None
                reduce(x).sum().backward()
            else:
                reduce(x)

        return run

    seconds = alternate({way: step(reduce) for way, reduce in found.items()}, rounds)
    best = {way: min(values) for way, values in seconds.items()}
    quickest = min(best, key=lambda way: best[way])
    row = {"case": name, "reduce": how, "pass": "training" if training else "forward"}
    row |= {"rows": len(x), "channels": x.size(1), "segments": size}
    row |= {way: f"{1e3 * best[way]:.4g}" if way in best else "" for way in WAYS}
    return row | {"quickest": quickest, "scatter / quickest": f"{ratio(seconds[quickest], seconds['scatter']):.2f}"}


def main() -> None:
    """Measure all cases, write after each, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, default=Path("segments.csv"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows: list[dict[str, Any]] = []
    for count in options.rows:
        for case in cases(count, options.channels):
            for training in (False, True):
                rows.append(measure(case, training, options.rounds) | about())
                write_rows(options.out, rows)
    shown = [way for way in WAYS if any(row[way] for row in rows)]
    columns = ["case", "reduce", "pass", "rows", "channels", "segments", *shown, "quickest", "scatter / quickest"]
    print(markdown(rows, columns))


if __name__ == "__main__":
    main()
