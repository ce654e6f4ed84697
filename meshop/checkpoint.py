"""What a checkpoint holds beside the weights: how to build the same modules again, as plain values."""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch_geometric.transforms import BaseTransform, Compose

from meshop.data import InputError

_PLAIN = (bool, int, float, str, type(None))


def describe(module: nn.Module | BaseTransform) -> dict[str, Any]:
    """Describe a module or transform by its class and constructor arguments, read from the attributes of the same name.

    This is PyG's own habit (``GATConv(16, 32).in_channels``), so meshop's modules and most of PyG's are described;
    arguments may be plain values, lists of them, or modules. Inverse of :func:`build`.

    Raises:
        InputError: an argument is not kept as an attribute, or is neither plain nor a module.

    >>> describe(nn.Linear(2, 3))["args"]["out_features"]
    3
    """
    cls = type(module)
    if isinstance(module, nn.Sequential):
        return {"class": _path(cls), "args": {}, "items": [describe(m) for m in module]}
    if isinstance(module, nn.ModuleList):
        return {"class": _path(cls), "args": {"modules": [describe(m) for m in module]}}
    if isinstance(module, Compose):
        return {"class": _path(cls), "args": {"transforms": [describe(t) for t in module.transforms]}}
    args = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name in ("device", "dtype"):
            continue
        value = getattr(module, name, parameter.default)
        if name == "bias" and not isinstance(value, bool):  # torch keeps the parameter, not the flag
            value = value is not None
        if value is inspect.Parameter.empty:
            raise InputError(f"{cls.__name__} does not keep its argument '{name}' as an attribute")
        args[name] = _describe_value(value, f"{cls.__name__}.{name}")
    return {"class": _path(cls), "args": args}


def build(description: dict[str, Any]) -> Any:
    """Build the module or transform that :func:`describe` described.

    Only classes of torch, torch_geometric and meshop, or of modules that the program has imported itself, are looked
    up: a checkpoint cannot make Python import anything.

    Raises:
        InputError: the class is unknown, or refuses the arguments.
    """
    module_name, _, name = description["class"].rpartition(".")
    if module_name.split(".")[0] == "meshop":
        __import__(module_name)
    cls = getattr(sys.modules.get(module_name), name, None)
    if not (isinstance(cls, type) and issubclass(cls, nn.Module | BaseTransform)):
        raise InputError(f"The checkpoint needs the class {description['class']}; import it first, or pass model=")
    try:
        return cls(
            *map(build, description.get("items", [])), **{k: _build_value(v) for k, v in description["args"].items()}
        )
    except TypeError as error:
        raise InputError(f"{description['class']} cannot be built from this checkpoint: {error}") from error


def from_config(choice: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a module that a configuration file chose: ``class_path`` and ``init_args`` (jsonargparse).

    >>> from_config({"class_path": "torch.nn.Linear", "init_args": {"in_features": 2, "out_features": 3}})
    {'class': 'torch.nn.Linear', 'args': {'in_features': 2, 'out_features': 3}}
    """

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping) and "class_path" in value:
            return from_config(value)
        return [plain(v) for v in value] if isinstance(value, list | tuple) else value

    return {"class": choice["class_path"], "args": {k: plain(v) for k, v in choice.get("init_args", {}).items()}}


def rebuildable(module: nn.Module, description: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """The description of a module when building it gives the same architecture, else ``None``.

    A class that keeps its arguments differently (PyG's models with ``**kwargs``) must not come back as another network,
    so a copy is made once and compared: same names and shapes of parameters, same representation.

    Args:
        module: a module.
        description: how it was made, when the caller knows; read from its attributes otherwise.
    """
    try:
        description = description or describe(module)
        with torch.random.fork_rng(devices=[]):
            copy = build(description)
    except (InputError, ValueError, TypeError, AttributeError, RuntimeError):
        return None
    shapes = [{k: v.shape for k, v in m.state_dict().items()} for m in (module, copy)]
    return description if shapes[0] == shapes[1] and repr(module) == repr(copy) else None


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint of :func:`meshop.train.fit` without executing anything in it (``weights_only=True``).

    Raises:
        InputError: the file is missing, is no checkpoint, or is one of another program.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"Checkpoint {path} does not exist; give RUN/checkpoints/last.ckpt or best.ckpt")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError, ValueError, KeyError, OSError) as error:
        raise InputError(f"{path} is not a meshop checkpoint, or is damaged ({type(error).__name__})") from error
    if not (isinstance(state, dict) and isinstance(state.get("meshop"), dict)):
        raise InputError(
            f"{path} is a torch file but no meshop checkpoint; train with meshop train, or meshop.train.fit"
        )
    return state


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _describe_value(value: Any, where: str) -> Any:
    if isinstance(value, nn.Module | BaseTransform):
        return describe(value)
    if isinstance(value, list | tuple):
        return [_describe_value(v, where) for v in value]
    if isinstance(value, _PLAIN):
        return value
    raise InputError(f"Expected a plain value or a module as {where} (got {type(value).__name__})")


def _build_value(value: Any) -> Any:
    if isinstance(value, dict):
        return build(value)
    return [_build_value(v) for v in value] if isinstance(value, list) else value
