"""Several processes: which one brought the others down, and what is said about it."""

import os
import signal
import subprocess
import sys
import time

import pytest

from meshop.data import InputError
from meshop.launch import LOST, launch, lost_another, processes

SAY = """
import os, signal, sys, time
rank = int(os.environ["RANK"])
print(f"rank {rank} of {os.environ['WORLD_SIZE']}", file=sys.stderr, flush=True)
"""


def say(then: str) -> list[str]:
    return [sys.executable, "-c", SAY + then]


def test_all_end_well(capfd: pytest.CaptureFixture[str]) -> None:
    assert launch(say(""), 3) == 0
    assert capfd.readouterr().err == "rank 0 of 3\n"
    assert processes() == (0, 1)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_process_ends_the_others(victim: int) -> None:
    start = time.monotonic()
    with pytest.raises(InputError, match=f"Process {victim} of 2 was killed by SIGKILL; continue with --resume"):
        launch(say(f"os.kill(os.getpid(), signal.SIGKILL) if rank == {victim} else time.sleep(600)"), 2)
    assert time.monotonic() - start < 60


def test_what_another_process_says_last_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    assert launch(say(f"time.sleep(0.3 * rank); sys.exit(1 if rank else {LOST})"), 2) == 1
    assert capfd.readouterr().err == "rank 0 of 2\nrank 1 of 2\n"


def test_the_same_complaint_is_printed_once(capfd: pytest.CaptureFixture[str]) -> None:
    assert launch(say("time.sleep(0.3 * (rank == 0)); sys.exit(1)"), 2) == 1
    assert capfd.readouterr().err == "rank 0 of 2\n"


def test_an_interrupted_launch_leaves_nothing_behind() -> None:
    code = f"from meshop.launch import launch; launch({say('time.sleep(600)')!r}, 2)"
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert parent.stderr is not None
    assert parent.stderr.readline() == "rank 0 of 2\n"
    parent.send_signal(signal.SIGTERM)
    parent.communicate()  # ends when the processes that share its stream have
    assert parent.returncode == 1


def test_a_lost_connection_is_no_fault_of_ones_own() -> None:
    assert lost_another(RuntimeError("[gloo/transport/tcp/pair.cc:537] Read error: Connection reset by peer"))
    assert not lost_another(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not lost_another(InputError("Connection closed"))
    assert "RANK" not in os.environ
