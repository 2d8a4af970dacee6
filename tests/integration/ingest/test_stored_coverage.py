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
from pipeline.ingest.accounts.tail import AccountTail, tail_of
from schemas.proto.tape_pb2 import Covered, SlotBatch
from schemas.protocols.registry import KINDS
from schemas.redis_keys import COVERAGE_FLOOR, COVERED, WATERMARK, account_tags
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


async def applied(redis: Redis, slot: int, *tags: str) -> None:
    """Have the agent reach a slot."""
    for tag in tags or TAGS:
        await redis.hset(WATERMARK.make(tag=tag, group="accounts"), "slot", slot)
        await redis.hset(COVERAGE_FLOOR.make(tag=tag), "programs", b"%d" % slot)


def ends_at(last: int) -> AccountTail:
    """Return the tail of a lane as a process that takes over reads it."""
    slots = [SlotBatch(slot=each, parent=each - 1) for each in range(last - 63, last + 1)]
    return tail_of({partition: [*slots] for partition in range(len(TAGS))})


async def taken_over(settings: Settings, last: int) -> tuple[Coverage, StoredWatch, list[int]]:
    known = await read_stored(settings)
    coverage = Coverage(KINDS[STAKE_PROGRAM], known.covered, ends_at(last), known.floor)
    assert coverage.lacking() == [], "as the agent has it"
    lost: list[int] = []
    return coverage, StoredWatch(settings, coverage, lost.append), lost


async def test_a_withdrawal_of_all_that_a_takeover_did_not_see_is_a_loss_once_it_is_applied(
    settings: Settings, redis: Redis
):
    await cover(redis, given=500)
    await applied(redis, 900)
    _, watch, lost = await taken_over(settings, 1_100)  # all was withdrawn in slot 1,000
    await watch.look()
    assert lost == []
    await applied(redis, 1_000)
    await lose(redis, 1_000, *TAGS)
    await watch.look()
    assert lost == [1_000]


async def test_a_withdrawal_of_one_program_that_a_takeover_did_not_see_is_found_once_applied(
    settings: Settings, redis: Redis
):
    await cover(redis, given=500)
    await applied(redis, 900)
    coverage, watch, lost = await taken_over(settings, 1_100)
    await applied(redis, 1_000)
    for tag in TAGS:
        name = COVERED.make(tag=tag, address=text(STAKE_PROGRAM))
        await redis.hset(name, "reason", "its accounts were not all written")
        await redis.hdel(name, "slot", "given")
    await watch.look()
    assert coverage.lacking() == [], "a later slot may give it again"
    await applied(redis, 1_099, *TAGS[1:])
    await watch.look()
    assert coverage.lacking() == [], "one partition has yet to apply it"
    await applied(redis, 1_100)
    await watch.look()
    assert coverage.lacking() == [STAKE_PROGRAM]
    assert coverage.is_void(STAKE_PROGRAM)
    coverage.asked_anew(STAKE_PROGRAM)
    await watch.look()
    assert not coverage.is_void(STAKE_PROGRAM), "it is being asked for"
    coverage.note([GIVEN], 1_150)
    await applied(redis, 1_149)
    await watch.look()
    assert coverage.lacking() == []
    await cover(redis, given=1_150)
    await applied(redis, 1_150)
    await watch.look()
    assert coverage.lacking() == []
    assert lost == []


async def test_a_hole_that_is_being_mended_voids_no_program(settings: Settings, redis: Redis):
    await cover(redis, given=500)
    await applied(redis, 1_100)
    coverage, watch, _ = await taken_over(settings, 1_100)
    await redis.hset(COVERAGE_FLOOR.make(tag=TAGS[2]), "hole", 1_100)
    await watch.look()
    assert coverage.lacking() == []


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
