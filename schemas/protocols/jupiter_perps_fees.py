"""Fees of Jupiter Perpetuals: of what is borrowed and of closing, and what they leave to lose.

All are in millionths of a dollar, and None where the custody's bytes give none.
"""

from __future__ import annotations

from struct import unpack_from
from typing import Final

from schemas.solana.borsh import i64, u64, u128

_RATE: Final = 10**9
_DEBT: Final = 10**9
_BPS: Final = 10_000
_TENTHS_OF_BPS: Final = 100_000
_HOURS_OF_YEAR: Final = 24 * 365
_HOUR_S: Final = 3_600
_WINDOW_S: Final = 60  # seconds of open interest that a custody keeps


def borrow_fee(position: bytes, lender: bytes, now_s: int) -> int | None:
    """Return what a bet owes for what is locked for it, rounded up."""
    grown = _cumulative_rate(lender, now_s)
    if grown is None:
        return None
    since = grown - u128(position, 185)
    return None if since < 0 else _ceil(since * u64(position, 161), _RATE)


def _cumulative_rate(custody: bytes, now_s: int) -> int | None:
    """Return the sum of a custody's hourly rates until now."""
    known, updated_s = u128(custody, 262), i64(custody, 278)
    if now_s <= updated_s or not u64(custody, 222):
        return known
    hourly = _hourly_rate(custody)
    return None if hourly is None else known + _ceil(hourly * (now_s - updated_s), _HOUR_S)


def _hourly_rate(custody: bytes) -> int | None:
    """Return what is paid an hour: at a linear rate where there is one, else at a kinked one."""
    debt = _ceil(max(u128(custody, 1004) - u128(custody, 1020), 0), _DEBT)
    owned, locked = u64(custody, 222) + debt, u64(custody, 230) + debt
    if linear := u64(custody, 286):
        return _ceil(locked * (linear * _RATE // _TENTHS_OF_BPS), owned) if locked else 0
    least, most, at_target, target = (u64(custody, at) for at in (352, 360, 368, 376))
    used = locked * _RATE // owned
    if used <= target:
        if not target or at_target < least:
            return None
        yearly_bps = _ceil((at_target - least) * used, target) + least
    else:
        if target >= _RATE:
            return None
        yearly_bps = _ceil(max(most - at_target, 0) * (used - target), _RATE - target) + at_target
    return yearly_bps * _RATE // _BPS // _HOURS_OF_YEAR


def closing_fee(custody: bytes, size: int, now_s: int) -> int | None:
    """Return what closing all of a bet costs, rounded up.

    None where the change is so large that the program takes more for it: that part is a power
    with a fraction for an exponent, and depends on the trades of the minute in which it is closed.
    """
    if u64(custody, 904) and abs(_imbalance(custody, size, now_s)) > u64(custody, 916):
        return None
    return _ceil(size * _closing_bps(custody, size), _BPS)


def _closing_bps(custody: bytes, size: int) -> int:
    scalar = u64(custody, 151)
    return u64(custody, 304) + (_ceil(size * _BPS, scalar) if scalar else 0)


def _imbalance(custody: bytes, size: int, now_s: int) -> int:
    """Return the change of open interest within the minute that ends with closing a bet."""
    updated_s = i64(custody, 896)
    if updated_s <= 0 or now_s - updated_s >= _WINDOW_S:
        return -size
    changes: list[int] = list(unpack_from(f"<{_WINDOW_S}q", custody, 416))
    for second in range(updated_s + 1, now_s + 1):
        changes[second % _WINDOW_S] = 0
    return sum(changes) - size


def left_to_lose(position: bytes, custody: bytes, owed: int | None) -> int | None:
    """Return what a bet may lose until it may be liquidated, with what it owes now."""
    size, most_leverage = u64(position, 161), u64(custody, 175)
    if owed is None or not most_leverage:
        return None
    fee = size * _closing_bps(custody, size) // _BPS
    return u64(position, 169) - (size * _BPS // most_leverage + fee + owed)


def _ceil(over: int, under: int) -> int:
    return -(-over // under)
