"""Square roots of prices at ticks, Q64.64, as each program rounds them.

Orca's factors are powers of 1.0001 ** (1/2), rounded down to 96 bits above tick 0 and to 64 below
it, which are computed here; Raydium's have been rounded by hand, so they are listed.
Sources: Orca whirlpools `tick_math.rs`, Raydium CLMM `tick_math.rs`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import floor, isqrt, log
from typing import Final

MAX_TICK: Final = 443_636
_BITS: Final = 19  # of a tick
_GUARD_BITS: Final = 600
_LOG: Final = log(1.0001)
_RAYDIUM: Final = tuple(
    int(factor, 16)
    for factor in (
        *("fffcb933bd6fb800", "fff97272373d4000", "fff2e50f5f657000", "ffe5caca7e10f000"),
        *("ffcb9843d60f7000", "ff973b41fa98e800", "ff2ea16466c9b000", "fe5dee046a9a3800"),
        *("fcbe86c7900bb000", "f987a7253ac65800", "f3392b0822bb6000", "e7159475a2caf000"),
        *("d097f3bdfd2f2000", "a9f746462d9f8000", "70d869a156f31c00", "31be135f97ed3200"),
        *("9aa508b5b85a500", "5d6af8dedc582c", "2216e584f5fa"),
    )
)


def _powers(numerator: int, denominator: int, bits: int) -> tuple[int, ...]:
    """Return (numerator / denominator) ** (2 ** n / 2) with so many bits after the point."""
    power = isqrt((numerator << 2 * _GUARD_BITS) // denominator)
    found = []
    for _ in range(_BITS):
        found.append(power >> _GUARD_BITS - bits)
        power = power * power >> _GUARD_BITS
    return tuple(found)


_ORCA_UP: Final = _powers(10_001, 10_000, 96)
_ORCA_DOWN: Final = _powers(10_000, 10_001, 64)


def _product(tick: int, factors: tuple[int, ...], bits: int) -> int:
    root = 1 << bits
    for number in range(_BITS):
        if tick & 1 << number:
            root = root * factors[number] >> bits
    return root


@lru_cache(maxsize=10_000)
def orca_sqrt_price(tick: int) -> int:
    """Return the square root of the price at a tick, for Orca."""
    if tick >= 0:
        return _product(tick, _ORCA_UP, 96) >> 32
    return _product(-tick, _ORCA_DOWN, 64)


@lru_cache(maxsize=10_000)
def raydium_sqrt_price(tick: int) -> int:
    """Return the square root of the price at a tick, for Raydium."""
    root = _product(abs(tick), _RAYDIUM, 64)
    return ((1 << 128) - 1) // root if tick > 0 else root


def tick_at(sqrt_price: int, sqrt_price_at: Callable[[int], int]) -> int:
    """Return the greatest tick whose price is not above this one."""
    tick = floor(2 * log(sqrt_price / 2**64) / _LOG)  # off by one at most
    if sqrt_price_at(tick) > sqrt_price:
        return tick - 1
    return tick + 1 if sqrt_price_at(tick + 1) <= sqrt_price else tick
