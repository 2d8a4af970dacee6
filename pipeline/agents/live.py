"""Agent `live`: from batches of the live lane to one message an event on the public topics."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import faust
import structlog
from google.protobuf.message import DecodeError

from pipeline.agents import metrics
from pipeline.agents.progress import Progress
from pipeline.sinks.kafka import KafkaSink, Message
from schemas import topics
from schemas.proto.tape_pb2 import LiveBatch, Undecoded
from schemas.topics import Topic

log = structlog.get_logger(__name__)

GROUP: Final = "live"
MAX_UNDECODED_BYTES: Final = 256 << 10


class Poison(Exception):  # noqa: N818 - what it is
    """A message of the live lane that is no batch of events; the text says why."""


def parse(value: bytes | None) -> LiveBatch:
    """Return the batch; raises Poison.

    Protobuf reads many a wrong byte string as a message of fields it does not know, and the
    publisher sends no empty batches: one without events is none of ours.
    """
    if value is None:
        raise Poison("no value")
    try:
        batch = LiveBatch.FromString(value)
    except DecodeError as error:
        raise Poison(str(error)) from None
    if not batch.events:
        raise Poison("no LiveBatch: it holds no events")
    return batch


def public_messages(batch: LiveBatch) -> Iterator[Message]:
    """Yield the public messages of a batch, in its order."""
    for event in batch.events:
        match event.WhichOneof("event"):
            case "swap":
                yield _message(topics.SWAPS, event.swap.mint, event.swap)
            case "creation":
                yield _message(topics.CREATIONS, event.creation.mint, event.creation)
            case "slot_status":
                status = event.slot_status
                yield _message(topics.SLOT_STATUS, str(status.slot), status)


def undecoded(value: bytes | None, place: str, reason: str) -> Message:
    """Return the record that tape-undecoded keeps of a poison message."""
    record = Undecoded(
        reason=Undecoded.MALFORMED,
        detail=f"{place}: {reason}",
        data=(value or b"")[:MAX_UNDECODED_BYTES],
    )
    partition = topics.UNDECODED.partition(record.signature)
    return Message(topics.UNDECODED.name, partition, None, record.SerializeToString())


def attach(
    app: faust.App, sink: KafkaSink, progress: Progress, stop: Callable[[str], None]
) -> None:
    """Put the agent on an app; `stop` ends the process for a reason that it cannot go on with."""
    # acks=False: `progress` commits, not Faust.
    source = app.topic(topics.LIVE.name, key_serializer="raw", value_serializer="raw", acks=False)

    @app.agent(source, name=GROUP, concurrency=1)
    async def live(stream: Any) -> None:
        async for event in stream.events():
            done = progress.begin(event.message)
            try:
                await _publish(event.message, event.value, sink, done)
            except Exception as error:
                stop(f"{GROUP}: {type(error).__name__}: {error}")
                await asyncio.get_running_loop().create_future()  # no next message, until the end


async def _publish(
    source: Any, value: bytes | None, sink: KafkaSink, done: Callable[[], None]
) -> None:
    try:
        batch = parse(value)
    except Poison as error:
        place = f"{source.topic}[{source.partition}]@{source.offset}"
        metrics.POISON.labels(source.topic).inc()
        log.warning("poison message put aside", place=place, reason=str(error))
        await sink.send([undecoded(value, place, str(error))], done)
        return
    messages = list(public_messages(batch))
    await sink.send(messages, partial(_acked, batch, messages, done))


def _acked(batch: LiveBatch, messages: list[Message], done: Callable[[], None]) -> None:
    done()
    for topic, count in Counter(message.topic for message in messages).items():
        metrics.PUBLISHED.labels(topic).inc(count)
    metrics.LAG_MS.labels(GROUP).observe(time.time() * 1000 - batch.sent_ms)
    last = batch.events[-1]
    if kind := last.WhichOneof("event"):
        metrics.LAST_SLOT.labels(GROUP).set(getattr(getattr(last, kind), "slot", 0))


def _message(topic: Topic, key: str, value: Any) -> Message:
    return Message(topic.name, topic.partition(key), key.encode(), value.SerializeToString())
