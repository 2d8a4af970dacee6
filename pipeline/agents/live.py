"""Agent `live`: from batches of the live lane to one message an event on the public topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import faust
import structlog
from google.protobuf.message import DecodeError
from prometheus_client import Counter, Gauge, Histogram

from pipeline.sinks.kafka import KafkaSink, Message
from schemas import topics
from schemas.proto.tape_pb2 import LiveBatch
from schemas.topics import Topic

log = structlog.get_logger(__name__)

TAKE_MESSAGES: Final = 256
TAKE_WITHIN_S: Final = 0.005

PUBLISHED = Counter("soltape_agents_live_published_total", "Messages acknowledged", ["topic"])
POISON = Counter("soltape_agents_live_poison_total", "Batches that could not be read")
LAG_MS = Histogram(
    "soltape_agents_live_lag_ms",
    "From the live lane to the public topic, acknowledged",
    buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000),
)
LAST_SENT_MS = Gauge("soltape_agents_live_sent_ms", "When the last batch was put on the live lane")


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


def _message(topic: Topic, key: str, value: Any) -> Message:
    return Message(topic.name, topic.partition(key), key.encode(), value.SerializeToString())


def parse(values: Iterable[bytes]) -> Iterator[LiveBatch]:
    """Parse batches; one that cannot be read is counted and logged, and the rest goes on."""
    for value in values:
        try:
            yield LiveBatch.FromString(value)
        except DecodeError as error:
            POISON.inc()
            log.warning("unreadable batch", topic=topics.LIVE.name, reason=str(error))


def attach(app: faust.App, sink: KafkaSink, stop: Callable[[str], None]) -> None:
    """Put the agent on an app.

    `stop` ends the process before Faust commits what was not written: it is called where
    the sink gives up for good.
    """
    source = app.topic(topics.LIVE.name, key_serializer="raw", value_serializer="raw")

    @app.agent(source, name="live", concurrency=1)
    async def live(stream: Any) -> None:
        async for values in stream.take(TAKE_MESSAGES, within=TAKE_WITHIN_S):
            batches = list(parse(values))
            messages = [message for batch in batches for message in public_messages(batch)]
            try:
                await sink.write(messages)
            except Exception as error:  # Faust would commit past it: nothing may go on
                stop(f"live: {error}")
                raise
            for message in messages:
                PUBLISHED.labels(message.topic).inc()
            now_ms = time.time() * 1000
            for batch in batches:
                LAG_MS.observe(now_ms - batch.sent_ms)
                LAST_SENT_MS.set(batch.sent_ms)
