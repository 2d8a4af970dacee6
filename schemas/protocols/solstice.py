"""Solstice: eUSX, a share of a vault of USX, and USX on its way out of it.

Yield enters the vault at once and counts second by second. Shares are worth what counts, with one
unit of each added, as vaults do against a first depositor.

Source: the yield vault's IDL (`YieldPool`, `VestingSchedule`, `CooldownEscrow`); the rate is that
of Chainlink's adapter `eusx-price`, which follows the one that Solstice gave.
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
from schemas.protocols.in_step import in_step
from schemas.solana.addresses import key
from schemas.solana.borsh import raw_pubkey, u64, u128
from schemas.solana.derived import derived

PROGRAM: Final = key("eUSXyKoZ6aGejYVbnp3wtWQ1E8zuokLAJPecPxxtgG3")
EUSX: Final = key("3ThdFZQKM6kRyVGLG48kaPg5TRMhYMKY1iCRa9xop1WC")
POOL_ADDRESS: Final = derived(PROGRAM, b"YIELD_POOL")
SCHEDULE_ADDRESS: Final = derived(PROGRAM, b"VESTING_SCHEDULE")

_USER_AT: Final = 8
POOL: Final = Kind(
    "solstice_pool",
    PROGRAM,
    bytes.fromhex("76d825cec5bd1b64"),
    size=619,
    addresses=(POOL_ADDRESS,),
)
SCHEDULE: Final = Kind(
    "solstice_vesting",
    PROGRAM,
    bytes.fromhex("82c8ad94274bf393"),
    size=161,
    addresses=(SCHEDULE_ADDRESS,),
)
COOLDOWN: Final = Kind(
    "solstice_cooldown",
    PROGRAM,
    bytes.fromhex("214d949bbcf39594"),
    size=217,
    wallets=(_USER_AT,),
)

_LATEST_MS: Final = (1 << 53) - 1  # times are any u64 of seconds; JSON numbers are not
_UNVESTED: Final = "assets: the schedule by which yield counts is not known"


def read(held: Held, world: World) -> Reading:
    """Return what a wallet's eUSX is worth in USX, and its cooldowns; raises Unreadable."""
    return (yield from in_step(_read_shares(held, world), _read_cooldowns(held, world)))


def _read_cooldowns(held: Held, world: World) -> Reading:
    """Return USX that leaves the vault, which needs no other account."""
    yield from ()
    return [
        _cooldown(each, world.time_s)
        for each in held.of(COOLDOWN)
        if len(each.data) == COOLDOWN.size
        and raw_pubkey(each.data, _USER_AT) == held.wallet
        and u64(each.data, 73)
    ]


def _cooldown(escrow: Account, now_s: int) -> Position:
    amount_raw, ends_s = u64(escrow.data, 73), u64(escrow.data, 81)
    is_over = ends_s <= now_s
    locked_raw, claimable_raw = (0, amount_raw) if is_over else (amount_raw, 0)
    return Position(
        "positions",
        escrow,
        market=POOL_ADDRESS,
        assets=[
            Asset(Role.SUPPLY if is_over else Role.PENDING, raw_pubkey(escrow.data, 41), amount_raw)
        ],
        locks=[Lock("cooldown", locked_raw, claimable_raw, min(ends_s * 1000, _LATEST_MS))],
    )


def _read_shares(held: Held, world: World) -> Reading:
    """Return the wallet's eUSX as a position of the pool; raises Unreadable."""
    shares_raw = held.tokens.get(EUSX, 0)
    if shares_raw <= 0:
        return []
    found: Mapping[bytes, Account] = yield (POOL_ADDRESS, SCHEDULE_ADDRESS)
    pool, schedule = found.get(POOL_ADDRESS), found.get(SCHEDULE_ADDRESS)
    if pool is None:
        return []  # the shares stay what they are: a token with a market price
    if pool.kind is not POOL or len(pool.data) != POOL.size:
        raise Unreadable(f"pool: {pool.kind.name} of {len(pool.data)} bytes", pool.address)
    position = Position(
        "positions",
        pool,
        id=EUSX,
        market=POOL_ADDRESS,
        stands_for={EUSX: shares_raw},
        reference_slot=pool.slot,
    )
    amount_raw: int | None = None
    if schedule is None:
        position.missing.append(SCHEDULE_ADDRESS)
        position.unsupported_fields.append(_UNVESTED)
    else:
        position.reference_slot = min(pool.slot, schedule.slot)
        counted = u128(pool.data, 75) - _unvested(schedule, world.time_s)
        if counted < 0:
            raise Unreadable("pool: less assets at 75 than have not vested", pool.address)
        amount_raw = shares_raw * (counted + 1) // (u128(pool.data, 91) + 1)
    position.assets = [
        Asset(Role.SUPPLY, raw_pubkey(pool.data, 9), amount_raw, decimals=pool.data[41])
    ]
    return [position]


def _unvested(schedule: Account, now_s: int) -> int:
    """Return the yield that does not count yet, rounded down; raises Unreadable."""
    if schedule.kind is not SCHEDULE or len(schedule.data) != SCHEDULE.size:
        detail = f"vesting: {schedule.kind.name} of {len(schedule.data)} bytes"
        raise Unreadable(detail, schedule.address)
    amount_raw, start_s, end_s = (u64(schedule.data, at) for at in (9, 17, 25))
    if now_s >= end_s:
        return 0
    if start_s >= end_s:
        raise Unreadable("vesting: ends before it starts", schedule.address)
    return amount_raw * (end_s - max(now_s, start_s)) // (end_s - start_s)


PROTOCOL: Final = Protocol(
    "solstice",
    (POOL, SCHEDULE, COOLDOWN),
    (
        Route(
            "positions",
            Shape.STAKING,
            "eUSX by the rate of its vault, and USX in its cooldown",
        ),
    ),
    read,
    identified="guess",
    unsupported_fields=(
        "the last unit of what eUSX is worth while yield vests: how it is rounded is not published",
        "eUSX while its vault is not among the stored accounts",
    ),
    reads_tokens=True,
)
