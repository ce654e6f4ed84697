"""The laws that every layer and model of meshop keeps, as functions: check your own layer with :func:`assert_layer`.

>>> from torch_geometric.nn import SAGEConv
>>> assert_layer(SAGEConv(16, 16), laws=["batch", "order", "stack"])

A law takes a module and a function that makes graphs; it raises :class:`AssertionError` where the module breaks it. The
module itself stays as it is: laws work on copies whose parameters have been shaken, as most initialisations are so
symmetric (zero biases, uniform softmaxes) that a wrong layer would pass.
"""

from __future__ import annotations

import copy
import inspect
import io
import itertools
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Batch, Data
from torch_geometric.nn import Sequential
from torch_geometric.nn.inits import reset

from meshop.nn.functional import argument, argument_names, call

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 5e-2, torch.float16: 1e-2}


class Make(Protocol):
    """Makes the graph of a number of nodes and a seed; all graphs it makes can share a batch."""

    def __call__(self, num_nodes: int, seed: int) -> Data: ...


def random_graph(num_nodes: int, seed: int, channels: int = 16, dim: int = 2) -> Data:
    """A graph with features, positions, measure, time and edges between nodes that follow each other.

    >>> random_graph(5, seed=0)
    Data(x=[5, 16], edge_index=[2, 8], pos=[5, 2], time=[1], measure=[5])
    """
    generator = torch.Generator().manual_seed(seed)
    forth = torch.stack([torch.arange(num_nodes - 1), torch.arange(1, num_nodes)]) if num_nodes else torch.empty(2, 0)
    return Data(
        x=torch.randn(num_nodes, channels, generator=generator),
        pos=torch.rand(num_nodes, dim, generator=generator),
        measure=torch.rand(num_nodes, generator=generator) + 0.1,
        edge_index=torch.cat([forth, forth.flip(0)], dim=1).long(),
        time=torch.rand(1, generator=generator),
    )


def random_grid(num_nodes: int, seed: int, channels: int = 16, shape: tuple[int, ...] = (5, 6)) -> Data:
    """A :func:`random_graph` on a grid; it has the nodes of the grid, whatever number is asked for.

    >>> random_grid(90, seed=0, shape=(2, 3))
    Data(x=[6, 16], edge_index=[2, 10], pos=[6, 2], time=[1], measure=[6], shape=[2])
    """
    data = random_graph(torch.Size(shape).numel(), seed, channels, len(shape))
    data.shape = shape
    return data


def assert_layer(
    module: nn.Module, make: Make = random_graph, laws: Iterable[str] | None = None, skip: Iterable[str] = ()
) -> None:
    """Check a layer or model against the laws.

    Args:
        module: called by :func:`meshop.nn.call`.
        make: makes the graphs; by default :func:`random_graph` of 16 channels.
        laws: names in :data:`LAWS`; all of them by default.
        skip: those to leave out.

    Raises:
        AssertionError: the module breaks a law.
    """
    for name in LAWS if laws is None else laws:
        if name not in skip:
            LAWS[name](module, make)


def assert_batch(module: nn.Module, make: Make = random_graph) -> None:
    """A graph's output does not depend on who shares its batch, nor on whether the batch vector is sorted."""
    module = _shaken(module)
    _assert_batch(
        module.double(), [_to(make(n, seed=n), torch.float64) for n in (0, 1, 7, 90)], TOLERANCE[torch.float64]
    )
    _assert_batch(module.float(), [make(n, seed=n) for n in (7, 5000)], 1e-6)


def _assert_batch(module: nn.Module, graphs: list[Data], tolerance: float) -> None:
    alone = torch.cat([call(module, graph) for graph in graphs])
    batch = Batch.from_data_list(graphs)
    _assert_close(call(module, batch), alone, tolerance, "a batch differs from its graphs one by one")
    # shuffle the nodes of the batch, but not those of one graph among each other: that is the law of order
    shuffled = batch.batch[torch.randperm(batch.num_nodes, generator=torch.Generator().manual_seed(0))]
    order = torch.empty_like(shuffled)
    order[shuffled.argsort(stable=True)] = torch.arange(batch.num_nodes)
    out = call(module, _permuted(batch, order))
    _assert_close(out, alone[order], tolerance, "a batch with unsorted nodes differs from the sorted one")


def assert_order(module: nn.Module, make: Make = random_graph) -> None:
    """Renumbering the nodes renumbers the output."""
    module, graph = _shaken(module).double(), _to(make(90, seed=0), torch.float64)
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    out, expected = call(module, _permuted(graph, order)), call(module, graph)[order]
    _assert_close(out, expected, TOLERANCE[torch.float64], "the output depends on the order of the nodes")


def assert_measure(module: nn.Module, make: Make = random_graph) -> None:
    """Splitting nodes into parts of their measure changes nothing, and neither does the unit of the measure.

    Holds trivially for a layer that takes no ``measure``.
    """
    if "measure" not in argument_names(module):
        return
    module, graph = _shaken(module).double(), _to(make(90, seed=0), torch.float64)
    expected = call(module, graph)
    for unit in (1e-12, 1e12):
        scaled = graph.clone()
        scaled.measure = graph.measure * unit
        _assert_close(
            call(module, scaled), expected, TOLERANCE[torch.float64], "the output depends on the unit of measure"
        )
    without = graph.clone()
    without.measure = torch.ones_like(graph.measure)
    assert (call(module, without) - expected).abs().max() > 1e-6, "the measure is not used"
    if "shape" in graph:
        return
    twice = torch.cat([torch.arange(90), torch.arange(0, 90, 3)])
    split = _permuted(graph, twice)
    split.measure[:90:3] *= 0.3
    split.measure[90:] *= 0.7
    _assert_close(call(module, split), expected[twice], TOLERANCE[torch.float64], "splitting nodes changes the output")


def assert_gradient(module: nn.Module, make: Make = random_graph) -> None:
    """The gradient is that of finite differences; every parameter gets a finite one, beside graphs of 0 and 1 nodes."""
    module = _shaken(module).double()
    graph = _to(Batch.from_data_list([make(n, seed=n) for n in (0, 1, 7)]), torch.float64)
    names = [name for name in ("x", "pos", "time") if name in graph]
    parameters = dict(module.named_parameters())

    def function(*values: Tensor) -> Tensor:
        given = graph.clone()
        for name, value in zip(names, values, strict=False):
            given[name] = value
        weights = dict(zip(parameters, values[len(names) :], strict=True))
        return torch.func.functional_call(_Call(module), {f"module.{k}": v for k, v in weights.items()}, (given,))

    values = [graph[name].clone().requires_grad_() for name in names]
    leaves = [p.detach().clone().requires_grad_() for p in parameters.values()]
    assert torch.autograd.gradcheck(function, (*values, *leaves), fast_mode=True)
    out = call(module, graph)
    if out.requires_grad:
        out.square().sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, f"{name} gets no gradient"
        assert parameter.grad.isfinite().all(), f"the gradient of {name} is not finite"


class _Call(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, data: Data) -> Any:
        return call(self.module, data)


def assert_dtype(module: nn.Module, make: Make = random_graph) -> None:
    """The output has the dtype and device of module and input, in single, double and half precision."""
    module, graph = _shaken(module), make(90, seed=0)
    expected = call(copy.deepcopy(module).double(), _to(graph, torch.float64))
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    for dtype, device in itertools.product(TOLERANCE, devices):
        out = call(copy.deepcopy(module).to(device, dtype), _to(graph, dtype).to(device))
        assert out.dtype == dtype, f"{dtype} in, {out.dtype} out"
        assert out.device.type == device, f"{device} in, {out.device} out"
        _assert_close(out.double().cpu(), expected, TOLERANCE[dtype], f"{dtype} on {device} differs from float64")


def assert_state(module: nn.Module, make: Make = random_graph) -> None:
    """A module is its class, its constructor arguments (attributes of the same names) and its ``state_dict``.

    The latter loads with ``weights_only=True``; resetting with the same seed gives the same weights.
    """
    module, graph = _shaken(module), make(90, seed=0)
    call(module, graph)
    names = inspect.signature(type(module)).parameters
    for name in names:
        assert hasattr(module, name), f"the constructor argument {name} is not kept as an attribute"
    other = type(module)(**{name: copy.deepcopy(getattr(module, name)) for name in names}).eval()
    other.load_state_dict(module.state_dict())
    seeded = []
    for _ in range(2):
        torch.manual_seed(0)
        reset(other)
        seeded.append([p.clone() for p in other.parameters()])
    assert all(map(torch.equal, *seeded)), "the same seed gives other weights"
    assert not any(map(torch.equal, other.parameters(), module.parameters())), "reset_parameters leaves parameters out"
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(call(other, graph), call(module, graph)), "the output depends on more than arguments and state"


def assert_amp(module: nn.Module, make: Make = random_graph) -> None:
    """Under autocast to bfloat16 the output stays within 2 % and the gradients are finite."""
    module, graph = _shaken(module), make(1000, seed=0)
    expected = call(module, graph)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = call(module, graph)
    error = (out.float() - expected).norm() / expected.norm()
    assert error <= 0.02, f"bfloat16 is {100 * error:.1f} % off"
    if out.requires_grad:
        out.float().square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters()), "gradients overflow"


def assert_stack(module: nn.Module, make: Make = random_graph) -> None:
    """A :class:`torch_geometric.nn.Sequential`, which passes arguments by position, gives what ``call`` gives."""
    module, batch = _shaken(module), Batch.from_data_list([make(n, seed=n) for n in (7, 90)])
    given = {name: argument(batch, name) for name in argument_names(module)}
    given = dict(itertools.takewhile(lambda item: item[1] is not None, given.items()))
    names = ", ".join(given).replace("input", "x")
    stack = Sequential(names, [(module, f"{names} -> x")])
    # PyG imports the module that built it by the name of its file, fails inside a package and falls back on the forward
    # of whatever Sequential succeeded last
    stack._caller_module = "math"
    stack._set_jittable_template(raise_on_error=True)
    out = call(stack, batch)
    _assert_close(out, module(**given), 1e-6, "the layer gives something else in a Sequential")


def assert_compile(module: nn.Module, make: Make = random_graph, backend: str = "eager") -> None:
    """``torch.compile`` makes one graph without breaks, at most three of them for 20 sizes of a mesh or of a batch."""
    from torch._dynamo.testing import CompileCounterWithBackend

    module = _shaken(module)
    for together in (1, 3):
        torch._dynamo.reset()
        counter = CompileCounterWithBackend(backend)
        compiled: Any = torch.compile(module, dynamic=True, fullgraph=True, backend=counter)
        for size in range(50, 250, 10):
            data = _batch(make, size, together + (size % 3 if together > 1 else 0))
            with torch.no_grad():
                _assert_close(call(compiled, data), call(module, data), 1e-5, "the compiled module differs")
        assert counter.frame_count <= 3, f"compiled {counter.frame_count} times for 20 sizes"


def assert_export(module: nn.Module, make: Make = random_graph) -> None:
    """``torch.export`` gives a program for any number of nodes, checked at a second one, for a mesh and for a batch."""
    module = _shaken(module)
    for together in (1, 3):
        first, second = (
            {k: v for k in argument_names(module) if (v := argument(_batch(make, size, together), k)) is not None}
            for size in (50, 71)
        )
        nodes: dict[str, Any] = {}
        for key, value in first.items():
            axis = int(key == "edge_index")
            if isinstance(value, Tensor) and value.size(axis) > 1:
                nodes[key] = {axis: Dim.AUTO}
            else:
                nodes[key] = (None,) * len(value) if key == "shape" else None
        program = torch.export.export(module, (), first, dynamic_shapes=nodes).module()
        _assert_close(program(**second), module(**second), 1e-5, "the exported program differs")


def _batch(make: Make, size: int, together: int) -> Data:
    graphs = [make(size + i, seed=i) for i in range(together)]
    return Batch.from_data_list(graphs) if together > 1 else graphs[0]


def assert_memory(module: nn.Module, make: Make = random_graph, per_node: int = 128) -> None:
    """No tensor has more than ``per_node`` numbers a node, forward or backward: nothing is N x N or N x M x d."""
    module, graph = _shaken(module), make(4096, seed=0)
    with _Largest() as largest:
        out = call(module, graph)
        if out.requires_grad:
            out.square().sum().backward()
    size = largest.numel / max(graph.num_nodes, 1)
    assert size <= per_node, f"{largest.name} makes a tensor of {size:.0f} numbers a node, {per_node} were allowed"


class _Largest(TorchDispatchMode):
    """Remembers the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.numel, self.name = 0, ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            # a view may repeat an element, which takes no memory
            if isinstance(tensor, Tensor) and tensor.untyped_storage().nbytes() // tensor.element_size() > self.numel:
                self.numel, self.name = tensor.untyped_storage().nbytes() // tensor.element_size(), str(func)
        return out


LAWS: dict[str, Callable[[nn.Module, Make], None]] = {
    "batch": assert_batch,
    "order": assert_order,
    "measure": assert_measure,
    "gradient": assert_gradient,
    "dtype": assert_dtype,
    "state": assert_state,
    "amp": assert_amp,
    "stack": assert_stack,
    "compile": assert_compile,
    "export": assert_export,
    "memory": assert_memory,
}


def _shaken(module: nn.Module) -> nn.Module:
    """A copy in evaluation mode whose parameters have moved at random, the same way for every call."""
    module = copy.deepcopy(module).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return module


def _to(data: Data, dtype: torch.dtype) -> Data:
    return data.clone().apply(lambda value: value.to(dtype) if value.is_floating_point() else value)


def _permuted(data: Data, order: Tensor) -> Data:
    """Take nodes in another order (or some twice); each edge joins all copies of its two nodes."""
    out = data.clone()
    for key, value in data.items():
        if key == "edge_index":
            edge, source = (order == value[0, :, None]).nonzero().unbind(1)
            pair, target = (order == value[1, edge, None]).nonzero().unbind(1)
            out[key] = torch.stack([source[pair], target])
        elif data.is_node_attr(key):
            out[key] = value[order]
    return out


def _assert_close(out: Tensor, expected: Tensor, tolerance: float, what: str) -> None:
    assert out.shape == expected.shape, f"{what}: shape {list(out.shape)} for {list(expected.shape)}"
    if expected.numel() > 0:
        error = (out - expected).abs().max() / expected.abs().max()
        assert error <= tolerance, f"{what}: by {error:.1e} of the largest value, {tolerance:.0e} is allowed"
