"""When a group's changes go to the stores: as the last slot is applied, and not too often.

A slot comes to all partitions at about the same time. Once those of this process have applied it,
what it changed is written at once: a clock of its own would find it half a pause later.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol

EVERY_S: Final = 0.3  # a flush, with all partitions
LONGEST_S: Final = 1.2  # with few: three slots, so that the stores stay less than five behind
GATHER_S: Final = 0.1  # that a slot has to come to the other partitions
TICKED_S: Final = 1.0  # that what no slot brought waits for one
ENOUGH_EVENTS: Final = 20_000  # then without waiting


class Work(Protocol):
    """What a partition has for the stores."""

    @property
    def unwritten_events(self) -> int:
        """Return about how much is applied and not written."""

    @property
    def has_slots(self) -> bool:
        """Return whether slots are applied and not written."""

    @property
    def has_changes(self) -> bool:
        """Return whether anything is."""

    @property
    def at_slot(self) -> int | None:
        """Return the slot that the partition has applied last; None where more of them wait."""


class Pacing:
    """Says when to flush; `partitions` are those of the topic."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._next_s = float("-inf")  # when the next flush may begin
        self._since_s: float | None = None  # something has been there to write

    def is_due(self, now_s: float, works: Collection[Work]) -> bool:
        """Return whether to flush now; if so, the next pause begins.

        A pause that was not used is kept for the next slot: slots come at their pace, not at ours.
        """
        if not self._is_wanted(now_s, works):
            return False
        pause = pause_s(len(works), self._partitions)
        self._next_s = min(max(self._next_s, now_s - pause), now_s) + pause
        self._since_s = None
        return True

    def _is_wanted(self, now_s: float, works: Collection[Work]) -> bool:
        if sum(work.unwritten_events for work in works) >= ENOUGH_EVENTS:
            return True
        if not any(work.has_changes for work in works):
            self._since_s = None
            return False
        if self._since_s is None:
            self._since_s = now_s
        if now_s < self._next_s:
            return False
        waited_s = now_s - self._since_s
        if not any(work.has_slots for work in works):
            return waited_s >= TICKED_S
        slots = {work.at_slot for work in works}
        return waited_s >= GATHER_S or (len(slots) == 1 and None not in slots)


def pause_s(held: int, partitions: int) -> float:
    """Return the seconds between flushes of a process that holds some of the partitions."""
    return min(EVERY_S * partitions / max(held, 1), LONGEST_S)
