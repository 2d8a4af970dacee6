"""Parcl: margin accounts with their open positions, liquidity, and staked PRCL.

Positions are as the accounts have them: an index price comes from feeds that are not kept, so that
profit, funding and margin requirements are not known, nor is what shares of the liquidity pool are
worth, whose counterparties those positions are. Staking runs Pyth's old program under an address of
its own: all PRCL of a stake account is in its custody.

Source: the serializers and `simulation/` of `ParclFinance/v3-sdk-ts` 0.0.5; there a price has 8
decimals, a size 6, and `lastInteractionFundingPerUnit` is an integer of 192 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from hashlib import sha256
from struct import Struct
from typing import Final, Literal, NamedTuple

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Lock,
    Perp,
    Position,
    Protocol,
    Reading,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.protocols.in_step import in_step
from schemas.protocols.token import TOKEN, TOKEN_2022, TOKEN_2022_EXTENDED
from schemas.solana.addresses import key
from schemas.solana.borsh import raw_pubkey, u32, u64, u128
from schemas.solana.derived import derived
from schemas.solana.token_accounts import BadAccount, read_token_account

PROGRAM: Final = key("3parcLrT7WnXAcyPfkCz49oofuuf2guUKkjuFkAhZW8Y")
STAKING: Final = key("2gWf5xLAzZaKX9tQj9vuXsaxTWtzTZDFRn21J3zjNVgu")
PRCL: Final = key("4LLbsb5ReP3yEtYzmXewyGjcir5uXtKFURtaEUVC2AHs")


def _kind(name: str, tag: str, size: int, owner_at: int | None = None) -> Kind:
    wallets = () if owner_at is None else (owner_at,)
    return Kind(f"parcl_{name}", PROGRAM, bytes.fromhex(tag), size=size, wallets=wallets)


MARGIN: Final = _kind("margin_account", "85dcadd5b3d32bee", 904, 828)
LP_ACCOUNT: Final = _kind("lp_account", "17a6fbde171bd730", 136, 64)
LP_POSITION: Final = _kind("lp_position", "69f125c8e002fc5a", 112, 72)
REQUEST: Final = _kind("settlement_request", "8c83dbe1c97a54fa", 144, 72)
EXCHANGE: Final = _kind("exchange", "1ec8dc95033d6832", 984)
STAKE: Final = Kind(
    "parcl_stake_positions", STAKING, bytes.fromhex("55c3f14f7cc04f0b"), wallets=(8,)
)

_BETS: Final = range(8, 776, 64)
_BET: Final = Struct("<Qq")  # a size of 128 bits
_SIZE_DECIMALS: Final = 6
_PRICE_DECIMALS: Final = 8
_EXCHANGE_AT: Final = {MARGIN: 796, LP_ACCOUNT: 32, LP_POSITION: 40, REQUEST: 40}
_MINT_AT: Final = 772
_PRCL_DECIMALS: Final = 6
_LATEST_MS: Final = (1 << 53) - 1  # times are any u64 of seconds; JSON numbers are not
_TOKENS: Final = (TOKEN, TOKEN_2022, TOKEN_2022_EXTENDED)

_NO_EXCHANGE: Final = "assets: the exchange, which says what is deposited, is not known"
_NO_PROFIT: Final = (
    "assets.amount_raw: profit and funding since the last change, for no index price is read"
)
_NO_WORTH: Final = "assets.amount_raw: what shares of the pool are worth is not confirmed"
_NO_TIP: Final = "assets.amount_raw: whether the keeper's tip is paid out of it is not confirmed"
_NO_LOCKS: Final = "locks: which part of it is staked, or on its way out, is not confirmed"


class _Bet(NamedTuple):
    """One of the positions of a margin account."""

    market_id: int
    size_raw: int  # negative: short
    price_raw: int  # since which profit counts


def read(held: Held, world: World) -> Reading:
    """Return a wallet's margin accounts, liquidity and stake accounts; raises Unreadable."""
    return (yield from in_step(_read_exchange(held, world), _read_stakes(held)))


def _read_exchange(held: Held, world: World) -> Reading:
    own = [each for kind in _EXCHANGE_AT for each in _own(held, kind)]
    if not own:
        return []
    exchanges = yield tuple(dict.fromkeys(_exchange_of(each) for each in own))
    positions: list[Position] = []
    for account in own:
        exchange = exchanges.get(_exchange_of(account))
        if exchange is not None and exchange.kind is not EXCHANGE:
            raise Unreadable(f"its exchange is {exchange.kind.name}", account.address)
        if account.kind is MARGIN:
            positions += _margin(account, exchange)
        elif account.kind is REQUEST:
            positions += _request(account, exchange, world.time_s)
        else:
            positions += _liquidity(account, exchange, world.time_s)
    return positions


def _own(held: Held, kind: Kind) -> Iterator[Account]:
    [owner_at] = kind.wallets
    for account in held.of(kind):
        if kind.size not in (None, len(account.data)):
            raise Unreadable(f"{kind.name} of {len(account.data)} bytes", account.address)
        if account.data[owner_at : owner_at + 32] == held.wallet:
            yield account


def _exchange_of(account: Account) -> bytes:
    return raw_pubkey(account.data, _EXCHANGE_AT[account.kind])


def _based_on(exchange: Account | None, route: str, account: Account) -> Position:
    """Return a position without assets; it says so where its exchange is not known."""
    position = Position(route, account, market=_exchange_of(account))
    if exchange is None:
        position.missing.append(_exchange_of(account))
        position.unsupported_fields.append(_NO_EXCHANGE)
    else:
        position.reference_slot = exchange.slot
    return position


def _margin(account: Account, exchange: Account | None) -> Iterator[Position]:
    """Yield a margin account, and a position for each market that it has one in."""
    margin_raw = u64(account.data, 776)
    bets = [*_bets(account.data)]
    if not margin_raw and not bets:
        return
    if len({bet.market_id for bet in bets}) < len(bets):
        raise Unreadable("two positions in one market", account.address)
    deposit = _based_on(exchange, "positions", account)
    if exchange is not None:
        mint = raw_pubkey(exchange.data, _MINT_AT)
        deposit.assets = [Asset(Role.SUPPLY, mint, margin_raw)]
    yield deposit
    for bet in bets:
        yield _bet(bet, account, exchange)


def _bets(data: bytes) -> Iterator[_Bet]:
    for at in _BETS:
        low, high = _BET.unpack_from(data, at)
        if size_raw := low | high << 64:
            yield _Bet(u32(data, at + 56), size_raw, u128(data, at + 16))


def _bet(bet: _Bet, account: Account, exchange: Account | None) -> Position:
    position = _based_on(exchange, "positions", account)
    number = bet.market_id.to_bytes(4, "little")
    position.id = sha256(account.address + number).digest()  # it has no account of its own
    position.market = derived(PROGRAM, b"market", _exchange_of(account), number)
    side: Literal["long", "short"] = "long" if bet.size_raw > 0 else "short"
    position.perp = Perp(
        symbol=None,
        side=side,
        size=Fraction(abs(bet.size_raw), 10**_SIZE_DECIMALS),
        notional_usd=None,
        entry_price_usd=Fraction(bet.price_raw, 10**_PRICE_DECIMALS),
        mark_price_usd=None,
        liquidation_price_usd=None,
        leverage=None,
        unrealized_usd=None,
        funding_usd=None,
    )
    if exchange is not None:
        position.assets = [Asset(Role.PENDING, raw_pubkey(exchange.data, _MINT_AT), None)]
        position.unsupported_fields.append(_NO_PROFIT)
    return position


def _liquidity(account: Account, exchange: Account | None, now_s: int) -> Iterator[Position]:
    """Yield a share of the pool, which leaves when its term is over."""
    is_old = account.kind is LP_ACCOUNT  # one for each wallet, whose term the exchange has
    shares = u64(account.data, 16 if is_old else 24)
    if not shares:
        return
    position = _based_on(exchange, "lp", account)
    ends_s: int | None = None if is_old else u64(account.data, 32)
    if is_old and exchange is not None:
        ends_s = u64(account.data, 24) + u64(exchange.data, 104)
    is_over = ends_s is not None and ends_s <= now_s
    if ends_s is not None:
        position.locks = [_lock("term", shares, ends_s, now_s)]
    if exchange is not None:
        role = Role.SUPPLY if is_over else Role.LOCKED
        position.assets = [Asset(role, raw_pubkey(exchange.data, _MINT_AT), None)]
        position.unsupported_fields.append(_NO_WORTH)
    yield position


def _request(account: Account, exchange: Account | None, now_s: int) -> Iterator[Position]:
    """Yield a withdrawal from the pool that a keeper pays out."""
    amount_raw, tip_raw = u64(account.data, 24), u64(account.data, 32)
    if not amount_raw:
        return
    position = _based_on(exchange, "lp", account)
    position.locks = [_lock("cooldown", amount_raw, u64(account.data, 16), now_s)]
    if exchange is not None:
        mint = raw_pubkey(exchange.data, _MINT_AT)
        position.assets = [Asset(Role.PENDING, mint, None if tip_raw else amount_raw)]
        if tip_raw:
            position.unsupported_fields.append(_NO_TIP)
    yield position


def _lock(kind: Literal["term", "cooldown"], raw: int, ends_s: int, now_s: int) -> Lock:
    locked, free = (0, raw) if ends_s <= now_s else (raw, 0)
    return Lock(kind, locked, free, ends_ms=min(ends_s * 1000, _LATEST_MS))


def _read_stakes(held: Held) -> Reading:
    own = [*_own(held, STAKE)]
    if not own:
        return []
    custodies = {each.address: derived(STAKING, b"custody", each.address) for each in own}
    found = yield tuple(custodies.values())
    positions = (_stake(each, custodies[each.address], found) for each in own)
    return [each for each in positions if each is not None]


def _stake(account: Account, custody_at: bytes, found: Mapping[bytes, Account]) -> Position | None:
    position = Position("staking", account, market=PRCL)
    position.unsupported_fields.append(_NO_LOCKS)
    custody = found.get(custody_at)
    if custody is None:
        position.missing.append(custody_at)
        position.assets = [Asset(Role.SUPPLY, PRCL, None, _PRCL_DECIMALS)]
        return position
    position.reference_slot = custody.slot
    amount_raw = _balance(custody, account)
    position.assets = [Asset(Role.SUPPLY, PRCL, amount_raw, _PRCL_DECIMALS)]
    return position if amount_raw else None


def _balance(custody: Account, of: Account) -> int:
    """Return what is in a custody; raises Unreadable."""
    try:
        if custody.kind not in _TOKENS:
            raise BadAccount(f"{custody.kind.name} is no token account")
        state = read_token_account(custody.kind.program, custody.data)
    except BadAccount as bad:
        raise Unreadable(f"custody: {bad}", of.address) from None
    if state.mint != PRCL:
        raise Unreadable("custody of another mint", of.address)
    return state.amount_raw


PROTOCOL: Final = Protocol(
    "parcl",
    (MARGIN, LP_ACCOUNT, LP_POSITION, REQUEST, EXCHANGE, STAKE),
    (
        Route("positions", Shape.PERPS, "Margin accounts and their open positions"),
        Route("lp", Shape.LIQUIDITY, "Liquidity, and withdrawals that were requested"),
        Route("staking", Shape.STAKING, "Staked PRCL"),
    ),
    read,
    unsupported_fields=(
        "profit, funding and margin requirements of positions: no index price is read",
        "what shares of the liquidity pool are worth",
        "terms of staked PRCL",
    ),
)
