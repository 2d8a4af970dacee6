"""The memory that requests may take while they are read and answered, all connections together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Room:
    """A number of bytes. Who finds no room waits, and is served in turn."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._taken = 0
        self._turn = asyncio.Lock()  # first come, first served: small ones overtake no large one
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """Take so many bytes while the context lasts, once there is room; at most all there are."""
        async with self._turn:
            while self._taken + size > self._most:
                self._freed.clear()
                await self._freed.wait()
            self._taken += size
        try:
            yield
        finally:
            self._taken -= size
            self._freed.set()
