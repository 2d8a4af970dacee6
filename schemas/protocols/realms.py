"""SPL Governance, known as Realms: tokens deposited to vote in DAOs.

A DAO uses the shared program or an instance of its own. Where it counts votes by the voter stake
registry, the deposit is in a `Voter` of that program, and the record here is empty.

Source: spl-governance (`state/token_owner_record.rs`, `state/legacy.rs`). Of a record of version 0
the votes are the lower half of the field: the upper counts the votes of all time.
"""

from __future__ import annotations

from struct import error
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
    Voting,
    World,
)
from schemas.protocols.in_step import in_step
from schemas.protocols.programs import ADDRESSES
from schemas.protocols.vote_deposits import REGISTRARS, VOTERS, read_voters
from schemas.solana.borsh import Reader, raw_pubkey, u32, u64

_INSTANCES: Final = (76, *range(100, 132))  # in programs.toml: the shared program is the first
_OWNER_AT: Final = 65
_DELEGATE_AT: Final = 121
_RESERVED_V2: Final = 124
_TAGS: Final = {"v1": b"\x02", "v2": b"\x11"}
RECORDS: Final = tuple(
    Kind(f"realms_{number}_record_{version}", ADDRESSES[number], tag, wallets=(_OWNER_AT,))
    for number in _INSTANCES
    for version, tag in _TAGS.items()
)
_ROUTE: Final = "deposits"
_LATEST_MS: Final = (1 << 53) - 1  # times are any i64 of seconds; JSON numbers are not
_POWER: Final = "voting.power_raw: a DAO may count votes by a program of its own"


def read(held: Held, world: World) -> Reading:
    """Return a wallet's deposits; raises Unreadable."""
    return (
        yield from in_step(
            _read_records(held, world.time_s), read_voters(_ROUTE, held, world.time_s)
        )
    )


def _read_records(held: Held, now_s: int) -> Reading:
    yield from ()
    kinds = set(RECORDS)
    return [
        position
        for account in held.accounts
        if account.kind in kinds
        and account.data[_OWNER_AT : _OWNER_AT + 32] == held.wallet
        and (position := _position(account, now_s)) is not None
    ]


def _position(account: Account, now_s: int) -> Position | None:
    """Return a deposit; None for none."""
    data = account.data
    try:
        deposit_raw = u64(data, 97)
        is_wide = data[:1] == _TAGS["v2"] and data[114] > 0
        votes = u64(data, 105) if is_wide else u32(data, 105)
        proposals = data[113]
        reader = Reader(data, _DELEGATE_AT)
        delegate = reader.raw_pubkey() if reader.flag() else None
        locks_s = _locks_s(reader) if is_wide else []
    except (error, IndexError):
        raise Unreadable(f"record of {len(data)} bytes", account.address) from None
    if not deposit_raw:
        return None
    lock = _lock(deposit_raw, locks_s, now_s, is_voting=bool(votes or proposals))
    mint = raw_pubkey(data, 33)
    return Position(
        _ROUTE,
        account,
        market=raw_pubkey(data, 1),
        assets=[Asset(Role.SUPPLY if lock is None else Role.LOCKED, mint, deposit_raw)],
        locks=[] if lock is None else [lock],
        voting=Voting(None, votes, delegate),
        unsupported_fields=[_POWER],
    )


def _locks_s(reader: Reader) -> list[int | None]:
    """Return when the locks of a record expire; None: never. Raises struct.error."""
    reader.skip(_RESERVED_V2)
    if not reader.has(4):
        return []  # written before there were locks
    expiries: list[int | None] = []
    for _ in range(reader.u32()):
        reader.skip(1 + 32)
        expiries.append(reader.i64() if reader.flag() else None)
    return expiries


def _lock(
    deposit_raw: int, locks_s: list[int | None], now_s: int, *, is_voting: bool
) -> Lock | None:
    """Return what keeps a deposit; None where it can be withdrawn."""
    held_s = [each for each in locks_s if each is None or each >= now_s]
    if is_voting or None in held_s:
        return Lock("escrow", deposit_raw, 0)
    ends_s = max((each for each in held_s if each is not None), default=None)
    if ends_s is None:
        return None
    return Lock("escrow", deposit_raw, 0, min(ends_s * 1000, _LATEST_MS))


PROTOCOL: Final = Protocol(
    "realms",
    (*RECORDS, *VOTERS, *REGISTRARS),
    (Route(_ROUTE, Shape.GOVERNANCE, "Tokens deposited to vote in DAOs, and locked for votes"),),
    read,
    unsupported_fields=(
        "instances of the program that Realms' registry does not list",
        "deposits in plugins other than the voter stake registry: NFTs, gateways, escrows",
    ),
)
