"""Star Atlas: ATLAS that is staked, and POLIS locked to vote.

POLIS is locked by a proxy of the wallet, whose address the wallet's leads to. What a stake has
earned is what the program counted when it last did, at `last_pending_reward_calc_ts`.

Source: the staking program's `StakingAccount` as Star Atlas' own decoders have it (Carbon, 0.12);
the locked voter's `Escrow` and `Locker`, and the seeds of `ProxyEscrow` and `Proxy`, as SonarWatch
derives them. The source of its locked voter is not public: a lock ends as Tribeca's does.
"""

from __future__ import annotations

from typing import Final

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
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
from schemas.protocols.vote_escrow import (
    ESCROW_TAG,
    LOCKER_TAG,
    OWNER_AT,
    Layout,
    read_escrows,
)
from schemas.solana.addresses import key
from schemas.solana.borsh import raw_pubkey, u64
from schemas.solana.derived import derived

STAKING: Final = key("ATLocKpzDbTokxgvnLew3d7drZkEzLzDpzwgrgWKDbmc")
VOTER: Final = key("Lock7kBijGCQLEFAmXcengzXKA88iDNQPriQ7TbgeyG")
_PROXY: Final = key("gateVwTnKyFrE8nxUUgfzoZTPKgJQZUbLsEidpG4Dp2")
POLIS_LOCKER: Final = key("5WmM9c9WE71y78Ah8Bp8vgyoStscM1ZZyaaFqRf8b2Qa")

_STAKER_AT: Final = 8
STAKE: Final = Kind(
    "star_atlas_stake",
    STAKING,
    bytes.fromhex("34b2fb9db4ba62ea"),  # sha256("account:StakingAccount")
    size=171,
    wallets=(_STAKER_AT,),
)
ESCROW: Final = Kind("star_atlas_escrow", VOTER, ESCROW_TAG, wallets=(OWNER_AT,))
LOCKER: Final = Kind("star_atlas_locker", VOTER, LOCKER_TAG)
_LAYOUT: Final = Layout(ESCROW, LOCKER, multiplier_at=114, max_duration_at=123)
_ROUTE: Final = "staking"
_EARNED_SINCE: Final = "rewards earned since the program last counted them"


def read(held: Held, world: World) -> Reading:
    """Return a wallet's stakes of ATLAS and its escrow of POLIS; raises Unreadable."""
    return (yield from in_step(_read_stakes(held), _read_polis(held, world)))


def _read_stakes(held: Held) -> Reading:
    yield from ()
    return [
        position
        for account in held.of(STAKE)
        if account.data[_STAKER_AT : _STAKER_AT + 32] == held.wallet
        if (position := _stake(account)) is not None
    ]


def _stake(account: Account) -> Position | None:
    """Return a stake; None where neither tokens nor rewards are in it."""
    data = account.data
    if len(data) != STAKE.size:
        raise Unreadable(f"stake of {len(data)} bytes", account.address)
    mint, total_raw, active_raw, earned_raw = (
        raw_pubkey(data, 72),
        u64(data, 104),
        u64(data, 112),
        u64(data, 120),
    )
    if active_raw > total_raw:
        detail = f"active_stake {active_raw} at 112 of total_stake {total_raw}"
        raise Unreadable(detail, account.address)
    lines = (
        (Role.SUPPLY, active_raw),
        (Role.PENDING, total_raw - active_raw),
        (Role.REWARD, earned_raw),
    )
    assets = [Asset(role, mint, raw) for role, raw in lines if raw]
    if not assets:
        return None
    return Position(
        _ROUTE,
        account,
        market=raw_pubkey(data, 40),
        assets=assets,
        unsupported_fields=[_EARNED_SINCE],
    )


def _read_polis(held: Held, world: World) -> Reading:
    proxy = polis_proxy(held.wallet)
    found = yield (polis_escrow(proxy),)
    own = [
        each
        for each in found.values()
        if each.kind is ESCROW and each.data[OWNER_AT : OWNER_AT + 32] == proxy
    ]
    return (yield from read_escrows(_LAYOUT, _ROUTE, held.wallet, own, world))


def polis_proxy(wallet: bytes) -> bytes:
    """Return the address of the proxy that locks a wallet's POLIS."""
    return derived(_PROXY, b"Proxy", derived(_PROXY, b"ProxyEscrow", wallet), wallet)


def polis_escrow(proxy: bytes) -> bytes:
    """Return the address of the escrow of a proxy."""
    return derived(VOTER, b"Escrow", POLIS_LOCKER, proxy)


PROTOCOL: Final = Protocol(
    "star_atlas",
    (STAKE, ESCROW, LOCKER),
    (Route(_ROUTE, Shape.STAKING, "ATLAS staked, and POLIS locked to vote"),),
    read,
    identified="guess",
    unsupported_fields=(
        "when unstaked ATLAS is free: its term is in an account whose layout is not known",
        "rewards of locked POLIS",
    ),
    reads_derived=True,
)
