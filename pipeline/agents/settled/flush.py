"""What partitions have changed goes to the stores: ClickHouse first, then Redis.

The rows of all partitions go together, an insert a table. A process with fewer partitions flushes
less often, so that ClickHouse has as many inserts to merge whether one process has all partitions
or several share them; so does one for which little waits, as few rows cost as much as a hundred.
The watermark of a partition passes a slot in the same transaction as its state, after its rows. A
process that dies in between writes the rows again, which is harmless, and nothing else.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import structlog
from redis.asyncio import Redis

from infra.backoff import Backoff
from infra.redis.client import RedisError
from pipeline.agents import metrics
from pipeline.agents.settled.changes import members
from pipeline.agents.settled.partition_work import BACKOFF_S, PartitionWork, Taken
from pipeline.sinks import redis as redis_sink
from pipeline.sinks.clickhouse import ClickHouseSink
from pipeline.sinks.redis import Moved, transient

log = structlog.get_logger(__name__)

EVERY_S: Final = 0.3  # with all partitions
LONGEST_S: Final = 1.2  # with few: three slots, so that the stores stay less than five behind
FEW_EVENTS: Final = 100  # wait LONGEST_S: what up to some 35 transactions a second make in it
GATHER_S: Final = 0.1  # after a rest: partitions have the first slot one after the other
NAMES_AT_ONCE: Final = 1_000  # of a command: a script may pass no more than some thousands
ENOUGH_EVENTS: Final = 20_000  # then without waiting

T = TypeVar("T")


class Flush:
    """Writes what the partitions of one group have changed; one flush at a time."""

    def __init__(
        self,
        group: str,
        redis: Redis,
        clickhouse: ClickHouseSink,
        works: Callable[[], Iterable[PartitionWork]],
        partitions: int,
    ) -> None:
        """`works` returns the partitions of this process, of `partitions` there are."""
        self.lock = asyncio.Lock()
        """Held while a flush is under way."""
        self._group = group
        self._redis = redis
        self._clickhouse = clickhouse
        self._works = works
        self._partitions = partitions
        # A token names one attempt's bytes: another process may cut the same slots otherwise.
        self._process = uuid.uuid4().hex
        self._number = 0
        self._held = 0

    async def run(self) -> None:
        """Flush at our pace, or at once when enough waits. Raises RowsRefused, Refused."""
        ended_s = 0.0
        while True:
            while not any(work.has_unwritten for work in self._works()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            gathered_s = time.monotonic() + GATHER_S
            while not self._is_due(ended_s, gathered_s):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            await self.once()
            ended_s = time.monotonic()

    async def once(self) -> None:
        """Write all that has changed; returns when it is in the stores."""
        async with self.lock:
            began = time.monotonic()
            taken = [found for work in self._works() if (found := await work.take()) is not None]
            ours = await asyncio.gather(*(self.is_ours(one.work) for one in taken))
            taken = [one for one, is_ours in zip(taken, ours, strict=True) if is_ours]
            if not taken:
                return
            await self._insert(taken)
            await asyncio.gather(*(self._commit(one) for one in taken))
            metrics.FLUSH_MS.labels(self._group).observe((time.monotonic() - began) * 1000)

    async def is_ours(self, work: PartitionWork) -> bool:
        """Say whether Redis still has what the books were read from; rows cannot be taken back.

        With `lock` held. Where it has something else, the books are opened again.
        """
        found = await self._until_answered(lambda: redis_sink.read_watermark(self._redis, work.key))
        if found != work.written:
            work.open_again(f"it is {_said(found)} and not {_said(work.written)}")
            return False
        return True

    def _is_due(self, last_s: float, gathered_s: float) -> bool:
        waiting = self._waiting_events
        pause = pause_s(len(list(self._works())), self._partitions, waiting)
        return time.monotonic() >= max(last_s + pause, gathered_s) or waiting >= ENOUGH_EVENTS

    @property
    def _waiting_events(self) -> int:
        return sum(work.unwritten_events for work in self._works())

    async def _insert(self, taken: list[Taken]) -> None:
        rows: dict[str, list[tuple[Any, ...]]] = {}
        for one in taken:
            for table, more in one.writes.rows.items():
                rows.setdefault(table, []).extend(more)
        self._number += 1
        token = f"{self._group}-{self._process}-{self._number}"
        async with asyncio.TaskGroup() as inserts:
            for table, values in rows.items():
                if values:
                    inserts.create_task(self._clickhouse.insert(table, values, token))
        count = sum(len(values) for values in rows.values())
        metrics.FLUSHED.labels(self._group, "rows").inc(count)

    async def _commit(self, one: Taken) -> None:
        """Write state and watermark of a partition."""
        work = one.work
        commands, changes = _tracked(work, one.writes.commands)

        async def commit() -> None:
            try:
                await redis_sink.commit(self._redis, work.key, work.written, one.mark, commands)
            except RedisError as error:
                if redis_sink.is_full(error):
                    await self._make_room(work)
                raise

        try:
            await self._until_answered(commit)
        except Moved as moved:
            work.open_again(f"it is {_said(moved.found)} and not {_said(work.written)}")
            return
        work.changes += changes
        metrics.FLUSHED.labels(self._group, "commands").inc(len(commands))
        metrics.APPLIED_SLOTS.labels(self._group).inc(len(one.entries))
        metrics.WATERMARK_SLOT.labels(self._group, work.tp.partition).set(one.mark.slot)
        await work.wrote(one)

    async def _make_room(self, work: PartitionWork) -> None:
        """Put state of a partition away that Redis can do without, at the watermark it is at."""
        async with work.lock:
            writes = await work.evict()
            if writes is None or work.written is None:
                return
            self._number += 1
            token = f"{self._group}-{self._process}-{self._number}"
            for table, rows in writes.rows.items():
                if rows:
                    await self._clickhouse.insert(table, rows, token)
            commands, changes = _tracked(work, writes.commands)
            is_ours = await redis_sink.free(self._redis, work.key, work.written.slot, commands)
            work.changes += changes
            metrics.EVICTED.labels(self._group).inc(is_ours * writes.evicted)
            log.warning(
                "Redis is full: put away before it was due",
                group=self._group,
                partition=work.tp.partition,
                count=writes.evicted,
            )

    async def _until_answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask Redis until it answers. Raises Moved, Refused."""
        backoff = Backoff(*BACKOFF_S)
        held = False
        try:
            while True:
                try:
                    answer = await ask()
                except RedisError as error:
                    if not transient(error):
                        raise
                    if not held:
                        held = True
                        self._hold(+1, str(error))
                    await backoff.wait()
                else:
                    return answer
        finally:
            if held:
                self._hold(-1, None)

    def _hold(self, change: int, reason: str | None) -> None:
        before, self._held = self._held, self._held + change
        metrics.REDIS_HOLDING.labels(self._group).set(self._held)
        if not before:
            log.warning("Redis does not answer: holding", group=self._group, reason=reason)
        elif not self._held:
            log.info("Redis answers again", group=self._group)


def pause_s(held: int, partitions: int, events: int) -> float:
    """Return the seconds between flushes of a process that holds some of the partitions.

    `events` wait to be written.
    """
    if events <= FEW_EVENTS:
        return LONGEST_S
    return min(EVERY_S * partitions / max(held, 1), LONGEST_S)


def _tracked(
    work: PartitionWork, commands: Sequence[tuple[Any, ...]]
) -> tuple[list[tuple[Any, ...]], int]:
    """Return commands with those that name what they change, and how many values that are."""
    changed = members(commands)
    parts = [changed[at : at + NAMES_AT_ONCE] for at in range(0, len(changed), NAMES_AT_ONCE)]
    return [*commands, *(("SADD", work.changed_key, *part) for part in parts)], len(changed)


def _said(mark: redis_sink.Watermark | None) -> str:
    return "gone" if mark is None else f"slot {mark.slot}"
