"""Bins of liquidity: each is a price with reserves of its own, which its shares divide.

Source: Meteora's DLMM program `lb_clmm` 0.12.0, as `@meteora-ag/dlmm` 1.9.14 computes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

ARRAY_BINS: Final = 70
"""Bins of one array."""
_ONE: Final = 1 << 64
_MAX: Final = (1 << 128) - 1
_BASIS_POINTS: Final = 10_000
_EXPONENT_BITS: Final = 19
_REWARD_DIVISOR: Final = 15
"""By which the program divides what a second pays, before it divides it among shares."""


def price_of(bin_id: int, bin_step_bps: int) -> Fraction | None:
    """Return the price of a bin, of a raw X in raw Y; None where the program has none.

    The power is the program's own in Q64.64, squared bit by bit, with what that rounds away.
    """
    exponent = abs(bin_id)
    if exponent >> _EXPONENT_BITS:
        return None
    if not exponent:
        return Fraction(1)
    is_inverse = bin_id < 0
    square = _ONE + (bin_step_bps << 64) // _BASIS_POINTS
    if square >= _ONE:  # of numbers below one no square overflows
        square = _MAX // square
        is_inverse = not is_inverse
    result = _ONE
    while exponent:
        if exponent & 1:
            result = result * square >> 64
        square = square * square >> 64
        exponent >>= 1
    if not result:
        return None
    return Fraction(_MAX // result if is_inverse else result, _ONE)


def parts_of(shares: Iterable[int], reserves_raw: Iterable[int], supplies: Iterable[int]) -> int:
    """Return what shares of bins' supplies are of their reserves, each rounded down, summed."""
    return sum(
        [
            share * reserve_raw // supply
            for share, reserve_raw, supply in zip(shares, reserves_raw, supplies, strict=True)
            if reserve_raw and supply  # most bins have but one of both tokens
        ]
    )


def earned(whole_shares: Iterable[int], grown_q64: Iterable[int]) -> int:
    """Return the raw amount that whole shares of bins earned, by the growth per share of each.

    It is rounded down in each bin, and summed.
    """
    return sum([share * grown >> 64 for share, grown in zip(whole_shares, grown_q64, strict=True)])


def reward_growth(rate_q64: int, seconds: int, supply: int) -> int:
    """Return how much the reward per share (Q64.64) grew, rounded down at each division.

    A supply below one whole share has no growth: the program could not divide by it.
    """
    whole = supply >> 64
    return rate_q64 * seconds // _REWARD_DIVISOR // whole if whole else 0
