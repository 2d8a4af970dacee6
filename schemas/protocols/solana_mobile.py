"""Solana Mobile: SKR staked with guardians.

A stake is shares of one price; a guardian may take a commission of what the price gains. How the
program takes it is not public: the amount is computed where there is none, and null where there is.
Tokens on their way out have left the shares.

Source: the program's IDL (`UserStake`, `StakeConfig`, `GuardianDelegationPool`).
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
    Protocol,
    Reading,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.solana.addresses import key
from schemas.solana.borsh import i64, raw_pubkey, u16, u64, u128

PROGRAM: Final = key("SKRskrmtL83pcL4YqLWt6iPefDqwXQWHSw9S9vz94BZ")
SKR: Final = key("SKRbvo6Gf7GondiT3BbTfuRDPqLWei4j2Qy2NPGZhW3")
_DECIMALS: Final = 6
_PRICE_SCALE: Final = 1_000_000_000

_CONFIG_AT: Final = 9
_USER_AT: Final = 41
_POOL_AT: Final = 73
STAKE: Final = Kind(
    "solana_mobile_stake",
    PROGRAM,
    bytes.fromhex("6635a36b098a5799"),
    size=169,
    wallets=(_USER_AT,),
)
CONFIG: Final = Kind("solana_mobile_config", PROGRAM, bytes.fromhex("ee972b030b973fb0"), size=193)
POOL: Final = Kind("solana_mobile_pool", PROGRAM, bytes.fromhex("85eeffd6d70bbd17"), size=188)

_ROUTE: Final = "staking"
_U64: Final = 1 << 64
_LATEST_MS: Final = (1 << 53) - 1  # times are any i64 of seconds; JSON numbers are not
_COMMISSION: Final = "assets.amount_raw: how the guardian's commission is taken is not public"
_NOT_KNOWN: Final = "assets.amount_raw: the price of a share is not known"
_NO_TERM: Final = "locks.ends_ms: the cooldown is not known"


def read(held: Held, world: World) -> Reading:
    """Return a wallet's stakes; raises Unreadable."""
    own = [
        each
        for each in held.of(STAKE)
        if len(each.data) == STAKE.size and raw_pubkey(each.data, _USER_AT) == held.wallet
    ]
    own = [each for each in own if u128(each.data, 105) or u64(each.data, 153)]
    if not own:
        return []
    found = yield tuple(
        dict.fromkeys(raw_pubkey(each.data, at) for each in own for at in (_CONFIG_AT, _POOL_AT))
    )
    return [_position(each, found, world.time_s) for each in own]


def _position(stake: Account, found: Mapping[bytes, Account], now_s: int) -> Position:
    config = _named(stake, _CONFIG_AT, CONFIG, found)
    pool = _named(stake, _POOL_AT, POOL, found)
    position = Position(_ROUTE, stake, market=raw_pubkey(stake.data, _POOL_AT))
    position.missing = [
        raw_pubkey(stake.data, at)
        for at, account in ((_CONFIG_AT, config), (_POOL_AT, pool))
        if account is None
    ]
    known = [each.slot for each in (config, pool) if each is not None]
    position.reference_slot = min(known, default=None)
    if shares := u128(stake.data, 105):
        staked_raw = _staked_raw(position, shares, config, pool)
        position.assets.append(Asset(Role.SUPPLY, SKR, staked_raw, _DECIMALS))
    if leaving_raw := u64(stake.data, 153):
        position.assets.append(Asset(Role.PENDING, SKR, leaving_raw, _DECIMALS))
        position.locks.append(_cooldown(position, leaving_raw, config, now_s))
    return position


def _staked_raw(
    position: Position, shares: int, config: Account | None, pool: Account | None
) -> int | None:
    """Return what shares are worth in SKR; None, and say why, where that is not known."""
    if config is None or pool is None:
        position.unsupported_fields.append(_NOT_KNOWN)
        return None
    had_before = u128(position.account.data, 137)
    if u16(pool.data, 168) or u128(pool.data, 120) != had_before:
        position.unsupported_fields.append(_COMMISSION)
        return None
    price = u128(config.data, 137) if pool.data[171] else u128(pool.data, 172)
    staked_raw = shares * price // _PRICE_SCALE
    if staked_raw >= _U64:
        detail = f"{shares} shares at 105 are {staked_raw}, more than a token has"
        raise Unreadable(detail, position.account.address)
    return staked_raw


def _cooldown(position: Position, leaving_raw: int, config: Account | None, now_s: int) -> Lock:
    if config is None:
        position.unsupported_fields.append(_NO_TERM)
        return Lock("cooldown", leaving_raw)
    ends_s = i64(position.account.data, 161) + u64(config.data, 113)
    ends_ms = max(0, min(ends_s * 1000, _LATEST_MS))
    if ends_s <= now_s:
        return Lock("cooldown", 0, leaving_raw, ends_ms)
    return Lock("cooldown", leaving_raw, 0, ends_ms)


def _named(stake: Account, at: int, kind: Kind, found: Mapping[bytes, Account]) -> Account | None:
    """Return an account that a stake names; raises Unreadable where it is another's."""
    account = found.get(raw_pubkey(stake.data, at))
    if account is None:
        return None
    if account.kind is not kind or len(account.data) != kind.size:
        detail = f"{kind.name}: {account.kind.name} of {len(account.data)} bytes"
        raise Unreadable(detail, stake.address)
    mint_or_config = raw_pubkey(account.data, 41 if kind is CONFIG else 8)
    if mint_or_config != (SKR if kind is CONFIG else raw_pubkey(stake.data, _CONFIG_AT)):
        raise Unreadable(f"{kind.name}: of another token or configuration", stake.address)
    return account


PROTOCOL: Final = Protocol(
    "solana_mobile",
    (STAKE, CONFIG, POOL),
    (Route(_ROUTE, Shape.STAKING, "SKR staked with guardians, and on its way out"),),
    read,
    unsupported_fields=("the share of a stake that a guardian's commission takes",),
)
