"""What a marginfi bank's shares are worth now: the interest since its last update.

Source: marginfi-v2 `Bank::accrue_interest`, `InterestRateCalc` (curve of seven points) and IDL
0.1.9's `Bank`, `MarginfiGroup`. All numbers are I80F48, scaled by 2**48.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from schemas.protocols.math.i80f48 import BITS, ONE, i80f48, product, quotient
from schemas.solana.borsh import i64, u32, u64

YEAR_S: Final = 31_536_000
_CACHED_BANKS: Final = 1 << 10  # banks, of which there are hundreds; some 3 kB each
_CURVE_OF_SEVEN: Final = 1
_CURVE_AT: Final = 544
_POINTS_AT: Final = range(504, 504 + 5 * 8, 8)
_FEES_BY_RATE_AT: Final = (432, 464)  # insurance, group
_FIXED_FEES_AT: Final = (416, 448)
_U32_MAX: Final = ((1 << 32) - 1) << BITS
_HIGHEST_RATE: Final = 10  # that a u32 expresses: 1,000 % a year
_PROGRAM_FEES_ENABLED: Final = 1


class ShareValues(NamedTuple):
    """What a share is worth in raw tokens."""

    asset: int
    liability: int


class Rates(NamedTuple):
    """Interest of a year, by the tokens lent."""

    lending: int
    borrowing: int


def stored_values(bank: bytes) -> ShareValues:
    """Return the values at the bank's last update; raises `struct.error`."""
    return ShareValues(i80f48(bank, 80), i80f48(bank, 96))


@lru_cache(_CACHED_BANKS)
def is_idle(bank: bytes, time_s: int) -> bool:
    """Return whether no interest is due: no time has passed, or nothing is supplied or borrowed."""
    assets, liabilities = _totals(bank)
    return time_s <= i64(bank, 288) or assets <= 0 or liabilities <= 0


def has_known_curve(bank: bytes) -> bool:
    """Return whether the program still accrues by the bank's curve; older curves it refuses."""
    return bank[_CURVE_AT] == _CURVE_OF_SEVEN


@lru_cache(_CACHED_BANKS)  # one bank is in many balances, and time passes by the slot
def values_at(bank: bytes, group: bytes, time_s: int) -> ShareValues | None:
    """Return the values at a time; None where the curve is not one the program accepts."""
    values = stored_values(bank)
    if is_idle(bank, time_s):
        return values
    rates = rates_of(bank, group)
    if rates is None:
        return None
    past_s = time_s - i64(bank, 288)
    asset, liability = (
        product(value, ONE + rate * past_s // YEAR_S)
        for value, rate in zip(values, rates, strict=True)
    )
    return ShareValues(asset, liability)


def rates_of(bank: bytes, group: bytes) -> Rates | None:
    """Return the rates at the bank's utilization; None as `values_at`; raises `struct.error`."""
    assets, liabilities = _totals(bank)
    if not has_known_curve(bank) or assets <= 0 or liabilities < 0:
        return None
    utilization = quotient(liabilities, assets)
    base = _base_rate(bank, min(utilization, ONE))
    if base is None:
        return None
    by_rate = sum(i80f48(bank, at) for at in _FEES_BY_RATE_AT)
    fixed = sum(i80f48(bank, at) for at in _FIXED_FEES_AT)
    if u64(group, 40) & _PROGRAM_FEES_ENABLED:
        fixed += i80f48(group, 80)
        by_rate += i80f48(group, 96)
    rates = Rates(product(base, utilization), product(base, ONE + by_rate) + fixed)
    return rates if min(rates) >= 0 else None


def _totals(bank: bytes) -> tuple[int, int]:
    values = stored_values(bank)
    assets = product(i80f48(bank, 272), values.asset)
    return assets, product(i80f48(bank, 256), values.liability)


def _base_rate(bank: bytes, utilization: int) -> int | None:
    for (left, low), (right, high) in pairwise(_curve(bank)):
        if utilization > right:
            continue
        if right <= left:
            return low
        if utilization < left or high < low:
            return None  # the program fails
        return low + product(high - low, quotient(utilization - left, right - left))
    return None


def _curve(bank: bytes) -> Iterator[tuple[int, int]]:
    """Yield utilization and rate of each point."""
    yield 0, _share_of(u32(bank, 496)) * _HIGHEST_RATE
    for at in _POINTS_AT:
        if utilization := u32(bank, at):
            yield _share_of(utilization), _share_of(u32(bank, at + 4)) * _HIGHEST_RATE
    yield ONE, _share_of(u32(bank, 500)) * _HIGHEST_RATE


def _share_of(value: int) -> int:
    return quotient(value << BITS, _U32_MAX)
