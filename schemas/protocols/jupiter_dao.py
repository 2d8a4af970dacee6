"""Jupiter DAO: tokens locked in a vote escrow, and parts of it on their way out.

An escrow's `amount` is what is still staked. `open_partial_unstaking` moves a part of it into
`partial_unstaking_amount`, which votes no longer and is free when its own term is over.

Source: the program's IDL (`Escrow`, `Locker`), and the sources of forks of the program
(`locker_math.rs`: `calculate_voter_power`; `escrow.rs`: `accumulate_partial_unstaking_amount`).
The IDL that is deployed has no phases: a power that does not fall is that of a max lock alone.
"""

from __future__ import annotations

from struct import error
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
    Voting,
    World,
)
from schemas.solana.addresses import key
from schemas.solana.borsh import i64, raw_pubkey, u64

PROGRAM: Final = key("voTpe3tHQ7AjQHMapgSue2HJFAh2cGsdokqN3XqmVSj")

_OWNER_AT: Final = 40
ESCROW: Final = Kind(
    "jupiter_dao_escrow", PROGRAM, bytes.fromhex("1fd57bbbba16da9b"), wallets=(_OWNER_AT,)
)
LOCKER: Final = Kind("jupiter_dao_locker", PROGRAM, bytes.fromhex("4af60671f9e44ba9"))

_ROUTE: Final = "staking"
_UNSET: Final = bytes(32)
_U64: Final = 1 << 64
_LATEST_MS: Final = (1 << 53) - 1  # times are any i64 of seconds; JSON numbers are not
_NO_LOCKER: Final = "assets, voting power: the locker, which has the token and terms, is not known"
_PARTS: Final = (
    "locks: when parts on their way out are free: their accounts name the escrow, not the wallet"
)
_VOTES: Final = "voting.open_votes: votes do not hold an escrow's tokens, and are not counted"
_OVERFLOW: Final = "voting.power_raw: more than the program can compute"


class _Escrow(NamedTuple):
    account: Account
    locker: bytes
    owner: bytes
    amount_raw: int
    started_s: int
    ends_s: int
    delegate: bytes
    is_max_lock: bool
    leaving_raw: int


class _Locker(NamedTuple):
    account: Account
    mint: bytes
    multiplier: int
    max_duration_s: int


def read(held: Held, world: World) -> Reading:
    """Return a wallet's escrows; raises Unreadable."""
    escrows = [
        _escrow(account)
        for account in held.of(ESCROW)
        if account.data[_OWNER_AT : _OWNER_AT + 32] == held.wallet
    ]
    escrows = [each for each in escrows if each.amount_raw or each.leaving_raw]
    if not escrows:
        return []
    found = yield tuple(dict.fromkeys(each.locker for each in escrows))
    return [
        _position(escrow, _locker(found.get(escrow.locker), escrow), world.time_s)
        for escrow in escrows
    ]


def _escrow(account: Account) -> _Escrow:
    data = account.data
    try:
        escrow = _Escrow(
            account=account,
            locker=raw_pubkey(data, 8),
            owner=raw_pubkey(data, _OWNER_AT),
            amount_raw=u64(data, 105),
            started_s=i64(data, 113),
            ends_s=i64(data, 121),
            delegate=raw_pubkey(data, 129),
            leaving_raw=u64(data, 162),
            is_max_lock=data[161] == 1,
        )
    except error:
        raise Unreadable(f"escrow of {len(data)} bytes", account.address) from None
    if data[161] > 1:
        raise Unreadable(f"is_max_lock {data[161]} at 161", account.address)
    return escrow


def _locker(account: Account | None, of: _Escrow) -> _Locker | None:
    if account is None:
        return None
    data = account.data
    if account.kind is not LOCKER:
        raise Unreadable(f"locker: {account.kind.name}", of.account.address)
    try:
        return _Locker(account, raw_pubkey(data, 41), data[121], u64(data, 130))
    except (error, IndexError):
        raise Unreadable(f"locker of {len(data)} bytes", of.account.address) from None


def _position(escrow: _Escrow, locker: _Locker | None, now_s: int) -> Position:
    position = Position(_ROUTE, escrow.account, market=escrow.locker)
    is_over = not escrow.is_max_lock and escrow.ends_s <= now_s
    if escrow.amount_raw:
        position.locks.append(_lock(escrow, is_over=is_over))
    if escrow.leaving_raw:
        position.locks.append(Lock("cooldown", escrow.leaving_raw))
        position.unsupported_fields.append(_PARTS)
    position.unsupported_fields.append(_VOTES)
    delegate = None if escrow.delegate in (escrow.owner, _UNSET) else escrow.delegate
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
        power_raw = _power(escrow, locker, now_s)
        if power_raw is None:
            position.unsupported_fields.append(_OVERFLOW)
    position.voting = Voting(power_raw, None, delegate)
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


PROTOCOL: Final = Protocol(
    "jupiter_dao",
    (ESCROW, LOCKER),
    (Route(_ROUTE, Shape.STAKING, "Tokens locked to vote, and totals of partial unstakings"),),
    read,
    unsupported_fields=(
        "when a partial unstaking is free: its account names the escrow, not the wallet",
        "rewards for voting: they are claimed from distributors of other programs",
    ),
)
