"""The gaps that answers rest on: slots the tape lacks, or has although they were rolled back, and
wallets and tokens that an agent group leaves out, as a stored value cannot be read.

A gap is recorded in the log before any watermark passes it, and the agents write to ClickHouse
before they move a watermark. So while ClickHouse is away the figures stop as well, and the gaps
that were read last are still those behind them. After a minute they are unknown all the same: it
may be away for the API alone.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from api.http.errors import QUARANTINED, Problem
from api.stores.caches import now_s
from api.stores.clients import Stores
from api.wallets.position_answers import GapCounts
from infra.clickhouse.sql import load
from schemas.redis_keys import QUARANTINE, mint_tags, wallet_tags
from schemas.topics import SETTLED_BY_MINT, SETTLED_BY_WALLET, places_ever

FRESH_FOR_S: Final = 2.0
UNKNOWN_AFTER_S: Final = 60.0
"""Without an answer: the agents may write while the API alone has no way to ClickHouse."""
OLD_AFTER_S: Final = 10.0  # of a process that nobody asked anything for a while
WAIT_S: Final = 1.0
MOST_WALLETS: Final = 100_000  # of rolled-back slots; a slot has one or two thousand

_COUNTS: Final = load(__package__, "gap_counts")
_WALLETS: Final = load(__package__, "gap_wallets")
_MENDED: Final = (
    "cannot be read: its figures are not known until the books are rebuilt; /health names the "
    "command"
)
_UNKNOWN: Final[GapCounts] = {
    "missing_slots": None,
    "lost_slots": None,
    "rolled_back_slots": None,
    "quarantined": None,
}
_Revision = tuple[int, int]  # gaps of rolled-back slots, and when the last was detected


@dataclass(frozen=True, slots=True)
class Gaps:
    """All gaps of the tape, in slots."""

    missing: int = 0
    lost: Mapping[str, int] | None = None  # by agent group and place, as in `gaps.lost_by`
    rolled_back: int = 0
    rolled_back_unknown: int = 0  # of these the slots of which no wallets are known
    wallets: Mapping[str, int] | None = None  # their rolled-back slots; None: too many to hold
    quarantined: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Wallets or mints that an agent group leaves out."""
    is_known: bool = True

    def of_wallet(self, wallet: str) -> GapCounts | None:
        """Return those behind the books of a wallet; None where there are none."""
        lost = self._lost("pnl", places_ever(SETTLED_BY_WALLET, wallet))
        return self._counts(lost, self._rolled_back_of(wallet), self.leaves_out_wallet(wallet))

    def leaves_out_wallet(self, wallet: str) -> bool:
        """Return whether a wallet's figures are not known, as it is in quarantine."""
        return wallet in self.quarantined.get("pnl", ())

    def leaves_out_mint(self, mint: str) -> bool:
        """Return whether a token's market is not known, as it is in quarantine."""
        return mint in self.quarantined.get("market", ())

    def check_wallet(self, wallet: str) -> None:
        """Raise Problem where a wallet's figures are not known."""
        if self.leaves_out_wallet(wallet):
            raise Problem(QUARANTINED, f"What is stored of the wallet {wallet} {_MENDED}")

    def check_mint(self, mint: str) -> None:
        """Raise Problem where a token's market is not known."""
        if self.leaves_out_mint(mint):
            raise Problem(QUARANTINED, f"What is stored of the token {mint} {_MENDED}")

    def of_tokens(self, mints: Iterable[str]) -> GapCounts | None:
        """Return those behind the markets of tokens; None where there are none."""
        # Most tapes have lost nothing: then a batch need not look for places.
        mints = list(mints)
        lost = self.lost
        places = {at for mint in mints for at in places_ever(SETTLED_BY_MINT, mint)} if lost else ()
        left_out = len(self.quarantined.get("market", frozenset()).intersection(mints))
        return self._counts(self._lost("market", places), self.rolled_back, left_out)

    def of_markets(self) -> GapCounts | None:
        """Return those behind the markets of all tokens; None where there are none."""
        return self._counts(
            self._lost_anywhere("market"),
            self.rolled_back,
            len(self.quarantined.get("market", ())),
        )

    def of_traders(self) -> GapCounts | None:
        """Return those behind the books of all wallets; None where there are none."""
        return self._counts(
            self._lost_anywhere("pnl"),
            self.rolled_back,
            len(self.quarantined.get("pnl", ())),
        )

    def of_swaps(self, wallet: str | None = None) -> GapCounts | None:
        """Return those behind stored swaps, of a wallet or of all; None where there are none."""
        rolled_back = self.rolled_back if wallet is None else self._rolled_back_of(wallet)
        return self._counts(self._lost_anywhere("store"), rolled_back)

    def of_perps(self, wallet: str) -> GapCounts | None:
        """Return those behind the history of a wallet's perps; None where there are none.

        What could not be read, and may be anybody's, is where nobody's wallet is.
        """
        places = {name for of in (wallet, "") for name in places_ever(SETTLED_BY_WALLET, of)}
        lost = self._lost("pnl", places)
        return self._counts(lost, self._rolled_back_of(wallet))

    def _lost(self, group: str, places: Iterable[int]) -> int:
        lost = self.lost or {}
        return sum(lost.get(f"{group} {place}", 0) for place in places)

    def _lost_anywhere(self, group: str) -> int:
        lost = self.lost or {}
        return sum(slots for by, slots in lost.items() if by.startswith(f"{group} "))

    def _rolled_back_of(self, wallet: str) -> int | None:
        if self.wallets is None:
            return None if self.rolled_back else 0
        return self.rolled_back_unknown + self.wallets.get(wallet, 0)

    def _counts(self, lost: int, rolled_back: int | None, quarantined: int = 0) -> GapCounts | None:
        if not self.is_known:
            return _UNKNOWN
        if not (self.missing or lost or rolled_back or rolled_back is None or quarantined):
            return None
        return {
            "missing_slots": self.missing,
            "lost_slots": lost,
            "rolled_back_slots": rolled_back,
            "quarantined": int(quarantined),
        }


class GapReader:
    """Reads the gaps, for all requests of a process.

    A request gets what was read last. Where that is older than FRESH_FOR_S a new reading begins
    beside it; only where it is older than OLD_AFTER_S, the request waits for that, WAIT_S at most.
    Where nothing was read before it waits for `first_wait_s`: the counts are unknown before.
    """

    def __init__(self, stores: Stores, first_wait_s: float) -> None:
        self._stores = stores
        self._first_wait_s = first_wait_s
        self._last = Gaps(is_known=False)
        self._asked_at = self._known_at = -math.inf  # by the loop's clock
        self._reading: asyncio.Task[None] | None = None
        self._revision: _Revision = (0, 0)  # of `_wallets`
        self._wallets: Mapping[str, int] | None = {}

    async def read(self) -> Gaps:
        """Return the gaps as they were read last; never raises, unknown where none were."""
        age_s = now_s() - self._asked_at
        if age_s > FRESH_FOR_S and self._reading is None:
            self._reading = asyncio.create_task(self._look())
        if age_s > OLD_AFTER_S and self._reading is not None:
            wait_s = WAIT_S if self._last.is_known else self._first_wait_s
            await asyncio.wait([self._reading], timeout=wait_s)
            self._asked_at = max(self._asked_at, now_s() - FRESH_FOR_S)  # others need not wait
        return self._last

    async def _look(self) -> None:
        try:
            with suppress(Problem):  # it has been counted; so below
                self._last = replace(self._last, quarantined=await self._read_quarantined())
            with suppress(Problem):
                self._last = await self._read(self._last.quarantined)
                self._known_at = now_s()
            if now_s() - self._known_at > UNKNOWN_AFTER_S:
                self._last = replace(self._last, is_known=False)
        finally:
            self._asked_at = now_s()
            self._reading = None

    async def _read(self, quarantined: Mapping[str, frozenset[str]]) -> Gaps:
        counts: dict[str, int] = {}
        lost: dict[str, int] = {}
        revision: _Revision = (0, 0)
        for row in await self._stores.query(_COUNTS, {}):
            if row["kind"] == "lost":
                lost[row["lost_by"]] = row["slots"]
            else:
                counts[row["kind"]] = row["slots"]
            if row["kind"] == "rolled back":
                revision = row["gaps"], row["detected_ms"]
        if revision != self._revision:
            self._wallets = await self._read_wallets()
            self._revision = revision
        return Gaps(
            missing=counts.get("missing", 0),
            lost=lost,
            rolled_back=counts.get("rolled back", 0),
            rolled_back_unknown=counts.get("rolled back, wallets unknown", 0),
            wallets=self._wallets,
            quarantined=quarantined,
        )

    async def _read_quarantined(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        keys = [
            (group, QUARANTINE.make(tag=tag, group=group))
            for group, tags in (("pnl", wallet_tags()), ("market", mint_tags()))
            for tag in tags
        ]
        answers = await self._stores.ask([("HKEYS", key) for _, key in keys])
        for (group, _), names in zip(keys, answers, strict=True):
            if names:
                found[group] = found.get(group, frozenset()) | {name.decode() for name in names}
        return found

    async def _read_wallets(self) -> Mapping[str, int] | None:
        rows = await self._stores.query(_WALLETS, {"most": MOST_WALLETS + 1})
        if len(rows) > MOST_WALLETS:
            return None
        return {row["wallet"]: row["slots"] for row in rows}
