"""Several processes of one program on this machine: what ``torchrun`` does, with one sentence when one of them dies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from meshop.data import InputError

LOST = 75  # exit code of a process that stopped because another one had


def processes() -> tuple[int, int]:
    """The number of this process and how many there are, as ``torchrun`` or :func:`launch` say.

    >>> processes()
    (0, 1)
    """
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


@contextmanager
def connected(device: str = "auto") -> Iterator[None]:
    """Inside this context the processes of a run can speak to each other, over NCCL between GPUs, else over gloo."""
    if processes()[1] == 1:
        yield
        return
    import torch
    import torch.distributed as dist

    gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if gpu else "gloo")
    yield
    dist.destroy_process_group()


@contextmanager
def first_alone() -> Iterator[None]:
    """The first process goes through this block before the others do: it writes files that they then find."""
    import torch.distributed as dist

    rank, ranks = processes()
    if rank:
        dist.barrier()
    yield
    if not rank and ranks > 1:
        dist.barrier()


def lost_another(error: BaseException) -> bool:
    """Whether an error says no more than that another process of the run is gone."""
    words = ("gloo", "NCCL", "Connection closed", "Connection reset", "Broken pipe")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


def launch(command: Sequence[str], count: int) -> int:
    """Run a command ``count`` times at once, with the variables that ``torchrun`` sets, and return the exit code.

    The first process has this one's input and output; the others are silent. When one fails, the others are killed, and
    what it said is printed.

    Raises:
        InputError: a process was killed.
        KeyboardInterrupt: this one was interrupted; it has killed the others.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "GROUP_RANK": "0"}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    env = {"OMP_NUM_THREADS": str(max((os.cpu_count() or 1) // count, 1))} | os.environ | shared
    started: list[subprocess.Popen[bytes]] = []
    ends = (signal.SIGTERM, signal.SIGHUP)
    handlers = [signal.signal(number, lambda *_: sys.exit(1)) for number in ends]
    with tempfile.TemporaryDirectory() as folder:
        said = [Path(folder, str(rank)) for rank in range(count)]
        try:
            for rank in range(count):
                own = env | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                with said[rank].open("wb") as err:
                    streams: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": err} if rank else {}
                    started.append(subprocess.Popen(command, env=own, start_new_session=True, **streams))
            rank, code = _first_failure(started)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("stopped; continue with --resume") from None
        finally:
            for process in started:
                process.kill()
                process.wait()
            for number, handler in zip(ends, handlers, strict=True):
                signal.signal(number, handler)
        if code < 0:
            name = signal.Signals(-code).name
            raise InputError(f"Process {rank} of {count} was killed by {name}; continue with --resume")
        if code and rank:
            sys.stderr.write(said[rank].read_text(errors="replace"))
        return code


def _first_failure(started: Sequence[subprocess.Popen[bytes]]) -> tuple[int, int]:
    """The process that brought the others down, with its exit code; (0, 0) when all have ended well."""
    seconds = 0.0  # since the first failure
    while True:
        codes = [process.poll() for process in started]
        failed = {rank: code for rank, code in enumerate(codes) if code}
        killed = [rank for rank, code in failed.items() if code < 0]
        itself = [rank for rank, code in failed.items() if code != LOST]
        # the first process may be about to say the same as another, and one that others have lost to end
        patience = 3 if itself else 20
        if None not in codes or killed or 0 in itself or seconds > patience:
            return next(((rank, failed[rank]) for rank in (*killed, *itself, *failed)), (0, 0))
        time.sleep(0.05)
        seconds += 0.05 * bool(failed)
