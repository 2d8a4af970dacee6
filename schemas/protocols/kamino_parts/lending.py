"""klend: obligations, collateral tokens in the wallet, and withdrawals that wait in a queue.

Source: klend's `refresh_obligation` and `ObligationLiquidity::accrue_interest`; layouts by IDL
1.24.0. Deposits are rounded down as they are redeemed, debts up as they are repaid. Health uses
the prices that the reserves last saw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from struct import error
from typing import Final, NamedTuple

from schemas.protocols.contract import (
    Account,
    Asset,
    Health,
    Held,
    Kind,
    Position,
    Reading,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.protocols.health import UNKNOWN
from schemas.protocols.kamino_parts.fixed60 import BITS, ONE, ceil_int
from schemas.protocols.kamino_parts.reserve import (
    COLLATERAL_MINT_AT,
    PROGRAM,
    RESERVE,
    Reserve,
    reserve_of,
)
from schemas.solana.borsh import raw_pubkey, u64, u128

OBLIGATION: Final = Kind(
    "kamino_obligation",
    PROGRAM,
    bytes.fromhex("a8ce8d6a584caca7"),
    size=3344,
    wallets=(64,),
)
LENDING_MARKET: Final = Kind(
    "kamino_lending_market", PROGRAM, bytes.fromhex("f6723262489d1c78"), size=4664
)
TICKET: Final = Kind(
    "kamino_withdraw_ticket", PROGRAM, bytes.fromhex("ed17a43a35f8f05e"), size=520, wallets=(16,)
)
KINDS: Final = (OBLIGATION, RESERVE, LENDING_MARKET, TICKET)
ROUTES: Final = (
    Route("lending", Shape.LENDING, "Deposits and borrows with interest until now, and health"),
)
UNSUPPORTED: Final = (
    "lending: decimals of a reserve's token that has more than the program can compute with",
    "lending: rewards that a reserve pays its depositors since its last refresh",
    "lending: early repayment penalties and orders of an obligation",
)

_DEPOSITS_AT: Final = range(96, 1184, 136)
_BORROWS_AT: Final = range(1208, 2208, 200)
_GROUPS_AT: Final = 200
_GROUP_SIZE: Final = 72
_GROUPS: Final = 32
_NO_REWARDS: Final = (
    "assets.amount_raw: what the reserve has paid its depositors since its last refresh"
)
_NO_HEALTH: Final = "health: what a reserve has paid its depositors since its last refresh"


class _Deposit(NamedTuple):
    reserve: bytes
    collateral_raw: int


class _Borrow(NamedTuple):
    reserve: bytes
    rate_sf: int  # of the reserve, when the debt was last counted
    amount_sf: int


class _Obligation(NamedTuple):
    account: Account
    market: bytes
    group: int  # elevation group; 0: none
    deposits: Sequence[_Deposit]
    borrows: Sequence[_Borrow]


class _Ticket(NamedTuple):
    account: Account
    reserve: bytes
    collateral_raw: int


def read(held: Held, world: World) -> Reading:
    """Return a wallet's obligations, collateral tokens and queued withdrawals."""
    obligations = [
        _obligation(each) for each in held.of(OBLIGATION) if each.data[64:96] == held.wallet
    ]
    tickets = [_ticket(each) for each in held.of(TICKET) if each.data[16:48] == held.wallet]
    wanted = [each.reserve for of in obligations for each in of.deposits]
    wanted += [each.reserve for of in obligations for each in of.borrows]
    wanted += [each.reserve for each in tickets]
    wanted += [each.market for each in obligations if each.group]
    found: Mapping[bytes, Account] = {}
    if wanted:
        found = yield tuple(dict.fromkeys(wanted))
    reserves = _Reserves(found, world.slot)
    positions = [_of_obligation(each, reserves, found) for each in obligations]
    positions += [_of_ticket(each, reserves) for each in tickets if each.collateral_raw]
    positions += [
        position
        for account in held.of(RESERVE)
        if (position := _of_tokens(account, held, world.slot)) is not None
    ]
    return [each for each in positions if each.assets or each.missing]


class _Reserves:
    """The reserves of a reading, each computed once."""

    def __init__(self, accounts: Mapping[bytes, Account], slot: int) -> None:
        self._accounts = accounts
        self._slot = slot
        self._read: dict[bytes, Reserve] = {}

    def get(self, address: bytes, of: Account) -> Reserve | None:
        """Return a reserve, None if it is missing; raises Unreadable of its user's account."""
        account = self._accounts.get(address)
        if account is None:
            return None
        if account.kind is not RESERVE:
            raise Unreadable("its reserve is an account of another kind", of.address)
        if address not in self._read:
            try:
                self._read[address] = reserve_of(account, self._slot)
            except Unreadable as reason:
                raise Unreadable(str(reason), of.address) from None
        return self._read[address]


def _obligation(account: Account) -> _Obligation:
    data = account.data
    try:
        deposits = [
            _Deposit(raw_pubkey(data, at), u64(data, at + 32))
            for at in _DEPOSITS_AT
            if any(data[at : at + 32])
        ]
        borrows = [
            _Borrow(
                raw_pubkey(data, at),
                sum(u64(data, at + 32 + 8 * limb) << (64 * limb) for limb in range(4)),
                u128(data, at + 88),
            )
            for at in _BORROWS_AT
            if any(data[at : at + 32])
        ]
        market, group = raw_pubkey(data, 32), data[2285]
    except (error, IndexError):
        raise Unreadable(f"obligation of {len(data)} bytes", account.address) from None
    if group > _GROUPS:
        raise Unreadable(f"obligation: elevation group {group} at 2285", account.address)
    return _Obligation(
        account,
        market,
        group,
        [each for each in deposits if each.collateral_raw],
        [each for each in borrows if each.amount_sf],
    )


def _ticket(account: Account) -> _Ticket:
    data = account.data
    try:
        return _Ticket(account, raw_pubkey(data, 48), u64(data, 112))
    except error:
        raise Unreadable(f"withdraw ticket of {len(data)} bytes", account.address) from None


def _of_obligation(
    of: _Obligation, reserves: _Reserves, found: Mapping[bytes, Account]
) -> Position:
    position = Position("lending", of.account, market=of.market, open_markets=[of.market])
    used = [found[of.market]] if of.group and of.market in found else []
    threshold = None
    if of.group and not used:
        position.missing.append(of.market)
    elif of.group:
        threshold = _group_threshold(used[0], of)
    tally = _Tally()
    for deposit in of.deposits:
        reserve = _reserve_of(deposit.reserve, reserves, position)
        if reserve is None:
            continue
        percent = reserve.liquidation_percent if threshold is None else threshold
        weight = Fraction(percent, 100) if threshold is not None or not of.group else None
        amount_sf = reserve.liquidity_sf(deposit.collateral_raw)
        position.assets.append(_line(Role.SUPPLY, reserve, amount_sf >> BITS, weight))
        tally.supply(reserve, amount_sf, weight)
        _note_rewards(position, reserve)
    for borrow in of.borrows:
        reserve = _reserve_of(borrow.reserve, reserves, position)
        if reserve is None:
            continue
        amount_sf = _owed_sf(borrow, reserve, of.account)
        factor = Fraction(1) if of.group else reserve.borrow_factor
        position.assets.append(_line(Role.BORROW, reserve, ceil_int(amount_sf), factor))
        tally.borrow(reserve, amount_sf, factor)
    position.health = UNKNOWN if position.missing else tally.health()
    if _NO_REWARDS in position.unsupported_fields:
        position.health = UNKNOWN
        position.unsupported_fields.append(_NO_HEALTH)
    return position


def _reserve_of(address: bytes, reserves: _Reserves, position: Position) -> Reserve | None:
    """Return a reserve, and note in the position that it was used, or that it is missing."""
    reserve = reserves.get(address, position.account)
    if reserve is None:
        if address not in position.missing:
            position.missing.append(address)
        return None
    slots = (reserve.slot, position.reference_slot)
    position.reference_slot = min(each for each in slots if each is not None)
    return reserve


def _owed_sf(borrow: _Borrow, reserve: Reserve, account: Account) -> int:
    """Return a debt with interest; the reserve's rate can only have grown since."""
    if reserve.growth_rate_sf <= borrow.rate_sf:
        return borrow.amount_sf
    if not borrow.rate_sf:
        raise Unreadable("obligation: a debt without a rate", account.address)
    return borrow.amount_sf * reserve.growth_rate_sf // borrow.rate_sf


def _group_threshold(market: Account, of: _Obligation) -> int:
    """Return the liquidation threshold of an elevation group, in percent; raises Unreadable."""
    at = _GROUPS_AT + _GROUP_SIZE * (of.group - 1)
    if market.kind is not LENDING_MARKET or len(market.data) < at + _GROUP_SIZE:
        raise Unreadable("obligation: its market at 32 is none", of.account.address)
    return market.data[at + 4]


def _line(role: Role, reserve: Reserve, amount_raw: int, weight: Fraction | None) -> Asset:
    return Asset(role, reserve.mint, amount_raw, reserve.decimals, reserve.price_usd, weight=weight)


class _Tally:
    """Values of an obligation before they are rounded to tokens' units."""

    def __init__(self) -> None:
        self._collateral = self._secured = self._owed = Fraction(0)
        self._is_known = True

    def supply(self, reserve: Reserve, amount_sf: int, weight: Fraction | None) -> None:
        """Add a deposit."""
        value = self._value(reserve, amount_sf)
        if weight is None:
            self._is_known = False
        else:
            self._collateral += value
            self._secured += value * weight

    def borrow(self, reserve: Reserve, amount_sf: int, factor: Fraction) -> None:
        """Add a debt."""
        self._owed += self._value(reserve, amount_sf) * factor

    def _value(self, reserve: Reserve, amount_sf: int) -> Fraction:
        if reserve.price_usd is None or reserve.decimals is None:
            self._is_known = False
            return Fraction(0)
        return Fraction(amount_sf, ONE * 10**reserve.decimals) * reserve.price_usd

    def health(self) -> Health:
        """Return the health; unknown where a price or a weight is."""
        if not self._is_known:
            return UNKNOWN
        return Health(
            health_factor=self._secured / self._owed if self._owed else None,
            ltv=self._owed / self._collateral if self._collateral else None,
            liquidation_ltv=self._secured / self._collateral if self._collateral else None,
        )


def _of_ticket(of: _Ticket, reserves: _Reserves) -> Position:
    position = Position("lending", of.account)
    reserve = _reserve_of(of.reserve, reserves, position)
    if reserve is not None:
        position.market = reserve.market
        position.open_markets = [reserve.market]
        _add_redeemable(position, Role.PENDING, reserve, of.collateral_raw)
    return position


def _of_tokens(account: Account, held: Held, slot: int) -> Position | None:
    """Return what the wallet's collateral tokens of a reserve can be redeemed for."""
    mint = account.data[COLLATERAL_MINT_AT : COLLATERAL_MINT_AT + 32]
    collateral_raw = held.tokens.get(mint, 0)
    if not collateral_raw:
        return None
    reserve = reserve_of(account, slot)
    position = Position(
        "lending",
        account,
        market=reserve.market,
        open_markets=[reserve.market],
        stands_for={mint: collateral_raw},
    )
    _add_redeemable(position, Role.SUPPLY, reserve, collateral_raw)
    return position


def _add_redeemable(position: Position, role: Role, reserve: Reserve, collateral_raw: int) -> None:
    amount_raw = reserve.liquidity_sf(collateral_raw) >> BITS
    position.assets.append(_line(role, reserve, amount_raw, None))
    _note_rewards(position, reserve)


def _note_rewards(position: Position, reserve: Reserve) -> None:
    """Note that a reserve has paid something since its last refresh.

    That is no line without an amount: anybody can send a collateral token of such a reserve, and
    what is not known can only be more.
    """
    if reserve.is_paying_rewards and _NO_REWARDS not in position.unsupported_fields:
        position.unsupported_fields.append(_NO_REWARDS)
