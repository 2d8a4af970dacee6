"""The oracle's markets of mints: volumes by candle, who traded in a window, who holds.

Written from the rules as `pipeline.domain.candles`, `rolling` and `holders` state them. Prices are
bounded, not computed again: how a token's price follows from its pools is tested apart.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.chaos.movements import balances, of_mints
from pipeline.chaos.truth import Slot

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

    minute: int
    wallet: str
    swap: dict[str, Any]


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
        self.trades: defaultdict[str, list[Trade]] = defaultdict(list)  # by mint
        self.holders: defaultdict[str, Holders] = defaultdict(Holders)
        # By wallet and account: mint, raw balance, decimals, whether Token-2022.
        self.balances: dict[tuple[str, str], tuple[str, int, int, bool]] = {}
        self.creations: dict[str, dict[str, Any]] = {}
        self.migrations: dict[str, dict[str, Any]] = {}
        self.last_ms: defaultdict[str, int] = defaultdict(int)  # of an event or balance, by mint

    def slot(self, slot: Slot) -> None:
        """Take the next slot; its swaps have been valued."""
        time_s = slot.block_time_ms // 1000
        for tx in slot.transactions:
            for swap in tx.swaps:
                mint = swap["mint"]
                for length_s in INTERVALS_S:
                    start_s = time_s // length_s * length_s
                    self.candles[mint, length_s, start_s].add(swap, slot.slot)
                self.trades[mint].append(Trade(time_s // 60, swap["wallet"], swap))
                self.holders[mint].pools.add(swap["pool"])
                self.last_ms[mint] = slot.block_time_ms
            for creation in tx.creations:
                self.creations.setdefault(creation["mint"], creation)
                self.holders[creation["mint"]].pools.add(creation["pool"])
                self.holders[creation["mint"]].creator = creation["creator"]
                self.last_ms[creation["mint"]] = slot.block_time_ms
            for migration in tx.migrations:
                self.migrations[migration["mint"]] = migration
                self.holders[migration["mint"]].pools.add(migration["pool"])
                self.last_ms[migration["mint"]] = slot.block_time_ms
        changed = balances(slot)
        for balance in of_mints(changed):
            holders = self.holders[balance.mint]
            holders.accounts[balance.account] = balance.owner, balance.amount_raw
            self.last_ms[balance.mint] = slot.block_time_ms
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
