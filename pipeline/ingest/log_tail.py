"""Where the settled lanes end: the log is its own checkpoint."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from infra.kafka.client import KafkaUnreachable, confluent_consumer
from infra.settings import Settings
from schemas.codec import CodecError, parse
from schemas.proto import tape_pb2
from schemas.topics import BY_NAME, SETTLED_BY_MINT, SETTLED_BY_WALLET, Topic

LANES: Final = (SETTLED_BY_MINT, SETTLED_BY_WALLET)
TIMEOUT_S: Final = 30.0

Partition = tuple[str, int]  # topic name, number


class LogUnreadable(Exception):  # noqa: N818 - says what is the case
    """A settled lane holds something from which ingest can not continue; the text says what."""


@dataclass(slots=True)
class LogTail:
    """What the settled lanes already have.

    A process that was killed leaves partitions that end on different slots: ingest continues
    after the least of them, and `last` tells which partitions have a slot already.
    """

    settled: int | None = None  # all partitions have it and everything before
    block_time_ms: int = 0  # of that slot
    sol_usd: Decimal | None = None  # of that slot
    last: dict[Partition, int] = field(default_factory=dict)

    def has(self, partition: Partition, slot: int) -> bool:
        """Say whether a partition already has a slot."""
        last = self.last.get(partition)
        return last is not None and slot <= last


def read_log_tail(settings: Settings) -> LogTail:
    """Read the ends of all partitions of the settled lanes.

    Raises KafkaUnreachable, and LogUnreadable where a partition can not be read.
    """
    consumer = Consumer(confluent_consumer(settings, "soltape-ingest-tail"))
    try:
        return _tail(consumer)
    except KafkaException as error:
        raise KafkaUnreachable(f"{settings.kafka_bootstrap}: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _tail(consumer: Consumer) -> LogTail:
    deadline = time.monotonic() + TIMEOUT_S
    firsts: list[TopicPartition] = []
    lasts: list[TopicPartition] = []
    empty = 0
    for topic in LANES:
        for partition in range(topic.partitions):
            place = TopicPartition(topic.name, partition)
            low, high = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
            if high <= low:
                empty += 1
                continue
            firsts.append(TopicPartition(topic.name, partition, low))
            lasts.append(TopicPartition(topic.name, partition, high - 1))
    if not lasts:
        return LogTail()
    batches = _read(consumer, lasts, deadline)
    last = {partition: batch.slot for partition, batch in batches.items()}
    if empty:
        # Killed while the very first slots were written: some partitions have none yet.
        first = min(batch.slot for batch in _read(consumer, firsts, deadline).values())
        return LogTail(settled=first - 1, last=last)
    least = min(batches.values(), key=lambda batch: batch.slot)
    return LogTail(
        settled=least.slot,
        block_time_ms=least.block_time_ms,
        sol_usd=Decimal(least.sol_usd) if least.sol_usd else None,
        last=last,
    )


def _read(
    consumer: Consumer, places: list[TopicPartition], deadline: float
) -> dict[Partition, tape_pb2.SlotBatch]:
    """Read one message at each of the places."""
    consumer.assign(places)
    missing: set[Partition] = {(place.topic, place.partition) for place in places}
    batches: dict[Partition, tape_pb2.SlotBatch] = {}
    while missing:
        if time.monotonic() > deadline:
            names = ", ".join(f"{name}[{number}]" for name, number in sorted(missing))
            raise LogUnreadable(f"{names}: the last message did not come in {TIMEOUT_S:.0f} s")
        message = consumer.poll(1.0)
        if message is None:
            continue
        if error := message.error():
            raise KafkaException(error)
        partition, batch = _slot_batch(message)
        if partition in missing:
            missing.remove(partition)
            batches[partition] = batch
    consumer.unassign()
    return batches


def _slot_batch(message: Message) -> tuple[Partition, tape_pb2.SlotBatch]:
    name, number = message.topic(), message.partition()
    assert name is not None
    assert number is not None
    topic: Topic = BY_NAME[name]
    try:
        batch = parse(topic, message.value())
    except CodecError as error:
        raise LogUnreadable(f"{name}[{number}] offset {message.offset()}: {error}") from None
    assert isinstance(batch, tape_pb2.SlotBatch)
    return (name, number), batch
