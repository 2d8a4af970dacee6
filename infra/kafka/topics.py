"""The topics of `schemas.topics` on a broker: create them, check them, read their ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import NewTopic

from infra.kafka import client
from infra.settings import Settings
from schemas import topics
from schemas.topics import Topic


class TopicsWrong(Exception):  # noqa: N818 - says what is the case
    """The broker's topics are not what Soltape needs; the text names each and what to do."""


async def create(settings: Settings, wanted: Sequence[Topic] = topics.ALL) -> list[str]:
    """Create the topics that are missing and return their names.

    The retention of a topic that exists is left to whoever runs the broker. Raises TopicsWrong
    where a partition count differs or the broker refuses, KafkaUnreachable.
    """
    await client.metadata(settings)  # raises the readable error when nobody answers
    created, refused = await asyncio.to_thread(_create, settings, wanted)
    if refused:
        raise TopicsWrong("\n".join(refused))
    if wrong := _wrong_counts(await _partition_counts(settings), wanted):
        raise TopicsWrong("\n".join(wrong))
    return created


async def check(settings: Settings, wanted: Sequence[Topic] = topics.ALL) -> str:
    """Return one line about a broker that has all our topics.

    Raises KafkaUnreachable or TopicsWrong, whose texts say what to do.
    """
    found = await client.metadata(settings)
    counts = {name: len(topic.partitions) for name, topic in found.topics.items()}
    wrong = _wrong_counts(counts, wanted)
    if missing := [topic.name for topic in wanted if topic.name not in counts]:
        wrong.append(f"missing: {', '.join(missing)} (`soltape ingest` creates them)")
    if wrong:
        raise TopicsWrong("\n".join(wrong))
    kind = "embedded" if found.cluster_id == client.EMBEDDED_CLUSTER_ID else "cluster"
    brokers = f"{len(found.brokers)} broker{'s' if len(found.brokers) > 1 else ''}"
    return f"{settings.kafka_bootstrap}: {kind} {found.cluster_id}, {brokers}, all topics there"


async def end_offsets(settings: Settings, topic: Topic) -> dict[int, int]:
    """Return the offset after the last record of each partition.

    It is read from a fetch: what the embedded broker's ListOffsets says is too low.
    """
    async with _Reader(settings, topic) as reader:
        return await reader.ends()


async def last_records(settings: Settings, topic: Topic) -> dict[int, ConsumerRecord]:
    """Return the last record of each partition that has one."""
    last: dict[int, ConsumerRecord] = {}
    async with _Reader(settings, topic) as reader:
        ends = await reader.ends()
        starts = await reader.consumer.beginning_offsets(reader.partitions)
        waiting = set()
        for partition in reader.partitions:
            if ends[partition.partition] > starts[partition]:
                reader.consumer.seek(partition, ends[partition.partition] - 1)
                waiting.add(partition)
        deadline = time.monotonic() + client.REQUEST_TIMEOUT_S
        while waiting:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic.name}: no record at the end of {waiting}")
            for partition, records in (await reader.consumer.getmany(timeout_ms=500)).items():
                last[partition.partition] = records[-1]
                waiting.discard(partition)
    return last


class _Reader:
    """A consumer of all partitions of a topic, outside any group."""

    def __init__(self, settings: Settings, topic: Topic) -> None:
        self._settings = settings
        self._topic = topic
        self.partitions: list[TopicPartition] = []
        self.consumer: AIOKafkaConsumer

    async def __aenter__(self) -> _Reader:
        counts = await _partition_counts(self._settings)
        if self._topic.name not in counts:
            raise TopicsWrong(f"missing: {self._topic.name} (`soltape ingest` creates it)")
        self.partitions = [
            TopicPartition(self._topic.name, number) for number in range(counts[self._topic.name])
        ]
        self.consumer = AIOKafkaConsumer(
            **client.aiokafka_consumer(self._settings) | {"fetch_max_wait_ms": 500}
        )
        await self.consumer.start()
        self.consumer.assign(self.partitions)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.consumer.stop()

    async def ends(self) -> dict[int, int]:
        for partition, offset in (await self.consumer.end_offsets(self.partitions)).items():
            self.consumer.seek(partition, offset)
        deadline = time.monotonic() + client.REQUEST_TIMEOUT_S
        while True:
            await self.consumer.getmany(timeout_ms=100)
            ends = {p.partition: self.consumer.highwater(p) for p in self.partitions}
            known = {number: end for number, end in ends.items() if end is not None}
            if len(known) == len(ends):
                return known
            if time.monotonic() > deadline:
                missing = sorted(ends.keys() - known.keys())
                raise TimeoutError(f"{self._topic.name}: partitions {missing} do not answer")


def _create(settings: Settings, wanted: Sequence[Topic]) -> tuple[list[str], list[str]]:
    created, refused = [], []
    admin = client.admin(settings)  # held until all have answered
    answers = admin.create_topics(
        [
            NewTopic(
                topic.name,
                num_partitions=topic.partitions,
                replication_factor=settings.kafka_replication,
                config={"retention.ms": str(topic.retention_ms), "compression.type": "producer"},
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
