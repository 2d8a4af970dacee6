"""The bounded queue between the read loop and the decoder: the reader waits, nothing is dropped."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MAX_BYTES: Final = 256 << 20  # some 30,000 transactions of an average size


@dataclass(frozen=True, slots=True)
class Connected:
    """A new connection begins; all updates from `from_slot` on will come (None: from now)."""

    from_slot: int | None


class Intake:
    """Serialized updates, and the connections that they came by, in the order they came."""

    def __init__(self, max_updates: int, max_bytes: int = MAX_BYTES) -> None:
        self.bytes = 0
        self.stalls = 0  # how often the reader had to wait
        self._max_updates = max_updates
        self._max_bytes = max_bytes
        self._items: deque[bytes | Connected] = deque()
        self._filled = asyncio.Event()
        self._room = asyncio.Event()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def full(self) -> bool:
        """Whether the next `put` has to wait."""
        return len(self._items) >= self._max_updates or self.bytes >= self._max_bytes

    async def put(self, item: bytes | Connected) -> None:
        """Add an update; wait while the queue is full."""
        if self.full:
            self.stalls += 1
            while self.full:
                self._room.clear()
                await self._room.wait()
        self._items.append(item)
        if isinstance(item, bytes):
            self.bytes += len(item)
        self._filled.set()

    async def take(self, limit: int) -> list[bytes | Connected]:
        """Return the next items, at least one and at most `limit`."""
        while not self._items:
            self._filled.clear()
            await self._filled.wait()
        items = [self._items.popleft() for _ in range(min(limit, len(self._items)))]
        self.bytes -= sum(len(item) for item in items if isinstance(item, bytes))
        self._room.set()
        return items

    def put_back(self, items: Sequence[bytes | Connected]) -> None:
        """Put items before all others; they may be more than the queue takes otherwise."""
        self._items.extendleft(reversed(items))
        self.bytes += sum(len(item) for item in items if isinstance(item, bytes))
        self._filled.set()
