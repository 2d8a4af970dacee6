"""What the swaps of one transaction are worth in SOL and in dollars: exact integers.

A leg's value is that of its `quote_amount_raw`, in lamports and in micros (millionths of a
dollar). The first rule that finds a value gives it; either part is None where none does.

1. Quoted in SOL: lamports as they are, micros = floor(lamports * SOL/USD / 1000). Quoted in a
   dollar coin, which counts one dollar: micros as they are, lamports = floor(micros * 1000 /
   SOL/USD).
2. Quoted in a token: from the other legs of the transaction. All legs that have a value price
   both their tokens, at sum of values / sum of quantities over these legs. A leg without a value
   takes floor(quantity * sum of values / sum of quantities) of its quote, or else of its traded
   token, where that is priced by half as much or more: else a leg that is worth nothing would
   value millions. So it goes from leg to leg, all legs that can be valued at once
   in each round; a token priced in one round keeps that price in the later ones. Hence equal
   quantities have equal values along a route.
3. Else lamports = floor(quantity * price) by the quote's last price in the book of quotes, if
   that was made by a thousandth of the quantity or more, and micros of these lamports as in 1;
   then rule 2 again from there.

Rules 2 and 3 are applied to lamports and to micros apart. A value that does not fit 64 bits is
none: no real amount comes near.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from schemas.events import Swap
from schemas.money import DOLLARS, MONEY, WSOL

U64_MAX: Final = 2**64 - 1

# Venues where two parties, or one with two wallets, trade at any price for the transaction's fee
# alone: quotes on request, limit orders, unlisted programs, and order books whose markets anybody
# creates without a fee. A trade there is worth what it moved, but no price is taken from it.
AGREED: Final = frozenset(
    {
        "jupiter-limit",
        "jupiter-rfq",
        "jupiter-trigger",
        "manifest",
        "openbook-v2",
        "phoenix",
        "unlisted",
    }
)

MOST_OF_LEGS: Final = 2  # times the quantity that legs of the transaction priced
MOST_OF_BOOK: Final = 1000  # times the quantity that made the price in the book

Price = tuple[int, int]  # value / amount_raw: an exact ratio, and what quantity made it


@dataclass(slots=True, frozen=True)
class SolUsd:
    """Dollars for a SOL, as an exact ratio of positive integers."""

    numerator: int
    denominator: int

    @classmethod
    def of(cls, price: Decimal | None) -> SolUsd | None:
        """Return the ratio of a reference price; None where there is none above zero."""
        return None if price is None or price <= 0 else cls(*price.as_integer_ratio())

    def micros(self, lamports: int) -> int:
        """Return what lamports are in millionths of a dollar, rounded down."""
        return lamports * self.numerator // (self.denominator * 1000)

    def lamports(self, micros: int) -> int:
        """Return what millionths of a dollar are in lamports, rounded down."""
        return micros * 1000 * self.denominator // self.numerator


def value_swaps(swaps: Sequence[Swap], sol_usd: SolUsd | None, quotes: Mapping[str, Price]) -> None:
    """Set the values of all swaps of one transaction.

    `quotes` has the last prices of tokens that others are quoted in: lamports and amount_raw.
    """
    open_legs = False
    for swap in swaps:
        lamports = micros = None
        if swap.quote_mint == WSOL:
            lamports = swap.quote_amount_raw
            micros = sol_usd.micros(lamports) if sol_usd else None
        elif swap.quote_mint in DOLLARS:
            micros = swap.quote_amount_raw
            lamports = sol_usd.lamports(micros) if sol_usd else None
        else:
            open_legs = True
        swap.sol_value_lamports, swap.usd_value_micros = _within(lamports), _within(micros)
    if open_legs:
        _value_by_route(swaps, sol_usd, quotes)


def _within(value: int | None) -> int | None:
    return value if value is not None and value <= U64_MAX else None


def _value_by_route(
    swaps: Sequence[Swap], sol_usd: SolUsd | None, quotes: Mapping[str, Price]
) -> None:
    lamports = [swap.sol_value_lamports for swap in swaps]
    micros = [swap.usd_value_micros for swap in swaps]
    _spread(swaps, lamports)
    _spread(swaps, micros)
    if None in lamports or None in micros:
        for at, swap in enumerate(swaps):
            if swap.quote_mint in MONEY or (price := quotes.get(swap.quote_mint)) is None:
                continue
            worth = _share(price, swap.quote_amount_raw, MOST_OF_BOOK)
            if lamports[at] is None:
                lamports[at] = worth
            if micros[at] is None and sol_usd is not None and worth is not None:
                micros[at] = _within(sol_usd.micros(worth))
        _spread(swaps, lamports)
        _spread(swaps, micros)
    for at, swap in enumerate(swaps):
        swap.sol_value_lamports, swap.usd_value_micros = lamports[at], micros[at]


def _spread(swaps: Sequence[Swap], values: list[int | None]) -> None:
    """Value the legs that valued ones price, from leg to leg."""
    prices: dict[str, Price] = {}
    while None in values:
        prices = _priced(swaps, values) | prices
        known = [
            (at, value)
            for at, swap in enumerate(swaps)
            if values[at] is None and (value := _stated(swap, prices)) is not None
        ]
        if not known:
            return
        for at, value in known:
            values[at] = value


def _priced(swaps: Sequence[Swap], values: Sequence[int | None]) -> dict[str, Price]:
    """Return the prices of all tokens that valued legs have on one of their sides."""
    prices: dict[str, Price] = {}
    for swap, value in zip(swaps, values, strict=True):
        if value is None:
            continue
        for mint, amount_raw in (
            (swap.mint, swap.amount_raw),
            (swap.quote_mint, swap.quote_amount_raw),
        ):
            if amount_raw and mint not in MONEY:
                total, quantity = prices.get(mint, (0, 0))
                prices[mint] = total + value, quantity + amount_raw
    return prices


def _stated(swap: Swap, prices: Mapping[str, Price]) -> int | None:
    """Return a leg's value by the price of its quote, else of its traded token."""
    if swap.quote_mint in MONEY:
        return None  # without a reference price
    for mint, amount_raw in (
        (swap.quote_mint, swap.quote_amount_raw),
        (swap.mint, swap.amount_raw),
    ):
        price = prices.get(mint)
        if price is not None and (value := _share(price, amount_raw, MOST_OF_LEGS)) is not None:
            return value
    return None


def _share(price: Price, amount_raw: int, most: int) -> int | None:
    value, quantity = price
    return _within(amount_raw * value // quantity) if amount_raw <= most * quantity else None
