"""`soltape up` as a user runs it: from an empty folder to the first swap, and back to nothing."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from urllib.request import Request, urlopen

import psutil
import pytest

from infra.running import addresses
from infra.settings import Settings

SOLTAPE = [sys.executable, "-m", "infra.cli"]
FIRST_SWAP_S = 120
STOP_S = 30
RSS_BYTES = 2 * 1024**3

pytestmark = pytest.mark.slow


class Up:
    """A running `soltape up` and its processes."""

    def __init__(self, folder, environment, *options):
        self.folder = folder
        self.environment = environment
        self.out = folder / "up.out"
        self.began = time.monotonic()
        with self.out.open("wb") as out:
            self.popen = subprocess.Popen(
                [*SOLTAPE, "up", *options],
                cwd=folder,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def said(self):
        return self.out.read_text()

    def run(self, *command, timeout=120):
        return subprocess.run(
            [*SOLTAPE, *command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def until(self, condition, within_s):
        deadline = time.monotonic() + within_s
        while not (found := condition()):
            assert self.popen.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.1)
        return found

    def first_swap(self, within_s):
        """Return the first swap that a subscriber sees; it may start before the topic is there."""
        deadline = time.monotonic() + within_s
        # Before it has said where it is, a subscriber may find another one at the usual ports.
        self.until(lambda: addresses(self.folder / ".soltape"), within_s)
        while (left_s := deadline - time.monotonic()) > 0:
            try:
                tail = self.run(
                    *("tail", "solana-dex-swaps", "--from", "beginning", "--limit", "1"),
                    timeout=left_s,
                )
            except subprocess.TimeoutExpired:
                break
            if tail.stdout:
                return json.loads(tail.stdout)
        raise AssertionError(f"no swap within {within_s} s\n{self.said()}")

    def processes(self):
        me = psutil.Process(self.popen.pid)
        return [me, *me.children(recursive=True)]

    def stop(self):
        began = time.monotonic()
        self.popen.send_signal(signal.SIGINT)
        self.popen.wait(60)
        return time.monotonic() - began


@pytest.fixture
def start(tmp_path):
    started = []

    def _start(*options, **settings):
        plain = {
            name: value
            for name, value in os.environ.items()
            if name.lower() not in Settings.model_fields
        }
        started.append(Up(tmp_path, plain | settings, *options))
        return started[-1]

    yield _start
    for up in started:
        if up.popen.poll() is None:
            up.stop()


def lines_with_swaps(up):
    return re.findall(
        r"^slot [\d,]+ \| [\d,]+ tx/s \| [1-9][\d,]* swaps/s", up.said(), re.MULTILINE
    )


def test_from_nothing_to_swaps_and_back_to_nothing(start, tmp_path):
    up = start()
    swap = up.first_swap(FIRST_SWAP_S)
    assert time.monotonic() - up.began < FIRST_SWAP_S, up.said()
    assert swap["kind"] == "swap"

    second = up.run("up")
    assert second.returncode == 1
    assert f"pid {up.popen.pid}" in second.stderr

    doctor = up.run("doctor")
    assert doctor.returncode == 0, doctor.stdout
    assert "failed" not in doctor.stdout

    up.until(lambda: len(lines_with_swaps(up)) >= 5, within_s=120)
    processes = up.processes()
    assert len(processes) == 10
    assert sum(process.memory_info().rss for process in processes) < RSS_BYTES

    first_request = re.search(r"curl -H 'x-api-key: (soltape_\w+)' '(\S+)'", up.said())
    assert first_request, up.said()
    key, address = first_request.groups()
    assert key == (tmp_path / ".soltape" / "demo-key").read_text().strip()

    def as_of_slot():
        with urlopen(Request(address, headers={"x-api-key": key}), timeout=60) as answer:
            assert answer.headers["content-type"] == "application/json"
            return json.load(answer)["as_of_slot"]

    up.until(lambda: as_of_slot() > 0, within_s=120)  # 0 until the books have a slot
    assert key not in (tmp_path / ".soltape" / "logs" / "api.log").read_text()

    assert up.stop() < STOP_S, up.said()
    assert up.popen.returncode == 0
    assert not [process for process in processes if process.is_running()]
    assert not (tmp_path / ".soltape" / "up.lock").exists()
    assert not (tmp_path / ".soltape" / "addresses.json").exists()
    assert "Traceback" not in up.said()


def test_swaps_go_on_after_the_broker_was_killed(start):
    up = start()
    up.until(lambda: lines_with_swaps(up), within_s=120)
    broker = next(process for process in up.processes() if "kafka" in process.cmdline())
    broker.kill()
    up.until(lambda: "kafka ended with SIGKILL" in up.said(), within_s=60)
    seen = len(lines_with_swaps(up))
    up.until(lambda: len(lines_with_swaps(up)) > seen + 3, within_s=120)
    assert up.first_swap(60)["kind"] == "swap"
    assert up.stop() < STOP_S, up.said()


def test_nothing_outlives_a_supervisor_that_is_killed_and_the_folder_can_be_used_again(start):
    up = start()
    up.until(lambda: lines_with_swaps(up), within_s=120)
    key = up.run("keys", "create", "--name", "mine").stdout.strip()
    processes = up.processes()
    up.popen.kill()
    up.popen.wait(60)
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    again = start()
    again.until(lambda: lines_with_swaps(again), within_s=120)
    # The tape began anew, the keys did not.
    again.until(lambda: "The API serves at" in again.said(), within_s=120)
    _, address = re.search(r"curl -H 'x-api-key: (\w+)' '(http://[^/]+)", again.said()).groups()
    with urlopen(Request(f"{address}/api/usage", headers={"x-api-key": key}), timeout=60) as answer:
        assert json.load(answer)["key"]["name"] == "mine"
    assert again.stop() < STOP_S, again.said()
