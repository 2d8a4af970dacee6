"""Writes the lanes to Kafka, and knows what Kafka has acknowledged.

One idempotent, fenced producer (`lane_producer`): it retries and keeps each partition in order,
so a broker's outage of up to ten minutes only makes us wait. Beyond, or where another process has
taken over, the lane is lost, and its next producer continues from the log's tail. The live
lane is at-least-once (a takeover or restart may send events again), and so are gaps; in the
settled lanes each partition has each slot once. Only where a process is killed amid a slot that
no node has any more, some partitions lack it: a gap says so.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

import structlog

from infra.settings import Settings
from pipeline.ingest import metrics
from pipeline.ingest.finality import Counts, Gap
from pipeline.ingest.lane_producer import LaneProducer
from pipeline.ingest.lanes import batches_of, outcomes_of
from pipeline.ingest.ledger import Settled
from pipeline.ingest.log_tail import LogTail
from pipeline.ingest.valuation import Reference, decimal_text
from schemas.codec import add_event
from schemas.events import Event
from schemas.proto import tape_pb2
from schemas.solana.networks import network_of
from schemas.topics import GAPS, LIVE, UNDECODED, Topic

log = structlog.get_logger(__name__)

LANE: Final = "transactions"
FLUSH_S: Final = 0.008  # the live lane waits at most this long for company
MAX_UNDECODED_BYTES: Final = 256 << 10


class Publisher:
    """The lanes of one ingest process.

    `take_over` comes first, then `continue_from` with the log's tail as it is from then on.
    """

    def __init__(self, settings: Settings) -> None:
        self.published: int | None = None  # last slot that all its partitions have acknowledged
        self._tail = LogTail()
        self._producer = LaneProducer(settings, LANE)
        self._live = [tape_pb2.LiveBatch() for _ in range(LIVE.partitions)]
        self._sol_usd = ""  # that the live lane's events are valued with
        self._genesis_hash = ""  # of the chain; empty while it is unknown
        self._live_created_ms: list[list[int]] = [[] for _ in range(LIVE.partitions)]
        self._unacked: OrderedDict[int, int] = OrderedDict()  # slot -> messages
        self._first_slot_acked = asyncio.Event()

    async def take_over(self) -> None:
        """Fence the process that published before; raises PublishFailed."""
        await self._producer.take_over()

    def continue_from(self, tail: LogTail) -> None:
        """Leave out what the settled lanes already have."""
        self._tail = tail
        self.published = tail.settled
        self._sol_usd = decimal_text(tail.sol_usd)

    def identified(self, genesis_hash: str | None) -> None:
        """Name the chain that the events are of from here on; None: it is unknown."""
        if genesis_hash and genesis_hash != self._genesis_hash:
            log.info("chain", genesis_hash=genesis_hash, network=network_of(genesis_hash))
        self._genesis_hash = genesis_hash or ""

    async def run(self) -> None:
        """Flush the live lane and take acknowledgements until cancelled.

        Raises LaneLost, PublishFailed.
        """
        while True:
            self.flush_live()
            self._producer.poll()
            metrics.KAFKA_QUEUE.set(len(self._producer))
            await asyncio.sleep(FLUSH_S)

    def event(self, event: Event, created_ms: int | None = None) -> None:
        """Put an event on the live lane; with `created_ms` its latency is measured."""
        partition = LIVE.partition(event.mint)
        add_event(self._live[partition].events, event)
        if created_ms is not None:
            self._live_created_ms[partition].append(created_ms)

    def slot_status(
        self,
        slot: int,
        parent: int | None,
        status: tape_pb2.SlotStatus.Status,
        block_time_ms: int,
        counts: Counts,
    ) -> None:
        """Put what became of a slot on the live lane."""
        self._live[LIVE.partition(str(slot))].events.add(
            slot_status=tape_pb2.SlotStatus(
                slot=slot,
                parent=parent,
                status=status,
                block_time_ms=block_time_ms,
                transactions=counts.transactions,
                events=counts.events,
                outcomes=outcomes_of(counts),
            )
        )

    def undecoded(self, undecoded: tape_pb2.Undecoded) -> None:
        """Publish what no decoder could read; `data` is cut where it would not fit a message."""
        undecoded.data = undecoded.data[:MAX_UNDECODED_BYTES]
        partition = UNDECODED.partition(undecoded.signature)
        self._produce(UNDECODED, partition, undecoded.SerializeToString(), self._acked)

    async def gap(self, gap: Gap, wallets: Collection[str] = ()) -> None:
        """Publish a gap, and wait until Kafka has it: no later slot may be settled before.

        `wallets` are those whose figures have more than the chain, as a slot was rolled back.
        """
        record = tape_pb2.SlotGap(
            first_slot=gap.first,
            last_slot=gap.last,
            reason=gap.reason,
            detected_ms=time.time_ns() // 1_000_000,
            wallets=sorted(wallets),
        )
        self._live[LIVE.partition(str(gap.first))].events.add(slot_gap=record)
        acked = asyncio.Event()

        def on_ack() -> None:
            acked.set()
            self._acked()

        self._produce(
            GAPS, GAPS.partition(str(gap.first)), record.SerializeToString(), on_ack, str(gap.first)
        )
        await acked.wait()

    async def settle(self, settled: Settled, reference: Reference) -> None:
        """Publish a settled slot, one batch a partition; slots must come in ascending order.

        `reference` is the slot's, and the live lane's from now on.
        """
        self._sol_usd = reference.sol_usd
        lanes = await batches_of(settled, reference)
        on_ack = partial(self._slot_acked, settled.slot)
        self._unacked[settled.slot] = 1  # held until all its messages are produced
        for topic, batches in lanes:
            for partition, batch in enumerate(batches):
                if not self._tail.has((topic.name, partition), settled.slot):
                    self._unacked[settled.slot] += 1
                    self._produce(topic, partition, batch.SerializeToString(), on_ack)
        self._slot_acked(settled.slot)
        if self._tail.some_empty:
            # After a crash now, the other partitions must show which slot the empty ones lack.
            await self._first_slot_acked.wait()
            self._tail.some_empty = False

    async def room(self) -> None:
        """Wait until Kafka has caught up enough for more to be produced."""
        producer = self._producer
        if producer.has_room:
            return
        metrics.KAFKA_STALLS.inc()
        log.warning(
            "waiting for Kafka",
            unacknowledged=len(producer),
            unacknowledged_bytes=producer.unacked_bytes,
        )
        while not producer.has_room:
            producer.delivered.clear()
            await producer.delivered.wait()

    async def close(self, timeout_s: float) -> int:
        """Send what is buffered; return how many messages Kafka did not acknowledge in time."""
        self.flush_live()
        return await self._producer.close(timeout_s)

    def flush_live(self) -> None:
        """Send what the live lane holds."""
        now_ms = time.time_ns() // 1_000_000
        for partition, batch in enumerate(self._live):
            if batch.events:
                batch.sent_ms = now_ms
                batch.sol_usd = self._sol_usd
                batch.genesis_hash = self._genesis_hash
                on_ack = partial(self._live_acked, self._live_created_ms[partition])
                self._produce(LIVE, partition, batch.SerializeToString(), on_ack)
                self._live[partition] = tape_pb2.LiveBatch()
                self._live_created_ms[partition] = []

    def _produce(
        self,
        topic: Topic,
        partition: int,
        value: bytes,
        on_ack: Callable[[], None],
        key: str | None = None,
    ) -> None:
        self._producer.produce(topic.name, partition, value, on_ack, key)

    @staticmethod
    def _acked() -> None:
        """Nothing depends on it."""

    @staticmethod
    def _live_acked(created_ms: list[int]) -> None:
        now_ms = time.time_ns() / 1_000_000
        for created in created_ms:
            metrics.LIVE_LATENCY.observe(now_ms - created)

    def _slot_acked(self, slot: int) -> None:
        self._unacked[slot] -= 1
        while self._unacked:
            first, messages = next(iter(self._unacked.items()))
            if messages:
                break
            del self._unacked[first]
            self.published = first
            self._first_slot_acked.set()
            metrics.PUBLISHED_SLOT.set(first)
