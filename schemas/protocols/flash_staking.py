"""Flash Trade's stakes: of FAF, with up to three withdrawals, and of the LP tokens of pools.

A withdrawal of FAF frees its tokens little by little; an account keeps how many were free when the
program last counted, and not until when the others are locked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Lock,
    Position,
    Reading,
    Role,
    Unreadable,
)
from schemas.solana.addresses import key
from schemas.solana.borsh import raw_pubkey, u32, u64

PROGRAM: Final = key("FLASH6Lo6h3iasJKWDs2F8TkW2UKf3s15C8PMGuVfgBn")
FAF: Final = key("FAFxVxnkzZHMCodkWyoccgUNgVScqMw2mhhQBYDFjFAF")

_OWNER_AT: Final = 8
TOKEN_STAKE: Final = Kind(
    "flash_token_stake", PROGRAM, bytes.fromhex("e57b15f3f6a439ef"), wallets=(_OWNER_AT,)
)
FLP_STAKE: Final = Kind(
    "flash_flp_stake", PROGRAM, bytes.fromhex("afb2ab1ebbfd0d76"), wallets=(_OWNER_AT,)
)
POOL: Final = Kind("flash_pool", PROGRAM, bytes.fromhex("f19a6d0411b16dbc"))

_TOKEN_STAKE_LEAST: Final = 220
_FLP_STAKE_LEAST: Final = 138
_REQUESTS: Final = 3
_DECIMALS: Final = 6  # of FAF and of all LP tokens
_LONGEST_NAME: Final = 64  # of a pool
_MINT_AFTER_NAME: Final = 13 + 8  # its permissions, and when it began
_LEAST_POOL: Final = 12 + _LONGEST_NAME + _MINT_AFTER_NAME + 32

_NO_POOL: Final = "assets: the pool, which says what its LP token is, is not known"
_NO_END: Final = "locks.ends_ms: an account keeps none"


def read_stakes(held: Held) -> Reading:
    """Return a wallet's stakes of FAF and of LP tokens; raises Unreadable."""
    positions = [
        _token_stake(each)
        for each in held.of(TOKEN_STAKE)
        if raw_pubkey(_checked(each, _TOKEN_STAKE_LEAST), _OWNER_AT) == held.wallet
    ]
    own = [
        each
        for each in held.of(FLP_STAKE)
        if raw_pubkey(_checked(each, _FLP_STAKE_LEAST), _OWNER_AT) == held.wallet
        and any(u64(each.data, at) for at in (72, 80, 88, 96))
    ]
    pools: Mapping[bytes, Account] = {}
    if own:
        pools = yield tuple(dict.fromkeys(raw_pubkey(each.data, 40) for each in own))
    positions += [_flp_stake(each, pools) for each in own]
    return [each for each in positions if each.assets or each.missing]


def _token_stake(account: Account) -> Position:
    data = account.data
    position = Position("staking", account)
    free, locked = u64(data, 124), 0
    if data[43] > _REQUESTS:
        raise Unreadable(f"stake: {data[43]} withdrawals at 43", account.address)
    for at in range(44, 44 + 24 * data[43], 24):
        claimable, kept = u64(data, at), u64(data, at + 8)
        if claimable or kept:
            free, locked = free + claimable, locked + kept
            position.locks.append(Lock("cooldown", kept, claimable))
    position.assets = _assets(FAF, free, locked)
    if locked:
        position.unsupported_fields.append(_NO_END)
    return position


def _flp_stake(account: Account, pools: Mapping[bytes, Account]) -> Position:
    data = account.data
    at = raw_pubkey(data, 40)
    position = Position("staking", account, market=at)
    pool = pools.get(at)
    if pool is None:
        position.missing.append(at)
        position.unsupported_fields.append(_NO_POOL)
        return position
    position.reference_slot = pool.slot
    joining, active, leaving, left = (u64(data, each) for each in (72, 80, 88, 96))
    position.assets = _assets(_lp_mint(pool), joining + active + left, leaving)
    if leaving or left:
        position.locks.append(Lock("cooldown", leaving, left))
    if leaving:
        position.unsupported_fields.append(_NO_END)
    return position


def _lp_mint(pool: Account) -> bytes:
    """Return the mint in a pool, which is behind its name; raises Unreadable."""
    data = pool.data
    if pool.kind is POOL and len(data) >= _LEAST_POOL and u32(data, 8) <= _LONGEST_NAME:
        return raw_pubkey(data, 12 + u32(data, 8) + _MINT_AFTER_NAME)
    raise Unreadable(f"pool: {pool.kind.name} of {len(data)} bytes, or its name", pool.address)


def _assets(mint: bytes, free: int, locked: int) -> list[Asset]:
    amounts = ((Role.SUPPLY, free), (Role.PENDING, locked))
    return [Asset(role, mint, amount, _DECIMALS) for role, amount in amounts if amount]


def _checked(account: Account, least: int) -> bytes:
    if len(account.data) < least:
        raise Unreadable(f"{account.kind.name} of {len(account.data)} bytes", account.address)
    return account.data
