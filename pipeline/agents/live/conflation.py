"""At most one update of a mint in so many milliseconds, and never without the last one."""

from __future__ import annotations

from collections import deque
from typing import Final

from pipeline.agents.live.receipt import Receipt

EVERY_S: Final = 0.1


class Conflation:
    """Says when a changed mint may be published; the time is the caller's, in seconds.

    A mint that was quiet may at once; one that changes again within the interval may at its end,
    with what it is worth by then. The batches it changed in wait for it.
    """

    def __init__(self) -> None:
        self._free_at: dict[str, float] = {}  # mint -> when it may be published again
        self._frees: deque[tuple[float, str]] = deque()  # the same, ascending
        self._ready: list[str] = []
        self._waiting: dict[str, list[Receipt]] = {}

    def changed(self, mint: str, receipt: Receipt) -> None:
        """Note that a mint has changed; the batch waits until it is taken."""
        receipt.hold()
        waiting = self._waiting.get(mint)
        if waiting is None:
            waiting = self._waiting[mint] = []
            if mint not in self._free_at:
                self._ready.append(mint)
        waiting.append(receipt)

    def take(self, now: float) -> list[tuple[str, list[Receipt]]]:
        """Return the mints to publish now, and the batches that wait for each."""
        while self._frees and self._frees[0][0] <= now:
            mint = self._frees.popleft()[1]
            del self._free_at[mint]
            if mint in self._waiting:
                self._ready.append(mint)
        taken = [(mint, self._waiting.pop(mint)) for mint in self._ready]
        for mint in self._ready:
            self._free_at[mint] = now + EVERY_S
            self._frees.append((now + EVERY_S, mint))
        self._ready.clear()
        return taken

    @property
    def next_at(self) -> float | None:
        """When a mint that waits may go first; None where none waits."""
        if self._ready:
            return 0.0
        return self._frees[0][0] if self._waiting else None
