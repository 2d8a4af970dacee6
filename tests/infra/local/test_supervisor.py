"""The supervisor with real child processes: order, restart, stop, and being killed itself."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from infra.local.process import free_port

# A stack of small children; each one's source says what it does.
from tests.support.systems import bound
from tests.support.waiting import eventually

pytestmark = pytest.mark.processes

SUPERVISE = """
import asyncio, sys
from functools import partial
import psutil
from pathlib import Path
from infra.local import child, running
from infra.local.child import NeverServed
from infra.local.process import NotReady, Process
from infra.local.screen import Screen
from infra.settings import Settings
from infra.local.stack import Part, Stack
from infra.local.supervisor import TapeLost, supervise

folder = Path(sys.argv[1])
child._BACKOFF_S = (0.1, 30.0)

async def there(name):
    ready = folder / f"{name}.ready"
    # The file of a process that has ended says nothing about the next one.
    if not ready.exists() or not psutil.pid_exists(int(ready.read_text())):
        raise NotReady(f"{name}.ready is not there")

def part(name, after=(), timeout_s=20.0, **how):
    command = [sys.executable, "-I", "-S", "-c", (folder / f"{name}.py").read_text(), str(folder)]
    process = Process(name, command, f"{name}:1", partial(there, name), ready_timeout_s=timeout_s)
    return Part(process, after, **how)

def emptied(name, after=()):
    def anew():
        with open(folder / "order", "a") as order:
            order.write(f"empty {name}\\n")
        return kept.process
    kept = part(name, after, anew=anew)
    return kept

stack = Stack(Settings(soltape_data=folder / "data"), frozenset(), parts=eval(sys.argv[2]))
stack.elsewhere = eval(sys.argv[3])
try:
    with running.hold(folder / "data"):
        asyncio.run(supervise(stack, Screen()))
except NeverServed as error:
    sys.exit(f"never served: {error}")
except TapeLost as error:
    sys.exit(f"tape lost: {error}")
"""

SERVE = """
import sys, time, os
from pathlib import Path
folder, name = Path(sys.argv[1]), "{name}"
def leave_pid(suffix):
    new = folder / f"{{name}}.{{suffix}}.new"
    new.write_text(str(os.getpid()))
    new.rename(folder / f"{{name}}.{{suffix}}")  # no reader finds half of it
with open(folder / "order", "a") as order:
    order.write("start {name}\\n")
leave_pid("pid")
def stopped(*_):
    with open(folder / "order", "a") as order:
        order.write("stop {name}\\n")
    sys.exit(0)
import signal
signal.signal(signal.SIGTERM, {on_term})
{before}
leave_pid("ready")
time.sleep(100)
"""


def serve(folder, name, before="", on_term="stopped"):
    (folder / f"{name}.py").write_text(SERVE.format(name=name, before=before, on_term=on_term))


class Supervisor:
    def __init__(self, folder: Path, parts: str, elsewhere: dict[str, str]) -> None:
        self.folder = folder
        self.out = folder / "out"
        with self.out.open("wb") as out:
            self.popen = subprocess.Popen(
                bound([sys.executable, "-c", SUPERVISE, str(folder), parts, repr(elsewhere)]),
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=folder,
                # Not the default ports: another stack may be running on this machine.
                env=os.environ | {"METRICS_PORT_INGEST": str(free_port())},
            )

    def said(self) -> str:
        return self.out.read_text()

    def until(self, condition, within_s=60.0):

        def found():
            value = condition()
            assert value or self.popen.poll() is None, self.said()
            return value

        return eventually(found, self.said, within_s)

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

    def _start(parts, elsewhere=None):
        started.append(Supervisor(tmp_path, parts, elsewhere or {}))
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
    first = supervisor.pid("chain")
    os.kill(first, signal.SIGKILL)
    supervisor.until(lambda: supervisor.pid("chain") != first)
    assert "chain ended with SIGKILL; starting it again in 0.1 s" in supervisor.said()
    supervisor.stop()


def test_the_reason_has_the_last_line_and_pauses_grow(start, tmp_path):
    # Serves at once, so it is started again for ever.
    (tmp_path / "broken.ready").write_text(str(os.getpid()))
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
    serve(tmp_path, "deaf", on_term="lambda *_: leave_pid('asked')")
    supervisor = start("[part('deaf')]")
    supervisor.ready("deaf")
    supervisor.popen.send_signal(signal.SIGINT)
    supervisor.until(lambda: (tmp_path / "deaf.asked").exists())
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
    eventually(lambda: not any(running_pid(pid) for pid in pids))
    for name in ("broker", "ingest"):
        (tmp_path / f"{name}.ready").unlink()
    again = start(parts)  # the lock that was left is no obstacle
    again.ready("broker", "ingest")
    again.stop()


BREAK_ONCE = """
if not (folder / "broke").exists():
    (folder / "broke").touch()
    leave_pid("ready")
    print("42 slots", flush=True)
    while not (folder / "break").exists():
        time.sleep(0.01)
    raise ZeroDivisionError("a pool quotes 0")
"""
TAPE = "[emptied('store'), part('chain', ends_tape=True), part('books', after=('store', 'chain'))]"


def test_a_chain_that_fails_ends_the_tape_and_a_new_one_begins(start, tmp_path):
    serve(tmp_path, "store")
    serve(tmp_path, "chain", before=BREAK_ONCE)
    serve(tmp_path, "books")
    supervisor = start(TAPE)
    supervisor.ready("store", "chain", "books")
    books = supervisor.pid("books")
    (tmp_path / "break").touch()
    supervisor.until(lambda: supervisor.pid("books") != books and len(supervisor.order()) == 9)
    supervisor.stop()
    order = supervisor.order()
    # Nothing of the old tape runs while the store is emptied, nothing of the new one before.
    assert set(order[:3]) == {"start store", "start chain", "start books"}
    assert order[3:6] == ["stop books", "stop store", "empty store"]
    assert set(order[6:8]) == {"start store", "start chain"}
    assert order[8] == "start books"
    said = supervisor.said()
    assert "The tape is over: chain ended with exit code 1: ZeroDivisionError: a pool quotes 0" in (
        said
    )
    aside = tmp_path / "data" / "logs" / "chain.log.1"
    assert f"The last lines of its log, kept in {aside}:" in said
    assert "42 slots" in aside.read_text()
    assert "A new tape begins: broker and stores are emptied" in said
    assert "starting it again" not in said


def test_a_chain_that_is_killed_ends_the_tape_too(start, tmp_path):
    for name in ("store", "chain", "books"):
        serve(tmp_path, name)
    supervisor = start(TAPE)
    supervisor.ready("store", "chain", "books")
    supervisor.until(lambda: "start books" in supervisor.order())
    os.kill(supervisor.pid("chain"), signal.SIGKILL)
    supervisor.until(lambda: supervisor.order().count("start books") == 2)
    assert supervisor.order().count("empty store") == 1
    assert "The tape is over: chain ended with SIGKILL\n" in supervisor.said()
    supervisor.stop()
    assert supervisor.popen.returncode == 0


def test_a_part_that_is_no_chain_ends_no_tape(start, tmp_path):
    for name in ("store", "chain", "books"):
        serve(tmp_path, name)
    supervisor = start(TAPE)
    supervisor.ready("store", "chain", "books")
    books = supervisor.pid("books")
    os.kill(books, signal.SIGKILL)
    supervisor.until(lambda: supervisor.pid("books") != books)
    assert "The tape is over" not in supervisor.said()
    assert "empty store" not in supervisor.order()
    supervisor.stop()


TAPE_WITHOUT_STORE = "[part('chain', ends_tape=True), part('books', after=('chain',))]"
# It ends once it was seen to serve: then those that come after it start.
FAIL = """
leave_pid("ready")
while not (folder / "books.ready").exists():
    time.sleep(0.01)
(folder / "books.ready").unlink()
sys.exit("no")
"""


def test_a_chain_that_always_fails_soon_is_given_up(start, tmp_path):
    serve(tmp_path, "chain", before=FAIL)
    serve(tmp_path, "books")
    supervisor = start(TAPE_WITHOUT_STORE)
    assert supervisor.popen.wait(60) == 1
    assert "tape lost: 3 tapes in a row ended within 60 s; the last: chain ended" in (
        supervisor.said()
    )
    assert supervisor.said().count("The tape is over") == 3
    assert supervisor.said().count("A new tape begins") == 2


def test_systems_of_the_user_are_not_emptied_for_a_new_tape(start, tmp_path):
    serve(tmp_path, "chain", before=FAIL)
    serve(tmp_path, "books")
    supervisor = start(TAPE_WITHOUT_STORE, elsewhere={"redis": "redis.example:6379"})
    assert supervisor.popen.wait(60) == 1
    assert "a new tape needs empty systems, and these are yours: redis. Empty them" in (
        supervisor.said()
    )


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
    from infra.local import child

    monkeypatch.setattr(child, "LOG_MAX_BYTES", 1000)
    log = tmp_path / "chatty.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"a" * 1001)
        # private `_keep_bounded`: called between two writes, which the supervisor does by the
        # clock.
        child._keep_bounded(log)
        writer.write(b"b" * 10)
    assert log.read_bytes() == b"b" * 10
    assert log.with_suffix(".log.1").read_bytes() == b"a" * 1001


def test_a_log_stays_bounded_where_it_cannot_be_put_aside(tmp_path, monkeypatch):
    from infra.local import child

    monkeypatch.setattr(child, "LOG_MAX_BYTES", 1000)
    log = tmp_path / "chatty.log"
    log.write_bytes(b"a" * 1001)
    log.with_suffix(".log.1").symlink_to("/dev/full")
    # private `_keep_bounded`: the supervisor calls it by the clock.
    child._keep_bounded(log)
    assert log.read_bytes() == b""


def test_logs_that_somebody_deletes_end_nothing(start, tmp_path):
    serve(tmp_path, "agents", before="print('out', flush=True)")
    supervisor = start("[part('agents')]")
    supervisor.ready("agents")
    first = supervisor.pid("agents")
    logs = tmp_path / "data" / "logs"
    shutil.rmtree(logs)
    os.kill(first, signal.SIGTERM)
    supervisor.until(lambda: supervisor.pid("agents") != first)
    supervisor.until(lambda: (logs / "agents.log").read_text() == "out\n")
    supervisor.stop()
    assert "Traceback" not in supervisor.said()


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
from infra.local import tether
sys.exit(tether.{how}(int(sys.argv[1]), [sys.executable, "-c", {command!r}]))
"""
    parent = f"""
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {tethered!r}, str(os.getpid())], start_new_session=True)
time.sleep(100)
"""
    popen = subprocess.Popen([sys.executable, "-c", parent])
    pid = int(eventually(lambda: pid_file.exists() and pid_file.read_text()))
    popen.kill()
    popen.wait(60)
    eventually(lambda: not running_pid(pid))
