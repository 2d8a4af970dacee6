"""Integers of the stores as JSON: raw ones as text, human ones as numbers beside them."""

from __future__ import annotations

LAMPORTS = 10**9
MICROS = 10**6


def text(number: int | None) -> str | None:
    """Return an integer as JSON has it; None while it is not known."""
    return None if number is None else str(number)


def sol(lamports: int) -> float:
    """Return lamports in SOL."""
    return lamports / LAMPORTS


def usd(micros: int) -> float:
    """Return millionths of a dollar in dollars."""
    return micros / MICROS


def human(raw: int, decimals: int | None) -> float | None:
    """Return an amount in whole tokens; None while the decimals are not known."""
    return None if decimals is None else raw / 10**decimals
