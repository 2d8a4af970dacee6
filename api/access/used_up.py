"""Payers whose rate is used up, until it has room: what is refused anyway asks Redis no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Final

from cachetools import TTLCache

from api.access.grants import Refusal
from schemas.plans import MINUTE_S

_KEPT: Final = 10_000


class UsedUp:
    """What a process remembers of refusals for the rate."""

    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        self._refusals: TTLCache[str, tuple[float, Refusal]] = TTLCache(
            _KEPT, MINUTE_S, timer=now_s
        )

    def note(self, payer: str, refusal: Refusal) -> None:
        """Remember a refusal for the rate."""
        self._refusals[payer] = self._now_s(), refusal

    def of(self, payer: str) -> Refusal | None:
        """Return the refusal of a payer as it is now, None where the rate may have room."""
        found = self._refusals.get(payer)
        if found is None:
            return None
        at_s, refusal = found
        wait_ms = refusal.wait_ms - int((self._now_s() - at_s) * 1000)
        return replace(refusal, wait_ms=wait_ms, frees_ms=wait_ms) if wait_ms > 0 else None
