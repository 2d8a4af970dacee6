"""Bets against a pool: what closing one would pay, in the token that it is settled in.

Such protocols keep a bet in millionths of a dollar: its collateral, its size, what it owes. What is
paid out is the collateral with what was won or lost, less fees, and never below nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final, Literal, NamedTuple

from schemas.protocols.contract import Asset, Role

Side = Literal["long", "short"]

SIDES: Final[Mapping[int, Side]] = {1: "long", 2: "short"}
MICROS: Final = 1_000_000
OLDEST_PRICE_S: Final = 60
"""Programs refuse a price that is some seconds old; a gain at one of a minute ago may be wrong."""

_LEAST_EXPONENT: Final = -30
_MOST_EXPONENT: Final = 12


class Token(NamedTuple):
    """What a bet is settled in; prices are of a whole token, by the protocol's oracle."""

    mint: bytes
    decimals: int
    usd: Fraction | None  # None: not known
    paid_at_usd: Fraction | None  # what dollars are paid out at


def price_of(amount: int, exponent: int) -> Fraction | None:
    """Return an oracle's price in dollars; None where it has none that can be one."""
    if amount <= 0 or not _LEAST_EXPONENT <= exponent <= _MOST_EXPONENT:
        return None
    if exponent >= 0:
        return Fraction(amount * 10**exponent)
    return Fraction(amount, 10**-exponent)


def gain_of(side: Side, size: int, entry: int, mark: int) -> Fraction:
    """Return what a bet won by the price alone, negative where it lost, in the unit of its size."""
    return Fraction(size * (mark - entry if side == "long" else entry - mark), entry)


def liquidation_price(side: Side, size: int, entry: int, left: int) -> int | None:
    """Return the price at which a bet has lost what it may lose, in the unit of its entry.

    `left` is that in the unit of its size: its collateral without what it must keep and what it
    owes, negative where it is past it already. None: no price is that low.
    """
    away = abs(left) * entry // size
    if (side == "long") == (left >= 0):
        away = -away
    return entry + away if entry + away > 0 else None


def lines(
    token: Token, collateral: int, gain: int | None, owed: Iterable[int | None]
) -> list[Asset]:
    """Return the assets of a bet from its figures in millionths of a dollar; None: not known.

    What is lost or owed is at most what is there to pay it from.
    """
    found = [_line(token, Role.SUPPLY, collateral)]
    if gain is None or gain > 0:
        found.append(_line(token, Role.PENDING, gain))
    left: int | None = 0
    for each in found:
        left = None if left is None or each.amount_raw is None else left + each.amount_raw
    lost = -gain if gain is not None and gain < 0 else 0
    for micros in (lost, *owed):
        if micros == 0:
            continue
        line = _line(token, Role.BORROW, micros)
        if line.amount_raw is not None and left is not None:
            line.amount_raw = min(line.amount_raw, left)
            left -= line.amount_raw
        found.append(line)
    return found


def _line(token: Token, role: Role, micros: int | None) -> Asset:
    """Return a line; what is owed is rounded up."""
    amount_raw = None
    if micros is not None and token.paid_at_usd is not None:
        dollars, tokens = token.paid_at_usd.as_integer_ratio()
        over, under = micros * 10**token.decimals * tokens, dollars * MICROS
        amount_raw = -(-over // under) if role is Role.BORROW else over // under
    return Asset(role, token.mint, amount_raw, token.decimals, token.usd)
