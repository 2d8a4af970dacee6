"""How often and how many at once one host is asked, so that no token aims this process at it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from api.stores.caches import now_s

MOST_AT_ONCE: Final = 2
PAUSE_S: Final = 0.2  # between the beginnings of two requests
_REMEMBERED: Final = 1_024


class _Host:
    __slots__ = ("next_s", "slots", "users")

    def __init__(self) -> None:
        self.slots = asyncio.Semaphore(MOST_AT_ONCE)
        self.users = 0
        self.next_s = 0.0  # from when on it may be asked again, by the loop's clock


class Hosts:
    """The hosts that are asked, or were within the last moments."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}

    @asynccontextmanager
    async def turn(self, host: str) -> AsyncIterator[None]:
        """Wait for a turn at a host, and hold it."""
        found = self._hosts.get(host)
        if found is None:
            self._prune()
            found = self._hosts[host] = _Host()
        found.users += 1
        try:
            async with found.slots:
                begins_s = max(now_s(), found.next_s)
                found.next_s = begins_s + PAUSE_S
                await asyncio.sleep(begins_s - now_s())
                yield
        finally:
            found.users -= 1

    def _prune(self) -> None:
        """Forget the hosts that nobody uses, once there are many."""
        if len(self._hosts) < _REMEMBERED:
            return
        for name, host in [*self._hosts.items()]:
            if not host.users and now_s() >= host.next_s:
                del self._hosts[name]
