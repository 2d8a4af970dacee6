"""Keeps the embedded broker small: it forgets what everybody has read.

Tansu (0.6.0) keeps every record in memory. It has no retention, and DeleteRecords ends the
connection. What works: deleting a topic removes all objects below `topics/<name>/`, so
creating and deleting a topic *named like the folder of a partition's records* empties that
partition, in about 4 us a batch, and leaves offsets, groups and connections as they are.

A partition is emptied of everything, so nothing may be unread or written at that moment: the
writer is stopped, the groups catch up, and only then is it done. The last record of each
settled partition, from which ingest continues after a restart, is written again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import psutil
import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError as AIOKafkaError
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from infra.kafka import client, topics
from infra.settings import Settings
from schemas.topics import ALL, GAPS, LIVE, SETTLED_BY_MINT, SETTLED_BY_WALLET

log = structlog.get_logger(__name__)

LOOK_EVERY_S: Final = 5.0
MAX_RSS_BYTES: Final = 384 * 1024**2
# Beyond it, records that a group has not read are given up rather than the machine's memory.
HARD_MAX_RSS_BYTES: Final = 2 * MAX_RSS_BYTES
CATCH_UP_S: Final = 5.0

# A fetch lists all batches of its partitions (0.8 us each) and gives up when its longest wait is
# over: readers at the end of a longer lane would never see a record again. On these lanes a
# record is a batch.
_BATCH_LANES: Final = (LIVE, SETTLED_BY_MINT, SETTLED_BY_WALLET)
_MAX_BATCHES_PER_WAIT_MS: Final = 600
_SWEPT: Final = tuple(topic for topic in ALL if topic is not GAPS)
_KEEP_LAST: Final = (SETTLED_BY_MINT, SETTLED_BY_WALLET)
_WORTH_RECORDS: Final = 200


class NotCaughtUp(Exception):  # noqa: N818 - a state of the readers
    """A group has not read all there is; the text names it and its place."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep did."""

    records: int
    paused_s: float


async def keep_small(
    settings: Settings,
    broker_pid: Callable[[], int | None],
    writer_pids: Callable[[], Sequence[int]],
) -> None:
    """Sweep whenever the embedded broker has grown too large or its lanes too long.

    `writer_pids` are the processes that write the internal lanes (`soltape ingest`), leaders of
    their groups; they are held still (SIGSTOP) during a sweep. Runs until it is cancelled.
    """
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        if (pid := broker_pid()) is None:
            continue
        try:
            await _look(settings, pid, writer_pids())
        except (psutil.Error, client.KafkaUnreachable, topics.TopicsWrong):
            continue  # it is being started anew
        except (NotCaughtUp, KafkaException, AIOKafkaError, TimeoutError) as error:
            log.warning("embedded Kafka not swept", reason=str(error))


async def _look(settings: Settings, pid: int, writer_pids: Sequence[int]) -> None:
    rss_bytes = _rss_bytes(pid)
    longest = await longest_lane(settings)
    may_be_long = _MAX_BATCHES_PER_WAIT_MS * settings.kafka_fetch_wait_ms
    if rss_bytes < MAX_RSS_BYTES and longest < may_be_long:
        return
    swept = await sweep(settings, writer_pids, anyway=rss_bytes >= HARD_MAX_RSS_BYTES)
    log.info(
        "embedded Kafka swept",
        records=swept.records,
        longest_lane=longest,
        paused_ms=round(swept.paused_s * 1000),
        rss_bytes_before=rss_bytes,
        rss_bytes=_rss_bytes(pid),
    )


def _rss_bytes(pid: int) -> int:
    root = psutil.Process(pid)
    every = [root, *root.children(recursive=True)]
    return sum(process.memory_info().rss for process in every)


@asynccontextmanager
async def stopped(pids: Sequence[int]) -> AsyncIterator[None]:
    """Hold process groups still; `pids` are their leaders."""
    held = []
    try:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGSTOP)
                held.append(pid)
        yield
    finally:
        for pid in held:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGCONT)


async def longest_lane(settings: Settings) -> int:
    """Return how many batches the fullest internal lane holds, over all its partitions."""
    places = await topics.partitions(settings, *_BATCH_LANES)
    async with topics.reader(settings) as consumer:
        first = await consumer.beginning_offsets(places)
        end = await consumer.end_offsets(places)
    lengths = dict.fromkeys((topic.name for topic in _BATCH_LANES), 0)
    for place in places:
        lengths[place.topic] += max(0, end[place] - first[place])
    return max(lengths.values())


async def sweep(
    settings: Settings, writer_pids: Sequence[int] = (), *, anyway: bool = False
) -> Swept:
    """Empty the partitions that hold much, while those who write the internal lanes are held still.

    Raises NotCaughtUp where a group does not read all within CATCH_UP_S; with `anyway` it is
    logged and what was not read is lost.
    """
    places = await topics.partitions(settings, *_SWEPT)
    admin = client.admin(settings)
    # Where a record is put back twice, readers skip it: they know the slot. So the producer need
    # not wait a second for the id that idempotence takes.
    producer = Producer(client.confluent_producer(settings) | {"enable.idempotence": False})
    async with topics.reader(settings) as consumer, stopped(writer_pids):
        began = time.monotonic()
        ends = await _caught_up(admin, lambda: topics.ends(consumer, places), anyway)
        firsts = await consumer.beginning_offsets(places)
        full = [place for place in places if ends[place] - firsts[place] >= _WORTH_RECORDS]
        if full:
            last = {topic.name: await topics.last_records(settings, topic) for topic in _KEEP_LAST}
            await asyncio.to_thread(_empty, admin, full)
            for name, number in full:
                if (record := last.get(name, {}).get(number)) is not None:
                    producer.produce(name, record.value, record.key, partition=number)
            unsent = await asyncio.to_thread(producer.flush, client.REQUEST_TIMEOUT_S)
            if unsent:
                raise TimeoutError(f"{unsent} of the last settled records could not be put back")
        paused_s = time.monotonic() - began
    return Swept(sum(ends[place] - firsts[place] for place in full), paused_s)


async def _caught_up(
    admin: AdminClient, ends: Callable[[], Awaitable[dict[TopicPartition, int]]], anyway: bool
) -> dict[TopicPartition, int]:
    """Return the ends once every live group has read up to them, or time is over and `anyway`."""
    deadline = time.monotonic() + CATCH_UP_S
    while True:
        now = await ends()
        behind = await asyncio.to_thread(_behind, admin, now)
        if behind is None:
            return now
        if time.monotonic() > deadline:
            reason = f"{behind}, for {CATCH_UP_S:g} s"
            if not anyway:
                raise NotCaughtUp(reason)
            log.warning("unread records are given up", reason=reason)
            return now
        await asyncio.sleep(0.05)


def _behind(admin: AdminClient, ends: dict[TopicPartition, int]) -> str | None:
    """Name one live group that has not read all."""
    timeout_s = client.REQUEST_TIMEOUT_S
    groups = [group.group_id for group in admin.list_consumer_groups().result(timeout_s).valid]
    if not groups:
        return None
    described = admin.describe_consumer_groups(groups)
    for group, answer in described.items():
        if answer.result(timeout_s).state in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD):
            continue
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        committed = {
            (place.topic, place.partition): max(place.offset, 0)
            for place in asked[group].result(timeout_s).topic_partitions
        }
        read = {topic for topic, _ in committed}
        for place, end in ends.items():
            behind = end - committed.get(place, 0)
            if place.topic in read and behind > 0:
                where = f"{place.topic}[{place.partition}]"
                return f"group {group} is {behind} records behind in {where}"
    return None


def _empty(admin: AdminClient, places: Sequence[TopicPartition]) -> None:
    folders = [f"{topic}/partitions/{number:010}/records" for topic, number in places]
    for answer in admin.create_topics([NewTopic(folder, 1, 1) for folder in folders]).values():
        try:
            answer.result(client.REQUEST_TIMEOUT_S)
        except KafkaException as error:
            # Left by a sweep that was interrupted.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    for answer in admin.delete_topics(folders).values():
        answer.result(client.REQUEST_TIMEOUT_S)
