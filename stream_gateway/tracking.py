"""Wallets whose positions clients want alerts of: followed on the chain while they are subscribed.

`soltape watch` looks at wallets that `ingest accounts` follows, and ingest at those that were asked
for last. So a subscription asks for its wallets, and they are asked for again while it lasts. A key
asks for as many new wallets a minute as it may ask the API for (API_NEW_ACCOUNTS_PER_KEY), of each
gateway, and all keys together for no more than API_NEW_ACCOUNTS; a wallet that is followed already
is never refused. A subscription with more new wallets is refused, but as many of them are asked for
as the minute allows: otherwise one of more wallets than a minute has could never succeed.

Asks that are made while `ingest accounts` is down are lost. So a subscribed wallet that is not
followed is asked for again soon, not only when it is due.

Alerts come only while `soltape watch` runs, and while the agent `accounts` goes on, whose accounts
it reads. Its lease and their watermarks are checked every LOOK_EVERY_S, and clients get a notice
when that changes: from missing alerts alone they cannot see it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, Final, NoReturn

import structlog
from cachetools import FIFOCache
from redis.exceptions import RedisError

from infra.redis.asks import Pipelined
from infra.settings import Settings
from schemas.account_reading import GROUP
from schemas.redis_keys import (
    ASKED_ACCOUNTS,
    TRACKED_WALLETS,
    WATCH_LEASE,
    WATERMARK,
    account_tags,
)
from schemas.solana.addresses import key
from stream_gateway.messages import Refused

log = structlog.get_logger(__name__)

LOOK_EVERY_S: Final = 10.0
RENEWED_AFTER_S: Final = 600.0
REPEATED_AFTER_S: Final = 30.0  # an ask for a wallet that is not followed
LATE_MS: Final = 60_000  # since the agent `accounts` last moved; a restart takes less
MAX_ENTRIES: Final = 10_000  # of the stream, as the API keeps it
AT_ONCE: Final = 500  # asks in a trip
_WINDOW_S: Final = 60.0
_MAX_WALLETS: Final = 1 << 16
_STATE: Final = (
    ("EXISTS", WATCH_LEASE.make()),
    *(("HGET", WATERMARK.make(tag=tag, group=GROUP), "at_ms") for tag in account_tags()),
)


class Watched(StrEnum):
    """Whether alerts of positions come; each is the code of a notice."""

    YES = "positions_watched"
    LATE = "positions_late"
    NO = "positions_unwatched"


def watched(answers: Sequence[Any], now_ms: float) -> Watched:
    """Return what the answers to `_STATE` say."""
    lease, *moved_ms = answers
    if not lease:
        return Watched.NO
    if any(each is None or now_ms - int(each) > LATE_MS for each in moved_ms):
        return Watched.LATE
    return Watched.YES


class Tracking:
    """What this gateway asks `ingest accounts` to follow; `wanted` are the wallets subscribed.

    `announce` is called with whether alerts come, when that changes.
    """

    def __init__(
        self,
        redis: Pipelined,
        settings: Settings,
        wanted: Callable[[], Iterable[str]],
        announce: Callable[[Watched], None],
    ) -> None:
        self._redis = redis
        self._most_of_key = settings.api_new_accounts_per_key
        self._most = settings.api_new_accounts
        self._wanted = wanted
        self._announce = announce
        self._watched: Watched | None = None  # as subscribed clients know; None: there are none
        self._asked: FIFOCache[str, float] = FIFOCache(_MAX_WALLETS)  # wallet -> when
        self._window = 0
        self._new: Counter[str] = Counter()  # by key, within the window

    async def follow(self, wallets: Iterable[str], holder: str) -> Watched:
        """Have wallets followed for a key's fingerprint; return whether alerts of them come.

        Raises Refused where they are too many new ones, once some are asked for, and RedisError.
        """
        ordered = sorted(wallets)
        name = TRACKED_WALLETS.make()
        scores = [("ZSCORE", name, key(wallet)) for wallet in ordered]
        answers = await self._redis.ask([*_STATE, *scores])
        state = self._saw(answers[: len(_STATE)])
        found = answers[len(_STATE) :]
        now_s = time.monotonic()
        due = [wallet for wallet in ordered if not self._is_recent(wallet, now_s)]
        followed = {wallet for wallet, score in zip(ordered, found, strict=True) if score}
        new = [wallet for wallet in due if wallet not in followed]
        allowed = self._count(holder, len(new), now_s)
        if allowed < len(new):
            await self._ask(new[:allowed], now_s)
            raise self._refused(holder, len(new), allowed)
        await self._ask(due, now_s)
        return state

    async def run(self) -> NoReturn:
        """Ask again for what is subscribed, and look whether alerts come, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            wanted = sorted(self._wanted())
            if not wanted:
                self._watched = None
                continue
            try:
                self._saw(await self._redis.ask(_STATE))
                for at in range(0, len(wanted), AT_ONCE):
                    await self._renew(wanted[at : at + AT_ONCE])
            except (RedisError, OSError) as error:  # the source of events says that it is away
                log.warning("wallets cannot be asked for again", reason=str(error))

    def _saw(self, answers: Sequence[Any]) -> Watched:
        """Take note whether alerts come, and let clients know where that has changed."""
        state = watched(answers, time.time() * 1000)
        before, self._watched = self._watched, state
        if before not in (None, state):
            self._announce(state)
        return state

    async def _renew(self, wallets: Sequence[str]) -> None:
        """Ask again for wallets that are due, and those that ingest does not follow."""
        name = TRACKED_WALLETS.make()
        scores = await self._redis.ask([("ZSCORE", name, key(wallet)) for wallet in wallets])
        now_s = time.monotonic()
        due = [
            wallet
            for wallet, score in zip(wallets, scores, strict=True)
            if not self._is_recent(wallet, now_s, RENEWED_AFTER_S if score else REPEATED_AFTER_S)
        ]
        await self._ask(due, now_s)

    def _is_recent(self, wallet: str, now_s: float, within_s: float = RENEWED_AFTER_S) -> bool:
        asked_s = self._asked.get(wallet)
        return asked_s is not None and now_s - asked_s < within_s

    async def _ask(self, wallets: Sequence[str], now_s: float) -> None:
        if not wallets:
            return
        for wallet in wallets:  # before the trip: others that ask meanwhile need not
            self._asked[wallet] = now_s
        entry = ("XADD", ASKED_ACCOUNTS.make(), "MAXLEN", MAX_ENTRIES, "*", "wallet")
        try:
            await self._redis.ask([(*entry, key(wallet)) for wallet in wallets])
        except BaseException:  # the caller may have left
            for wallet in wallets:
                self._asked.pop(wallet, None)
            raise

    def _count(self, holder: str, new: int, now_s: float) -> int:
        """Count new wallets in, as many as this minute still allows; return how many."""
        window = int(now_s // _WINDOW_S)
        if window != self._window:
            self._window = window
            self._new.clear()
        of_key = self._most_of_key - self._new[holder]
        allowed = min(new, of_key, self._most - self._new.total())
        self._new[holder] += allowed
        return allowed

    def _refused(self, holder: str, new: int, allowed: int) -> Refused:
        if self._new[holder] >= self._most_of_key:
            bound = f"this key may ask for {self._most_of_key} new ones a minute"
        else:
            bound = f"the keys of this gateway together may ask for {self._most} a minute"
        return Refused(
            "too_many_new_wallets",
            f"{new} of these wallets are not followed yet, and {bound}: {allowed} of them now, the "
            "others when you subscribe again in a minute",
        )
