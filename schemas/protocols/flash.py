"""Flash Trade: open bets in its pools' markets, and stakes of FAF and of pools' LP tokens.

A bet is closed at the oracle's price less a spread that grows with its size; it wins at most what
is locked for it beside its collateral. It owes a fee on what is locked, the impact that opening it
had on the price, and a fee for closing. Of a custody's two oracles the program's own is read.

Source: the program's IDL and `flash-sdk` (`getPnlSync`, `getFinalCloseAmountUsdSync`,
`getLiquidationPriceContractHelper`). What the program does with a price that is far from its
average is not published, nor when it liquidates a bet of more than the usual leverage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
from schemas.protocols.flash_closing import (
    CUSTODY_SIZE,
    Quote,
    closing,
    ends_at,
    lock_fee,
    paid_at,
    quote,
)
from schemas.protocols.flash_staking import FLP_STAKE, POOL, PROGRAM, TOKEN_STAKE, read_stakes
from schemas.protocols.in_step import in_step
from schemas.protocols.pool_perps import (
    MICROS,
    OLDEST_PRICE_S,
    SIDES,
    Side,
    Token,
    lines,
    price_of,
)
from schemas.solana.borsh import i64, raw_pubkey, u64

_OWNER_AT: Final = 8
POSITION: Final = Kind(
    "flash_position", PROGRAM, bytes.fromhex("aabc8fe47a40f7d0"), wallets=(_OWNER_AT,)
)
POSITION_SIZE: Final = 248
MARKET: Final = Kind("flash_market", PROGRAM, bytes.fromhex("dbbed53700e3c69a"))
CUSTODY: Final = Kind("flash_custody", PROGRAM, bytes.fromhex("01b830515d833f91"))
ORACLE: Final = Kind("flash_oracle", PROGRAM, bytes.fromhex("e3aaa4da7f1023df"))

_MARKET_LEAST: Final = 105
_ORACLE_LEAST: Final = 44

_NO_MARKET: Final = "assets: the market or custody, which says what they are of, is not known"
_NO_PRICE: Final = "the oracle has no price of the last minute that is near its average"
_NO_GAIN: Final = (
    "what it is paid in has no such price, or its custody gives none to close a bet at"
)
_DEGEN: Final = "perp.liquidation_price_usd: of a bet with more than the usual leverage"


@dataclass(frozen=True, slots=True)
class _Chain:
    """The accounts that bets lead to, by their addresses, and the time."""

    markets: Mapping[bytes, Account]
    custodies: Mapping[bytes, Account]
    oracles: Mapping[bytes, Account]
    now_s: int

    def quote(self, custody: Account) -> Quote | None:
        """Return the price of a custody's token; None where there is none to close a bet at."""
        oracle = self.oracles.get(_oracle_of(custody))
        if oracle is None or self.now_s - i64(oracle.data, 36) > OLDEST_PRICE_S:
            return None
        return quote(custody.data, oracle.data)


def read(held: Held, world: World) -> Reading:
    """Return a wallet's open bets and its stakes; raises Unreadable."""
    return (yield from in_step(_read_positions(held, world), read_stakes(held)))


def _read_positions(held: Held, world: World) -> Reading:
    own = [
        each
        for each in held.of(POSITION)
        if raw_pubkey(_checked(each, POSITION, POSITION_SIZE), _OWNER_AT) == held.wallet
        and u64(each.data, 132)
        and each.data[232]
    ]
    if not own:
        return []
    for each in own:
        if len(each.data) != POSITION_SIZE:
            raise Unreadable(f"position of {len(each.data)} bytes", each.address)
    markets = yield tuple(dict.fromkeys(raw_pubkey(each.data, 40) for each in own))
    wanted = [
        raw_pubkey(_checked(each, MARKET, _MARKET_LEAST), at)
        for each in markets.values()
        for at in (40, 72)
    ]
    custodies: Mapping[bytes, Account] = (yield tuple(dict.fromkeys(wanted))) if wanted else {}
    for each in custodies.values():
        if len(_checked(each, CUSTODY, CUSTODY_SIZE)) != CUSTODY_SIZE:
            raise Unreadable(f"custody of {len(each.data)} bytes", each.address)
    wanted = [_oracle_of(each) for each in custodies.values()]
    oracles: Mapping[bytes, Account] = (yield tuple(dict.fromkeys(wanted))) if wanted else {}
    for each in oracles.values():
        _checked(each, ORACLE, _ORACLE_LEAST)
    chain = _Chain(markets, custodies, oracles, world.time_s)
    return [_position(each, chain) for each in own]


def _position(account: Account, chain: _Chain) -> Position:
    """Return an open bet; raises Unreadable."""
    data = account.data
    at = raw_pubkey(data, 40)
    position = Position("positions", account, market=at)
    market = chain.markets.get(at)
    if market is None:
        position.missing.append(at)
        position.unsupported_fields.append(_NO_MARKET)
        return position
    if market.data[104] not in SIDES:
        raise Unreadable(f"market: side {market.data[104]} at 104", market.address)
    side = SIDES[market.data[104]]
    needed = raw_pubkey(market.data, 40), raw_pubkey(market.data, 72)
    position.missing = [each for each in dict.fromkeys(needed) if each not in chain.custodies]
    units = Fraction(u64(data, 132), 10 ** data[236])
    entry = price_of(u64(data, 120), int.from_bytes(data[128:132], "little", signed=True))
    position.perp = Perp(None, side, units, None, entry, None, None, None, None, None)
    if position.missing:
        position.unsupported_fields.append(_NO_MARKET)
        return position
    custody, lender = (chain.custodies[each] for each in needed)
    read_from = [market, custody, lender]
    for each in dict.fromkeys(map(_oracle_of, (custody, lender))):
        if each in chain.oracles:
            read_from.append(chain.oracles[each])
        else:
            position.missing.append(each)
    position.reference_slot = min(each.slot for each in read_from)
    _fill(position, side, custody, lender, chain)
    return position


def _fill(position: Position, side: Side, custody: Account, lender: Account, chain: _Chain) -> None:
    """Give a bet whose custodies are known its figures."""
    data, perp = position.account.data, position.perp
    assert perp is not None
    mark, paid_in = chain.quote(custody), chain.quote(lender)
    token = Token(raw_pubkey(lender.data, 40), lender.data[104], None, None)
    kept, gain, fee = u64(data, 172), None, None
    if paid_in is not None:
        paid = paid_at(lender.data, paid_in)
        token = Token(token.mint, token.decimals, paid.usd, paid.usd)
        locked = paid.worth(u64(data, 148), token.decimals)
        kept = min(kept, locked)
        if mark is not None:
            gain, fee = closing(side, data, custody.data, mark, locked, chain.now_s)
    owed = lock_fee(data, lender.data, chain.now_s)
    position.assets = lines(token, kept, gain, (owed, u64(data, 164), fee))
    is_degen = u64(data, 212) > 0
    usd = None if mark is None else mark.usd
    position.perp = Perp(
        None,
        side,
        perp.size,
        None if usd is None or perp.size is None else usd * perp.size,
        perp.entry_price_usd,
        usd,
        None if is_degen else ends_at(side, data, custody.data, owed),
        None if usd is None or perp.size is None or not kept else usd * perp.size * MICROS / kept,
        None if gain is None else Fraction(gain, MICROS),
        -Fraction(owed, MICROS),
    )
    if mark is None:
        position.unsupported_fields.append(f"perp.mark_price_usd, and what it gives: {_NO_PRICE}")
    elif gain is None:
        position.unsupported_fields.append(f"perp.unrealized_usd, assets.amount_raw: {_NO_GAIN}")
    if is_degen:
        position.unsupported_fields.append(_DEGEN)


def _oracle_of(custody: Account) -> bytes:
    return raw_pubkey(custody.data, 109)


def _checked(account: Account, kind: Kind, least: int) -> bytes:
    """Return the bytes of an account of a kind, which are not too few."""
    if account.kind is not kind or len(account.data) < least:
        raise Unreadable(
            f"{account.kind.name} of {len(account.data)} bytes where {kind.name} was expected",
            account.address,
        )
    return account.data


PROTOCOL: Final = Protocol(
    "flash",
    (POSITION, MARKET, CUSTODY, ORACLE, TOKEN_STAKE, FLP_STAKE, POOL),
    (
        Route("positions", Shape.PERPS, "Open positions, with lock fees until now and closing fee"),
        Route("staking", Shape.STAKING, "FAF and LP tokens of pools that are staked"),
    ),
    read,
    identified="guess",
    unsupported_fields=(
        "orders that were not executed, and the collateral that they hold",
        "rewards, revenue and rebates of stakes",
    ),
)
