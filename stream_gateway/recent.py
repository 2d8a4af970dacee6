"""The last seconds of every stream in memory, for clients that were away for a moment."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Final

from stream_gateway.batches import Batch, Gap, Place

DEFAULT_S: Final = 30.0
DEFAULT_BYTES: Final = 64 << 20

Item = Batch | Gap


def place_of(item: Item) -> Place:
    """Return the place that a reader has reached after an item."""
    if isinstance(item, Batch):
        return item.end
    assert item.before is not None  # gaps of a stream name what follows
    return item.before


class Recent:
    """Batches and gaps in the order of their streams, bounded in seconds and in bytes.

    Of each stream the last item stays, however old: a client that has seen it has missed nothing.
    """

    def __init__(
        self,
        *,
        seconds: float = DEFAULT_S,
        max_bytes: int = DEFAULT_BYTES,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds = seconds
        self.size_bytes = 0
        self._max_bytes = max_bytes
        self._clock_s = clock_s
        self._items: dict[str, deque[tuple[float, Item]]] = defaultdict(deque)

    def add(self, item: Item) -> None:
        """Take what comes next of its stream; what is too old or too much goes."""
        now_s = self._clock_s()
        self._items[item.channel.stream].append((now_s, item))
        self.size_bytes += item.size_bytes
        for items in self._items.values():
            while len(items) > 1 and items[0][0] < now_s - self.seconds:
                self._drop(items)
        while self.size_bytes > self._max_bytes:
            droppable = [items for items in self._items.values() if len(items) > 1]
            if not droppable:
                break
            self._drop(min(droppable, key=lambda items: items[0][0]))

    def clear(self, stream: str) -> None:
        """Forget a stream."""
        for _, item in self._items.pop(stream, ()):
            self.size_bytes -= item.size_bytes

    def covers(self, stream: str, place: Place) -> bool:
        """Whether all that came after a place is here."""
        items = self._items.get(stream)
        if not items:
            return False
        first = items[0][1]
        return place >= (first.begin if isinstance(first, Batch) else place_of(first))

    def after(self, stream: str, place: Place) -> list[Item]:
        """Return what is here of what came after a place."""
        found = []
        for _, item in reversed(self._items.get(stream, ())):
            if place_of(item) <= place:
                break
            found.append(item)
        found.reverse()
        return found

    def _drop(self, items: deque[tuple[float, Item]]) -> None:
        self.size_bytes -= items.popleft()[1].size_bytes
