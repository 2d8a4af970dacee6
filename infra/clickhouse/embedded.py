"""ClickHouse on this machine without a server to install: the engine behind its HTTP interface."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
import uvloop
from aiohttp import web

from infra.clickhouse.client import ClickHouseUnavailable, ping
from infra.local import extra
from infra.local.folder_lock import hold
from infra.local.process import NotReady, PortInUse, Process, require_free_port
from infra.settings import Settings

if TYPE_CHECKING:
    from infra.clickhouse.engine import Engine
    from infra.clickhouse.front import User

HOST: Final = "127.0.0.1"
UNFINISHED: Final = "restore-unfinished"
"""File in a data directory while a backup is brought into it."""
_GRACE_S: Final = 1.0  # for queries to end by themselves; then they are stopped
_STOP_S: Final = 1.5  # for stopped queries to end

_log = structlog.get_logger(__name__)


class EngineNotOpened(Exception):
    """The engine refuses the data directory; the text says why."""


def require_finished(data: Path) -> None:
    """Raise EngineNotOpened where tables lack rows: a restore into the data directory was cut."""
    if (data / UNFINISHED).exists():
        raise EngineNotOpened(
            f"{data} has a part of a backup only, as `soltape clickhouse restore` was interrupted "
            "or failed: move this folder away, and restore again"
        )


def server(data: Path, port: int) -> Process:
    """Return the embedded server as a process; it keeps its tables in `data`.

    Raises ModuleNotFoundError without `soltape[embedded]`.
    """
    extra.require("chdb")
    url = f"http://{HOST}:{port}"

    async def ready() -> None:
        try:
            await ping(url)
        except ClickHouseUnavailable as error:
            raise NotReady(str(error)) from None

    command = [sys.executable, "-m", "infra.cli", "clickhouse"]
    command += ["--port", str(port), "--data", str(data.resolve())]
    return Process(name="clickhouse", command=command, address=url, ready=ready)


def run(settings: Settings, data: Path, port: int) -> None:
    """Serve `data` on a port until a signal.

    Raises EngineNotOpened, FolderInUse, PortInUse, OSError.
    """
    with hold(data / "lock"):
        require_finished(data)
        require_free_port(HOST, port, "CLICKHOUSE_URL")
        _run(settings, data, port)


def _run(settings: Settings, data: Path, port: int) -> None:
    os.umask(0o077)  # the front asks for a password: what it keeps is no open file
    os.environ["TZ"] = "UTC"  # read by the engine as it is loaded
    # The engine keeps three files open for each of some 200 threads, and those of its tables.
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    # Loading the engine takes half a second and 230 MB: only the process that runs it pays.
    from infra.clickhouse.engine import Engine
    from infra.clickhouse.errors import QueryError

    try:
        engine = Engine(data)
        engine.warm_up()
    except QueryError as error:
        raise EngineNotOpened(f"the ClickHouse engine does not open {data}: {error}") from None
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        idle = runner.run(_serve(engine, settings, data, port))
    if not idle:
        # What is on disk is whole at any moment; waiting would only delay the stop.
        _log.warning("a query did not stop in time; leaving without it")
        sys.stderr.flush()
        os._exit(0)
    engine.close()
    _log.info("stopped")


def _users(settings: Settings) -> tuple[User, User | None]:
    """Return writer and reader; no reader without a password where the writer has one."""
    from infra.clickhouse.front import User

    secret = settings.clickhouse_password
    writer = User(settings.clickhouse_user, secret.get_secret_value() if secret else "")
    secret = settings.clickhouse_reader_password
    reader = User(settings.clickhouse_reader_user, secret.get_secret_value() if secret else "")
    return writer, None if writer.password and not reader.password else reader


async def _serve(engine: Engine, settings: Settings, data: Path, port: int) -> bool:
    """Serve until a signal; return whether every query has ended."""
    from infra.clickhouse.front import Front

    front = Front(engine, *_users(settings))
    runner = web.AppRunner(
        front.application(),
        access_log=None,
        auto_decompress=False,  # the front knows more encodings
        handler_cancellation=True,  # a client that leaves stops its query
        read_bufsize=1024**2,
        shutdown_timeout=_GRACE_S + _STOP_S,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port).start()
    except OSError as error:
        await runner.cleanup()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(HOST, port, "CLICKHOUSE_URL") from None
        raise
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signal_number, stop.set)
    _log.info("serving", url=f"http://{HOST}:{port}", data=str(data), version=engine.version)
    await stop.wait()
    stopping = asyncio.create_task(front.stop_after(_GRACE_S))
    await runner.cleanup()
    stopping.cancel()
    return front.close()
