"""The books of a partition from ClickHouse back to Redis, as of their last checkpoint.

The watermark is written last: until then no agent takes what is there for books, and a restore
that was interrupted begins again. Of two at once the one that began last goes on: the other could
write the watermark while values are missing that this one removed and did not write yet.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import orjson
from clickhouse_connect.driver.client import Client
from redis.asyncio import Redis

from infra.clickhouse.client import connect
from infra.partitions import why_wrong
from infra.redis.client import ask
from infra.redis.partitions import PartitionsWrong
from infra.settings import Settings
from pipeline.agents.settled.changes import ALL_TRACKED
from pipeline.agents.settled.checkpoint_rows import books_keys
from pipeline.sinks.redis import Watermark
from schemas import redis_keys
from schemas.rows import BOOK_CHECKPOINTS
from schemas.topics import Topic, count_of_place

VALUES_AT_ONCE: Final = 1_000  # of a command
COMMANDS_AT_ONCE: Final = 1_000
ROWS_AT_ONCE: Final = 50_000

_WHERE: Final = "agent_group = {group:String} AND partition = {partition:UInt16}"
_WATERMARK: Final = (
    f"SELECT value FROM {BOOK_CHECKPOINTS.name} FINAL "  # noqa: S608
    f"WHERE {_WHERE} AND key = '' AND kind = 'watermark'"
)
_ROWS: Final = (
    f"SELECT key, toInt8(kind), field, value, slot FROM {BOOK_CHECKPOINTS.name} FINAL "  # noqa: S608
    f"WHERE {_WHERE} AND key >= {{key:String}} AND (key, toInt8(kind), field) > "
    "({key:String}, {kind:Int8}, unhex({field:String})) "
    "ORDER BY key, toInt8(kind), field LIMIT {limit:UInt32}"
)
_LAST_PLACE: Final = (
    f"SELECT max(partition), count() FROM {BOOK_CHECKPOINTS.name} WHERE kind = 'begun'"  # noqa: S608
)
_RESET, _GONE, _TRIMMED, _STRING, _HASH, _SET, _ZSET, _BIT = range(3, 11)  # of the column `kind`
_ADDS: Final = {_HASH: "HSET", _SET: "SADD", _ZSET: "ZADD"}

_CLAIM: Final = "filled_by"  # field of the watermark
# It may come twice, where an answer was lost: the agents go on from the first.
_FINISH: Final = """
if redis.call('HGET', KEYS[1], 'filled_by') ~= ARGV[1] then return 0 end
if redis.call('HEXISTS', KEYS[1], 'slot') == 1 then return 1 end
redis.call('SADD', KEYS[2], ARGV[2])
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
return 1
"""

Row = tuple[bytes, int, bytes, bytes, int]  # key, kind, field, value, slot


class Overtaken(Exception):
    """Another process fills the books of a partition; the text says which."""

    def __init__(self, books: Books) -> None:
        super().__init__(
            f"another process fills the books of {books.group} {books.place} as well, and began "
            "later: let it end, or run this again once nobody else does"
        )


@dataclass(frozen=True, slots=True)
class Books:
    """The place of one group's books of a partition."""

    group: str
    place: int  # of the partition: `schemas.topics`
    tag: str

    @classmethod
    def of(cls, group: str, lane: Topic, partition: int) -> Books:
        """Return those of a partition of a settled lane."""
        return cls(group, lane.place(partition), redis_keys.tag_of_partition(lane, partition))

    @property
    def watermark(self) -> str:
        """The key of the watermark."""
        return redis_keys.WATERMARK.make(tag=self.tag, group=self.group)

    @property
    def changed(self) -> str:
        """The key of what changed since the last checkpoint."""
        return redis_keys.CHANGED.make(tag=self.tag, group=self.group)

    @property
    def quarantine(self) -> str:
        """The key of what the books leave out."""
        return redis_keys.QUARANTINE.make(tag=self.tag, group=self.group)

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of queries."""
        return {"group": self.group, "partition": self.place}


def checkpoint_of(client: Client, books: Books) -> Watermark | None:
    """Return the watermark of the last checkpoint, None where there is none.

    Raises ClickHouseError.
    """
    found = client.query(_WATERMARK, parameters=books.parameters).result_rows
    return Watermark(**orjson.loads(found[0][0])) if found else None


def begun_partitions(client: Client) -> int | None:
    """Return the count of the settled lanes whose books were begun last, None for none.

    Raises ClickHouseError.
    """
    [(place, rows)] = client.query(_LAST_PLACE).result_rows
    return count_of_place(place) if rows else None


def require_checkpoints(settings: Settings) -> None:
    """Raise PartitionsWrong where ClickHouse has the books of another count than this process.

    Raises ClickHouseError.
    """
    with closing(connect(settings)) as client:
        found = begun_partitions(client)
    if found is not None and (why := why_wrong(found, "ClickHouse")):
        raise PartitionsWrong(why)


async def claim(redis: Redis, books: Books) -> str:
    """Begin to fill the books of a partition without a watermark; an earlier claim of it ends.

    Returns what `restore` and `finish` want to know. Raises RedisError.
    """
    claimed = uuid.uuid4().hex
    await ask(redis, [("HSET", books.watermark, _CLAIM, claimed)])
    return claimed


async def clear(redis: Redis, books: Books) -> str:
    """Remove the books of a partition, the watermark first, and claim it; raises RedisError."""
    taken = redis_keys.CHECKPOINTING.make(tag=books.tag, group=books.group)
    await redis.unlink(books.watermark, books.changed, taken, books.quarantine)
    claimed = await claim(redis, books)
    keys = [key for key, _ in await books_keys(redis, books.tag, books.group)]
    for at in range(0, len(keys), COMMANDS_AT_ONCE):
        await redis.unlink(*keys[at : at + COMMANDS_AT_ONCE])
    return claimed


async def restore(
    redis: Redis, client: Client, books: Books, claimed: str, progressed: Callable[[int], None]
) -> int:
    """Write all values of a checkpoint to Redis, the watermark not; return how many there are.

    `progressed` is called with the number so far. Raises Overtaken, RedisError, ClickHouseError.
    """
    values = 0
    waiting: list[tuple[Any, ...]] = []
    rows = _living(_rows(client, books))
    while part := await asyncio.to_thread(lambda: list(islice(rows, ROWS_AT_ONCE))):
        for command, count in _commands(part):
            waiting.append(command)
            values += count
            if len(waiting) >= COMMANDS_AT_ONCE:
                await _write(redis, books, claimed, waiting)
                waiting = []
        if waiting:
            await _write(redis, books, claimed, waiting)
            waiting = []
        progressed(values)
    return values


async def finish(redis: Redis, books: Books, claimed: str, mark: Watermark, now_ms: int) -> None:
    """Write the watermark: from here on these are the partition's books.

    Raises Overtaken, RedisError.
    """
    values = mark._asdict() | {"at_ms": now_ms, "begun": now_ms, "checkpoint": mark.slot}
    given = [claimed, ALL_TRACKED, *(each for pair in values.items() for each in pair)]
    [written] = await ask(redis, [("EVAL", _FINISH, 2, books.watermark, books.changed, *given)])
    if not written:
        raise Overtaken(books)


async def _write(
    redis: Redis, books: Books, claimed: str, commands: Sequence[tuple[Any, ...]]
) -> None:
    [found] = await ask(redis, [("HGET", books.watermark, _CLAIM)])
    if found != claimed.encode():
        raise Overtaken(books)
    await ask(redis, commands)


def _rows(client: Client, books: Books) -> Iterator[Row]:
    """Yield the rows of a partition by key and kind, what voids others before the others."""
    key, kind, field = b"", _RESET - 1, b""
    while True:
        parameters = books.parameters | {
            "key": key.decode(),
            "kind": kind,
            "field": field.hex(),
            "limit": ROWS_AT_ONCE,
        }
        formats: dict[str, str | dict[str, str]]
        formats = {"key": "bytes", "field": "bytes", "value": "bytes"}
        found = client.query(_ROWS, parameters=parameters, column_formats=formats).result_rows
        yield from found  # type: ignore[misc]
        if len(found) < ROWS_AT_ONCE:
            return
        key, kind, field, _, _ = found[-1]


def _living(rows: Iterable[Row]) -> Iterator[Row]:
    """Leave out values that were voided after they were written, and what voids them."""
    reset_slot = 0
    current: bytes | None = None
    gone_slot = 0
    below = float("-inf")
    trim_slot = 0
    for row in rows:
        key, kind, _, value, slot = row
        if kind == _RESET:
            reset_slot = slot
            continue
        if key != current:
            current, gone_slot, trim_slot, below = key, 0, 0, float("-inf")
        if slot < reset_slot:
            continue
        if kind == _GONE:
            gone_slot = slot
        elif kind == _TRIMMED:
            below, trim_slot = float(value), slot
        elif slot >= gone_slot and not (slot < trim_slot and float(value) < below):
            yield row


def _commands(rows: Iterable[Row]) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Yield commands that write rows, and how many values each has."""
    name, key, parts, count = "", b"", [], 0  # type: str, bytes, list[bytes], int
    for row_key, kind, field, value, _ in rows:
        if kind == _STRING:
            yield ("SET", row_key, value), 1
            continue
        if kind == _BIT:
            yield ("SETBIT", row_key, field, value), 1
            continue
        command = _ADDS[kind]
        if parts and ((command, row_key) != (name, key) or count >= VALUES_AT_ONCE):
            yield (name, key, *parts), count
            parts, count = [], 0
        name, key = command, row_key
        if kind == _HASH:
            parts += (field, value)
        else:
            parts += (field,) if kind == _SET else (value, field)
        count += 1
    if parts:
        yield (name, key, *parts), count
