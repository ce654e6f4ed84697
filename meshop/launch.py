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
    return processes()[1] > 1 and isinstance(error, RuntimeError) and any(word in str(error) for word in words)


def launch(command: Sequence[str], count: int) -> int:
    """Run a command ``count`` times at once, with the variables that ``torchrun`` sets, and return the exit code.

    The first process has this one's input and output; the others are silent. When one fails, all are ended, and what
    it said last is printed.

    Raises:
        InputError: a process was killed.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "GROUP_RANK": "0"}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    threads = max((os.cpu_count() or 1) // count, 1)
    env = {"OMP_NUM_THREADS": str(threads)} | os.environ | shared
    started: list[subprocess.Popen[bytes]] = []
    handler = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no process is left behind
    with tempfile.TemporaryDirectory() as folder:
        said = [Path(folder, str(rank)) for rank in range(count)]
        try:
            for rank in range(count):
                with said[rank].open("wb") as err:
                    streams = {"stdout": subprocess.DEVNULL, "stderr": err} if rank else {}
                    numbered = env | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                    started.append(subprocess.Popen(command, env=numbered, **streams))  # type: ignore[call-overload]
            rank, code = _first_failure(started)
        finally:
            _end(started)
            signal.signal(signal.SIGTERM, handler)
        if code < 0:
            raise InputError(
                f"Process {rank} of {count} was killed by {signal.Signals(-code).name}; continue with --resume"
            )
        if code and rank:
            sys.stderr.write(said[rank].read_text(errors="replace"))
        return code


def _first_failure(started: Sequence[subprocess.Popen[bytes]]) -> tuple[int, int]:
    """The process that brought the others down, with its exit code; (0, 0) when all have ended well."""
    since = None
    while True:
        codes = [process.poll() for process in started]
        failed = [(rank, code) for rank, code in enumerate(codes) if code]
        causes = sorted((rank, code) for rank, code in failed if code != LOST)
        if causes:
            return min(causes, key=lambda cause: cause[1])  # one that was killed before one that complains
        if failed and since is None:
            since = time.monotonic()
        if all(code is not None for code in codes) or (since is not None and time.monotonic() > since + 20):
            return failed[0] if failed else (0, 0)
        time.sleep(0.05)


def _end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in started:
        if process.poll() is None:
            process.terminate()
    for process in started:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
