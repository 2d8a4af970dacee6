"""A child process as a value: what to run, where it will be found, and when it serves.

Every embedded system describes itself as a `Process`; `infra.local.supervisor` runs them.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir
from typing import Final


class NotReady(Exception):
    """A process does not serve yet; the text says what is missing."""


class PortInUse(Exception):
    """Another program holds a port; the text names the port and the setting that moves it."""

    def __init__(self, host: str, port: int, setting: str) -> None:
        super().__init__(
            f"port {port} on {host} is in use by another program: stop it, "
            f"or set {setting} to a free port"
        )
        self.host = host
        self.port = port
        self.setting = setting


@dataclass(frozen=True, slots=True)
class Process:
    """One child process.

    `ready` raises `NotReady` until the process serves; `env` is added to the parent's
    environment; `address` is what a person needs to know to reach it, `remedy` what to do where it
    cannot be brought to serve.
    """

    name: str
    command: list[str]
    address: str
    ready: Callable[[], Awaitable[None]]
    env: Mapping[str, str] = field(default_factory=dict)
    ready_timeout_s: float = 60.0
    remedy: str = ""


def require_free_port(host: str, port: int, setting: str) -> None:
    """Raise `PortInUse` if something listens on the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: a port in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise PortInUse(host, port, setting) from error


# Below the ports that systems give to outgoing connections: one of those would take a port that
# was found free before its server listens. Above the defaults of all settings.
_FREE_PORTS: Final = range(15_000, 32_000)


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free now, another one each time, whichever process of a user asks."""
    for _ in _FREE_PORTS:
        port = _next_port()
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe, suppress(OSError):
            probe.bind((host, port))
            return port
    raise OSError(f"no port from {_FREE_PORTS[0]} to {_FREE_PORTS[-1]} is free on {host}")


def _next_port() -> int:
    """Return the port after the last one given out; any where the file of that is not to be had."""
    path = Path(gettempdir()) / f"soltape-{os.getuid()}.ports"
    try:
        last = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        return secrets.choice(_FREE_PORTS)
    try:
        fcntl.flock(last, fcntl.LOCK_EX | fcntl.LOCK_NB)
        number = int.from_bytes(os.pread(last, 2, 0), "little") + 1
        if number not in _FREE_PORTS:
            number = _FREE_PORTS[0]
        os.pwrite(last, number.to_bytes(2, "little"), 0)
        return number
    except OSError:  # another process has it at this moment
        return secrets.choice(_FREE_PORTS)
    finally:
        os.close(last)


_RESERVED: Final[dict[int, int]] = {}  # port -> descriptor of its lock


def reserve_free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free now, and keep it: the system may give a free one out again."""
    while True:
        port = free_port(host)
        if port not in _RESERVED and reserve_port(port):
            return port


def reserve_port(port: int) -> bool:
    """Keep a port from others of us until this process ends; False where one of them has it.

    Without that a port that is found free goes to two who start at once: neither listens yet.
    """
    if port in _RESERVED:
        return True
    try:
        lock = os.open(Path(gettempdir()) / f"soltape-{port}.port", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:  # another user's: that the port is free has to do
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    _RESERVED[port] = lock
    return True
