"""What closing a bet on Flash Trade pays, in millionths of a dollar, and what liquidates it.

All divisions are the program's, towards zero.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final, NamedTuple

from schemas.protocols.pool_perps import MICROS, Side, price_of
from schemas.solana.borsh import i64, u32, u64, u128

CUSTODY_SIZE: Final = 688
_RATE: Final = 10**9
_BPS: Final = 10_000
_SLOPE: Final = 10**13
_HOUR_S: Final = 3_600
_FINEST: Final = 10**9  # prices are compared in it
_LEAST_EXPONENT: Final = -18  # of a price: with a finer one it is none


class Quote(NamedTuple):
    """A price of a whole token: a number and its negative exponent."""

    amount: int
    exponent: int

    @property
    def usd(self) -> Fraction | None:
        """Return the price in dollars."""
        return price_of(self.amount, self.exponent)

    def worth(self, raw: int, decimals: int, amount: int | None = None) -> int:
        """Return what a raw amount is worth, at this price or another of the same exponent."""
        exact = raw * (self.amount if amount is None else amount) * MICROS
        parts: int = 10 ** (decimals - self.exponent)
        return exact // parts


def quote(custody: bytes, oracle: bytes) -> Quote | None:
    """Return an oracle's price of a custody's token; None where it is none to close a bet at.

    So it is where the price is far from its average, of a stable token from a dollar: the program
    then takes another, by the oracle's confidence.
    """
    amount, average = u64(oracle, 8), u64(oracle, 28)
    exponent = int.from_bytes(oracle[16:20], "little", signed=True)
    if not _LEAST_EXPONENT <= exponent <= 0 or not amount or custody[108]:  # of an inverse price
        return None
    normal = 10**-exponent if custody[105] else average
    if not normal or abs(amount - normal) * _BPS >= u64(custody, 174) * normal:
        return None
    return Quote(amount, exponent)


def paid_at(custody: bytes, price: Quote) -> Quote:
    """Return what a raw token is paid at: of some tokens each counts for more than one."""
    multiplier = u64(custody, 500)
    return Quote(price.amount * multiplier // _RATE, price.exponent) if multiplier else price


def closing(
    side: Side, position: bytes, custody: bytes, mark: Quote, locked: int, now_s: int
) -> tuple[int | None, int | None]:
    """Return what closing all of a bet wins, negative where it loses, and what it costs.

    None where its price is of another exponent, or its custody gives none. `locked` is what is
    locked for it, in millionths of a dollar. The fee is of what the bet is worth now, also in the
    spread of its price; what it won is by the spread of its size at entry, as `flash-sdk` has it.
    """
    size_raw, size, decimals = u64(position, 132), u64(position, 140), position[236]
    entry = u64(position, 120)
    if int.from_bytes(position[128:132], "little", signed=True) != mark.exponent:
        return None, None
    exit_at = _exit_at(side, custody, mark, size)
    paid = _exit_at(side, custody, mark, mark.worth(size_raw, decimals))
    if exit_at is None or paid is None:
        return None, None
    moved = exit_at - entry if side == "long" else entry - exit_at
    if moved > 0 and now_s <= i64(position, 112) + i64(custody, 254):
        before = u64(position, 220)  # too soon: at most what it had won before
        moved = max(before - entry if side == "long" else entry - before, 0)
    won = mark.worth(size_raw, decimals, abs(moved))
    gain = min(won, max(locked - u64(position, 172), 0)) if moved > 0 else -won
    fee = max(mark.worth(size_raw, decimals, paid), 0) * u64(custody, 452) // _RATE
    return gain, fee


def _exit_at(side: Side, custody: bytes, mark: Quote, size: int) -> int | None:
    """Return the price that a bet of a size is closed at; None where its custody gives none."""
    least, most, most_size = (u64(custody, at) for at in (198, 206, 270))
    if most == least or not size:
        return mark.amount
    if most < least or not most_size:
        return None
    spread = least + ((most - least) * _SLOPE // most_size) * size // _SLOPE
    away = mark.amount * spread // MICROS
    return mark.amount - away if side == "long" else mark.amount + away


def lock_fee(position: bytes, lender: bytes, now_s: int) -> int:
    """Return what a bet owes for what is locked for it, with what was not settled."""
    grown, updated_s = u128(lender, 604), i64(lender, 620)
    if now_s > updated_s:
        grown += (now_s - updated_s) * u64(lender, 596) // _HOUR_S
    since = max(grown - u128(position, 196), 0)
    return since * u64(position, 140) // _RATE + u64(position, 188)


def ends_at(side: Side, position: bytes, custody: bytes, owed: int) -> Fraction | None:
    """Return the price in dollars from which a bet may be liquidated; None where none does."""
    size_raw, size, decimals = u64(position, 132), u64(position, 140), position[236]
    exponent = int.from_bytes(position[128:132], "little", signed=True)
    most_leverage = u32(custody, 238)
    if not most_leverage or not _LEAST_EXPONENT <= exponent <= 0:
        return None
    fee = size * u64(custody, 452) // _RATE
    left = u64(position, 172) - (size * _BPS // most_leverage + fee + owed)
    away = abs(left) * 10 ** (decimals + 3) // size_raw
    finer = 10**-exponent
    away = away // (_FINEST // finer) if finer <= _FINEST else away * (finer // _FINEST)
    if (side == "long") == (left >= 0):
        away = -away
    return price_of(u64(position, 120) + away, exponent)
