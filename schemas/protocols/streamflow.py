"""Streamflow staking: tokens locked in a pool for a term.

Some pools ask for a notice after the term: what is noticed leaves when the pool's period is over.

Source: the stake pool program's IDL (`StakeEntry`, `StakePool`).
"""

from __future__ import annotations

from typing import Final, Literal

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
from schemas.solana.borsh import raw_pubkey, u64

PROGRAM: Final = key("STAKEvGqQTtzJZH6BWDcbpzXXn2BBerPAgQ3EGLN2GH")
_AUTHORITY_AT: Final = 76
ENTRY: Final = Kind(
    "streamflow_entry",
    PROGRAM,
    bytes.fromhex("bb7f09239b445628"),
    wallets=(_AUTHORITY_AT,),
)
POOL: Final = Kind("streamflow_pool", PROGRAM, bytes.fromhex("7922ce154f7fff1c"))

# The program allocates a few bytes more: what its structs take in memory, aligned.
_ENTRY_BYTES: Final = 220
_POOL_BYTES: Final = 291
_POOL_AT: Final = 12
_LATEST_MS: Final = (1 << 53) - 1  # times are any u64 of seconds; JSON numbers are not
_NO_POOL: Final = "assets: the pool, which says what is staked, is not known"


def read(held: Held, world: World) -> Reading:
    """Return a wallet's stakes that are not closed; raises Unreadable."""
    own = [
        each
        for each in held.of(ENTRY)
        if len(each.data) >= _ENTRY_BYTES
        and raw_pubkey(each.data, _AUTHORITY_AT) == held.wallet
        and not u64(each.data, 148)  # when it was closed
        and u64(each.data, 108)
    ]
    if not own:
        return []
    found = yield tuple(dict.fromkeys(raw_pubkey(each.data, _POOL_AT) for each in own))
    return [
        _position(each, found.get(raw_pubkey(each.data, _POOL_AT)), world.time_s) for each in own
    ]


def _position(entry: Account, pool: Account | None, now_s: int) -> Position:
    """Return a stake; raises Unreadable."""
    data = entry.data
    amount_raw, noticed_s = u64(data, 108), u64(data, 172)
    position = Position("staking", entry, market=raw_pubkey(data, _POOL_AT))
    position.locks = [_lock("term", amount_raw, u64(data, 140) + u64(data, 116), now_s)]
    if pool is None:
        position.missing.append(raw_pubkey(data, _POOL_AT))
        position.unsupported_fields.append(_NO_POOL)
        return position
    if pool.kind is not POOL or len(pool.data) < _POOL_BYTES:
        raise Unreadable(f"pool: {pool.kind.name} of {len(pool.data)} bytes", entry.address)
    position.reference_slot = pool.slot
    if period_s := u64(pool.data, 228):
        ends_s = noticed_s + period_s if noticed_s else None
        position.locks.append(_lock("cooldown", amount_raw, ends_s, now_s))
    role = Role.LOCKED
    if not any(each.locked_raw for each in position.locks):
        role = Role.SUPPLY
    elif noticed_s:
        role = Role.PENDING
    position.assets = [Asset(role, raw_pubkey(pool.data, 10), amount_raw)]
    return position


def _lock(
    kind: Literal["term", "cooldown"], amount_raw: int, ends_s: int | None, now_s: int
) -> Lock:
    """Return a lock of all of a stake, by when it ends; None: not before a notice."""
    if ends_s is None:
        return Lock(kind, amount_raw)
    locked_raw = 0 if ends_s <= now_s else amount_raw
    return Lock(kind, locked_raw, ends_ms=min(ends_s * 1000, _LATEST_MS))


PROTOCOL: Final = Protocol(
    "streamflow",
    (ENTRY, POOL),
    (Route("staking", Shape.STAKING, "Tokens locked in Streamflow's stake pools"),),
    read,
    identified="guess",
    unsupported_fields=(
        "rewards: they are computed by a program of their own, whose layout is not known",
        "stake tokens given for a stake: how many is not known, so that they count as tokens",
    ),
)
