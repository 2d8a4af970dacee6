"""The price at which a bet of Drift is liquidated, while all other prices stay.

A deposit or borrow of a market with the same oracle moves with the bet. Open orders do not count.

Source: `User.liquidationPrice` of `@drift-labs/sdk`.
"""

from __future__ import annotations

from typing import Final

from schemas.protocols.drift_parts.amounts import BASE, PRICE, quotient, signed_amount
from schemas.protocols.drift_parts.layout import PerpMarket, PerpPosition, SpotMarket, User
from schemas.protocols.drift_parts.margin import (
    WEIGHT,
    Markets,
    Rules,
    Sums,
    asset_weight,
    liability_weight,
    margin_ratio,
)

WITHOUT_ORDERS: Final = Rules(is_initial=False, with_orders=False)
# How many tokens the price of an oracle's source is of, by the number of the source.
_TOKENS: Final = {3: 1_000, 4: 1_000_000, 8: 1_000, 9: 1_000_000, 13: 1_000, 14: 1_000_000}


def liquidation_price(
    perp: PerpPosition, market: PerpMarket, user: User, markets: Markets, sums: Sums
) -> int | None:
    """Return a price with 6 decimals, None where no price above 0 liquidates; raises Unreadable.

    `sums` are those of what backs the bet, by `WITHOUT_ORDERS`.
    """
    if market.is_settled or market.is_prediction or not perp.base:
        return None
    ratio = margin_ratio(market, abs(perp.base), user, WITHOUT_ORDERS) * PRICE // WEIGHT
    gain = PRICE - ratio if perp.base > 0 else -PRICE - ratio
    delta = quotient(gain * abs(perp.base), BASE)
    if not perp.is_isolated:
        delta += sum(
            _spot_delta(signed_amount(spot, at), at, market)
            for spot in user.spots
            if (at := markets.spots[spot.market_index]).oracle == market.oracle
        )
    if not delta:
        return None
    price = market.price - quotient(sums.free * PRICE, delta)
    return price if price >= 0 else None


def _spot_delta(amount: int, spot: SpotMarket, market: PerpMarket) -> int:
    """Return what a deposit or borrow gains when the bet's price rises by a dollar."""
    if amount > 0:
        weight = asset_weight(spot, amount, WITHOUT_ORDERS) * PRICE // WEIGHT
    else:
        weight = -(liability_weight(spot, -amount, WITHOUT_ORDERS) * PRICE // WEIGHT)
    delta = quotient(weight * abs(amount), 10**spot.decimals)
    tokens, of_bet = _TOKENS.get(spot.oracle_source, 1), _TOKENS.get(market.oracle_source, 1)
    return quotient(delta * tokens, of_bet)
