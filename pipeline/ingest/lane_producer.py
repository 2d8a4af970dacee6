"""The one producer of a lane: a new one fences the older, and every write is checked for it.

Kafka binds a lane's name (its transactional id) to an epoch; `take_over` begins the next one, and
from its return on the broker refuses what older producers of the lane send, on every partition.
That holds only within transactions: outside of them a partition learns of an epoch with the first
batch that carries it. Atomicity is of no use here, a transaction stays open for minutes; so
what an unfinished one holds counts, and consumers of the lanes read uncommitted records.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from infra.kafka.client import confluent_producer
from infra.settings import Settings
from pipeline.ingest import metrics

log = structlog.get_logger(__name__)

MAX_UNACKED_MESSAGES: Final = 50_000
MAX_UNACKED_BYTES: Final = 128 << 20
TRANSACTION_TIMEOUT_S: Final = 900  # the longest that brokers allow by default
RENEW_S: Final = 300.0  # what is left of the timeout is the broker's outage that we outlast
STEP_S: Final = 1.0  # of a blocking call, which is repeated until it is through

CONFIG: Final[dict[str, Any]] = {
    "linger.ms": 1,
    "reconnect.backoff.max.ms": 1000,  # after an outage we write again before a standby takes over
    "transaction.timeout.ms": TRANSACTION_TIMEOUT_S * 1000,  # the messages' own is the same then
    # Above our own limits, so that `produce` always finds room.
    "queue.buffering.max.messages": 2 * MAX_UNACKED_MESSAGES,
    "queue.buffering.max.kbytes": (4 * MAX_UNACKED_BYTES) >> 10,
    "message.max.bytes": 16 << 20,  # a slot whose trades all fall on one partition
}

# A newer producer has the epoch, or the broker has ended the transaction.
_LOST: Final = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
        KafkaError._STATE,
        KafkaError._FATAL,
    }
)


class PublishFailed(Exception):
    """Kafka refused a message for good; the text says which topic and why."""


class LaneLost(Exception):
    """Another producer has the lane, or it must be taken over again; the text says why."""


class LaneProducer:
    """An idempotent producer that keeps each partition in order and retries what fails.

    `produce` never blocks; `poll` must be called every few milliseconds.
    """

    def __init__(self, settings: Settings, lane: str) -> None:
        self.unacked_bytes = 0
        self.delivered = asyncio.Event()  # set with each acknowledgement
        self._lane = lane
        config = {"transactional.id": f"soltape-ingest-{lane}", "error_cb": self._on_error}
        self._producer = Producer(confluent_producer(settings) | CONFIG | config)
        self._failure: str | None = None  # why Kafka refused a message
        self._lost: str | None = None
        self._down = False
        self._trouble = ""  # what librdkafka said last of a connection
        self._renew_at = 0.0
        self._renewing = False
        self._commit: asyncio.Task[None] | None = None
        self._closing = False
        self._held: deque[Callable[[], None]] = deque()  # for the next transaction

    def __len__(self) -> int:
        """Return how many messages are not acknowledged."""
        return len(self._producer) + len(self._held)

    @property
    def has_room(self) -> bool:
        """Whether Kafka has caught up enough for more to be produced."""
        return len(self) < MAX_UNACKED_MESSAGES and self.unacked_bytes < MAX_UNACKED_BYTES

    async def take_over(self) -> None:
        """Begin the lane's next epoch: when this returns, no older producer can write.

        Raises PublishFailed where the broker does not allow it.
        """
        try:
            await asyncio.to_thread(self._repeat, self._producer.init_transactions)
            self._begin()
        except KafkaException as error:
            raise PublishFailed(f"lane {self._lane}: {error.args[0].str()}") from None

    def produce(
        self,
        topic: str,
        partition: int,
        value: bytes,
        on_ack: Callable[[], None],
        key: str | None = None,
    ) -> None:
        """Send a message; `on_ack` is called by `poll`."""
        self.unacked_bytes += len(value)
        on_delivery = partial(self._on_delivery, topic, len(value), time.monotonic(), on_ack)
        send = partial(
            self._send, topic, value=value, key=key, partition=partition, on_delivery=on_delivery
        )
        if self._renewing:
            self._held.append(send)
        else:
            send()

    def poll(self) -> None:
        """Take acknowledgements, and renew the transaction. Raises LaneLost, PublishFailed."""
        try:
            self._producer.poll(0)
            self._renew()
        except KafkaException as error:
            self._refused(f"lane {self._lane}", error.args[0])
        if self._failure is not None:
            raise PublishFailed(self._failure)
        if self._lost is not None:
            raise LaneLost(self._lost)

    async def close(self, timeout_s: float) -> int:
        """Send what is buffered; return how many messages Kafka did not acknowledge in time."""
        self._closing = True
        if self._commit is not None:
            await asyncio.wait((self._commit,))
        await asyncio.to_thread(self._finish, timeout_s)
        return len(self)

    def _finish(self, timeout_s: float) -> None:
        try:
            if self._renewing:
                self._begin()
            if self._lost is None and not self._producer.flush(timeout_s):
                self._producer.commit_transaction(STEP_S)
        except KafkaException as error:
            log.info("transaction not committed", reason=error.args[0].str())

    def _begin(self) -> None:
        self._producer.begin_transaction()
        self._renew_at = time.monotonic() + RENEW_S
        self._renewing = False
        while self._held:
            self._held.popleft()()

    def _renew(self) -> None:
        """Commit when it is time; messages wait meanwhile, a fraction of a second."""
        if not self._renewing:
            self._renewing = time.monotonic() >= self._renew_at
        elif self._commit is not None:
            if self._commit.done():
                commit, self._commit = self._commit, None
                commit.result()
                self._begin()
        elif not len(self._producer):  # acknowledged: no callback runs in the other thread
            work = asyncio.to_thread(self._repeat, self._producer.commit_transaction)
            self._commit = asyncio.create_task(work)

    def _repeat(self, call: Callable[[float], None]) -> None:
        """Call until it is through; raises KafkaException where repeating does not help."""
        while True:
            try:
                call(STEP_S)
            except KafkaException as error:
                if self._closing or not error.args[0].retriable():
                    raise
            else:
                return

    def _send(self, topic: str, **message: Any) -> None:
        try:
            self._producer.produce(topic, **message)
        except KafkaException as error:  # the lane was lost, and we have not polled since
            self._refused(topic, error.args[0])

    def _on_delivery(
        self,
        topic: str,
        size: int,
        produced: float,
        on_ack: Callable[[], None],
        error: KafkaError | None,
        _: Message,
    ) -> None:
        self.unacked_bytes -= size
        self.delivered.set()
        if error is not None:
            self._refused(topic, error)
            return
        if self._down:
            self._down = False
            metrics.KAFKA_DOWN.set(0)
            log.info("Kafka is back")
        metrics.PUBLISH_LATENCY.labels(topic).observe((time.monotonic() - produced) * 1000)
        on_ack()

    def _on_error(self, error: KafkaError) -> None:
        """Take an error of librdkafka, which retries what is not fatal."""
        if error.fatal():
            self._refused(f"lane {self._lane}", error)
        elif error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._trouble = error.str()
        elif not self._down:
            self._down = True
            metrics.KAFKA_DOWN.set(1)
            log.warning(
                "Kafka is not reachable: holding what is unacknowledged, retrying",
                cause=self._trouble or error.str(),
            )

    def _refused(self, what: str, error: KafkaError) -> None:
        text = f"{what}: {error.str()}"
        if error.code() in _LOST or error.txn_requires_abort():
            if self._lost is None or error.fatal():  # which says more than what comes of it
                self._lost = text
        else:
            self._failure = self._failure or text
