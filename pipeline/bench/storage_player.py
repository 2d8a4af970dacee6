"""Plays simulated days of chain time through the books of a group, into real stores."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import redis
from redis.asyncio import Redis

from infra.bench import progress
from infra.clickhouse.client import ClickHouseError
from infra.redis.client import RedisError, connect
from infra.settings import Settings
from pipeline.agents.settled.books import Books
from pipeline.sinks.clickhouse import ClickHouseSink
from pipeline.sinks.redis import Watermark, commit
from schemas.proto.tape_pb2 import SlotBatch
from schemas.redis_keys import WATERMARK
from schemas.times import DAY_MS
from schemas.topics import Topic

FIRST_MS: Final = 1_790_000_000_000 // DAY_MS * DAY_MS
HOURS_A_FLUSH: Final = 6
_ATTEMPTS: Final = 60  # on a busy machine a store may not answer for a while
_PAUSE_S: Final = 1.0

OpenOn = Callable[[Settings, Redis, ClickHouseSink, int], Awaitable[Books]]
"""Opens the books of a partition on some stores."""


class Player:
    """The books of all partitions of a group in this process, as its agent has them."""

    def __init__(
        self,
        settings: Settings,
        group: str,
        topic: Topic,
        tag_of: Callable[[int], str],
        open_on: OpenOn,
    ) -> None:
        self.redis: Redis = connect(settings)
        self.sink = ClickHouseSink(settings)
        self._settings = settings
        self._group = group
        self._partitions = range(topic.partitions)
        self._tag_of = tag_of
        self._open_on = open_on
        self._books: list[Books] = []
        self._marks: list[Watermark | None] = [None] * topic.partitions

    async def open(self) -> None:
        """Open the books of all partitions. Raises as stores do."""
        self._books = [
            await self._open_on(self._settings, self.redis, self.sink, partition)
            for partition in self._partitions
        ]

    async def play(self, hours: Sequence[Sequence[SlotBatch]]) -> None:
        """Apply hours, each a batch for every partition, and write what they come to."""
        rows: dict[str, list[tuple[Any, ...]]] = {}
        commands = []
        for partition, books in enumerate(self._books):
            batches = [hour[partition] for hour in hours]
            await _patiently(partial(books.load, batches))
            for batch in batches:
                books.apply(batch)
            writes = books.take()
            commands.append(writes.commands)
            for table, more in writes.rows.items():
                rows.setdefault(table, []).extend(more)
        last = hours[-1][0]
        for table, more in rows.items():
            await _patiently(partial(self.sink.insert, table, more, f"bench/{last.slot}"))
        mark = Watermark(last.slot, last.slot, last.block_time_ms)
        for partition, books in enumerate(self._books):
            key = WATERMARK.make(tag=self._tag_of(partition), group=self._group)
            before, asked = self._marks[partition], commands[partition]
            await _patiently(partial(commit, self.redis, key, before, mark, asked))
            self._marks[partition] = mark
            books.written()

    async def close(self) -> None:
        """Close the connections."""
        await self.redis.aclose()
        await self.sink.close()


async def _patiently(step: Callable[[], Awaitable[object]]) -> None:
    """Take a step that may be taken again, until a store answers; raises what it says at last."""
    for left in reversed(range(_ATTEMPTS)):
        try:
            await step()
        except (RedisError, ClickHouseError) as error:
            if not left:
                raise
            progress(f"again: {error}")
            await asyncio.sleep(_PAUSE_S)
        else:
            return


def dataset_bytes(store: redis.Redis) -> int:
    """Return what a Redis uses for what it holds."""
    return int(store.info("memory")["used_memory_dataset"])
