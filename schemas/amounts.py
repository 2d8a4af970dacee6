"""Amounts of the stores in human units: raw integers as JSON text, and numbers beside them."""

from __future__ import annotations

from typing import Final, overload

LAMPORTS: Final = 10**9  # in one SOL
MICROS: Final = 10**6  # in one dollar


def text(number: int | None) -> str | None:
    """Return an integer as JSON has it; None while it is not known."""
    return None if number is None else str(number)


@overload
def sol(lamports: int) -> float: ...
@overload
def sol(lamports: int | None) -> float | None: ...
def sol(lamports: int | None) -> float | None:
    """Return lamports in SOL; None while they are not known."""
    return None if lamports is None else lamports / LAMPORTS


@overload
def usd(micros: int) -> float: ...
@overload
def usd(micros: int | None) -> float | None: ...
def usd(micros: int | None) -> float | None:
    """Return millionths of a dollar in dollars; None while they are not known."""
    return None if micros is None else micros / MICROS


@overload
def human(raw: int, decimals: int) -> float: ...
@overload
def human(raw: int | None, decimals: int | None) -> float | None: ...
def human(raw: int | None, decimals: int | None) -> float | None:
    """Return an amount in whole tokens; None while it or the decimals are not known."""
    return None if raw is None or decimals is None else raw / 10**decimals
