"""Wallets whose SOL is asked for a moment before they are read: no stream brings it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final

WAIT_S: Final = 1.5  # from the ask to the reading
EVERY_S: Final = 60.0  # an ask for a wallet whose SOL was new enough when it was last read


class Ahead:
    """Which wallets wait between their turn and their reading, and which need not."""

    def __init__(self) -> None:
        self._asked_s: dict[str, float] = {}
        self._waiting: deque[tuple[float, str]] = deque()  # until when, the first ends first

    def next(self, now_s: float) -> str | None:
        """Return a wallet that has waited long enough, once."""
        if self._waiting and self._waiting[0][0] <= now_s:
            return self._waiting.popleft()[1]
        return None

    def wait_s(self, now_s: float, most_s: float) -> float:
        """Return how long nothing has waited long enough, `most_s` at most."""
        return max(0.0, min(most_s, self._waiting[0][0] - now_s)) if self._waiting else most_s

    def begin(self, wallet: str, now_s: float) -> bool:
        """Return whether a wallet must be asked for now; if so, it waits from now on."""
        if now_s - self._asked_s.get(wallet, float("-inf")) < EVERY_S:
            return False
        self._asked_s[wallet] = now_s
        self._waiting.append((now_s + WAIT_S, wallet))
        return True

    def outdated(self, wallet: str) -> None:
        """Have a wallet asked for at its next turn: its SOL was too old to say what it is worth."""
        self._asked_s.pop(wallet, None)

    def keep(self, wallets: Collection[str]) -> None:
        """Forget all but some wallets."""
        kept = frozenset(wallets)
        self._asked_s = {each: at_s for each, at_s in self._asked_s.items() if each in kept}
        self._waiting = deque(each for each in self._waiting if each[1] in kept)
