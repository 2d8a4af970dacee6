"""Puts on record what tape-live no longer had when `live` was ready for it.

The lane keeps an hour. Where `live` was away for longer, it continues at the first batch that is
left, and the public topics lack what was between. Each commit carries the slot that it reached, so
that the gap can name slots: from that one, of which a part may be missing, to the first that was
read again. The batch after the gap is not done before Kafka has the gap, so a process that is
killed in between publishes the same gap once more. Where a group has no commit, the public topics
begin with it; a commit without a slot is one of an earlier version. Where the lane was silent for
an hour, transactions' markers at its end were deleted like batches: commits name the offset up to
which there was nothing else.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import structlog
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from infra.backoff import Backoff
from infra.kafka.client import KafkaUnreachable
from infra.kafka.topics import begins_at
from infra.settings import Settings
from pipeline.agents import metrics
from pipeline.agents.progress import Progress
from pipeline.sinks.kafka import KafkaSink, Message
from schemas.proto.tape_pb2 import LiveBatch, SlotGap, SlotStatus
from schemas.topics import GAPS

log = structlog.get_logger(__name__)

LOST: Final = "lost: the log no longer had them"
SINCE_UNKNOWN: Final = f"{LOST}; slots before are missing as well, from which on is not known"
BEHIND_SLOTS: Final = 64
"""How far below the newest slot a status may be that says what became of a slot."""
_MAX_SLOT: Final = 2**64 - 1
_BACKOFF_S: Final = (0.1, 2.0)
_NOTE: Final = re.compile(r"(?:slot (\d{1,20}))?(?: ?passed (\d{1,19}))?", re.ASCII)
_LATE: Final = (SlotStatus.FINALIZED, SlotStatus.ORPHANED)


@dataclass(slots=True)
class _Reached:
    """How far a partition was read."""

    next_offset: int
    slot: int | None  # of the last batch; None: not known


class LostBatches:
    """Looks for batches that the log lost before they were read, and publishes a gap for them."""

    def __init__(
        self, group: str, settings: Settings, kafka: KafkaSink, progress: Progress
    ) -> None:
        self._group = group
        self._settings = settings
        self._kafka = kafka
        self._progress = progress
        self._reached: dict[int, _Reached] = {}

    async def before(self, source: Any, batch: LiveBatch) -> None:
        """Take note of a batch, once Kafka has the gap before it if there is one."""
        tp = TopicPartition(source.topic, source.partition)
        reached = await self._so_far(tp, source.offset)
        expected = max(reached.next_offset, self._progress.passed(tp))
        if source.offset > expected and await self._has_lost(tp, expected):
            await self._record(tp, reached.slot, _newest(batch))
        slot = max(_slots(batch), default=reached.slot)
        self._reached[tp.partition] = _Reached(source.offset + 1, slot)
        if slot is not None:
            self._progress.note(source, f"slot {slot}")

    async def skip(self, source: Any) -> None:
        """Take note of a message that is no batch: what was lost before it the next batch shows."""
        tp = TopicPartition(source.topic, source.partition)
        # Before it is done: a commit after it says nothing of what was before it.
        reached = await self._so_far(tp, source.offset)
        if source.offset <= max(reached.next_offset, self._progress.passed(tp)):
            reached = _Reached(source.offset + 1, reached.slot)
        self._reached[tp.partition] = reached
        if reached.slot is not None:
            self._progress.note(source, f"slot {reached.slot}")

    def handed_over(self) -> None:
        """Hear that others may read our partitions from here on."""
        self._reached.clear()

    async def _so_far(self, tp: TopicPartition, offset: int) -> _Reached:
        """Return how far a partition was read, or else committed."""
        reached = self._reached.get(tp.partition)
        return await self._committed(tp, offset) if reached is None else reached

    async def _committed(self, tp: TopicPartition, offset: int) -> _Reached:
        """Return how far the group has come; where it has not begun, up to `offset`."""
        backoff = Backoff(*_BACKOFF_S)
        while True:
            try:
                committed = await self._progress.consumer.committed(tp)
            except (KafkaError, TimeoutError) as error:
                log.warning("cannot see the last commit", place=_name(tp), reason=str(error))
                await backoff.wait()
                continue
            if committed is None:
                return _Reached(offset, None)
            found = _NOTE.fullmatch(committed.metadata)
            slot, passed = found.groups() if found else (None, None)
            offset = max(committed.offset, int(passed or 0))
            return _Reached(offset, None if slot is None else int(slot))

    async def _has_lost(self, tp: TopicPartition, offset: int) -> bool:
        """Return whether the log begins after an offset. Other jumps are transactions' markers."""
        backoff = Backoff(*_BACKOFF_S)
        while True:
            try:
                return await begins_at(self._settings, tp) > offset
            except (KafkaError, KafkaUnreachable, TimeoutError) as error:
                log.warning("cannot see where the log begins", place=_name(tp), reason=str(error))
                await backoff.wait()

    async def _record(self, tp: TopicPartition, last: int | None, newest: int) -> None:
        newest = max(newest, last or 0)
        first = newest if last is None else last
        metrics.LOST_SLOTS.labels(tp.topic).inc(newest - first + 1)
        log.error(
            "the log does not have what follows the last commit any more: going on without",
            group=self._group,
            partition=tp.partition,
            first_slot=None if last is None else first,
            last_slot=newest,
        )
        gap = SlotGap(
            first_slot=first,
            last_slot=newest,
            reason=SINCE_UNKNOWN if last is None else LOST,
            detected_ms=time.time_ns() // 1_000_000,
            lost_by=f"{self._group} {tp.partition}",
        )
        key = str(first)
        acked = asyncio.Event()
        message = Message(GAPS.name, GAPS.partition(key), key.encode(), gap.SerializeToString())
        await self._kafka.send([message], acked.set)
        await acked.wait()


def _slots(batch: LiveBatch) -> Iterator[int]:
    """Yield the slots that a batch has something of."""
    for event in batch.events:
        if (kind := event.WhichOneof("event")) not in (None, "slot_gap"):
            yield getattr(event, kind).slot


def _newest(batch: LiveBatch) -> int:
    """Return the highest slot that may have come before a batch: none of what is lost is newer."""
    highest = max(_slots(batch), default=0)
    for event in batch.events:
        if event.HasField("slot_status") and event.slot_status.status in _LATE:
            highest = max(highest, min(event.slot_status.slot + BEHIND_SLOTS, _MAX_SLOT))
    return highest


def _name(tp: TopicPartition) -> str:
    return f"{tp.topic}[{tp.partition}]"
