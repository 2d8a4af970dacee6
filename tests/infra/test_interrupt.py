"""A command that is asked to end also ends what it started."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from infra.cli import cli
from infra.interrupt import end_as_by_ctrl_c
from tests.support.systems import bound

pytestmark = pytest.mark.processes

BODY = """
import asyncio, signal, sys, time
from infra.interrupt import end_as_by_ctrl_c

signal.signal(signal.SIGINT, {sigint})
# As a terminal starts it, whatever started the tests: `nohup` has SIGHUP ignored.
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
end_as_by_ctrl_c()

def wait():
    print("begun", flush=True)
    for _ in range(600):  # one long sleep would not see a signal that comes just before it
        time.sleep(0.1)

async def wait_in_loop():
    print("begun", flush=True)
    await asyncio.sleep(60)

try:
    {wait}
except KeyboardInterrupt:
    print("interrupted", flush=True)
finally:
    print("ended", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("sigint", ["signal.default_int_handler", "signal.SIG_IGN"])
@pytest.mark.parametrize("wait", ["wait()", "asyncio.run(wait_in_loop())"])
def test_it_ends_as_by_ctrl_c(number: signal.Signals, sigint: str, wait: str) -> None:
    code = BODY.format(sigint=sigint, wait=wait)
    with subprocess.Popen(
        bound([sys.executable, "-c", code]), stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        try:
            assert run.stdout.readline() == "begun\n"
            run.send_signal(number)
            said, _ = run.communicate(timeout=60)
        finally:
            run.kill()
    assert said.splitlines() == ["interrupted", "ended"]
    assert run.returncode == 0


def test_a_signal_that_is_ignored_stays_so() -> None:
    """As `nohup` has it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    term = signal.getsignal(signal.SIGTERM)
    try:
        end_as_by_ctrl_c()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.signal(signal.SIGTERM, term)


def test_benches_end_so() -> None:
    assert cli.commands["bench"].callback is end_as_by_ctrl_c
