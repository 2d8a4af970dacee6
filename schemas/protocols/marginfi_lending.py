"""Lending accounts of marginfi and of programs that copied it: balances as shares of banks.

Source: marginfi-v2, IDL 0.1.9: `MarginfiAccount`, `Balance`, `Bank`. The oracle's band is the one
that the program cached: its confidence is already multiplied and capped. E-mode raises weights by
rules that no judge here confirms: health is null where it may apply, as it is for banks whose
cached price is not of their token.

Banks may lend on: shares of one for Kamino are collateral tokens of a reserve, which
`kamino_withdraw` redeems. What shares of Drift, Solend and Jupiter Lend are worth is not computed.

Anybody can put a deposit into an account and hand it to a wallet, debts and all: the program does
not check the new authority (`transfer_to_new_account`). A deposit whose amount is not known is no
line, which would make the wallet's worth unknown, but is named: it can only be more. Beside a debt
it stays a line without an amount, without which the position would count as a loss: `can_be_given`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from struct import Struct, error
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
    Unreadable,
    World,
)
from schemas.protocols.health import UNKNOWN, health_of
from schemas.protocols.kamino_parts import fixed60
from schemas.protocols.kamino_parts.reserve import RESERVE, Reserve, reserve_of
from schemas.protocols.marginfi_emissions import earned
from schemas.protocols.marginfi_interest import (
    ShareValues,
    has_known_curve,
    is_idle,
    stored_values,
    values_at,
)
from schemas.protocols.math.i80f48 import BITS, ONE, i80f48
from schemas.solana.borsh import raw_pubkey, u16, u64

ACCOUNT_SIZE: Final = 2312
BANK_SIZE: Final = 1864
BANK_TAG: Final = bytes.fromhex("8e31a6f2324261bc")  # sha256("account:Bank")
AUTHORITY_AT: Final = 40
_BALANCES: Final = range(72, 72 + 16 * 104, 104)
_BALANCE: Final = Struct("<x32s7xQqQqQqQ")
"""Is active, bank; shares and emissions, each two words; last update."""
_ASSET_TAG_AT: Final = 785
_STAKED: Final = 2
_LENDS_ON_FROM: Final = 3  # asset tags of banks whose deposits are shares of another protocol
_KAMINO: Final = 3
_RESERVE_AT: Final = 1560  # integration_acc_1
_FLAGS_AT: Final = 840
_IS_DISCHARGED: Final = 1 << 6  # TOKENLESS_REPAYMENTS_COMPLETE
_EMODE_TAG_AT: Final = 920
_EMODE_FLAGS_AT: Final = 936
_EMODE_ON: Final = 1
_SUPPLY: Final = Role.SUPPLY  # to look a member up takes as long as to make an asset
_BORROW: Final = Role.BORROW
_REWARD: Final = Role.REWARD
_CACHED_BANKS: Final = 1 << 10  # banks, of which there are hundreds; some 3 kB each


@dataclass(frozen=True, slots=True)
class Layout:
    """A program's kinds, and what of its banks is known."""

    account: Kind
    bank: Kind
    group: Kind | None  # None: banks are known up to their share values only
    rewards: bool


class _Terms(NamedTuple):
    """How a bank counts in a position: price and weights, where its layout is known."""

    lends_on: bool
    oracle_usd: Fraction | None = None
    supply_usd: Fraction | None = None  # in health, at the lower end of the oracle's band
    borrow_usd: Fraction | None = None  # likewise, at the upper end
    supply_weight: Fraction | None = None
    borrow_weight: Fraction | None = None
    has_emode_tag: bool = False
    is_emode_on: bool = False
    is_discharged: bool = False  # a deposit is worth its shares no more


_NO_TERMS: Final = _Terms(lends_on=False)


class _Known(NamedTuple):
    """What the balances of accounts refer to, by address."""

    banks: Mapping[bytes, Account]
    groups: Mapping[bytes, Account]
    reserves: Mapping[bytes, Reserve]  # of Kamino

    def reserve(self, bank: bytes) -> Reserve | None:
        """Return the reserve that a bank lends on to; None: to none, or it is not known."""
        at = _reserve_at(bank)
        reserve = None if at is None else self.reserves.get(at)
        return reserve if reserve is not None and reserve.mint == bank[8:40] else None


class _Balance(NamedTuple):
    bank: bytes
    supplied: int  # shares, I80F48
    borrowed: int
    emissions: int
    updated_s: int


def read_lending(layout: Layout, held: Held, world: World) -> Reading:
    """Return a wallet's lending accounts and emissions; raises Unreadable."""
    accounts = [
        (account, _balances(account))
        for account in held.of(layout.account)
        if account.data[AUTHORITY_AT : AUTHORITY_AT + 32] == held.wallet
    ]
    wanted = [balance.bank for _, balances in accounts for balance in balances]
    if not wanted:
        return []
    banks = yield tuple(dict.fromkeys(wanted))
    banks = {address: bank for address, bank in banks.items() if bank.kind is layout.bank}
    others: Mapping[bytes, Account] = {}
    if layout.group is not None and banks:
        asked = [_group_of(bank) for bank in banks.values()]
        asked += [each for bank in banks.values() if (each := _reserve_at(bank.data)) is not None]
        others = yield tuple(dict.fromkeys(asked))
    known = _Known(
        banks,
        {address: each for address, each in others.items() if each.kind is layout.group},
        {
            address: reserve_of(each, world.slot)
            for address, each in others.items()
            if each.kind is RESERVE
        },
    )
    positions: list[Position] = []
    for account, balances in accounts:
        try:
            positions += _positions(layout, account, balances, known, world)
        except (error, IndexError):
            raise Unreadable("a bank or group is too short", account.address) from None
    return positions


def _balances(account: Account) -> list[_Balance]:
    data = account.data
    if len(data) < _BALANCES.stop:
        raise Unreadable(f"balances end at {_BALANCES.stop} of {len(data)}", account.address)
    found = []
    for at in _BALANCES:
        if data[at]:
            bank, a, supplied, b, borrowed, c, emissions, updated_s = _BALANCE.unpack_from(data, at)
            if supplied < 0 or borrowed < 0 or emissions < 0:  # the high words
                raise Unreadable(f"negative shares or emissions at {at}", account.address)
            shares = a | supplied << 64, b | borrowed << 64
            found.append(_Balance(bank, *shares, c | emissions << 64, updated_s))
    return found


def _group_of(bank: Account) -> bytes:
    return bank.data[41:73].ljust(32, b"\0")


def _reserve_at(bank: bytes) -> bytes | None:
    """Return the reserve of Kamino that a bank lends on to, None of another bank."""
    address = bank[_RESERVE_AT : _RESERVE_AT + 32]
    is_lent = bank[_ASSET_TAG_AT : _ASSET_TAG_AT + 1] == bytes([_KAMINO])
    return address if is_lent and len(address) == 32 else None


def _positions(
    layout: Layout,
    account: Account,
    balances: Sequence[_Balance],
    known: _Known,
    world: World,
) -> Iterator[Position]:
    group = raw_pubkey(account.data, 8)
    lending = Position("lending", account, market=group, open_markets=[group], can_be_given=True)
    rewards = Position("rewards", account, market=group, open_markets=[group])
    slots: list[int] = []
    for balance in balances:
        bank = known.banks.get(balance.bank)
        if bank is None:
            for each in (lending, rewards):
                each.missing.append(balance.bank)
            continue
        slots.append(bank.slot)
        owner = known.groups.get(_group_of(bank))
        values, is_behind = _values(layout, lending, bank, owner, world)
        if owner is not None:
            slots.append(owner.slot)
        reserve = None if layout.group is None else known.reserve(bank.data)
        if reserve is not None:
            slots.append(reserve.slot)
        lines = [*_lines(layout, lending, balance, bank.data, values, reserve)]
        lending.assets += lines
        if is_behind:
            lending.assets += map(_interest, (each for each in lines if each.role is _BORROW))
        if layout.rewards:
            rewards.assets += _emissions(balance, bank.data, world.time_s)
    is_whole = not lending.unsupported_fields  # by now these name what the lines lack
    found = lending.assets
    if not any(each.role is _BORROW for each in found):
        lending.assets = [each for each in found if each.amount_raw is not None]
    lending.reference_slot = rewards.reference_slot = min(slots, default=None)
    if layout.group is None:
        _name(lending, "health: the layout of banks beyond their share values is not confirmed")
    else:
        banks = [known.banks.get(each.bank) for each in balances]
        lending.health = _health(lending, banks, is_whole=is_whole)
    if found or lending.missing:
        yield lending
    if rewards.assets:
        yield rewards


def _values(
    layout: Layout, position: Position, bank: Account, group: Account | None, world: World
) -> tuple[ShareValues | None, bool]:
    """Return what shares are worth, and whether that is at the last update, without interest."""
    if layout.group is None:
        _name(position, "interest since the banks' last updates")
        return stored_values(bank.data), True
    if is_idle(bank.data, world.time_s):
        return stored_values(bank.data), False
    if not has_known_curve(bank.data):
        _name(position, "interest since the last update of banks with a curve of three points")
        return stored_values(bank.data), True
    if group is None:
        position.missing.append(_group_of(bank))
        return None, False
    values = values_at(bank.data, group.data, world.time_s)
    if values is None:
        _name(position, "amount: the bank's interest curve is not one the program accepts")
    return values, False


def _interest(debt: Asset) -> Asset:
    """Return the line of a debt's interest that is not known."""
    return Asset(_BORROW, debt.mint, None, debt.decimals)


def _lines(
    layout: Layout,
    position: Position,
    balance: _Balance,
    bank: bytes,
    values: ShareValues | None,
    reserve: Reserve | None,
) -> Iterator[Asset]:
    """Yield what was supplied, rounded down, and borrowed, rounded up.

    The position names what of it is not known.

    `reserve`: what the bank lends on to, where that is known: nothing can be borrowed of it.
    """
    terms = _NO_TERMS if layout.group is None else _terms(bank)
    for role, shares, health_usd, weight in (
        (_SUPPLY, balance.supplied, terms.supply_usd, terms.supply_weight),
        (_BORROW, balance.borrowed, terms.borrow_usd, terms.borrow_weight),
    ):
        if not shares:
            continue
        raw = None
        if terms.lends_on and (reserve is None or role is _BORROW):
            _name(position, "amount: the bank's deposits are shares of another protocol")
        elif terms.is_discharged and role is _SUPPLY:
            _name(position, "amount: the bank's debts were discharged, it pays what it has left")
        elif values is not None:
            value = values.asset if role is _SUPPLY else values.liability
            exact = shares * value
            if exact < 0:
                raise Unreadable("a bank's share value is negative", position.account.address)
            raw = exact >> 2 * BITS if role is _SUPPLY else -(-exact >> 2 * BITS)
            if reserve is not None:
                raw = reserve.liquidity_sf(raw) >> fixed60.BITS
            if not raw:
                continue
        mint = raw_pubkey(bank, 8)
        yield Asset(role, mint, raw, bank[40], terms.oracle_usd, health_usd, weight)
        if reserve is not None and reserve.is_paying_rewards:
            _name(position, "amount: what the bank's reserve has paid since its last refresh")


@lru_cache(_CACHED_BANKS)
def _terms(bank: bytes) -> _Terms:
    """Return how a bank of marginfi itself counts; raises `struct.error`, or IndexError."""
    weights = Fraction(i80f48(bank, 312), ONE), Fraction(i80f48(bank, 344), ONE)
    marks = (
        u16(bank, _EMODE_TAG_AT) != 0,
        u64(bank, _EMODE_FLAGS_AT) & _EMODE_ON != 0,
        u64(bank, _FLAGS_AT) & _IS_DISCHARGED != 0,
    )
    lends_on = bank[_ASSET_TAG_AT] >= _LENDS_ON_FROM
    price = i80f48(bank, 1408)
    if bank[_ASSET_TAG_AT] >= _STAKED or price <= 0:
        return _Terms(lends_on, None, None, None, *weights, *marks)
    low = high = None
    if band := i80f48(bank, 1432):  # 0: of a version that did not note it
        low, high = Fraction(price - band, ONE), Fraction(price + band, ONE)
    return _Terms(lends_on, Fraction(price, ONE), low, high, *weights, *marks)


def _emissions(balance: _Balance, bank: bytes, time_s: int) -> Iterator[Asset]:
    since = earned(bank, balance.supplied, balance.borrowed, balance.updated_s, time_s)
    if owed_raw := balance.emissions + since >> BITS:
        yield Asset(_REWARD, raw_pubkey(bank, 872), owed_raw)


def _health(position: Position, banks: Sequence[Account | None], *, is_whole: bool) -> Health:
    """Return the health; unknown where the lines lack something, or a price or weight is."""
    known = [bank.data for bank in banks if bank is not None]
    if position.missing or len(known) < len(banks):
        return UNKNOWN
    if _may_have_emode(position, known):
        _name(position, "health: e-mode may raise weights")
        return UNKNOWN
    health = UNKNOWN
    are_priced = all(
        each.health_usd is not None or each.amount_raw == 0 for each in position.assets
    )
    if is_whole and are_priced:
        health = health_of(position.assets)
    if (position.assets or not is_whole) and health == UNKNOWN:
        _name(position, "health: an amount, or a price or its confidence, is not known")
    return health


def _may_have_emode(position: Position, banks: Sequence[bytes]) -> bool:
    """Return whether a bank borrowed from has e-mode on for a tag, or lends what is collateral."""
    borrowed = {each.mint for each in position.assets if each.role is _BORROW}
    supplied = {each.mint for each in position.assets if each.role is _SUPPLY}
    if not borrowed.isdisjoint(supplied):
        return True
    has_tag = is_on = False
    for bank in banks:
        terms = _terms(bank)
        has_tag = has_tag or (terms.has_emode_tag and bank[8:40] in supplied)
        is_on = is_on or (terms.is_emode_on and bank[8:40] in borrowed)
    return has_tag and is_on


def _name(position: Position, text: str) -> None:
    if text not in position.unsupported_fields:
        position.unsupported_fields.append(text)
