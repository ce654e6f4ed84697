"""What a mesh is (:class:`MeshData`) and which of its fields are learnt (:class:`FieldSpec`)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

Location = Literal["point", "cell"]


class InputError(ValueError):
    """Something the user gave does not fit; the message says what was expected, what came and what to do."""


class Arrays:
    """The arrays of a file under their own names; behaves like a ``dict`` with insertion order.

    It is deliberately no :class:`collections.abc.Mapping`: PyG concatenates mappings key by key when it batches, which
    drops or fails on arrays that only some meshes have. As an opaque object, a batch holds one :class:`Arrays` a mesh.

    Numeric arrays are tensors in the file's own dtype; text arrays stay numpy arrays.

    >>> a = Arrays({"p": np.float32([1, 2])})
    >>> a["p"]
    tensor([1., 2.])
    """

    def __init__(self, arrays: Arrays | Mapping[str, Any] | None = None) -> None:
        self._arrays: dict[str, Any] = {}
        for name, value in (arrays or {}).items():
            self[name] = value

    def __getitem__(self, name: str) -> Any:
        return self._arrays[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(value, Tensor):
            value = np.asarray(value)
            if value.dtype.kind in "biufc":
                # torch takes neither foreign byte order, nor C's other names of a type, nor negative strides
                value = np.ascontiguousarray(value, dtype=f"{value.dtype.kind}{value.dtype.itemsize}")
                value = torch.from_numpy(value if value.flags.writeable else value.copy())
        self._arrays[name] = value

    def __delitem__(self, name: str) -> None:
        del self._arrays[name]

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Arrays) or list(self) != list(other):
            return False
        return all(
            type(a) is type(b) and a.shape == b.shape and bool((a == b).all())
            for a, b in zip(self.values(), other.values(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Arrays({', '.join(f'{k}={list(v.shape)}' for k, v in self.items())})"

    def __copy__(self) -> Arrays:
        return Arrays(self)

    def __getstate__(self) -> dict[str, Any]:
        # text arrays go as lists: torch.load(weights_only=True) takes no numpy array
        return {k: v if isinstance(v, Tensor) else (v.dtype.str, v.tolist()) for k, v in self.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._arrays = {k: v if isinstance(v, Tensor) else np.array(v[1], dtype=v[0]) for k, v in state.items()}

    def keys(self) -> Iterable[str]:
        return self._arrays.keys()

    def values(self) -> Iterable[Any]:
        return self._arrays.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        return self._arrays.items()

    def get(self, name: str, default: Any = None) -> Any:
        return self._arrays.get(name, default)


class MeshData(Data):
    r"""A mesh and its graph: a PyG :class:`~torch_geometric.data.Data` that knows which of its keys are node numbers.

    ============================== ================== ==================================================================
    key                            shape              meaning
    ============================== ================== ==================================================================
    ``pos``                        [N, D]             coordinates of the graph's nodes, float32, in the file's unit
    ``points``                     [P, 3]             the file's points in its own precision; the mesh nodes
    ``cell_type``                  [C]                VTK code of each cell, in file order
    ``cell_size``                  [C]                number of nodes of each cell
    ``cell_index``                 [K]                node numbers of the cells one after another
    ``polyhedra``                  [3, S]             (cell, face, node) triples of polyhedral cells, else [3, 0]
    ``edge_index``                 [2, E]             undirected, coalesced graph
    ``measure``                    [N]                lumped length, area or volume of the node's dual cell
    ``x``, ``y``                   [N, F], [N, T]     packed input and target fields (see :class:`FieldSpec`)
    ``params``                     [1, P]             one value a graph: Mach number, angle, load
    ``point_data``, ``cell_data``  :class:`Arrays`    the file's own arrays
    ``field_data``                 :class:`Arrays`    the file's arrays that belong to no point or cell
    ============================== ================== ==================================================================

    The nodes of the graph are the mesh's points (N = P), unless :class:`~meshop.transforms.CellGraph` has made the
    cells the nodes (N = C). ``cell_index`` and ``polyhedra`` always count points.

    The stock :class:`torch_geometric.loader.DataLoader` batches it and ``to_data_list`` gives the meshes back whole. A
    user's own key whose name contains "index" is data, not connectivity.

    >>> square = MeshData.from_cells([[0.0, 0], [1, 0], [1, 1], [0, 1]], cell_type=[9], cells=[[0, 1, 2, 3]])
    >>> square.num_nodes, square.num_cells, square.dim
    (4, 1, 2)
    """

    @classmethod
    def from_cells(
        cls, points: Any, cell_type: Sequence[int], cells: Sequence[Sequence[int]] | np.ndarray, **fields: Any
    ) -> MeshData:
        """Build a mesh from points [P, D] and one list of node numbers a cell.

        Args:
            points: coordinates [P, 2] or [P, 3]; two columns lie in the plane z = 0.
            cell_type: VTK code of each cell.
            cells: node numbers of each cell, in VTK order; an array [C, K] where all have as many.
            **fields: further keys, ``point_data`` say.
        """
        pos = torch.as_tensor(np.asarray(points))
        if pos.dim() != 2 or pos.size(1) not in (2, 3):
            raise InputError(f"Expected points of shape [P, 2] or [P, 3] (got {list(pos.shape)})")
        pos = pos if pos.is_floating_point() else pos.double()
        if isinstance(cells, np.ndarray):
            size = torch.full((len(cells),), cells.shape[1])
            index = torch.from_numpy(cells.astype(np.int64).ravel())
        else:
            size = torch.tensor([len(c) for c in cells], dtype=torch.long)
            index = torch.tensor([i for c in cells for i in c], dtype=torch.long)
        points3 = torch.nn.functional.pad(pos, (0, 3 - pos.size(1)))
        fields = {"point_data": Arrays(), "cell_data": Arrays(), "field_data": Arrays(), **fields}
        for key in ("point_data", "cell_data", "field_data"):
            fields[key] = Arrays(fields[key])
        return cls(
            pos=pos.float(),
            points=points3,
            cell_type=torch.as_tensor(cell_type, dtype=torch.long),
            cell_size=size,
            cell_index=index,
            polyhedra=torch.empty(3, 0, dtype=torch.long),
            **fields,
        )

    @property
    def dim(self) -> int:
        """Number of coordinates D of ``pos``."""
        return int(self.pos.size(1))

    @property
    def num_cells(self) -> int:
        """Number of cells C of the mesh."""
        return int(self.cell_type.numel()) if "cell_type" in self else 0

    @property
    def num_points(self) -> int:
        """Number of points P of the mesh."""
        return int(self.points.size(0)) if "points" in self else int(self.pos.size(0))

    def __cat_dim__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        return 1 if key in ("edge_index", "face", "polyhedra") else 0

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        if key in ("edge_index", "face"):
            return self.num_nodes
        if key == "cell_index":
            return self.num_points
        if key == "polyhedra":
            faces = int(value[1].max()) + 1 if value.numel() else 0
            return torch.tensor([[self.num_cells], [faces], [self.num_points]])
        return 0

    def validate(self, raise_on_error: bool = True) -> bool:
        """Check the contract: sizes agree, indices lie in range, every array is as long as its location.

        Raises:
            InputError: one sentence naming the first key that does not fit, when ``raise_on_error``.
        """
        problem = next(self._problems(), None)
        if problem is not None and raise_on_error:
            raise InputError(problem)
        return problem is None

    def _problems(self) -> Iterator[str]:
        n, p, c = int(self.pos.size(0)), self.num_points, self.num_cells
        if "cell_size" in self:
            if self.cell_size.numel() != c:
                yield f"Expected one 'cell_size' for each of the {c} cells (got {self.cell_size.numel()})"
            if int(self.cell_size.sum()) != self.cell_index.numel():
                yield f"Expected {int(self.cell_size.sum())} numbers in 'cell_index' (got {self.cell_index.numel()})"
        none = torch.empty(3, 0, dtype=torch.long)
        for key, index, count in (
            ("cell_index", self.get("cell_index", none), p),
            ("edge_index", self.get("edge_index", none), n),
            ("polyhedra", self.get("polyhedra", none)[2], p),
        ):
            if index.numel() and (int(index.min()) < 0 or int(index.max()) >= count):
                yield f"Expected node numbers below {count} in '{key}' (got {int(index.min())} to {int(index.max())})"
        for key in ("x", "y", "measure"):
            if key in self and self[key].size(0) != n:
                yield f"Expected {n} rows in '{key}', one a node (got {self[key].size(0)})"
        if "params" in self and (self.params.dim() != 2 or self.params.size(0) != 1):
            yield f"Expected 'params' of shape [1, P] (got {list(self.params.shape)})"
        for key, count, what in (("point_data", p, "points"), ("cell_data", c, "cells")):
            for name, array in (self[key] if key in self else Arrays()).items():
                if len(array) != count:
                    yield f"{key} '{name}' has {len(array)} values but the mesh has {count} {what}"


@dataclass(frozen=True)
class Field:
    """A named field on the points or cells of a mesh: ``p`` on points with one component, in Pa."""

    name: str
    location: Location
    components: int = 1
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.location}"


@dataclass(frozen=True)
class FieldSpec:
    """Which fields enter a model, which it predicts, and where they live.

    ``x`` is [position | inputs] and ``y`` is [targets], columns in this order; vectors keep their components side by
    side. All fields of one spec live where the graph's nodes are: on points or on cells.

    Args:
        targets: predicted fields.
        inputs: fields that enter the model.
        params: names of the values a graph carries in ``params``.
        dim: number of coordinates D of the graph.
        position: whether ``x`` starts with the D coordinates of ``pos``.
    """

    targets: tuple[Field, ...]
    inputs: tuple[Field, ...] = ()
    params: tuple[str, ...] = ()
    dim: int = 3
    position: bool = True

    def __post_init__(self) -> None:
        if not self.targets:
            raise InputError("Expected at least one target field (got none); name one, as in --target p:point")
        if len({f.location for f in (*self.targets, *self.inputs)}) > 1:
            named = ", ".join(str(f) for f in (*self.targets, *self.inputs))
            raise InputError(
                f"Expected all fields at one location (got {named}); move fields first, with "
                "meshop.transforms.CellsToPoints or PointsToCells (--move points, --move cells)"
            )
        names = [f.name for f in self.targets]
        if len(set(names)) < len(names):
            raise InputError(f"Expected every target once (got {', '.join(names)})")

    @property
    def location(self) -> Location:
        """Where the fields, and so the graph's nodes, live."""
        return self.targets[0].location

    @property
    def in_channels(self) -> int:
        """Channels of ``x`` and ``params`` together: what a model sees at each node."""
        return self.dim * self.position + sum(f.components for f in self.inputs) + len(self.params)

    @property
    def out_channels(self) -> int:
        """Channels of ``y``."""
        return sum(f.components for f in self.targets)

    @classmethod
    def resolve(
        cls,
        data: MeshData,
        targets: Sequence[str],
        inputs: Sequence[str] = (),
        params: Sequence[str] = (),
        units: Mapping[str, str] | None = None,
        position: bool = True,
        where: str = "the mesh",
    ) -> FieldSpec:
        """Look names such as ``"p"``, ``"p:point"`` or ``"U:cell"`` up in a mesh.

        Raises:
            InputError: a name is absent, is at both locations, or is not numeric.
        """

        def find(text: str) -> Field:
            name, location = split_name(text)
            stores: dict[Location, Arrays] = {"point": data.point_data, "cell": data.cell_data}
            found: list[Location] = [
                loc for loc, arrays in stores.items() if name in arrays and location in (None, loc)
            ]
            if len(found) == 2:
                raise InputError(
                    f"Field '{name}' is both a point and a cell field of {where}; say {name}:point or {name}:cell"
                )
            if not found:
                known = [f"{n}:{loc}" for loc, arrays in stores.items() for n in arrays]
                listed = ", ".join(known) or "no fields"
                raise InputError(f"Field '{text}' is not in {where}{did_you_mean(text, known)}; it has {listed}")
            array = stores[found[0]][name]
            if not isinstance(array, Tensor) or array.is_complex() or array.dim() > 2:
                raise InputError(
                    f"Expected a real scalar or vector field (got '{text}' of {where} with shape {list(array.shape)})"
                )
            components = 1 if array.dim() == 1 else int(array.size(1))
            if data.dim == 2 and components == 3:
                components = 2  # files hold vectors of a plane with a third, zero column
            return Field(name, found[0], components, (units or {}).get(name, ""))

        return cls(tuple(map(find, targets)), tuple(map(find, inputs)), tuple(params), data.dim, position)

    def pack(self, data: MeshData, where: str = "the mesh", targets: bool = True) -> MeshData:
        """Return a shallow copy with ``x`` [N, F], ``params`` [1, P] and, where all targets exist, ``y`` [N, T].

        Args:
            data: a mesh whose graph has been built.
            where: name of the file, for messages.
            targets: whether missing targets are an error (training) or leave ``y`` out (prediction).
        """
        if data.dim != self.dim:
            raise InputError(f"Expected a {self.dim}-D mesh (got {where}, which is {data.dim}-D)")
        nodes, count = ("points", data.num_points) if self.location == "point" else ("cells", data.num_cells)
        if data.pos.size(0) != count:
            raise InputError(
                f"Expected a graph whose nodes are the {count} {nodes} of {where} (got {data.pos.size(0)} nodes); "
                "cell fields need the transform meshop.transforms.CellGraph, point fields must not have it"
            )
        out: MeshData = data.__copy__()
        columns = [data.pos] if self.position else []
        out.x = torch.cat([*columns, *(self._column(data, f, where) for f in self.inputs)] or [data.pos[:, :0]], dim=1)
        if self.params:
            if "params" not in data or data.params.size(1) != len(self.params):
                raise InputError(
                    f"Expected the parameters {', '.join(self.params)} for {where}; give them in the CSV of cases"
                )
            out.params = data.params.float()
        arrays = data.point_data if self.location == "point" else data.cell_data
        if targets or all(f.name in arrays for f in self.targets):
            out.y = torch.cat([self._column(data, f, where) for f in self.targets], dim=1)
        return out

    def unpack(self, y: Tensor) -> dict[str, Tensor]:
        """Split packed targets [N, T] into named fields: scalars [N], vectors [N, components]."""
        parts = y.split([f.components for f in self.targets], dim=1)
        return {f.name: p.squeeze(1) if f.components == 1 else p for f, p in zip(self.targets, parts, strict=True)}

    def _column(self, data: MeshData, field: Field, where: str) -> Tensor:
        arrays = data.point_data if field.location == "point" else data.cell_data
        if field.name not in arrays:
            other = data.cell_data if field.location == "point" else data.point_data
            hint = (
                f"; it is a {'cell' if field.location == 'point' else 'point'} field there"
                if field.name in other
                else did_you_mean(field.name, list(arrays))
            )
            raise InputError(f"Field '{field}' is not in {where}{hint}")
        array = arrays[field.name]
        if not isinstance(array, Tensor) or array.is_complex():
            raise InputError(f"Field '{field}' of {where} does not hold real numbers")
        count, what = (data.num_points, "points") if field.location == "point" else (data.num_cells, "cells")
        if array.size(0) != count:
            raise InputError(f"Field '{field}' has {array.size(0)} values but {where} has {count} {what}")
        column = array.reshape(count, -1).float()
        if self.dim == 2 and field.components == 2 and column.size(1) == 3:
            column = in_plane(column, data.points, f"Field '{field}' of {where}")
        if column.size(1) != field.components:
            raise InputError(f"Field '{field}' of {where} has {column.size(1)} components, expected {field.components}")
        if not bool(column.isfinite().all()):
            raise InputError(
                f"Field '{field}' of {where} holds {int((~column.isfinite()).sum())} values that are not finite"
            )
        return column

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, for checkpoints and configuration files."""
        return asdict(self)

    @classmethod
    def from_dict(cls, spec: Mapping[str, Any]) -> FieldSpec:
        """Inverse of :meth:`to_dict`."""
        fields = {k: tuple(Field(**f) for f in spec[k]) for k in ("targets", "inputs")}
        return cls(**fields, params=tuple(spec["params"]), dim=spec["dim"], position=spec["position"])


def split_name(text: str) -> tuple[str, Location | None]:
    """Split ``"p:point"`` into name and location; a name without a known location keeps its colons.

    >>> split_name("U:cell"), split_name("p"), split_name("a:b")
    (('U', 'cell'), ('p', None), ('a:b', None))
    """
    name, _, location = text.rpartition(":")
    if name and location == "point":
        return name, "point"
    if name and location == "cell":
        return name, "cell"
    return text, None


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """The clause ``" (did you mean ...?)"`` for the closest known name, or nothing."""
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def in_plane_axes(points: Tensor) -> list[int] | None:
    """The two coordinate axes of the plane in which points [P, 3] lie, or ``None`` when they lie in none.

    >>> in_plane_axes(torch.tensor([[0.0, 5, 0], [1, 5, 0], [0, 5, 1]]))
    [0, 2]
    """
    if points.size(0) == 0:
        return [0, 1]
    extent = points.amax(0) - points.amin(0)
    for normal in (2, 1, 0):
        if float(extent[normal]) <= 1e-12 * float(extent.max()):
            return [a for a in range(3) if a != normal]
    return None


def in_plane(vectors: Tensor, points: Tensor, what: str) -> Tensor:
    """The components [..., 2] of vectors [..., 3] in the coordinate plane of the points.

    Raises:
        InputError: they leave it; the message begins with what they are.
    """
    plane = in_plane_axes(points) or [0, 1]
    rest = ({0, 1, 2} - set(plane)).pop()
    if bool((vectors[..., rest] != 0).any()):
        raise InputError(f"{what} has a component normal to the plane; read the mesh as 3-D (--dim 3)")
    return vectors[..., plane]


# InMemoryDataset writes the class of its data beside the tensors; allow reading it back with weights_only=True.
torch.serialization.add_safe_globals([MeshData, Arrays])
