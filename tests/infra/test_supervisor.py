"""The supervisor with real child processes: order, restart, stop, and being killed itself."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from infra.process import free_port

# A stack of small children; what they do is told by each one's source.
SUPERVISE = """
import asyncio, sys
from functools import partial
from pathlib import Path
from infra import child, running
from infra.child import NeverServed
from infra.process import NotReady, Process
from infra.screen import Screen
from infra.settings import Settings
from infra.stack import Part, Stack
from infra.supervisor import supervise

folder = Path(sys.argv[1])
child._BACKOFF_FIRST_S = 0.1

async def there(name):
    if not (folder / f"{name}.ready").exists():
        raise NotReady(f"{name}.ready is not there")

def part(name, after=(), restart_with=(), timeout_s=20.0):
    command = [sys.executable, "-I", "-S", "-c", (folder / f"{name}.py").read_text(), str(folder)]
    process = Process(name, command, f"{name}:1", partial(there, name), ready_timeout_s=timeout_s)
    return Part(process, after, restart_with)

stack = Stack(Settings(soltape_data=folder / "data"), frozenset(), parts=eval(sys.argv[2]))
try:
    with running.hold(folder / "data"):
        asyncio.run(supervise(stack, Screen()))
except NeverServed as error:
    sys.exit(f"never served: {error}")
"""

SERVE = """
import sys, time, os
from pathlib import Path
folder, name = Path(sys.argv[1]), "{name}"
with open(folder / "order", "a") as order:
    order.write("start {name}\\n")
(folder / "{name}.pid").write_text(str(os.getpid()))
def stopped(*_):
    with open(folder / "order", "a") as order:
        order.write("stop {name}\\n")
    sys.exit(0)
import signal
signal.signal(signal.SIGTERM, {on_term})
{before}
(folder / "{name}.ready").touch()
time.sleep(100)
"""


def serve(folder, name, before="", on_term="stopped"):
    (folder / f"{name}.py").write_text(SERVE.format(name=name, before=before, on_term=on_term))


class Supervisor:
    def __init__(self, folder: Path, parts: str) -> None:
        self.folder = folder
        self.out = folder / "out"
        with self.out.open("wb") as out:
            self.popen = subprocess.Popen(
                [sys.executable, "-c", SUPERVISE, str(folder), parts],
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=folder,
                # Not the default ports: another stack may be running on this machine.
                env=os.environ | {"METRICS_PORT_INGEST": str(free_port())},
            )

    def said(self) -> str:
        return self.out.read_text()

    def until(self, condition, within_s=20.0):
        deadline = time.monotonic() + within_s
        while not (found := condition()):
            assert time.monotonic() < deadline, self.said()
            assert self.popen.poll() is None, self.said()
            time.sleep(0.02)
        return found

    def ready(self, *names):
        self.until(lambda: all((self.folder / f"{name}.ready").exists() for name in names))

    def pid(self, name) -> int:
        return int((self.folder / f"{name}.pid").read_text())

    def order(self):
        return (self.folder / "order").read_text().splitlines()

    def stop(self, number=signal.SIGINT) -> None:
        self.popen.send_signal(number)
        self.popen.wait(60)


@pytest.fixture
def start(tmp_path):
    started = []

    def _start(parts):
        started.append(Supervisor(tmp_path, parts))
        return started[-1]

    yield _start
    for supervisor in started:
        supervisor.popen.kill()
        supervisor.popen.wait(60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_starts_in_order_and_stops_in_reverse(start, tmp_path, number):
    serve(tmp_path, "broker", before="time.sleep(0.5)")
    serve(tmp_path, "ingest")
    supervisor = start("[part('broker'), part('ingest', after=('broker',))]")
    supervisor.ready("broker", "ingest")
    supervisor.until(lambda: "waiting for ingest" in supervisor.said())
    supervisor.stop(number)
    assert supervisor.popen.returncode == 0
    assert supervisor.order() == ["start broker", "start ingest", "stop ingest", "stop broker"]
    assert not psutil.pid_exists(supervisor.pid("broker"))
    assert not psutil.pid_exists(supervisor.pid("ingest"))
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["logs"]


def test_a_child_that_ends_is_started_again_with_its_reason(start, tmp_path):
    serve(tmp_path, "chain")
    supervisor = start("[part('chain')]")
    supervisor.ready("chain")
    time.sleep(0.5)  # seen to serve
    first = supervisor.pid("chain")
    os.kill(first, signal.SIGKILL)
    supervisor.until(lambda: supervisor.pid("chain") != first)
    assert "chain ended with SIGKILL; starting it again in 0.1 s" in supervisor.said()
    supervisor.stop()


def test_the_reason_has_the_last_line_and_pauses_grow(start, tmp_path):
    # Serves at once, so it is started again for ever.
    (tmp_path / "broken.ready").touch()
    (tmp_path / "broken.py").write_text(
        "import sys, time; time.sleep(0.4); sys.exit('\\x1b[31mno such slot\\x1b[0m')"
    )
    supervisor = start("[part('broken')]")
    supervisor.until(lambda: supervisor.said().count("starting it again") == 4)
    supervisor.stop()
    said = re.findall(
        r"broken ended with exit code 1: no such slot; .* in (\S+) s", supervisor.said()
    )
    assert said == ["0.1", "0.2", "0.4", "0.8"]


def test_a_child_that_never_serves_ends_the_whole(start, tmp_path):
    serve(tmp_path, "broker")
    (tmp_path / "chain.py").write_text("import sys; sys.exit('the recording is empty')")
    supervisor = start("[part('broker'), part('chain')]")
    assert supervisor.popen.wait(60) == 1
    assert "never served: chain ended with exit code 1: the recording is empty" in supervisor.said()
    assert "Traceback" not in supervisor.said()
    assert not psutil.pid_exists(supervisor.pid("broker"))


def test_a_child_that_is_not_ready_in_time_says_what_is_missing(start, tmp_path):
    serve(tmp_path, "slow", before="time.sleep(60)")
    supervisor = start("[part('slow', timeout_s=0.5)]")
    assert supervisor.popen.wait(60) == 1
    assert re.search(r"slow did not serve within \d s: slow.ready is not there", supervisor.said())


def test_a_child_that_does_not_start_names_the_program(start, tmp_path):
    serve(tmp_path, "gone")
    supervisor = start("[Part(Process('gone', ['/no/such/program'], '', partial(there, 'gone')))]")
    assert supervisor.popen.wait(60) == 1
    assert "/no/such/program: No such file or directory" in supervisor.said()


@pytest.mark.slow
def test_a_deaf_child_is_killed(start, tmp_path):
    serve(tmp_path, "broker", on_term="signal.SIG_IGN")
    serve(tmp_path, "ingest", on_term="signal.SIG_IGN")
    supervisor = start("[part('broker'), part('ingest', after=('broker',))]")
    supervisor.ready("broker", "ingest")
    supervisor.stop()
    assert "ingest did not stop in time and was killed" in supervisor.said()
    assert not psutil.pid_exists(supervisor.pid("broker"))
    assert not psutil.pid_exists(supervisor.pid("ingest"))


def test_a_second_ctrl_c_stops_at_once(start, tmp_path):
    serve(tmp_path, "deaf", on_term="signal.SIG_IGN")
    supervisor = start("[part('deaf')]")
    supervisor.ready("deaf")
    supervisor.popen.send_signal(signal.SIGINT)
    time.sleep(0.3)
    supervisor.stop()
    assert "did not stop in time" not in supervisor.said()
    assert not psutil.pid_exists(supervisor.pid("deaf"))


def test_what_a_child_started_goes_with_it(start, tmp_path):
    spawn = "child = __import__('subprocess').Popen(['sleep', '100'])"
    serve(tmp_path, "parent", before=f"{spawn}; (folder / 'sleep.pid').write_text(str(child.pid))")
    supervisor = start("[part('parent')]")
    supervisor.ready("parent")
    supervisor.stop()
    assert not running_pid(supervisor.pid("sleep"))


def running_pid(pid) -> bool:
    """Whether it runs; an orphan that nobody has reaped yet does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_no_child_outlives_a_supervisor_that_is_killed(start, tmp_path):
    serve(tmp_path, "broker", on_term="signal.SIG_IGN")
    serve(tmp_path, "ingest", on_term="signal.SIG_IGN")
    parts = "[part('broker'), part('ingest', after=('broker',))]"
    supervisor = start(parts)
    supervisor.ready("broker", "ingest")
    pids = [supervisor.pid("broker"), supervisor.pid("ingest")]
    supervisor.stop(signal.SIGKILL)
    deadline = time.monotonic() + 5
    while any(running_pid(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for name in ("broker", "ingest"):
        (tmp_path / f"{name}.ready").unlink()
    again = start(parts)  # the lock that was left is no obstacle
    again.ready("broker", "ingest")
    again.stop()


def test_who_relies_on_a_forgetful_system_starts_anew_with_it(start, tmp_path):
    serve(tmp_path, "broker")
    serve(tmp_path, "ingest")
    supervisor = start(
        "[part('broker'), part('ingest', after=('broker',), restart_with=('broker',))]"
    )
    supervisor.ready("broker", "ingest")
    time.sleep(0.5)
    first = supervisor.pid("ingest")
    os.kill(supervisor.pid("broker"), signal.SIGKILL)
    supervisor.until(lambda: supervisor.pid("ingest") != first)
    assert "ingest was stopped, for broker forgot everything as it ended" in supervisor.said()
    supervisor.stop()


def test_logs_hold_what_children_say_and_are_put_aside_at_the_next_start(start, tmp_path):
    serve(tmp_path, "chain", before="print('out', flush=True); print('err', file=sys.stderr)")
    log = tmp_path / "data" / "logs" / "chain.log"
    for _ in range(2):
        (tmp_path / "chain.ready").unlink(missing_ok=True)
        supervisor = start("[part('chain')]")
        supervisor.ready("chain")
        supervisor.stop()
        assert log.read_text().splitlines() == ["out", "err"]
    assert log.with_suffix(".log.1").read_text().splitlines() == ["out", "err"]


def test_a_log_stays_bounded_while_the_child_writes_on(tmp_path, monkeypatch):
    from infra import child

    monkeypatch.setattr(child, "LOG_MAX_BYTES", 1000)
    log = tmp_path / "chatty.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"a" * 1001)
        child._keep_bounded(log)
        writer.write(b"b" * 10)
    assert log.read_bytes() == b"b" * 10
    assert log.with_suffix(".log.1").read_bytes() == b"a" * 1001


@pytest.mark.parametrize("how", ["become", "watch"])
def test_a_tethered_command_ends_with_its_parent(tmp_path, how):
    """Both ways, though only one is used on this system."""
    if how == "become" and sys.platform != "linux":
        pytest.skip("the kernel's way is Linux's")
    pid_file = tmp_path / "pid"
    command = f"""
import os, time, pathlib
pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))
time.sleep(100)
"""
    tethered = f"""
import sys
from infra import tether
sys.exit(tether.{how}(int(sys.argv[1]), [sys.executable, "-c", {command!r}]))
"""
    parent = f"""
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {tethered!r}, str(os.getpid())], start_new_session=True)
time.sleep(100)
"""
    popen = subprocess.Popen([sys.executable, "-c", parent])
    deadline = time.monotonic() + 20
    while not (pid_file.exists() and pid_file.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    popen.kill()
    popen.wait(10)
    while running_pid(int(pid_file.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.02)
