"""What a position has beside its assets: health, range, locks, bets and votes, as answered."""

from __future__ import annotations

from fractions import Fraction
from typing import Final, overload

from api.positions.answers import (
    HealthAnswer,
    LockAnswer,
    MarginAnswer,
    PerpAnswer,
    PointsAnswer,
    RangeAnswer,
    VotingAnswer,
)
from schemas.amounts import text
from schemas.protocols.contract import Health, Lock, Margin, Perp, Points, Range, Voting
from schemas.solana.addresses import text as address_text

_MOST_INTEGER: Final = (1 << 53) - 1  # above it JSON numbers are not exact, and 2**64 is none


def number(ratio: Fraction | None) -> float | None:
    """Return a ratio as JSON has it; None while it is not known, or beyond what a number holds."""
    if ratio is None:
        return None
    over, under = ratio.as_integer_ratio()
    try:
        return over / under
    except OverflowError:
        return None


@overload
def integer(value: int) -> int: ...
@overload
def integer(value: int | None) -> int | None: ...
def integer(value: int | None) -> int | None:
    """Return a time, slot or epoch as JSON has it: what lies beyond its integers, at their bound.

    Strangers write these, and an answer with one that is too large could not be encoded at all.
    """
    if value is None or -_MOST_INTEGER <= value <= _MOST_INTEGER:
        return value
    return _MOST_INTEGER if value > 0 else -_MOST_INTEGER


def health_answer(health: Health) -> HealthAnswer:
    """Return a loan's health; whether it is at risk is said of the exact ratio."""
    factor = health.health_factor
    return {
        "health_factor": number(factor),
        "ltv": number(health.ltv),
        "liquidation_ltv": number(health.liquidation_ltv),
        "at_risk": None if factor is None else factor < 1,
        "prices": "protocol",
    }


def range_answer(of: Range) -> RangeAnswer:
    """Return between which prices liquidity earns."""
    return {
        "base": address_text(of.base),
        "quote": address_text(of.quote),
        "lower_index": integer(of.lower_index),
        "upper_index": integer(of.upper_index),
        "current_index": integer(of.current_index),
        "lower": number(of.lower),
        "upper": number(of.upper),
        "current": number(of.current),
        "is_in_range": of.is_in_range,
    }


def lock_answer(lock: Lock) -> LockAnswer:
    """Return what keeps a part of a position from being withdrawn."""
    return {
        "kind": lock.kind,
        "locked_raw": text(lock.locked_raw),
        "claimable_raw": text(lock.claimable_raw),
        "ends_ms": integer(lock.ends_ms),
        "ends_slot": integer(lock.ends_slot),
    }


def perp_answer(of: Perp) -> PerpAnswer:
    """Return an open bet on a price."""
    return {
        "symbol": of.symbol,
        "side": of.side,
        "size": number(of.size),
        "notional_usd": number(of.notional_usd),
        "entry_price_usd": number(of.entry_price_usd),
        "mark_price_usd": number(of.mark_price_usd),
        "liquidation_price_usd": number(of.liquidation_price_usd),
        "leverage": number(of.leverage),
        "unrealized_usd": number(of.unrealized_usd),
        "funding_usd": number(of.funding_usd),
    }


def margin_answer(of: Margin) -> MarginAnswer:
    """Return what backs an account's bets and loans."""
    return {
        "collateral_usd": number(of.collateral_usd),
        "maintenance_usd": number(of.maintenance_usd),
        "initial_usd": number(of.initial_usd),
        "free_usd": number(of.free_usd),
        "leverage": number(of.leverage),
        "health_pct": number(of.health_pct),
    }


def voting_answer(of: Voting) -> VotingAnswer:
    """Return what a deposit counts for in votes."""
    return {
        "power_raw": text(of.power_raw),
        "open_votes": integer(of.open_votes),
        "delegate": None if of.delegate is None else address_text(of.delegate),
    }


def points_answer(of: Points) -> PointsAnswer:
    """Return a count that a protocol keeps, which is no token."""
    return {"name": of.name, "amount": str(of.amount)}
