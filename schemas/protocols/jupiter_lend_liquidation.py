"""What a liquidation left of a Jupiter Lend position: its tick's branch, and those it merged into.

A debt factor has 35 bits of coefficient over 15 of exponent. Source: `Tick`, `TickIdLiquidation`
and `Branch` of the vaults' IDL; the steps are those of `@jup-ag/lend-read` 0.0.10.
"""

from __future__ import annotations

from struct import error
from typing import Final, NamedTuple

from schemas.protocols.jupiter_lend_prices import debt_of, ratio_at
from schemas.solana.borsh import u32, u64

_EXPONENT_BITS: Final = 15
_COEFFICIENT_BITS: Final = 35
_EXPONENT_MAX: Final = (1 << _EXPONENT_BITS) - 1
_EXPONENT_OF_ONE: Final = 1 << 14
_NOTHING_LEFT: Final = (1 << _EXPONENT_BITS + _COEFFICIENT_BITS) - 1
_MERGED: Final = 2
_CLOSED: Final = 3
_PARTIALS: Final = (1 << 30) - 1
_MARKS_AT: Final = (18, 31, 44)  # of a TickIdLiquidation's three ids


class Trail(NamedTuple):
    """Where a position's liquidation leads: a branch, and the factor of its debt there."""

    branch: int
    factor: int
    is_over: bool  # nothing is left


class Left(NamedTuple):
    """What is left, in the vault's decimals."""

    collateral: int
    debt: int


def is_liquidated(position: bytes, tick: bytes) -> bool:
    """Return whether the position's part of its tick was liquidated; raises `struct.error`."""
    return bool(tick[14]) or u32(tick, 15) > u32(position, 51)


def is_latest(position: bytes, tick: bytes) -> bool:
    """Return whether the tick itself has the position's liquidation, not a TickIdLiquidation."""
    return u32(tick, 15) == u32(position, 51)


def trail_of_tick(tick: bytes) -> Trail:
    """Return where the tick's latest liquidation leads; raises `struct.error`."""
    return Trail(u32(tick, 28), u64(tick, 32), tick[27] == 1)


def trail_of_id(position: bytes, ids: bytes) -> Trail:
    """Return where the liquidation of the position's id leads; raises `struct.error`."""
    at = _MARKS_AT[(u32(position, 51) + 2) % 3]
    return Trail(u32(ids, at + 1), u64(ids, at + 5), ids[at] == 1)


def next_of(trail: Trail, branch: bytes) -> Trail | None:
    """Return where a merged branch leads; None where the trail ends at it."""
    if branch[14] != _MERGED:
        return None
    factor = _merged(trail.factor, u64(branch, 31))
    return Trail(u32(branch, 39), factor, factor == _NOTHING_LEFT)


def left_of(trail: Trail, branch: bytes, position: bytes) -> Left:
    """Return what is left by the branch at the trail's end; raises `struct.error`."""
    if branch[14] == _CLOSED:
        return Left(0, 0)
    tick = int.from_bytes(position[47:51], "little", signed=True)
    before = debt_of(tick, u64(position, 55))
    debt = _scaled(before, u64(branch, 31), trail.factor)
    debt = debt * 9999 // 10_000 if debt > before // 100 else 0
    if not debt:
        return Left(0, 0)
    high = ratio_at(int.from_bytes(branch[15:19], "little", signed=True))
    low = high * 10_000 // 10_015
    ratio = low + (high - low) * u32(branch, 19) // _PARTIALS
    net = max(debt - u64(position, 63), 0)
    return Left((debt << 48) // ratio if net else 0, net)


def _merged(first: int, second: int) -> int:
    """Return the product of two factors."""
    coefficient = (first >> _EXPONENT_BITS) * (second >> _EXPONENT_BITS)
    cut = _COEFFICIENT_BITS - (coefficient < 1 << 2 * _COEFFICIENT_BITS - 1)
    exponent = (first & _EXPONENT_MAX) + (second & _EXPONENT_MAX) + cut - _EXPONENT_OF_ONE
    if exponent < 0:
        raise error("a debt factor's exponent is too small")
    if exponent > _EXPONENT_MAX:
        return _NOTHING_LEFT
    return (coefficient >> cut) << _EXPONENT_BITS | exponent


def _scaled(debt: int, factor: int, by: int) -> int:
    """Return a debt by the ratio of two factors, rounded down."""
    if not factor or not by:
        return 0
    shift = (by & _EXPONENT_MAX) - (factor & _EXPONENT_MAX)
    if shift < 0 or not by >> _EXPONENT_BITS:
        raise error("a debt factor is larger than that it was liquidated at")
    if shift > 128:
        return 0
    scaled = debt * (factor >> _EXPONENT_BITS) // ((by >> _EXPONENT_BITS) << shift)
    if scaled >= 1 << 64:
        raise error("a debt is larger than 64 bits")
    return scaled
