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
from schemas.protocols.programs import OTHER
from schemas.protocols.registry import KINDS, kind_of
from schemas.solana.addresses import SYSTEM_PROGRAM, text

GROUP: Final = "accounts"
_CACHED_QUESTIONS: Final = 1 << 10  # of a partition and the programs of a route: 2 kB each
TRACKED_PROGRAMS: Final = frozenset(
    {
        SYSTEM_PROGRAM,
        OTHER,
        *(program for program, kinds in KINDS.items() for kind in kinds if kind.group == "tokens"),
    }
)
"""Programs whose accounts are kept for tracked wallets and mints alone, and covered by those."""


class Coverage(NamedTuple):
    """What one partition says of a program, wallet or mint."""

    slot: int | None  # from which it has all of it
    reason: str = ""  # why it has not


_NOT_COVERED: Final = Coverage(None)
_NO_PROGRAMS: Final[Mapping[bytes, Coverage]] = {}


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What one partition says of a wallet or mint."""

    slot: int | None  # its watermark; None: it has not begun
    coverage: Mapping[bytes, Coverage]  # of the wallet or mint, and of programs
    found: frozenset[bytes]  # raw addresses of accounts
    may_be_away: bool  # ClickHouse may have some
    time_ms: int = 0  # of the block of `slot`


@dataclass(slots=True)
class Living:
    """The accounts of a wallet or mint that are alive."""

    accounts: dict[bytes, tuple[Kind, StoredAccount, bytes]] = field(default_factory=dict)
    """Raw address -> kind, header, data."""
    unreadable: dict[bytes, str] = field(default_factory=dict)  # raw address -> what is wrong


def questions(tag: str, finder: bytes) -> list[tuple[Any, ...]]:
    """Return what to ask the partition of a tag about a wallet or mint, in one pipeline."""
    return [*partition_questions(tag), *finder_questions(tag, finder)]


@lru_cache(_CACHED_QUESTIONS)
def partition_questions(tag: str) -> tuple[tuple[Any, ...], ...]:
    """Return those of `questions` that are the same for every wallet and mint: the first ones."""
    name = redis_keys.WATERMARK.make(tag=tag, group=GROUP)
    return ("HMGET", name, "slot", "time_ms"), floor_question(tag)


def finder_questions(tag: str, finder: bytes) -> tuple[tuple[Any, ...], ...]:
    """Return those of `questions` that are about a wallet or mint alone: the last ones."""
    found_by, away, covered = _of_tag(tag)
    name = text(finder)
    return (
        ("SMEMBERS", found_by + name),
        ("BITFIELD_RO", away, "GET", "u1", bit(finder)),
        ("HMGET", covered + name, "slot", "given", "reason"),
    )


@lru_cache(_CACHED_QUESTIONS)
def _of_tag(tag: str) -> tuple[str, str, str]:
    """Return keys of a partition: of what finds accounts, of what is away, of what is covered.

    The first and the last lack the address.
    """
    return (
        redis_keys.FOUND_BY.make(tag=tag, address=""),
        redis_keys.ACCOUNTS_AWAY.make(tag=tag),
        _covered(tag),
    )


def _coverage_question(tag: str, address: bytes) -> tuple[Any, ...]:
    return ("HMGET", _covered(tag) + text(address), "slot", "given", "reason")


@lru_cache(_CACHED_QUESTIONS)
def _covered(tag: str) -> str:
    """Return the key of what is covered in a partition, without the address."""
    return redis_keys.COVERED.make(tag=tag, address="")


@lru_cache(_CACHED_QUESTIONS)
def program_questions(tag: str, programs: tuple[bytes, ...]) -> tuple[tuple[Any, ...], ...]:
    """Return what to ask the partition of a tag about programs."""
    return tuple(_coverage_question(tag, each) for each in programs)


def program_coverage(
    programs: Sequence[bytes], floor: Sequence[bytes | None], answers: Sequence[Any]
) -> dict[bytes, Coverage]:
    """Return what a partition's answers to `program_questions` say."""
    return {program: coverage(said, floor) for program, said in zip(programs, answers, strict=True)}


def partition_state(
    finder: bytes, answers: Sequence[Any], of_programs: Mapping[bytes, Coverage] = _NO_PROGRAMS
) -> PartitionState:
    """Return what the answers to `questions` say, beside the coverage of programs."""
    (slot, time_ms), floor, found, away, own = answers
    return PartitionState(
        None if slot is None else int(slot),
        {finder: coverage(own, floor), **of_programs},
        frozenset(found),
        bool(away[0]),
        int(time_ms or 0),
    )


@lru_cache(_CACHED_QUESTIONS)
def floor_question(tag: str) -> tuple[Any, ...]:
    """Return what to ask for the `floor` of `coverage`.

    Where the answer `has_revision`, the same answer means the same coverage of programs.
    """
    return "HMGET", redis_keys.COVERAGE_FLOOR.make(tag=tag), "slot", "hole", "programs"


def has_revision(floor: Sequence[bytes | None]) -> bool:
    """Return whether an answer to `floor_question` changes along with coverage of programs."""
    return floor[2] is not None


def coverage(values: Sequence[bytes | None], floor: Sequence[bytes | None]) -> Coverage:
    """Return what a partition's slot, given and reason say; `floor` answers `floor_question`."""
    slot, given, reason = values
    lost, hole = floor[:2]
    if slot is None or given is None:
        return Coverage(None, reason.decode() if reason else "")
    if lost and int(given) < int(lost):
        return Coverage(None, f"slots before {int(lost)} were lost")
    if hole is not None:
        return Coverage(None, f"what changed since slot {int(hole)} is being asked for")
    return Coverage(int(slot))


def covered_since(states: Iterable[PartitionState], address: bytes) -> Coverage:
    """Return the slot from which all partitions have all of it, or why one has not."""
    return least_covered(state.coverage.get(address, _NOT_COVERED) for state in states)


def least_covered(partitions: Iterable[Coverage]) -> Coverage:
    """Return the slot from which all of them are covered, or why one is not."""
    since = 0
    for found in partitions:
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
    return living_account(finder, state, address, unpack(packed))


def living_account(
    finder: bytes, state: PartitionState, address: bytes, account: StoredAccount
) -> tuple[Kind, StoredAccount, bytes] | None:
    """Return what `living_one` does, of an account whose header was read; raises BadAccount."""
    if account.closed or not is_alive(finder, state, account.program, account.slot):
        return None
    data = account.data()
    kind = kind_of(address, account.program, data)
    return (kind, account, data) if kind is not None and kind.names(data, finder) else None


def is_alive(finder: bytes, state: PartitionState, program: bytes, slot: int) -> bool:
    """Return whether an account's slot is not below its coverage.

    That is the coverage of the wallet or mint where the account is kept for it alone, else of the
    account's program, which must have been asked for.
    """
    covered = state.coverage.get(finder if program in TRACKED_PROGRAMS else program)
    return covered is None or covered.slot is None or slot >= covered.slot
