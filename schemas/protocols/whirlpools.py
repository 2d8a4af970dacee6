"""Orca Whirlpools: liquidity between two ticks, its fees and its rewards until now.

A position belongs to the holder of the NFT of its mint, in either token program. Positions of a
bundle have the bundle's mint there, so that the one NFT finds them all without their bundle
account. A tick without liquidity has no growth of its own: by the program's convention all of it
was below. Amounts are those that leave the pool: what a Token-2022 mint takes of a transfer is not
taken off. Reference slots are of pools, tick arrays and locks; a mint's decimals never change.
Source: orca-so/whirlpools, IDL; state/{position,whirlpool,fixed_tick_array,dynamic_tick_array,
lock_config}.rs, manager/{position,tick,whirlpool}_manager.rs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
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
    Reading,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.protocols.math.concentrated import Growth, grown, owed_raw, price_range, token_amounts
from schemas.protocols.math.ticks import array_start, orca_sqrt_price_x64
from schemas.protocols.mint import MINT, MINT_2022, MINT_2022_EXTENDED
from schemas.solana.addresses import key
from schemas.solana.borsh import raw_pubkey, u16, u64, u128

_PROGRAM: Final = key("whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc")


def _kind(name: str, tag: str, size: int | None = None) -> Kind:
    return Kind(f"whirlpools_{name}", _PROGRAM, bytes.fromhex(tag), size=size)


POSITION: Final = Kind(
    "whirlpools_position", _PROGRAM, bytes.fromhex("aabc8fe47a40f7d0"), size=216, mints=(40,)
)
WHIRLPOOL: Final = _kind("whirlpool", "3f95d10ce1806309", 653)
LOCK: Final = _kind("lock_config", "6a2fee9f7c0ca0c0")
TICK_ARRAY: Final = Kind(
    "whirlpools_tick_array",
    _PROGRAM,
    bytes.fromhex("4561bdbe6e0742bb"),
    size=9988,
    group="arrays",
)
DYNAMIC_TICK_ARRAY: Final = Kind(
    "whirlpools_dynamic_tick_array", _PROGRAM, bytes.fromhex("11d8f68ee1c7da38"), group="arrays"
)

_MINTS: Final = (MINT, MINT_2022, MINT_2022_EXTENDED)
_DECIMALS_AT: Final = 44
_TICKS: Final = 88
_REWARDS: Final = 3
_REWARD_SIZE: Final = 128
_U64: Final = (1 << 64) - 1
_OUTSIDE: Final = struct.Struct("<10Q")  # five growths, each of two words
_CACHED_ARRAYS: Final = 1 << 13  # addresses, some 300 bytes each
_UNKNOWN: Final = "fees and rewards: a tick array is missing"


class _Placed(NamedTuple):
    """A position's own account."""

    account: Account
    pool: bytes
    mint: bytes
    liquidity: int
    ticks: tuple[int, int]
    sqrt_prices_x64: tuple[int, int]  # at its ticks
    is_first: bool  # of those with its mint


class _Tick(NamedTuple):
    """Growths on the far side of a tick: fees of a and b, then rewards."""

    outside: tuple[int, ...]


def read(held: Held, world: World) -> Reading:
    """Return the positions of the NFTs that a wallet holds, with what they are owed by now."""
    positions = [*_positions(held)]
    if not positions:
        return []
    locks = {each.account.address: _lock_address(each.account.address) for each in positions}
    found = dict((yield [*{each.pool for each in positions}, *locks.values()]))
    wanted: set[bytes] = set()
    for each in positions:
        if pool := _of(found, each.pool, WHIRLPOOL):
            wanted |= set(_mints(pool, each.account))
            wanted |= set(_arrays(each, pool))
    if wanted:
        found |= yield [*wanted]
    return [_position(each, found, locks[each.account.address], world) for each in positions]


def _positions(held: Held) -> Iterator[_Placed]:
    seen: set[bytes] = set()
    for account in held.of(POSITION):
        data = account.data
        try:
            pool, mint = raw_pubkey(data, 8), raw_pubkey(data, 40)
            if not held.tokens.get(mint):
                continue
            lower, upper = struct.unpack_from("<ii", data, 88)
            placed = _Placed(
                account,
                pool,
                mint,
                u128(data, 72),
                (lower, upper),
                (orca_sqrt_price_x64(lower), orca_sqrt_price_x64(upper)),
                is_first=mint not in seen,
            )
            u64(data, 208)  # the last of its fields
        except struct.error:
            raise Unreadable(f"position of {len(data)} bytes", account.address) from None
        except ValueError as reason:
            raise Unreadable(f"position: {reason}", account.address) from None
        if lower >= upper:
            raise Unreadable(f"position: ticks {lower} and {upper}", account.address)
        seen.add(mint)
        yield placed


def _of(found: Mapping[bytes, Account], address: bytes, kind: Kind) -> Account | None:
    account = found.get(address)
    return account if account is not None and account.kind is kind else None


def _derived(*seeds: bytes) -> bytes:
    return bytes(Pubkey.find_program_address(list(seeds), Pubkey(_PROGRAM))[0])


def _lock_address(position: bytes) -> bytes:
    return _derived(b"lock_config", position)


def _mints(pool: Account, position: Account) -> tuple[bytes, bytes]:
    if len(pool.data) != WHIRLPOOL.size:
        raise Unreadable(f"whirlpool of {len(pool.data)} bytes", position.address)
    return raw_pubkey(pool.data, 101), raw_pubkey(pool.data, 181)


def _arrays(placed: _Placed, pool: Account) -> tuple[bytes, ...]:
    """Return the addresses of the arrays that a position's ticks are in; none without liquidity."""
    if not placed.liquidity:
        return ()
    spacing = u16(pool.data, 41)
    if not spacing:
        raise Unreadable("whirlpool: tick_spacing is 0", placed.account.address)
    return tuple(
        _array_address(placed.pool, array_start(tick, spacing, _TICKS)) for tick in placed.ticks
    )


@lru_cache(_CACHED_ARRAYS)  # many positions are in few arrays, and it is searched for by hashing
def _array_address(pool: bytes, start: int) -> bytes:
    return _derived(b"tick_array", pool, str(start).encode())


def _position(
    placed: _Placed, found: Mapping[bytes, Account], lock_at: bytes, world: World
) -> Position:
    account = placed.account
    position = Position("liquidity", account, market=placed.pool)
    if _derived(b"position", placed.mint) == account.address:
        position.id = placed.mint  # one of a bundle has its account's address
    if placed.is_first:
        position.stands_for[placed.mint] = 1
    pool = _of(found, placed.pool, WHIRLPOOL)
    if pool is None:
        position.missing.append(placed.pool)
        return position
    used = [pool]
    if lock := _of(found, lock_at, LOCK):
        used.append(lock)
        position.locks.append(Lock("permanent", locked_raw=placed.liquidity, claimable_raw=0))
    data = pool.data
    mints = _mints(pool, account)
    decimals = [_decimals(found.get(mint)) for mint in mints]
    sqrt_price_x64 = u128(data, 65)
    [current_tick] = struct.unpack_from("<i", data, 81)
    lower_x64, upper_x64 = placed.sqrt_prices_x64
    position.range = price_range(
        mints,
        (decimals[0], decimals[1]),
        placed.ticks,
        current_tick,
        (lower_x64, upper_x64, sqrt_price_x64),
    )
    amounts = token_amounts(placed.liquidity, sqrt_price_x64, lower_x64, upper_x64)
    if max(amounts) > _U64:
        raise Unreadable("position: its liquidity is more than u64 of a token", account.address)
    role = Role.LOCKED if position.locks else Role.SUPPLY
    for mint, raw, of in zip(mints, amounts, decimals, strict=True):
        if raw:
            position.assets.append(Asset(role, mint, raw, of))
    addresses = _arrays(placed, pool)
    arrays = [found[each] for each in addresses if _is_array(found.get(each))]
    position.missing += [each for each in dict.fromkeys(addresses) if each not in found]
    used += arrays
    position.reference_slot = min(each.slot for each in used)
    growths = [*_growths(pool, world.time_s)]
    ticks: list[_Tick] | None = None
    if len(arrays) == len(addresses):
        ticks = [
            _tick(array, tick, u16(data, 41), account)
            or _Tick(tuple(whole if current_tick >= tick else 0 for _, whole in growths))
            for array, tick in zip(arrays, placed.ticks, strict=False)
        ]
    else:
        position.unsupported_fields.append(_UNKNOWN)
    for number, (mint, whole) in enumerate(growths):
        if mint == bytes(32):
            continue
        at = 96 + 24 * number
        owed = _owed(placed, current_tick, number, whole, ticks, at)
        if owed is None or owed:
            of = decimals[number] if number < 2 else None
            position.assets.append(Asset(Role.REWARD, mint, owed, of))
    return position


def _owed(
    placed: _Placed,
    current_tick: int,
    number: int,
    whole: int,
    ticks: list[_Tick] | None,
    at: int,
) -> int | None:
    """Return what is owed of fee a, fee b or a reward; None: its ticks are missing."""
    if ticks is None:
        return None
    checkpoint, owed = u128(placed.account.data, at), u64(placed.account.data, at + 16)
    lower, upper = (each.outside[number] for each in ticks) if ticks else (0, 0)
    growth = Growth(whole, lower, upper, checkpoint, owed)
    return owed_raw(placed.liquidity, current_tick, placed.ticks, growth) & _U64


def _decimals(mint: Account | None) -> int | None:
    if mint is None or mint.kind not in _MINTS or len(mint.data) <= _DECIMALS_AT:
        return None
    return mint.data[_DECIMALS_AT]


def _is_array(account: Account | None) -> bool:
    return account is not None and account.kind in (TICK_ARRAY, DYNAMIC_TICK_ARRAY)


def _growths(pool: Account, time_s: int) -> Iterator[tuple[bytes, int]]:
    """Yield (mint, growth of a unit of liquidity): of fees, then of rewards until now."""
    data = pool.data
    for mint_at, growth_at in ((101, 165), (181, 245)):
        yield raw_pubkey(data, mint_at), u128(data, growth_at)
    past_s = max(time_s - u64(data, 261), 0)
    for at in range(269, 269 + _REWARDS * _REWARD_SIZE, _REWARD_SIZE):
        whole = grown(u128(data, at + 112), u128(data, at + 96), past_s, u128(data, 49))
        yield raw_pubkey(data, at), whole


def _tick(array: Account, tick: int, spacing: int, position: Account) -> _Tick | None:
    """Return a tick of an array; None: it has no liquidity."""
    index = tick // spacing % _TICKS
    try:
        if array.kind is TICK_ARRAY:
            at, is_initialized = 13 + 113 * index, array.data[12 + 113 * index] != 0
        else:
            at, is_initialized = _dynamic(array.data, index)
        if is_initialized:  # its net and gross liquidity first
            words = _OUTSIDE.unpack_from(array.data, at + 32)
            return _Tick(tuple(map(_whole, words[::2], words[1::2])))
    except (struct.error, IndexError):
        raise Unreadable(f"tick array of {len(array.data)} bytes", position.address) from None
    return None


def _whole(low: int, high: int) -> int:
    return low | high << 64


def _dynamic(data: bytes, index: int) -> tuple[int, bool]:
    """Return where a tick's fields are in a dynamic array, and whether it has them."""
    at = 60
    for _ in range(index):
        at += 113 if data[at] else 1
    return at + 1, data[at] != 0


PROTOCOL: Final = Protocol(
    "whirlpools",
    (POSITION, WHIRLPOOL, LOCK, TICK_ARRAY, DYNAMIC_TICK_ARRAY),
    (Route("liquidity", Shape.LIQUIDITY, "Liquidity between two prices, its fees and rewards"),),
    read,
    unsupported_fields=("Token-2022 transfer fees: amounts are before them",),
    reads_tokens=True,
)
