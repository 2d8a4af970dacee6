"""What a reader makes of stored accounts: which of a wallet's are alive, and as of which slot.

All partitions of the lane of accounts have a part of what a wallet has, and each is at a slot of
its own. A reader asks each partition for `questions`, then for the accounts that its answer names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from schemas import redis_keys
from schemas.accounts import BadAccount, StoredAccount, unpack
from schemas.away import bit
from schemas.protocols.contract import Kind
from schemas.protocols.registry import KINDS, kind_of
from schemas.solana.addresses import SYSTEM_PROGRAM, text

GROUP: Final = "accounts"
_CACHED_QUESTIONS: Final = 1 << 10  # of a partition and the programs of a route: 2 kB each
_CACHED_ANSWERS: Final = 1 << 8  # likewise: 20 kB each for all programs there are
TRACKED_PROGRAMS: Final = frozenset(
    {
        SYSTEM_PROGRAM,
        *(program for program, kinds in KINDS.items() for kind in kinds if kind.group == "tokens"),
    }
)
"""Programs whose accounts are kept for tracked wallets and mints alone, and covered by those."""


class Coverage(NamedTuple):
    """What one partition says of a program, wallet or mint."""

    slot: int | None  # from which it has all of it
    reason: str = ""  # why it has not


_NOT_COVERED: Final = Coverage(None)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What one partition says of a wallet or mint."""

    slot: int | None  # its watermark; None: it has not begun
    coverage: Mapping[bytes, Coverage]  # of the wallet or mint, and of programs
    found: frozenset[bytes]  # raw addresses of accounts
    may_be_away: bool  # ClickHouse may have some


@dataclass(slots=True)
class Living:
    """The accounts of a wallet or mint that are alive."""

    accounts: dict[bytes, tuple[Kind, StoredAccount, bytes]] = field(default_factory=dict)
    """Raw address -> kind, header, data."""
    unreadable: dict[bytes, str] = field(default_factory=dict)  # raw address -> what is wrong


def questions(tag: str, finder: bytes, programs: Sequence[bytes] = ()) -> list[tuple[Any, ...]]:
    """Return what to ask the partition of a tag about a wallet or mint, in one pipeline."""
    return [*finder_questions(tag, finder), *program_questions(tag, tuple(programs))]


def finder_questions(tag: str, finder: bytes) -> list[tuple[Any, ...]]:
    """Return those of `questions` that are about the wallet or mint."""
    slot, found_by, away = _of_tag(tag)
    return [
        slot,
        floor_question(tag),
        ("SMEMBERS", found_by + text(finder)),
        ("BITFIELD_RO", away, "GET", "u1", bit(finder)),
        _coverage_question(tag, finder),
    ]


@lru_cache(_CACHED_QUESTIONS)
def _of_tag(tag: str) -> tuple[tuple[Any, ...], str, str]:
    """Return the question for a partition's slot, and two of its keys: one lacks the address."""
    slot = ("HGET", redis_keys.WATERMARK.make(tag=tag, group=GROUP), "slot")
    found_by = redis_keys.FOUND_BY.make(tag=tag, address="")
    return slot, found_by, redis_keys.ACCOUNTS_AWAY.make(tag=tag)


def _coverage_question(tag: str, address: bytes) -> tuple[Any, ...]:
    name = redis_keys.COVERED.make(tag=tag, address=text(address))
    return ("HMGET", name, "slot", "given", "reason")


@lru_cache(_CACHED_QUESTIONS)
def program_questions(tag: str, programs: tuple[bytes, ...]) -> tuple[tuple[Any, ...], ...]:
    """Return those of `questions` that are about programs."""
    return tuple(_coverage_question(tag, each) for each in programs)


def partition_state(
    finder: bytes, programs: Sequence[bytes], answers: Sequence[Any]
) -> PartitionState:
    """Return what the answers to `questions` say."""
    slot, floor, found, away, own, *of_programs = answers
    return PartitionState(
        None if slot is None else int(slot),
        {
            finder: coverage(own, floor),
            **_coverages(tuple(programs), tuple(floor), *map(tuple, of_programs)),
        },
        frozenset(found),
        bool(away[0]),
    )


@lru_cache(_CACHED_ANSWERS)  # few programs change their coverage, and a request asks of all
def _coverages(
    programs: tuple[bytes, ...], floor: tuple[bytes | None, ...], *values: tuple[bytes | None, ...]
) -> Mapping[bytes, Coverage]:
    return {program: coverage(said, floor) for program, said in zip(programs, values, strict=True)}


@lru_cache(_CACHED_QUESTIONS)
def floor_question(tag: str) -> tuple[Any, ...]:
    """Return what to ask for the `floor` of `coverage`."""
    return "HMGET", redis_keys.COVERAGE_FLOOR.make(tag=tag), "slot", "hole"


def coverage(values: Sequence[bytes | None], floor: Sequence[bytes | None]) -> Coverage:
    """Return what a partition's slot, given and reason say; `floor` answers `floor_question`."""
    slot, given, reason = values
    lost, hole = floor
    if slot is None or given is None:
        return Coverage(None, reason.decode() if reason else "")
    if lost and int(given) < int(lost):
        return Coverage(None, f"slots before {int(lost)} were lost")
    if hole is not None:
        return Coverage(None, f"what changed since slot {int(hole)} is being asked for")
    return Coverage(int(slot))


def covered_since(states: Iterable[PartitionState], address: bytes) -> Coverage:
    """Return the slot from which all partitions have all of it, or why one has not."""
    since = 0
    for state in states:
        found = state.coverage.get(address, _NOT_COVERED)
        if found.slot is None:
            return found
        since = max(since, found.slot)
    return Coverage(since)


def as_of_slot(states: Iterable[PartitionState]) -> int | None:
    """Return the last slot that all partitions have, None while one has not begun."""
    slots = [state.slot for state in states]
    known = [slot for slot in slots if slot is not None]
    return min(known) if known and len(known) == len(slots) else None


def living(finder: bytes, state: PartitionState, stored: Mapping[bytes, bytes | None]) -> Living:
    """Return which of one partition's stored accounts, by raw address, are a wallet's or mint's.

    Left out are closed ones, those whose bytes do not name it, and those below their coverage.
    """
    found = Living()
    for address, packed in stored.items():
        if packed is None:
            continue
        try:
            one = living_one(finder, state, address, packed)
        except BadAccount as error:
            found.unreadable[address] = str(error)
            continue
        if one is not None:
            found.accounts[address] = one
    return found


def living_one(
    finder: bytes, state: PartitionState, address: bytes, packed: bytes
) -> tuple[Kind, StoredAccount, bytes] | None:
    """Return kind, header and data of a stored account, None where `living` leaves it out.

    Raises BadAccount.
    """
    account = unpack(packed)
    if account.closed or not is_alive(finder, state, account):
        return None
    data = account.data()
    kind = kind_of(address, account.program, data)
    return (kind, account, data) if kind is not None and kind.names(data, finder) else None


def is_alive(finder: bytes, state: PartitionState, account: StoredAccount) -> bool:
    """Return whether an account's slot is not below its coverage.

    That is the coverage of the wallet or mint where the account is kept for it alone, else of the
    account's program, which must have been asked for.
    """
    of = finder if account.program in TRACKED_PROGRAMS else account.program
    covered = state.coverage.get(of)
    return covered is None or covered.slot is None or account.slot >= covered.slot
