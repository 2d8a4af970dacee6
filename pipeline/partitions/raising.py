"""Raises the partitions of the settled lanes, from a count to a multiple of it.

Up to the last record of the new lanes everything is written beside the old world, which stays
whole: its roles can be started again as before. That record is the raise (the lanes of the
new count are the tape's from then on); what comes after it is carried out by the same command,
however often it is interrupted, and no role starts before it is done.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

import orjson
from clickhouse_connect.driver.client import Client
from confluent_kafka import KafkaError, KafkaException
from redis.asyncio import Redis

from infra.kafka import client as kafka
from infra.kafka import topics
from infra.redis.client import ask
from infra.redis.families import family_of
from infra.settings import Settings
from pipeline.agents.settled import restore
from pipeline.agents.settled.checkpoint_rows import Rows
from pipeline.agents.settled.restore import Books
from pipeline.partitions import lanes
from pipeline.partitions.refile import address_of, refiled
from pipeline.sinks.clickhouse import ClickHouseSink
from pipeline.sinks.redis import Watermark, read_watermark
from pipeline.status import GROUPS
from schemas import redis_keys
from schemas.away import BITS
from schemas.redis_keys import AWAY, MARKETS_AWAY, SETTLED_PARTITIONS
from schemas.rows import BOOK_CHECKPOINTS, COLD_POSITIONS, Row
from schemas.topics import SETTLED, Topic, count_of_place, use_settled_partitions

ALL_GROUPS: Final = ("live", *GROUPS)
RAISED: Final = {group: lane for group, lane in GROUPS.items() if lane in SETTLED}
"""Groups whose lanes get more partitions: that of accounts has its own number."""
_RAISED: Final = f"agent_group IN {tuple(RAISED)}"
ROWS_AT_ONCE: Final = 50_000
KEYS_AT_ONCE: Final = 500
_TAG: Final = re.compile(rb"\{([mw])(\d+)\}")
_MUTATION: Final = {"mutations_sync": 2}


class CannotRaise(Exception):
    """The partitions cannot be raised now; the text says why, and what to do."""


class Stores(NamedTuple):
    """The systems that a raise works on."""

    settings: Settings
    redis: Redis
    client: Client
    sink: ClickHouseSink


Progress = Callable[[str], None]


class Plan(NamedTuple):
    """What a raise has to do."""

    found: int  # the count that the tape has
    slot: int | None = None  # to raise it at; None: it was raised, and the stores lack the rest
    is_done: bool = False


async def plan(stores: Stores, count: int) -> Plan:
    """Return what there is to do; raises CannotRaise, LanesNotReady, and as the systems do."""
    found = await topics.settled_partitions(stores.settings)
    if found is None:
        raise CannotRaise(f"there is no tape yet: set SETTLED_PARTITIONS={count} and begin")
    if found > count:
        raise CannotRaise(f"the settled lanes have {found} partitions: there is no way back")
    if found == count and await _is_done(stores, count):
        return Plan(found, is_done=True)
    await _require_no_agents(stores.settings)
    if found == count:
        return Plan(found)
    silent_s = await lanes.live_silence_s(stores.settings)
    if silent_s < stores.settings.ingest_takeover_s:
        raise CannotRaise(f"ingest wrote {silent_s:.1f} s ago: stop it, its standby first")
    use_settled_partitions(found)
    await _require_room(stores.redis, count - found)
    slot = await lanes.last_slot(stores.settings, found)
    await _read_marks(stores.redis, found, slot)
    return Plan(found, slot)


async def _is_done(stores: Stores, count: int) -> bool:
    """Return whether all of the stores have the books of a count."""
    in_redis = await stores.redis.get(SETTLED_PARTITIONS.make())
    begun = await asyncio.to_thread(restore.begun_partitions, stores.client)
    return in_redis == str(count).encode() and begun == count


async def prepare(
    stores: Stores, old_count: int, count: int, slot: int, progress: Progress
) -> None:
    """Do all up to the raise itself, with that. Raises as `plan` does, and CannotSplit."""
    progress("fencing ingest")
    async with lanes.fenced(stores.settings) as producer:
        await _split_books(stores, old_count, count, slot, progress)
        progress(f"writing the new lanes: with their last record there are {count} partitions")
        await lanes.begin(stores.settings, producer, old_count, count, slot)


async def _split_books(
    stores: Stores, old_count: int, count: int, slot: int, progress: Progress
) -> None:
    marks = await _read_marks(stores.redis, old_count, slot)
    progress("removing what an earlier attempt left in ClickHouse")
    await asyncio.to_thread(
        _delete,
        stores.client,
        BOOK_CHECKPOINTS.name,
        f"partition >= {count} AND partition < {2 * count} AND {_RAISED}",
    )
    for group, lane in RAISED.items():
        progress(f"writing the books of {group} to ClickHouse")
        for partition in range(old_count):
            old, new = lane.with_partitions(old_count), lane.with_partitions(count)
            await _refile(stores, group, old, new, partition, slot)
    if await _read_marks(stores.redis, old_count, slot) != marks:
        raise CannotRaise("an agent has written meanwhile: stop all agents, and run this again")


async def complete(stores: Stores, count: int, progress: Progress) -> None:
    """Do what comes after the raise; may be called again at any time."""
    use_settled_partitions(count)
    # No number: roles of neither count start, or go on, before all is in its place.
    await stores.redis.set(SETTLED_PARTITIONS.make(), f"being raised to {count} partitions")
    progress("moving the positions that rest in ClickHouse")
    await asyncio.to_thread(_move_cold, stores.client, count)
    progress("removing the former partitions from Redis")
    await _clear(stores.redis, count)
    for group, lane in RAISED.items():
        progress(f"filling Redis with the books of {group}")
        for partition in range(count):
            await _fill(stores, Books.of(group, lane, partition))
    progress("removing the former partitions from ClickHouse")
    await asyncio.to_thread(
        _delete,
        stores.client,
        BOOK_CHECKPOINTS.name,
        f"partition < {count} AND kind != 'begun' AND {_RAISED}",
    )
    begun: list[Row] = [
        (group, lane.place(partition), b"", "begun", b"", b"", 0, 0)
        for group, lane in RAISED.items()
        for partition in range(count)
    ]
    await stores.sink.insert(BOOK_CHECKPOINTS.name, begun, uuid.uuid4().hex)
    await stores.redis.set(SETTLED_PARTITIONS.make(), count)


# Before the raise.


async def _require_no_agents(settings: Settings) -> None:
    names = [f"soltape-{group}" for group in ALL_GROUPS]
    running = await asyncio.to_thread(_members, settings, names)
    if running:
        raise CannotRaise(
            f"agents run ({', '.join(running)}): stop them. One that was killed counts as running "
            f"for KAFKA_SESSION_TIMEOUT_S ({settings.kafka_session_timeout_s:g} s)"
        )


def _members(settings: Settings, groups: list[str]) -> list[str]:
    """Return the consumer groups that have members."""
    admin = kafka.admin(settings)  # held until all have answered
    answers = admin.describe_consumer_groups(groups, request_timeout=kafka.REQUEST_TIMEOUT_S)
    running = []
    for group, answer in answers.items():
        try:
            if answer.result().members:
                running.append(group)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise
    return running


async def _require_room(redis: Redis, more: int) -> None:
    """Raise CannotRaise where Redis has no room for what each new partition has of its own."""
    info = await redis.info("memory")
    used, most = info["used_memory"], info["maxmemory"]
    needed = more * len((AWAY, MARKETS_AWAY)) * BITS // 8
    if most and used + needed > most:
        raise CannotRaise(
            f"Redis uses {used >> 20:,} of {most >> 20:,} MiB, and {more} more partitions take "
            f"{needed >> 20:,} MiB for their bitmaps: raise its maxmemory first"
        )


async def _read_marks(redis: Redis, count: int, slot: int) -> dict[str, list[Any]]:
    """Return the watermarks of all books; raises CannotRaise where one is not at the slot."""
    found: dict[str, list[Any]] = {}
    for group, lane in RAISED.items():
        old = lane.with_partitions(count)
        for partition in range(count):
            books = Books.of(group, old, partition)
            mark = await read_watermark(redis, books.watermark)
            if mark is None:
                raise CannotRaise(
                    f"Redis has no books of {group} {partition}: run `soltape rebuild {group}`, "
                    "then the agents"
                )
            if mark.slot != slot:
                raise CannotRaise(
                    f"{group} {partition} is at slot {mark.slot}, the lane ends on slot {slot}: "
                    "run the agents until they have caught up (`soltape status`), then stop them"
                )
            if await redis.exists(books.quarantine):
                raise CannotRaise(
                    f"{group} {partition} leaves out a wallet or mint of which a stored value "
                    f"cannot be read: run `soltape rebuild {group}`, then the agents"
                )
            found[books.watermark] = await redis.hmget(books.watermark, ["offset", "at_ms"])
    return found


async def _refile(
    stores: Stores, group: str, old: Topic, new: Topic, partition: int, slot: int
) -> None:
    """Write the books of an old partition to ClickHouse, as those of its new ones."""
    books = Books.of(group, old, partition)
    mark = await read_watermark(stores.redis, books.watermark)
    assert mark is not None
    rows = Rows(group, books.place, slot)
    await rows.read_all(stores.redis, books.tag)
    # Offsets are those of another topic: the new one is read from its first message on.
    rows.add("watermark", b"", value=orjson.dumps(Watermark(slot, -1, mark.time_ms)._asdict()))
    made = refiled(rows.rows, old, partition, new)
    while part := await asyncio.to_thread(_next, made):
        await stores.sink.insert(BOOK_CHECKPOINTS.name, part, uuid.uuid4().hex)


def _next(rows: Iterator[Row]) -> list[Row]:
    return list(islice(rows, ROWS_AT_ONCE))


# After it.


def _move_cold(client: Client, count: int) -> None:
    columns = ", ".join(name for name in COLD_POSITIONS.columns if name != "partition")
    client.command(
        f"INSERT INTO {COLD_POSITIONS.name} ({columns}, partition) "  # noqa: S608
        f"SELECT {columns}, toUInt8({count} + CRC32(wallet) % {count}) "
        f"FROM {COLD_POSITIONS.name} WHERE partition < {count}"
    )
    _delete(client, COLD_POSITIONS.name, f"partition < {count}")


def _delete(client: Client, table: str, where: str) -> None:
    client.command(f"ALTER TABLE {table} DELETE WHERE {where}", settings=_MUTATION)


async def _clear(redis: Redis, count: int) -> None:
    """Remove all keys of former partitions; what is no books moves on: names of tokens."""
    async for names in _former_keys(redis, count):
        moved = [(name, to) for name in names if (to := _moves_to(name)) is not None]
        asked = [command for name, _ in moved for command in (("DUMP", name), ("PTTL", name))]
        answers = await ask(redis, asked) if asked else []
        pipe = redis.pipeline(transaction=False)
        for (_, to), data, ttl_ms in zip(moved, answers[::2], answers[1::2], strict=True):
            if data is not None:  # it has not expired
                pipe.restore(to, max(0, ttl_ms), data)
        for answer in await pipe.execute(raise_on_error=False):
            if isinstance(answer, Exception) and not str(answer).startswith("BUSYKEY"):
                raise answer  # a busy key was moved already
        await ask(redis, [("UNLINK", name) for name in names])  # of several nodes in a cluster


async def _former_keys(redis: Redis, count: int) -> AsyncIterator[list[bytes]]:
    names: list[bytes] = []
    async for name in redis.scan_iter("*{*}*", count=1_000):
        found = _TAG.search(name)
        if found is None or count_of_place(int(found[2])) >= count or family_of(name) is None:
            continue
        names.append(name)
        if len(names) >= KEYS_AT_ONCE:
            yield names
            names = []
    if names:
        yield names


def _moves_to(name: bytes) -> str | None:
    if family_of(name) is not redis_keys.METADATA:
        return None
    mint = address_of(name)
    return redis_keys.METADATA.make(tag=redis_keys.mint_tag(mint), mint=mint)


async def _fill(stores: Stores, books: Books) -> None:
    mark = await asyncio.to_thread(restore.checkpoint_of, stores.client, books)
    if mark is None:
        raise CannotRaise(
            f"ClickHouse has no checkpoint of {books.group} {books.place}: it lacks what the raise "
            "wrote, as one from an older backup does. Restore a backup from after the raise"
        )
    if await read_watermark(stores.redis, books.watermark) is not None:
        return
    claimed = await restore.claim(stores.redis, books)
    await restore.restore(stores.redis, stores.client, books, claimed, lambda _: None)
    await restore.finish(stores.redis, books, claimed, mark, time.time_ns() // 1_000_000)
