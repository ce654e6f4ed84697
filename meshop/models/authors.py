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
