"""What agent `accounts` stored of coverage, as ingest reads it and watches it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from infra.redis.client import connect
from infra.settings import Settings
from pipeline.ingest.accounts import stored
from pipeline.ingest.accounts.coverage import Coverage
from pipeline.ingest.accounts.stored import StoredWatch, read_stored
from schemas.proto.tape_pb2 import Covered
from schemas.protocols.registry import KINDS
from schemas.redis_keys import COVERAGE_FLOOR, COVERED, account_tags
from schemas.solana.addresses import STAKE_PROGRAM, text
from tests.support.systems import running_valkey
from tests.support.waiting import eventually_async

pytestmark = pytest.mark.processes

TAGS = account_tags()
GIVEN = Covered(kind=Covered.PROGRAM, address=STAKE_PROGRAM, slot=5)
ALL = Covered(kind=Covered.ALL, reason="slots were lost")


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    with running_valkey(tmp_path) as port:
        yield Settings(_env_file=None, redis_url=f"redis://127.0.0.1:{port}/0")


@pytest.fixture
async def redis(settings: Settings) -> AsyncIterator[Redis]:
    client = connect(settings)
    yield client
    await client.aclose()


async def lose(redis: Redis, slot: int, *tags: str) -> None:
    """Have partitions lose the slots before one, as the agent says it."""
    for tag in tags:
        await redis.hset(COVERAGE_FLOOR.make(tag=tag), "slot", slot)


async def cover(redis: Redis, *, given: int) -> None:
    for tag in TAGS:
        name = COVERED.make(tag=tag, address=text(STAKE_PROGRAM))
        await redis.hset(name, mapping={"slot": given - 1, "given": given})


async def test_a_floor_that_no_withdrawal_explains_is_a_loss(settings: Settings, redis: Redis):
    await lose(redis, 90, TAGS[3])
    await cover(redis, given=100)
    known = await read_stored(settings)
    assert [each.address for each in known.covered] == [STAKE_PROGRAM]
    coverage = Coverage(KINDS[STAKE_PROGRAM], known.covered, floor=known.floor)
    lost: list[int] = []
    watch = StoredWatch(settings, coverage, lost.append)
    await watch.look()
    assert lost == [], "it was so when the process began"
    await lose(redis, 120, TAGS[5])
    await watch.look()
    assert lost == [120]
    coverage.withdraw(131)
    coverage.note([ALL], 131)
    await lose(redis, 131, *TAGS)  # the agent applies what ingest withdrew
    await lose(redis, 125, TAGS[6])  # one that is behind lost what is void anyway
    await watch.look()
    assert lost == [120]
    await lose(redis, 140, TAGS[6])
    await watch.look()
    assert lost == [120, 140]


async def test_while_redis_is_away_what_is_known_stays(
    settings: Settings, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stored, "LOOK_S", 0.05)
    await lose(redis, 90, TAGS[0])
    away = settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})
    lost: list[int] = []
    coverage = Coverage(KINDS[STAKE_PROGRAM], [GIVEN])
    for of, is_away in ((away, True), (settings, False)):
        task = asyncio.create_task(StoredWatch(of, coverage, lost.append).run())
        try:
            if is_away:
                await asyncio.sleep(0.5)
                assert not task.done()
                assert lost == []
                assert coverage.lacking() == []
            else:
                await eventually_async(lambda: lost)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
