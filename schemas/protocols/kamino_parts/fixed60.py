"""Unsigned numbers with 60 bits behind the point, rounded as klend's program rounds them.

Source: klend's `utils/fraction.rs` (U68F60, and 256 bits at the same scale): products and
quotients are cut off.
"""

from __future__ import annotations

from typing import Final

BITS: Final = 60
ONE: Final = 1 << BITS


def times(left: int, right: int) -> int:
    """Return the product of two numbers at the scale, cut off."""
    return left * right >> BITS


def from_percent(percent: int) -> int:
    """Return a percentage at the scale, cut off."""
    return (percent << BITS) // 100


def from_bps(bps: int) -> int:
    """Return basis points at the scale, cut off."""
    return (bps << BITS) // 10_000


def ceil_int(value: int) -> int:
    """Return the least integer that is not below a number at the scale."""
    return -(-value >> BITS)
