"""Until when the lane says that a slot is not complete: what holes changed is on its way; pure."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.ingest.accounts.asked import Answer


class Mending:
    """Counts holes that are asked for, and answers about them that no slot has taken yet."""

    def __init__(self) -> None:
        self._open = 0

    def begin(self, count: int = 1) -> None:
        """Take note of something that is not in the lane yet."""
        self._open += count

    def end(self, count: int = 1) -> None:
        """Take note that something is in the lane, or that coverage was withdrawn for it."""
        self._open -= count

    def is_done_with(self, answers: Iterable[Answer]) -> bool:
        """Return whether a slot that takes these answers leaves nothing open."""
        return self._open == mending(answers)


def mending(answers: Iterable[Answer]) -> int:
    """Return how many of some answers mend holes."""
    return sum(each.mends for each in answers)
