"""Liquidity of Meteora's DAMM v2: one range of prices for a whole pool, all numbers Q64.64.

Source: program `cp_amm` 0.2.5, as `@meteora-ag/cp-amm-sdk` 1.5.0 computes it.
"""

from __future__ import annotations

from typing import Final

_U64_MAX: Final = (1 << 64) - 1
_U256: Final = 1 << 256
FEE_BITS: Final = 128
"""Fraction bits of liquidity times fee per liquidity."""
REWARD_BITS: Final = 192
"""Fraction bits of liquidity times reward per liquidity."""


def amount_a(liquidity: int, sqrt_price: int, sqrt_max: int) -> int:
    """Return the raw amount of A in liquidity, rounded down; prices above 0."""
    return liquidity * (sqrt_max - sqrt_price) // (sqrt_price * sqrt_max)


def amount_b(liquidity: int, sqrt_min: int, sqrt_price: int) -> int:
    """Return the raw amount of B in liquidity, rounded down."""
    return liquidity * (sqrt_price - sqrt_min) >> FEE_BITS


def grown(stored: int, checkpoint: int) -> int:
    """Return the growth since a checkpoint; u256 counters wrap around."""
    return (stored - checkpoint) % _U256


def earned(pending_raw: int, liquidity: int, growth: int, bits: int) -> int:
    """Return what is pending with what liquidity earned, each at most a u64, as the program."""
    return min(pending_raw + min(liquidity * growth >> bits, _U64_MAX), _U64_MAX)


def reward_stored(stored: int, rate_q64: int, seconds: int, liquidity: int) -> int:
    """Return the reward per liquidity after some seconds; a pool without liquidity pays none."""
    if not liquidity:
        return stored
    return (stored + (rate_q64 * seconds << FEE_BITS) // liquidity) % _U256
