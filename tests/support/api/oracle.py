"""What the API must say, computed from the market's own notes: chaos's oracle, by caller.

Nothing here is read from the stores, and nothing is shared with the pipeline's own arithmetic.
Figures are integers and fractions; `asking` compares them with what JSON can hold.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import orjson

from pipeline.chaos.books import Books, Match
from pipeline.chaos.compare import Oracle, launchpads
from pipeline.chaos.markets import Markets
from pipeline.chaos.truth import read
from pipeline.chaos.values import DOLLARS, SOL
from schemas.times import DAY_MS

Swap = dict[str, Any]
MOVED_BY = Fraction(5, 4)  # what values are rounded by, and fees
NOBODY = "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin"  # a valid address that nobody has here
SAMPLE = 60
Balance = tuple[str, int, int, bool]  # mint, raw amount, decimals, whether Token-2022

SUMS = (
    *("bought_raw", "sold_raw", "received_raw", "sent_raw", "burned_raw", "unmatched_raw"),
    *("bought_lamports", "bought_usd_micros", "sold_lamports", "sold_usd_micros"),
    *("matched_proceeds_lamports", "matched_proceeds_usd_micros"),
    *("matched_cost_lamports", "matched_cost_usd_micros"),
    *("fee_lamports", "priority_fee_lamports", "tip_lamports"),
    *("buys", "sells", "wins", "losses"),
)


@dataclass(frozen=True, slots=True)
class Coin:
    """A token whose creation the pipeline did not see: the RPC alone knows it."""

    name: str
    symbol: str
    uri: str
    supply_raw: int


@dataclass(slots=True)
class Known:
    """The oracle, and its facts in the order in which they are asked for."""

    oracle: Oracle
    swaps_of_wallet: defaultdict[str, list[Swap]] = field(default_factory=lambda: defaultdict(list))
    swaps_of_mint: defaultdict[str, list[Swap]] = field(default_factory=lambda: defaultdict(list))
    swaps_with: defaultdict[str, list[Swap]] = field(default_factory=lambda: defaultdict(list))
    matches: defaultdict[tuple[str, str], list[Match]] = field(
        default_factory=lambda: defaultdict(list)
    )
    mints_of_wallet: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    wallets_of_mint: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    days: defaultdict[str, dict[int, dict[str, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )  # by wallet: days since the Unix epoch
    ends: defaultdict[tuple[str, str], dict[int, dict[str, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )  # by wallet and mint: the position's figures at the end of each day it changed
    holdings: defaultdict[str, defaultdict[str, int]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(int))
    )  # by wallet and mint, over all accounts
    accounts: defaultdict[str, dict[str, Balance]] = field(
        default_factory=lambda: defaultdict(dict)
    )  # by owner and account
    days_with_matches: defaultdict[str, set[int]] = field(
        default_factory=lambda: defaultdict(set)
    )  # by wallet: on which a gain was realized, be it of 0
    burned: Counter[str] = field(default_factory=Counter)  # by mint, orphaned or not
    unsettled: list[Swap] = field(default_factory=list)  # orphaned, or after the last slot
    unseen: dict[str, Coin] = field(default_factory=dict)  # created before the first slot
    platforms: dict[tuple[str, int, int], str] = field(default_factory=dict)  # by a swap's identity

    def __post_init__(self) -> None:
        self.platforms = launchpads(self.oracle.slots)
        for slot in self.oracle.slots:
            for tx in slot.transactions:
                for swap in tx.swaps:
                    self.swaps_of_wallet[swap["wallet"]].append(swap)
                    self.swaps_of_mint[swap["mint"]].append(swap)
                    for mint in (swap["mint"], swap["quote_mint"]):
                        self.swaps_with[mint].append(swap)
        lists = (self.swaps_of_wallet, self.swaps_of_mint, self.swaps_with)
        for swaps in (each for found in lists for each in found.values()):
            swaps.reverse()  # the last first, as they are asked for
        for match in self.books.matches:
            self.matches[match.at.wallet, match.at.mint].append(match)
            if is_gain(match):
                self.days_with_matches[match.at.wallet].add(match.at.day)
        for wallet, mint in self.books.positions:
            self.mints_of_wallet[wallet].append(mint)
            self.wallets_of_mint[mint].append(wallet)
        for (wallet, day), sums in self.books.days.items():
            self.days[wallet][day] = dict(sums)
        for (wallet, mint, day), sums in sorted(self.books.at_days_end.items()):
            self.ends[wallet, mint][day] = sums
        for (owner, account), balance in self.markets.balances.items():
            self.accounts[owner][account] = balance
            self.holdings[owner][balance[0]] += balance[1]

    @property
    def books(self) -> Books:
        """Wallets' books."""
        return self.oracle.books

    @property
    def markets(self) -> Markets:
        """Mints' markets."""
        return self.oracle.markets

    @property
    def now_ms(self) -> int:
        """Block time of the last slot."""
        return self.oracle.slots[-1].block_time_ms

    @property
    def last_slot(self) -> int:
        """The last slot."""
        return self.oracle.slots[-1].slot

    @property
    def sol_usd(self) -> Fraction:
        """Dollars for a SOL at the last slot."""
        price = self.oracle.valuer.sol_usd
        assert price is not None
        return price

    @property
    def wallets(self) -> list[str]:
        """All wallets that have books or balances."""
        return sorted(self.days.keys() | self.mints_of_wallet.keys() | self.holdings.keys())

    @property
    def mints(self) -> list[str]:
        """All mints that were traded, created or moved."""
        return sorted(self.markets.tokens.keys() | self.markets.holders.keys())

    def decimals(self, mint: str) -> int | None:
        """Return the places behind the point."""
        token = self.markets.tokens.get(mint)
        value: int | None = token["decimals"] if token else None
        return value

    def sums(self, wallet: str, mint: str) -> dict[str, int]:
        """Return a position's figures as they are now."""
        ends = self.ends[wallet, mint]
        return ends[max(ends)]

    def sums_of_days(self, wallet: str, mint: str) -> dict[int, dict[str, int]]:
        """Return what was added to a position's figures on each day it changed."""
        found: dict[int, dict[str, int]] = {}
        before: dict[str, int] = {}
        for day, now in self.ends[wallet, mint].items():
            found[day] = {name: now.get(name, 0) - before.get(name, 0) for name in SUMS}
            before = now
        return found

    def matched_raw(self, wallet: str, mint: str) -> int:
        """Return how much was sold or burned from lots of known cost, at a known value."""
        return sum(match.quantity_raw for match in self.matches[wallet, mint] if is_gain(match))

    def before(self, time_ms: int) -> Known:
        """Return what was known before a time."""
        slots = [slot for slot in self.oracle.slots if slot.block_time_ms < time_ms]
        return Known(Oracle(deepcopy(slots)), unseen=self.unseen)

    def price_bounds(self, mint: str) -> tuple[Fraction, Fraction]:
        """Return between what prices (SOL for a whole token) a token's last one can be.

        It follows from swaps as they are processed: those count that came to nothing, too.
        """
        settled = [readings(trade.swap) for trade in self.markets.trades[mint]]
        least = min((min(each) for each in settled if each), default=Fraction(0)) / MOVED_BY
        most = max((max(each) for each in settled if each), default=Fraction(0)) * MOVED_BY
        for swap in self.unsettled:
            if swap["mint"] == mint:
                paid = Fraction(swap["quote_amount_raw"])
                if swap["quote_mint"] in DOLLARS:
                    paid = paid * 1000 / self.sol_usd
                elif swap["quote_mint"] != SOL:
                    return Fraction(0), Fraction(10**30)  # valued by a book that we do not keep
                for price in readings({**swap, "sol_value_lamports": paid}):
                    least = min(least, price / MOVED_BY) if least else price / MOVED_BY
                    most = max(most, price * MOVED_BY)
        return least, most


def readings(swap: dict[str, Any]) -> list[Fraction]:
    """Return the prices that a swap gives: its own, and those of reserves and square root."""
    lamports, paid, amount = (
        swap["sol_value_lamports"],
        swap["quote_amount_raw"],
        swap["amount_raw"],
    )
    if not lamports or not paid or not amount:
        return []
    quote_for_raw = [Fraction(paid, amount)]
    concentrated = swap["sqrt_price_x64"] or swap["dex"] == "meteora-dlmm"
    if swap["reserve_raw"] and swap["quote_reserve_raw"] and not concentrated:
        quote_for_raw.append(Fraction(swap["quote_reserve_raw"], swap["reserve_raw"]))
    if swap["virtual_reserve_raw"] and swap["virtual_quote_reserve_raw"]:
        quote_for_raw.append(
            Fraction(swap["virtual_quote_reserve_raw"], swap["virtual_reserve_raw"])
        )
    if swap["sqrt_price_x64"]:
        # Which side is the mint is not stated: take the reading nearer to the trade's price.
        price = Fraction(swap["sqrt_price_x64"] ** 2, 2**128)
        own = quote_for_raw[0]
        quote_for_raw.append(min((price, 1 / price), key=lambda each: max(each / own, own / each)))
    to_sol = Fraction(lamports * 10 ** swap["decimals"], paid * 10**9)
    return [each * to_sol for each in quote_for_raw]


def is_gain(match: Match) -> bool:
    """Return True if a match realized a gain, a loss or 0."""
    return match.kind != "transfer" and match.cost is not None and match.proceeds is not None


def known(truth: Path, first_slot: int, last_slot: int) -> Known:
    """Return the oracle of the canonical slots from the first to the last."""
    slots = [slot for slot in read(truth) if first_slot <= slot.slot <= last_slot]
    settled = {slot.slot for slot in slots}
    unsettled, unseen, burned = [], {}, Counter[str]()
    with truth.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break
            row = orjson.loads(line)
            if row["kind"] == "swap" and not (row["canonical"] and row["slot"] in settled):
                unsettled.append(with_integers(row))
            if row["kind"] == "flow":
                for _, _, mint, burned_raw in row["burned"]:
                    burned[mint] += burned_raw
            if row["kind"] == "creation" and row["slot"] < first_slot:
                unseen[row["mint"]] = Coin(
                    row["name"], row["symbol"], row["uri"], int(row["supply_raw"])
                )
    return Known(Oracle(slots), unsettled=unsettled, unseen=unseen, burned=burned)


def with_integers(row: Swap) -> Swap:
    """Return a record of the truth with its raw amounts as integers."""
    endings = ("_raw", "_lamports", "liquidity", "_x64")
    return {
        name: int(value) if isinstance(value, str) and name.endswith(endings) else value
        for name, value in row.items()
    }


def day_text(day: int) -> str:
    """Return a day as ISO 8601 has it."""
    return datetime.fromtimestamp(day * DAY_MS / 1000, UTC).date().isoformat()


def some(things: list[Any], count: int = SAMPLE) -> list[Any]:
    """Return some of many, the same each time."""
    return Random(7).sample(things, min(count, len(things)))
