"""Keys, sessions and links that were refused lately, so that guessing costs Redis next to nothing.

Anybody can make up a key with a right checksum, the cookie of a session or the token of a link;
only Redis knows that it does not exist. An unknown one is remembered for a moment. An address of
which too many were refused within a minute is refused without a look, except for keys and sessions
that were good here lately: others may share the address.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final, TypeVar

from cachetools import LRUCache, TTLCache
from prometheus_client import Counter

from api.access import refusals
from api.access.paces import network

T = TypeVar("T")

FAILURES: Final = 60
"""Refused keys, sessions and links of an address within `WINDOW_S`; more are not looked at."""
WINDOW_S: Final = 60.0
UNKNOWN_FOR_S: Final = 5.0
_UNKNOWN_KEPT: Final = 10_000
_GOOD_KEPT: Final = 10_000
_ADDRESSES_KEPT: Final = 10_000

SPARED: Final = Counter(
    "soltape_key_looks_spared_total",
    "Requests with a key or session that were refused without asking Redis.",
    ["why"],
)


class Failures:
    """What a process remembers of refused keys and sessions."""

    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._unknown: TTLCache[str, None] = TTLCache(_UNKNOWN_KEPT, UNKNOWN_FOR_S, timer=now_s)
        self._good: LRUCache[str, None] = LRUCache(_GOOD_KEPT)
        self._refused: TTLCache[str, None] = TTLCache(_UNKNOWN_KEPT, WINDOW_S, timer=now_s)
        # A list, so that counting does not begin the window anew.
        self._failed: TTLCache[str, list[int]] = TTLCache(_ADDRESSES_KEPT, WINDOW_S, timer=now_s)

    def check(self, address: str, fingerprint: str = "") -> None:
        """Raise Problem where the answer is known without a look; "" is no key, but a ticket."""
        if fingerprint in self._good:
            return
        if self.are_too_many(address):
            SPARED.labels("address").inc()
            raise refusals.too_many_failures(int(WINDOW_S))
        if fingerprint in self._unknown:
            SPARED.labels("unknown").inc()
            self._count(address)
            raise refusals.unknown()

    async def session(
        self, address: str, digest: str, look: Callable[[], Awaitable[T | None]]
    ) -> T | None:
        """Return what a look finds for a session, by the hash of its secret; None if it is unknown.

        Raises Problem where too many from the address were unknown, and what `look` raises. A
        browser sends a cookie that has ended with every request: what is answered from memory does
        not count.
        """
        if digest in self._unknown:
            SPARED.labels("unknown").inc()
            return None
        self.check(address, digest)
        found = await look()
        if found is None:
            self.refused(address, digest, is_unknown=True)
        else:
            self.found(digest)
        return found

    async def link(
        self, address: str, digest: str, spend: Callable[[], Awaitable[T | None]]
    ) -> T | None:
        """Return what spending a one-time link gives, by its token's hash; None if it is not valid.

        Raises Problem where too many from the address were not, and what `spend` raises. No link is
        good twice, so none is remembered as good.
        """
        if digest in self._unknown:
            SPARED.labels("unknown").inc()
            return None
        self.check(address)
        spent = await spend()
        if spent is None:
            self.refused(address, digest, is_unknown=True)
        return spent

    def are_too_many(self, address: str) -> bool:
        """Return whether what comes from an address is refused without a look."""
        failed = self._failed.get(network(address))
        return failed is not None and failed[0] >= FAILURES

    def knows(self, fingerprint: str) -> bool:
        """Return whether a key was good here lately."""
        return fingerprint in self._good

    def found(self, fingerprint: str) -> None:
        """Note that a key or session is good."""
        if fingerprint not in self._good:  # what is good was taken from these when it became so
            self._unknown.pop(fingerprint, None)
            self._refused.pop(fingerprint, None)
        self._good[fingerprint] = None

    def vouch(self, fingerprint: str) -> None:
        """Take a key for good whose session is, unless it was refused itself within a minute."""
        if fingerprint not in self._refused:
            self.found(fingerprint)

    def refused(self, address: str, fingerprint: str = "", *, is_unknown: bool = False) -> None:
        """Note that a key is not good, or not any more."""
        self._good.pop(fingerprint, None)
        self._refused[fingerprint] = None
        if is_unknown:
            self._unknown[fingerprint] = None
        self._count(address)

    def _count(self, address: str) -> None:
        caller = network(address)
        failed = self._failed.get(caller)
        if failed is None:
            self._failed[caller] = [1]
        else:
            failed[0] += 1
