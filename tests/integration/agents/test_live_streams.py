"""The live streams on a real Valkey: once, in order, held while it is away; holes begin epochs."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress

import orjson
import pytest

from infra.redis.client import RedisError, connect
from pipeline.agents.live.receipt import Receipt
from pipeline.agents.live.streams import LiveStreams, Place
from schemas.channels import PRICES, SWAPS, LiveEvent
from schemas.redis_keys import LIVE_EPOCH, LIVE_FENCE
from tests.support.systems import saved
from tests.support.waiting import eventually_async


async def events(store, stream=SWAPS.stream):
    """Epoch and number of each event that the stream holds."""
    found = []
    for entry in await store.entries(stream):
        for event in entry.events:
            assert orjson.loads(event.frame)["data"]["n"] == event.index[0]
            found.append((entry.epoch, event.index[0]))
    return found


async def epoch_of(store):
    return (await store.client.get(LIVE_EPOCH.make())).decode()


class Writer:
    """A writer of partition 3, and which of its batches are done."""

    def __init__(self, store, hold_bytes=1 << 20, stream_bytes=1 << 20, none_between=None):
        self.redis = connect(store.settings, answer_timeout_s=1.0, retries=0)
        self.streams = LiveStreams(
            self.redis, stream_bytes=stream_bytes, hold_bytes=hold_bytes, none_between=none_between
        )
        self.done = set()

    def price(self, number):
        self.streams.add(None, [(PRICES, LiveEvent((number,), PRICES.frame({"n": number})))], [])

    def batch(self, offset, *, sent_ms=None, partition=3, frames=2, size=0):
        """A batch whose frames are numbered by its offset."""
        place = Place(partition, offset, 1000 + offset if sent_ms is None else sent_ms)
        data = [{"n": offset * 10 + n, "x": "x" * size} for n in range(frames)]
        numbered = [(SWAPS, LiveEvent((some["n"],), SWAPS.frame(some))) for some in data]
        receipt = Receipt(lambda: self.done.add(offset))
        self.streams.add(place, numbered, [receipt])
        receipt.release()

    async def flush(self):
        return await self.streams.flush()


def numbers(offsets, frames=2):
    return [offset * 10 + n for offset in offsets for n in range(frames)]


async def test_frames_arrive_once_in_order_under_one_epoch(store):
    writer = Writer(store)
    for offset in range(5):
        writer.batch(offset)
        assert offset not in writer.done
        assert await writer.flush()
    assert writer.done == {0, 1, 2, 3, 4}
    found = await events(store)
    assert found == [(await epoch_of(store), n) for n in numbers(range(5))]
    assert await store.client.hget(LIVE_FENCE.make(), 3) == b"4 1004"


async def test_a_restart_repeats_nothing_and_keeps_the_epoch(store):
    writer = Writer(store)
    for offset in range(6):
        writer.batch(offset)
    await writer.flush()
    after = Writer(store)  # from the last commit, at 2
    for offset in range(2, 9):
        after.batch(offset)
    await after.flush()
    assert await events(store) == [(await epoch_of(store), n) for n in numbers(range(9))]
    assert after.done == set(range(2, 9))


async def test_an_offset_that_does_not_follow_is_a_hole(store):
    writer = Writer(store)
    writer.batch(0)
    await writer.flush()
    first = await epoch_of(store)
    writer.batch(2)
    await writer.flush()
    second = await epoch_of(store)
    assert second != first
    assert await events(store) == [(first, 0), (first, 1), (second, 20), (second, 21)]


async def test_offsets_that_the_log_does_not_have_are_no_hole(store):
    asked = []

    async def none_between(partition, first, offset):
        asked.append((partition, first, offset))
        if first > 5:
            raise TimeoutError
        return first == 1

    writer = Writer(store, none_between=none_between)
    writer.batch(0)
    await writer.flush()
    first = await epoch_of(store)
    writer.batch(2)  # a transaction's marker is at 1
    writer.batch(3)
    await writer.flush()
    assert await epoch_of(store) == first
    writer.batch(5)  # 4 is in the log, and was not read
    await writer.flush()
    second = await epoch_of(store)
    assert second != first
    writer.batch(7)  # Kafka does not answer
    await writer.flush()
    assert await epoch_of(store) not in (first, second)
    assert asked == [(3, 1, 2), (3, 4, 5), (3, 6, 7)]


async def test_a_topic_made_anew_begins_an_epoch_and_is_not_taken_for_a_repetition(store):
    writer = Writer(store)
    for offset in range(3):
        writer.batch(offset)
    await writer.flush()
    first = await epoch_of(store)
    writer.batch(0, sent_ms=5000)
    await writer.flush()
    assert await epoch_of(store) != first
    assert [n for _, n in await events(store)] == [*numbers(range(3)), *numbers([0])]


async def test_a_partition_without_a_fence_is_a_hole_in_an_epoch_of_others(store):
    writer, other = Writer(store), Writer(store)
    writer.batch(7)
    await writer.flush()
    first = await epoch_of(store)
    writer.batch(9, partition=5)
    await writer.flush()
    assert await epoch_of(store) == first
    other.batch(9, partition=6)
    await other.flush()
    assert await epoch_of(store) != first


async def test_other_partitions_have_fences_of_their_own(store):
    writer, other = Writer(store), Writer(store)
    writer.batch(0)
    other.batch(0, partition=4)
    await writer.flush()
    await other.flush()
    writer.batch(1)
    await writer.flush()
    assert {epoch for epoch, _ in await events(store)} == {await epoch_of(store)}
    assert await store.client.hgetall(LIVE_FENCE.make()) == {b"3": b"1 1001", b"4": b"0 1000"}


async def test_while_redis_is_away_batches_are_done_and_frames_wait(store):
    writer = Writer(store)
    writer.batch(0)
    await writer.flush()
    await saved(store.client)
    epoch = await epoch_of(store)
    store.kill()
    writer.batch(1)
    assert not await writer.flush()
    assert writer.streams.away
    assert writer.done == {0, 1}
    writer.batch(2)
    assert writer.done == {0, 1, 2}
    assert not await writer.flush()
    await store.start()
    assert await writer.flush()
    assert not writer.streams.away
    assert await events(store) == [(epoch, n) for n in numbers(range(3))]


async def test_what_redis_lost_begins_an_epoch(store):
    writer = Writer(store)
    writer.batch(0)
    await writer.flush()
    first = await epoch_of(store)
    await store.client.flushall()  # as it is after losing all
    await saved(store.client)
    store.kill()
    writer.batch(1)
    assert not await writer.flush()
    await store.start()
    assert await writer.flush()
    assert await epoch_of(store) != first
    assert [n for _, n in await events(store)] == numbers([1])


async def test_redis_that_lost_its_last_second_begins_an_epoch(store):
    writer = Writer(store)
    writer.batch(0)
    await writer.flush()
    first = await epoch_of(store)
    await store.client.hset(LIVE_FENCE.make(), "3", "0 1000")
    writer.batch(1)
    await writer.flush()
    await store.client.hset(LIVE_FENCE.make(), "3", "0 1000")  # as it was before
    store.kill()
    writer.batch(2)
    assert not await writer.flush()
    await store.start()
    if await store.client.hget(LIVE_FENCE.make(), 3) != b"0 1000":
        await store.client.hset(LIVE_FENCE.make(), "3", "0 1000")
    assert await writer.flush()
    assert await epoch_of(store) != first


async def test_prices_that_redis_lost_begin_an_epoch_though_no_fence_names_them(store):
    writer = Writer(store)
    price = [(PRICES, LiveEvent((7,), PRICES.frame({"n": 7})))]
    writer.batch(0)
    await writer.flush()
    writer.streams.add(None, price, [])
    await writer.flush()
    first = await epoch_of(store)
    store.kill()
    writer.batch(1)
    assert not await writer.flush()
    await store.start()
    if await events(store, PRICES.stream):  # else it has lost it by itself
        await store.client.xtrim(PRICES.stream, maxlen=0, approximate=False)
    assert await writer.flush()
    assert await epoch_of(store) != first
    second = await epoch_of(store)
    writer.streams.add(None, price, [])
    store.kill()
    assert not await writer.flush()
    await store.start()
    assert await writer.flush()
    found = await events(store, PRICES.stream)
    assert found == [(await epoch_of(store), 7)]
    if await events(store) == [(first, 0), (first, 1), (second, 10), (second, 11)]:
        assert await epoch_of(store) == second  # nothing was lost, and no new epoch begins


async def test_emptied_while_connected_is_noticed(store):
    writer = Writer(store)
    writer.batch(0)
    await writer.flush()
    first = await epoch_of(store)
    await store.client.flushall()
    writer.batch(1)
    await writer.flush()
    writer.batch(2)
    await writer.flush()
    assert await epoch_of(store) != first
    assert (await events(store))[-1] == (await epoch_of(store), 21)


async def test_frames_beyond_the_bound_go_oldest_first_and_begin_an_epoch(store):
    writer = Writer(store, hold_bytes=20_000)
    writer.batch(0)
    await writer.flush()
    first = await epoch_of(store)
    store.kill()
    for offset in range(1, 40):
        writer.batch(offset, frames=1, size=1000)
        if offset == 1:
            assert not await writer.flush()
    assert writer.done == set(range(40))
    await store.start()
    assert await writer.flush()
    second = await epoch_of(store)
    assert second != first
    held = [n for epoch, n in await events(store) if epoch == second]
    assert 15 <= len(held) <= 20
    assert held == [offset * 10 for offset in range(40 - len(held), 40)]


async def test_an_answer_that_got_lost_repeats_nothing(store):
    writer = Writer(store)
    writer.batch(0)
    await writer.flush()
    store.child.send_signal(signal.SIGSTOP)
    writer.batch(1)
    for number in (10, 11):
        writer.price(number)
    flushing = asyncio.create_task(writer.flush())
    assert not await flushing  # it was sent, and will be executed
    store.child.send_signal(signal.SIGCONT)

    async def executed():
        return [n for _, n in await events(store)] == numbers(range(2))

    await eventually_async(executed)
    writer.batch(2)
    writer.price(12)
    assert await writer.flush()
    assert await events(store) == [(await epoch_of(store), n) for n in numbers(range(3))]
    assert [n for _, n in await events(store, PRICES.stream)] == [10, 11, 12]


async def test_a_flush_that_was_cancelled_repeats_nothing(store):
    writer = Writer(store)
    writer.batch(0)
    await writer.flush()
    store.child.send_signal(signal.SIGSTOP)
    writer.batch(1)
    flushing = asyncio.create_task(writer.flush())
    await asyncio.sleep(0.2)  # it was sent, and will be executed
    flushing.cancel()
    with suppress(asyncio.CancelledError):
        await flushing
    store.child.send_signal(signal.SIGCONT)
    await asyncio.sleep(0.1)
    writer.batch(2)
    assert await writer.flush()
    assert await events(store) == [(await epoch_of(store), n) for n in numbers(range(3))]


async def test_history_is_bounded_by_bytes(store):
    writer = Writer(store, hold_bytes=64 << 20, stream_bytes=1 << 20)
    for offset in range(3000):
        writer.batch(offset, frames=1, size=3000)
        if offset % 3 == 0:
            await writer.flush()
    await writer.flush()
    used = await store.client.memory_usage(SWAPS.stream, samples=0)
    assert 0.5 * (1 << 20) < used < 2 * (1 << 20)


async def test_states_are_written_as_they_are_by_then(store):
    writer, state = Writer(store), {"n": 1}
    writer.streams.state("key", lambda: [("SET", "key", state["n"])])
    state["n"] = 2
    assert writer.streams.will_write("key")
    await writer.flush()
    assert await store.client.get("key") == b"2"
    store.kill()
    state["n"] = 3
    writer.streams.state("key", lambda: [("SET", "key", state["n"])])
    assert not await writer.flush()
    await store.start()
    await writer.flush()
    assert await store.client.get("key") == b"3"


async def test_the_loop_goes_on_by_itself_when_redis_is_back(store):
    writer = Writer(store)
    running = asyncio.create_task(writer.streams.run())
    try:
        writer.batch(0)
        store.kill()
        writer.batch(1)
        await eventually_async(lambda: writer.streams.away)
        await store.start()

        async def all_there():
            return [n for _, n in await events(store)] == numbers(range(2))

        await eventually_async(all_there)
    finally:
        running.cancel()


async def test_prices_wait_for_no_fence(store):
    writer = Writer(store)
    writer.batch(0)
    writer.price(7)
    await writer.flush()
    assert [n for _, n in await events(store, PRICES.stream)] == [7]


async def test_a_full_redis_is_waited_for(store):
    writer = Writer(store)
    await store.client.config_set("maxmemory", 1)
    writer.batch(0)
    assert not await writer.flush()
    with pytest.raises(RedisError):
        await store.client.set("x", 1)
    await store.client.config_set("maxmemory", 0)
    assert await writer.flush()
    assert [n for _, n in await events(store)] == numbers([0])
