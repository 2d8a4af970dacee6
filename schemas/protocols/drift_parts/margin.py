"""Margin of a sub-account of Drift: what backs its bets and loans, and what they require.

Amounts are millionths of a dollar, prices those that the markets last saw. What may be opened
(`initial`) counts each price at the worse of itself and its mean over five minutes; what is
liquidated (`maintenance`) at the price alone. Open orders count as if their worse side was filled.

Source: programs/drift `math/margin.rs`, `state/spot_market.rs`, `state/perp_market.rs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt
from typing import Final, NamedTuple

from schemas.protocols.contract import Unreadable
from schemas.protocols.drift_parts.amounts import (
    BASE,
    PRICE,
    profit_of,
    quotient,
    signed_amount,
    token_amount,
    value_of,
)
from schemas.protocols.drift_parts.layout import (
    QUOTE_MARKET,
    Fee,
    PerpMarket,
    PerpPosition,
    SpotMarket,
    SpotPosition,
    User,
)

WEIGHT: Final = 10_000  # of one: weights and margin ratios
_IMF: Final = 10**6  # of one: factors by which size makes weights worse
_ROOT: Final = 10**5  # of the root of one base
_OPEN_ORDER: Final = 10_000  # required for each: a cent
_MOST_GAINED: Final = 100 * PRICE  # of a bet, that backs more bets


@dataclass(slots=True)
class Sums:
    """What backs, and what is required."""

    collateral: int = 0
    requirement: int = 0

    def add(self, other: Sums) -> None:
        """Add what another position brings."""
        self.collateral += other.collateral
        self.requirement += other.requirement

    @property
    def free(self) -> int:
        """Return what backs more than is required."""
        return max(self.collateral - self.requirement, 0)


class Markets(NamedTuple):
    """The markets of a sub-account, by index, and what bets on settled ones pay."""

    spots: Mapping[int, SpotMarket]
    perps: Mapping[int, PerpMarket]
    fee: Fee | None  # None: none of them is settled, or it is not known


class Rules(NamedTuple):
    """By what is counted."""

    is_initial: bool
    with_orders: bool = True


MAINTENANCE: Final = Rules(is_initial=False)
INITIAL: Final = Rules(is_initial=True)


class _Outcome(NamedTuple):
    """What a position would be with one side of its orders filled."""

    value: int
    weighted: int
    orders: int  # of the quote token, that they receive or pay

    @property
    def contribution(self) -> int:
        return self.weighted + self.orders


def crossed(user: User, markets: Markets, rules: Rules) -> Sums:
    """Return the sums of all positions that back each other; raises Unreadable."""
    sums = Sums()
    for spot in user.spots:
        sums.add(_spot(spot, markets.spots[spot.market_index], user, rules))
    for perp in user.perps:
        if perp.is_active and not perp.is_isolated:
            market = markets.perps[perp.market_index]
            sums.add(_perp(perp, market, markets.spots[market.quote_market], user, rules))
    return sums


def isolated(perp: PerpPosition, user: User, markets: Markets, rules: Rules) -> Sums:
    """Return the sums of a bet that its own deposit backs alone; raises Unreadable."""
    market = markets.perps[perp.market_index]
    quote = markets.spots[market.quote_market]
    sums = _perp(perp, market, quote, user, rules)
    amount = token_amount(perp.isolated_balance, quote, is_borrow=False)
    sums.collateral += _value(amount, quote, rules)
    return sums


def liability(perp: PerpPosition, market: PerpMarket, *, with_orders: bool) -> tuple[int, int]:
    """Return the size and the liability of a bet, with the worse side of its orders filled."""
    sizes = (perp.base + perp.open_asks, perp.base + perp.open_bids)
    if not with_orders:
        sizes = (perp.base, perp.base)
    asks, bids = (_liability(size, market) for size in sizes)
    return (sizes[0], asks) if asks >= bids else (sizes[1], bids)


def margin_ratio(market: PerpMarket, size: int, user: User, rules: Rules) -> int:
    """Return which part of a liability is required; raises Unreadable."""
    mode = user.has_high_leverage if rules.is_initial else user.has_high_leverage_maintenance
    is_high = mode and market.high_leverage_ratio > 0 and market.high_leverage_ratio_initial > 0
    if not rules.is_initial:
        ratio = market.high_leverage_ratio if is_high else market.ratio
    else:
        ratio = market.high_leverage_ratio_initial if is_high else market.ratio_initial
    if not (is_high and rules.is_initial):
        return max(ratio, _premium(size, market.imf_factor, ratio))
    return _high_leverage_ratio(market, size, ratio)


def asset_weight(market: SpotMarket, amount: int, rules: Rules) -> int:
    """Return which part of a deposit backs."""
    weight = market.asset_weight
    if rules.is_initial:
        weight = market.asset_weight_initial
        deposits = token_amount(market.deposit_balance, market, is_borrow=False)
        value = value_of(deposits, market.price, market)
        if market.scale_start and value >= market.scale_start:
            weight = weight * market.scale_start // value
    return _discount(_in_base(amount, market), market.imf_factor, weight)


def liability_weight(market: SpotMarket, amount: int, rules: Rules) -> int:
    """Return how many times a borrow is required."""
    weight = market.liability_weight_initial if rules.is_initial else market.liability_weight
    return max(weight, _premium(_in_base(amount, market), market.imf_factor, weight))


def _spot(position: SpotPosition, market: SpotMarket, user: User, rules: Rules) -> Sums:
    amount = signed_amount(position, market)
    value = _value(amount, market, rules)
    if market.number == QUOTE_MARKET:
        return Sums(requirement=-value) if position.is_borrow else Sums(value)
    ratio = user.max_margin_ratio if rules.is_initial else 0
    outcome = _worse(position, amount, value, market, ratio, rules)
    sums = Sums(requirement=position.open_orders * _OPEN_ORDER if rules.with_orders else 0)
    if outcome.value > 0:
        sums.collateral += outcome.weighted
    else:
        sums.requirement -= outcome.weighted
    sums.collateral += max(outcome.orders, 0)
    sums.requirement += max(-outcome.orders, 0)
    return sums


def _worse(
    position: SpotPosition, amount: int, value: int, market: SpotMarket, ratio: int, rules: Rules
) -> _Outcome:
    if not rules.with_orders or not (position.open_bids or position.open_asks):
        return _Outcome(value, _weighted(amount, value, market, ratio, rules), 0)
    high = _prices(market, rules)[1]
    sides = []
    for filled in (position.open_asks, position.open_bids):
        orders = value_of(-filled, high, market)
        after = _weighted(amount + filled, value - orders, market, 0, rules)
        sides.append((_Outcome(value - orders, after, orders), amount + filled))
    worse, size = sides[0] if sides[0][0].contribution <= sides[1][0].contribution else sides[1]
    return worse._replace(weighted=_weighted(size, worse.value, market, ratio, rules))


def _weighted(amount: int, value: int, market: SpotMarket, ratio: int, rules: Rules) -> int:
    """Return a value by its weight; `ratio` is the least margin that the user wants to have."""
    if value > 0:
        weight = asset_weight(market, abs(amount), rules)
        if ratio:
            weight = min(weight, max(WEIGHT - ratio, 0))
    else:
        weight = liability_weight(market, abs(amount), rules)
        if ratio:
            weight = max(weight, WEIGHT + ratio)
    return quotient(value * weight, WEIGHT)


def _perp(
    perp: PerpPosition, market: PerpMarket, quote: SpotMarket, user: User, rules: Rules
) -> Sums:
    low, high = _prices(quote, rules)
    required = 0
    if not market.is_settled:
        size, owed = liability(perp, market, with_orders=rules.with_orders)
        ratio = margin_ratio(market, abs(size), user, rules)
        if rules.is_initial:
            ratio = max(ratio, user.max_margin_ratio, perp.max_margin_ratio)
        required = owed * high // PRICE * ratio // WEIGHT
    if rules.with_orders:
        required += perp.open_orders * _OPEN_ORDER
    gained = profit_of(perp, market).total
    if gained > 0:
        gained = gained * _profit_weight(market, gained, rules) // WEIGHT * low // PRICE
        if rules.is_initial:
            gained = min(gained, _MOST_GAINED)
    else:
        gained = quotient(gained * high, PRICE)
    return Sums(gained, required)


def _profit_weight(market: PerpMarket, gained: int, rules: Rules) -> int:
    if not rules.is_initial:
        return market.pnl_weight
    weight = market.pnl_weight_initial
    net = quotient(market.users_base * market.price, BASE) + market.users_quote
    if market.max_imbalance and net > market.max_imbalance:
        weight = weight * market.max_imbalance // net
    return _discount(gained * BASE // PRICE, market.pnl_imf_factor, weight) if weight else 0


def _high_leverage_ratio(market: PerpMarket, size: int, ratio: int) -> int:
    usual = market.ratio_initial
    sized = _premium(size, market.imf_factor, usual)
    if sized > usual:
        return sized
    if sized == usual:
        return ratio
    if not usual // 5:  # the program divides by it
        raise Unreadable(f"perp market: margin_ratio_initial {usual} at 1136", market.address)
    discount = max(_IMF - (usual - sized) * _IMF // (usual // 5), 0)
    return max(usual - ratio, 1) * discount // _IMF + ratio


def _liability(size: int, market: PerpMarket) -> int:
    price = max(market.price, 0)
    if market.is_prediction and size < 0:
        price = max(PRICE - price, 0)  # such a market ends at 0 or 1
    return abs(size) * price // BASE


def _value(amount: int, market: SpotMarket, rules: Rules) -> int:
    low, high = _prices(market, rules)
    return value_of(amount, low if amount > 0 else high, market)


def _prices(market: SpotMarket, rules: Rules) -> tuple[int, int]:
    if not rules.is_initial:
        return market.price, market.price
    both = market.price, market.price_5min
    return min(both), max(both)


def _in_base(amount: int, market: SpotMarket) -> int:
    """Return an amount with the decimals that sizes are compared in."""
    scale: int = 10**market.decimals
    return amount // (scale // BASE) if scale > BASE else amount * BASE // scale


def _premium(size: int, factor: int, weight: int) -> int:
    """Return a weight that grows with the root of the size, from four fifths of itself."""
    if not factor:
        return weight
    return weight - weight // 5 + _root(size) * factor // (_ROOT * _IMF // WEIGHT)


def _discount(size: int, factor: int, weight: int) -> int:
    """Return a weight that shrinks with the root of the size."""
    if not factor:
        return weight
    shrunk = (_IMF + _IMF // 10) * WEIGHT // (_IMF + _root(size) * factor // _ROOT)
    return min(weight, shrunk)


def _root(size: int) -> int:
    return isqrt(size * 10 + 1)
