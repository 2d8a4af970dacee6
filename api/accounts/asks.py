"""Asks: the wallets and tokens that requests want `ingest accounts` to follow.

An ask is an entry of the Redis stream ASKED_ACCOUNTS. This process asks once a minute at most for
the same address, and for a bounded number of new addresses a minute: wallets of each key, token
accounts of each key, tokens of each key, and in all. An address is new where ingest does not follow
it, or no more; one that is followed is never refused. Lamports of a wallet alone, which ingest asks
RPC for where it follows the wallet, and which keep it followed no longer, may be asked for every
second.

Ingest lets the least recently asked go where ACCOUNT_TRACKED_MAX are followed, and does not know
keys. So it is this limit that bounds what a key can push out: of what was asked for within the last
ACCOUNT_TRACKED_MAX / API_NEW_ACCOUNTS_PER_KEY minutes, by the defaults 14 hours, one key alone
pushes out nothing. Mints that trade are followed beside those asked for, within the same bound: a
mint leaves once that many others were asked for or traded since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Literal

from api.http.errors import Problem
from api.stores.caches import BoundedCache, now_s
from api.stores.clients import Stores
from infra.settings import Settings
from schemas.redis_keys import ASKED_ACCOUNTS

Kind = Literal["wallet", "mint", "holders", "account", "rewards", "lamports"]
Asked = tuple[Kind, bytes]

RENEWED_AFTER_S: Final = 60.0
LAMPORTS_AFTER_S: Final = 1.0  # of a wallet that is followed, where what is known is outdated
MAX_ENTRIES: Final = 10_000  # of the stream
_WINDOW_S: Final = 60.0
_REMEMBERED: Final = 1 << 16


class Refused(StrEnum):
    """Why an address was not asked for."""

    KEY_LIMIT = "key_limit"
    LIMIT = "limit"
    STORE = "store"


class Asks:
    """What this process has asked for."""

    def __init__(self, stores: Stores, settings: Settings) -> None:
        self._stores = stores
        self._most_of_key = settings.api_new_accounts_per_key
        self._most = settings.api_new_accounts
        self._asked: BoundedCache[Asked, float] = BoundedCache(_REMEMBERED)
        self._window = 0
        # By key and kind, within the window; all kinds of tokens count as one.
        self._new: Counter[tuple[str, str]] = Counter()

    def is_recent(self, kind: Kind, address: bytes) -> bool:
        """Return whether a raw address was asked for within the last minute.

        Of `lamports` within the last LAMPORTS_AFTER_S.
        """
        return self.held_back_s(kind, address) > 0

    def held_back_s(self, kind: Kind, address: bytes) -> float:
        """Return in how many seconds a raw address may be asked for again; 0: now."""
        last = self._asked.kept.get((kind, address))
        if last is None:
            return 0.0
        after_s = LAMPORTS_AFTER_S if kind == "lamports" else RENEWED_AFTER_S
        return max(0.0, last + after_s - now_s())

    async def ask(
        self, kind: Kind, address: bytes, holder: str, *, is_followed: bool
    ) -> Refused | None:
        """Ask for a raw address, or renew the ask; return why not, None where it is asked for.

        Of `holders` it is the mint's address. `holder` is the fingerprint of the key that wants it;
        `is_followed`: ingest follows the address already.
        """
        return await self.ask_all(kind, [(address, is_followed)], holder)

    async def ask_all(
        self, kind: Kind, wanted: Iterable[tuple[bytes, bool]], holder: str
    ) -> Refused | None:
        """Ask for raw addresses in one trip; return why not for the first that is refused.

        Each comes with whether ingest follows it already.
        """
        now = now_s()
        refused = None
        asked = []
        for address, is_followed in wanted:
            if self.is_recent(kind, address):
                continue
            if not is_followed and (why := self._count((holder, _counted_as(kind)), now)):
                refused = refused or why
                continue
            self._asked.put((kind, address), now)  # before the trip: others need not ask meanwhile
            asked.append(address)
        if not asked:
            return refused
        entry = (ASKED_ACCOUNTS.make(), "MAXLEN", MAX_ENTRIES, "*", kind)
        try:
            await self._stores.ask([("XADD", *entry, address) for address in asked])
        except Problem:  # it is logged and counted; the answer itself may still be had
            for address in asked:
                self._asked.kept.pop((kind, address), None)
            return Refused.STORE
        return refused

    def _count(self, of: tuple[str, str], now: float) -> Refused | None:
        """Count a new address in, unless there were too many within this minute."""
        window = int(now // _WINDOW_S)
        if window != self._window:
            self._window = window
            self._new.clear()
        if self._new[of] >= self._most_of_key:
            return Refused.KEY_LIMIT
        if self._new.total() >= self._most:
            return Refused.LIMIT
        self._new[of] += 1
        return None


def _counted_as(kind: Kind) -> str:
    return kind if kind in ("wallet", "account") else "token"
