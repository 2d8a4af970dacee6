"""Liquidity between two prices: what it is in tokens, and what it has earned.

Square roots of prices are Q64 and of raw `b` (quote) by raw `a` (base); growths are Q64 of a token
for a unit of liquidity, and wrap as u128.
Sources: Orca whirlpools `token_math.rs`, `tick_manager.rs`, `position_manager.rs`,
`whirlpool_manager.rs`; Raydium CLMM `liquidity_math.rs`, `tick_array.rs`, `personal_position.rs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

from schemas.protocols.contract import Range

_CACHED_PRICES: Final = 1 << 13  # of ticks and pools; some 300 bytes each
_U64: Final = (1 << 64) - 1
_U128: Final = (1 << 128) - 1


def token_amounts(
    liquidity: int, sqrt_price_x64: int, lower_x64: int, upper_x64: int
) -> tuple[int, int]:
    """Return (raw a, raw b) that liquidity is worth when withdrawn: both rounded down.

    `lower_x64` and `upper_x64` are positive and ascending.
    """
    at = min(max(sqrt_price_x64, lower_x64), upper_x64)
    amount_a = (liquidity * (upper_x64 - at) << 64) // (upper_x64 * at)
    return amount_a, liquidity * (at - lower_x64) >> 64


def growth_inside(
    current_tick: int,
    ticks: tuple[int, int],
    whole: int,
    outside_lower: int,
    outside_upper: int,
) -> int:
    """Return what has grown between two ticks, of what has grown in all; wraps as u128."""
    lower, upper = ticks
    below = outside_lower if current_tick >= lower else whole - outside_lower
    above = outside_upper if current_tick < upper else whole - outside_upper
    return whole - below - above & _U128


def grown(whole: int, per_second_x64: int, seconds: int, liquidity: int) -> int:
    """Return a growth after more seconds of emissions; nothing where the product exceeds u128."""
    emitted = per_second_x64 * seconds
    if not liquidity or emitted > _U128:
        return whole
    return whole + emitted // liquidity & _U128


def earned_raw(liquidity: int, inside: int, checkpoint: int) -> int:
    """Return what liquidity has earned since its checkpoint; more than u64 has is lost: 0."""
    earned = liquidity * (inside - checkpoint & _U128) >> 64
    return earned if earned <= _U64 else 0


class Growth(NamedTuple):
    """What a token has grown for a unit of liquidity, and what of it a position has counted."""

    whole: int
    outside_lower: int
    outside_upper: int
    checkpoint: int  # of the growth inside, when the position was last written
    owed_raw: int  # what the position was owed then


def owed_raw(liquidity: int, current_tick: int, ticks: tuple[int, int], growth: Growth) -> int:
    """Return what a position is owed now, of one token; it may exceed u64."""
    if not liquidity:
        return growth.owed_raw
    inside = growth_inside(
        current_tick, ticks, growth.whole, growth.outside_lower, growth.outside_upper
    )
    return growth.owed_raw + earned_raw(liquidity, inside, growth.checkpoint)


def owed_raw_of_each(
    liquidity: int,
    current_tick: int,
    ticks: tuple[int, int],
    growths: Iterable[tuple[int, int, int, int, int]],
) -> list[int]:
    """Return `owed_raw` of several tokens, whose growths have the fields of `Growth`."""
    if not liquidity:
        return [owed for *_, owed in growths]
    lower, upper = ticks
    is_over, is_under = current_tick >= lower, current_tick < upper
    found = []
    for whole, outside_lower, outside_upper, checkpoint, owed in growths:
        below = outside_lower if is_over else whole - outside_lower
        above = outside_upper if is_under else whole - outside_upper
        earned = liquidity * (whole - below - above - checkpoint & _U128) >> 64
        found.append(owed + earned if earned <= _U64 else owed)
    return found


@lru_cache(_CACHED_PRICES)
def price(sqrt_price_x64: int, decimals_a: int | None, decimals_b: int | None) -> Fraction | None:
    """Return the price of a whole a in whole b; None without both tokens' decimals."""
    if decimals_a is None or decimals_b is None:
        return None
    places = decimals_a - decimals_b
    over, under = (10**places, 1) if places >= 0 else (1, 10**-places)
    return Fraction(sqrt_price_x64 * sqrt_price_x64 * over, under << 128)  # reduced but once


def price_range(
    mints: tuple[bytes, bytes],
    decimals: tuple[int | None, int | None],
    ticks: tuple[int, int],
    current_tick: int,
    sqrt_prices_x64: tuple[int, int, int],
) -> Range:
    """Return the range of liquidity between two ticks; it earns from the lower to before the upper.

    `sqrt_prices_x64`: at the lower tick, at the upper one, and now.
    """
    lower, upper = ticks
    at_lower, at_upper, now = sqrt_prices_x64
    base, quote = mints
    of_base, of_quote = decimals
    return Range(  # by their places, which takes half as long as by their names
        base,
        quote,
        lower,
        upper - 1,
        current_tick,
        price(at_lower, of_base, of_quote),
        price(at_upper, of_base, of_quote),
        price(now, of_base, of_quote),
        lower <= current_tick < upper,
    )
