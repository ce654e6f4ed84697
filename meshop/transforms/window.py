"""A window of a trajectory: some frames that a model sees, and those that follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from meshop.data import Arrays, InputError, MeshData, did_you_mean, in_plane


@functional_transform("window")
class Window(BaseTransform):
    r"""Cut a window out of a trajectory, such as :func:`meshop.io.read_series` reads: history, and what follows it.

    ===================== ================= ===========================================================================
    array                 shape             frames
    ===================== ================= ===========================================================================
    ``NAME_in``           [n, T_in C]       s, s + q, ..., with start s and step q
    ``NAME_out``          [n, T_out C]      those that follow
    ``times``             [1, T_in + T_out] of all of them
    another field         [n], [n, C]       its value, if it does not change in the window; else it is left out
    ===================== ================= ===========================================================================

    A window stands frame after frame: component c of frame t of a vector of C components is channel :math:`C t + c`. In
    a 2-D mesh a vector has the two components of the plane.

    Args:
        T_in: frames that a model sees.
        T_out: frames that it predicts; 0 where only the history is wanted.
        fields: names of those that change, ``"u"`` or ``"u:point"``.
        start: the first frame; ``"first"`` is 0, ``"random"`` one that is drawn anew each time.
        stride: frames from one start to the next, of which ``"random"`` draws.
        frames_step: frames q of the trajectory from one of the window to the next.

    Raises:
        InputError: the window is not in the trajectory; there is no such field; a field has another number of frames
            than the trajectory has times; a vector leaves the plane of a 2-D mesh.

    >>> line = MeshData.from_cells([[0.0, 0], [1, 0]], [3], [[0, 1]], times=torch.tensor([[0.0, 0.1, 0.3]]))
    >>> line.point_data["u"] = [[0, 1, 2], [5, 6, 7]]
    >>> Window(T_in=1, T_out=1, fields=["u"], start=1)(line).point_data["u_out"].tolist()
    [[2], [7]]
    """

    def __init__(
        self,
        T_in: int,
        T_out: int,
        fields: Sequence[str],
        start: int | Literal["first", "random"] = "first",
        stride: int = 1,
        frames_step: int = 1,
    ) -> None:
        if min(T_in, stride, frames_step) < 1 or T_out < 0:
            raise InputError(
                "Expected T_in, stride and frames_step of at least 1, and T_out of at least 0 "
                f"(got {T_in}, {stride}, {frames_step} and {T_out})"
            )
        if isinstance(start, str) and start not in ("first", "random"):
            raise InputError(f"Expected a start of first, random or a number (got {start!r})")
        self.T_in = T_in
        self.T_out = T_out
        self.fields = list(fields)
        self.start = start
        self.stride = stride
        self.frames_step = frames_step

    @property
    def span(self) -> int:
        """Frames of the trajectory from the first to the last of the window."""
        return (self.T_in + self.T_out - 1) * self.frames_step + 1

    def forward(self, data: MeshData) -> MeshData:
        total = data.times.size(1)
        frames = torch.arange(self.T_in + self.T_out) * self.frames_step + self._start(total - self.span, total)
        data.times = data.times[:, frames]
        found: set[str] = set()
        known: list[str] = []
        for key in ("point_data", "cell_data"):
            arrays = Arrays()
            for name, array in data[key].items():
                if not isinstance(array, Tensor) or array.dim() < 2 or array.size(1) not in (1, total):
                    raise InputError(f"Expected {total} frames of the field '{name}' (got {list(array.shape)})")
                window = array[:, frames] if array.size(1) == total else array
                moving = {name, f"{name}:{key.removesuffix('_data')}"} & set(self.fields)
                if moving:
                    found |= moving
                    window = _channels(window.expand(-1, len(frames), *window.shape[2:]), data, name)
                    arrays[f"{name}_in"] = window[:, : self.T_in].flatten(1)
                    arrays[f"{name}_out"] = window[:, self.T_in :].flatten(1)
                elif torch.equal(window, window[:, :1].expand_as(window)):
                    arrays[name] = window[:, 0]
            known += [f"{name}:{key.removesuffix('_data')}" for name in data[key]]
            data[key] = arrays
        if missing := [name for name in self.fields if name not in found]:
            raise InputError(
                f"Field '{missing[0]}' is not in the trajectory{did_you_mean(missing[0], known)}; "
                f"it has {', '.join(known) or 'no fields'}"
            )
        return data

    def _start(self, last: int, total: int) -> int:
        if last < 0:
            raise InputError(f"Expected at least {self.span} frames for the window (got {total})")
        if self.start == "random":
            return self.stride * int(torch.randint(last // self.stride + 1, ()))
        start = 0 if isinstance(self.start, str) else self.start
        if not 0 <= start <= last:
            raise InputError(f"Expected a start from 0 to {last}, first or random (got {start})")
        return start

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.T_in}, {self.T_out}, {self.fields}, start={self.start!r})"


def _channels(window: Tensor, data: MeshData, name: str) -> Tensor:
    """A window as [n, T, C], in the plane of a 2-D mesh."""
    window = window.reshape(*window.shape[:2], -1)
    if data.dim == 2 and window.size(2) == 3:
        return in_plane(window, data.points, f"Field '{name}'")
    return window
