"""Adrena: open bets against its ALP pool, and stakes of ADX and ALP.

A bet is settled in the token of its collateral, at the price by which the pool loses least. It owes
interest on what is lent to it, also that which the pool booked already, and a fee for closing that
was fixed when it was opened. It wins at most what is locked for it. The oracle has a price from
of the last trade: one that is too old gives no gain.

A stake account names no wallet: its address, derived from one, is what it belongs to.

Source: the program's own code at 1.3.8 (`get_pnl_usd`, `get_exit_position_numbers`,
`check_leverage`, `remove_locked_stake`), and its IDL. Its view of the liquidation price leaves out
interest that was booked; a liquidation counts it, and so does this. Later releases append to
accounts: of those only what the first bytes say is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from schemas.protocols.adrena_staking import PROGRAM, USER_STAKING, read_stakes
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
from schemas.protocols.in_step import in_step
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
from schemas.solana.borsh import i64, raw_pubkey, u32, u64
from schemas.solana.derived import derived

ORACLE_ADDRESS: Final = derived(PROGRAM, b"oracle")

_OWNER_AT: Final = 16
POSITION: Final = Kind(
    "adrena_position", PROGRAM, bytes.fromhex("aabc8fe47a40f7d0"), wallets=(_OWNER_AT,)
)
POSITION_SIZE: Final = 288
CUSTODY: Final = Kind("adrena_custody", PROGRAM, bytes.fromhex("01b830515d833f91"))
CUSTODY_SIZE: Final = 824
ORACLE: Final = Kind(
    "adrena_oracle", PROGRAM, bytes.fromhex("8bc283b38cb3e5f4"), addresses=(ORACLE_ADDRESS,)
)
ORACLE_SIZE: Final = 1_304

_CUSTODY_LEAST: Final = 176  # of the fields that all releases have at the same place
_PRICES: Final = range(24, ORACLE_SIZE, 64)
_PRICE_DECIMALS: Final = 10
_ONE: Final = 10**_PRICE_DECIMALS
_BPS: Final = 10_000
_RATE: Final = 10**9
_HOUR_S: Final = 3_600

_NO_CUSTODY: Final = "assets: the custody, which says what they are of, is not known"
_NO_PRICE: Final = "the oracle has no price of the last minute"
_OTHER_RELEASE: Final = (
    "perp.funding_usd, perp.liquidation_price_usd, assets: accounts of another release, "
    "whose arithmetic is not known"
)


def read(held: Held, world: World) -> Reading:
    """Return a wallet's open bets and its stakes; raises Unreadable."""
    return (yield from in_step(_read_positions(held, world), read_stakes(held, world)))


def _read_positions(held: Held, world: World) -> Reading:
    own = [
        each
        for each in held.of(POSITION)
        if raw_pubkey(_checked(each, POSITION_SIZE).data, _OWNER_AT) == held.wallet
        and u64(each.data, 168)
    ]
    if not own:
        return []
    custodies = [raw_pubkey(each.data, at) for each in own for at in (80, 112)]
    found = yield tuple(dict.fromkeys((*custodies, ORACLE_ADDRESS)))
    for address in dict.fromkeys(custodies):
        if (custody := found.get(address)) and custody.kind is not CUSTODY:
            raise Unreadable(f"custody: it is {custody.kind.name}", custody.address)
        if custody:
            _checked(custody, _CUSTODY_LEAST)
    return [_position(each, found, world.time_s) for each in own]


def _position(account: Account, found: Mapping[bytes, Account], now_s: int) -> Position:
    """Return an open bet; raises Unreadable."""
    data = account.data
    if data[9] not in SIDES:
        raise Unreadable(f"position: side {data[9]} at 9", account.address)
    side, entry, size, kept = SIDES[data[9]], u64(data, 160), u64(data, 168), u64(data, 184)
    if not entry:
        raise Unreadable("position: no price at 160", account.address)
    needed = raw_pubkey(data, 80), raw_pubkey(data, 112)
    position = Position("positions", account, market=needed[0])
    position.missing = [each for each in dict.fromkeys(needed) if each not in found]
    units = Fraction(size * _ONE, entry * MICROS)
    position.perp = Perp(
        None, side, units, None, Fraction(entry, _ONE), None, None, None, None, None
    )
    if position.missing:
        position.unsupported_fields.append(_NO_CUSTODY)
        return position
    custody, lender = (found[each] for each in needed)
    oracle = found.get(ORACLE_ADDRESS)
    if oracle is None:
        position.missing.append(ORACLE_ADDRESS)
    position.reference_slot = min(
        each.slot for each in (custody, lender, oracle) if each is not None
    )
    mark = _quote(oracle, raw_pubkey(custody.data, 144), now_s)
    paid_in = _quote(oracle, raw_pubkey(lender.data, 112), now_s)
    token = Token(raw_pubkey(lender.data, 48), lender.data[12], paid_in.usd, paid_in.high)
    price = None if mark.usd is None else int(mark.usd * _ONE) or None
    moved = None if price is None else gain_of(side, size, entry, price) // 1
    gain = owed = ends = None
    closing = u64(data, 232)
    is_known = len(data) == POSITION_SIZE and all(
        len(each.data) == CUSTODY_SIZE for each in (custody, lender)
    )
    if is_known:
        owed = _interest(data, lender.data, now_s)
        gain = _capped(data, moved, owed + closing, paid_in.low, token.decimals, now_s)
        if most_leverage := u32(custody.data, 180):
            fee = max(closing, u64(data, 240))
            left = kept - (size * _BPS // most_leverage + fee + owed)
            ends = liquidation_price(side, size, entry, left)
    position.assets = lines(token, kept, gain, (owed, closing if is_known else None))
    position.perp = Perp(
        _symbol(custody.data),
        side,
        units,
        None if price is None else units * price / _ONE,
        Fraction(entry, _ONE),
        None if price is None else Fraction(price, _ONE),
        None if ends is None else Fraction(ends, _ONE),
        None if price is None or not kept else units * price * MICROS / (kept * _ONE),
        None if moved is None else Fraction(moved, MICROS),
        None if owed is None else -Fraction(owed, MICROS),
    )
    if price is None:
        position.unsupported_fields.append(f"perp.mark_price_usd, and what it gives: {_NO_PRICE}")
    if token.paid_at_usd is None:
        position.unsupported_fields.append(f"assets.amount_raw: {_NO_PRICE}")
    if not is_known:
        position.unsupported_fields.append(_OTHER_RELEASE)
    return position


def _interest(data: bytes, lender: bytes, now_s: int) -> int:
    """Return the interest that a bet owes, with what was booked of it, rounded as the program."""
    grown, updated_s = _split(lender, 808), i64(lender, 800)
    if now_s > updated_s:
        grown += -(-(now_s - updated_s) * u64(lender, 792) // _HOUR_S)
    since = max(grown - _split(data, 200), 0)
    return since * u64(data, 176) // _RATE + u64(data, 192) + u64(data, 264)


def _capped(
    data: bytes, gain: int | None, owed: int, low: Fraction | None, decimals: int, now_s: int
) -> int | None:
    """Return what of a gain is paid: beyond what it owes at most what is locked for it."""
    if gain is None or gain <= 0:
        return gain
    if low is None:
        return None
    locked = int(u64(data, 216) * low * MICROS / 10**decimals)
    return min(gain, owed + (locked if now_s > i64(data, 144) else 0))


class _Quote(NamedTuple):
    """A price of the oracle, in dollars, and what the pool takes and pays at."""

    usd: Fraction | None = None
    low: Fraction | None = None
    high: Fraction | None = None


def _quote(oracle: Account | None, name: bytes, now_s: int) -> _Quote:
    """Return the oracle's price of a name, of the last minute; raises Unreadable."""
    if oracle is None or len(oracle.data) != ORACLE_SIZE:
        return _Quote()
    if oracle.kind is not ORACLE:
        raise Unreadable(f"oracle: it is {oracle.kind.name}", oracle.address)
    data = oracle.data
    for at in _PRICES:
        if raw_pubkey(data, at + 32) == name:
            if now_s - i64(data, at + 16) > OLDEST_PRICE_S:
                return _Quote()
            amount, spread = u64(data, at), u64(data, at + 8)
            exponent = int.from_bytes(data[at + 24 : at + 28], "little", signed=True)
            figures = (amount, amount - spread, amount + spread)
            return _Quote(*(price_of(each, exponent) for each in figures))
    return _Quote()


def _symbol(custody: bytes) -> str | None:
    """Return the name of the price that bets on a custody's token are at, such as SOLUSD."""
    value = custody[144 : 144 + min(custody[175], 31)]
    return value.decode() if value and all(32 < each < 127 for each in value) else None


def _split(data: bytes, at: int) -> int:
    """Read an unsigned 128-bit integer that is kept as its high half and its low one."""
    return u64(data, at) << 64 | u64(data, at + 8)


def _checked(account: Account, least: int) -> Account:
    if len(account.data) < least:
        raise Unreadable(f"{account.kind.name} of {len(account.data)} bytes", account.address)
    return account


PROTOCOL: Final = Protocol(
    "adrena",
    (POSITION, CUSTODY, ORACLE, USER_STAKING),
    (
        Route("positions", Shape.PERPS, "Open positions, with interest until now and closing fee"),
        Route("staking", Shape.STAKING, "ADX and ALP that are staked, liquid and locked"),
    ),
    read,
    identified="guess",
    unsupported_fields=(
        "limit orders, and the collateral that they hold",
        "rewards of stakes: they are shared out by rounds, of which an account keeps no sums",
    ),
    reads_derived=True,
)
