"""Raydium CPMM: what LP tokens of its pools withdraw, and liquidity that is locked for ever.

Source: raydium-cp-swap's `PoolState` (borsh order, packed) and its `withdraw`: vault less protocol,
fund and creator fees, by the pool's own count of LP tokens, rounded down; before the transfer fee
that a Token-2022 mint may take; nothing while a bit of the pool's status disables withdrawals.
Raydium's lock program: `LockedCpLiquidityState`; the holder of its NFT collects the fees, and
nobody the liquidity. As fees are collected, the locked amount of LP tokens falls by their worth:
what is not collected is within the locked amounts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import error
from typing import Final, NamedTuple

from schemas.protocols import vaults
from schemas.protocols.contract import (
    Account,
    Held,
    Kind,
    Lock,
    LpTokens,
    Position,
    Protocol,
    Reading,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.protocols.vaults import Side
from schemas.solana.addresses import key
from schemas.solana.borsh import u64

ROUTE: Final = "liquidity"
LP_MINT_AT: Final = 136
POOL_AT: Final = 64  # of a lock
NFT_AT: Final = 96
_STATUS_AT: Final = 329
_NO_WITHDRAWALS: Final = 2

POOL: Final = Kind(
    "raydium_cpmm_pool",
    key("CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"),
    bytes.fromhex("f7ede3f5d7c3de46"),  # sha256("account:PoolState")
    size=637,
    mints=(LP_MINT_AT,),
)
LOCK: Final = Kind(
    "raydium_cpmm_lock",
    key("LockrWmn6K5twhz3y9w1dQERbmgSaRkfnTeTKbpofwE"),
    bytes.fromhex("190aeec5cfea4916"),  # sha256("account:LockedCpLiquidityState")
    size=256,
    mints=(NFT_AT,),
)


class _Pool(NamedTuple):
    lp_mint: bytes
    supply: int
    sides: tuple[Side, Side]
    is_paused: bool


class _Share(NamedTuple):
    account: Account
    pool: _Pool | None
    pool_address: bytes
    shares: int
    lock: Account | None


def read(held: Held, world: World) -> Reading:
    """Return the pools of the wallet's LP tokens, and the locks whose NFT it has."""
    locks = [lock for lock in held.of(LOCK) if held.tokens.get(_key(lock, NFT_AT), 0) > 0]
    own = {account.address: account for account in held.of(POOL)}
    pools = dict(own)
    if wanted := sorted({_key(lock, POOL_AT) for lock in locks} - pools.keys()):
        found = yield wanted
        pools |= {address: each for address, each in found.items() if each.kind is POOL}
    read = {address: _pool(account) for address, account in pools.items()}
    shares = [
        _Share(account, read[address], address, amount, None)
        for address, account in own.items()
        if (amount := held.tokens.get(read[address].lp_mint, 0)) > 0
    ]
    shares += [
        _Share(lock, read.get(_key(lock, POOL_AT)), _key(lock, POOL_AT), _u64(lock, 8), lock)
        for lock in locks
    ]
    known = yield _vaults(shares)
    return [_position(each, pools.get(each.pool_address), known) for each in shares]


def lp(account: Account) -> LpTokens | None:
    """Return the LP tokens of a pool, None of another account; raises Unreadable."""
    if account.kind is not POOL:
        return None
    pool = _pool(account)
    return LpTokens(pool.lp_mint, pool.supply)


def _vaults(shares: Sequence[_Share]) -> list[bytes]:
    return sorted({side.vault for each in shares if each.pool for side in each.pool.sides})


def _position(each: _Share, pool: Account | None, known: Mapping[bytes, Account]) -> Position:
    position = Position(ROUTE, each.account, market=each.pool_address)
    if each.lock is not None:
        nft = _key(each.lock, NFT_AT)
        position.id = nft
        position.stands_for = {nft: 1}
        position.locks = [Lock("permanent", locked_raw=each.shares)]
        position.unsupported_fields = [
            "rewards: fees that the lock earned and nobody collected are within the locked amounts"
        ]
        if pool is not None:
            position.reference_slot = pool.slot
    if each.pool is None:
        position.missing = [each.pool_address]
        return position
    lp_mint, supply, sides, is_paused = each.pool
    if each.lock is None:
        position.stands_for = {lp_mint: each.shares}
    if each.shares > supply:
        raise Unreadable(f"{each.shares} of {supply} LP tokens", each.account.address)
    first, second = (vaults.reserve(known, side, each.account.address) for side in sides)
    vaults.note_vaults(position, known, *sides)
    position.assets = vaults.assets(
        Role.SUPPLY if each.lock is None and not is_paused else Role.LOCKED,
        (
            vaults.share_of(each.shares, first, supply),
            vaults.share_of(each.shares, second, supply),
        ),
        *sides,
    )
    position.range = vaults.full_range(*sides, first, second)
    if position.missing:
        position.unsupported_fields.append("amounts: a vault is not known yet")
    if is_paused:
        position.unsupported_fields.append(vaults.PAUSED)
    return position


def _pool(account: Account) -> _Pool:
    data = account.data
    return _Pool(
        data[LP_MINT_AT : LP_MINT_AT + 32],
        _u64(account, 333),
        (_side(account, 0), _side(account, 1)),
        bool(data[_STATUS_AT] & _NO_WITHDRAWALS),
    )


def _side(account: Account, number: int) -> Side:
    owed = sum(_u64(account, at + 8 * number) for at in (341, 357, 397))
    vault, mint = (_key(account, at + 32 * number) for at in (72, 168))
    return Side(vault, mint, account.data[331 + number], owed)


def _key(account: Account, at: int) -> bytes:
    found = account.data[at : at + 32]
    if len(found) < 32:
        raise Unreadable(f"no address at {at} of {len(account.data)} bytes", account.address)
    return found


def _u64(account: Account, at: int) -> int:
    try:
        return u64(account.data, at)
    except error:
        size = len(account.data)
        raise Unreadable(f"no integer at {at} of {size} bytes", account.address) from None


PROTOCOL: Final = Protocol(
    name="raydium_cpmm",
    kinds=(POOL, LOCK),
    routes=(Route(ROUTE, Shape.LIQUIDITY, "Shares of pools, free and locked for ever"),),
    read=read,
    unsupported_fields=(
        "fees that a lock earned, apart",
        "Token-2022 transfer fees: amounts are before them",
    ),
    reads_tokens=True,
    lp=lp,
)
