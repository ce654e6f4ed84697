"""Readers that a damaged file could end, hang or swell, in a process of their own.

VTK, HDF5 and netCDF believe what a file says of itself: a wrong count may end the process by a signal, or ask for all
memory. So on Linux such a reader runs in a forked child, which has the modules already and passes the mesh through a
pipe; what the child comes to is an error of the parent. Elsewhere, where forking is unsafe (macOS) or not there
(Windows), it runs in the process itself.
"""

from __future__ import annotations

import gc
import io
import os
import pickle
import re
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import wraps
from importlib import import_module
from math import inf, nan
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
import torch

from meshop.data import InputError, MeshData
from meshop.io.assemble import with_dim
from meshop.io.parts import Frames

Opener = Callable[[Path], AbstractContextManager[Frames]]
Reader = Callable[[Path, int], MeshData]

# What a whole file needs is less. VTK packs blocks of 32 kB, hardly one of them into fewer bytes than 50, and a byte of
# an array makes a hundred of a mesh at most: an image of one colour, 200 to a side, has 200 kB, and takes some seconds
# and GB. What is not packed is read at 10 MB/s and more.
_MEMORY, _MEMORY_PER_BYTE = 2 << 30, 1 << 16
_SECONDS, _SECONDS_MORE = 4, 600
_LARGE, _MANY = 1 << 30, 10_000  # bytes and files, beyond which there is no limit but the memory that is free
_NAMES_OTHERS = (".pvt", ".vtm", ".foam", ".case", ".xdmf", ".xmf")
_SAID: dict[Any, Any] = {}  # warnings that have been given


def in_child(*modules: str) -> Callable[[Opener], Opener]:
    """Let what opens a file do so in a child, which ends when the file is closed.

    Errors and warnings are passed on. A child that ends by itself, takes more memory or more seconds of computing than
    the size of the files explains, or runs out of memory, is an :class:`~meshop.data.InputError`.

    Args:
        *modules: those that the reader imports; they are imported before the child is forked, once.
    """

    def decorate(opened: Opener) -> Opener:
        if sys.platform != "linux":
            return opened

        @wraps(opened)
        @contextmanager
        def apart(path: Path) -> Iterator[Frames]:
            for module in ("pyvista", *modules):
                with suppress(ImportError):  # of which the reader has more to say
                    import_module(module)
            child = _Child(opened, path)
            try:
                count, times, still = child.ask(-1)

                def read(number: int) -> tuple[float, MeshData]:
                    at, mesh, frames.still = child.ask(number)
                    return at, mesh

                frames = Frames(count, read, times, still)
                yield frames
            finally:
                child.end()

        return apart

    return decorate


def read_in_child(read: Reader) -> Reader:
    """Let what reads a file of one mesh do so in a child."""
    if sys.platform != "linux":
        return read

    @in_child()
    @contextmanager
    def opened(path: Path) -> Iterator[Frames]:
        yield Frames(0, lambda _: (nan, read(path, 3)))

    @wraps(read)
    def apart(path: Path, dim: int) -> MeshData:
        with opened(path) as frames:
            return with_dim(frames.read(0)[1], dim)

    return apart


class _Child:
    """A forked process that opens a file and answers requests: the number of a frame, or -1 for what all have.

    Python warns of forking where there are threads, whose locks a child may find closed for ever. This child runs no
    code but that of readers, with one thread, which takes no locks of torch's or of the parent's own; DataLoader forks
    its workers as well.
    """

    def __init__(self, opened: Opener, path: Path) -> None:
        size = _size(path)
        self.memory = int(min(max(_MEMORY, size * _MEMORY_PER_BYTE), free_memory()))
        self.seconds = _SECONDS + min(size >> 14, _SECONDS_MORE) + (size >> 20) if size < _LARGE else 0
        ours, theirs = os.pipe(), os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(ours[1])
                os.close(theirs[0])
                self._serve(opened, path, os.fdopen(ours[0], "rb"), os.fdopen(theirs[1], "wb"))
            finally:
                os._exit(0)
        os.close(ours[0])
        os.close(theirs[1])
        self.requests, self.answers = os.fdopen(ours[1], "wb"), os.fdopen(theirs[0], "rb")

    def ask(self, number: int) -> Any:
        """The answer to a request.

        Raises:
            InputError: the child has ended.
        """
        try:
            _send(self.requests, number)
            answer, error, said = _receive(self.answers)
        except (EOFError, BrokenPipeError):
            raise InputError(self._ended()) from None
        for message, category, file, line in said:
            warnings.warn_explicit(message, category, file, line, registry=_SAID)
        if error is not None:
            raise error
        return answer

    def end(self) -> None:
        """End the child, whatever it does."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            self._wait()
        self.answers.close()
        with suppress(BrokenPipeError):
            self.requests.close()

    def _wait(self) -> int:
        pid, self.pid = self.pid, 0
        try:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except ChildProcessError:  # where the parent lets the system wait
            return 0

    def _ended(self) -> str:
        code = self._wait()
        if code == -signal.SIGXCPU:
            return f"the file is damaged: reading it takes longer than {self.seconds} s"
        if code < 0:
            return f"the file is damaged: its reader ended with signal {-code} ({signal.Signals(-code).name})"
        return f"the file is damaged: its reader ended the process (code {code})"

    def _serve(self, opened: Opener, path: Path, requests: BinaryIO, answers: BinaryIO) -> NoReturn:
        """Answer until nobody asks."""
        self._settle()
        file = opened(path)
        frames = Frames(0, lambda number: (nan, MeshData()))
        while True:
            number = _receive(requests)
            answer: Any = None
            error: Exception | None = None
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                self._give_time()
                try:
                    if number < 0:
                        frames = file.__enter__()
                        answer = frames.count, frames.times, frames.still
                    else:
                        answer = *frames.read(number), frames.still
                except MemoryError:
                    error = InputError(
                        f"reading it takes more than {self.memory / 2**30:.1f} GB of memory: the file is damaged, or "
                        "too large for this machine"
                    )
                except Exception as reason:
                    error = _passable(reason)
            said = [(w.message, w.category, w.filename, w.lineno) for w in caught]
            _send(answers, (answer, error, said))

    def _settle(self) -> None:
        """Make the process one of its own: quiet, of one thread, within its limits, and not the debugger's."""
        import faulthandler
        import resource

        from vtkmodules.vtkCommonCore import vtkSMPTools

        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        faulthandler.disable()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        gc.freeze()  # or the first collection copies all memory of the parent
        torch.set_num_threads(1)
        vtkSMPTools.SetBackend("Sequential")
        _limit(resource.RLIMIT_CORE, 0)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + self.memory)

    def _give_time(self) -> None:
        import resource

        if self.seconds:
            _limit(resource.RLIMIT_CPU, int(time.process_time()) + 1 + self.seconds)


def _limit(kind: int, value: int) -> None:
    import resource

    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def free_memory() -> float:
    """Bytes of memory that could be had without swapping; infinity where the system does not say."""
    if not Path("/proc/meminfo").exists():
        return inf
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def _size(path: Path) -> int:
    """Bytes of a file, and of all beside and below one that names others; if they are many or elsewhere, ``_LARGE``."""
    if path.is_file() and not path.suffix.lower().startswith(_NAMES_OTHERS):
        return path.stat().st_size
    if path.is_file():
        with path.open("rb") as file:
            if re.search(rb"\.\./|[\s\">]/(?!>)", file.read(1 << 20)):
                return _LARGE
    total = 0
    for number, other in enumerate((path if path.is_dir() else path.parent).rglob("*")):
        with suppress(OSError):
            total += other.stat().st_size
        if number > _MANY or total > _LARGE:
            return _LARGE
    return total


def _passable(error: Exception) -> Exception:
    """The error, or one that says the same where it cannot pass a pipe."""
    if not isinstance(error, InputError):
        error.add_note(traceback.format_exc())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(str(error))
    return error


class _Pickler(pickle.Pickler):
    """Tensors go as arrays of numpy, which pass a pipe without a copy."""

    def reducer_override(self, thing: Any) -> Any:
        return (torch.from_numpy, (thing.numpy(),)) if isinstance(thing, torch.Tensor) else NotImplemented


def _send(pipe: BinaryIO, message: Any) -> None:
    """The number of parts, their sizes, the parts: what Python packs, then the arrays."""
    head = io.BytesIO()
    arrays: list[pickle.PickleBuffer] = []
    _Pickler(head, 5, buffer_callback=arrays.append).dump(message)
    parts = [head.getbuffer(), *(array.raw() for array in arrays)]
    pipe.write(np.array([len(parts), *(part.nbytes for part in parts)]).tobytes())
    for part in parts:
        pipe.write(part)
    pipe.flush()


def _receive(pipe: BinaryIO) -> Any:
    count = int(_take(pipe, 8).view(np.int64)[0])
    sizes = _take(pipe, 8 * count).view(np.int64).tolist()
    head, *arrays = [_take(pipe, size) for size in sizes]
    return pickle.loads(head.data, buffers=arrays)


def _take(pipe: Any, size: int) -> np.ndarray[Any, Any]:
    out = np.empty(size, np.uint8)
    if pipe.readinto(out) < size:
        raise EOFError
    return out
