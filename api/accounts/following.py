"""Following: an address that is asked for gets complete, and the request may wait for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from enum import StrEnum
from itertools import islice
from typing import Final

from api.accounts.asks import Asked, Asks, Kind, Refused
from api.accounts.coverage import CompleteLook, read_coverage, subject_of
from api.accounts.lamports import LamportsOf, newer_lamports
from api.accounts.waiting import Waited, Waiting
from api.http.errors import Problem
from api.stores.caches import BoundedCache, now_s
from api.stores.clients import Stores
from infra.settings import Settings
from schemas.accounts import TOO_MANY_ACCOUNTS
from schemas.protocols.programs import NUMBERS
from schemas.redis_keys import TRACKED_ACCOUNTS, TRACKED_MINTS

ALIVE_WITHIN_MS: Final = 15_000  # since the lane last moved
CERTAIN_FOR_S: Final = 1.0  # after it was seen to be complete
MOST_MINTS: Final = 100
MOST_ACCOUNTS: Final = 400  # that one answer asks for by address
KEYS_THAT_WAIT: Final = 8  # one key has that part of the places at most
_SPARE_S: Final = 2.0  # of API_TIMEOUT_S, for the answer after the wait
_REMEMBERED: Final = 1 << 14


class FollowState(StrEnum):
    """How far the lane has an address; all but COMPLETE say why it is not complete."""

    COMPLETE = "complete"
    NOT_INGESTED = "not_ingested"
    LANE_STALLED = "lane_stalled"
    PENDING = "pending"
    WITHDRAWN = "withdrawn"
    KEY_LIMIT = "key_limit"
    LIMIT = "limit"
    TOO_MANY_WAIT = "too_many_wait"
    NOT_ASKED = "not_asked"
    NOT_FOLLOWED = "not_followed"
    NOT_FOUND = "not_found"
    UNREADABLE = "unreadable"
    TOO_MANY_ACCOUNTS = "too_many_accounts"


_OF_REFUSED: Final = {
    Refused.KEY_LIMIT: FollowState.KEY_LIMIT,
    Refused.LIMIT: FollowState.LIMIT,
    Refused.STORE: FollowState.NOT_ASKED,
}


_REFUSALS: Final = frozenset(_OF_REFUSED.values())


class Following:
    """Asks for addresses and waits for them, for all requests of a process."""

    def __init__(self, stores: Stores, settings: Settings) -> None:
        self._stores = stores
        self._asks = Asks(stores, settings)
        # Who waits holds a place among the requests of the process: half of them stay free.
        places = max(1, settings.api_max_concurrent // 2)
        self._look_complete = CompleteLook(stores)
        self._waiting: Waiting[bytes | LamportsOf] = Waiting(
            self._look, places, max(1, places // KEYS_THAT_WAIT)
        )
        self._longest_s = max(0.0, settings.api_timeout_s - _SPARE_S)
        self._no_lane_until = 0.0
        self._complete: BoundedCache[Asked, float] = BoundedCache(_REMEMBERED)

    async def follow(self, kind: Kind, address: bytes, holder: str, wait_s: float) -> FollowState:
        """Have a raw address followed; wait up to `wait_s` until it is complete.

        `holder` is the fingerprint of the key that asks. Raises Problem.
        """
        if kind == "wallet" and address in NUMBERS:
            return FollowState.NOT_FOLLOWED  # its coverage is that of the program's accounts
        since = self._complete.kept.get((kind, address))
        if since is not None and now_s() - since < CERTAIN_FOR_S:
            return FollowState.COMPLETE
        if now_s() < self._no_lane_until:
            return FollowState.NOT_INGESTED
        coverage = await read_coverage(self._stores, kind, address)
        if coverage.written_ms is None:
            self._no_lane_until = now_s() + CERTAIN_FOR_S
            return FollowState.NOT_INGESTED
        refused = await self._asks.ask(
            kind, address, holder, is_followed=coverage.is_followed or coverage.is_complete
        )
        if coverage.is_complete:
            self._complete.put((kind, address), now_s())
            return FollowState.COMPLETE
        if coverage.withdrawn == TOO_MANY_ACCOUNTS:
            return FollowState.TOO_MANY_ACCOUNTS  # it will not change while one waits
        if refused is not None:
            return _OF_REFUSED[refused]
        if time.time() * 1000 - coverage.written_ms > ALIVE_WITHIN_MS:
            return FollowState.LANE_STALLED
        wait_s = min(wait_s, self._longest_s)
        unmet = FollowState.WITHDRAWN if coverage.withdrawn else FollowState.PENDING
        if not wait_s:
            return unmet
        match await self._waiting.until_complete(subject_of(kind, address), wait_s, holder):
            case Waited.COMPLETE:
                self._complete.put((kind, address), now_s())
                return FollowState.COMPLETE
            case Waited.NO_ROOM:
                return FollowState.TOO_MANY_WAIT
            case Waited.TIMED_OUT:
                return unmet

    async def want(self, kind: Kind, address: bytes, holder: str) -> FollowState | None:
        """Have a raw address followed; return why it is not asked for, None where it is.

        It costs a trip where this process has not asked within the last minute. Raises Problem.
        """
        if self._asks.is_recent(kind, address):
            return None
        standing = await self.follow(kind, address, holder, 0)
        return standing if standing in _REFUSALS else None

    async def renew_lamports(self, wanted: LamportsOf, holder: str, wait_s: float) -> bool:
        """Have a followed wallet's own lamports asked for; wait up to `wait_s` for them.

        Return whether they are here. It keeps the wallet followed no longer. Where they were asked
        for a moment ago, what comes may be older than what is wanted: they are asked for again.
        """
        wait_s = min(wait_s, self._longest_s)
        if held_back_s := self._asks.held_back_s("lamports", wanted.wallet):
            if held_back_s >= wait_s:
                return False
            await asyncio.sleep(held_back_s)
            wait_s -= held_back_s
        wallets = [(wanted.wallet, True)]
        refused = await self._asks.ask_all("lamports", wallets, holder)
        if refused is not None or wait_s <= 0:
            return False
        return await self._waiting.until_complete(wanted, wait_s, holder) is Waited.COMPLETE

    async def ask_mints(self, mints: Iterable[bytes], holder: str) -> None:
        """Ask for raw mints that an answer for a key needs; nobody waits for them.

        Of MOST_MINTS at most, and none of those that are new to the lane once the key has asked for
        too many.
        """
        wanted = [
            mint for mint in islice(mints, MOST_MINTS) if not self._asks.is_recent("mint", mint)
        ]
        if not wanted:
            return
        name = TRACKED_MINTS.make()
        with suppress(Problem):  # it has been counted
            scores = await self._stores.ask([("ZSCORE", name, mint) for mint in wanted])
            followed = (score is not None for score in scores)
            await self._asks.ask_all("mint", zip(wanted, followed, strict=True), holder)

    async def ask_accounts(self, accounts: Iterable[bytes], holder: str) -> FollowState | None:
        """Ask for raw token accounts by address, or renew that; return why not, None where asked.

        Nobody waits for them. Those that the lane follows already are never refused.
        """
        wanted = [
            each
            for each in islice(accounts, MOST_ACCOUNTS)
            if not self._asks.is_recent("account", each)
        ]
        if not wanted:
            return None
        name = TRACKED_ACCOUNTS.make()
        try:
            scores = await self._stores.ask([("ZSCORE", name, each) for each in wanted])
        except Problem:  # it has been counted
            return FollowState.NOT_ASKED
        followed = (score is not None for score in scores)
        refused = await self._asks.ask_all("account", zip(wanted, followed, strict=True), holder)
        return None if refused is None else _OF_REFUSED[refused]

    async def ask_rewards(self, accounts: Iterable[bytes], holder: str) -> FollowState | None:
        """Ask what epochs paid to raw stake accounts; return why not, None where all are asked.

        `holder` is the fingerprint of the key that wants it.
        """
        new = ((account, False) for account in accounts)
        refused = await self._asks.ask_all("rewards", new, holder)
        return None if refused is None else _OF_REFUSED[refused]

    async def _look(self, wanted: Collection[bytes | LamportsOf]) -> list[bytes | LamportsOf]:
        """Return what is complete of subjects of coverage and of lamports; raises Problem."""
        subjects = [each for each in wanted if isinstance(each, bytes)]
        lamports = [each for each in wanted if not isinstance(each, bytes)]
        found: list[bytes | LamportsOf] = []
        if subjects:
            found += await self._look_complete(subjects)
        if lamports:
            found += await newer_lamports(self._stores, lamports)
        return found

    async def aclose(self) -> None:
        """End what runs for those who wait."""
        await self._waiting.aclose()
