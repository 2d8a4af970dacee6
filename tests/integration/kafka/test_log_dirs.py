"""What a broker says of its disk."""

from __future__ import annotations

import asyncio
import os
import shutil
from uuid import uuid4

from confluent_kafka import Producer

from infra.kafka import client, topics

# private `_summed`: answers of several brokers; the test has one.
from infra.kafka.log_dirs import _summed, broker_disk
from schemas.times import HOUR_MS
from schemas.topics import Topic
from tests.support.waiting import eventually_async

MESSAGES = 200
MESSAGE_BYTES = 5_000


def produce(settings, topic: Topic) -> None:
    producer = Producer(client.confluent_producer(settings))
    for number in range(MESSAGES):
        # Random bytes, which no compression makes smaller.
        producer.produce(topic.name, os.urandom(MESSAGE_BYTES), partition=number % topic.partitions)
    assert producer.flush(60) == 0


async def test_a_broker_says_what_a_topic_takes_and_what_is_free(broker):
    topic = Topic(f"test-{uuid4().hex[:12]}", "Swap", "mint", 3, HOUR_MS, "of one test")
    await topics.create(broker.settings, [topic])

    async def size():
        return (await broker_disk(broker.settings)).topic_bytes.get(topic.name)

    async def has_folders():  # a broker makes them after it has confirmed the topic
        return await size() is not None

    await eventually_async(has_folders)
    assert await size() == 0
    await asyncio.to_thread(produce, broker.settings, topic)
    found = await broker_disk(broker.settings)
    sent = MESSAGES * MESSAGE_BYTES
    assert sent < found.topic_bytes[topic.name] < 1.1 * sent
    assert found.log_bytes >= found.topic_bytes[topic.name]
    volume = shutil.disk_usage(broker.settings.soltape_data)
    assert found.total_bytes == volume.total
    assert 0 < found.free_bytes < volume.total


def folder(topic, sizes, **volume):
    partitions = [{"partition_size": size} for size in sizes]
    topics = [{"name": topic, "partitions": partitions}]
    return {"error_code": 0, "log_dir": "/data", "topics": topics, **volume}


def test_of_several_volumes_the_one_with_the_smallest_free_share_counts():
    roomy = folder("a", [1, 2], total_bytes=1000, usable_bytes=900)
    tight = folder("a", [3], total_bytes=5000, usable_bytes=1000)
    found = _summed([{"error_code": 0, "results": [roomy]}, {"error_code": 0, "results": [tight]}])
    assert found.topic_bytes == {"a": 6}
    assert (found.total_bytes, found.free_bytes) == (5000, 1000)


def test_a_volume_that_a_broker_says_nothing_of_is_not_known():
    old = folder("a", [7])  # version 1
    new = folder("a", [1], total_bytes=10, usable_bytes=5)
    for results in ([old], [new, old], [folder("a", [7], total_bytes=-1, usable_bytes=-1)]):
        found = _summed([{"results": results}])
        assert (found.total_bytes, found.free_bytes) == (None, None)
        assert found.log_bytes >= 7
    assert _summed([]).free_bytes is None
