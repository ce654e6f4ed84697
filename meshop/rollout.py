"""Steps in time: how a model that predicts a few frames is carried through many, and how it learns to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from meshop.data import FieldSpec, InputError

Call = Callable[[Data], Tensor]


@dataclass(frozen=True)
class Rollout:
    r"""How a model that predicts k frames from T frames is carried through a trajectory, and how it learns to be.

    .. math::
        \hat w_{n+1}, \dots, \hat w_{n+k} = f(w_{n-T+1}, \dots, w_n; s, p), \qquad
        \text{or } \hat w_{n+i} = w_n + f_i(w_{n-T+1}, \dots, w_n; s, p) \text{ of increments,}

    with what does not change, s, and parameters p. From the second call on the history holds predictions. In training
    a window of :math:`K k` frames that follow the history takes K calls, and the loss is the mean of the relative L2
    errors of each call's frames:

    ============================ ======================================================================================
    teacher forcing              ``teacher=True``: the history of every call is the truth
    block prediction             ``frames`` as many as the window has: one call
    unrolled                     the default: the history holds predictions, with gradients through all calls
    through the last q calls     ``gradient=q``: the calls before have neither gradients nor a part in the loss
    push-forward                 ``gradient=1``; the two-step rollouts of REALM are that of windows of two calls
    curriculum                   ``grow=0.5``: calls grow from one to K over the first half of the epochs
    noise                        ``noise=0.02``: added to the history in training, in deviations of each field
    ============================ ======================================================================================

    Random windows, as CANO trains on, are a matter of the data set. Parameters named ``time`` and ``dt`` are, where the
    data has ``times`` [1, frames], those of the last frame of the history and of the step after it.

    Args:
        T_in: frames T of the history.
        frames: frames k of one call.
        increment: whether the model predicts the change since the last frame of the history.
        forced: an input field; on nodes where it is not 0 the truth is imposed after each call, or where none is known
            the value of the last frame stays.
        teacher: whether the history is the truth in training.
        gradient: the last calls that are learnt from; all by default.
        grow: share of the epochs over which the calls grow to all of the window.
        noise: deviation of the noise on the history in training, in deviations of each field.
    """

    T_in: int = 1
    frames: int = 1
    increment: bool = False
    forced: str | None = None
    teacher: bool = False
    gradient: int | None = None
    grow: float = 0.0
    noise: float = 0.0

    def __post_init__(self) -> None:
        for name in ("T_in", "frames"):
            if getattr(self, name) < 1:
                raise InputError(f"Expected --rollout.{name} of at least 1 (got {getattr(self, name)})")
        if self.gradient is not None and self.gradient < 1:
            raise InputError(f"Expected --rollout.gradient of at least 1 (got {self.gradient})")
        if not 0 <= self.grow <= 1 or self.noise < 0:
            raise InputError(f"Expected --rollout.grow from 0 to 1 and noise of at least 0 (got {self})")

    def calls(self, total: int, progress: float) -> int:
        """The calls of a training step when this share of the epochs is done, of as many as the window has.

        >>> [Rollout(grow=0.5).calls(4, progress) for progress in (0, 0.125, 0.25, 0.5, 0.9)]
        [1, 2, 3, 4, 4]
        """
        return total if progress >= self.grow else min(total, 1 + int(progress / self.grow * (total - 1) + 0.5))


class Stepper:
    """A rollout on windows of certain fields: what is which frame in their packed ``x`` and ``y``, and what follows.

    A window has an input ``NAME_in`` of ``T_in`` frames for each target ``NAME_out``, frame after frame. Here frames
    are [N, T, C], with the components of all fields side by side. A *call* is a function from data whose ``x`` holds a
    history to the frames [N, k, C], or to their changes, that the model predicts.

    Args:
        spec: the fields of the windows.
        rollout: how they are stepped through.

    Attributes:
        names: the fields, without ``_in`` and ``_out``.
        components: of each field in one frame.
        channels: C.
        T_out: frames of the targets.

    Raises:
        InputError: a target has no history, frames do not add up, or there is no field that says what is forced.

    >>> from meshop.data import Field
    >>> spec = FieldSpec((Field("u_out", "point", 6),), (Field("wall", "point"), Field("u_in", "point", 4)), dim=2)
    >>> stepper = Stepper(spec, Rollout(T_in=2))
    >>> stepper.channels, stepper.T_out, stepper.history(torch.arange(7.0)[None]).tolist()
    (2, 3, [[[3.0, 4.0], [5.0, 6.0]]])
    """

    def __init__(self, spec: FieldSpec, rollout: Rollout) -> None:
        self.spec = spec
        self.rollout = rollout
        begin, first = {}, spec.dim * spec.position
        for field in spec.inputs:
            begin[field.name], first = (first, field.components), first + field.components
        self.names: list[str] = []
        self.components: list[int] = []
        sources, frames = [], []
        for field in spec.targets:
            name = field.name.removesuffix("_out")
            if not field.name.endswith("_out") or f"{name}_in" not in begin:
                raise InputError(
                    f"A rollout needs an input {name}_in for the target {name}_out (got the target {field})"
                )
            start, width = begin[f"{name}_in"]
            size = width // rollout.T_in
            if width % rollout.T_in or field.components % size:
                raise InputError(
                    f"Expected {rollout.T_in} frames in {name}_in, and as many components a frame in {field.name} "
                    f"(got {width} and {field.components} channels)"
                )
            self.names.append(name)
            self.components.append(size)
            sources.append(start + torch.arange(width).view(rollout.T_in, size))
            frames.append(field.components // size)
        if len(set(frames)) > 1:
            raise InputError(f"Expected as many frames of every target (got {', '.join(map(str, spec.targets))})")
        self._sources = torch.cat(sources, 1)
        self.T_out, self.channels = frames[0], sum(self.components)
        if self.T_out % rollout.frames:
            raise InputError(
                f"Expected windows of a multiple of {rollout.frames} frames, those of one call (got {self.T_out})"
            )
        if rollout.forced is not None and begin.get(rollout.forced, (0, 0))[1] != 1:
            known = ", ".join(name for name, (_, size) in begin.items() if size == 1) or "none"
            raise InputError(
                f"Expected --rollout.forced to name an input of one component: {known} (got {rollout.forced})"
            )
        self._forced = None if rollout.forced is None else begin[rollout.forced][0]

    def history(self, x: Tensor) -> Tensor:
        """The frames [N, T_in, C] in packed inputs [N, F]."""
        return x[:, self._sources.to(x.device)]

    def truth(self, y: Tensor) -> Tensor:
        """The frames [N, T, C] in packed targets: T_out, or as many as longer or shorter windows have.

        Raises:
            InputError: the targets are no whole number of frames.
        """
        if y.size(1) % self.channels:
            raise InputError(f"Expected targets of a multiple of {self.channels} channels (got {y.size(1)})")
        fields = y.split([y.size(1) // self.channels * size for size in self.components], dim=1)
        return torch.cat([f.unflatten(1, (-1, n)) for f, n in zip(fields, self.components, strict=True)], dim=2)

    def pack(self, frames: Tensor) -> Tensor:
        """Packed targets of frames [N, T, C]."""
        return torch.cat([field.flatten(1) for field in self.split(frames).values()], dim=1)

    def split(self, frames: Tensor) -> dict[str, Tensor]:
        """The fields of frames [N, ..., C]; the last axis of each is that of its components."""
        return dict(zip(self.names, frames.split(self.components, dim=-1), strict=True))

    def march(self, call: Call, data: Data, truth: Tensor | None = None) -> Iterator[Tensor]:
        """The frames [N, k, C] of one call after the other, from the history in ``data.x`` on, without an end.

        No more than T_in + k frames are held.

        Args:
            call: the model.
            data: a packed window, of which only the inputs are used.
            truth: frames [N, T, C] that follow the history, from which forced nodes are set as far as they go.
        """
        history, number = self.history(data.x), 0
        while True:
            frames = self._frames(call, data, history, number, truth)
            yield frames
            history = torch.cat([history, frames], dim=1)[:, -history.size(1) :]
            number += 1

    def window(self, call: Call, data: Data) -> Tensor:
        """The packed targets [N, T] of a window, by as many calls as it takes."""
        truth = self.truth(data.y) if "y" in data else None
        return self.pack(torch.cat(list(islice(self.march(call, data, truth), self.T_out // self.rollout.frames)), 1))

    def lessons(self, call: Call, data: Data, progress: float, std: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """What a training step learns from: for each call, its frames [N, k, C] and the true ones.

        Args:
            call: the model.
            data: a packed window with its targets.
            progress: share of the epochs that are done.
            std: deviations of the columns of ``x``, in which the noise is measured.
        """
        rollout, k = self.rollout, self.rollout.frames
        truth, history = self.truth(data.y), self.history(data.x)
        calls = rollout.calls(self.T_out // k, progress)
        first = 0 if rollout.gradient is None else max(calls - rollout.gradient, 0)
        known = torch.cat([history, truth], dim=1)
        history = self._noisy(history, data, std)
        for number in range(calls):
            with torch.set_grad_enabled(number >= first):
                frames = self._frames(call, data, history, number, truth)
            if number >= first:
                yield frames, truth[:, number * k : (number + 1) * k]
            if rollout.teacher:
                history = self._noisy(known[:, (number + 1) * k : (number + 1) * k + history.size(1)], data, std)
            else:
                history = torch.cat([history, frames], dim=1)[:, -history.size(1) :]

    def sources(self, call: Call, data: Data) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        r"""Where the error of a rollout on a window comes from: what each call adds, and what it makes of the error.

        With F one call, w the truth and :math:`\hat w` the rollout, the error :math:`e_n = \hat w_n - w_n` is

        .. math::
            e_{n + 1} = \underbrace{F(w_n) - w_{n + 1}}_{\text{injection}}
            + \underbrace{F(\hat w_n) - F(w_n)}_{\text{propagation}},

        where F sees T frames up to that of its index, and the truth is imposed on forced nodes after all calls. Of the
        first call, whose history is the truth, the propagation is zero. This is our definition of the decomposition
        that Transolver-sigma reports; we have not seen the authors' own.

        Args:
            call: the model.
            data: a packed window with its targets, on which all calls but the first are made twice.

        Yields:
            For each call, the error [N, C] of the last frame of its history, and the injection and the propagation
            [N, k, C] of its frames; fewer than k where the window ends.
        """
        k, history, truth = self.rollout.frames, self.history(data.x), self.truth(data.y)
        known = torch.cat([history, truth], dim=1)
        before = torch.zeros_like(known[:, 0])
        calls = -(-truth.size(1) // k)
        for number, rolled in enumerate(islice(self.march(call, data, truth), calls)):
            true, past = truth[:, number * k :][:, :k], known[:, number * k :][:, : history.size(1)]
            once = rolled if number == 0 else self._frames(call, data, past, number, truth)
            once, rolled = once[:, : true.size(1)], rolled[:, : true.size(1)]
            yield before, once - true, rolled - once
            before = rolled[:, -1] - true[:, -1]

    def persistence(self, data: Data, truth: Tensor | None = None) -> Iterator[Tensor]:
        """The frames of :meth:`march` where nothing changes any more but on forced nodes: what a model has to beat."""

        def still(given: Data) -> Tensor:
            last = self.history(given.x)[:, -1:].expand(-1, self.rollout.frames, -1)
            return torch.zeros_like(last) if self.rollout.increment else last

        return self.march(still, data, truth)

    def time(self, data: Data, lead: int) -> Tensor:
        """Times [B] of the frame that is ``lead`` after the history; steps beyond the known ones are as the last.

        Where one time is known, a step is 1.
        """
        times, index = data.times, self.rollout.T_in - 1 + lead
        beyond = max(0, index + 1 - times.size(1))
        step = times[:, -1] - times[:, -2] if times.size(1) > 1 else torch.ones_like(times[:, -1])
        return times[:, index - beyond] + beyond * step

    def samples(self, data: Data) -> Tensor:
        """Frames [M, C] of a window, or their changes from one to the next, for the statistics of what is predicted."""
        frames = torch.cat([self.history(data.x)[:, -1:], self.truth(data.y)], dim=1)
        frames = frames.diff(dim=1) if self.rollout.increment else frames[:, 1:]
        return frames.flatten(0, 1)

    def pooled(self, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
        """Means and deviations of the columns of ``x`` where the frames of a component share theirs."""
        mean, std = mean.clone(), std.clone()
        m, s = mean[self._sources].double(), std[self._sources].double()
        mean[self._sources] = m.mean(0).expand_as(m).to(mean.dtype)
        std[self._sources] = (s.square() + (m - m.mean(0)).square()).mean(0).sqrt().expand_as(s).to(std.dtype)
        return mean, std

    def _frames(self, call: Call, data: Data, history: Tensor, number: int, truth: Tensor | None) -> Tensor:
        """The frames of a call, at the time of its number, with the truth on forced nodes."""
        given = data.__copy__()
        given.x = data.x.index_copy(1, self._sources.to(history.device).flatten(), history.flatten(1))
        self._set_time(given, number)
        frames = call(given)
        frames = frames + history[:, -1:] if self.rollout.increment else frames
        return self._imposed(frames, data, history, number, truth)

    def _set_time(self, data: Data, number: int) -> None:
        """Set the parameters ``time`` and ``dt`` to those of a call."""
        named = [name for name in self.spec.params if name in ("time", "dt")]
        if "times" not in data or not named:
            return
        if data.times.size(1) < 2:
            raise InputError(f"Expected two times at least to know the step for the parameter {named[0]} (got one)")
        lead, steps = number * self.rollout.frames, data.times.diff(dim=1)
        step = steps[:, min(self.rollout.T_in - 1 + lead, steps.size(1) - 1)]
        values = {"time": self.time(data, lead), "dt": step}
        data.params = data.params.clone()
        for name in named:
            data.params[:, self.spec.params.index(name)] = values[name].to(data.params.dtype)

    def _imposed(self, frames: Tensor, data: Data, history: Tensor, number: int, truth: Tensor | None) -> Tensor:
        """The frames with the truth on forced nodes; where it is not known, with the last frame before."""
        if self._forced is None:
            return frames
        k = frames.size(1)
        known = frames.new_empty(len(frames), 0, frames.size(2)) if truth is None else truth[:, number * k :][:, :k]
        rest = history[:, -1:].expand(-1, k - known.size(1), -1)
        return torch.where(self._mask(data), torch.cat([known, rest], dim=1), frames)

    def _noisy(self, history: Tensor, data: Data, std: Tensor) -> Tensor:
        """A history with noise where nothing is forced."""
        if not self.rollout.noise:
            return history
        noise = self.rollout.noise * std[self._sources[0].to(std.device)] * torch.randn_like(history)
        return history + (noise if self._forced is None else noise.masked_fill(self._mask(data), 0))

    def _mask(self, data: Data) -> Tensor:
        return (data.x[:, self._forced] != 0)[:, None, None]


def rollout_on(data: Any, given: Mapping[str, Any] | None) -> Rollout | None:
    """The rollout with these arguments on the windows of a data set, whose history it takes.

    Raises:
        InputError: the data set has no windows.
    """
    if given is None:
        return None
    if not hasattr(data, "T_in"):
        raise InputError(f"A rollout needs frames; the meshes of {type(data).__name__} have none")
    return Rollout(**{**given, "T_in": data.T_in})


def out_channels(spec: FieldSpec, rollout: Rollout | None) -> int:
    """Channels that a model has to predict at each node: all targets, or with a rollout the frames of one call."""
    return spec.out_channels if rollout is None else rollout.frames * Stepper(spec, rollout).channels
