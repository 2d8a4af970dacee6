"""The live streams and last prices in Redis: written in flushes, each event once, holes announced.

A flush is one MULTI: the frames of all batches since the last one, an entry a stream; the state
of the prices that changed; and the fence, the offset of the last batch of each partition. All of
it is under one hash tag, so that this holds in a cluster as well: divided, a crash between the two
halves would leave a price without its frame, or a frame whose price a snapshot does not have. What
Redis has by its fence is not written again, so a restart or an answer that got lost repeats
nothing. An offset that does not follow the fence is a hole, and the epoch changes with it, unless
the log has nothing between: markers of transactions take offsets and are no batches. Prices
have no offset: each writer numbers its own, for as long as it runs.

Redis being away stops nothing here: Kafka is served on, batches do not wait for Redis, and frames
and prices are held until it is back, LIVE_HOLD_MIB of frames at most. Beyond, the oldest go, and
the epoch changes when Redis is back.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import structlog
from aiokafka.errors import KafkaError
from redis.asyncio import Redis

from infra.backoff import Backoff
from infra.kafka.client import KafkaUnreachable
from infra.redis.client import RedisError
from pipeline.agents.live import metrics
from pipeline.agents.live.receipt import Receipt
from schemas import channels
from schemas.channels import Channel, LiveEvent
from schemas.redis_keys import LIVE_EPOCH, LIVE_FENCE, LIVE_FORMERLY, LIVE_PRICES_WRITTEN

log = structlog.get_logger(__name__)

PAUSE_S: Final = 0.01  # between flushes: what comes meanwhile shares the next
BACKOFF_S: Final = (0.25, 2.0)
MAX_FLUSH_BYTES: Final = 4 << 20
LEAST_ENTRIES: Final = 100
NO_EPOCH: Final = "Redis knows of none"
_ENTRY_BYTES: Final = 200  # of Redis and of the index, beside the frames

Commands = Callable[[], Iterable[tuple[Any, ...]]]
# Whether tape-live's partition (first) has no record from an offset to the one at another.
NoneBetween = Callable[[int, int, int], Awaitable[bool]]


class Place(NamedTuple):
    """Position of a batch in tape-live."""

    partition: int
    offset: int
    sent_ms: int


class Fence(NamedTuple):
    """The last batch of a partition that is in the streams.

    `sent_ms` separates a recreated topic, whose offsets begin again, from a repetition.
    """

    offset: int
    sent_ms: int

    @classmethod
    def of(cls, text: bytes) -> Fence:
        """Return what Redis holds of one."""
        offset, _, sent_ms = text.partition(b" ")
        return cls(int(offset), int(sent_ms))

    def holds(self, place: Place) -> bool:
        """Whether the batch is in the streams."""
        return place.offset <= self.offset and place.sent_ms <= self.sent_ms


@dataclass(slots=True)
class _Batch:
    place: Place | int  # of prices their number
    events: Sequence[tuple[Channel, LiveEvent]]
    receipts: Sequence[Receipt]
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = sum(len(event.frame) for _, event in self.events)


class LiveStreams:
    """The writer of the live streams, and of whatever state goes with them."""

    def __init__(
        self,
        redis: Redis,
        *,
        stream_bytes: int,
        hold_bytes: int,
        none_between: NoneBetween | None = None,
    ) -> None:
        self._redis = redis
        self._none_between = none_between
        self._stream_bytes = stream_bytes
        self._hold_bytes = hold_bytes
        self._waiting: deque[_Batch] = deque()
        self._held_bytes = 0
        self._changed: dict[str, Commands] = {}  # key -> what writes its state as of then
        self._fences: dict[int, Fence] = {}
        self._current = False  # fences and epoch are what Redis has
        self._ours: dict[int, Fence] = {}  # what Redis has acknowledged to us
        self._entries: dict[str, bytes] = {}  # stream -> the last entry that it has acknowledged
        self._epoch = ""
        self._writer = secrets.token_hex(4)
        self._prices = 0  # batches of them so far
        self._prices_written = 0  # the number of the last that Redis has
        self._founded = False  # the epoch is ours: what a partition had before is not missing in it
        self._hole: str | None = None  # why the next flush begins an epoch
        self._mean_bytes: dict[str, float] = defaultdict(lambda: 2000.0)
        self._wake = asyncio.Event()
        self._writing = asyncio.Lock()
        self.away = False

    def add(
        self,
        place: Place | None,
        events: Sequence[tuple[Channel, LiveEvent]],
        receipts: Sequence[Receipt],
    ) -> None:
        """Take the frames of a batch, or of prices; its receipts are released when they are in.

        While Redis is away they are released at once.
        """
        for receipt in receipts:
            receipt.hold()
        if place is None:
            self._prices += 1
        batch = _Batch(self._prices if place is None else place, events, receipts)
        self._waiting.append(batch)
        self._held_bytes += batch.size
        if self.away:
            self._release(batch)
        while self._held_bytes > self._hold_bytes and len(self._waiting) > 1:
            self._drop()
        self._wake.set()

    def state(self, key: str, commands: Commands) -> None:
        """Note that a key's state has changed; the next flush asks what to write."""
        self._changed[key] = commands
        self._wake.set()

    def will_write(self, key: str) -> bool:
        """Return whether a key's state waits for the next flush."""
        return key in self._changed

    def lost_touch(self, error: Exception) -> None:
        """Hear that Redis did not answer."""
        if not self.away:
            self.away = True
            metrics.REDIS_AWAY.set(1)
            log.warning(
                "Redis is away: live frames and last prices wait, Kafka goes on",
                reason=f"{type(error).__name__}: {error}",
            )
        for batch in self._waiting:
            self._release(batch)
        self._wake.set()

    def handed_over(self) -> None:
        """Hear that others may write for our partitions from here on."""
        self._current = False
        self._founded = False
        self._ours.clear()
        self._entries.clear()
        self._changed.clear()

    async def run(self) -> None:
        """Flush whenever there is something, until cancelled."""
        backoff = Backoff(*BACKOFF_S)
        while True:
            await self._wake.wait()
            self._wake.clear()
            if await self.flush():
                backoff.reset()
            else:
                self._wake.set()
                await backoff.wait()
            await asyncio.sleep(PAUSE_S)

    async def flush(self) -> bool:
        """Write what waits; False where Redis is away."""
        metrics.HELD_BYTES.set(self._held_bytes)
        try:
            async with self._writing:
                await self._recall()
                while self._waiting or self._changed:
                    await self._write()
                    await self._recall()
        except (RedisError, OSError) as error:
            self._current = False  # Redis may have lost something
            self.lost_touch(error)
            return False
        if self.away:
            self.away = False
            metrics.REDIS_AWAY.set(0)
            log.info("Redis is back")
        return True

    async def _recall(self) -> None:
        """Read how far the streams are, and whether Redis has lost what it acknowledged."""
        if self._current:
            return
        self._current = True  # until an answer says otherwise
        async with self._redis.pipeline(transaction=False) as pipeline:
            pipeline.get(LIVE_EPOCH.make())
            pipeline.get(LIVE_PRICES_WRITTEN.make(writer=self._writer))
            pipeline.hgetall(LIVE_FENCE.make())
            entries = dict(self._entries)
            for stream, entry_id in entries.items():
                pipeline.xrange(stream, entry_id, entry_id, count=1)
            epoch, prices_written, stored, *found = await pipeline.execute()
        self._prices_written = int(prices_written or 0)
        fences = {int(partition): Fence.of(text) for partition, text in stored.items()}
        if epoch is None:
            self._hole = self._hole or NO_EPOCH
            self._founded = True
            async with self._redis.pipeline(transaction=False) as pipeline:
                for name in LIVE_FORMERLY:  # one by one: they are of no one tag
                    pipeline.unlink(name)
                await pipeline.execute()
        else:
            self._epoch = epoch.decode()
        for partition, ours in self._ours.items():
            if fences.get(partition, Fence(-1, 0)) < ours:
                self._hole = f"Redis has lost what it held of partition {partition}"
        for stream, entry in zip(entries, found, strict=True):
            if not entry:  # fences do not cover prices
                self._entries.pop(stream, None)
                self._hole = self._hole or f"Redis has lost the end of {stream}"
        self._fences = fences

    async def _write(self) -> None:
        looked_at = self._first()
        after_markers = await self._after_markers(looked_at)
        fences, batches = dict(self._fences), self._take(looked_at)  # none that came meanwhile
        events: dict[Channel, list[LiveEvent]] = defaultdict(list)
        for batch in batches:
            if self._is_new(batch.place, fences, after_markers):
                for channel, event in batch.events:
                    events[channel].append(event)
        changed, self._changed = self._changed, {}
        hole, self._hole = self._hole, None
        if hole is not None:
            self._epoch = f"{int(time.time() * 1000)}-{secrets.token_hex(4)}"
        try:
            async with self._redis.pipeline(transaction=True) as pipeline:
                if hole is not None:
                    pipeline.set(LIVE_EPOCH.make(), self._epoch)
                for channel, some in events.items():
                    pipeline.execute_command(*self._entry(channel, some))
                ours = {each.place.partition for each in batches if isinstance(each.place, Place)}
                if ours:
                    marks = [part for p in ours for part in (p, f"{fences[p][0]} {fences[p][1]}")]
                    pipeline.execute_command("HSET", LIVE_FENCE.make(), *marks)
                if prices := [each.place for each in batches if isinstance(each.place, int)]:
                    key = LIVE_PRICES_WRITTEN
                    name = key.make(writer=self._writer)
                    pipeline.execute_command("SET", name, prices[-1], "EX", key.ttl_s)
                for commands in changed.values():
                    for command in commands():
                        pipeline.execute_command(*command)
                pipeline.get(LIVE_EPOCH.make())
                *answers, epoch = await pipeline.execute()
        except BaseException:
            self._current = False  # it may have been written, whatever kept us from hearing so
            self._waiting.extendleft(reversed(batches))
            self._held_bytes += sum(batch.size for batch in batches)
            self._changed = changed | self._changed
            self._hole = self._hole or hole
            raise
        first = 0 if hole is None else 1  # SET came before
        written = answers[first : first + len(events)]
        self._entries |= {ch.stream: at for ch, at in zip(events, written, strict=True)}
        self._fences = fences
        self._ours |= {partition: fences[partition] for partition in ours}
        if epoch is None:  # emptied while we were connected
            self._current = False
        else:
            self._epoch = epoch.decode()  # another writer's may be newer
        for channel, some in events.items():
            metrics.FRAMES.labels(channel.stream).inc(len(some))
        if hole is not None:
            metrics.EPOCHS.inc()
            report = log.info if hole == NO_EPOCH else log.warning
            report("a new epoch of the live streams", epoch=self._epoch, reason=hole)
        for batch in batches:
            self._release(batch)

    def _first(self) -> list[_Batch]:
        """Return what goes into one flush of those that wait."""
        batches, size = [], 0
        for batch in self._waiting:
            if size >= MAX_FLUSH_BYTES:
                break
            batches.append(batch)
            size += batch.size
        return batches

    def _take(self, batches: list[_Batch]) -> list[_Batch]:
        """Take batches off those that wait, as far as they still do."""
        wanted = {id(batch) for batch in batches}
        taken = []
        while self._waiting and id(self._waiting[0]) in wanted:
            taken.append(self._waiting.popleft())
        self._held_bytes -= sum(batch.size for batch in taken)
        return taken

    def _is_new(
        self, place: Place | int, fences: dict[int, Fence], after_markers: set[Place]
    ) -> bool:
        """Say whether a batch is not in the streams yet, and move the fence past it."""
        if isinstance(place, int):
            return place > self._prices_written
        fence = fences.get(place.partition)
        if fence is not None and fence.holds(place):
            return False
        follows = 0 if fence is None else fence.offset + 1
        began = fence is None and self._founded
        if place.offset != follows and not began and place not in after_markers:
            self._hole = f"tape-live[{place.partition}] goes on at {place.offset}, not at {follows}"
        sent_ms = place.sent_ms if fence is None else max(fence.sent_ms, place.sent_ms)
        fences[place.partition] = Fence(place.offset, sent_ms)
        return True

    async def _after_markers(self, batches: list[_Batch]) -> set[Place]:
        """Return the places of batches before which the log has but transactions' markers."""
        if self._none_between is None:
            return set()
        expected = {partition: fence.offset + 1 for partition, fence in self._fences.items()}
        jumps = []
        for batch in batches:
            if isinstance(place := batch.place, Place):
                first = expected.get(place.partition, place.offset if self._founded else 0)
                if place.offset > first:
                    jumps.append((place, first))
                expected[place.partition] = place.offset + 1
        try:
            found = await asyncio.gather(
                *(self._none_between(at.partition, first, at.offset) for at, first in jumps)
            )
        except (KafkaError, KafkaUnreachable, TimeoutError) as error:
            log.warning("cannot see what the log has before a batch", reason=str(error))
            return set()
        return {
            place for (place, _), none_between in zip(jumps, found, strict=True) if none_between
        }

    def _entry(self, channel: Channel, events: list[LiveEvent]) -> tuple[Any, ...]:
        fields = channels.pack(self._epoch, events)
        size = len(fields["index"]) + len(fields["frames"]) + _ENTRY_BYTES
        mean = self._mean_bytes[channel.stream]
        mean = self._mean_bytes[channel.stream] = mean + (size - mean) / 256
        entries = max(LEAST_ENTRIES, int(self._stream_bytes / mean))
        parts = [part for item in fields.items() for part in item]
        return ("XADD", channel.stream, "MAXLEN", "~", entries, "*", *parts)

    def _drop(self) -> None:
        batch = self._waiting.popleft()
        self._held_bytes -= batch.size
        self._release(batch)
        self._hole = "frames were dropped while Redis was away"
        for stream, count in Counter(channel.stream for channel, _ in batch.events).items():
            metrics.FRAMES_DROPPED.labels(stream).inc(count)

    def _release(self, batch: _Batch) -> None:
        for receipt in batch.receipts:
            receipt.release()
        batch.receipts = ()
