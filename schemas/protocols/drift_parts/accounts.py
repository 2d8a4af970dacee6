"""Sub-accounts of Drift: deposits, borrows and bets, and how far each is from its liquidation.

A sub-account's deposits and borrows are one position, each bet is one: what it gained and did not
settle is owed to the wallet, what it lost is owed by it. `health` says what backs all of them
together, and has no assets: they are in `positions`. A bet with a deposit of its own is apart.

A bet on a market in settlement is closed at its expiry price for a fee (`settle_expired_position`),
which the margin does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from hashlib import sha256
from typing import Final

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Margin,
    Perp,
    Points,
    Position,
    Reading,
    Role,
    Route,
    Shape,
    World,
)
from schemas.protocols.drift_parts.amounts import (
    BASE,
    PRICE,
    Profit,
    profit_of,
    quotient,
    signed_amount,
    token_amount,
    value_of,
)
from schemas.protocols.drift_parts.layout import (
    QUOTE_MARKET,
    STATE_ADDRESS,
    USER,
    Fee,
    PerpMarket,
    PerpPosition,
    SpotMarket,
    User,
    fee_of,
    perp_market_address,
    perp_market_of,
    spot_market_address,
    spot_market_of,
    user_of,
)
from schemas.protocols.drift_parts.liquidation import WITHOUT_ORDERS, liquidation_price
from schemas.protocols.drift_parts.margin import (
    INITIAL,
    MAINTENANCE,
    Markets,
    Sums,
    crossed,
    isolated,
    liability,
)

ROUTES: Final = (
    Route(
        "positions",
        Shape.PERPS,
        "Deposits, borrows and perp positions of each sub-account",
    ),
    Route("health", Shape.PERPS, "Margin and health of each sub-account, and what may back more"),
    Route("lp", Shape.PERPS, "Shares of the AMMs of perp markets, a product that was retired"),
)
UNSUPPORTED: Final = (
    "interest since a market's last update",
    "prices: of bets and margin they are those that a market last saw, not its oracle's",
    "perp.leverage: the bets of a sub-account have one collateral, see `health`",
    "what a profit pays before the market's losers have settled",
    "what a withdrawal pays where a market is paused, or its vault has less than it owes",
)
_QUOTE_DECIMALS: Final = 6  # of profits and losses, whatever they are paid in
_NO_PRICE: Final = "margin: a market has seen no price"
_EARLY: Final = "margin: bytes of a bet are of the layout before the AMM's shares were retired"
_OTHER_POOL: Final = "margin: a market is of another pool than the sub-account"
_NO_LEVERAGE: Final = "margin.leverage: of accounts with open spot orders or isolated bets"
_NO_SHARES: Final = "assets: the program settles shares of an AMM no more"
_NO_LIQUIDATION: Final = "perp.liquidation_price_usd: the margin is not known"
_NO_FEE: Final = "assets.amount_raw: the fee for closing a bet on a settled market is not known"
_DECIMALS: Final = "assets.amount_raw: the market's quote has not the 6 decimals of a profit"
_UNKNOWN: Final = Margin(None, None, None, None, None, None)


def read(held: Held, world: World) -> Reading:
    """Return the positions of a wallet's sub-accounts; raises Unreadable."""
    users = [
        user
        for account in held.of(USER)
        if (user := user_of(account)).account.data[8:40] == held.wallet
        and (user.spots or user.perps)
    ]
    if not users:
        return []
    spots = {each.market_index for user in users for each in user.spots}
    perps = {each.market_index for user in users for each in user.perps}
    spots |= {QUOTE_MARKET} if perps else set()
    found = dict(
        (yield (*map(spot_market_address, sorted(spots)), *map(perp_market_address, sorted(perps))))
    )
    by_perp = {
        index: perp_market_of(account, index)
        for index in sorted(perps)
        if (account := found.get(perp_market_address(index))) is not None
    }
    quotes = {market.quote_market for market in by_perp.values()} - spots
    wanted = [*map(spot_market_address, sorted(quotes))]
    if any(each.is_settled for each in by_perp.values()):
        wanted.append(STATE_ADDRESS)
    if wanted:
        found |= yield tuple(wanted)
    state = found.get(STATE_ADDRESS)
    fee = None if state is None else fee_of(state)
    markets = Markets(_spot_markets(found, spots | quotes), by_perp, fee)
    return [position for user in users for position in _positions(user, markets)]


def _spot_markets(found: Mapping[bytes, Account], indexes: set[int]) -> dict[int, SpotMarket]:
    return {
        index: spot_market_of(account, index)
        for index in sorted(indexes)
        if (account := found.get(spot_market_address(index))) is not None
    }


def _positions(user: User, markets: Markets) -> Iterator[Position]:
    missing, used = _needed(user, markets)
    slot = min((each.slot for each in used), default=None)
    why = _unknown_margin(user, used) if not missing else None
    is_known = not (missing or why)
    spots = _spots(user, markets)
    if spots.assets or spots.missing:
        yield spots
    for perp in user.perps:
        if perp.lp_shares:
            yield _shares(user, perp, slot)
        if perp.is_active:
            bet = _bet(user, perp, markets, is_known=is_known)
            if why is not None and bet.perp is not None:
                bet.unsupported_fields.append(_NO_LIQUIDATION)
            yield bet
    for health in _health(user, markets, is_known=is_known):
        health.missing += missing
        health.reference_slot = slot
        if why is not None:
            health.unsupported_fields.append(why)
        yield health


def _needed(user: User, markets: Markets) -> tuple[list[bytes], list[SpotMarket | PerpMarket]]:
    """Return the addresses of markets that are not known, and the markets that are."""
    spots = {each.market_index for each in user.spots}
    perps = {each.market_index for each in user.perps if each.is_active}
    spots |= {market.quote_market for index in perps if (market := markets.perps.get(index))}
    missing = [spot_market_address(each) for each in sorted(spots - markets.spots.keys())]
    missing += [perp_market_address(each) for each in sorted(perps - markets.perps.keys())]
    return missing, [
        *(markets.spots[each] for each in sorted(spots & markets.spots.keys())),
        *(markets.perps[each] for each in sorted(perps & markets.perps.keys())),
    ]


def _unknown_margin(user: User, used: list[SpotMarket | PerpMarket]) -> str | None:
    """Return why the margin of a sub-account cannot be known, None where it can."""
    if any(each.is_early and each.is_active for each in user.perps):
        return _EARLY
    if any(each.pool_id != user.pool_id for each in used):
        return _OTHER_POOL
    if any(each.price <= 0 for each in used):
        return _NO_PRICE
    return None


def _spots(user: User, markets: Markets) -> Position:
    position = Position("positions", user.account)
    slots = []
    for each in user.spots:
        market = markets.spots.get(each.market_index)
        if market is None:
            position.missing.append(spot_market_address(each.market_index))
            continue
        slots.append(market.slot)
        if amount := signed_amount(each, market):
            role = Role.BORROW if amount < 0 else Role.SUPPLY
            position.assets.append(_line(role, abs(amount), market))
    position.reference_slot = min(slots, default=None)
    return position


def _line(role: Role, amount_raw: int | None, market: SpotMarket) -> Asset:
    price = Fraction(market.price, PRICE) if market.price > 0 else None
    return Asset(role, market.mint, amount_raw, market.decimals, price)


def _bet(user: User, perp: PerpPosition, markets: Markets, *, is_known: bool) -> Position:
    address = perp_market_address(perp.market_index)
    position = Position("positions", user.account, id=_id(user, perp, b"perp"), market=address)
    market = markets.perps.get(perp.market_index)
    if market is None:
        position.missing.append(address)
        return position
    position.reference_slot = market.slot
    profit = profit_of(perp, market)
    if perp.base:
        end = _liquidation(user, perp, markets) if is_known else None
        position.perp = _perp(perp, market, profit, end)
    quote = markets.spots.get(market.quote_market)
    if quote is None:
        position.missing.append(spot_market_address(market.quote_market))
        return position
    position.reference_slot = min(market.slot, quote.slot)
    if deposit := token_amount(perp.isolated_balance, quote, is_borrow=False):
        position.assets.append(_line(Role.SUPPLY, deposit, quote))
    if market.is_settled and perp.base:
        _close(position, profit, markets.fee, quote)
    else:
        _add_profit(position, profit.total, quote)
    return position


def _close(position: Position, profit: Profit, fee: Fee | None, quote: SpotMarket) -> None:
    """Add what a bet on a settled market pays when it is closed."""
    if fee is not None:
        position.reference_slot = min(position.reference_slot or fee.slot, fee.slot)
        _add_profit(position, profit.total - fee.of(profit.notional), quote)
        return
    position.missing.append(STATE_ADDRESS)
    position.unsupported_fields.append(_NO_FEE)
    role = Role.PENDING if profit.total > 0 else Role.BORROW
    position.assets.append(_line(role, None, quote))


def _add_profit(position: Position, total: int, quote: SpotMarket) -> None:
    if not total:
        return
    is_paid = quote.decimals == _QUOTE_DECIMALS
    role = Role.PENDING if total > 0 else Role.BORROW
    position.assets.append(_line(role, abs(total) if is_paid else None, quote))
    if not is_paid:
        position.unsupported_fields.append(_DECIMALS)


def _perp(perp: PerpPosition, market: PerpMarket, profit: Profit, end: int | None) -> Perp:
    price = market.expiry_price if market.is_settled else market.price
    return Perp(
        symbol=market.symbol,
        side="long" if perp.base > 0 else "short",
        size=Fraction(abs(perp.base), BASE),
        notional_usd=Fraction(profit.notional, PRICE),
        entry_price_usd=Fraction(abs(perp.quote_entry) * BASE, abs(perp.base) * PRICE),
        mark_price_usd=Fraction(price, PRICE) if price > 0 else None,
        liquidation_price_usd=None if end is None else Fraction(end, PRICE),
        leverage=None,  # bets of a sub-account have one collateral: see `health`
        unrealized_usd=Fraction(profit.by_price, PRICE),
        funding_usd=Fraction(profit.funding, PRICE),
    )


def _liquidation(user: User, perp: PerpPosition, markets: Markets) -> int | None:
    if perp.is_isolated:
        sums = isolated(perp, user, markets, WITHOUT_ORDERS)
    else:
        sums = crossed(user, markets, WITHOUT_ORDERS)
    return liquidation_price(perp, markets.perps[perp.market_index], user, markets, sums)


def _shares(user: User, perp: PerpPosition, slot: int | None) -> Position:
    return Position(
        "lp",
        user.account,
        id=_id(user, perp, b"lp"),
        market=perp_market_address(perp.market_index),
        reference_slot=slot,
        points=[Points("lp_shares", perp.lp_shares)],
        unsupported_fields=[_NO_SHARES],
    )


def _health(user: User, markets: Markets, *, is_known: bool) -> Iterator[Position]:
    apart = [each for each in user.perps if each.is_active and each.is_isolated]
    if user.spots or any(each.is_active and not each.is_isolated for each in user.perps):
        position = Position("health", user.account, margin=_UNKNOWN)
        if is_known:
            sums = [crossed(user, markets, rules) for rules in (MAINTENANCE, INITIAL)]
            leverage = None
            if apart or any(each.open_orders for each in user.spots):
                position.unsupported_fields.append(_NO_LEVERAGE)
            else:
                leverage = _leverage(user, markets)
            position.margin = _margin(sums, leverage, is_liquidated=user.is_liquidated)
        yield position
    for perp in apart:
        address = perp_market_address(perp.market_index)
        identity = _id(user, perp, b"health")
        position = Position("health", user.account, id=identity, market=address, margin=_UNKNOWN)
        if is_known:
            sums = [isolated(perp, user, markets, rules) for rules in (MAINTENANCE, INITIAL)]
            leverage = _isolated_leverage(perp, markets)
            position.margin = _margin(sums, leverage, is_liquidated=perp.is_liquidated)
        yield position


def _margin(sums: list[Sums], leverage: Fraction | None, *, is_liquidated: bool) -> Margin:
    maintenance, initial = sums
    return Margin(
        collateral_usd=Fraction(maintenance.collateral, PRICE),
        maintenance_usd=Fraction(maintenance.requirement, PRICE),
        initial_usd=Fraction(initial.requirement, PRICE),
        free_usd=Fraction(initial.free, PRICE),
        leverage=leverage,
        health_pct=Fraction(0) if is_liquidated else _health_pct(maintenance),
    )


def _health_pct(sums: Sums) -> Fraction:
    if not sums.requirement and sums.collateral >= 0:
        return Fraction(100)
    if sums.collateral <= 0:
        return Fraction(0)
    return max(100 - Fraction(100 * sums.requirement, sums.collateral), Fraction(0))


def _leverage(user: User, markets: Markets) -> Fraction | None:
    """Return debts and the liabilities of bets by what the sub-account is worth."""
    owed = worth = 0
    for each in user.spots:
        market = markets.spots[each.market_index]
        value = value_of(signed_amount(each, market), market.price, market)
        owed -= min(value, 0)
        worth += value
    for perp in user.perps:
        if perp.is_active:
            gained, bet = _unweighted(perp, markets)
            worth += gained
            owed += bet
    return Fraction(owed, worth) if worth > 0 else None


def _isolated_leverage(perp: PerpPosition, markets: Markets) -> Fraction | None:
    market = markets.perps[perp.market_index]
    quote = markets.spots[market.quote_market]
    deposit = token_amount(perp.isolated_balance, quote, is_borrow=False)
    worth = value_of(deposit, quote.price, quote) + profit_of(perp, market).total
    owed = _unweighted(perp, markets)[1]
    return Fraction(owed, worth) if worth > 0 else None


def _unweighted(perp: PerpPosition, markets: Markets) -> tuple[int, int]:
    """Return what a bet gained, and its liability with the worse side of its orders filled."""
    market = markets.perps[perp.market_index]
    gained = profit_of(perp, market).total * markets.spots[market.quote_market].price
    if market.is_settled:
        market = market._replace(price=market.expiry_price)
    return quotient(gained, PRICE), liability(perp, market, with_orders=True)[1]


def _id(user: User, perp: PerpPosition, what: bytes) -> bytes:
    """Return what names one of the positions of a sub-account, as no account does."""
    market = perp.market_index.to_bytes(2, "little")
    return sha256(b"drift" + what + user.account.address + market).digest()
