"""The oracle's values: SOL/USD of each slot, the book of quotes, and what each leg is worth.

Written from the rules as `pipeline.ingest.reference`, `pipeline.domain.value` and
`pipeline.domain.quote_book` state them, in fractions and the plainest code.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from math import floor
from typing import Any, Final

from pipeline.chaos.truth import Slot

SOL: Final = "So11111111111111111111111111111111111111112"
DOLLARS: Final = (
    "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
    "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB",
    "USD1ttGY1N17NEEHLmELoaybftRBUSErhqYiQzvEmuB",
)
MONEY: Final = (SOL, *DOLLARS)
AGREED: Final = (
    "jupiter-limit",
    "jupiter-rfq",
    "jupiter-trigger",
    "manifest",
    "openbook-v2",
    "phoenix",
    "unlisted",
)
U64_MAX: Final = 2**64 - 1
LEAST_LAMPORTS: Final = 100_000_000
DIGITS: Final = 12
QUOTES_KEPT: Final = 32

Swap = dict[str, Any]
Value = int | None
Made = tuple[int, int]  # a price: lamports, and the raw units they were for


class Valuer:
    """Values all swaps, slot after slot: sets `sol_value_lamports` and `usd_value_micros`."""

    def __init__(self) -> None:
        self.sol_usd: Fraction | None = None
        self.book: dict[str, Made | None] = {}  # last used last; lamports, and for how many units
        self.of_slot: dict[int, Fraction | None] = {}

    def slot(self, slot: Slot) -> None:
        """Value the swaps of the next slot."""
        swaps = [swap for tx in slot.transactions for swap in tx.swaps]
        self.sol_usd = reference(self.sol_usd, swaps)
        self.of_slot[slot.slot] = self.sol_usd
        for tx in slot.transactions:
            self._value(tx.swaps)
        self._remember(swaps)

    def _value(self, swaps: Sequence[Swap]) -> None:
        lamports: list[Value] = []
        micros: list[Value] = []
        for swap in swaps:
            quote, raw = swap["quote_mint"], swap["quote_amount_raw"]
            if quote == SOL:
                lamports.append(raw)
                micros.append(self._dollars(raw))
            elif quote in DOLLARS:
                lamports.append(
                    None if self.sol_usd is None else fitting(raw * 1000 / self.sol_usd)
                )
                micros.append(raw)
            else:
                lamports.append(None)
                micros.append(None)
        for values in (lamports, micros):
            along_the_route(swaps, values)
        for number, swap in enumerate(swaps):
            made = self.book.get(swap["quote_mint"])
            raw = swap["quote_amount_raw"]
            if swap["quote_mint"] in MONEY or made is None or raw > 1000 * made[1]:
                continue
            by_book = fitting(raw * Fraction(*made))
            if lamports[number] is None:
                lamports[number] = by_book
            if micros[number] is None and by_book is not None:
                micros[number] = self._dollars(by_book)
        for values in (lamports, micros):
            along_the_route(swaps, values)
        for swap, of_sol, of_dollars in zip(swaps, lamports, micros, strict=True):
            swap["sol_value_lamports"], swap["usd_value_micros"] = of_sol, of_dollars

    def _dollars(self, lamports: int) -> Value:
        return None if self.sol_usd is None else fitting(lamports * self.sol_usd / 1000)

    def _remember(self, swaps: Sequence[Swap]) -> None:
        for swap in swaps:
            quote = swap["quote_mint"]
            if quote not in MONEY:
                self.book[quote] = self.book.pop(quote, None)
                if len(self.book) > QUOTES_KEPT:
                    del self.book[next(iter(self.book))]
        for mint in self.book:
            sold = [
                (swap["sol_value_lamports"], swap["amount_raw"])
                for swap in swaps
                if swap["mint"] == mint
                and swap["quote_mint"] in MONEY
                and swap["dex"] not in AGREED
                and swap["sol_value_lamports"] is not None
            ]
            lamports, amount_raw = (
                (sum(column) for column in zip(*sold, strict=True)) if sold else (0, 0)
            )
            if lamports >= LEAST_LAMPORTS and amount_raw:
                self.book[mint] = in_64_bits(lamports, amount_raw)


def fitting(value: Fraction | int) -> Value:
    """Round down; what does not fit 64 bits is none."""
    whole = floor(value)
    return whole if whole <= U64_MAX else None


def in_64_bits(lamports: int, amount_raw: int) -> Made:
    """Return a ratio as closely as two numbers of 64 bits express it."""
    while max(lamports, amount_raw) > U64_MAX:
        lamports, amount_raw = lamports // 2, amount_raw // 2
    return max(lamports, 1), max(amount_raw, 1)


def along_the_route(swaps: Sequence[Swap], values: list[Value]) -> None:
    """Fill in values from leg to leg: legs with a value price both of their tokens."""
    prices: dict[str, tuple[Fraction, int]] = {}  # and the quantity they were made by
    while None in values:
        totals: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        for swap, value in zip(swaps, values, strict=True):
            if value is not None:
                for side in ("", "quote_"):
                    totals[swap[side + "mint"]][0] += value
                    totals[swap[side + "mint"]][1] += swap[side + "amount_raw"]
        for mint, (value, quantity) in totals.items():
            if quantity and mint not in MONEY:
                prices.setdefault(mint, (Fraction(value, quantity), quantity))
        found = {}
        for number, swap in enumerate(swaps):
            if values[number] is None and swap["quote_mint"] not in MONEY:
                for side in ("quote_", ""):
                    raw = swap[side + "amount_raw"]
                    price, quantity = prices.get(swap[side + "mint"], (None, 0))
                    if price is not None and raw <= 2 * quantity:
                        found[number] = fitting(price * raw)
                        if found[number] is not None:
                            break
        if all(value is None for value in found.values()):
            return
        for number, value in found.items():
            values[number] = value


def reference(before: Fraction | None, swaps: Sequence[Swap]) -> Fraction | None:
    """Return SOL/USD after a slot's swaps."""
    pools: defaultdict[str, list[Fraction]] = defaultdict(lambda: [Fraction(), Fraction()])
    for swap in swaps:
        sides = (
            (swap["mint"], swap["amount_raw"], swap["decimals"]),
            (swap["quote_mint"], swap["quote_amount_raw"], swap["quote_decimals"]),
        )
        for (mint, raw, _), (other, other_raw, decimals) in (sides, sides[::-1]):
            if mint == SOL and other in DOLLARS and swap["dex"] not in AGREED:
                pools[swap["pool"]][0] += raw
                pools[swap["pool"]][1] += Fraction(other_raw, 10**decimals)
    votes = sorted(
        (rounded(dollars / (lamports / 10**9)), lamports)
        for lamports, dollars in pools.values()
        if lamports >= LEAST_LAMPORTS and dollars
    )
    if not votes:
        return before
    if len(votes) >= 3:  # no pool weighs as much as all others
        whole = sum(weight for _, weight in votes)
        votes = [
            (price, min(weight, whole - weight - 1)) if 2 * weight >= whole else (price, weight)
            for price, weight in votes
        ]
    price = next(
        price
        for number, (price, _) in enumerate(votes)
        if 2 * sum(weight for _, weight in votes[: number + 1])
        >= sum(weight for _, weight in votes)
    )
    if before is not None:
        step = before * Fraction(2 if len(votes) < 3 else 10, 100)
        price = max(before - step, min(before + step, price))
    return rounded(price)


def rounded(value: Fraction) -> Fraction:
    """Round to so many significant digits, halves to even."""
    if not value:
        return value
    scale = Fraction(1)
    while value * scale >= 10**DIGITS:
        scale /= 10
    while value * scale < 10 ** (DIGITS - 1):
        scale *= 10
    return Fraction(round(value * scale)) / scale
