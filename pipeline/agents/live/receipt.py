"""When a batch is done: when everything that came of it has arrived."""

from __future__ import annotations

from collections.abc import Callable


class Receipt:
    """Calls `done` once, as soon as everything that was held is released; starts with one hold."""

    __slots__ = ("_done", "_held")

    def __init__(self, done: Callable[[], None]) -> None:
        self._done = done
        self._held = 1

    def hold(self) -> None:
        """Wait for one thing more."""
        self._held += 1

    def release(self) -> None:
        """Hear that one of them has arrived."""
        self._held -= 1
        if not self._held:
            self._done()
