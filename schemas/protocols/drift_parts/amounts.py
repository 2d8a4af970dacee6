"""What deposits, borrows and bets of Drift come to, rounded as the program rounds.

Source: programs/drift `math/spot_balance.rs`, `math/position.rs`, `math/funding.rs`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from schemas.protocols.drift_parts.layout import (
    MOST_DECIMALS,
    PerpMarket,
    PerpPosition,
    SpotMarket,
    SpotPosition,
)

BASE: Final = 10**9  # units of a whole base
PRICE: Final = 10**6  # of a dollar, and of a whole quote
_FUNDING: Final = 10**9  # a rate has 9 decimals, of them 3 as a buffer
_BASE_TO_QUOTE: Final = 10**3


class Profit(NamedTuple):
    """What a bet gained, in units of the quote token; what it lost is below 0."""

    notional: int  # at the mark price, or at the expiry price of a market that is settled
    by_price: int  # without fees and funding
    funding: int  # since it was last settled
    total: int


def token_amount(balance: int, market: SpotMarket, *, is_borrow: bool) -> int:
    """Return the raw amount of a balance: a deposit rounded down, a borrow up.

    Interest counts up to the market's last update.
    """
    interest = market.borrow_interest if is_borrow else market.deposit_interest
    scale: int = 10 ** (MOST_DECIMALS - market.decimals)
    return -(-balance * interest // scale) if is_borrow else balance * interest // scale


def signed_amount(position: SpotPosition, market: SpotMarket) -> int:
    """Return the raw amount of a position, a borrow below 0."""
    amount = token_amount(position.scaled_balance, market, is_borrow=position.is_borrow)
    return -amount if position.is_borrow else amount


def profit_of(position: PerpPosition, market: PerpMarket) -> Profit:
    """Return what a bet gained."""
    price = max(market.expiry_price if market.is_settled else market.price, 0)
    notional = abs(position.base) * price // BASE
    value = notional if position.base > 0 else -notional
    funding = _funding(position, market)
    return Profit(notional, value + position.quote_entry, funding, value + position.quote + funding)


def _funding(position: PerpPosition, market: PerpMarket) -> int:
    if not position.base:
        return 0
    rate = market.funding_rate_long if position.base > 0 else market.funding_rate_short
    owed = (rate - position.last_funding_rate) * position.base
    return -quotient(owed, _FUNDING * _BASE_TO_QUOTE)


def value_of(amount: int, price: int, market: SpotMarket) -> int:
    """Return what an amount is worth at a price, rounded down: a debt is the larger for it."""
    scale: int = 10**market.decimals
    return amount * price // scale


def quotient(dividend: int, divisor: int) -> int:
    """Return a quotient rounded toward zero, as the program's are; the divisor is not 0."""
    whole = abs(dividend) // abs(divisor)
    return whole if (dividend < 0) == (divisor < 0) else -whole
