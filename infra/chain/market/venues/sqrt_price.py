"""Concentrated liquidity within one range: Q64.64 square root prices, rounded for the pool."""

from __future__ import annotations

from math import isqrt
from typing import Final, NamedTuple

from infra.chain.market.venues.venue import ceil_div

ONE: Final = 1 << 64


class Step(NamedTuple):
    """The outcome of an input: the price after it and what the pool pays."""

    sqrt_price: int
    amount_out: int


def swap_in(liquidity: int, sqrt_price: int, a_to_b: bool, amount_in: int) -> Step:
    """Return price and output for an input (fees already taken off)."""
    if a_to_b:
        after = ceil_div(liquidity * ONE * sqrt_price, liquidity * ONE + amount_in * sqrt_price)
        return Step(after, liquidity * (sqrt_price - after) // ONE)
    after = sqrt_price + amount_in * ONE // liquidity
    return Step(after, liquidity * ONE * (after - sqrt_price) // (after * sqrt_price))


def amount_a(liquidity: int, lower: int, upper: int) -> int:
    """Return how much of the first token a range needs, rounded up."""
    return ceil_div(liquidity * ONE * (upper - lower), upper * lower)


def amount_b(liquidity: int, lower: int, upper: int) -> int:
    """Return how much of the second token a range needs, rounded up."""
    return ceil_div(liquidity * (upper - lower), ONE)


def sqrt_price_of(reserve_a: int, reserve_b: int) -> int:
    """Return the square root price at which two amounts are worth the same."""
    return isqrt((reserve_b << 128) // reserve_a)
