"""The lock and the addresses of the stack that runs in a folder."""

import fcntl
import os
import signal
import subprocess
import sys
import threading

import pytest

from infra.local import running
from tests.support.systems import bound

pytestmark = pytest.mark.processes

HOLD = """
import sys, time
from pathlib import Path
from infra.local import running
with running.hold(Path(sys.argv[1])):
    running.publish(Path(sys.argv[1]), {"KAFKA_BOOTSTRAP": "127.0.0.1:19092"})
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    popen = subprocess.Popen(
        bound([sys.executable, "-c", HOLD, str(tmp_path)]), stdout=subprocess.PIPE, text=True
    )
    assert popen.stdout is not None
    assert popen.stdout.readline() == "held\n"
    yield popen
    popen.kill()
    popen.wait(60)
    popen.stdout.close()


def test_a_second_holder_is_refused_with_the_pid_of_the_first(holder, tmp_path):
    with (
        pytest.raises(running.AlreadyRunning, match=rf"pid {holder.pid}\b"),
        running.hold(tmp_path),
    ):
        pass


def test_addresses_are_those_of_the_holder_and_end_with_it(holder, tmp_path):
    assert running.addresses(tmp_path) == {"KAFKA_BOOTSTRAP": "127.0.0.1:19092"}
    holder.send_signal(signal.SIGKILL)
    holder.wait(60)
    assert (tmp_path / running.ADDRESSES).exists()
    assert running.addresses(tmp_path) == {}


def test_a_lock_left_by_sigkill_is_no_obstacle(holder, tmp_path):
    holder.kill()
    holder.wait(60)
    assert (tmp_path / running.LOCK).exists()
    with running.hold(tmp_path):
        assert (tmp_path / running.LOCK).read_text() == f"{os.getpid()}\n"


def test_leaving_removes_lock_and_addresses(tmp_path):
    with running.hold(tmp_path):
        running.publish(tmp_path, {"REDIS_URL": "redis://127.0.0.1:1/0"})
    assert list(tmp_path.iterdir()) == []


def test_someone_reading_the_addresses_does_not_keep_the_holder_out(tmp_path):
    (tmp_path / running.LOCK).touch()
    reader = os.open(tmp_path / running.LOCK, os.O_RDONLY)
    fcntl.flock(reader, fcntl.LOCK_SH)
    timer = threading.Timer(0.2, os.close, (reader,))
    timer.start()
    with running.hold(tmp_path):
        assert (tmp_path / running.LOCK).read_text() == f"{os.getpid()}\n"
        timer.join()
