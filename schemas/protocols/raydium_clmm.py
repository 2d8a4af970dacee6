"""Raydium CLMM: liquidity between two ticks, its fees and its rewards until now.

A position belongs to the holder of the NFT of its mint, in either token program. The lock program
keeps the NFT of a position for ever, and gives another NFT for it: its holder collects fees and
rewards. Amounts are those that leave the pool: what a Token-2022 mint takes of a transfer is not
taken off; none leaves while a bit of the pool's status disables it. Limit orders are accounts of
their own and are not read.
Sources: raydium-io/raydium-clmm, states/{personal_position,pool,tick_array}.rs,
libraries/liquidity_math.rs, instructions/{increase,decrease}_liquidity.rs; `LockClPositionLayoutV2`
of its SDK 0.2.73-alpha, which gives no tag: the size identifies a lock.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
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
    Reading,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.protocols.math.concentrated import Growth, grown, owed_raw, price_range, token_amounts
from schemas.protocols.math.ticks import array_start, raydium_sqrt_price_x64
from schemas.protocols.vaults import PAUSED
from schemas.solana.addresses import key
from schemas.solana.borsh import raw_pubkey, u16, u64, u128
from schemas.solana.derived import derived

_PROGRAM: Final = key("CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK")
_LOCKS: Final = key("LockrWmn6K5twhz3y9w1dQERbmgSaRkfnTeTKbpofwE")

POSITION: Final = Kind(
    "raydium_clmm_position", _PROGRAM, bytes.fromhex("466f967ee60f1975"), size=281, mints=(9,)
)
POOL: Final = Kind("raydium_clmm_pool", _PROGRAM, bytes.fromhex("f7ede3f5d7c3de46"), size=1544)
TICK_ARRAY: Final = Kind(
    "raydium_clmm_tick_array",
    _PROGRAM,
    bytes.fromhex("c09b55cd31f9812a"),
    size=10240,
    group="arrays",
)
LOCK: Final = Kind("raydium_clmm_lock", _LOCKS, size=241, mints=(137,))

_TICKS: Final = 60
_TICK_SIZE: Final = 168
_STATUS_AT: Final = 389
_NO_DECREASE: Final = 2
_REWARDS_AT: Final = range(397, 397 + 3 * 169, 169)
_U64: Final = (1 << 64) - 1
_CACHED_POOLS: Final = 1 << 10  # 3 kB each
_CACHED_ROOTS: Final = 1 << 15  # two for each position; some 200 bytes each
_UNKNOWN: Final = "fees and rewards: a tick array is missing"


class _Placed(NamedTuple):
    """A position's own account, and the wallet's that leads to it: the same, or its lock."""

    account: Account
    holder: Account
    pool: bytes
    mint: bytes  # of the wallet's NFT
    liquidity: int
    ticks: tuple[int, int]


def read(held: Held, world: World) -> Reading:
    """Return the positions of the NFTs that a wallet holds, with what they are owed by now."""
    positions = [_placed(each, each, 9) for each in _own(held, POSITION, 9)]
    gone: list[Position] = []
    if locks := [*_own(held, LOCK, 137)]:
        locked = yield [raw_pubkey(each.data, 73) for each in locks]
        for lock in locks:
            address = raw_pubkey(lock.data, 73)
            account = _of(locked, address, POSITION)
            if account is None:
                gone.append(_lost(lock, address))
            else:
                positions.append(_placed(account, lock, 137))
    if not positions:
        return gone
    pools = yield [*{each.pool for each in positions}]
    wanted: set[bytes] = set()
    for each in positions:
        if pool := _of(pools, each.pool, POOL):
            wanted |= set(_arrays(each, pool))
    arrays: Mapping[bytes, Account] = {}
    if wanted:
        arrays = yield [*wanted]
    return [
        *(_position(each, _of(pools, each.pool, POOL), arrays, world) for each in positions),
        *gone,
    ]


def _own(held: Held, kind: Kind, mint_at: int) -> Iterator[Account]:
    """Yield the accounts of a kind whose NFT the wallet holds."""
    for account in held.of(kind):
        if len(account.data) != kind.size:
            raise Unreadable(f"{kind.name} of {len(account.data)} bytes", account.address)
        if held.tokens.get(raw_pubkey(account.data, mint_at)):
            yield account


def _placed(account: Account, holder: Account, mint_at: int) -> _Placed:
    data = account.data
    if len(data) != POSITION.size:
        raise Unreadable(f"position of {len(data)} bytes", holder.address)
    lower, upper = struct.unpack_from("<ii", data, 73)
    try:
        raydium_sqrt_price_x64(lower)
        raydium_sqrt_price_x64(upper)
    except ValueError as reason:
        raise Unreadable(f"position: {reason}", holder.address) from None
    if lower >= upper:
        raise Unreadable(f"position: ticks {lower} and {upper}", holder.address)
    mint = raw_pubkey(holder.data, mint_at)
    return _Placed(account, holder, raw_pubkey(data, 41), mint, u128(data, 81), (lower, upper))


def _lost(lock: Account, position: bytes) -> Position:
    return Position(
        "liquidity",
        lock,
        id=raw_pubkey(lock.data, 137),
        market=raw_pubkey(lock.data, 41),
        stands_for={raw_pubkey(lock.data, 137): 1},
        missing=[position],
        locks=[Lock("permanent")],
    )


def _of(found: Mapping[bytes, Account], address: bytes, kind: Kind) -> Account | None:
    account = found.get(address)
    return account if account is not None and account.kind is kind else None


def _arrays(placed: _Placed, pool: Account) -> tuple[bytes, ...]:
    """Return the addresses of the arrays that a position's ticks are in; none without liquidity."""
    if len(pool.data) != POOL.size:
        raise Unreadable(f"pool of {len(pool.data)} bytes", placed.holder.address)
    if not placed.liquidity:
        return ()
    spacing = u16(pool.data, 235)
    if not spacing:
        raise Unreadable("pool: tick_spacing is 0", placed.holder.address)
    starts = (array_start(tick, spacing, _TICKS) for tick in placed.ticks)
    return tuple(_array_address(placed.pool, start) for start in starts)


_sqrt_price_x64: Final = lru_cache(_CACHED_ROOTS)(raydium_sqrt_price_x64)


def _array_address(pool: bytes, start: int) -> bytes:
    return derived(_PROGRAM, b"tick_array", pool, struct.pack(">i", start))


def _position(
    placed: _Placed, pool: Account | None, found: Mapping[bytes, Account], world: World
) -> Position:
    position = Position(
        "liquidity",
        placed.account,
        id=placed.mint,
        market=placed.pool,
        stands_for={placed.mint: 1},
    )
    is_locked = placed.holder is not placed.account
    if is_locked:
        position.locks.append(Lock("permanent", locked_raw=placed.liquidity, claimable_raw=0))
    if pool is None:
        position.missing.append(placed.pool)
        return position
    data = pool.data
    addresses = _arrays(placed, pool)
    mints = (raw_pubkey(data, 73), raw_pubkey(data, 105))
    decimals = (data[233], data[234])
    sqrt_price_x64 = u128(data, 253)
    [current_tick] = struct.unpack_from("<i", data, 269)
    lower_x64, upper_x64 = map(_sqrt_price_x64, placed.ticks)
    position.range = price_range(
        mints, decimals, placed.ticks, current_tick, (lower_x64, upper_x64, sqrt_price_x64)
    )
    amounts = token_amounts(placed.liquidity, sqrt_price_x64, lower_x64, upper_x64)
    if max(amounts) > _U64:
        raise Unreadable("position: its liquidity is more than u64", placed.holder.address)
    is_paused = bool(data[_STATUS_AT] & _NO_DECREASE)
    if is_paused:
        position.unsupported_fields.append(PAUSED)
    role = Role.LOCKED if is_locked or is_paused else Role.SUPPLY
    for mint, raw, of in zip(mints, amounts, decimals, strict=True):
        if raw:
            position.assets.append(Asset(role, mint, raw, of))
    arrays = [array for each in addresses if (array := _of(found, each, TICK_ARRAY))]
    position.missing += [each for each in dict.fromkeys(addresses) if each not in found]
    used = [pool, *arrays]
    if is_locked:
        used.append(placed.account)
        used.append(placed.holder)
    position.reference_slot = min(each.slot for each in used)
    outside: list[tuple[int, ...]] | None = None
    if len(arrays) == len(addresses):
        outside = [
            _outside(array, tick, u16(data, 235), placed.holder)
            for array, tick in zip(arrays, placed.ticks, strict=False)
        ]
    else:
        position.unsupported_fields.append(_UNKNOWN)
    own = placed.account.data
    for number, (mint, whole) in enumerate(_growths(data, world.time_s)):
        if mint == bytes(32):
            continue
        owed: int | None = None
        if outside is not None:
            lower, upper = (each[number] for each in outside) if outside else (0, 0)
            growth = Growth(whole, lower, upper, _checkpoint(own, number), _owed(own, number))
            owed = owed_raw(placed.liquidity, current_tick, placed.ticks, growth)
            if owed > _U64:
                raise Unreadable("position: it is owed more than u64", placed.holder.address)
        if owed is None or owed:
            line = Asset(Role.REWARD, mint, owed, decimals[number] if number < 2 else None)
            position.assets.append(line)
    return position


def _checkpoint(data: bytes, number: int) -> int:
    return u128(data, 97 + 16 * number if number < 2 else 145 + 24 * (number - 2))


def _owed(data: bytes, number: int) -> int:
    return u64(data, 129 + 8 * number if number < 2 else 161 + 24 * (number - 2))


@lru_cache(_CACHED_POOLS)  # one pool is in many positions
def _growths(pool: bytes, time_s: int) -> tuple[tuple[bytes, int], ...]:
    """Return (mint, growth of a unit of liquidity): of fees, then of rewards until now."""
    return (
        (raw_pubkey(pool, 73), u128(pool, 277)),
        (raw_pubkey(pool, 105), u128(pool, 293)),
        *((raw_pubkey(pool, at + 57), _reward_growth(pool, at, time_s)) for at in _REWARDS_AT),
    )


def _reward_growth(data: bytes, at: int, time_s: int) -> int:
    """Return a reward's growth now: from its opening to its end, and not more than u64 in all."""
    opens_s, ends_s, updated_s = (u64(data, at + offset) for offset in (1, 9, 17))
    per_second_x64, emitted_raw = u128(data, at + 25), u64(data, at + 41)
    whole, liquidity = u128(data, at + 153), u128(data, 237)
    past_s = min(time_s, ends_s) - updated_s
    if time_s <= opens_s or past_s <= 0 or emitted_raw == _U64:
        return whole
    left_raw = _U64 - emitted_raw
    if -(-past_s * per_second_x64 >> 64) > left_raw:
        return grown(whole, left_raw << 64, 1, liquidity)
    return grown(whole, per_second_x64, past_s, liquidity)


def _outside(array: Account, tick: int, spacing: int, holder: Account) -> tuple[int, ...]:
    """Return the growths on the far side of a tick: fees of both tokens, then rewards."""
    if len(array.data) != TICK_ARRAY.size:
        raise Unreadable(f"tick array of {len(array.data)} bytes", holder.address)
    at = 44 + _TICK_SIZE * (tick // spacing % _TICKS)
    return tuple(u128(array.data, at + 36 + 16 * each) for each in range(5))


PROTOCOL: Final = Protocol(
    "raydium_clmm",
    (POSITION, POOL, TICK_ARRAY, LOCK),
    (Route("liquidity", Shape.LIQUIDITY, "Liquidity between two prices, its fees and rewards"),),
    read,
    unsupported_fields=("Token-2022 transfer fees: amounts are before them", "limit orders"),
    reads_tokens=True,
)
