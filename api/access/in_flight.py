"""How many requests of one holder this process answers at once.

A call costs one credit however much it asks for, so this bound and the limits of a batch are what
keeps one holder from taking the process from all others.
"""

from __future__ import annotations


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
