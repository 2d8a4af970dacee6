"""A real Valkey, slots of accounts, and a player of them through the books of a partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from infra.redis.client import connect
from infra.settings import Settings
from pipeline.agents.accounts.agent import GROUP, open_accounts
from pipeline.agents.accounts.books import AccountBooks
from pipeline.sinks.redis import Watermark, commit, free, read_watermark
from schemas import redis_keys
from schemas.accounts import compress
from schemas.proto.tape_pb2 import AccountVersion, Covered, SlotBatch
from schemas.protocols.registry import kind_of
from schemas.rows import ACCOUNTS
from schemas.solana.addresses import STAKE_PROGRAM, SYSTEM_PROGRAM, TOKEN_PROGRAM, VOTE_PROGRAM
from tests.support.systems import running_valkey

PARTITION = 3
TAG = "{a3}"
WATERMARK = redis_keys.WATERMARK.make(tag=TAG, group=GROUP)
T0_MS = 1_763_700_000_000


@pytest.fixture(scope="package")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings that lead to a Valkey."""
    folder: Path = tmp_path_factory.mktemp("accounts")
    with running_valkey(folder) as port:
        yield Settings(_env_file=None, soltape_data=folder, redis_url=f"redis://127.0.0.1:{port}/0")


def raw(kind: int, number: int) -> bytes:
    return bytes([kind, number]) * 16


def stake(address: bytes, withdrawer: bytes, staker: bytes, note: int = 0) -> AccountVersion:
    data = bytes(12) + staker + withdrawer + note.to_bytes(8, "little") + bytes(116)
    return version(address, STAKE_PROGRAM, data, 10**9 + note)


def token(address: bytes, owner: bytes, amount_raw: int = 0) -> AccountVersion:
    data = raw(9, 1) + owner + amount_raw.to_bytes(8, "little") + bytes(93)
    return version(address, TOKEN_PROGRAM, data, 2_039_280)


def vote(address: bytes, note: int = 0) -> AccountVersion:
    return version(address, VOTE_PROGRAM, bytes([note % 256]) * 300, 1)


def native(wallet: bytes, lamports: int) -> AccountVersion:
    return version(wallet, SYSTEM_PROGRAM, b"", lamports)


def version(address: bytes, program: bytes, data: bytes, lamports: int) -> AccountVersion:
    """Return what ingest sends of an account."""
    kind = kind_of(address, program, data)
    return AccountVersion(
        address=address,
        program=program,
        lamports=lamports,
        size=len(data),
        data=compress(data),
        found_by=kind.found_by(data) if kind else [],
    )


def closing(address: bytes) -> AccountVersion:
    return AccountVersion(address=address, program=SYSTEM_PROGRAM, closed=True)


def asked(found: AccountVersion, slot: int) -> AccountVersion:
    found.asked_slot = slot
    return found


def slot_batch(
    slot: int,
    *accounts: AccountVersion,
    covered: Sequence[Covered] = (),
    parent: int | None = None,
    time_ms: int | None = None,
    complete: bool = True,
) -> SlotBatch:
    return SlotBatch(
        slot=slot,
        complete=complete,
        parent=slot - 1 if parent is None else parent,
        block_time_ms=T0_MS + slot * 400 if time_ms is None else time_ms,
        accounts=sorted(accounts, key=lambda account: account.address),
        covered=covered,
    )


class Player:
    """Plays slots through the books of one partition into Redis, as the frame does."""

    def __init__(self, settings: Settings, **changed: Any) -> None:
        self.settings = settings.model_copy(update=changed)
        self.redis: Redis = connect(settings)
        self.books: AccountBooks | None = None
        self.written: Watermark | None = None
        self.applied: Watermark | None = None
        self.rows: dict[str, tuple[Any, ...]] = {}  # as merged: by address, the last slot

    async def open(self) -> AccountBooks:
        """Open the books as a process does that starts."""
        self.books = await open_accounts(self.settings, self.redis, PARTITION)
        self.written = self.applied = await read_watermark(self.redis, WATERMARK)
        return self.books

    def crash(self) -> None:
        """Lose what is in memory."""
        self.books = None

    async def apply(self, *batches: SlotBatch) -> None:
        """Apply those that are above the last slot, loaded together."""
        books = self.books or await self.open()
        last = self.applied.slot if self.applied else -1
        batches = tuple(batch for batch in batches if batch.slot > last)
        if batches:
            await books.load(batches)
            for batch in batches:
                books.apply(batch)
                self.applied = Watermark(batch.slot, batch.slot, batch.block_time_ms)

    async def flush(self, *, heard: bool = True) -> None:
        """Write what changed; `heard`: the books learn of it."""
        books = self.books or await self.open()
        if self.applied is None:
            return
        writes = books.take()
        self._merge(writes.rows)
        await commit(self.redis, WATERMARK, self.written, self.applied, writes.commands)
        self.written = self.applied
        if heard:
            books.written()

    async def evict(self) -> int:
        books = self.books or await self.open()
        assert self.written
        writes = await books.evict(self.written.slot)
        if writes is None:
            return 0
        self._merge(writes.rows)
        assert await free(self.redis, WATERMARK, self.written.slot, writes.commands)
        return writes.evicted

    def _merge(self, rows: dict[str, list[tuple[Any, ...]]]) -> None:
        at = [*ACCOUNTS.columns].index("slot")
        for row in rows.get(ACCOUNTS.name, ()):
            before = self.rows.get(row[0])
            if before is None or before[at] <= row[at]:
                self.rows[row[0]] = row

    async def state(self) -> dict[str, Any]:
        """All keys of the accounts."""
        found = {}
        for name in await self.redis.keys("*"):
            key = name.decode()
            if not key.startswith(("wm:", "accts:{a3}:away")):
                found[key] = await read_key(self.redis, key)
        return without_revisions(found)


def without_revisions(keys: dict[str, Any]) -> dict[str, Any]:
    """Return keys without what is random: the revision of what programs are covered."""
    floors = {redis_keys.COVERAGE_FLOOR.make(tag=tag) for tag in redis_keys.account_tags()}
    for name in floors & keys.keys():
        del keys[name][b"programs"]
        if not keys[name]:
            del keys[name]
    return keys


async def read_key(redis: Redis, key: str) -> Any:
    match await redis.type(key):
        case b"hash":
            return await redis.hgetall(key)
        case b"zset":
            return dict(await redis.zrange(key, 0, -1, withscores=True))
        case b"set":
            return await redis.smembers(key)
        case _:
            return await redis.get(key)
