"""Messages to Kafka in order, each batch reported when the broker has acknowledged all of it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered

log = structlog.get_logger(__name__)

MAX_UNACKED_MESSAGES: Final = 20_000
_POLL_S: Final = 0.05
_SILENT: Final = logging.getLogger(f"{__name__}.librdkafka")
_SILENT.disabled = True  # it writes every attempt to connect; we say when Kafka goes and comes

PRODUCER: Final[dict[str, Any]] = {
    "logger": _SILENT,
    "linger.ms": 1,
    "message.timeout.ms": 0,  # for ever: giving up would be a hole in the topic
    "queue.buffering.max.messages": 0,  # unbounded there: `send` keeps the bound
}


class SinkError(Exception):
    """The broker refused a message for good; the text gives the topic and the reason."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message and the partition it belongs to."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes


class KafkaSink:
    """A producer that keeps the order of each partition and waits out an outage of the broker.

    librdkafka retries without limit and without changing the order (idempotence), so nothing is
    lost while the process lives; what it calls final is handed to `failed`, once.
    """

    def __init__(self, config: Mapping[str, Any], failed: Callable[[SinkError], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._failed = failed
        self._unacked = 0
        self._room = asyncio.Event()
        self._room.set()
        self._down = False
        self._broken = False
        self._closing = False
        self._producer = Producer({**config, **PRODUCER, "error_cb": self._on_error})
        threading.Thread(target=self._poll, name="kafka-sink", daemon=True).start()

    async def send(self, messages: Sequence[Message], acked: Callable[[], None]) -> None:
        """Hand messages over; `acked` is called in the event loop when the broker has them all.

        Returns as soon as there is room for more. Raises SinkError for a message that cannot be
        sent at all (too large), and then `acked` is never called.
        """
        batch = _Batch(len(messages), acked, self._settled)
        if not messages:
            acked()
            return
        self._unacked += len(messages)
        for message in messages:
            try:
                self._producer.produce(
                    message.topic,
                    message.value,
                    message.key,
                    message.partition,
                    on_delivery=batch.delivered,
                )
            except KafkaException as error:
                raise SinkError(f"{message.topic}: {error.args[0].str()}") from None
        if self._unacked >= MAX_UNACKED_MESSAGES:
            self._room.clear()
        await self._room.wait()

    async def close(self, within_s: float) -> int:
        """Take no more, and return how many messages were not acknowledged in time.

        `send` does not return from here on: its callers wait for the end of the process.
        """
        self._closing = True
        self._room.clear()
        await asyncio.to_thread(self._producer.flush, within_s)
        await asyncio.sleep(0.01)  # what the polling thread has heard reaches the event loop
        return self._unacked

    def _poll(self) -> None:
        while True:
            self._producer.poll(_POLL_S)

    def _settled(self, batch: _Batch) -> None:
        """Hear from the polling thread that all of a batch has an answer."""
        self._loop.call_soon_threadsafe(self._settle, batch)

    def _settle(self, batch: _Batch) -> None:
        self._unacked -= batch.size
        if self._unacked < MAX_UNACKED_MESSAGES and not self._closing:
            self._room.set()
        if batch.error is not None:
            self._fail(SinkError(batch.error))
            return
        if self._down:
            self._down = False
            log.info("Kafka is back")
        batch.acked()

    def _on_error(self, error: KafkaError) -> None:
        """Hear of librdkafka's state from the polling thread."""
        if error.fatal():
            self._loop.call_soon_threadsafe(self._fail, SinkError(error.str()))
        elif error.code() == KafkaError._ALL_BROKERS_DOWN and not self._down:
            self._down = True
            log.warning("Kafka is not reachable: holding what is unacknowledged, retrying")

    def _fail(self, error: SinkError) -> None:
        if not self._broken:
            self._broken = True
            self._failed(error)


class _Batch:
    """Counts the answers to its messages, in the polling thread."""

    __slots__ = ("_left", "_settled", "acked", "error", "size")

    def __init__(
        self, size: int, acked: Callable[[], None], settled: Callable[[_Batch], None]
    ) -> None:
        self.size = size
        self.acked = acked
        self.error: str | None = None
        self._left = size
        self._settled = settled

    def delivered(self, error: KafkaError | None, message: Delivered) -> None:
        if error is not None and self.error is None:
            self.error = f"{message.topic()}: {error.str()}"
        self._left -= 1
        if not self._left:
            self._settled(self)
