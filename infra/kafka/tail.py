"""`soltape tail`: the records of one of our topics as JSON lines."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click
import orjson
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from infra import settings
from infra.kafka import client
from infra.kafka.topics import TopicsWrong, end_offsets
from infra.settings import Settings
from schemas import codec, topics
from schemas.times import DAY_MS, HOUR_MS
from schemas.topics import Topic

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": HOUR_MS, "d": DAY_MS}
# The lists of a batch by what its topic is keyed by, and the field that names the key in each.
_KEYED: Final[Mapping[str, Mapping[str, str]]] = {
    "mint": {"events": "mint", "balances": "mint"},
    "wallet": {
        "events": "wallet",
        "balances": "owner",
        "movements": "wallet",
        "funding_payments": "wallet",
        "perp_changes": "wallet",
        "perp_gaps": "wallet",
    },
    "account": {"accounts": "address", "covered": "address"},
    "slot": {},
    "signature": {},
}
_SILENCE_S: Final = 5.0  # without a record; then the broker is asked whether it is there


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin: at an offset (of each partition), at a time, at the beginning or the end."""

    offset: int | None = None
    time_ms: int | None = None
    is_beginning: bool = False


@dataclass(frozen=True, slots=True)
class Missed:
    """Records that the broker has deleted, of those that were asked for."""

    partition: int
    first: int
    last: int
    is_certain: bool = True  # False: they may all be from before the time that was asked for

    def __str__(self) -> str:
        offsets = f"{self.first}" + (f" to {self.last}" if self.last > self.first else "")
        said = f"partition {self.partition} offset {offsets}: the broker has deleted it"
        return said + ("" if self.is_certain else ", and some may be from after the time of --from")


class StartType(click.ParamType):
    """`now`, `beginning`, an offset, a time, or how long ago."""

    name = "start"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Start:
        """Return the start that the text names."""
        if isinstance(value, Start):
            return value
        if value == "now":
            return Start()
        if value == "beginning":
            return Start(is_beginning=True)
        if value.isdecimal():
            return Start(offset=int(value))
        if ago := re.fullmatch(r"(\d+)(ms|s|m|h|d)", value):
            began_ms = int(time.time() * 1000) - int(ago[1]) * _UNITS_MS[ago[2]]
            return Start(time_ms=max(began_ms, 0))
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is none of: now, beginning, an offset (1500), "
                "a time (2026-01-31T12:00:00Z), how long ago (30s, 5m, 2h)",
                param,
                ctx,
            )
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return Start(time_ms=max(int(moment.timestamp() * 1000), 0))


class TopicType(click.ParamType):
    """The name of one of our topics."""

    name = "topic"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Topic:
        """Return the topic of that name."""
        if isinstance(value, Topic):
            return value
        known = topics.by_name()
        if value not in known:
            self.fail(f"no topic {value!r}. The topics are:\n{_listing()}", param, ctx)
        return known[value]


def _listing() -> str:
    return "\n".join(f"  {topic.name:<24}{topic.about}" for topic in topics.ALL)


@click.command(epilog=f"\b\nTopics:\n{_listing()}")
@click.argument("topic", type=TopicType())
@click.option(
    "--from",
    "start",
    type=StartType(),
    default="now",
    show_default=True,
    metavar="WHERE",
    help="now, beginning, an offset, a time (2026-01-31T12:00:00Z) or how long ago (30s, 5m, 2h).",
)
@click.option("--limit", type=click.IntRange(min=1), help="Stop after so many lines.")
@click.option("--partition", type=click.IntRange(min=0), help="Read one partition only.")
@click.option("--key", help="Only what is of this mint, wallet, account, slot or signature.")
@click.option("--no-follow", is_flag=True, help="Stop at what is the end now.")
@click.option("--position", is_flag=True, help="Put partition, offset and timestamp_ms first.")
@click.pass_context
def tail(
    ctx: click.Context,
    topic: Topic,
    start: Start,
    limit: int | None,
    partition: int | None,
    key: str | None,
    no_follow: bool,
    position: bool,
) -> None:
    """Print a topic as JSON lines.

    Prints what comes from now on, or from an earlier point with --from, until Ctrl-C. Order
    holds within a partition. A record that cannot be read is reported on stderr with its place,
    the rest goes on, and the exit status is 1. So are records that the broker deleted before they
    were printed: from before the first offset that it keeps, or where the reader of the lines is
    slower than the topic grows.
    """
    # What fails is reported below. asyncio reports requests that aiokafka has given up as well.
    for library in ("aiokafka", "asyncio"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    reading = _print(
        settings.load(), topic, start, limit, _partitions(topic, partition, key), key,
        follow=not no_follow, position=position,
    )  # fmt: skip
    try:
        lacking = asyncio.run(reading)
    except KeyboardInterrupt:
        ctx.exit(130)
    except (client.KafkaUnreachable, KafkaError, TopicsWrong, TimeoutError) as error:
        raise click.ClickException(str(error)) from None
    if lacking:
        ctx.exit(1)


def _partitions(topic: Topic, partition: int | None, key: str | None) -> list[int]:
    if partition is not None and partition >= topic.partitions:
        raise click.UsageError(f"{topic.name} has partitions 0 to {topic.partitions - 1}")
    if key is not None:
        home = topic.partition(key)
        if partition not in (None, home):
            raise click.UsageError(f"{topic.key} {key} lives in partition {home}")
        return [home]
    return list(range(topic.partitions)) if partition is None else [partition]


async def _print(
    settings: Settings,
    topic: Topic,
    start: Start,
    limit: int | None,
    partitions: list[int],
    key: str | None,
    *,
    follow: bool,
    position: bool,
) -> int:
    """Write the lines; return how often something is reported that they lack."""
    written = lacking = 0
    # Left to the garbage collector, the consumer would not be closed.
    async with aclosing(_records(settings, topic, start, partitions, follow)) as records:
        async for record in records:
            if isinstance(record, Missed):
                lacking += 1
                click.echo(record, err=True)
                continue
            try:
                values = codec.message_to_json(codec.parse(topic, record.value))
            except ValueError as error:
                lacking += 1
                place = f"partition {record.partition} offset {record.offset}"
                click.echo(f"{place}: {error}", err=True)
                continue
            if key is not None and not _concerns(values, topic, key):
                continue
            if position:
                values = {
                    "partition": record.partition,
                    "offset": record.offset,
                    "timestamp_ms": record.timestamp,
                    **values,
                }
            sys.stdout.buffer.write(orjson.dumps(values) + b"\n")
            sys.stdout.buffer.flush()
            written += 1
            if written == limit:
                break
    return lacking


def _concerns(values: dict[str, Any], topic: Topic, key: str) -> bool:
    """Whether a record is of a key; of a batch, what is of other keys is removed."""
    if "first_slot" in values:  # a gap is of all of its slots
        return key.isdecimal() and values["first_slot"] <= int(key) <= values["last_slot"]
    lists = {name: field for name, field in _KEYED[topic.key].items() if name in values}
    if not lists:
        return str(values.get(topic.key)) == key
    for name, field in lists.items():
        values[name] = [item for item in values[name] if str(item.get(field)) == key]
    return any(values[name] for name in lists)


async def _records(
    settings: Settings, topic: Topic, start: Start, partitions: list[int], follow: bool
) -> AsyncGenerator[ConsumerRecord | Missed, None]:
    every_end = await end_offsets(settings, topic)
    if beyond := [number for number in partitions if number not in every_end]:
        raise TopicsWrong(f"{topic.name} on this broker has no partition {beyond[0]}")
    ends = {TopicPartition(topic.name, number): every_end[number] for number in partitions}
    # Of an offset that the log does not hold it raises OffsetOutOfRangeError.
    config = client.aiokafka_consumer(settings) | {"auto_offset_reset": "none"}
    consumer = AIOKafkaConsumer(**config)
    await consumer.start()
    try:
        consumer.assign(list(ends))
        firsts = await consumer.beginning_offsets(list(ends))
        for partition, offset in (await _offsets(consumer, start, firsts, ends)).items():
            consumer.seek(partition, offset)
            is_first = offset == firsts[partition]
            if is_first and (missed := _missed_before(start, partition, offset, ends[partition])):
                yield missed
            if not follow and offset >= ends[partition]:
                del ends[partition]
        heard = time.monotonic()
        while follow or ends:
            try:
                fetched = await consumer.getmany(timeout_ms=200)
            except OffsetOutOfRangeError as error:
                for missed in await _go_on(consumer, error.args[0]):
                    if follow or missed.first < every_end[missed.partition]:
                        yield missed
                continue
            for partition, records in fetched.items():
                for record in records:
                    if not follow and record.offset >= every_end[partition.partition]:
                        break
                    if start.time_ms is None or record.timestamp >= start.time_ms:
                        yield record
            if not follow:  # the end may be a transaction's marker, which is no record
                for partition in list(ends):
                    if await consumer.position(partition) >= every_end[partition.partition]:
                        del ends[partition]
            if fetched:
                heard = time.monotonic()
            elif time.monotonic() - heard > _SILENCE_S:
                await client.metadata(settings)  # raises if nobody is there
                heard = time.monotonic()
    finally:
        await asyncio.sleep(0)  # aiokafka's stop fails on a task of its own that has not begun
        with suppress(asyncio.CancelledError):  # of its own task, if the broker has gone
            await consumer.stop()


async def _offsets(
    consumer: AIOKafkaConsumer,
    start: Start,
    firsts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    if start.is_beginning:
        return firsts
    if start.offset is not None:
        return {place: min(max(start.offset, firsts[place]), end) for place, end in ends.items()}
    if start.time_ms is None:
        return dict(ends)
    found = await consumer.offsets_for_times(dict.fromkeys(ends, start.time_ms))
    return {
        # No record is that late: None; some brokers say -1 for the time instead.
        place: found[place].offset
        if found.get(place) is not None and found[place].timestamp >= 0
        else end
        for place, end in ends.items()
    }


def _missed_before(start: Start, place: TopicPartition, first: int, end: int) -> Missed | None:
    """Return what a start asks for of the offsets before the log's first one."""
    if start.offset is not None and start.offset < first:
        return Missed(place.partition, start.offset, first - 1)
    if start.time_ms is not None and 0 < first < end:  # the first record there is is from after it
        return Missed(place.partition, 0, first - 1, is_certain=False)
    return None


async def _go_on(consumer: AIOKafkaConsumer, gone: dict[TopicPartition, int]) -> list[Missed]:
    """Have the consumer go on where the log begins now; return what it missed for that."""
    firsts = await consumer.beginning_offsets(list(gone))
    for place, first in firsts.items():
        consumer.seek(place, first)
    # A topic that was made anew begins before.
    return [
        Missed(place.partition, offset, firsts[place] - 1)
        for place, offset in gone.items()
        if firsts[place] > offset
    ]
