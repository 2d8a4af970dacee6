"""Systems of the embedded stack for tests: each a process on a free port, ended at the end."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

from redis.asyncio import Redis

from infra.clickhouse.embedded import server
from infra.clickhouse.migrations import migrate
from infra.local import tether
from infra.local.process import NotReady, Process, free_port
from infra.redis.embedded import valkey
from infra.settings import Settings
from tests.support.forked import Forked
from tests.support.waiting import eventually, without_error_async

_SOLTAPE: Final = [sys.executable, "-m", "infra.cli"]  # the prefix of each `soltape` command


def bound(command: Sequence[str]) -> list[str]:
    """Return a command that ends with this test process, even where no fixture can end it.

    A test process that is killed, or whose time is up, runs no fixture's end. Off Linux the
    command is returned as it is: there it would have to lead a process group.
    """
    return tether.tethered(command) if sys.platform == "linux" else list(command)


@contextmanager
def running(process: Process, folder: Path) -> Iterator[None]:
    """Run a system, its log in the folder, and wait until it serves."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{process.name}.log"
    child = begin(process, log)
    try:
        eventually(lambda: _is_ready(process) or child.poll() is not None, log.read_text)
        assert child.poll() is None, log.read_text()
        yield
    finally:
        child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def begin(process: Process, log: Path) -> subprocess.Popen[bytes] | Forked:
    """Start a system's process, which ends with this test process; fork `soltape` commands.

    What it says is added to the log.
    """
    environment = os.environ | dict(process.env)
    if list(process.command[: len(_SOLTAPE)]) == _SOLTAPE:
        return Forked(tuple(process.command[len(_SOLTAPE) :]), environment, log)
    with log.open("ab") as output:
        return subprocess.Popen(
            bound(process.command), env=environment, stdout=output, stderr=output
        )


class Mortal:
    """A system that a test may kill, and start again where it was with what it had."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.child: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start it; returns when it serves."""
        process = self.process
        self.child = subprocess.Popen(  # noqa: ASYNC220 - an instant
            bound(process.command),
            env=os.environ | dict(process.env),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        await without_error_async(process.ready, NotReady)

    def kill(self) -> None:
        """End it with SIGKILL; nothing happens where it was not started."""
        if self.child is not None:
            self.child.kill()
            self.child.wait()


async def saved(redis: Redis) -> None:
    """Wait until all that was written to Valkey is in its file on disk, which SIGKILL leaves."""
    pipeline: Any = redis.pipeline(transaction=False)
    # WAITAOF waits for the writes of its own connection.
    pipeline.set("saved", 1).delete("saved").execute_command("WAITAOF", 1, 0, 0)
    assert (await pipeline.execute())[-1][0] == 1


@contextmanager
def running_valkey(folder: Path) -> Iterator[int]:
    """Run an empty Valkey; yield its port."""
    port = free_port()
    with running(valkey(folder / "valkey", "127.0.0.1", port), folder):
        yield port


@contextmanager
def running_clickhouse(folder: Path) -> Iterator[int]:
    """Run an empty ClickHouse; yield its port."""
    port = free_port()
    with running(server(folder / "clickhouse", port), folder):
        yield port


@cache
def _with_tables() -> Path:
    """Return the folder of a ClickHouse with our tables, which does not run: made once a process.

    To make the tables takes two seconds of CPU time, to copy them nothing.
    """
    folder = Path(mkdtemp(prefix="soltape-tables-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with running_clickhouse(folder) as port:
        address = f"http://127.0.0.1:{port}"
        migrate(Settings(_env_file=None, soltape_data=folder, clickhouse_url=address))
    return folder / "clickhouse"


def make_tables(data: Path) -> Path:
    """Put a ClickHouse with our tables, empty, where there is none; return where it is."""
    return Path(shutil.copytree(_with_tables(), data, symlinks=True))


@contextmanager
def running_tables(folder: Path) -> Iterator[int]:
    """Run a ClickHouse with our tables, empty; yield its port."""
    make_tables(folder / "clickhouse")
    with running_clickhouse(folder) as port:
        yield port


@contextmanager
def running_stores(folder: Path) -> Iterator[Settings]:
    """Run both, the tables made; yield settings that lead there, keys in database 1."""
    with ExitStack() as stack:
        redis_port = stack.enter_context(running_valkey(folder))
        clickhouse_port = stack.enter_context(running_tables(folder))
        settings = Settings(
            _env_file=None,
            soltape_data=folder,
            redis_url=f"redis://127.0.0.1:{redis_port}/0",
            access_redis_url=f"redis://127.0.0.1:{redis_port}/1",
            clickhouse_url=f"http://127.0.0.1:{clickhouse_port}",
        )
        yield settings


def _is_ready(process: Process) -> bool:
    try:
        asyncio.run(process.ready())
    except NotReady:
        return False
    return True
