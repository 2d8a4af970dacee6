"""Every slot once: whatever is killed, put back in time, away, or sent that is no slot."""

import asyncio
import signal

import pytest

from infra.clickhouse.client import connect_async
from infra.kafka import topics
from schemas import redis_keys
from schemas.proto.tape_pb2 import SlotBatch, Undecoded
from schemas.topics import UNDECODED
from tests.integration.agents.settled.conftest import UNREAD
from tests.support.systems import saved
from tests.support.waiting import eventually_async

embedded = pytest.mark.parametrize("broker", ["embedded"], indirect=True)
"""Where the broker is not what is tried."""


def some(count):
    """Whether all partitions have come so far."""
    return lambda state: all(applied >= count for applied, _ in state.values())


def least(state):
    return min(applied for applied, _ in state.values())


@pytest.mark.slow
async def test_killed_at_any_moment_each_slot_is_applied_once(lane, workers):
    lane.send(200)
    for after_s in (0.0, 0.35, 0.8):
        child = workers.start()
        lane.send(5)  # the one before may have applied all there was
        await workers.until(some(least(await workers.state()) + 1))
        lane.send(100)
        await asyncio.sleep(after_s)
        child.kill()
        child.wait()
    workers.start()
    lane.send(5)
    await workers.until_applied(lane)


@embedded
@pytest.mark.slow
async def test_an_orderly_end_writes_what_is_applied_and_leaves_nothing_to_do_again(lane, workers):
    lane.send(50)
    child = workers.start()
    await workers.until_applied(lane)
    child.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(child.wait, 60) == 0
    before = len(workers.log)  # a rebalance at the first start may have it go back
    workers.start()
    lane.send(5)
    await workers.until_applied(lane)
    assert "going back" not in workers.log[before:]
    assert "opened again" not in workers.log[before:]


@pytest.mark.slow
async def test_two_workers_share_and_the_one_left_takes_over(lane, workers):
    lane.send(20)
    first, second = workers.start(), workers.start()
    await workers.until_applied(lane)
    await eventually_async(lambda: workers.log.count("started") == 2, lambda: workers.log)
    lane.send(50)
    await workers.until_applied(lane)
    first.kill()
    first.wait()
    lane.send(50)
    await workers.until_applied(lane)
    assert second.poll() is None


@pytest.mark.slow
@pytest.mark.parametrize("agents_live", [True, False], ids=["while-running", "while-down"])
async def test_redis_without_its_last_second_is_computed_again(
    lane, workers, redis_server, tmp_path, agents_live
):
    child = workers.start()
    lane.send(50)
    await workers.until_applied(lane)
    await saved(workers.redis)
    redis_server.copy_to(tmp_path / "older")
    lane.send(30)
    await workers.until_applied(lane)
    await workers.until_committed()
    if not agents_live:
        child.kill()
        child.wait()
    redis_server.kill()
    redis_server.put_back(tmp_path / "older")
    await redis_server.start()
    if not agents_live:
        workers.start()
    # Nothing new is sent: the log already has all there is to know.
    await workers.until_applied(lane)
    lane.send(5)
    await workers.until_applied(lane)


@embedded
@pytest.mark.slow
@pytest.mark.parametrize(("checkpoint_s", "from_log"), [("1", False), ("3600", False), ("1", True)])
async def test_an_empty_redis_is_rebuilt_from_the_checkpoint_and_the_log(
    lane, workers, checkpoint_s, from_log
):
    workers.start(BOOKS_CHECKPOINT_S=checkpoint_s)
    lane.send(10)
    await workers.until_applied(lane)
    await workers.until_committed()
    if checkpoint_s == "1":
        await eventually_async(lambda: workers.has_checkpoints(lane.slot), lambda: workers.log, 60)
    lane.send(7)
    await workers.until_applied(lane)
    await workers.redis.flushall()
    child = workers.running[-1]
    await asyncio.to_thread(child.wait, 60)
    assert child.returncode == 70
    assert "run `soltape rebuild" in workers.log
    again = workers.start()  # not by itself, however often
    await asyncio.to_thread(again.wait, 120)
    assert again.returncode == 70
    await workers.rebuild(from_log=from_log)
    workers.start()
    lane.send(5)
    await workers.until_applied(lane)


@embedded
@pytest.mark.slow
async def test_while_redis_is_away_all_waits(lane, workers, redis_server):
    workers.start()
    lane.send(10)
    await workers.until_applied(lane)
    await workers.until_committed()
    redis_server.kill()
    lane.send(30)
    await eventually_async(
        lambda: "Redis does not answer: holding" in workers.log, lambda: workers.log
    )
    await redis_server.start()
    await workers.until_applied(lane)


async def test_what_is_no_slot_is_put_aside_and_the_rest_goes_on(lane, workers, broker):
    before = await topics.end_offsets(broker.settings, UNDECODED)
    workers.start()
    lane.send(5)
    await workers.until_applied(lane)
    known = await workers.gaps()  # the log has what other tests sent
    lane.raw(3, UNREAD)
    lane.raw(4, SlotBatch(transactions=9).SerializeToString())
    lane.send(5)
    lane.send(1, blockhash="bad")
    lane.send(5)
    await workers.until_applied(lane)
    ends = await topics.end_offsets(broker.settings, UNDECODED)
    assert sum(ends.values()) - sum(before.values()) >= 2 + 8
    records = []
    async with topics.reader(broker.settings) as consumer:
        places = await topics.partitions(broker.settings, UNDECODED)
        consumer.assign(places)
        for place in places:
            consumer.seek(place, before[place.partition])
        async with asyncio.timeout(60):
            while len(records) < sum(ends.values()) - sum(before.values()):
                for found in (await consumer.getmany(timeout_ms=200)).values():
                    records += [Undecoded.FromString(record.value) for record in found]
    details = " | ".join(record.detail for record in records)
    assert "[3]@" in details
    assert "it names no slot" in details
    assert f"slot {lane.slot - 5}: blockhash: bad" in details
    bad = next(record for record in records if "blockhash" in record.detail)
    assert SlotBatch.FromString(bad.data).slot == lane.slot - 5
    left_out = lane.slot - 5
    assert await workers.gaps() - known == {(place, left_out, left_out) for place in lane.slots}


async def test_a_slot_that_cannot_be_read_is_on_record_whoever_reads_the_next(lane, workers):
    partition = 3
    child = workers.start()
    lane.send(5)
    await workers.until_applied(lane)
    known = await workers.gaps()
    lane.send(1, unread_on=partition)
    unread = lane.slot
    await workers.until_committed()
    await asyncio.sleep(2)  # longer than a flush takes its time
    assert (await workers.watermarks())[partition].slot == unread - 1
    child.kill()
    child.wait()
    assert await workers.gaps() == known, "the next slot says what it was"
    workers.start()
    lane.send(5)
    await workers.until_applied(lane)
    assert await workers.gaps() - known == {(partition, unread, unread)}


async def test_what_the_log_no_longer_has_is_on_record(lane, workers):
    partition, had = 2, lane.slot + 50  # of a log that was longer than this one
    mark = redis_keys.WATERMARK.make(tag=redis_keys.tag_of_mints(partition), group=workers.group)
    marks = {"slot": had, "offset": 10**6, "time_ms": 0}
    await workers.redis.hset(mark, mapping=marks)
    lane.slot = had + 30
    lane.send(3)
    workers.start()

    async def goes_on():
        return (await workers.watermarks())[partition].slot == lane.slot

    await eventually_async(goes_on, lambda: workers.log)
    found = {gap for gap in await workers.gaps() if gap[0] == partition}
    assert found == {(partition, had + 1, had + 30)}


@embedded
async def test_a_bug_ends_the_process_before_its_slot_is_written(lane, workers):
    child = workers.start()
    lane.send(10)
    await workers.until_applied(lane)
    applied = await workers.state()
    lane.send(1, blockhash=f"bug {workers.group}")
    assert await asyncio.to_thread(child.wait, 120) == 70
    assert "ZeroDivisionError: a bug (counting.py:" in workers.log
    assert f"slot {lane.slot}" in workers.log
    assert await workers.state() == applied


@embedded
async def test_books_that_fail_over_a_redis_put_back_are_opened_again(lane, workers):
    child = workers.start()
    lane.send(10)
    await workers.until_applied(lane)
    await workers.until_committed()
    keys = [key async for key in workers.redis.scan_iter(f"*{workers.group}*")]
    older = {key: await workers.redis.dump(key) for key in keys}
    lane.send(5)
    await workers.until_applied(lane)
    lane.send(1, blockhash=f"moved {workers.group}")
    async with workers.redis.pipeline() as put_back:
        for key, value in older.items():
            put_back.restore(key, 0, value, replace=True)
        await put_back.execute()
    await workers.until_applied(lane)
    assert child.poll() is None
    assert "half of another state" in workers.log


@embedded
@pytest.mark.slow
async def test_while_clickhouse_is_away_rows_wait_and_no_watermark_passes_them(
    lane, workers, rows_server
):
    workers.start()
    lane.send(20)
    await workers.until_applied(lane)
    before = await workers.watermarks()
    rows_server.kill()
    lane.send(40)
    await eventually_async(
        lambda: "ClickHouse does not take rows: holding" in workers.log, lambda: workers.log
    )
    assert await workers.watermarks() == before
    await rows_server.start()
    await workers.until_applied(lane)
    assert "ClickHouse takes rows again" in workers.log
    async with await connect_async(workers.settings) as client:
        found = await client.query("SELECT slot FROM slots FINAL ORDER BY slot")
    assert [slot for (slot,) in found.result_rows] == sorted(
        {slot for slots in lane.slots.values() for slot in slots}
    )
