"""Checkpoints: what Redis has of a partition's books, as of one slot, in ClickHouse.

Each flush adds the names of what it changes to a set in Redis, in the MULTI that moves the
watermark. A checkpoint reads the values of those names while no flush is under way and writes
them, with the watermark, in one insert: `book_checkpoints` always has a partition as it was at one
slot. `soltape rebuild` fills an empty Redis from it, and the log has what came after. Where
ClickHouse does not have the checkpoint that Redis knows as the last (one of them lost some time, or
was restored) the names do not make it whole: then all of the partition is read.

A checkpoint never has a value that cannot be read: the wallet or mint goes into quarantine
instead (`quarantine`), and while a partition has any in there it gets no checkpoint.

Books without a watermark are new only where ClickHouse has no row of them. Otherwise Redis has
lost them: to begin anew over filled tables would contradict what they say, so the group ends and
names the command.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Final, cast

import orjson
import structlog
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from infra.clickhouse.client import ClickHouseError
from infra.redis.client import RedisError, ask
from pipeline.agents import metrics
from pipeline.agents.settled.changes import ALL_TRACKED, parse
from pipeline.agents.settled.checkpoint_rows import Rows
from pipeline.agents.settled.partition_work import PartitionWork
from pipeline.agents.settled.readable import unreadable
from pipeline.sinks.clickhouse import PERMANENT, ClickHouseSink
from pipeline.sinks.redis import read_watermark, transient
from schemas import redis_keys
from schemas.rows import BOOK_CHECKPOINTS
from schemas.topics import Topic

log = structlog.get_logger(__name__)

LOOK_EVERY_S: Final = 1.0
ENOUGH_CHANGES: Final = 200_000  # of a partition: then before its time
ON_DISK_MS: Final = 1_000
_TAKEN_BY: Final = "taken_by"
# Another process may have taken them for its own checkpoint meanwhile.
_WRITTEN: Final = """
if redis.call('HGET', KEYS[1], 'taken_by') == ARGV[1] then
    redis.call('UNLINK', KEYS[2])
    redis.call('HSET', KEYS[1], 'checkpoint', ARGV[2])
end
"""


class BooksLost(Exception):
    """Redis lacks books that ClickHouse has rows of; the text names the remedy."""


class Checkpoints:
    """Writes the checkpoints of one group's partitions in this process."""

    def __init__(
        self,
        group: str,
        redis: Redis,
        clickhouse: ClickHouseSink,
        every_s: float,
        flushing: asyncio.Lock,
        works: Callable[[], Iterable[PartitionWork]],
        lane: Topic,
    ) -> None:
        self._group = group
        self._redis = redis
        self._clickhouse = clickhouse
        self._every_s = every_s
        self._flushing = flushing
        self._works = works
        self._lane = lane
        self._process = uuid.uuid4().hex
        self._written = redis.register_script(_WRITTEN)
        self._last_at: dict[int, float] = {}

    async def begin(self, work: PartitionWork) -> None:
        """Note that a partition without a watermark begins. Raises BooksLost, and as stores do."""
        partition = work.tp.partition
        # ClickHouse first: another process may begin meanwhile, in Redis before in ClickHouse.
        slot = await self._last_slot(partition)
        if not await _answer(self._redis.hexists(work.key, "begun")):
            if slot is not None:
                raise BooksLost(
                    f"Redis has no books of partition {partition}, but ClickHouse has rows of them"
                    f"{f' up to slot {slot} at least' if slot else ''}: run `soltape rebuild "
                    f"{self._group}`, which fills Redis from ClickHouse and the log"
                )
            begun = [
                ("MULTI",),
                ("HSET", work.key, "begun", time.time_ns() // 1_000_000),
                ("SADD", work.changed_key, ALL_TRACKED),
                ("EXEC",),
            ]
            await ask(self._redis, begun)
            with suppress(ResponseError):  # before Redis 7.2
                # It waits for the writes of its own connection: these are written again.
                await ask(self._redis, [*begun[1:3], ("WAITAOF", 1, 0, ON_DISK_MS)])
        row = (self._group, self._lane.place(partition), b"", "begun", b"", b"", 0, 0)
        await self._clickhouse.insert(BOOK_CHECKPOINTS.name, [row], uuid.uuid4().hex)

    async def run(self) -> None:
        """Write a checkpoint of each partition every so often. Raises RowsRefused."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            for work in list(self._works()):
                if not self._is_due(work):
                    continue
                try:
                    await self.take(work)
                except RedisError as error:
                    if not transient(error):
                        raise
                    log.warning("no checkpoint: Redis does not answer", reason=str(error))
                except ClickHouseError as error:
                    if getattr(error, "code", None) in PERMANENT:
                        raise
                    log.warning("no checkpoint: ClickHouse does not answer", reason=str(error))

    async def take(self, work: PartitionWork) -> int | None:
        """Write a checkpoint of a partition; return its slot, None where it is not at rest.

        Raises RedisError, ClickHouseError, RowsRefused.
        """
        self._last_at[work.tp.partition] = time.monotonic()
        tag = redis_keys.tag_of_partition(self._lane, work.tp.partition)
        taken_key = redis_keys.CHECKPOINTING.make(tag=tag, group=self._group)
        stored = await self._last_slot(work.tp.partition) or 0
        known = int(await _answer(self._redis.hget(work.key, "checkpoint")) or 0)
        async with self._flushing:
            mark = work.written
            if work.quarantine:
                # The names would only grow; without them the next checkpoint has all.
                await self._redis.unlink(taken_key, work.changed_key)
                work.changes = 0
                return None
            if mark is None or mark.slot < stored:
                return None
            if await read_watermark(self._redis, work.key) != mark:
                return None
            token = f"{self._process}-{work.tp.partition}-{time.monotonic_ns()}"
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.sunionstore(taken_key, [taken_key, work.changed_key])
                pipe.unlink(work.changed_key)
                pipe.sadd(work.changed_key, ALL_TRACKED)
                pipe.hset(work.key, _TAKEN_BY, token)
                await pipe.execute()
            work.changes = 0
            names = await _answer(self._redis.smembers(taken_key))
            rows = Rows(self._group, self._lane.place(work.tp.partition), mark.slot)
            if ALL_TRACKED in names and stored == known:
                await rows.read(self._redis, parse(names))
            else:
                await rows.read_all(self._redis, tag)
            if await read_watermark(self._redis, work.key) != mark:
                return None  # another process owns the partition now; it finds the names
        if work.quarantine is not None and (
            bad := await asyncio.to_thread(lambda: list(unreadable(rows.rows)))
        ):
            await work.leave_out(bad)
            return None
        rows.add("watermark", b"", value=orjson.dumps(mark._asdict()))
        # One block: all of it is there or nothing.
        await self._clickhouse.insert(
            BOOK_CHECKPOINTS.name, rows.rows, token, most_rows=len(rows.rows)
        )
        await self._written(keys=[work.key, taken_key], args=[token, mark.slot])
        metrics.CHECKPOINT_SLOT.labels(self._group, work.tp.partition).set(mark.slot)
        metrics.CHECKPOINT_VALUES.labels(self._group).inc(len(rows.rows) - 1)
        return mark.slot

    def _is_due(self, work: PartitionWork) -> bool:
        last_at = self._last_at.setdefault(work.tp.partition, time.monotonic())
        return work.changes >= ENOUGH_CHANGES or time.monotonic() - last_at >= self._every_s

    async def _last_slot(self, partition: int) -> int | None:
        """Return the slot of the partition's checkpoint, 0 for none yet, None for new books."""
        client = await self._clickhouse.client()
        answer = await client.query(
            f"SELECT count(), max(slot) FROM {BOOK_CHECKPOINTS.name} "  # noqa: S608
            "WHERE agent_group = {group:String} AND partition = {partition:UInt16}",
            parameters={"group": self._group, "partition": self._lane.place(partition)},
        )
        [(rows, slot)] = answer.result_rows
        return int(slot) if rows else None


async def _answer(command: Any) -> Any:
    return await cast(Awaitable[Any], command)
