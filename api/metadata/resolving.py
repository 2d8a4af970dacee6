"""Addresses of a host's name, in threads of its own.

Who names a host may own its name server and let it never answer. Such look-ups must not take the
threads that the rest of the process uses, nor keep it from ending.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from ipaddress import ip_address
from threading import Thread
from typing import Final

from api.metadata.failures import Failed

# A look-up may outlive the fetch that gave it up by four times: places for all of those too.
MOST_AT_ONCE: Final = 64

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Returns all addresses of a name, for a port; raises Failed."""


class SystemResolver:
    """Asks the system, a bounded number of names at once."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MOST_AT_ONCE)

    async def __call__(self, host: str, port: int) -> list[str]:
        """Return all addresses of a name; raises Failed."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[str]] = loop.create_future()

        def end(addresses: list[str]) -> None:
            self._free.release()  # with the thread, not with who waits for it
            if not found.done():
                found.set_result(addresses)

        def look_up() -> None:
            addresses: list[str] = []
            with suppress(OSError, UnicodeError):
                answers = socket.getaddrinfo(_absolute(host), port, type=socket.SOCK_STREAM)
                addresses = [str(answer[4][0]) for answer in answers]
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(end, addresses)

        Thread(target=look_up, name="metadata-resolver", daemon=True).start()
        if addresses := await found:
            return addresses
        raise Failed("unreachable", "the host's name has no address")


def _absolute(host: str) -> str:
    """Return a name as one that no domain of this machine is put behind."""
    try:
        ip_address(host)
    except ValueError:
        return f"{host}." if "." in host and not host.endswith(".") else host
    return host
