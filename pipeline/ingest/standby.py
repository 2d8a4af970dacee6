"""A warm standby: waits while another process has the lane, with the stream's end at hand.

What another process writes is the sign that it is alive: the lane's log grows with every slot. When
it has not grown for INGEST_TAKEOVER_S although the chain goes on, the standby takes over. That only
decides when. The epoch (`lane_producer`) keeps two from writing at once, so a wrong guess costs a
restart and nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final

import structlog
from aiokafka.errors import KafkaError
from google.protobuf.message import DecodeError

from infra.kafka import topics
from infra.kafka.client import KafkaUnreachable
from infra.kafka.topics import TopicsWrong
from infra.settings import Settings
from pipeline.ingest import metrics
from pipeline.ingest.intake import Connected, Intake
from schemas.proto.geyser_pb2 import SubscribeUpdate
from schemas.topics import Topic

log = structlog.get_logger(__name__)

LOOK_S: Final = 0.5  # between looks at the log's end
TAKE: Final = 256
KEEP_S: Final = 15.0  # beside the silence: what was confirmed late, and the takeover itself
KEEP_BYTES: Final = 128 << 20
WHOLE_AFTER_SLOTS: Final = 4  # ended on the connection before a slot that is known whole on it


class Standby:
    """Watches the topic `pulse`, to which the lane's producer writes with every slot.

    Methods raise KafkaUnreachable, TopicsWrong or TimeoutError where the log cannot be read at the
    beginning; later that is waited for.
    """

    def __init__(self, settings: Settings, pulse: Topic, intake: Intake) -> None:
        self._settings = settings
        self._takeover_s = settings.ingest_takeover_s
        self._pulse = pulse
        self._intake = intake
        self._kept: deque[tuple[float, bytes]] = deque()  # since the last connection
        self._kept_bytes = 0
        self._ends: dict[int, int] | None = None  # of the log; None: not known now
        self._alone_since: float | None = None  # first sign of the chain since the log grew

    async def is_idle(self) -> bool:
        """Return whether no record came for INGEST_TAKEOVER_S."""
        self._ends = await topics.end_offsets(self._settings, self._pulse)
        last = await topics.last_records(self._settings, self._pulse)
        newest_ms = max((record.timestamp for record in last.values()), default=0)
        silent_s = max(0.0, time.time() - newest_ms / 1000)
        self._alone_since = time.monotonic() - silent_s
        return silent_s >= self._takeover_s

    async def run(self, streaming: asyncio.Task[None]) -> None:
        """Return when it is time to take over; `streaming` fills the intake meanwhile."""
        parts = asyncio.create_task(self._watch()), asyncio.create_task(self._keep())
        metrics.STANDBY.set(1)
        try:
            done, _ = await asyncio.wait((*parts, streaming), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            metrics.STANDBY.set(0)
            for task in parts:
                task.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    def hand_over(self, settled: int | None) -> bool:
        """Put what was kept into the intake, if that is all from the slot after `settled` on."""
        if settled is None:
            return False
        seen = 0
        for _, raw in self._kept:
            slot = _meta_slot(raw)
            seen += slot is not None and slot <= settled
            if seen == WHOLE_AFTER_SLOTS:
                kept = (raw for _, raw in self._kept)
                self._intake.put_back([Connected(from_slot=settled + 1), *kept])
                return True
        return False

    async def _keep(self) -> None:
        while True:
            items = await self._intake.take(TAKE)
            now = time.monotonic()
            for item in items:
                if isinstance(item, Connected):
                    self._kept.clear()
                    self._kept_bytes = 0
                else:
                    self._kept.append((now, item))
                    self._kept_bytes += len(item)
            if self._alone_since is None:
                self._alone_since = now
            oldest = now - self._takeover_s - KEEP_S
            while self._kept and (self._kept[0][0] < oldest or self._kept_bytes > KEEP_BYTES):
                self._kept_bytes -= len(self._kept.popleft()[1])
            metrics.STANDBY_BYTES.set(self._kept_bytes)
            await asyncio.sleep(0)

    async def _watch(self) -> None:
        """Return when the log has not grown for long enough although the chain goes on."""
        while True:
            try:
                async with topics.reader(self._settings) as consumer:
                    places = await topics.partitions(self._settings, self._pulse)
                    while True:
                        async with asyncio.timeout(self._takeover_s):
                            ends = await consumer.end_offsets(places)
                        if self._look({place.partition: end for place, end in ends.items()}):
                            return
                        await asyncio.sleep(LOOK_S)
            except (KafkaError, KafkaUnreachable, TopicsWrong, TimeoutError) as error:
                if self._ends is not None:  # once an outage
                    reason = str(error) or "no answer in time"
                    log.warning("cannot see the log's end: waiting for Kafka", reason=reason)
                self._ends = None
                await asyncio.sleep(LOOK_S)

    def _look(self, ends: dict[int, int]) -> bool:
        """Take where the log ends now; say whether its producer has been silent long enough."""
        if ends != self._ends:
            self._ends, self._alone_since = ends, None
        since = self._alone_since
        return since is not None and time.monotonic() - since >= self._takeover_s


def _meta_slot(raw: bytes) -> int | None:
    try:
        update = SubscribeUpdate.FromString(raw)
    except DecodeError:
        return None
    return update.block_meta.slot if update.WhichOneof("update_oneof") == "block_meta" else None
