"""The embedded broker's memory: how it grows, and that sweeping bounds it and loses nothing."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from confluent_kafka import Producer

from infra.kafka import client, janitor, topics
from schemas.topics import LIVE, SETTLED_BY_MINT, SWAPS

GROUP = "readers-of-live"
WRITER = """
import itertools, sys, time
from confluent_kafka import Producer
producer = Producer({config!r})
for number in itertools.count():
    for partition in range({partitions}):
        producer.produce({topic!r}, b"%d" % number, partition=partition)
    producer.flush(30)
    time.sleep(0.002)
"""


def rss(broker) -> int:
    return psutil.Process(broker.pid).memory_info().rss


@pytest.fixture
async def writer(fresh_tansu) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that writes 0, 1, 2, ... to every partition of the live lane."""
    await topics.create(fresh_tansu.settings)
    config = client.confluent_producer(fresh_tansu.settings)
    code = WRITER.format(config=config, topic=LIVE.name, partitions=LIVE.partitions)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, start_new_session=True
    )
    yield process
    if process.returncode is None:
        process.kill()
    await process.wait()


class Reader:
    """A group member that commits what it has read, and keeps it."""

    def __init__(self, settings) -> None:
        self.read: dict[int, list[int]] = {number: [] for number in range(LIVE.partitions)}
        self.offsets: dict[int, list[int]] = {number: [] for number in range(LIVE.partitions)}
        self._settings = settings

    async def run(self) -> None:
        config = client.aiokafka_consumer(self._settings) | {"fetch_max_wait_ms": 100}
        consumer = AIOKafkaConsumer(LIVE.name, group_id=GROUP, **config)
        await consumer.start()
        try:
            while True:
                for place, records in (await consumer.getmany(timeout_ms=50)).items():
                    self.read[place.partition] += [int(record.value) for record in records]
                    self.offsets[place.partition] += [record.offset for record in records]
                await consumer.commit()
        finally:
            await consumer.stop()

    @property
    def count(self) -> int:
        return sum(map(len, self.read.values()))


@pytest.mark.slow
async def test_sweeping_under_load_loses_and_repeats_nothing(fresh_tansu, writer):
    settings = fresh_tansu.settings
    reader = Reader(settings)
    reading = asyncio.create_task(reader.run())
    try:
        for _ in range(3):
            at_least = reader.count + 8_000
            async with asyncio.timeout(40):
                while reader.count < at_least:
                    assert not reading.done(), reading.exception()
                    await asyncio.sleep(0.05)
            before = rss(fresh_tansu)
            swept = await janitor.sweep(settings, [writer.pid])
            assert swept.records >= 8_000
            assert swept.paused_s < janitor.CATCH_UP_S
            assert rss(fresh_tansu) < before
        writer.kill()
        await writer.wait()
        ends = await topics.end_offsets(settings, LIVE)
        async with asyncio.timeout(20):
            while reader.count < sum(ends.values()):
                assert not reading.done(), reading.exception()
                await asyncio.sleep(0.05)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    for partition in range(LIVE.partitions):
        count = ends[partition]
        assert reader.read[partition] == list(range(count))
        assert reader.offsets[partition] == list(range(count))


async def test_a_sweep_waits_for_a_group_and_gives_up_its_records_only_when_told(fresh_tansu):
    settings = fresh_tansu.settings
    await topics.create(settings)
    await asyncio.to_thread(fill, settings, SWAPS.name, 1000)
    place = TopicPartition(SWAPS.name, 0)
    slow = AIOKafkaConsumer(SWAPS.name, group_id="slow", **client.aiokafka_consumer(settings))
    await slow.start()
    try:
        await slow.getone()
        await slow.commit({place: 400})
        with pytest.raises(janitor.NotCaughtUp, match=r"slow is 600 records behind in .*\[0\]"):
            await janitor.sweep(settings)
        assert (await slow.beginning_offsets([place]))[place] == 0
        assert (await janitor.sweep(settings, anyway=True)).records == 1000
        await asyncio.to_thread(fill, settings, SWAPS.name, 1)
        assert (await slow.beginning_offsets([place]))[place] == 1000
    finally:
        await slow.stop()


async def test_the_last_settled_record_stays_for_ingest_to_continue_from(fresh_tansu):
    settings = fresh_tansu.settings
    await topics.create(settings)
    await asyncio.to_thread(fill, settings, SETTLED_BY_MINT.name, 500)
    await janitor.sweep(settings)
    last = await topics.last_records(settings, SETTLED_BY_MINT)
    assert {number: record.value for number, record in last.items()} == {0: b"499"}
    # A second sweep finds nothing worth its while.
    assert (await janitor.sweep(settings)).records == 0


async def test_it_looks_by_itself_and_sweeps_what_has_grown_too_long(fresh_tansu, monkeypatch):
    settings = fresh_tansu.settings
    await topics.create(settings)
    monkeypatch.setattr(janitor, "LOOK_EVERY_S", 0.1)
    pids: list[int | None] = [None, fresh_tansu.pid]  # it is not there yet, and then it is
    looking = asyncio.create_task(
        janitor.keep_small(settings, lambda: pids.pop(0) if len(pids) > 1 else pids[0], list)
    )
    try:
        await asyncio.to_thread(fill, settings, LIVE.name, 1000)
        await asyncio.sleep(1)
        assert await janitor.longest_lane(settings) > 0, "swept while it was small"
        monkeypatch.setattr(janitor, "MAX_RSS_BYTES", 1)
        monkeypatch.setattr(janitor, "HARD_MAX_RSS_BYTES", 2**40)
        async with asyncio.timeout(20):
            while await janitor.longest_lane(settings) > 0:
                assert not looking.done(), looking.exception()
                await asyncio.sleep(0.1)
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


@pytest.mark.slow
async def test_growth_is_as_stated_and_does_not_outlast_a_sweep(fresh_tansu):
    """README and `infra.kafka.embedded` state these figures: 1 kB and 0.8 us a batch."""
    settings = fresh_tansu.settings
    await topics.create(settings)
    process = psutil.Process(fresh_tansu.pid)
    empty, batches = rss(fresh_tansu), 20_000
    await asyncio.to_thread(fill, settings, LIVE.name, batches, one_a_batch=True)
    full = rss(fresh_tansu)
    a_batch = (full - empty) / batches
    async with topics.reader(settings, fetch_max_wait_ms=500) as consumer:
        place = TopicPartition(LIVE.name, 0)
        consumer.assign([place])
        consumer.seek(place, batches - 1)
        before = process.cpu_times()
        fetches = 10
        for _ in range(fetches):
            consumer.seek(place, batches - 1)
            assert (await consumer.getone()).offset == batches - 1
        after = process.cpu_times()
    cpu_us = (after.user + after.system - before.user - before.system) / fetches / batches * 1e6
    began = time.monotonic()
    await janitor.sweep(settings)
    swept_s = time.monotonic() - began
    left = rss(fresh_tansu)
    print(
        f"{a_batch:.0f} B a batch, {cpu_us:.2f} us a batch and fetch; "
        f"{full >> 20} MiB swept in {swept_s:.2f} s, {left >> 20} MiB left"
    )
    assert 300 < a_batch < 2_500
    assert cpu_us < 10
    assert left - empty < (full - empty) / 3


def fill(settings, topic: str, count: int, one_a_batch: bool = False) -> None:
    config = client.confluent_producer(settings)
    if one_a_batch:
        config |= {"batch.num.messages": 1, "linger.ms": 0}
    producer = Producer(config)
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
        if number % 1000 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0


async def test_a_held_process_goes_on_whatever_happens():
    sleeper = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    held = psutil.Process(sleeper.pid)

    async def fail_while_held() -> None:
        async with janitor.stopped([sleeper.pid]):
            await asyncio.sleep(0.05)
            assert held.status() == psutil.STATUS_STOPPED
            raise RuntimeError("in between")

    try:
        with pytest.raises(RuntimeError, match="in between"):
            await fail_while_held()
        await asyncio.sleep(0.05)
        assert held.status() != psutil.STATUS_STOPPED
    finally:
        sleeper.kill()
        await sleeper.wait()
    async with janitor.stopped([sleeper.pid]):
        pass  # that it has gone is no error
