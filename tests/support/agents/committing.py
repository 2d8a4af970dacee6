"""What consumer groups have committed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, TopicPartition

from infra.kafka import client, topics
from infra.settings import Settings
from schemas.topics import Topic
from tests.support.waiting import eventually_async

Offsets = dict[int, int]  # by partition


@asynccontextmanager
async def _asking(
    settings: Settings, group: str, topic: Topic
) -> AsyncIterator[Callable[[], Awaitable[Offsets]]]:
    consumer = AIOKafkaConsumer(**client.aiokafka_consumer(settings), group_id=group)
    await consumer.start()
    places = [TopicPartition(topic.name, number) for number in range(topic.partitions)]

    async def ask() -> Offsets:
        return {place.partition: await consumer.committed(place) or 0 for place in places}

    try:
        yield ask
    finally:
        await consumer.stop()


async def committed(settings: Settings, group: str, topic: Topic) -> Offsets:
    """Return how far a group has committed; 0 where it has not."""
    async with _asking(settings, group, topic) as ask:
        return await ask()


async def until_committed(settings: Settings, group: str, topic: Topic) -> Offsets:
    """Wait until a group has committed all that the topic holds now; return how far that is."""
    # The end of a partition may be a transaction's marker, which is no message.
    last = await topics.last_records(settings, topic)
    ends = {
        number: last[number].offset + 1 if number in last else 0
        for number in range(topic.partitions)
    }
    found: Offsets = {}
    async with _asking(settings, group, topic) as ask:

        async def all_of_it() -> bool:
            nonlocal found
            found = await ask()
            return found == ends

        await eventually_async(all_of_it, lambda: f"{found} of {ends}")
    return ends
