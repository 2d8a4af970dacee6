"""Where a role listens for callers: the socket, and as many open files as they may need."""

from __future__ import annotations

import errno
import resource
import socket
from typing import Final

from infra.local.process import PortInUse
from infra.settings import SettingsError

_FILES_BESIDE: Final = 256  # open files that are no connections of callers


def listen(role: str, host: str, port: int, *, reuse_port: bool) -> socket.socket:
    """Return the socket, bound to what the settings `<ROLE>_HOST` and `<ROLE>_PORT` say.

    Raises PortInUse, which names the setting, and SettingsError where there is no such address.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _not_there(role, host, port, error) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(host, port, f"{role.upper()}_PORT") from None
        raise _not_there(role, host, port, error) from None
    return listener


def _not_there(role: str, host: str, port: int, error: OSError) -> SettingsError:
    name = role.upper()
    return SettingsError(
        f"{name}_HOST={host!r}, {name}_PORT={port}: nothing can be served there ({error.strerror})"
    )


def allow_connections(count: int) -> None:
    """Raise the soft limit of open files, as far as the hard one allows."""
    wanted = count + _FILES_BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
