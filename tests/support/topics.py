"""What a topic holds, read to its end."""

from __future__ import annotations

import asyncio

from aiokafka import TopicPartition
from aiokafka.errors import KafkaTimeoutError

from infra.kafka.topics import end_offsets, reader
from infra.settings import Settings
from schemas.topics import Topic
from tests.support.waiting import WITHIN_S, without_error_async


async def values_of(kafka: str, topic: Topic) -> dict[int, list[bytes]]:
    """Return all values of a topic, by partition; a partition may end on a transaction's marker."""
    settings = Settings(kafka_bootstrap=kafka)
    ends = await without_error_async(lambda: end_offsets(settings, topic), KafkaTimeoutError)
    found: dict[int, list[bytes]] = {number: [] for number in ends}
    waiting = {TopicPartition(topic.name, number) for number, end in ends.items() if end > 0}
    if not waiting:
        return found
    async with reader(settings) as consumer:
        consumer.assign(waiting)
        await consumer.seek_to_beginning(*waiting)
        async with asyncio.timeout(WITHIN_S):
            while waiting:
                for place, records in (await consumer.getmany(timeout_ms=200)).items():
                    found[place.partition] += [record.value for record in records]
                for place in list(waiting):
                    if await consumer.position(place) >= ends[place.partition]:
                        waiting.discard(place)
    return found
