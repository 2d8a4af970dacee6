"""Wallets whose positions clients want alerts of: followed on the chain while they are subscribed.

`soltape watch` looks at wallets that `ingest accounts` follows, and ingest at those that were asked
for last. So a subscription asks for its wallets, and they are asked for again while it lasts. A key
asks for as many new wallets a minute as it may ask the API for (API_NEW_ACCOUNTS_PER_KEY), of each
gateway, and all keys together for no more than API_NEW_ACCOUNTS; a wallet that is followed already
is never refused. A subscription with more new wallets is refused, but as many of them are asked for
as the minute allows: otherwise one of more wallets than a minute has could never succeed.

Asks that are made while `ingest accounts` is down are lost. So a subscribed wallet that is not
followed is asked for again soon, not only when it is due.

Alerts come only while `soltape watch` runs. Its lease is checked every LOOK_EVERY_S, and clients
get a notice when that changes: from missing alerts alone they cannot see it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NoReturn

import structlog
from cachetools import FIFOCache
from redis.exceptions import RedisError

from infra.redis.asks import Pipelined
from infra.settings import Settings
from schemas.redis_keys import ASKED_ACCOUNTS, TRACKED_WALLETS, WATCH_LEASE
from schemas.solana.addresses import key
from stream_gateway.messages import Refused

log = structlog.get_logger(__name__)

LOOK_EVERY_S: Final = 10.0
RENEWED_AFTER_S: Final = 600.0
REPEATED_AFTER_S: Final = 30.0  # an ask for a wallet that is not followed
MAX_ENTRIES: Final = 10_000  # of the stream, as the API keeps it
AT_ONCE: Final = 500  # asks in a trip
_WINDOW_S: Final = 60.0
_MAX_WALLETS: Final = 1 << 16


class Tracking:
    """What this gateway asks `ingest accounts` to follow; `wanted` are the wallets subscribed.

    `watched` is called with whether a process watches them, when that changes.
    """

    def __init__(
        self,
        redis: Pipelined,
        settings: Settings,
        wanted: Callable[[], Iterable[str]],
        watched: Callable[[bool], None],
    ) -> None:
        self._redis = redis
        self._most_of_key = settings.api_new_accounts_per_key
        self._most = settings.api_new_accounts
        self._wanted = wanted
        self._watched = watched
        self._is_watched: bool | None = None  # as subscribed clients know; None: there are none
        self._asked: FIFOCache[str, float] = FIFOCache(_MAX_WALLETS)  # wallet -> when
        self._window = 0
        self._new: Counter[str] = Counter()  # by key, within the window

    async def follow(self, wallets: Iterable[str], holder: str) -> bool:
        """Have wallets followed for a key's fingerprint; return whether a process watches them.

        Raises Refused where they are too many new ones, once some are asked for, and RedisError.
        """
        ordered = sorted(wallets)
        name = TRACKED_WALLETS.make()
        scores = [("ZSCORE", name, key(wallet)) for wallet in ordered]
        lease, *found = await self._redis.ask([("EXISTS", WATCH_LEASE.make()), *scores])
        self._saw(bool(lease))
        now_s = time.monotonic()
        due = [wallet for wallet in ordered if not self._is_recent(wallet, now_s)]
        followed = {wallet for wallet, score in zip(ordered, found, strict=True) if score}
        new = [wallet for wallet in due if wallet not in followed]
        allowed = self._count(holder, len(new), now_s)
        if allowed < len(new):
            await self._ask(new[:allowed], now_s)
            raise self._refused(holder, len(new), allowed)
        await self._ask(due, now_s)
        return bool(lease)

    async def run(self) -> NoReturn:
        """Ask again for what is subscribed, and look whether it is watched, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            wanted = sorted(self._wanted())
            if not wanted:
                self._is_watched = None
                continue
            try:
                [lease] = await self._redis.ask([("EXISTS", WATCH_LEASE.make())])
                self._saw(bool(lease))
                for at in range(0, len(wanted), AT_ONCE):
                    await self._renew(wanted[at : at + AT_ONCE])
            except (RedisError, OSError) as error:  # the source of events says that it is away
                log.warning("wallets cannot be asked for again", reason=str(error))

    def _saw(self, is_watched: bool) -> None:
        """Take note whether a process watches, and let clients know where that has changed."""
        before, self._is_watched = self._is_watched, is_watched
        if before not in (None, is_watched):
            self._watched(is_watched)

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
