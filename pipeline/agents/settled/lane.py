"""The frame of the agents on the settled lanes: every slot of a partition is applied once.

A group brings `Books`: its work on one partition. The frame brings the rest: which slots are to
be applied (`partition_work`), when what came of them is written (`flush`), and that state and
watermark move together.

    attach(app, context, GROUP, SETTLED_BY_MINT, open_books)

A message that is no batch, or whose content the books cannot read, goes to tape-undecoded with
the reason, and the lane does not stop for it: the group continues without its slot, which becomes a
gap before the watermark passes it, like a slot that the log no longer has (`lost`). Where a stored
value cannot be read, the books go on without its wallet or mint (`quarantine`). Any other failure
over a state that Redis still has is a bug, which no later message cures: the process ends with
status 70 and its reason before anything of that slot is written, and does so again until it is
mended. Applied wrongly it would be in the stores for ever; not applied it is still in the log.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

import faust
import structlog
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition
from google.protobuf.message import DecodeError

from infra.backoff import Backoff
from infra.clickhouse.client import ClickHouseError
from infra.kafka.topics import first_from, has_none_between
from infra.redis.client import RedisError
from pipeline.agents import metrics
from pipeline.agents.context import Context
from pipeline.agents.poison import undecoded
from pipeline.agents.settled.books import Books, Open, Writes
from pipeline.agents.settled.checkpoints import Checkpoints
from pipeline.agents.settled.flush import Flush
from pipeline.agents.settled.lost import UNREADABLE, Lost, because, gap_message
from pipeline.agents.settled.partition_work import (
    BACKOFF_S,
    BadSlot,
    BooksFailed,
    Entry,
    PartitionWork,
    Reopen,
    size_of,
)
from pipeline.sinks.clickhouse import PERMANENT
from pipeline.sinks.redis import read_watermark, transient
from schemas import redis_keys
from schemas.proto.tape_pb2 import SlotBatch
from schemas.topics import Topic

__all__ = ["Books", "Open", "Writes", "attach"]

log = structlog.get_logger(__name__)

MAX_WAITING_BYTES: Final = 32 << 20  # of a group; beyond it Kafka keeps them
LOOK_EVERY_S: Final = 1.0
NEXT_TO_NOTHING_SLOTS: Final = 10  # of a partition: four seconds of the chain


def attach(app: faust.App, context: Context, group: str, topic: Topic, open_books: Open) -> None:
    """Put a settled group on an app."""
    # acks=False: `progress` commits, not Faust.
    source = app.topic(topic.name, key_serializer="raw", value_serializer="raw", acks=False)
    lane = Lane(app, context, group, topic, open_books)
    context.before_end.append(lane.finish)
    context.progress.consumer.read_again()

    @app.agent(source, name=group, concurrency=1)
    async def settled(stream: Any) -> None:
        await lane.run(stream)


class Lane:
    """One group's partitions in this process."""

    def __init__(
        self, app: faust.App, context: Context, group: str, topic: Topic, open_books: Open
    ) -> None:
        self._app = app
        self._context = context
        self._group = group
        self._topic = topic
        self._open_books = open_books
        self._works: dict[int, PartitionWork] = {}
        self._attending: dict[int, asyncio.Task[None]] = {}
        self._bad_slots: set[tuple[int, int]] = set()  # partition, slot: on record, not tried again
        self._flush = Flush(
            group,
            context.redis,
            context.clickhouse,
            lambda: list(self._works.values()),
            topic.partitions,
        )
        self._checkpoints = Checkpoints(
            group,
            context.redis,
            context.clickhouse,
            context.settings.books_checkpoint_s,
            self._flush.lock,
            self._works.values,
            topic,
        )
        self._background: list[asyncio.Task[None]] = []
        self._room = asyncio.Event()
        self._handing_over = False
        context.progress.before_handing_over(self._hand_over)
        context.progress.caught_up_within(NEXT_TO_NOTHING_SLOTS)
        self._at_elsewhere, context.progress.at = context.progress.at, self._at

    async def run(self, stream: Any) -> None:
        """Take messages, for ever."""
        if not self._background:  # Faust starts an agent again after a rebalance
            self._background = [
                asyncio.create_task(self._or_stop(work))
                for work in (self._flush.run, self._look, self._checkpoints.run)
            ]
        async for event in stream.events():
            await self._or_stop(self._take, event.message, event.value)

    async def finish(self) -> None:
        """Write what is applied: the process ends."""
        for work in self._works.values():
            work.paused = True
        await self._flush.once()
        await self._context.progress.commit()

    async def _or_stop(self, work: Any, *arguments: Any) -> None:
        """Do it; what fails ends the process, with the reason, before anything else is done."""
        try:
            await work(*arguments)
        except Exception as error:
            errors = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
            reason = "; ".join(f"{type(one).__name__}: {one}" for one in errors)
            log.debug("failed", group=self._group, exc_info=error)
            self._context.stop(f"{self._group}: {reason}")
            await asyncio.get_running_loop().create_future()

    # Messages in.

    async def _take(self, message: Any, value: bytes | None) -> None:
        if self._handing_over:
            return
        partition = message.partition
        work = self._works.get(partition) or await self._opened(
            TopicPartition(message.topic, partition), message.offset
        )
        if work is None:
            return
        await work.pass_markers(message.offset)
        if not await work.wants(message.offset):
            return
        batch = await self._parsed(message, value)
        if self._works.get(partition) is not work:
            return  # opened again meanwhile: it comes again
        is_left_out = batch is not None and (partition, batch.slot) in self._bad_slots
        size = 1 if batch is None or is_left_out else size_of(batch)
        entry = Entry(message.offset, batch, size, len(value or b""), is_left_out)
        if lost := work.lost_before(entry):
            await self._record_lost(work.tp, lost)
            if self._works.get(partition) is not work:
                return  # opened again meanwhile: it comes again
        work.accept(entry, lambda: self._context.progress.begin(message))
        while self._waiting_bytes > MAX_WAITING_BYTES and not self._handing_over:
            self._room.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._room.wait()

    async def _record_lost(self, tp: TopicPartition, lost: Lost) -> None:
        """Publish a gap for slots that are left out, before the watermark passes them."""
        metrics.LOST_SLOTS.labels(tp.topic).inc(lost.last_slot - lost.first_slot + 1)
        log.error(
            "slots are lost: continuing without them",
            group=self._group,
            partition=tp.partition,
            **lost._asdict(),
        )
        message = gap_message(lost, f"{self._group} {self._topic.place(tp.partition)}")
        acked = asyncio.Event()
        await self._context.kafka.send([message], acked.set)
        await acked.wait()

    async def _parsed(self, message: Any, value: bytes | None) -> SlotBatch | None:
        reason = None
        batch = None
        if value is None:
            reason = "no value"
        else:
            try:
                batch = SlotBatch.FromString(value)
            except DecodeError as error:
                reason = str(error)
            else:
                # Protobuf reads many a wrong byte string as a message of unknown fields.
                if not batch.slot:
                    reason = "no SlotBatch: it names no slot"
        if reason is None:
            return batch
        await self._put_aside(message.partition, message.offset, value, reason)
        return None

    async def _put_aside(
        self, partition: int, offset: int, value: bytes | None, reason: str
    ) -> None:
        place = f"{self._topic.name}[{partition}]@{offset}"
        metrics.POISON.labels(self._topic.name).inc()
        log.warning("poison message put aside", group=self._group, place=place, reason=reason)
        acked = asyncio.Event()
        await self._context.kafka.send([undecoded(value, place, reason)], acked.set)
        await acked.wait()

    @property
    def _waiting_bytes(self) -> int:
        return sum(work.waiting_bytes for work in self._works.values())

    # Books.

    async def _opened(self, tp: TopicPartition, first_offset: int | None) -> PartitionWork | None:
        """Return the partition's work when its books are open; None where it is not ours."""
        consumer = self._context.progress.consumer
        if tp.partition not in self._attending and tp not in (await consumer.ours() or ()):
            return None
        if tp.partition not in self._attending:  # a message and the look may both have asked
            self._attending[tp.partition] = asyncio.create_task(
                self._or_stop(self._attend, tp, first_offset)
            )
        while tp.partition in self._attending:  # until partitions are handed over
            work = self._works.get(tp.partition)
            if work is not None:
                return work
            await asyncio.sleep(0.005)
        return None

    async def _attend(self, tp: TopicPartition, first_offset: int | None) -> None:
        """Open the books of a partition and keep them going, again where they are not right."""
        progress = self._context.progress
        while True:
            tag = redis_keys.tag_of_partition(self._topic, tp.partition)
            work = PartitionWork(
                tp,
                redis_keys.WATERMARK.make(tag=tag, group=self._group),
                redis_keys.CHANGED.make(tag=tag, group=self._group),
                progress.consumer,
                self._room.set,
                self._first_from,
                self._none_between,
            )
            await self._open(work)
            at = await progress.consumer.position(tp) if first_offset is None else first_offset
            first_offset = None
            if at is not None:
                await work.pass_markers(at)
            if at is None or at > work.expected:
                await work.go_back()
            self._works[tp.partition] = work
            try:
                await self._run(work)
            except Reopen as why:
                log.warning(
                    "books opened again",
                    group=self._group,
                    partition=tp.partition,
                    reason=str(why),
                )
                metrics.REOPENED.labels(self._group).inc()
                if isinstance(why, BadSlot):
                    await self._put_aside(tp.partition, why.offset, why.data, str(why))
                    lost = Lost(why.slot, why.slot, because([UNREADABLE]))
                    await self._record_lost(tp, lost)
                    # Not sooner: the partition may be taken away, and given back, meanwhile.
                    self._bad_slots.add((tp.partition, why.slot))
                async with self._flush.lock:
                    del self._works[tp.partition]
                progress.rewind(tp)
                self._room.set()

    async def _run(self, work: PartitionWork) -> None:
        """Apply what comes, for ever. Raises Reopen; BooksFailed for a bug.

        Books load what they need when they need it. Where Redis was put back or replaced since,
        they know half of one state and half of another and may fail over it: that is no bug.
        """
        try:
            await work.run()
        except BooksFailed as failed:
            async with self._flush.lock:
                if await self._flush.is_ours(work):
                    raise
            raise Reopen(f"{work.reopen}; {failed}") from failed

    async def _open(self, work: PartitionWork) -> None:
        backoff = Backoff(*BACKOFF_S)
        while True:
            try:
                watermark = await read_watermark(self._context.redis, work.key)
                if watermark is None:
                    await self._checkpoints.begin(work)
                await work.open(watermark, self._open_books)
            except RedisError as error:
                if not transient(error):
                    raise
                reason = str(error)
            except ClickHouseError as error:
                if getattr(error, "code", None) in PERMANENT:
                    raise
                reason = str(error)
            else:
                return
            log.warning("books cannot be opened: waiting", place=str(work.tp), reason=reason)
            await backoff.wait()

    async def _first_from(self, tp: TopicPartition, offset: int) -> int | None:
        return await first_from(self._context.settings, tp, offset)

    async def _none_between(self, tp: TopicPartition, first: int, offset: int) -> bool:
        return await has_none_between(self._context.settings, tp, first, offset)

    async def _hand_over(self) -> None:
        """Write what is applied, and forget the books: others may own them now."""
        self._handing_over = True
        try:
            for work in self._works.values():
                work.paused = True
            await self._flush.once()
        finally:
            for task in self._attending.values():
                task.cancel()
            for work in self._works.values():
                self._context.progress.let_go(work.tp)
            self._attending.clear()
            self._works.clear()
            self._room.set()
            self._handing_over = False

    async def _close(self, partition: int) -> None:
        """Forget the books of one partition: what is not written, its owner does again."""
        async with self._flush.lock:
            if (task := self._attending.pop(partition, None)) is not None:
                task.cancel()
            if (work := self._works.pop(partition, None)) is not None:
                self._context.progress.let_go(work.tp)
        self._room.set()

    # Looking after them.

    async def _look(self) -> None:
        """Once a second: open what is ours, tick, compare with the store, report progress."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self._open_all()
                for work in list(self._works.values()):
                    with suppress(KafkaError, TimeoutError):  # of this partition alone
                        await work.seek_again()
                    await work.tick()
                await self._compare()
                await self._report()
            except (KafkaError, TimeoutError):
                continue  # a rebalance is under way, or a system is away
            except RedisError as error:
                if not transient(error):
                    raise

    async def _open_all(self) -> None:
        """Open what is ours before its first message: the store may be behind the last commit.

        Closes what is not ours any more.
        """
        async with asyncio.timeout(LOOK_EVERY_S):
            ours = await self._context.progress.consumer.ours()
        if ours is None:
            return  # all was handed over
        for partition in list(self._attending):
            if TopicPartition(self._topic.name, partition) not in ours:
                await self._close(partition)
        for tp in ours:
            if tp.topic == self._topic.name and tp.partition not in self._attending:
                await self._opened(tp, None)

    async def _compare(self) -> None:
        """With nothing to write, check that the store still has what we wrote."""
        async with self._flush.lock:
            for work in list(self._works.values()):
                if work.idle and work.reopen is None:
                    found = await read_watermark(self._context.redis, work.key)
                    if found != work.written and work.idle:
                        work.open_again(f"it is {found} and not {work.written}")

    async def _report(self) -> None:
        lags = [0]
        async with asyncio.timeout(LOOK_EVERY_S):
            ends = await self._context.progress.consumer.ends()
        for tp, (end, position) in ends.items():
            if tp.topic != self._topic.name:
                continue
            at = self._at(tp)
            lags.append(end - (position if at is None else at))
        metrics.LAG_SLOTS.labels(self._group).set(max(lags))

    def _at(self, tp: TopicPartition) -> int | None:
        if tp.topic != self._topic.name:
            return self._at_elsewhere(tp)
        work = self._works.get(tp.partition)
        return None if work is None else work.at
