"""Meteora DLMM: liquidity in bins, each at one price.

A position has shares of up to 1,400 bins in a row; a share is of the bin's reserves, and earns
fees and up to two rewards. Shares belong to `owner`; fees to `fee_owner` where that is set, which
owns nothing else; `operator` may act for the owner, and owns nothing.
Source: IDL `lb_clmm` 0.12.0 (zero-copy layouts), `@meteora-ag/dlmm` 1.9.14 `processPosition`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Lock,
    Position,
    Protocol,
    Range,
    Reading,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.protocols.decimals import decimals_of, whole_ratio
from schemas.protocols.math import bins
from schemas.solana.addresses import key
from schemas.solana.borsh import raw_pubkey, u16, u64, u128
from schemas.solana.derived import derived

PROGRAM: Final = key("LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo")
_OWNER_AT: Final = 40
_FEE_OWNER_AT: Final = 8001
POSITION: Final = Kind(
    "dlmm_position",
    PROGRAM,
    bytes.fromhex("75b0d4c7f5b485b6"),
    wallets=(_OWNER_AT, _FEE_OWNER_AT),
)
POSITION_V1: Final = Kind(
    "dlmm_position_v1",
    PROGRAM,
    bytes.fromhex("aabc8fe47a40f7d0"),
    size=7560,
    wallets=(_OWNER_AT,),
)
PAIR: Final = Kind("dlmm_pair", PROGRAM, bytes.fromhex("210b3162b565b10d"), size=904)
BIN_ARRAY: Final = Kind(
    "dlmm_bin_array", PROGRAM, bytes.fromhex("5c8e5cdc059446b5"), size=10136, group="arrays"
)

ROUTE: Final = "liquidity"
_BASE_BINS: Final = 70
_MAX_BINS: Final = 1400  # POSITION_MAX_LENGTH
_BASE_SIZE: Final = 8120
_SHARES_AT: Final = 72
_REWARDS_AT: Final = 1192  # of each bin two counters of u128, two pending u64
_FEES_AT: Final = 4552  # likewise
_COUNTED_WORDS: Final = 6
_FIRST_SHARES: Final = slice(72, 632)  # of a position of the first version, u64 of each bin
_FIRST_REWARDS_AT: Final = 632
_FIRST_FEES_AT: Final = 3992
_MORE_WORDS: Final = 14  # PositionBinData: share, rewards, fees
_MORE_SIZE: Final = 8 * _MORE_WORDS
_MORE_REWARDS: Final = 2  # word of it
_MORE_FEES: Final = 8
_BINS_AT: Final = 56
_BIN_WORDS: Final = 18  # X, Y, price, supply, both rewards, both fees; more behind
_ARRAY: Final = struct.Struct(f"<{_BIN_WORDS * bins.ARRAY_BINS}Q")
_COUNTERS: Final = ("fee_x", "fee_y", "reward_0", "reward_1")
_COUNTERS_AT: Final = (10, 12, 6, 8)  # words of a bin
_CACHED_ARRAYS: Final = 1 << 8  # 40 kB each
_CACHED_PRICES: Final = 1 << 13  # some 300 bytes each
_NOBODY: Final = bytes(32)
_JSON_MAX: Final = (1 << 53) - 1
_LIMIT_ORDERS: Final = 2  # FunctionType; 0 is undetermined, 1 liquidity mining
_SHARES_UNKNOWN: Final = "assets: shares in a bin array that is not known"


@dataclass(frozen=True, slots=True)
class _Shares:
    """What a position's account contains."""

    account: Account
    pair: bytes
    owner: bytes
    fee_owner: bytes
    lower: int
    upper: int
    release_point: int
    shares: Sequence[int]  # Q64.64, of each bin
    whole_shares: Sequence[int]
    arrays: Mapping[int, bytes]  # that its shares are in: index -> address

    @property
    def width(self) -> int:
        """How many bins it has."""
        return len(self.shares)


class _Counted(NamedTuple):
    """What a position earned of a counter, bin by bin."""

    seen_q64: Sequence[int]  # what the position last saw of the counter
    pending_raw: Sequence[int]  # what it had earned until then


class _Bins(NamedTuple):
    """The bins of an array, by columns."""

    x_raw: Sequence[int]
    y_raw: Sequence[int]
    supplies: Sequence[int]  # Q64.64
    counters: tuple[Sequence[int], ...]  # Q64.64 a share: fees of X and Y, then both rewards


class _Reward(NamedTuple):
    mint: bytes
    ends_s: int
    rate_q64: int
    updated_s: int


@dataclass(frozen=True, slots=True)
class _Pair:
    x: bytes
    y: bytes
    active: int
    bin_step_bps: int
    is_by_slot: bool
    rewards: tuple[_Reward, ...]  # none where bins have limit orders in their place


def array_address(pair: bytes, index: int) -> bytes:
    """Return the address of a pair's array of bins."""
    return derived(PROGRAM, b"bin_array", pair, struct.pack("<q", index))


def read(held: Held, world: World) -> Reading:
    """Return a wallet's positions, with fees and rewards until the world's time."""
    found = [
        shares
        for account in held.of(POSITION)
        if held.wallet in ((shares := _shares(account)).owner, shares.fee_owner)
    ]
    of_first = [each for each in held.of(POSITION_V1) if _owner(each) == held.wallet]
    if not found and not of_first:
        return []
    wanted = [address for each in found for address in (each.pair, *each.arrays.values())]
    wanted += [each.data[8:40] for each in of_first]
    known = yield tuple(dict.fromkeys(wanted))
    first = [_of_first_version(each, known) for each in of_first]
    pairs = {each.pair: _pair(known[each.pair], each) for each in found if each.pair in known}
    mints = dict.fromkeys(
        mint
        for pair in pairs.values()
        for mint in (pair.x, pair.y, *(reward.mint for reward in pair.rewards))
        if mint != _NOBODY
    )
    decimals = decimals_of(mints, (yield tuple(mints)) if mints else {})
    return [
        *(
            _position(each, held.wallet, pairs.get(each.pair), known, decimals, world)
            for each in found
        ),
        *first,
    ]


def _owner(account: Account) -> bytes:
    return account.data[_OWNER_AT : _OWNER_AT + 32]


def _of_first_version(account: Account, known: Mapping[bytes, Account]) -> Position:
    """Return a position of the program's first version, whose arithmetic no SDK has any more.

    Its tokens are lines without an amount, so that no sum passes for the whole without them. One
    that was emptied and not closed has what is pending, and nothing that is not known.
    """
    if len(account.data) != POSITION_V1.size:
        raise Unreadable(f"position of {len(account.data)} bytes", account.address)
    address = account.data[8:40]
    position = Position(ROUTE, account, market=address, unsupported_fields=["range"])
    has_shares = any(account.data[_FIRST_SHARES])
    if has_shares:
        position.unsupported_fields.append("assets: a position of the first version")
    pair = known.get(address)
    if pair is None:
        position.missing = [address]
        return position
    if pair.kind is not PAIR or len(pair.data) != PAIR.size:
        raise Unreadable("lb_pair is no pair", account.address)
    position.reference_slot = pair.slot
    mints = [raw_pubkey(pair.data, at) for at in (88, 120, 264, 408)]
    if has_shares:
        position.assets = [
            Asset(role, mint, None) for role in (Role.SUPPLY, Role.REWARD) for mint in mints[:2]
        ]
        return position
    pending_raw = [
        sum(column)
        for at in (_FIRST_FEES_AT, _FIRST_REWARDS_AT)
        for column in _columns(account.data, _BASE_BINS, at, 0, _COUNTED_WORDS)[4:]
    ]
    position.assets = [
        Asset(Role.REWARD, mint, raw) for mint, raw in zip(mints, pending_raw, strict=True) if raw
    ]
    return position


def _shares(account: Account) -> _Shares:
    data = account.data
    if len(data) < _BASE_SIZE:
        raise Unreadable(f"position of {len(data)} bytes", account.address)
    lower, upper = struct.unpack_from("<ii", data, 7912)
    width = upper - lower + 1
    if not 0 < width <= _MAX_BINS:
        raise Unreadable(f"upper_bin_id is {upper}, lower_bin_id {lower}", account.address)
    if len(data) < _BASE_SIZE + _MORE_SIZE * max(width - _BASE_BINS, 0):
        raise Unreadable(f"{width} bins in {len(data)} bytes", account.address)
    owner, fee_owner = raw_pubkey(data, _OWNER_AT), raw_pubkey(data, _FEE_OWNER_AT)
    pair = raw_pubkey(data, 8)
    parts, wholes = _columns(data, width, _SHARES_AT, 0, 2)
    shares = _wide(parts, wholes)
    return _Shares(
        account=account,
        pair=pair,
        owner=owner,
        fee_owner=owner if fee_owner == _NOBODY else fee_owner,
        lower=lower,
        upper=upper,
        release_point=u64(data, 7992),
        shares=shares,
        whole_shares=wholes,
        arrays={
            index: array_address(pair, index)
            for index in range(lower // bins.ARRAY_BINS, upper // bins.ARRAY_BINS + 1)
            if any(shares[_part(index, lower, upper)])
        },
    )


def _part(index: int, lower: int, upper: int) -> slice:
    """Return which bins of a position are in an array."""
    first = index * bins.ARRAY_BINS
    return slice(max(first - lower, 0), min(first + bins.ARRAY_BINS, upper + 1) - lower)


def _columns(data: bytes, width: int, at: int, of_more: int, words: int) -> list[tuple[int, ...]]:
    """Return words of all bins, by columns: the base has them at `at`, what is beyond at a word."""
    base = min(width, _BASE_BINS)
    flat = struct.unpack_from(f"<{base * words}Q", data, at)
    columns = [flat[word::words] for word in range(words)]
    if width > base:
        more = struct.unpack_from(f"<{(width - base) * _MORE_WORDS}Q", data, _BASE_SIZE)
        beyond = [more[of_more + word :: _MORE_WORDS] for word in range(words)]
        columns = [own + others for own, others in zip(columns, beyond, strict=True)]
    return columns


def _wide(low: Sequence[int], high: Sequence[int]) -> Sequence[int]:
    """Return integers of 16 bytes from their halves."""
    if not any(high):
        return low
    return [lower | upper << 64 for lower, upper in zip(low, high, strict=True)]


def _counted(shares: _Shares, at: int, of_more: int) -> list[_Counted]:
    """Return both counters that are there."""
    columns = _columns(shares.account.data, shares.width, at, of_more, _COUNTED_WORDS)
    first_low, first_high, second_low, second_high, first, second = columns
    return [
        _Counted(_wide(first_low, first_high), first),
        _Counted(_wide(second_low, second_high), second),
    ]


@lru_cache(_CACHED_ARRAYS)
def _bins(array: bytes) -> _Bins:
    """Return the bins of an array's data."""
    flat = _ARRAY.unpack_from(array, _BINS_AT)
    columns = [flat[word::_BIN_WORDS] for word in range(_BIN_WORDS)]
    return _Bins(
        columns[0],
        columns[1],
        _wide(columns[4], columns[5]),
        tuple(_wide(columns[at], columns[at + 1]) for at in _COUNTERS_AT),
    )


def _pair(account: Account, of: _Shares) -> _Pair:
    data = account.data
    if account.kind is not PAIR or len(data) != PAIR.size:
        raise Unreadable("lb_pair is no pair", of.account.address)
    function, activation = data[35], data[86]
    if function > _LIMIT_ORDERS or activation > 1:
        raise Unreadable(
            f"the pair's function_type is {function}, activation_type {activation}",
            of.account.address,
        )
    rewards = tuple(
        _Reward(
            raw_pubkey(data, at), u64(data, at + 104), u128(data, at + 112), u64(data, at + 128)
        )
        for at in (264, 408)
    )
    return _Pair(
        x=raw_pubkey(data, 88),
        y=raw_pubkey(data, 120),
        active=int.from_bytes(data[76:80], "little", signed=True),
        bin_step_bps=u16(data, 80),
        is_by_slot=activation == 0,
        rewards=() if function == _LIMIT_ORDERS else rewards,
    )


def _position(
    shares: _Shares,
    wallet: bytes,
    pair: _Pair | None,
    known: Mapping[bytes, Account],
    decimals: Mapping[bytes, int],
    world: World,
) -> Position:
    needed = (shares.pair, *shares.arrays.values())
    position = Position(
        ROUTE,
        shares.account,
        market=shares.pair,
        missing=[address for address in needed if address not in known],
        reference_slot=min((known[each].slot for each in needed if each in known), default=None),
    )
    if pair is None:
        position.unsupported_fields = ["assets: the pair is not known"]
        return position
    position.range = _range(shares, pair, decimals)
    is_locked = shares.release_point > (world.slot if pair.is_by_slot else world.time_s)
    if wallet == shares.owner:
        position.locks = [_lock(shares, pair)] if is_locked else []
    lines = _lines(shares, wallet, pair, is_locked)
    if position.missing:
        position.unsupported_fields = [_SHARES_UNKNOWN]
        position.assets = [Asset(role, mint, None, decimals.get(mint)) for role, mint, _ in lines]
        return position
    amounts = _amounts(shares, pair, known, world)
    position.assets = [
        Asset(role, mint, amounts[number], decimals.get(mint))
        for role, mint, number in lines
        if amounts[number]
    ]
    return position


def _lines(
    shares: _Shares, wallet: bytes, pair: _Pair, is_locked: bool
) -> list[tuple[Role, bytes, int]]:
    """Return the lines that belong to a wallet: role, mint, and the number of its amount."""
    lines = []
    if wallet == shares.owner:
        supply = Role.LOCKED if is_locked else Role.SUPPLY
        lines += [(supply, pair.x, 0), (supply, pair.y, 1)]
    if wallet == shares.fee_owner:
        lines += [(Role.REWARD, pair.x, 2), (Role.REWARD, pair.y, 3)]
    if wallet == shares.owner:
        lines += [
            (Role.REWARD, reward.mint, number)
            for number, reward in enumerate(pair.rewards, 4)
            if reward.mint != _NOBODY
        ]
    return lines


def _amounts(
    shares: _Shares, pair: _Pair, known: Mapping[bytes, Account], world: World
) -> list[int]:
    """Return X, Y, fees of both and both rewards, summed over bins, each rounded down in its bin.

    Without a share in a bin, only what is pending there counts.
    """
    arrays = {index: _array(known[address], shares) for index, address in shares.arrays.items()}
    mine = dict(enumerate(_counted(shares, _FEES_AT, _MORE_FEES)))
    if paid := [number for number, each in enumerate(pair.rewards) if each.mint != _NOBODY]:
        rewards = _counted(shares, _REWARDS_AT, _MORE_REWARDS)
        mine |= {2 + number: rewards[number] for number in paid}
    total = [0] * 6
    for number, of_counter in mine.items():
        total[2 + number] = sum(of_counter.pending_raw)
    fell: list[tuple[int, int]] = []  # bin, counter
    for index, array in arrays.items():
        of = _part(index, shares.lower, shares.upper)
        first = shares.lower + of.start
        place = first - index * bins.ARRAY_BINS
        theirs = slice(place, place + of.stop - of.start)
        own, wholes = shares.shares[of], shares.whole_shares[of]
        supplies = array.supplies[theirs]
        total[0] += bins.parts_of(own, array.x_raw[theirs], supplies)
        total[1] += bins.parts_of(own, array.y_raw[theirs], supplies)
        active = pair.active - first
        for number, of_counter in mine.items():
            stored = array.counters[number][theirs]
            if number > 1 and 0 <= active < len(stored):
                unpaid = _unpaid(pair.rewards[number - 2], supplies[active], world)
                stored = [*stored]
                stored[active] += unpaid
            seen = of_counter.seen_q64[of]
            grown = [now - then for now, then in zip(stored, seen, strict=True)]
            total[2 + number] += bins.earned(wholes, grown)
            if min(grown) < 0:  # it never falls
                fell += [
                    (bin_id, number)
                    for bin_id, (share, by) in enumerate(zip(own, grown, strict=True), first)
                    if share and by < 0
                ]
    if fell:
        bin_id, number = min(fell)
        raise Unreadable(
            f"bin {bin_id} has less {_COUNTERS[number]} per share than was seen",
            shares.account.address,
        )
    return total


def _unpaid(reward: _Reward, supply: int, world: World) -> int:
    """Return what the active bin's shares (Q64.64) get when the program next touches it."""
    seconds = max(min(world.time_s, reward.ends_s) - reward.updated_s, 0)
    return bins.reward_growth(reward.rate_q64, seconds, supply)


def _array(account: Account, of: _Shares) -> _Bins:
    if account.kind is not BIN_ARRAY or len(account.data) != BIN_ARRAY.size:
        raise Unreadable("a bin array's address has something else", of.account.address)
    return _bins(account.data)


def _range(shares: _Shares, pair: _Pair, decimals: Mapping[bytes, int]) -> Range:
    power = whole_ratio(pair.x, pair.y, decimals)
    lower, upper, current = (
        None if power is None else _price(bin_id, pair.bin_step_bps, power)
        for bin_id in (shares.lower, shares.upper, pair.active)
    )
    return Range(
        base=pair.x,
        quote=pair.y,
        lower_index=shares.lower,
        upper_index=shares.upper,
        current_index=pair.active,
        lower=lower,
        upper=upper,
        current=current,
        is_in_range=shares.lower <= pair.active <= shares.upper,
    )


@lru_cache(_CACHED_PRICES)
def _price(bin_id: int, bin_step_bps: int, power: int) -> Fraction | None:
    """Return the price of a bin, of a whole X in whole Y."""
    raw = bins.price_of(bin_id, bin_step_bps)
    return None if raw is None else raw * Fraction(10) ** power


def _lock(shares: _Shares, pair: _Pair) -> Lock:
    """Return the lock of all shares until a slot or a time."""
    point = shares.release_point
    return Lock(
        "term",
        locked_raw=sum(shares.shares),
        claimable_raw=0,
        ends_ms=None if pair.is_by_slot else min(point * 1000, _JSON_MAX),
        ends_slot=min(point, _JSON_MAX) if pair.is_by_slot else None,
    )


PROTOCOL: Final = Protocol(
    "meteora_dlmm",
    (POSITION, POSITION_V1, PAIR, BIN_ARRAY),
    (Route(ROUTE, Shape.LIQUIDITY, "Liquidity in bins, with fees and rewards not yet claimed"),),
    read,
    unsupported_fields=(
        "limit orders",
        "amounts of positions of the first version",
        "Token-2022 transfer fees: amounts are before them",
    ),
)
