"""Weights that carry the names of a paper's published code."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from meshop.data import InputError


def load_authors(model: nn.Module, state_dict: Mapping[str, Tensor], names: Mapping[str, Sequence[str]]) -> None:
    """Fill a model with weights that have other names.

    Args:
        model: the model, of the right sizes.
        state_dict: the weights under the authors' names.
        names: for each layer or parameter of the model, the authors' name of it; where we merged several of their
            layers into one, their names, concatenated along the first axis.

    Raises:
        InputError: names are missing or unknown (all are listed), or a weight has another size.

    >>> ours = nn.Linear(2, 3)
    >>> load_authors(ours, {"to_q.weight": torch.ones(1, 2), "to_kv.weight": torch.ones(2, 2), "b": torch.ones(3)},
    ...              {"weight": ["to_q.weight", "to_kv.weight"], "bias": ["b"]})
    >>> ours.weight.sum().item()
    6.0
    """
    unknown, missing = set(state_dict), []
    ours: dict[str, Tensor] = {}
    for key, value in model.state_dict().items():
        layer = key if key in names else key.rpartition(".")[0]
        theirs = [name + key.removeprefix(layer) for name in names[layer]]
        unknown -= set(theirs)
        if absent := [name for name in theirs if name not in state_dict]:
            missing += absent
            continue
        ours[key] = torch.cat([state_dict[name] for name in theirs])
        if ours[key].numel() != value.numel():
            raise InputError(f"Expected {list(value.shape)} in {' + '.join(theirs)} (got {list(ours[key].shape)})")
        ours[key] = ours[key].view_as(value)
    if missing or unknown:
        listed = [f"{what}: {', '.join(sorted(n))}" for what, n in (("missing", missing), ("unknown", unknown)) if n]
        raise InputError(f"The weights are not those of the authors' {type(model).__name__} ({'; '.join(listed)})")
    model.load_state_dict(ours)


def read_sizes(state_dict: Mapping[str, Tensor], what: str, names: Mapping[str, str]) -> dict[str, torch.Size]:
    """Shapes of some of the weights.

    Args:
        state_dict: the weights under the authors' names.
        what: what they should be the weights of, for the error.
        names: the authors' name for each key of the answer.

    Raises:
        InputError: names are missing.
    """
    if missing := [name for name in names.values() if name not in state_dict]:
        raise InputError(f"The weights are not those of {what} (missing: {', '.join(missing)})")
    return {key: state_dict[name].shape for key, name in names.items()}


def count_blocks(state_dict: Mapping[str, Tensor]) -> int:
    """The number of blocks whose names start with ``blocks.``, one at least."""
    return max((int(name.split(".")[1]) + 1 for name in state_dict if name.startswith("blocks.")), default=1)


def backbone_sizes(layers: int) -> dict[str, str]:
    """For :func:`read_sizes`, what tells the sizes of lift, FFN and head in the code of Transolver and its family."""
    return {
        "lift": "preprocess.linear_pre.0.weight",
        "ffn": "blocks.0.mlp.linear_pre.0.weight",
        "head": f"blocks.{layers - 1}.mlp2.weight",
    }


def backbone_names(layers: int) -> dict[str, list[str]]:
    """For :func:`load_authors`, all but the mixers: lift, norms, FFNs and head of Transolver and its family."""
    names = {
        "lift.placeholder": ["placeholder"],
        "lift.mlp.lin1": ["preprocess.linear_pre.0"],
        "lift.mlp.lin2": ["preprocess.linear_post"],
        "lift.time.lin1": ["time_fc.0"],
        "lift.time.lin2": ["time_fc.2"],
        "norm": [f"blocks.{layers - 1}.ln_3"],
        "head": [f"blocks.{layers - 1}.mlp2"],
    }
    for block in (f"blocks.{i}" for i in range(layers)):
        names |= {
            f"{block}.norm1": [f"{block}.ln_1"],
            f"{block}.norm2": [f"{block}.ln_2"],
            f"{block}.ffn.lin1": [f"{block}.mlp.linear_pre.0"],
            f"{block}.ffn.lin2": [f"{block}.mlp.linear_post"],
        }
    return names
