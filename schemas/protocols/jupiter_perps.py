"""Jupiter Perpetuals: open bets against the JLP pool, at the prices of its Doves oracle.

A bet keeps dollars: its size at entry, and its collateral as it was worth when it was deposited.
It is settled in the collateral's token. It owes a borrow fee that grows with every second at the
rate of the custody that its payout is locked in, and a fee for closing: a part of its size, more
for a large one. An account stays when a bet is closed, with a size of 0.

Source: the program's IDL; the arithmetic is that of Jupiter's own published examples for it
(`getPositionPnl`, `getBorrowFee`, `getAdditivePriceImpactFeeBps`, `getLiquidationPrice`). Two of
them differ in whose rate a short pays: it is that of the collateral's custody, which lends. The
liquidation price here counts borrow fees until now, not until the custody's last update.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from schemas.protocols.contract import (
    Account,
    Held,
    Kind,
    Perp,
    Position,
    Protocol,
    Reading,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.protocols.jupiter_perps_fees import borrow_fee, closing_fee, left_to_lose
from schemas.protocols.pool_perps import (
    MICROS,
    OLDEST_PRICE_S,
    SIDES,
    Token,
    gain_of,
    lines,
    liquidation_price,
    price_of,
)
from schemas.solana.addresses import key
from schemas.solana.borsh import i64, raw_pubkey, u64
from schemas.solana.derived import derived

PROGRAM: Final = key("PERPHjGBqRHArX4DySjwM6UJHiR3sWAatqfdBS2qQJu")
DOVES: Final = key("DoVEsk76QybCEHQGzkvYPWLQu9gzNoZZZt3TPiL597e")

_SYMBOLS: Final = {
    key("So11111111111111111111111111111111111111112"): "SOL",
    key("7vfCXTUXx5WJV5JADk17DUJ4ksgau7utNKj4b963voxs"): "ETH",
    key("3NZ9JMVBmGAqocybic2c7LQCJScmgsAZ6vQqTDzcqmJh"): "BTC",
}
_STABLE: Final = tuple(
    key(mint)
    for mint in (
        "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",  # USDC
        "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB",  # USDT
        "JuprjznTrTSp2UFa3ZBUFgwdAmtZCq4MQCwysN55USD",  # JupUSD
    )
)

_OWNER_AT: Final = 8
_POSITION_LEAST: Final = 210  # fields; accounts have some bytes more
POSITION: Final = Kind(
    "jupiter_perps_position", PROGRAM, bytes.fromhex("aabc8fe47a40f7d0"), wallets=(_OWNER_AT,)
)
_CUSTODY_LEAST: Final = 1_036
CUSTODY: Final = Kind("jupiter_perps_custody", PROGRAM, bytes.fromhex("01b830515d833f91"))
_FEED_LEAST: Final = 202
FEED: Final = Kind(
    "doves_price",
    DOVES,
    bytes.fromhex("70f98bd9d7d0f936"),
    addresses=tuple(derived(DOVES, b"ag_feed", mint) for mint in (*_SYMBOLS, *_STABLE)),
)

_NO_CUSTODY: Final = "assets: the custody, which says what they are of, is not known"
_NO_PRICE: Final = "the oracle's price is not known, or older than a minute"
_NO_RATE: Final = (
    "perp.funding_usd, perp.liquidation_price_usd: its custody's bytes give no borrow rate"
)
_NO_LIMIT: Final = "perp.liquidation_price_usd: its custody names no greatest leverage"
_NO_FEE: Final = (
    "assets: the fee for closing, as so large a change of the pool's balance costs more, by what "
    "others trade in the same minute"
)


def read(held: Held, world: World) -> Reading:
    """Return a wallet's open bets; raises Unreadable."""
    own = [
        each
        for each in held.of(POSITION)
        if raw_pubkey(_checked(each, _POSITION_LEAST).data, _OWNER_AT) == held.wallet
        and u64(each.data, 161)
    ]
    if not own:
        return []
    custodies = yield tuple(
        dict.fromkeys(raw_pubkey(each.data, at) for each in own for at in (72, 104))
    )
    for custody in custodies.values():
        if custody.kind is not CUSTODY:
            raise Unreadable(f"custody: it is {custody.kind.name}", custody.address)
        _checked(custody, _CUSTODY_LEAST)
    feeds: Mapping[bytes, Account] = {}
    if custodies:
        feeds = yield tuple(dict.fromkeys(_feed_of(each) for each in custodies.values()))
    return [_position(each, custodies, feeds, world.time_s) for each in own]


def _position(
    account: Account,
    custodies: Mapping[bytes, Account],
    feeds: Mapping[bytes, Account],
    now_s: int,
) -> Position:
    """Return an open bet; raises Unreadable."""
    data = account.data
    if data[152] not in SIDES:
        raise Unreadable(f"position: side {data[152]} at 152", account.address)
    side, entry, size = SIDES[data[152]], u64(data, 153), u64(data, 161)
    if not entry:
        raise Unreadable("position: no price at 153", account.address)
    traded, collateral = raw_pubkey(data, 72), raw_pubkey(data, 104)
    position = Position("positions", account, market=traded)
    position.missing = [
        each for each in dict.fromkeys((traded, collateral)) if each not in custodies
    ]
    units = Fraction(size, entry)
    position.perp = Perp(
        None, side, units, None, Fraction(entry, MICROS), None, None, None, None, None
    )
    if position.missing:
        position.unsupported_fields.append(_NO_CUSTODY)
        return position
    custody, lender = custodies[traded], custodies[collateral]
    price = _price(custody, feeds, position, now_s)
    mark = None if price is None else int(price * MICROS) or None
    paid_in = _price(lender, feeds, position, now_s)
    token = Token(raw_pubkey(lender.data, 40), lender.data[104], paid_in, paid_in)
    slots = [each.slot for each in (custody, lender)]
    slots += [feeds[at].slot for at in map(_feed_of, (custody, lender)) if at in feeds]
    position.reference_slot = min(slots)
    kept = u64(data, 169)
    gain = None if mark is None else int(gain_of(side, size, entry, mark))
    owed = borrow_fee(data, lender.data, now_s)
    fee = closing_fee(custody.data, size, now_s)
    left = left_to_lose(data, custody.data, owed)
    ends = None if left is None else liquidation_price(side, size, entry, left)
    position.assets = lines(token, kept, gain, (owed, fee))
    position.perp = Perp(
        _SYMBOLS.get(raw_pubkey(custody.data, 40)),
        side,
        units,
        None if mark is None else Fraction(size * mark, entry * MICROS),
        Fraction(entry, MICROS),
        None if mark is None else Fraction(mark, MICROS),
        None if ends is None else Fraction(ends, MICROS),
        None if mark is None or not kept else Fraction(size * mark, entry * kept),
        None if gain is None else Fraction(gain, MICROS),
        None if owed is None else Fraction(-owed, MICROS),
    )
    position.unsupported_fields += _unknown(mark, token, owed, fee)
    if left is None and owed is not None:
        position.unsupported_fields.append(_NO_LIMIT)
    return position


def _unknown(mark: int | None, token: Token, owed: int | None, fee: int | None) -> list[str]:
    """Return what is null of a bet whose custodies are known, and why."""
    named = []
    if mark is None:
        named.append(f"perp.mark_price_usd, and what it leads to: {_NO_PRICE}")
    if token.usd is None:
        named.append(f"assets.amount_raw: {_NO_PRICE}")
    if owed is None:
        named.append(_NO_RATE)
    if fee is None:
        named.append(_NO_FEE)
    return named


def _price(
    custody: Account, feeds: Mapping[bytes, Account], position: Position, now_s: int
) -> Fraction | None:
    """Return the oracle's price of a custody's token; None where it is not known."""
    address = _feed_of(custody)
    feed = feeds.get(address)
    if feed is None:
        if address not in position.missing:
            position.missing.append(address)
        return None
    if feed.kind is not FEED:
        raise Unreadable(f"oracle: it is {feed.kind.name}", feed.address)
    data = _checked(feed, _FEED_LEAST).data
    if now_s - i64(data, 177) > OLDEST_PRICE_S:
        return None
    exponent = int.from_bytes(data[176:177], signed=True)
    return price_of(u64(data, 168), exponent)


def _feed_of(custody: Account) -> bytes:
    return raw_pubkey(custody.data, 384)


def _checked(account: Account, least: int) -> Account:
    if len(account.data) < least:
        raise Unreadable(f"{account.kind.name} of {len(account.data)} bytes", account.address)
    return account


PROTOCOL: Final = Protocol(
    "jupiter_perps",
    (POSITION, CUSTODY, FEED),
    (
        Route(
            "positions",
            Shape.PERPS,
            "Open positions at oracle prices, with borrow and closing fees",
        ),
    ),
    read,
    identified="likely",
    unsupported_fields=(
        "orders that were not executed, and the collateral that they hold",
        "loans against JLP",
        "the price at which a stable token is paid out: it is taken to be the oracle's",
    ),
)
