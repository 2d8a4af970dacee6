"""Orca Whirlpools: liquidity between two ticks, its fees and its rewards until now.

A position belongs to the holder of the NFT of its mint, in either token program. Positions of a
bundle have the bundle's mint there, so that the one NFT finds them all without their bundle
account. A tick without liquidity has no growth of its own: by the program's convention all of it
was below. Amounts are those that leave the pool: what a Token-2022 mint takes of a transfer is not
taken off. Reference slots are of pools, tick arrays, locks and vaults of rewards; a mint's decimals
never change.

Rewards are emitted until somebody changes that, whatever is left of them: the program pays what is
owed or what the reward's vault has, the lesser. So a wallet's positions count what is in the vault
at most, all together. Until a vault is known its reward counts 0, and is named: anybody can send a
position, and what is not known can only be more.

Source: orca-so/whirlpools, IDL; state/{position,whirlpool,fixed_tick_array,dynamic_tick_array,
lock_config}.rs, manager/{position,tick,whirlpool}_manager.rs, instructions/collect_reward.rs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
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
from schemas.protocols.math.concentrated import grown, owed_raw_of_each, price_range, token_amounts
from schemas.protocols.math.ticks import array_start, orca_sqrt_price_x64
from schemas.protocols.mint import MINT, MINT_2022, MINT_2022_EXTENDED
from schemas.protocols.vaults import Side, vault_amount
from schemas.solana.addresses import key, text
from schemas.solana.borsh import raw_pubkey, u16, u64, u128
from schemas.solana.derived import derived

_PROGRAM: Final = key("whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc")


def _kind(name: str, tag: str, size: int | None = None) -> Kind:
    return Kind(f"whirlpools_{name}", _PROGRAM, bytes.fromhex(tag), size=size)


POSITION: Final = Kind(
    "whirlpools_position",
    _PROGRAM,
    bytes.fromhex("aabc8fe47a40f7d0"),
    size=216,
    mints=(40,),
    most_of_mint=256,  # as many as a bundle has bits
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
_MINT_AT: Final = 40  # of a position
_DECIMALS_AT: Final = 44
_TICKS: Final = 88
_FEES: Final = 2  # of both tokens, before the rewards
_REWARDS_AT: Final = range(269, 269 + 3 * 128, 128)  # of a pool: mint, vault, their emissions
_U64: Final = (1 << 64) - 1
_OUTSIDE: Final = struct.Struct("<10Q")  # five growths, each of two words
_CHECKPOINTS: Final = struct.Struct("<15Q")  # five growths and what is owed of each
_HEAD: Final = struct.Struct("<8x32s32s2Qii")  # a position's pool, mint, liquidity and ticks
_NO_MINT: Final = bytes(32)
_NO_GROWTH: Final = (0,) * 5
_SUPPLY: Final = Role.SUPPLY  # to look a member up takes as long as to make an asset
_REWARD: Final = Role.REWARD
_LOCKED: Final = Role.LOCKED
_CACHED_POSITIONS: Final = 1 << 14  # some 1.3 kB each
_CACHED_POOLS: Final = 1 << 11  # some 2 kB each
_UNKNOWN: Final = "fees and rewards: a tick array is missing"
_NO_VAULT: Final = (
    "rewards: one counts 0 until the vault that pays it is known; the vault is asked for"
)


class _Own(NamedTuple):
    """What a position's own bytes say."""

    pool: bytes
    mint: bytes
    liquidity: int
    ticks: tuple[int, int]
    sqrt_prices_x64: tuple[int, int]  # at its ticks
    checkpoints: tuple[int, ...]  # of growths, when it was last written
    owed_raws: tuple[int, ...]  # of each then
    derived: bytes  # address of the position that its mint alone names: none of a bundle


class _Placed(NamedTuple):
    """A position of the wallet."""

    account: Account
    own: _Own
    is_first: bool  # of those with its mint


class _Pool(NamedTuple):
    """What a pool's bytes say."""

    mints: tuple[bytes, bytes]
    spacing: int
    liquidity: int
    sqrt_price_x64: int
    tick: int
    updated_s: int
    growing: tuple[tuple[bytes, int, int], ...]
    """Of fees, then of rewards: mint, growth of a unit of liquidity, emissions in a second."""
    vaults: Mapping[int, bytes]  # of rewards that are initialized, by their number in `growing`


_Growths = tuple[int, ...]  # fees of a and b, then rewards


class _Rewards:
    """What is left in vaults of rewards, after what the positions before are owed."""

    def __init__(self, found: Mapping[bytes, Account]) -> None:
        self._found = found
        self._left: dict[bytes, int] = {}

    def take(self, vault: bytes, mint: bytes, owed_raw: int) -> int | None:
        """Return what a vault pays of what is owed; None where it is not known.

        Raises Unreadable.
        """
        left = self._left.get(vault)
        if left is None:
            left = vault_amount(self._found, Side(vault, mint, 0, 0))
            if left is None:
                return None
        paid = min(left, owed_raw)
        self._left[vault] = left - paid
        return paid


def read(held: Held, world: World) -> Reading:
    """Return the positions of the NFTs that a wallet holds, with what they are owed by now."""
    positions = [*_positions(held)]
    if not positions:
        return []
    locks = {each.account.address: _lock_address(each.account.address) for each in positions}
    found = dict((yield [*{*[each.own.pool for each in positions], *locks.values()}]))
    wanted: set[bytes] = set()
    pools: list[tuple[_Pool | None, tuple[bytes, ...]]] = []  # of positions, with their arrays
    for each in positions:
        account = _of(found, each.own.pool, WHIRLPOOL)
        now = None if account is None else _pool(account, each.account)
        arrays = () if now is None else _arrays(each, now)
        pools.append((now, arrays))
        if now is not None:
            wanted.update(now.mints, arrays, now.vaults.values())
    if wanted:
        found |= yield [*wanted]
    rewards = _Rewards(found)
    return [
        _position(each, found, now, arrays, locks[each.account.address], world, rewards)
        for each, (now, arrays) in zip(positions, pools, strict=True)
    ]


def _positions(held: Held) -> Iterator[_Placed]:
    seen: set[bytes] = set()
    for account in held.of(POSITION):
        data = account.data
        mint = data[_MINT_AT : _MINT_AT + 32]
        if not held.tokens.get(mint):
            continue
        try:
            own = _own(data)
        except struct.error:
            raise Unreadable(f"position of {len(data)} bytes", account.address) from None
        except ValueError as reason:
            raise Unreadable(f"position: {reason}", account.address) from None
        yield _Placed(account, own, mint not in seen)
        seen.add(mint)


@lru_cache(_CACHED_POSITIONS)  # a position's bytes change when its owner touches it
def _own(data: bytes) -> _Own:
    """Return what a position's bytes say; raises struct.error and ValueError."""
    pool, mint, low, high, lower, upper = _HEAD.unpack_from(data)
    counted = _CHECKPOINTS.unpack_from(data, 96)
    sqrt_prices_x64 = orca_sqrt_price_x64(lower), orca_sqrt_price_x64(upper)
    if lower >= upper:
        raise ValueError(f"ticks {lower} and {upper}")
    words = zip(counted[::3], counted[1::3], strict=True)
    return _Own(
        pool,
        mint,
        low | high << 64,
        (lower, upper),
        sqrt_prices_x64,
        tuple([low | high << 64 for low, high in words]),
        counted[2::3],
        derived(_PROGRAM, b"position", mint),
    )


def _of(found: Mapping[bytes, Account], address: bytes, kind: Kind) -> Account | None:
    account = found.get(address)
    return account if account is not None and account.kind is kind else None


def _lock_address(position: bytes) -> bytes:
    return derived(_PROGRAM, b"lock_config", position)


def _pool(pool: Account, position: Account) -> _Pool:
    if len(pool.data) != WHIRLPOOL.size:
        raise Unreadable(f"whirlpool of {len(pool.data)} bytes", position.address)
    return _decoded(pool.data)


@lru_cache(_CACHED_POOLS)  # one pool is in many positions
def _decoded(data: bytes) -> _Pool:
    fees = ((raw_pubkey(data, at), u128(data, at + 64), 0) for at in (101, 181))
    rewards = (
        (raw_pubkey(data, at), u128(data, at + 112), u128(data, at + 96)) for at in _REWARDS_AT
    )
    vaults = {
        number: raw_pubkey(data, at + 32)
        for number, at in enumerate(_REWARDS_AT, _FEES)
        if raw_pubkey(data, at) != _NO_MINT
    }
    [tick] = struct.unpack_from("<i", data, 81)
    return _Pool(
        (raw_pubkey(data, 101), raw_pubkey(data, 181)),
        u16(data, 41),
        u128(data, 49),
        u128(data, 65),
        tick,
        u64(data, 261),
        (*fees, *rewards),
        vaults,
    )


def _arrays(placed: _Placed, pool: _Pool) -> tuple[bytes, ...]:
    """Return the addresses of the arrays that a position's ticks are in; none without liquidity."""
    own = placed.own
    if not own.liquidity:
        return ()
    if not pool.spacing:
        raise Unreadable("whirlpool: tick_spacing is 0", placed.account.address)
    return _array_addresses(own.pool, own.ticks, pool.spacing)


@lru_cache(_CACHED_POSITIONS)
def _array_addresses(pool: bytes, ticks: tuple[int, int], spacing: int) -> tuple[bytes, ...]:
    starts = [array_start(tick, spacing, _TICKS) for tick in ticks]
    return tuple([derived(_PROGRAM, b"tick_array", pool, str(start).encode()) for start in starts])


def _position(
    placed: _Placed,
    found: Mapping[bytes, Account],
    now: _Pool | None,
    addresses: tuple[bytes, ...],
    lock_at: bytes,
    world: World,
    rewards: _Rewards,
) -> Position:
    account, own, is_first = placed
    position = Position("liquidity", account, market=own.pool)
    if own.derived == account.address:
        position.id = own.mint  # one of a bundle has its account's address
    if is_first:
        position.stands_for[own.mint] = 1
    if now is None:
        position.missing.append(own.pool)
        return position
    pool = found[own.pool]
    used = [pool.slot]
    if lock := _of(found, lock_at, LOCK):
        used.append(lock.slot)
        position.locks.append(Lock("permanent", locked_raw=own.liquidity, claimable_raw=0))
    mints = now.mints
    decimals = _decimals(found.get(mints[0])), _decimals(found.get(mints[1]))
    lower_x64, upper_x64 = own.sqrt_prices_x64
    position.range = price_range(
        mints, decimals, own.ticks, now.tick, (lower_x64, upper_x64, now.sqrt_price_x64)
    )
    amounts = token_amounts(own.liquidity, now.sqrt_price_x64, lower_x64, upper_x64)
    if max(amounts) > _U64:
        raise Unreadable("position: its liquidity is more than u64 of a token", account.address)
    role = _LOCKED if position.locks else _SUPPLY
    for mint, raw, of in zip(mints, amounts, decimals, strict=True):
        if raw:
            position.assets.append(Asset(role, mint, raw, of))
    arrays: list[Account] = []
    for each in addresses:
        array = found.get(each)
        if array is None:
            if each not in position.missing:
                position.missing.append(each)
        elif array.kind is TICK_ARRAY or array.kind is DYNAMIC_TICK_ARRAY:
            arrays.append(array)
            used.append(array.slot)
    position.reference_slot = min(used)
    owed_raws: Sequence[int | None] = (None,) * len(now.growing)
    if len(arrays) == len(addresses):
        owed_raws = _owed(placed, now, arrays, _growths(pool.data, world.time_s))
    else:
        position.unsupported_fields.append(_UNKNOWN)
    for number, (owed, (mint, _, _)) in enumerate(zip(owed_raws, now.growing, strict=True)):
        if mint != _NO_MINT and owed != 0:
            of = decimals[number] if number < _FEES else None
            if owed is not None and (vault := now.vaults.get(number)) is not None:
                owed = _paid(position, rewards, (vault, mint), owed, found)
            position.assets.append(Asset(_REWARD, mint, owed, of))
    return position


def _paid(
    position: Position,
    rewards: _Rewards,
    reward: tuple[bytes, bytes],  # its vault and mint
    owed_raw: int,
    found: Mapping[bytes, Account],
) -> int:
    """Return what is paid of a reward that is owed; the position notes what is not, and why."""
    vault, mint = reward
    paid_raw = rewards.take(vault, mint, owed_raw)
    if paid_raw is None:
        position.lacking.append(vault)
        if _NO_VAULT not in position.unsupported_fields:
            position.unsupported_fields.append(_NO_VAULT)
        return 0
    slot = found[vault].slot
    position.reference_slot = min(slot, position.reference_slot or slot)
    if paid_raw < owed_raw:
        position.unsupported_fields.append(
            f"rewards: {owed_raw - paid_raw} more of {text(mint)} are owed than its vault has"
        )
    return paid_raw


def _owed(placed: _Placed, pool: _Pool, arrays: list[Account], growths: _Growths) -> list[int]:
    """Return what a position is owed now: of fees, then of rewards."""
    own = placed.own
    lower, upper = _outside(placed, pool, arrays, growths)
    of_each = zip(growths, lower, upper, own.checkpoints, own.owed_raws, strict=True)
    owed_raws = owed_raw_of_each(own.liquidity, pool.tick, own.ticks, of_each)
    return [owed & _U64 for owed in owed_raws]


def _outside(
    placed: _Placed, pool: _Pool, arrays: list[Account], growths: _Growths
) -> tuple[_Growths, _Growths]:
    """Return what has grown on the far sides of a position's ticks; 0 without its arrays."""
    if not arrays:
        return _NO_GROWTH, _NO_GROWTH
    outside = []
    for array, tick in zip(arrays, placed.own.ticks, strict=True):
        of_tick = _tick(array, tick, pool.spacing, placed.account)
        if of_tick is None:
            of_tick = growths if pool.tick >= tick else _NO_GROWTH
        outside.append(of_tick)
    return outside[0], outside[1]


def _decimals(mint: Account | None) -> int | None:
    if mint is None or mint.kind not in _MINTS or len(mint.data) <= _DECIMALS_AT:
        return None
    return mint.data[_DECIMALS_AT]


@lru_cache(_CACHED_POOLS)
def _growths(pool: bytes, time_s: int) -> _Growths:
    """Return the growths of a unit of liquidity: of fees, then of rewards until now."""
    now = _decoded(pool)
    past_s = max(time_s - now.updated_s, 0)
    return tuple(
        grown(growth, per_second_x64, past_s, now.liquidity)
        for _, growth, per_second_x64 in now.growing
    )


def _tick(array: Account, tick: int, spacing: int, position: Account) -> _Growths | None:
    """Return the growths on the far side of an array's tick; None: it has no liquidity."""
    index = tick // spacing % _TICKS
    try:
        if array.kind is TICK_ARRAY:
            at, is_initialized = 13 + 113 * index, array.data[12 + 113 * index] != 0
        else:
            at, is_initialized = _dynamic(array.data, index)
        if is_initialized:  # its net and gross liquidity first
            a, a1, b, b1, c, c1, d, d1, e, e1 = _OUTSIDE.unpack_from(array.data, at + 32)
            return a | a1 << 64, b | b1 << 64, c | c1 << 64, d | d1 << 64, e | e1 << 64
    except (struct.error, IndexError):
        raise Unreadable(f"tick array of {len(array.data)} bytes", position.address) from None
    return None


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
