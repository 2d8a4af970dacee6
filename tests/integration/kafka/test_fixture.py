"""What fixtures start ends with the test process, even one that is killed."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.systems import bound
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]
TEST_PROCESS = """
import sys
from pathlib import Path
from tests.integration.conftest import Broker
broker = Broker(sys.argv[1], Path(sys.argv[2]))
broker.start()
print(broker.pid, flush=True)
sys.stdin.read()
"""


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's way is Linux's")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_broker_outlives_the_tests(number, tmp_path):
    command = [sys.executable, "-c", TEST_PROCESS, "embedded", str(tmp_path)]
    with subprocess.Popen(
        bound(command), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            pid = int(process.stdout.readline())
            assert runs(pid)
        finally:
            process.send_signal(number)
    eventually(lambda: not runs(pid))
