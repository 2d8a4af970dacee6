"""The log every subscriber reads at its own pace; what it still has can be replayed.

One shared log with a position a subscriber, instead of a queue each: a slow subscriber costs no
memory, and falling too far behind is a subtraction.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Protocol

from infra.chain.updates import (
    WRITE_BYTES,
    AccountsUpdate,
    BlockUpdate,
    TransactionUpdate,
    Update,
)


class Reader(Protocol):
    """Somebody who follows the log."""

    def wake(self) -> None:
        """Hear that there is more to read."""

    def behind(self) -> int:
        """Return how many updates are waiting to be read."""


class ReplayLog:
    """Updates in the order they are sent, for the newest slots."""

    def __init__(self, max_slots: int, max_bytes: int) -> None:
        self._max_slots = max_slots
        self._max_bytes = max_bytes
        self._updates: list[Update] = []
        self._base = 0  # position of the first update that is kept
        self._starts: dict[int, int] = {}  # slot -> a position before all of its updates
        self._frozen: set[int] = set()  # slots that were executed to their end
        self._size_bytes = 0
        self._readers: set[Reader] = set()
        self.followed = asyncio.Event()  # somebody has asked for updates

    @property
    def base(self) -> int:
        """Position of the oldest update that is kept."""
        return self._base

    @property
    def head(self) -> int:
        """Position the next update will have."""
        return self._base + len(self._updates)

    @property
    def slots(self) -> int:
        """Number of slots that are kept."""
        return len(self._starts)

    @property
    def first_slot(self) -> int | None:
        """Oldest slot whose updates are all kept, or None before there is one."""
        return next(iter(self._starts), None)

    def start(self, slot: int) -> None:
        """Remember where a slot begins; forget the oldest ones beyond the limits."""
        self._starts[slot] = self.head
        while len(self._starts) > self._max_slots or (
            self._size_bytes > self._max_bytes and len(self._starts) > 1
        ):
            oldest = next(iter(self._starts))
            del self._starts[oldest]
            self._frozen.discard(oldest)
            self._trim(next(iter(self._starts.values())))

    def extend(self, updates: list[Update]) -> None:
        """Append updates and wake every reader."""
        self._updates += updates
        self._frozen.update([each.slot for each in updates if isinstance(each, BlockUpdate)])
        self._size_bytes += sum(map(_size_bytes, updates))
        for reader in self._readers:
            reader.wake()

    def read(self, position: int, limit: int) -> list[Update]:
        """Return up to `limit` updates from a position that is not below `base`."""
        start = position - self._base
        return self._updates[start : start + limit]

    @property
    def frozen(self) -> frozenset[int]:
        """Slots that were executed to their end: these alone are replayed."""
        return frozenset(self._frozen)

    def first_of(self, newest: int) -> int | None:
        """Return the first slot of a node that keeps the newest slots alone; 0: all of them."""
        if not newest or newest >= len(self._starts):
            return self.first_slot
        return next(islice(reversed(self._starts), newest - 1, None))

    def position_of(self, slot: int, newest: int = 0) -> int | None:
        """Return where to start reading for this slot and all later ones.

        None: the slot is no longer kept, or never was; on a node that keeps the newest slots alone
        it may be gone sooner. A slot to come starts at `head`.
        """
        first = self.first_of(newest)
        if first is None or slot < first:
            return None
        return min(
            (position for start, position in self._starts.items() if start >= slot),
            default=self.head,
        )

    def join(self, reader: Reader) -> None:
        """Wake the reader whenever there is more to read."""
        self._readers.add(reader)

    def leave(self, reader: Reader) -> None:
        """Stop waking the reader."""
        self._readers.discard(reader)

    def is_awaited(self, within: int) -> bool:
        """Return whether a reader soon reads up to here: less than `within` updates behind."""
        return any(0 < reader.behind() < within for reader in self._readers)

    def _trim(self, position: int) -> None:
        dropped = self._updates[: position - self._base]
        del self._updates[: len(dropped)]
        self._base = position
        self._size_bytes -= sum(map(_size_bytes, dropped))


def _size_bytes(update: Update) -> int:
    if isinstance(update, TransactionUpdate):
        return len(update.transaction.info)
    if isinstance(update, AccountsUpdate):
        return sum(len(item.write.data) + WRITE_BYTES for item in update.written)
    return 200
