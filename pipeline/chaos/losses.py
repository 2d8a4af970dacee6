"""A log that forgets what a group needs next, and what of the stores rests on what it forgot."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import ConsumerRecord, TopicPartition
from confluent_kafka import TopicPartition as Place

from infra.clickhouse.client import connect as connect_clickhouse
from infra.kafka import client, topics
from infra.redis.client import connect
from infra.settings import Settings
from pipeline.chaos.differences import Differences
from pipeline.chaos.stores import Row
from pipeline.chaos.truth import Slot, Tx, named_in
from schemas.proto.tape_pb2 import SlotBatch
from schemas.redis_keys import WATERMARK, tag_of_partition
from schemas.topics import SETTLED_BY_MINT, SETTLED_BY_WALLET, Topic

KIND: Final = "gap of a group"
LEAST_SLOTS: Final = 8
LANES: Final = {"pnl": SETTLED_BY_WALLET, "store": SETTLED_BY_MINT, "market": SETTLED_BY_MINT}


@dataclass(frozen=True, slots=True)
class Hole:
    """The slots that one partition of a group can have no more."""

    group: str
    lane: Topic
    partition: int
    first_slot: int
    last_slot: int

    @property
    def lost_by(self) -> str:
        """How the row of the gap must name who lost it."""
        return f"{self.group} {self.lane.place(self.partition)}"

    def rests_on(self, slots: Iterable[Slot]) -> set[str]:
        """Return what the group cannot know: names of the partition, or signatures of its swaps.

        A swap has its token's platform from an earlier slot: `store` lacks that as well where the
        hole has the creation or migration.
        """
        if self.group != "store":
            return {
                name
                for slot in slots
                if self._has(slot)
                for name in named_in(slot)
                if self.lane.partition(name) == self.partition
            }
        found: set[str] = set()
        unnamed: set[str] = set()
        for slot in slots:
            if slot.slot < self.first_slot:
                continue
            for tx in slot.transactions:
                if self._has(slot):
                    unnamed |= self._mints((*tx.creations, *tx.migrations))
                mints = self._mints(_events(tx))
                if mints if self._has(slot) else mints & unnamed:
                    found.add(tx.signature)
        return found

    def _has(self, slot: Slot) -> bool:
        return self.first_slot <= slot.slot <= self.last_slot

    def _mints(self, events: Collection[dict[str, Any]]) -> set[str]:
        """Return the tokens of events that the partition has."""
        mints = {event["mint"] for event in events}
        return {mint for mint in mints if self.lane.partition(mint) == self.partition}


def _events(tx: Tx) -> list[dict[str, Any]]:
    return [*tx.swaps, *tx.creations, *tx.migrations]


def compare(hole: Hole | None, gaps: Iterable[Row], found: Differences) -> None:
    """Note where gaps of groups are not exactly the hole that one has."""
    wanted: dict[str, list[tuple[int, int]]] = {}
    if hole is not None:
        wanted[hole.lost_by] = [(hole.first_slot, hole.last_slot)]
    got: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in gaps:
        if row["lost_by"]:
            got[row["lost_by"]].append((row["first_slot"], row["last_slot"]))
    found.maps(KIND, wanted, got)


def named(settings: Settings) -> set[str]:
    """Return which groups and places have a gap in ClickHouse. Raises ClickHouseError."""
    connection = connect_clickhouse(settings)
    try:
        answer = connection.query("SELECT DISTINCT lost_by FROM gaps")
    finally:
        connection.close()
    return {lost_by for (lost_by,) in answer.result_rows}


async def forget(settings: Settings, group: str, partition: int) -> Hole | None:
    """Delete from the log what a partition of a group, which does not run, needs next.

    None where there is not enough of it yet. Raises confluent's KafkaException, aiokafka's
    KafkaError and RedisError.
    """
    lane = LANES[group]
    mark = await _watermark(settings, group, partition)
    if mark is None:
        return None
    slot, offset = mark
    waiting = await _records_from(settings, TopicPartition(lane.name, partition), offset + 1)
    for before, (at, batch) in itertools.pairwise(waiting):
        is_next = batch.HasField("parent") and batch.parent == before[1].slot
        if is_next and batch.parent - slot >= LEAST_SLOTS:
            await asyncio.to_thread(_delete_before, settings, Place(lane.name, partition, at))
            return Hole(group, lane, partition, slot + 1, batch.parent)
    return None


async def _watermark(settings: Settings, group: str, partition: int) -> tuple[int, int] | None:
    key = WATERMARK.make(tag=tag_of_partition(LANES[group], partition), group=group)
    redis = connect(settings)
    try:
        slot, offset = await redis.hmget(key, ["slot", "offset"])
    finally:
        await redis.aclose()
    return None if slot is None or offset is None else (int(slot), int(offset))


async def _records_from(
    settings: Settings, place: TopicPartition, offset: int
) -> list[tuple[int, SlotBatch]]:
    """Return the offsets and slots of a partition's records from an offset on."""
    found: list[ConsumerRecord] = []
    async with topics.reader(settings) as consumer:
        consumer.assign([place])
        until = (await consumer.end_offsets([place]))[place]
        consumer.seek(place, offset)
        while await consumer.position(place) < until:
            found += (await consumer.getmany(timeout_ms=1_000)).get(place, [])
    return [(record.offset, SlotBatch.FromString(record.value)) for record in found]


def _delete_before(settings: Settings, place: Place) -> None:
    admin = client.admin(settings)  # held until it has answered
    answers = admin.delete_records([place], request_timeout=client.REQUEST_TIMEOUT_S)
    for answer in answers.values():
        answer.result()
