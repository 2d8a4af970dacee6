"""Meteora DLMM: liquidity in bins, each at one price.

A position has shares of up to 1,400 bins in a row; a share is of the bin's reserves, and earns
fees and up to two rewards. Shares belong to `owner`; fees to `fee_owner` where that is set, which
owns nothing else; `operator` may act for the owner, and owns nothing.
Source: IDL `lb_clmm` 0.12.0 (zero-copy layouts), `@meteora-ag/dlmm` 1.9.14 `processPosition`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain, islice
from typing import Final, NamedTuple

from solders.pubkey import Pubkey

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
_SHARE: Final = struct.Struct("<2Q")
_COUNTED: Final = struct.Struct("<6Q")  # two counters of u128, two pending u64
_MORE: Final = struct.Struct("<14Q")  # PositionBinData: share, rewards, fees
_BIN: Final = struct.Struct("<14Q")  # X, Y, price, supply, both rewards, both fees; more behind
_BINS_AT: Final = 56
_BIN_SIZE: Final = 144
_COUNTERS: Final = ("fee_x", "fee_y", "reward_0", "reward_1")
_COUNTERS_AT: Final = (10, 12, 6, 8)  # in words of 8 bytes
_CACHED_ADDRESSES: Final = 1 << 15  # one or two for each position; some 300 bytes each
_NOBODY: Final = bytes(32)
_JSON_MAX: Final = (1 << 53) - 1
_LIMIT_ORDERS: Final = 2  # FunctionType; 0 is undetermined, 1 liquidity mining
_SHARES_UNKNOWN: Final = "assets: shares in a bin array that is not known"


class _Bin(NamedTuple):
    """A position's part of a bin; its counters are fees of X and Y, then both rewards."""

    bin_id: int
    share: int
    seen_q64: tuple[int, ...]  # what the position last saw of each counter
    pending_raw: tuple[int, ...]  # what it had earned until then


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
    bins: tuple[_Bin, ...]

    @property
    def arrays(self) -> dict[int, bytes]:
        """The arrays that its shares are in: index -> address."""
        indexes = {bins.array_of(each.bin_id)[0] for each in self.bins if each.share}
        return {index: array_address(self.pair, index) for index in sorted(indexes)}


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


@lru_cache(_CACHED_ADDRESSES)  # it is searched for by hashing
def array_address(pair: bytes, index: int) -> bytes:
    """Return the address of a pair's array of bins."""
    seeds = [b"bin_array", pair, struct.pack("<q", index)]
    return bytes(Pubkey.find_program_address(seeds, Pubkey(PROGRAM))[0])


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

    Its tokens are lines without an amount, so that no sum passes for the whole without them.
    """
    if len(account.data) != POSITION_V1.size:
        raise Unreadable(f"position of {len(account.data)} bytes", account.address)
    address = account.data[8:40]
    position = Position(
        ROUTE,
        account,
        market=address,
        unsupported_fields=["assets: a position of the first version", "range"],
    )
    pair = known.get(address)
    if pair is None:
        position.missing = [address]
        return position
    if pair.kind is not PAIR or len(pair.data) != PAIR.size:
        raise Unreadable("lb_pair is no pair", account.address)
    position.reference_slot = pair.slot
    mints = raw_pubkey(pair.data, 88), raw_pubkey(pair.data, 120)
    position.assets = [
        Asset(role, mint, None) for role in (Role.SUPPLY, Role.REWARD) for mint in mints
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
    if len(data) < _BASE_SIZE + _MORE.size * max(width - _BASE_BINS, 0):
        raise Unreadable(f"{width} bins in {len(data)} bytes", account.address)
    owner, fee_owner = raw_pubkey(data, _OWNER_AT), raw_pubkey(data, _FEE_OWNER_AT)
    return _Shares(
        account=account,
        pair=raw_pubkey(data, 8),
        owner=owner,
        fee_owner=owner if fee_owner == _NOBODY else fee_owner,
        lower=lower,
        upper=upper,
        release_point=u64(data, 7992),
        bins=tuple(islice(_bins(data, lower), width)),
    )


def _bins(data: bytes, lower: int) -> Iterator[_Bin]:
    """Yield the part of each bin: of the base by columns, of those beyond it one by one."""
    parts = chain(
        zip(
            _SHARE.iter_unpack(data[72:1192]),
            _COUNTED.iter_unpack(data[1192:4552]),
            _COUNTED.iter_unpack(data[4552:7912]),
            strict=True,
        ),
        (
            (part[:2], part[2:8], part[8:])
            for part in _MORE.iter_unpack(data[_BASE_SIZE : _whole(len(data))])
        ),
    )
    for bin_id, (share, rewards, fees) in enumerate(parts, lower):
        yield _Bin(
            bin_id,
            share[0] | share[1] << 64,
            (
                fees[0] | fees[1] << 64,
                fees[2] | fees[3] << 64,
                rewards[0] | rewards[1] << 64,
                rewards[2] | rewards[3] << 64,
            ),
            (fees[4], fees[5], rewards[4], rewards[5]),
        )


def _whole(size: int) -> int:
    """Return where the last whole bin beyond the base ends."""
    return size - (size - _BASE_SIZE) % _MORE.size


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
    counters = (0, 1, *(2 + n for n, each in enumerate(pair.rewards) if each.mint != _NOBODY))
    total = [0] * 6
    for mine in shares.bins:
        share = mine.share
        for number in counters:
            total[2 + number] += mine.pending_raw[number]
        if not share:
            continue
        index, place = bins.array_of(mine.bin_id)
        of_bin = _BIN.unpack_from(arrays[index], _BINS_AT + _BIN_SIZE * place)
        supply = of_bin[4] | of_bin[5] << 64
        total[0] += bins.share_of(share, of_bin[0], supply)
        total[1] += bins.share_of(share, of_bin[1], supply)
        for number in counters:
            at = _COUNTERS_AT[number]
            stored = of_bin[at] | of_bin[at + 1] << 64
            if number > 1 and mine.bin_id == pair.active:
                stored += _unpaid(pair.rewards[number - 2], supply, world)
            if stored < mine.seen_q64[number]:  # it never falls
                raise Unreadable(
                    f"bin {mine.bin_id} has less {_COUNTERS[number]} per share than was seen",
                    shares.account.address,
                )
            total[2 + number] += bins.earned(share, stored - mine.seen_q64[number])
    return total


def _unpaid(reward: _Reward, supply: int, world: World) -> int:
    """Return what the active bin's shares (Q64.64) get when the program next touches it."""
    seconds = max(min(world.time_s, reward.ends_s) - reward.updated_s, 0)
    return bins.reward_growth(reward.rate_q64, seconds, supply)


def _array(account: Account, of: _Shares) -> bytes:
    if account.kind is not BIN_ARRAY or len(account.data) != BIN_ARRAY.size:
        raise Unreadable("a bin array's address has something else", of.account.address)
    return account.data


def _range(shares: _Shares, pair: _Pair, decimals: Mapping[bytes, int]) -> Range:
    power = whole_ratio(pair.x, pair.y, decimals)

    def price(bin_id: int) -> Fraction | None:
        raw = bins.price_of(bin_id, pair.bin_step_bps)
        return None if raw is None or power is None else raw * Fraction(10) ** power

    return Range(
        base=pair.x,
        quote=pair.y,
        lower_index=shares.lower,
        upper_index=shares.upper,
        current_index=pair.active,
        lower=price(shares.lower),
        upper=price(shares.upper),
        current=price(pair.active),
        is_in_range=shares.lower <= pair.active <= shares.upper,
    )


def _lock(shares: _Shares, pair: _Pair) -> Lock:
    """Return the lock of all shares until a slot or a time."""
    point = shares.release_point
    return Lock(
        "term",
        locked_raw=sum(each.share for each in shares.bins),
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
