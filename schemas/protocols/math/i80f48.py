"""Signed fixed-point numbers with 48 binary places, as integers scaled by 2**48.

Source: Rust's `fixed::types::I80F48`; products round down, quotients toward zero.
"""

from __future__ import annotations

from struct import error
from typing import Final

BITS: Final = 48
ONE: Final = 1 << BITS


def i80f48(data: bytes, offset: int) -> int:
    """Read a number, scaled by 2**48; raises `struct.error` past the end."""
    if len(data) < offset + 16:
        raise error(f"16 bytes at {offset} of {len(data)}")
    return int.from_bytes(data[offset : offset + 16], "little", signed=True)


def product(first: int, second: int) -> int:
    """Return the product of two scaled numbers, scaled."""
    return first * second >> BITS


def quotient(dividend: int, divisor: int) -> int:
    """Return the quotient of two scaled numbers that are not negative; the divisor is not 0."""
    return (dividend << BITS) // divisor
