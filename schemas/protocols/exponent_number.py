"""Exponent's numbers: 256 bits, of which one is 10**12; quotients are rounded as spl-math does.

Source: `libraries/precise_number` of exponent-core, over `spl_math::precise_number` 0.3.
"""

from __future__ import annotations

from struct import error
from typing import Final

ONE: Final = 10**12


def number(data: bytes, at: int) -> int:
    """Read a number; raises struct.error past the end."""
    if at + 32 > len(data):
        raise error(f"32 bytes at {at} of {len(data)}")
    return int.from_bytes(data[at : at + 32], "little")


def divided(value: int, by: int) -> int:
    """Return a quotient of numbers; half of the scale is added before it is rounded down.

    So one is rounded to the nearest where `by` is one. It is not 0.
    """
    return (value * ONE + ONE // 2) // by


def ratio(part: int, whole: int) -> int:
    """Return the number of a ratio of integers; 0 for a whole of 0."""
    return divided(part * ONE, whole * ONE) if whole else 0


def times(value: int, amount: int) -> int:
    """Return an integer amount times a number, rounded down to an integer."""
    return value * amount // ONE
