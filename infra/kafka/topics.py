"""The topics of `schemas.topics` on a broker: create them, check them, read their ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import NewTopic

from infra.kafka import client
from infra.partitions import why_wrong
from infra.settings import Settings
from schemas import topics
from schemas.topics import Topic

MAX_MESSAGE_BYTES: Final = 16 << 20  # a busy slot of a partition is one message


class TopicsWrong(Exception):
    """The broker's topics are not what Soltape needs; the text names each and what to do."""


async def create(settings: Settings, wanted: Sequence[Topic] = topics.ALL) -> list[str]:
    """Create the topics that are missing and return their names.

    The retention of a topic that exists is left to the broker's operator. Raises TopicsWrong
    where a partition count differs or the broker refuses, KafkaUnreachable, and as
    `settled_partitions`.
    """
    there = await _partition_counts(settings)
    await _require_settled(settings, there)
    # A role that may not create topics gets along where they are there.
    missing = [topic for topic in wanted if topic.name not in there]
    created, refused = await asyncio.to_thread(_create, settings, missing) if missing else ([], [])
    if refused:
        raise TopicsWrong("\n".join(refused))
    counts = await _partition_counts(settings)
    deadline = time.monotonic() + client.REQUEST_TIMEOUT_S
    while not counts.keys() >= set(created) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)  # Apache Kafka lists a topic some time after creating it
        counts = await _partition_counts(settings)
    if wrong := _wrong_counts(counts, wanted):
        raise TopicsWrong("\n".join(wrong))
    return created


async def check(settings: Settings, wanted: Sequence[Topic] = topics.ALL) -> str:
    """Return one line about a broker that has all our topics.

    Raises KafkaUnreachable or TopicsWrong, whose texts say what to do, and as
    `settled_partitions`.
    """
    found = await client.metadata(settings)
    counts = {name: len(topic.partitions) for name, topic in found.topics.items()}
    await _require_settled(settings, counts)
    wrong = _wrong_counts(counts, wanted)
    if missing := [topic.name for topic in wanted if topic.name not in counts]:
        wrong.append(_missing(missing))
    if wrong:
        raise TopicsWrong("\n".join(wrong))
    kind = "embedded" if found.cluster_id == client.EMBEDDED_CLUSTER_ID else "cluster"
    brokers = f"{len(found.brokers)} broker{'s' if len(found.brokers) > 1 else ''}"
    return f"{settings.kafka_bootstrap}: {kind} {found.cluster_id}, {brokers}, all topics there"


async def settled_partitions(settings: Settings) -> int | None:
    """Return how many partitions the settled lanes of the tape have, None where there is no tape.

    The lanes of a count are the tape's once each partition has had a record: ingest writes every
    slot to all of them, and a raise writes the slots that it begins with, the last partition last.
    Offsets stay when records expire. Raises KafkaUnreachable, aiokafka's KafkaError, and
    TimeoutError where a partition does not answer.
    """
    return await _settled_partitions(settings, await _partition_counts(settings))


async def end_offsets(settings: Settings, topic: Topic) -> dict[int, int]:
    """Return the offset after the last record of each partition.

    Raises TopicsWrong, KafkaUnreachable, and aiokafka's KafkaError where no answer comes in time.
    """
    places = await partitions(settings, topic)
    async with reader(settings) as consumer:
        ends = await consumer.end_offsets(places)
    return {place.partition: ends[place] for place in places}


async def last_records(settings: Settings, topic: Topic) -> dict[int, ConsumerRecord]:
    """Return the last record of each partition that has one.

    Raises TopicsWrong, KafkaUnreachable, aiokafka's KafkaError, and TimeoutError where a partition
    does not answer.
    """
    places = await partitions(settings, topic)
    last: dict[int, ConsumerRecord] = {}
    async with reader(settings, fetch_max_wait_ms=200) as consumer:
        consumer.assign(places)
        starts = await consumer.beginning_offsets(places)
        stops = await consumer.end_offsets(places)
        waiting = {place for place in places if stops[place] > starts[place]}
        begins = {place: stops[place] - 1 for place in waiting}
        for place in waiting:
            consumer.seek(place, begins[place])
        deadline = time.monotonic() + client.REQUEST_TIMEOUT_S
        while waiting:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic.name}: no record at the end of {_numbers(waiting)}")
            fetched = await consumer.getmany(*waiting, timeout_ms=500)
            last |= {place.partition: records[-1] for place, records in fetched.items()}
            for place in list(waiting):
                if await consumer.position(place) < (consumer.highwater(place) or stops[place]):
                    continue
                if place.partition in last or begins[place] == starts[place]:
                    waiting.discard(place)
                    consumer.pause(place)
                else:  # transactions end on markers: there are no records but before them
                    back = 2 * (stops[place] - begins[place])
                    begins[place] = max(starts[place], stops[place] - back)
                    consumer.seek(place, begins[place])
    return last


async def newest_records(
    settings: Settings, topic: Topic, most: int
) -> dict[int, list[ConsumerRecord]]:
    """Return the last `most` records of each partition, or all where there are fewer, ascending.

    Transactions' markers take offsets, so each partition is read from further back until it has
    given that many. Raises TopicsWrong, KafkaUnreachable, aiokafka's KafkaError, and TimeoutError
    where a partition does not answer.
    """
    places = await partitions(settings, topic)
    found: dict[int, list[ConsumerRecord]] = {place.partition: [] for place in places}
    async with reader(settings, fetch_max_wait_ms=200) as consumer:
        consumer.assign(places)
        starts = await consumer.beginning_offsets(places)
        stops = await consumer.end_offsets(places)
        begins = {place: max(starts[place], stops[place] - most) for place in places}
        for place in places:
            consumer.seek(place, begins[place])
        waiting = {place for place in places if begins[place] < stops[place]}
        deadline = time.monotonic() + client.REQUEST_TIMEOUT_S
        while waiting:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic.name}: no answer from {_numbers(waiting)}")
            for place, records in (await consumer.getmany(*waiting, timeout_ms=500)).items():
                found[place.partition] += records
            for place in list(waiting):
                if await consumer.position(place) < stops[place]:
                    continue
                if len(found[place.partition]) >= most or begins[place] == starts[place]:
                    waiting.discard(place)
                    consumer.pause(place)
                else:
                    back = 2 * (stops[place] - begins[place])
                    begins[place] = max(starts[place], stops[place] - back)
                    found[place.partition].clear()
                    consumer.seek(place, begins[place])
    return {partition: records[-most:] for partition, records in found.items()}


async def first_from(settings: Settings, place: TopicPartition, offset: int) -> int | None:
    """Return the offset of the log's first record at or after an offset, None where there is none.

    Raises aiokafka's KafkaError, and TimeoutError where the partition does not answer.
    """
    async with reader(settings, fetch_max_wait_ms=200) as consumer:
        consumer.assign([place])
        start = (await consumer.beginning_offsets([place]))[place]
        stop = (await consumer.end_offsets([place]))[place]
        if stop <= max(offset, start):
            return None
        consumer.seek(place, max(offset, start))
        async with asyncio.timeout(client.REQUEST_TIMEOUT_S):
            record = await consumer.getone(place)
    return int(record.offset)


async def begins_at(settings: Settings, place: TopicPartition) -> int:
    """Return the offset from which the log has all of a partition: what was before it is deleted.

    Raises aiokafka's KafkaError.
    """
    async with reader(settings) as consumer:
        found: int = (await consumer.beginning_offsets([place]))[place]
        return found


async def has_all_from(settings: Settings, place: TopicPartition, offset: int) -> bool:
    """Return whether the log has all from an offset on; one that ends before it is another log.

    Raises aiokafka's KafkaError.
    """
    async with reader(settings) as consumer:
        first: int = (await consumer.beginning_offsets([place]))[place]
        end: int = (await consumer.end_offsets([place]))[place]
    return first <= offset <= end


async def has_none_between(
    settings: Settings, place: TopicPartition, first: int, offset: int
) -> bool:
    """Return whether the log has no record from `first` to the record at `offset`.

    Transactions' markers take offsets that no record has. Raises aiokafka's KafkaError, and
    TimeoutError where the partition does not answer.
    """
    async with reader(settings, fetch_max_wait_ms=200) as consumer:
        consumer.assign([place])
        if first < (await consumer.beginning_offsets([place]))[place]:
            return False  # what was there is gone
        consumer.seek(place, first)
        async with asyncio.timeout(client.REQUEST_TIMEOUT_S):
            record = await consumer.getone(place)
    return bool(record.offset == offset)


async def partitions(settings: Settings, *wanted: Topic) -> list[TopicPartition]:
    """Return the partitions of topics as the broker has them; raises TopicsWrong."""
    counts = await _partition_counts(settings)
    if missing := [topic.name for topic in wanted if topic.name not in counts]:
        raise TopicsWrong(_missing(missing))
    return [
        TopicPartition(topic.name, number)
        for topic in wanted
        for number in range(counts[topic.name])
    ]


@asynccontextmanager
async def reader(
    settings: Settings, fetch_max_wait_ms: int = 10
) -> AsyncIterator[AIOKafkaConsumer]:
    """Give a started consumer outside any group."""
    consumer = AIOKafkaConsumer(
        **client.aiokafka_consumer(settings) | {"fetch_max_wait_ms": fetch_max_wait_ms}
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await asyncio.sleep(0)  # aiokafka's stop fails on a task of its own that has not begun
        await consumer.stop()


async def records_so_far(settings: Settings, topic: Topic) -> AsyncIterator[ConsumerRecord]:
    """Yield the records that a topic has now, from its beginning; those of a partition in order."""
    places = await partitions(settings, topic)
    async with reader(settings) as consumer:
        consumer.assign(places)
        until = await consumer.end_offsets(places)
        await consumer.seek_to_beginning(*places)
        while any([await consumer.position(place) < until[place] for place in places]):
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                for record in records:
                    yield record


async def _settled_partitions(settings: Settings, counts: dict[str, int]) -> int | None:
    for count in reversed(topics.SETTLED_COUNTS):
        lanes = [lane.with_partitions(count) for lane in topics.SETTLED]
        if any(counts.get(lane.name) != count for lane in lanes):
            continue
        if all([await _has_begun(settings, lane) for lane in lanes]):
            return count
    return None


async def _has_begun(settings: Settings, lane: Topic) -> bool:
    """Return whether every partition has a record, or had some.

    An end offset does not say so: a transaction that came to nothing leaves its marker.
    """
    ends = await end_offsets(settings, lane)
    if not all(ends.values()):
        return False
    places = [TopicPartition(lane.name, number) for number in ends]
    async with reader(settings) as consumer:
        begins = await consumer.beginning_offsets(places)
    last = await last_records(settings, lane)
    return all(place.partition in last or begins[place] for place in places)


async def _require_settled(settings: Settings, counts: dict[str, int]) -> None:
    found = await _settled_partitions(settings, counts)
    if found and (why := why_wrong(found, f"the tape on {settings.kafka_bootstrap}")):
        raise TopicsWrong(why)


def _numbers(places: Iterable[TopicPartition]) -> str:
    return ", ".join(sorted(f"{place.topic}[{place.partition}]" for place in places))


def _missing(names: Sequence[str]) -> str:
    return f"missing: {', '.join(names)} (`soltape ingest` creates them)"


def _create(settings: Settings, wanted: Sequence[Topic]) -> tuple[list[str], list[str]]:
    created, refused = [], []
    admin = client.admin(settings)  # held until all have answered
    answers = admin.create_topics(
        [
            NewTopic(
                topic.name,
                num_partitions=topic.partitions,
                replication_factor=settings.kafka_replication,
                config={
                    "retention.ms": str(topic.retention_ms),
                    "compression.type": "producer",
                    "max.message.bytes": str(MAX_MESSAGE_BYTES),
                },
            )
            for topic in wanted
        ],
        request_timeout=client.REQUEST_TIMEOUT_S,
    )
    for name, answer in answers.items():
        try:
            answer.result()
            created.append(name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                refused.append(f"{name}: {error.args[0].str()}")
    return created, refused


async def _partition_counts(settings: Settings) -> dict[str, int]:
    found = await client.metadata(settings)
    return {name: len(topic.partitions) for name, topic in found.topics.items()}


def _wrong_counts(counts: dict[str, int], wanted: Sequence[Topic]) -> list[str]:
    return [
        f"{topic.name} has {counts[topic.name]} partitions where {topic.partitions} are needed: "
        "keys would be looked for in the wrong one. Delete the topic, or give Soltape its own"
        for topic in wanted
        if counts.get(topic.name, topic.partitions) != topic.partitions
    ]
