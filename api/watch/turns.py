"""Whose turn it is: no wallet sooner than `every_s` after its last turn, so many in a second."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from math import inf


class Turns:
    """The wallets that are watched, by when each is due; who waits longest comes first."""

    def __init__(self, per_s: float, every_s: float) -> None:
        self._gap_s = 1 / per_s
        self._every_s = every_s
        self._next_s = 0.0  # no turn before
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []  # with entries that are out of date

    def set(self, wallets: Iterable[str], now_s: float) -> None:
        """Take the wallets there are; new ones are due now."""
        wanted = dict.fromkeys(wallets)
        for wallet in self._due.keys() - wanted.keys():
            del self._due[wallet]
        for wallet in wanted:
            if wallet not in self._due:
                self._put(wallet, now_s)

    def next(self, now_s: float) -> str | None:
        """Return whose turn it is, which counts as taken; None where nobody's is."""
        if now_s < self._next_s or (first := self._first()) is None or first[0] > now_s:
            return None
        due_s, wallet = heappop(self._heap)
        self._next_s = now_s + self._gap_s
        self._put(wallet, max(due_s, now_s) + self._every_s)
        return wallet

    def wait_s(self, now_s: float) -> float:
        """Return how long nobody's turn is: for ever where nobody is watched."""
        first = self._first()
        return inf if first is None else max(0.0, max(self._next_s, first[0]) - now_s)

    def overdue_s(self, now_s: float) -> float:
        """Return how late the wallet is whose turn is next."""
        first = self._first()
        return 0.0 if first is None else max(0.0, now_s - first[0])

    def _first(self) -> tuple[float, str] | None:
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0] if self._heap else None

    def _put(self, wallet: str, due_s: float) -> None:
        self._due[wallet] = due_s
        heappush(self._heap, (due_s, wallet))
