"""Tokens locked to vote: the escrows of Tribeca's locked voter, and of the programs forked from it.

The head of an escrow and of a locker is the same in all of them; `Layout` gives where they differ.
An escrow's `amount` is what is locked. A fork with partial unstaking moves a part of it into
`partial_unstaking_amount`, which votes no longer and is free when its own term is over.

Source: Tribeca's `locked-voter` (`state.rs`, `instructions/exit.rs`, `locker_math.rs`:
`calculate_voter_power`), and its forks (`escrow.rs`: `accumulate_partial_unstaking_amount`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import error
from typing import Final, NamedTuple

from schemas.protocols.contract import (
    Account,
    Asset,
    Kind,
    Lock,
    Position,
    Reading,
    Role,
    Unreadable,
    Voting,
    World,
)
from schemas.solana.borsh import i64, raw_pubkey, u64

ESCROW_TAG: Final = bytes.fromhex("1fd57bbbba16da9b")  # sha256("account:Escrow")
LOCKER_TAG: Final = bytes.fromhex("4af60671f9e44ba9")  # sha256("account:Locker")
OWNER_AT: Final = 40

_UNSET: Final = bytes(32)
_U64: Final = 1 << 64
_LATEST_MS: Final = (1 << 53) - 1  # times are any i64 of seconds; JSON numbers are not
_NO_LOCKER: Final = "assets, voting power: the locker, which has the token and terms, is not known"
_PARTS: Final = (
    "locks: when parts on their way out are free: their accounts name the escrow, not the wallet"
)
_VOTES: Final = "voting.open_votes: votes do not hold an escrow's tokens, and are not counted"
_OVERFLOW: Final = "voting.power_raw: more than the program can compute"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a fork's accounts have what is read, beyond the head that all have."""

    escrow: Kind
    locker: Kind
    multiplier_at: int  # of a locker: u8
    max_duration_at: int  # of a locker: u64, seconds
    max_lock_at: int | None = None  # of an escrow: a bool, then the u64 that leaves; None: neither
    is_free_at_end: bool = False  # in the very second that its lock ends; else only after it


class _Escrow(NamedTuple):
    account: Account
    locker: bytes
    owner: bytes
    amount_raw: int
    started_s: int
    ends_s: int
    free_s: int  # when it can be withdrawn
    delegate: bytes
    is_max_lock: bool
    leaving_raw: int


class _Locker(NamedTuple):
    account: Account
    mint: bytes
    multiplier: int
    max_duration_s: int


def read_escrows(
    layout: Layout, route: str, wallet: bytes, accounts: Iterable[Account], world: World
) -> Reading:
    """Return escrows that are a wallet's as positions of a route; raises Unreadable."""
    escrows = [_escrow(layout, account) for account in accounts]
    escrows = [each for each in escrows if each.amount_raw or each.leaving_raw]
    if not escrows:
        return []
    found = yield tuple(dict.fromkeys(each.locker for each in escrows))
    positions = []
    for escrow in escrows:
        locker = _locker(layout, found.get(escrow.locker), escrow)
        positions.append(_position(Position(route, escrow.account), wallet, escrow, locker, world))
    return positions


def _escrow(layout: Layout, account: Account) -> _Escrow:
    data, at = account.data, layout.max_lock_at
    try:
        ends_s = i64(data, 121)
        escrow = _Escrow(
            account=account,
            locker=raw_pubkey(data, 8),
            owner=raw_pubkey(data, OWNER_AT),
            amount_raw=u64(data, 105),
            started_s=i64(data, 113),
            ends_s=ends_s,
            free_s=ends_s if layout.is_free_at_end else ends_s + 1,
            delegate=raw_pubkey(data, 129),
            leaving_raw=0 if at is None else u64(data, at + 1),
            is_max_lock=at is not None and data[at] == 1,
        )
    except error:
        raise Unreadable(f"escrow of {len(data)} bytes", account.address) from None
    if at is not None and data[at] > 1:
        raise Unreadable(f"is_max_lock {data[at]} at {at}", account.address)
    return escrow


def _locker(layout: Layout, account: Account | None, of: _Escrow) -> _Locker | None:
    if account is None:
        return None
    data = account.data
    if account.kind is not layout.locker:
        raise Unreadable(f"locker: {account.kind.name}", of.account.address)
    try:
        return _Locker(
            account,
            raw_pubkey(data, 41),
            data[layout.multiplier_at],
            u64(data, layout.max_duration_at),
        )
    except (error, IndexError):
        raise Unreadable(f"locker of {len(data)} bytes", of.account.address) from None


def _position(
    position: Position, wallet: bytes, escrow: _Escrow, locker: _Locker | None, world: World
) -> Position:
    position.market = escrow.locker
    is_over = not escrow.is_max_lock and escrow.free_s <= world.time_s
    if escrow.amount_raw:
        position.locks.append(_lock(escrow, is_over=is_over))
    if escrow.leaving_raw:
        position.locks.append(Lock("cooldown", escrow.leaving_raw))
        position.unsupported_fields.append(_PARTS)
    position.unsupported_fields.append(_VOTES)
    power_raw = None
    if locker is None:
        position.missing.append(escrow.locker)
        position.unsupported_fields.append(_NO_LOCKER)
    else:
        position.reference_slot = locker.account.slot
        lines = (
            (Role.SUPPLY if is_over else Role.LOCKED, escrow.amount_raw),
            (Role.PENDING, escrow.leaving_raw),
        )
        position.assets = [Asset(role, locker.mint, raw) for role, raw in lines if raw]
        power_raw = _power(escrow, locker, world.time_s)
        if power_raw is None:
            position.unsupported_fields.append(_OVERFLOW)
    own = (wallet, escrow.owner, _UNSET)
    position.voting = Voting(power_raw, None, None if escrow.delegate in own else escrow.delegate)
    return position


def _lock(escrow: _Escrow, *, is_over: bool) -> Lock:
    if escrow.is_max_lock:
        return Lock("escrow", escrow.amount_raw, 0)
    ends_ms = max(0, min(escrow.ends_s * 1000, _LATEST_MS))
    if is_over:
        return Lock("escrow", 0, escrow.amount_raw, ends_ms)
    return Lock("escrow", escrow.amount_raw, 0, ends_ms)


def _power(escrow: _Escrow, locker: _Locker, now_s: int) -> int | None:
    """Return the votes of an escrow, cut off; None where the program's integers overflow."""
    most_raw = escrow.amount_raw * locker.multiplier
    if escrow.is_max_lock:
        return most_raw if most_raw < _U64 else None
    if escrow.started_s == 0 or not escrow.started_s <= now_s < escrow.ends_s:
        return 0
    if most_raw >= _U64 or not locker.max_duration_s:
        return None
    left_s = min(escrow.ends_s - now_s, locker.max_duration_s)
    return most_raw * left_s // locker.max_duration_s
