"""Writes the lane of accounts to Kafka, through the same fenced producer as the other lanes."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Final

from infra.settings import Settings
from pipeline.ingest import metrics
from pipeline.ingest.accounts.tail import AccountTail
from pipeline.ingest.lane_producer import LaneProducer
from schemas.proto.tape_pb2 import SlotBatch
from schemas.topics import SETTLED_ACCOUNTS

LANE: Final = "accounts"
POLL_S: Final = 0.004


class AccountPublisher:
    """The lane of accounts of one process; `take_over` first, then `continue_from`."""

    def __init__(self, settings: Settings) -> None:
        self.published: int | None = None  # last slot that all partitions have acknowledged
        self._tail = AccountTail()
        self._producer = LaneProducer(settings, LANE)
        self._unacked: OrderedDict[int, int] = OrderedDict()  # slot -> messages
        self._acked = asyncio.Event()

    async def take_over(self) -> None:
        """Fence the process that published before; raises PublishFailed."""
        await self._producer.take_over()

    def continue_from(self, tail: AccountTail) -> None:
        """Leave out what the lane has already."""
        self._tail = tail
        self.published = tail.settled

    async def run(self) -> None:
        """Take acknowledgements until cancelled; raises LaneLost, PublishFailed."""
        while True:
            self._producer.poll()
            metrics.KAFKA_QUEUE.set(len(self._producer))
            await asyncio.sleep(POLL_S)

    async def settle(self, slot: int, batches: Sequence[SlotBatch]) -> None:
        """Publish a slot, a batch a partition; slots come in ascending order."""
        await self._room()
        on_ack = partial(self._slot_acked, slot)
        self._unacked[slot] = 1  # held until all its messages are produced
        for partition, batch in enumerate(batches):
            if not self._tail.has(partition, slot):
                self._unacked[slot] += 1
                self._producer.produce(
                    SETTLED_ACCOUNTS.name, partition, batch.SerializeToString(), on_ack
                )
        self._slot_acked(slot)
        if self._tail.some_empty:
            # After a crash now, the other partitions must say which slot the empty ones lack.
            await self.acknowledged(slot)
            self._tail.some_empty = False

    async def acknowledged(self, slot: int) -> None:
        """Wait until Kafka has a slot on all partitions."""
        while self.published is None or self.published < slot:
            self._acked.clear()
            await self._acked.wait()

    async def close(self, timeout_s: float) -> int:
        """Send what is buffered; return how many messages Kafka did not acknowledge in time."""
        return await self._producer.close(timeout_s)

    async def _room(self) -> None:
        while not self._producer.has_room:
            self._producer.delivered.clear()
            await self._producer.delivered.wait()

    def _slot_acked(self, slot: int) -> None:
        self._unacked[slot] -= 1
        while self._unacked:
            first, messages = next(iter(self._unacked.items()))
            if messages:
                return
            del self._unacked[first]
            self.published = first
            self._acked.set()
            metrics.PUBLISHED_SLOT.set(first)
