"""What Redis and ClickHouse hold of accounts, and of what they say it is complete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from infra.chain.account_truth import FIRST_DATA, digest
from infra.clickhouse.client import connect as connect_clickhouse
from infra.redis.client import connect
from infra.settings import Settings
from pipeline.chaos.account_kinds import COVERED
from pipeline.chaos.differences import Differences
from schemas.accounts import (
    BadAccount,
    StoredAccount,
    followed_of,
    largest_of,
    mint_account_of,
    unpack,
)
from schemas.redis_keys import (
    ACCOUNT,
    COVERAGE_FLOOR,
    FOUND_BY,
    TRACKED_ACCOUNTS,
    TRACKED_HOLDERS,
    TRACKED_MINTS,
    TRACKED_WALLETS,
    account_tag,
    account_tags,
)
from schemas.redis_keys import COVERED as COVERED_KEY
from schemas.rows import ACCOUNTS
from schemas.solana.addresses import key, text

UNREADABLE: Final = "stored account"
MISPLACED: Final = "place of a stored account"
_READ_AT_ONCE: Final = 1_000
_ADDRESS_BYTES: Final = 32


class Version(NamedTuple):
    """An account as a store has it."""

    slot: int
    owner: bytes
    lamports: int
    size: int
    digest: bytes
    first_data: bytes
    closed: bool


@dataclass(slots=True)
class Asked:
    """What somebody asked for, raw: its accounts are kept."""

    wallets: set[bytes] = field(default_factory=set)
    mints: set[bytes] = field(default_factory=set)
    holders: set[bytes] = field(default_factory=set)  # mints whose largest accounts are kept
    accounts: set[bytes] = field(default_factory=set)  # by their own addresses

    def add(self, others: Asked) -> None:
        """Add what somebody else asked for."""
        self.wallets |= others.wallets
        self.mints |= others.mints
        self.holders |= others.holders
        self.accounts |= others.accounts

    def subjects(self) -> list[str]:
        """Return what their coverage is kept under."""
        raw = {
            *self.wallets,
            *map(mint_account_of, self.mints),
            *map(largest_of, self.holders),
            *map(followed_of, self.accounts),
        }
        return sorted(map(text, raw))


@dataclass
class StoredAccounts:
    """All of it, by raw address."""

    here: dict[bytes, Version] = field(default_factory=dict)  # Redis
    rows: dict[bytes, Version] = field(default_factory=dict)  # ClickHouse
    asked: Asked = field(default_factory=Asked)
    since: dict[bytes, int | None] = field(default_factory=dict)
    """By program or subject: the slot from which it is complete, None: it is not."""
    largest: dict[bytes, set[bytes]] = field(default_factory=dict)  # by mint
    found_by: dict[bytes, set[bytes]] = field(default_factory=dict)  # by wallet

    @cached_property
    def whole(self) -> dict[bytes, Version]:
        """What readers find: ClickHouse has what Redis put away."""
        return self.rows | self.here

    def alive(self, subject: bytes, versions: Mapping[bytes, Version]) -> dict[bytes, Version]:
        """Return which of some versions are alive by the coverage of a program or subject."""
        since = self.since.get(subject)
        if since is None:
            return {}
        return {a: each for a, each in versions.items() if not each.closed and each.slot >= since}


async def read_asked(settings: Settings) -> Asked:
    """Return what the lane keeps as it was asked for; raises RedisError."""
    redis = connect(settings)
    try:
        sets: list[Any] = [
            await redis.zrange(name.make(), 0, -1)
            for name in (TRACKED_WALLETS, TRACKED_MINTS, TRACKED_HOLDERS, TRACKED_ACCOUNTS)
        ]
    finally:
        await redis.aclose()
    return Asked(*map(set, sets))


async def read(settings: Settings, asked: Asked, found: Differences) -> StoredAccounts:
    """Return all that is stored, for what is `asked`; raises RedisError and ClickHouseError.

    Notes values that are no account, and those of which the key is in another partition's place.
    """
    stored = StoredAccounts(asked=asked, rows=await asyncio.to_thread(_read_rows, settings))
    redis = connect(settings, answer_timeout_s=60.0)
    try:
        await _read_accounts(redis, stored, found)
        for subject in (*map(text, COVERED), *asked.subjects()):
            stored.since[key(subject)] = await since(redis, subject)
        for mint in asked.holders:
            packed: Any = await redis.hget(_coverage_key(text(largest_of(mint))), "accounts")
            stored.largest[mint] = {*_addresses(packed or b"")}
        for wallet in asked.wallets:
            stored.found_by[wallet] = set()
            for tag in account_tags():
                members: Any = await redis.smembers(FOUND_BY.make(tag=tag, address=text(wallet)))
                stored.found_by[wallet] |= set(members)
    finally:
        await redis.aclose()
    return stored


async def since(redis: Any, subject: str) -> int | None:
    """Return the slot from which all partitions have all of a program or subject."""
    pipe = redis.pipeline(transaction=False)
    for tag in account_tags():
        pipe.hmget(COVERED_KEY.make(tag=tag, address=subject), "slot", "given")
        pipe.hmget(COVERAGE_FLOOR.make(tag=tag), "slot", "hole")
    answers = await pipe.execute()
    slots = []
    for (slot, given), (floor, hole) in zip(answers[::2], answers[1::2], strict=True):
        if slot is None or given is None or int(given) < int(floor or 0) or hole is not None:
            return None
        slots.append(int(slot))
    return max(slots)


async def uncovered(settings: Settings, subjects: Iterable[str]) -> list[str]:
    """Return which programs and subjects are not covered; raises RedisError."""
    redis = connect(settings)
    try:
        return [each for each in subjects if await since(redis, each) is None]
    finally:
        await redis.aclose()


async def floor(settings: Settings) -> int:
    """Return the first slot after those that were lost, as all partitions say, 0: none were.

    Raises RedisError.
    """
    redis = connect(settings)
    try:
        floors = [await redis.hget(COVERAGE_FLOOR.make(tag=tag), "slot") for tag in account_tags()]
    finally:
        await redis.aclose()
    return min(int(slot or 0) for slot in floors)


def _coverage_key(subject: str) -> str:
    """Return a key of coverage: all partitions list the same largest accounts."""
    return COVERED_KEY.make(tag=account_tags()[0], address=subject)


async def _read_accounts(redis: Any, stored: StoredAccounts, found: Differences) -> None:
    names = [
        name.decode()
        for tag in account_tags()
        async for name in redis.scan_iter(ACCOUNT.make(tag=tag, address="*"), count=5_000)
    ]
    for at in range(0, len(names), _READ_AT_ONCE):
        part = sorted({*names[at : at + _READ_AT_ONCE]})
        for name, packed in zip(part, await redis.mget(part), strict=True):
            address = name.rpartition(":")[2]
            if name != ACCOUNT.make(tag=account_tag(address), address=address):
                found.add(MISPLACED, address, account_tag(address), name)
            try:
                if packed is not None:  # a closing may have left meanwhile
                    stored.here[key(address)] = _version(unpack(packed))
            except BadAccount as error:
                found.add(UNREADABLE, address, "an account", str(error))


def _version(account: StoredAccount) -> Version:
    data = account.data()
    first = data[:FIRST_DATA].ljust(FIRST_DATA, b"\0")
    program, lamports = account.program, account.lamports
    return Version(account.slot, program, lamports, len(data), digest(data), first, account.closed)


def _read_rows(settings: Settings) -> dict[bytes, Version]:
    client = connect_clickhouse(settings)
    columns = ("address", "program", "lamports", "data", "slot")
    try:
        answer = client.query(
            f"SELECT {', '.join(columns)} FROM {ACCOUNTS.name} FINAL",  # noqa: S608
            column_formats={"data": "bytes"},
        )
    finally:
        client.close()
    return {
        key(address): Version(
            slot,
            key(program),
            lamports,
            len(data),
            digest(data),
            data[:FIRST_DATA].ljust(FIRST_DATA, b"\0"),
            closed=False,
        )
        for address, program, lamports, data, slot in answer.result_rows
    }


def _addresses(packed: bytes) -> Sequence[bytes]:
    return [packed[at : at + _ADDRESS_BYTES] for at in range(0, len(packed), _ADDRESS_BYTES)]
