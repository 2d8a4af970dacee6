"""The oracle's markets of mints: volumes by candle, who traded in a window, who holds.

Written from the rules as `pipeline.domain.candles`, `rolling` and `holders` state them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import Any, Final

from pipeline.chaos.movements import balances, of_mints
from pipeline.chaos.prices import SOL_MINT, Prices
from pipeline.chaos.truth import Slot
from schemas.solana.base58 import decode

FUZZY: Final = "raydium-cpmm"  # its event does not say what of the fee stays in the vault
BETWEEN_WALLETS: Final = ("jupiter-rfq",)  # who is named as the pool holds for itself
CURVES: Final = ("pump-fun", "raydium-launchlab", "meteora-dbc")
PROGRAM: Final = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
PROGRAM_2022: Final = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
MOST_CENTS: Final = 2**27 - 1
CAP_CENTS: Final = 1_000_000
NOTHING_KNOWN: Final = {
    **dict.fromkeys(("name", "symbol", "uri", "creator", "platform", "dex", "pool"), ""),
    **dict.fromkeys(("quote_mint", "token_program", "migrated_dex", "migrated_pool"), ""),
    **dict.fromkeys(("decimals", "supply_raw", "created_slot", "created_at"), None),
    **dict.fromkeys(("migrated_slot", "migrated_at"), None),
}
SNAPSHOT_EVERY_MIN: Final = 15
SNAPSHOT_OWNERS: Final = 100
INTERVALS_S: Final = (1, 60, 300, 900, 3_600, 14_400, 86_400)
# Addresses without a key: the incinerator, the system program.
NOBODYS: Final = ("1nc1nerator11111111111111111111111111111111", "1" * 32)


@dataclass(slots=True)
class Volume:
    """What was traded of a mint, or in a pool, within an interval or a window."""

    amount_raw: int = 0
    lamports: int = 0
    usd_micros: int = 0
    buys: int = 0
    sells: int = 0
    slot: int = 0  # of the last trade

    def add(self, swap: dict[str, Any], slot: int) -> None:
        """Add a swap; what has no value counts as nothing."""
        self.amount_raw += swap["amount_raw"]
        self.lamports += swap["sol_value_lamports"] or 0
        self.usd_micros += swap["usd_value_micros"] or 0
        self.buys += swap["side"] == "buy"
        self.sells += swap["side"] == "sell"
        self.slot = slot


@dataclass(slots=True)
class Trade:
    """A swap as the rolling figures see it."""

    time_s: int
    wallet: str
    swap: dict[str, Any]

    @property
    def minute(self) -> int:
        """Minutes since the Unix epoch."""
        return self.time_s // 60

    @property
    def cents(self) -> int:
        """What it was worth, rounded down."""
        return (self.swap["usd_value_micros"] or 0) // 10_000


@dataclass(slots=True)
class Holders:
    """Accounts of a mint as they were last seen."""

    accounts: dict[str, tuple[str, int]] = field(default_factory=dict)  # owner, raw balance
    vaults: set[str] = field(default_factory=set)  # accounts that were ever seen as such
    pools: set[str] = field(default_factory=set)
    creator: str = ""

    def by_owner(self) -> dict[str, int]:
        """Return what each holder has: neither vaults nor pools nor addresses without a key."""
        found: defaultdict[str, int] = defaultdict(int)
        for account, (owner, amount_raw) in self.accounts.items():
            if account not in self.vaults and owner not in self.pools and owner not in NOBODYS:
                found[owner] += amount_raw
        return {owner: amount_raw for owner, amount_raw in found.items() if amount_raw}


class Markets:
    """All mints' markets, slot after slot."""

    def __init__(self) -> None:
        # By mint, length and start in seconds.
        self.candles: defaultdict[tuple[str, int, int], Volume] = defaultdict(Volume)
        self.prices = Prices()
        self.trades: defaultdict[str, list[Trade]] = defaultdict(list)  # by mint
        self.holders: defaultdict[str, Holders] = defaultdict(Holders)
        # By wallet and account: mint, raw balance, decimals, whether Token-2022.
        self.balances: dict[tuple[str, str], tuple[str, int, int, bool]] = {}
        self.tokens: defaultdict[str, dict[str, Any]] = defaultdict(lambda: dict(NOTHING_KNOWN))
        self.time_s = 0  # of the last slot
        self.last: dict[str, Slot] = {}  # with an event or balance, by mint
        # Of the largest holders, by mint and time.
        self.snapshots: dict[tuple[str, int], dict[str, Any]] = {}
        self._snapshot_min: defaultdict[str, int] = defaultdict(int)  # of the last, by mint
        self._this_minute: set[str] = set()  # mints that something happened to

    def slot(self, slot: Slot, sol_usd: Fraction | None) -> None:
        """Take the next slot; its swaps have been valued, with SOL at so many dollars."""
        time_s = slot.block_time_ms // 1000
        if time_s // 60 != self.time_s // 60:
            self._minute_ended(time_s // 60)
        self.time_s = time_s
        for tx in slot.transactions:
            for event in sorted((*tx.swaps, *tx.migrations), key=lambda each: each["event_index"]):
                if "from_pool" in event:
                    self.prices.migrated(event, sol_usd)
                else:
                    self.prices.swap(event, sol_usd)
            for swap in tx.swaps:
                mint = swap["mint"]
                for length_s in INTERVALS_S:
                    start_s = time_s // length_s * length_s
                    self.candles[mint, length_s, start_s].add(swap, slot.slot)
                self.trades[mint].append(Trade(time_s, swap["wallet"], swap))
                token = self.tokens[mint]
                token["decimals"] = swap["decimals"]
                if swap["dex"] in CURVES:
                    token["platform"] = token["platform"] or swap["platform"]
                if swap["dex"] not in BETWEEN_WALLETS:
                    self.holders[mint].pools.add(swap["pool"])
                self._seen(mint, slot)
            for creation in tx.creations:
                self._created(slot, creation)
                self.holders[creation["mint"]].pools.add(creation["pool"])
                self.holders[creation["mint"]].creator = creation["creator"]
                self._seen(creation["mint"], slot)
            for migration in tx.migrations:
                token = self.tokens[migration["mint"]]
                token["platform"] = token["platform"] or migration["platform"]
                token |= {
                    "migrated_slot": slot.slot,
                    "migrated_at": slot.block_time_ms,
                    "migrated_dex": migration["dex"],
                    "migrated_pool": migration["pool"],
                }
                self.holders[migration["mint"]].pools.add(migration["pool"])
                self._seen(migration["mint"], slot)
        if sol_usd is not None:
            self._reference(slot, sol_usd)
        self.prices.end_slot(time_s, sol_usd, INTERVALS_S)
        changed = balances(slot)
        for balance in of_mints(changed):
            holders = self.holders[balance.mint]
            holders.accounts[balance.account] = balance.owner, balance.amount_raw
            self._seen(balance.mint, slot)
            token = self.tokens[balance.mint]
            token["decimals"] = balance.decimals
            token["token_program"] = PROGRAM_2022 if balance.is_token_2022 else PROGRAM
            if balance.is_vault:
                holders.vaults.add(balance.account)
        for balance in changed:
            if not balance.is_vault:
                key = balance.owner, balance.account
                if balance.amount_raw:
                    self.balances[key] = (
                        balance.mint,
                        balance.amount_raw,
                        balance.decimals,
                        balance.is_token_2022,
                    )
                else:
                    self.balances.pop(key, None)

    def _reference(self, slot: Slot, sol_usd: Fraction) -> None:
        """Take the reference as the price of SOL, which no swap has as its mint."""
        self.prices.reference(sol_usd)
        for length_s in INTERVALS_S:
            self.candles[SOL_MINT, length_s, self.time_s // length_s * length_s].slot = slot.slot
        self.holders[SOL_MINT]  # nobody is followed: a count of 0
        self._seen(SOL_MINT, slot)

    def _seen(self, mint: str, slot: Slot) -> None:
        self.last[mint] = slot
        self._this_minute.add(mint)

    def _minute_ended(self, now_min: int) -> None:
        """Take snapshots of holders, of each mint at most one in a quarter of an hour."""
        for mint in self._this_minute & self.holders.keys():
            held, last = self.holders[mint], self.last[mint]
            if now_min - self._snapshot_min[mint] < SNAPSHOT_EVERY_MIN:
                continue
            if owners := held.by_owner():
                self._snapshot_min[mint] = now_min
                top = sorted(owners, key=lambda owner: (float(owners[owner]), decode(owner)))
                top = top[: -SNAPSHOT_OWNERS - 1 : -1]
                self.snapshots[mint, last.block_time_ms] = {
                    "holders": len(owners),
                    "creator_raw": owners.get(held.creator, 0),
                    "top_owners": top,
                    "top_amounts_raw": [owners[owner] for owner in top],
                    "slot": last.slot,
                }
        self._this_minute.clear()

    def _created(self, slot: Slot, creation: dict[str, Any]) -> None:
        """Note what a token is; of several creations the first counts."""
        token = self.tokens[creation["mint"]]
        if token["created_slot"] is None:
            names = ("name", "symbol", "uri", "decimals", "supply_raw", "creator", "dex", "pool")
            token |= {name: creation[name] for name in (*names, "quote_mint", "token_program")}
            token["platform"] = creation["platform"] or token["platform"]
            token |= {"created_slot": slot.slot, "created_at": slot.block_time_ms}

    def traders(self, mint: str) -> dict[tuple[str, str], tuple[int, int]]:
        """Return the minute of the last trade and the volume in cents by pool and wallet.

        The pool is empty where all of the mint's pools are meant.
        """
        found: dict[tuple[str, str], tuple[int, int]] = {}
        for trade in self.trades[mint]:
            for key in (("", trade.wallet), (trade.swap["pool"], trade.wallet)):
                _, before = found.get(key, (0, 0))
                found[key] = trade.minute, min(before + trade.cents, MOST_CENTS)
        return found

    def score(self, mint: str) -> int:
        """Return the trending score after the last whole second: its minute is the last slot's."""
        now = self.time_s // 60
        last: dict[str, int] = {}
        cents: defaultdict[str, int] = defaultdict(int)
        for trade in self.trades[mint]:
            if trade.time_s < self.time_s:
                last[trade.wallet] = trade.minute
                cents[trade.wallet] = min(cents[trade.wallet] + trade.cents, MOST_CENTS)
        score = 0
        for wallet, minute in last.items():
            factor = 16 * (minute > now - 5) + 4 * (minute > now - 60)
            factor += minute - minute % 15 > now - 1_440
            score += factor * weight(cents[wallet])
        return score

    def is_fuzzy(self, mint: str) -> bool:
        """Whether its reserves, and what follows from them, may be a little more than they are."""
        return any(trade.swap["dex"] == FUZZY for trade in self.trades.get(mint, ()))

    def window(
        self, mint: str, now_min: int, minutes: int, width: int = 1, pool: str | None = None
    ) -> tuple[int, Volume]:
        """Return the number of different traders and the volume of buckets of a width.

        Those buckets that began within the minutes before now, now's among them.
        """
        traders: set[str] = set()
        volume = Volume()
        for trade in self.trades[mint]:
            start = trade.minute - trade.minute % width
            if now_min - minutes < start <= now_min and pool in (None, trade.swap["pool"]):
                traders.add(trade.wallet)
                volume.add(trade.swap, 0)
        return len(traders), volume


def weight(cents: int) -> int:
    """Return log2(1 + dollars) of a trader in 1/1024: straight lines between powers of two."""
    return log2(100 + min(cents, CAP_CENTS)) - log2(100)


def log2(number: int) -> int:
    """Return the binary logarithm in 1/1024, rounded down."""
    power = 0
    while 2 ** (power + 1) <= number:
        power += 1
    return floor(1024 * (power + Fraction(number, 2**power) - 1))
