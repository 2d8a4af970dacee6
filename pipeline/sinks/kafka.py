"""Messages to Kafka: a batch is written when the broker has acknowledged all of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, Producer
from confluent_kafka import Message as Delivered

_POLL_S: Final = 0.05
_FULL_PAUSE_S: Final = 0.005
_FLUSH_S: Final = 3.0


class SinkError(Exception):
    """The broker refused a message for good; the text gives its reason."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message and the partition it belongs to."""

    topic: str
    partition: int
    key: bytes
    value: bytes


class KafkaSink:
    """A producer whose `write` returns once everything is acknowledged, in order.

    An outage of the broker is waited for: librdkafka retries without limit and without
    changing the order (idempotence), so the caller holds and nothing is lost.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._producer = Producer({**config, "message.timeout.ms": 0})
        self._stopping = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="kafka-sink", daemon=True)
        self._poller.start()

    async def write(self, messages: Sequence[Message]) -> None:
        """Send messages and wait until the broker has them all.

        Raises SinkError where the broker refuses one (too large, no rights, no such topic).
        """
        if not messages:
            return
        batch = _Batch(asyncio.get_running_loop(), len(messages))
        for message in messages:
            while True:
                try:
                    self._producer.produce(
                        message.topic,
                        message.value,
                        message.key,
                        message.partition,
                        on_delivery=batch.delivered,
                    )
                    break
                except BufferError:  # the local queue is full: the broker is behind
                    await asyncio.sleep(_FULL_PAUSE_S)
        await batch.done

    def close(self) -> None:
        """Send what is left and stop; what the broker does not take within 3 s is given up."""
        self._producer.flush(_FLUSH_S)
        self._stopping.set()
        self._poller.join()

    def _poll(self) -> None:
        while not self._stopping.is_set():
            self._producer.poll(_POLL_S)


class _Batch:
    """Counts acknowledgements in the polling thread; tells the event loop once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, size: int) -> None:
        self.done: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._open = size
        self._error: KafkaError | None = None

    def delivered(self, error: KafkaError | None, message: Delivered) -> None:
        self._open -= 1
        self._error = self._error or error
        if not self._open:
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if self.done.done():  # the caller was cancelled meanwhile
            return
        if self._error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(SinkError(self._error.str()))
