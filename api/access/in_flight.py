"""How many requests of one holder this process answers at once.

A call costs one credit however much it asks for, so this bound and the limits of a batch are what
keeps one holder from taking the process from all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


class InFlight:
    """Requests in flight by holder, at most `most` of each."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._running: dict[str, int] = {}

    def enter(self, holder: str) -> bool:
        """Count a request in and return True, or return False if the holder has no room."""
        running = self._running.get(holder, 0)
        if running >= self.most:
            return False
        self._running[holder] = running + 1
        return True

    def leave(self, holder: str) -> None:
        """Count out a request that `enter` let in."""
        running = self._running[holder] - 1
        if running:
            self._running[holder] = running
        else:
            del self._running[holder]


@dataclass(slots=True)
class _Turn:
    semaphore: asyncio.Semaphore
    waiting: int = field(default=0)  # or having their turn


class Turns:
    """Turns of requests that may take long: of each holder `most` at once, others wait in order.

    Between two steps of one request the process answers others; of many such requests at once it
    would take a step each first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._turns: dict[str, _Turn] = {}

    @asynccontextmanager
    async def take(self, holder: str) -> AsyncIterator[None]:
        """Wait for a turn of a holder, and have it while the context lasts."""
        turn = self._turns.get(holder)
        if turn is None:
            turn = self._turns[holder] = _Turn(asyncio.Semaphore(self._most))
        turn.waiting += 1
        try:
            async with turn.semaphore:
                yield
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                del self._turns[holder]
