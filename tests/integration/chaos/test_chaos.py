"""`soltape chaos`, short, on the brokers that keep their log; and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pipeline.chaos.account_kinds import NAMES
from tests.support.systems import bound
from tests.support.waiting import eventually

CHAOS = (sys.executable, "-m", "infra.cli", "chaos")


@pytest.mark.slow
@pytest.mark.timeout(1_560)
def test_a_short_run_loses_and_doubles_nothing() -> None:
    options = ["--seed", "11", "--minutes", "0.5", "--rate", "25"]
    run = subprocess.run([*CHAOS, *options], capture_output=True, text=True, timeout=1_500)
    [line] = run.stdout.splitlines()  # and nothing beside it
    report = json.loads(line)
    assert run.returncode == 0, run.stderr[-4000:] + line
    assert report["differences"] == 0
    assert report["replay_changed"] == report["rebuild_changed"] == 0
    assert report["kills"]  # how many depends on how fast the machine recovers
    assert report["swaps"] > 1_000
    assert report["slots"] > 40
    # On a slow machine a rebuild of a store, which is no recovery, may take all the time there is.
    if report["kills"].keys() - {"redis-lost", "clickhouse-lost", "bad-value"}:
        assert 0 < report["recovery_s"]["median"] <= report["recovery_s"]["max"]
    compared = report["compared"]
    assert min(compared[kind] for kind in ("match", "position", "holder")) > 100
    assert compared["perp change"] > 0
    assert compared["funding payment"] > 20
    assert compared["account of a wallet"] > 20
    assert compared["stake account"] > 20
    assert not NAMES - {kind for kind, count in compared.items() if count}
    assert report["not_stored"]["wallet that nobody asked for"] > 20
    # Of demo wallets, by the chain's accounts and by its ledger.
    assert report["positions"] > 250
    assert compared["position in the ledger"] > 12
    assert not report["folder"]


@pytest.mark.slow
@pytest.mark.apache
@pytest.mark.timeout(1_560)
def test_what_redis_lost_is_rebuilt_to_the_same_on_apache_kafka_that_is_killed() -> None:
    """Two workers a group, a cluster of Redis, and no accounts: CI runs no more at once. A lost
    ClickHouse is test_backup's.
    """
    faults = ("redis-lost", "bad-value", "kafka", "pnl")
    options = ["--seed", "13", "--minutes", "0.2", "--rate", "10", "--redis", "cluster"]
    options += ["--broker", "apache", "--workers", "2"]
    options += ["--log-lost", "--no-replay", "--no-rebuild", "--no-accounts"]
    for fault in faults:
        options += ["--kill", fault]
    run = subprocess.run([*CHAOS, *options], capture_output=True, text=True, timeout=1_500)
    report = json.loads(run.stdout)
    if report["failure"].startswith("ApacheUnavailable") and os.environ.get("CI") != "true":
        pytest.skip(report["failure"])
    assert run.returncode == 0, run.stderr[-4000:] + run.stdout
    killed = {name.removesuffix("-2") for name in report["kills"]}  # either worker of a group
    assert killed >= {*faults}
    assert report["differences"] == report["gap_slots"] == 0
    # What rests on a hole in a group's log is excused, and its gap is compared.
    assert report["log_lost"]
    assert report["compared"]["gap of a group"]
    assert report["swaps"] > 500
    assert not report["crashes"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ending_it_leaves_neither_processes_nor_files(
    number: signal.Signals, tmp_path: Path
) -> None:
    child = subprocess.Popen(
        bound([*CHAOS, "--minutes", "5"]),
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:

        def all_started() -> list[psutil.Process] | None:
            assert child.poll() is None
            found = psutil.Process(child.pid).children(recursive=True)
            return found if len(found) >= 8 else None

        started = eventually(all_started)
        assert list(tmp_path.iterdir())
        child.send_signal(number)
        _, said = child.communicate(timeout=240)
    finally:
        child.kill()
    assert child.returncode == 1
    assert b"Traceback" not in said, said[-2000:]
    _, alive = psutil.wait_procs(started, timeout=120)
    assert not alive
    # The counter of free ports is every process's, and remains.
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".ports"]


def test_what_is_not_known_is_said() -> None:
    run = subprocess.run([*CHAOS, "--broker", "pulsar"], capture_output=True, text=True)
    assert run.returncode == 2
    assert "pulsar" in run.stderr
