"""A bound on what code computes holds, whatever the code does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from api.positions.within import OverTime, within

SECONDS = 0.02


def compute(seconds: float) -> None:
    """Compute: to ask for the time alone takes the kernel's, which the clock leaves out."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        sum(range(1_000))


class Slow:
    """It computes as it is let go: what is raised then is lost."""

    def __del__(self) -> None:
        compute(5 * SECONDS)


def loses_the_first_signal() -> None:
    Slow()
    while True:
        pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_it_ends_a_loop_also_where_the_first_signal_is_lost():
    with pytest.raises(OverTime), within(SECONDS):
        loses_the_first_signal()


def test_it_is_over_with_its_block():
    for _ in range(200):
        try:
            with within(0.0005):
                compute(0.0008)
        except OverTime:
            pass
    compute(10 * SECONDS)


def test_the_clock_ticks_only_while_there_are_blocks():
    with within(SECONDS):
        pass
    compute(10 * SECONDS)
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    with pytest.raises(OverTime), within(SECONDS):
        compute(10 * SECONDS)


def test_a_block_after_one_that_was_over_has_its_own_time():
    with pytest.raises(OverTime), within(SECONDS):
        compute(10 * SECONDS)
    with within(10 * SECONDS):
        compute(3 * SECONDS)


def test_it_bounds_computing_and_not_waiting():
    begun_s = time.monotonic()
    with within(SECONDS):
        time.sleep(5 * SECONDS)
    assert time.monotonic() - begun_s >= 5 * SECONDS


@pytest.mark.processes
@pytest.mark.parametrize("ends", ["", "; signal.raise_signal(signal.SIGTERM)"])
def test_a_process_that_ends_after_a_block_ends_as_it_would(ends: str):
    """Python gives its handlers up before it frees what it has, which takes longer than a tick."""
    code = (
        "import signal, sys; from api.positions.within import within; import api.app\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        f"with within(0.1): pass\nkept = [{{}} for _ in range(300_000)]{ends}"
    )
    env = {"PYTHONPATH": ":".join(sys.path), "PATH": ""}
    ended = subprocess.run([sys.executable, "-c", code], env=env, check=False, timeout=60)
    assert ended.returncode == (7 if ends else 0)


def test_a_fork_has_a_clock_of_its_own():
    with within(SECONDS):
        pass
    child = os.fork()
    if not child:
        status = 1
        try:
            with within(SECONDS):
                compute(20 * SECONDS)
        except OverTime:
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
